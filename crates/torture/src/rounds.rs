//! The rounds: what is done to the server, and when.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::clients::{Shared, Writer, code_of};
use crate::disk::Disk;
use crate::ends::{DiskCan, End, Ends};
use crate::history::{Fate, Final};
use crate::readers::read;
use crate::report::Report;
use crate::server::{Refused, Server, Signal, check_binary, copy_folder, start, timely};
use crate::tables::{PROBE, SET_UP, WRITERS, changes_table};
use crate::trouble::{Asked, Trouble};
use crate::whole::last;
use crate::{Args, Outcome};

/// Readers a round.
const READERS: usize = 3;
/// How long after a trouble batches may be refused.
const RECOVERY_MAX: Duration = Duration::from_secs(20);
/// The SQLSTATE of what waits for a stage that is held.
const PAUSED: &str = "55000";
/// How many batches are left unsealed at most before a kill.
const UNSEALED_MAX: u32 = 12;
/// How many violations are printed.
const TOLD_MAX: usize = 20;

/// A tortured database.
pub(crate) struct Torture<'a> {
    pub(crate) args: &'a Args,
    pub(crate) folder: PathBuf,
    /// Where the files are kept while one of them is damaged: not on the small disk.
    pub(crate) kept: PathBuf,
    /// All that the servers say.
    pub(crate) log: PathBuf,
    pub(crate) disk: Option<Disk>,
    pub(crate) dice: SmallRng,
    ends: Ends,
    pub(crate) shared: Shared,
    writers: Vec<Writer>,
    /// Writes alone, where all must be well.
    probe: Writer,
    /// What was there at the last start.
    there: Final,
    /// Runs of the authority that were there before the rounds, and at any start.
    at_first: BTreeSet<u64>,
    merged: BTreeSet<u64>,
    pub(crate) report: Report,
}

/// Tortures; true if nothing was found.
///
/// # Errors
/// What keeps it from beginning; all else is a finding.
pub(crate) async fn torture(args: &Args) -> Outcome<bool> {
    let began = Instant::now();
    check_binary(&args.binary)?;
    let temporary = match &args.dir {
        Some(dir) => {
            std::fs::create_dir_all(dir)?;
            tempfile::tempdir_in(dir)?
        }
        None => tempfile::tempdir()?,
    };
    let place = temporary.path().join("disk");
    let disk = Disk::mount(&place)?;
    if args.require_disk && disk.is_none() {
        return Err("no file system can be mounted here".into());
    }
    let mut torture = Torture {
        args,
        folder: place.join("db"),
        kept: temporary.path().join("kept"),
        log: temporary.path().join("stderr.txt"),
        dice: SmallRng::seed_from_u64(args.seed),
        shared: Shared::new(),
        writers: (1..=WRITERS)
            .map(|register| Writer::new(register, register % 2 == 0, args.seed))
            .collect(),
        probe: Writer::new(PROBE, false, args.seed),
        there: Final::new(),
        at_first: BTreeSet::new(),
        merged: BTreeSet::new(),
        ends: Ends::of(match &disk {
            None => DiskCan::Nothing,
            Some(disk) if disk.can_fail() => DiskCan::Fail,
            Some(_) => DiskCan::Refuse,
        }),
        report: Report {
            disk: disk.as_ref().map_or("none", Disk::kind),
            answers_by: vec![0; READERS],
            ..Report::default()
        },
        disk,
    };
    let skipped = match torture.report.disk {
        "none" => "full and read-only disks: a file system can't be mounted here",
        "tmpfs" => {
            "disks that fail: ext4 in a file can't be mounted here, so the disk is in memory"
        }
        _ => "",
    };
    if !skipped.is_empty() {
        torture.report.skipped.push(skipped.to_owned());
    }
    if let Err(error) = torture.rounds(began).await {
        torture.shared.violated(error.to_string());
    }
    if let Err(error) = torture.judge().await {
        torture.shared.violated(error.to_string());
    }
    torture.report.seconds = began.elapsed().as_secs();
    torture.tell()
}

impl Torture<'_> {
    async fn rounds(&mut self, began: Instant) -> Outcome<()> {
        self.set_up().await?;
        let limit = Duration::from_secs(self.args.seconds);
        let (rounds, corruptions) = (self.args.rounds, self.args.corruptions);
        let every = rounds.div_ceil(corruptions.max(1)).max(1);
        while self.report.rounds < rounds && began.elapsed() < limit {
            self.round().await?;
            self.report.rounds += 1;
            let done = self.report.rounds;
            let due = u64::from(done) * u64::from(corruptions) / u64::from(rounds.max(1));
            while u64::from(self.report.corruptions) < due && began.elapsed() < limit {
                self.corrupt().await?;
                if !self.shared.violations.lock().is_empty() {
                    return Ok(());
                }
            }
            if done % (every * 8) == 1 {
                self.read_only().await?;
            }
            if !self.shared.violations.lock().is_empty() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Makes the tables, in a life of their own.
    async fn set_up(&mut self) -> Outcome<()> {
        let server = match start(&self.args.binary, &self.folder, &self.log)? {
            Ok(server) => server,
            Err(Refused(said)) => return Err(format!("there is no database: {said}").into()),
        };
        let client = timely("a connection", server.connect()).await?;
        for text in SET_UP {
            timely("the tables", client.batch_execute(text)).await?;
        }
        self.at_first = timely("the runs", authority_runs(&client)).await?;
        drop(client);
        server.stop().await
    }

    /// Prints what was found; whether that is nothing.
    fn tell(&mut self) -> Outcome<bool> {
        let violations = self.shared.violations.lock().clone();
        let shortfalls = match violations.is_empty() {
            true => self.report.too_little(self.args),
            false => Vec::new(),
        };
        self.report.violations = violations.len();
        for violation in violations.iter().take(TOLD_MAX) {
            eprintln!("violated: {violation}");
        }
        for shortfall in &shortfalls {
            eprintln!("too little to pass: {shortfall}");
        }
        if !violations.is_empty() {
            self.keep()?;
        }
        let passed = violations.is_empty() && shortfalls.is_empty();
        self.report.shortfalls = shortfalls;
        match self.args.json {
            true => println!("{}", serde_json::to_string(&self.report)?),
            false => println!("{}", serde_json::to_string_pretty(&self.report)?),
        }
        Ok(passed)
    }

    /// Keeps what a finding is about: what is on the small disk goes with it.
    fn keep(&self) -> Outcome<()> {
        let name = format!("lazybase-torture-{}-{}", self.args.seed, std::process::id());
        let place = self.args.dir.clone().unwrap_or_else(std::env::temp_dir);
        let place = place.join(name);
        std::fs::create_dir_all(&place)?;
        for (from, to) in [(&self.folder, "db"), (&self.kept, "before-damage")] {
            if from.exists() {
                copy_folder(from, &place.join(to))?;
            }
        }
        if self.log.exists() {
            std::fs::copy(&self.log, place.join("stderr.txt"))?;
        }
        eprintln!(
            "the database and what it said are kept in {}",
            place.display()
        );
        Ok(())
    }

    /// Starts the server; all that must be there is, and nothing else.
    pub(crate) async fn start(&mut self) -> Outcome<Server> {
        let began = Instant::now();
        match start(&self.args.binary, &self.folder, &self.log)? {
            Ok(server) => {
                let client = timely("a connection", server.connect()).await?;
                let (there, mut wrong) = timely("all rows", last(&client)).await?;
                let took = began.elapsed().as_millis() as u64;
                self.report.slowest_start_ms = self.report.slowest_start_ms.max(took);
                self.merged
                    .extend(timely("the runs", authority_runs(&client)).await?);
                let merged = self.merged.difference(&self.at_first);
                self.report.merges_to_authority = merged.count() as u64;
                wrong.extend(self.shared.history.lock().lost_or_invented(&there));
                for (register, numbers) in &self.there {
                    let gone: Vec<_> = match there.get(register) {
                        Some(now) => numbers.difference(now).collect(),
                        None => numbers.iter().collect(),
                    };
                    if !gone.is_empty() {
                        wrong.push(format!(
                            "register {register} had {gone:?} at a start before"
                        ));
                    }
                }
                for what in wrong {
                    self.shared.violated(format!("at a start: {what}"));
                }
                self.there = there;
                Ok(server)
            }
            Err(Refused(said)) => Err(format!("the database does not open: {said}").into()),
        }
    }

    /// One life of the server.
    async fn round(&mut self) -> Outcome<()> {
        let server = self.start().await?;
        let end = self.ends.draw(&mut self.dice);
        let over = Arc::new(AtomicBool::new(false));
        self.shared.calm();
        let writing: Vec<JoinHandle<Writer>> = std::mem::take(&mut self.writers)
            .into_iter()
            .map(|writer| {
                let (shared, over) = (self.shared.clone(), Arc::clone(&over));
                tokio::spawn(writer.write(shared, server.port(), over))
            })
            .collect();
        let reading: Vec<JoinHandle<u64>> = (0..READERS)
            .map(|_| {
                let (shared, over) = (self.shared.clone(), Arc::clone(&over));
                tokio::spawn(read(shared, server.port(), over, self.dice.random()))
            })
            .collect();
        let operating = tokio::spawn(operate(
            timely("a connection", server.connect()).await?,
            self.shared.clone(),
            Arc::clone(&over),
            self.dice.random(),
        ));
        self.wait(50..1_200).await;
        let ended = self.end(server, end, &over).await;
        over.store(true, Ordering::Relaxed);
        for writer in writing {
            self.writers.push(timely("a writer's end", writer).await?);
        }
        for (at, reader) in reading.into_iter().enumerate() {
            self.report.answers_by[at] += timely("a reader's end", reader).await?;
        }
        timely("the operator's end", operating).await?;
        ended
    }

    async fn end(&mut self, server: Server, end: End, over: &AtomicBool) -> Outcome<()> {
        match end {
            End::Kill => return self.kill(server),
            End::Stop => {}
            End::FreezeAndGoOn | End::FreezeAndKill => {
                self.report.freezes += 1;
                server.signal(Signal::Stop)?;
                self.wait(20..1_500).await;
                if end == End::FreezeAndKill {
                    return self.kill(server);
                }
                server.signal(Signal::Continue)?;
            }
            End::FillAndGoOn | End::FillAndKill => {
                self.report.fills += 1;
                *self.shared.trouble.lock() = Trouble::Full;
                let filler = self.disk()?.fill()?;
                self.wait(100..1_200).await;
                if end == End::FillAndKill {
                    return self.kill(server);
                }
                drop(filler);
            }
            End::ReadOnlyAndGoOn | End::ReadOnlyAndKill => {
                self.report.read_only_lives += 1;
                *self.shared.trouble.lock() = Trouble::ReadOnly;
                let cover = self.disk()?.cover()?;
                self.wait(100..1_200).await;
                if end == End::ReadOnlyAndKill {
                    return self.kill(server);
                }
                drop(cover);
            }
            End::FailAndKill => {
                self.report.failed_disks += 1;
                *self.shared.trouble.lock() = Trouble::ReadOnly;
                self.disk()?.fail()?;
                self.wait(100..1_200).await;
                self.kill(server)?;
                return self.disk()?.mend().await;
            }
        }
        if end != End::Stop {
            // It goes on as if nothing had been.
            tokio::time::sleep(Duration::from_millis(400)).await;
            self.write_again(&server).await?;
            self.settle_again(&server).await?;
        }
        over.store(true, Ordering::Relaxed);
        self.shared.ending.store(true, Ordering::Relaxed);
        self.report.stops += 1;
        server.stop().await
    }

    fn kill(&mut self, server: Server) -> Outcome<()> {
        self.report.kills += 1;
        self.shared.ending.store(true, Ordering::Relaxed);
        server.kill()
    }

    async fn wait(&mut self, millis: Range<u64>) {
        let millis = self.dice.random_range(millis);
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    fn disk(&self) -> Outcome<&Disk> {
        self.disk
            .as_ref()
            .ok_or_else(|| "there is no disk of our own".into())
    }

    /// Some batches, where all is well.
    pub(crate) async fn write_some(&mut self, server: &Server) -> Outcome<()> {
        self.shared.calm();
        let session = self.probe.session(&self.shared, server.port()).await;
        let client = session.ok_or("a connection is refused")?;
        for _ in 0..self.dice.random_range(1..=UNSEALED_MAX) {
            let written = self.probe.write_one(&client, &self.shared);
            let written = async { Outcome::Ok(written.await) };
            if !timely("a batch", written).await?.acknowledged {
                return Err("a batch is refused, and nothing is wrong".into());
            }
        }
        Ok(())
    }

    /// A batch must be acknowledged once there is nothing any more that keeps it.
    async fn write_again(&mut self, server: &Server) -> Outcome<()> {
        let began = Instant::now();
        while began.elapsed() < RECOVERY_MAX {
            if let Some(client) = self.probe.session(&self.shared, server.port()).await {
                let written = self.probe.write_one(&client, &self.shared);
                let written = async { Outcome::Ok(written.await) };
                if timely("a batch", written).await?.acknowledged {
                    self.report.recoveries += 1;
                    return Ok(());
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(format!("nothing is acknowledged {RECOVERY_MAX:?} after the trouble has gone").into())
    }

    /// What was acknowledged comes to the authority, whatever failed before.
    async fn settle_again(&self, server: &Server) -> Outcome<()> {
        self.shared.settling.store(true, Ordering::Relaxed);
        let client = timely("a connection", server.connect()).await?;
        let began = Instant::now();
        loop {
            let settled = async { Outcome::Ok(client.batch_execute("SETTLE").await) };
            match timely("SETTLE", settled).await? {
                Ok(()) => return Ok(()),
                // A stage that is held is let go soon.
                Err(error) if code_of(&error) == Some(PAUSED) && began.elapsed() < RECOVERY_MAX => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => {
                    return Err(format!("SETTLE after the trouble has gone: {error:?}").into());
                }
            }
        }
    }

    /// Holds all that the clients saw to what is there at the end.
    async fn judge(&mut self) -> Outcome<()> {
        if self.shared.violations.lock().is_empty() {
            let server = self.start().await?;
            let client = timely("a connection", server.connect()).await?;
            let (there, wrong) = timely("all rows", last(&client)).await?;
            server.stop().await?;
            wrong
                .into_iter()
                .for_each(|what| self.shared.violated(what));
            let violations = self.shared.history.lock().violations(&there);
            violations
                .into_iter()
                .for_each(|what| self.shared.violated(what));
            self.check_files()?;
        }
        let history = self.shared.history.lock();
        self.report.answers = history.answers.len() as u64;
        let whole = history
            .answers
            .iter()
            .filter(|answer| answer.rows.is_some());
        self.report.answers_of_rows = whole.count() as u64;
        self.report.conflicts = history.conflicts.len() as u64;
        for write in history.writes.values().flatten() {
            match write.fate {
                Fate::Acknowledged(_) => {
                    self.report.acknowledged += 1;
                    let changes = changes_table(write.register, write.number);
                    self.report.tables_changed += u64::from(changes);
                    if write.register <= WRITERS {
                        *self
                            .report
                            .acknowledged_by
                            .entry(write.register)
                            .or_default() += 1;
                    }
                }
                Fate::Refused => self.report.refused += 1,
                Fate::Unknown => self.report.unknown += 1,
            }
        }
        self.report.refusals = self.shared.refusals.lock().clone();
        Ok(())
    }
}

/// The runs of the authority that have rows.
async fn authority_runs(client: &Client) -> Result<BTreeSet<u64>, tokio_postgres::Error> {
    let text = "SELECT run FROM lazybase.runs WHERE stage = 'authority' AND rows > 0";
    let rows = client.simple_query(text).await?;
    let runs = rows.iter().filter_map(|row| match row {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    });
    Ok(runs.collect())
}

/// Holds stages of the pipeline for a while, so that reads meet data at all of them; and now and
/// then has all of it come to the authority, which by itself takes longer than most lives.
async fn operate(client: Client, shared: Shared, over: Arc<AtomicBool>, seed: u64) {
    let mut dice = SmallRng::seed_from_u64(seed);
    let stages = ["SORT", "MERGE", "AUTHORITY"];
    while !over.load(Ordering::Relaxed) {
        let stage = stages[dice.random_range(0..stages.len())];
        let asked = if shared.settling.load(Ordering::Relaxed) {
            vec![]
        } else if dice.random_range(0..3) == 0 {
            vec![(Asked::Write, "SETTLE".to_owned())]
        } else {
            vec![
                (Asked::Read, format!("PAUSE STAGE {stage}")),
                (Asked::Read, format!("RESUME STAGE {stage}")),
            ]
        };
        for (asked, text) in asked {
            // Where the server has gone the round is over.
            if !shared.sent(asked, &client, &text).await && client.is_closed() {
                return;
            }
            rest(&mut dice).await;
        }
        rest(&mut dice).await;
    }
}

async fn rest(dice: &mut SmallRng) {
    let millis = dice.random_range(0..200);
    tokio::time::sleep(Duration::from_millis(millis)).await;
}
