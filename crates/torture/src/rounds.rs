//! The rounds: what is done to the server, and when.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use crate::clients::{Shared, TABLES, Writer, last, look_once, read};
use crate::damage::{Disk, damage};
use crate::history::Final;
use crate::server::{Refused, Server, Signal, copy_folder, start};
use crate::{Args, Outcome};

/// Writers; every other one numbers its batches.
const WRITERS: u32 = 4;
/// Readers a round.
const READERS: u64 = 3;
/// How many violations are printed.
const TOLD_MAX: usize = 20;

/// How a round ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Kill,
    FreezeAndGoOn,
    FreezeAndKill,
    FillAndGoOn,
    FillAndKill,
    Stop,
}

/// What was done, and what came of it.
#[derive(Debug, Default, Serialize)]
struct Report {
    rounds: u32,
    kills: u32,
    freezes: u32,
    fills: u32,
    stops: u32,
    read_only: u32,
    corruptions: u32,
    corruptions_refused: u32,
    corruptions_query_failed: u32,
    corruptions_unnoticed: u32,
    acknowledged: u64,
    unknown: u64,
    refused: u64,
    answers: u64,
    slowest_start_ms: u64,
    refusals: BTreeMap<String, u64>,
    skipped: Vec<String>,
    violations: usize,
    seconds: u64,
}

struct Torture<'a> {
    args: &'a Args,
    folder: PathBuf,
    /// Where the files are kept while one of them is damaged: not on the small disk.
    kept: PathBuf,
    disk: Option<Disk>,
    dice: SmallRng,
    shared: Shared,
    writers: Vec<Writer>,
    report: Report,
}

/// Tortures; true if nothing was found.
pub(crate) async fn torture(args: &Args) -> Outcome<bool> {
    let began = Instant::now();
    let temporary = match &args.dir {
        Some(dir) => {
            std::fs::create_dir_all(dir)?;
            tempfile::tempdir_in(dir)?
        }
        None => tempfile::tempdir()?,
    };
    let place = temporary.path().join("disk");
    let disk = Disk::mount(&place)?;
    let mut torture = Torture {
        args,
        folder: place.join("db"),
        kept: temporary.path().join("kept"),
        dice: SmallRng::seed_from_u64(args.seed),
        shared: Shared::new(),
        writers: (1..=WRITERS)
            .map(|register| Writer::new(register, register % 2 == 0, args.seed))
            .collect(),
        report: Report::default(),
        disk,
    };
    if torture.disk.is_none() {
        let skipped = "full and read-only disks: a file system can't be mounted here";
        torture.report.skipped.push(skipped.to_owned());
    }
    let limit = Duration::from_secs(args.seconds);
    let every = args.rounds.div_ceil(args.corruptions.max(1)).max(1);
    while torture.report.rounds < args.rounds && began.elapsed() < limit {
        torture.round().await?;
        let rounds = torture.report.rounds;
        let due = u64::from(rounds) * u64::from(args.corruptions) / u64::from(args.rounds.max(1));
        while u64::from(torture.report.corruptions) < due && began.elapsed() < limit {
            torture.corrupt().await?;
        }
        if rounds % (every * 8) == 1 {
            torture.read_only().await?;
        }
        if !torture.shared.violations.lock().is_empty() {
            break;
        }
    }
    let violations = torture.judge().await?;
    let mut report = torture.report;
    report.violations = violations.len();
    report.seconds = began.elapsed().as_secs();
    for violation in violations.iter().take(TOLD_MAX) {
        eprintln!("violated: {violation}");
    }
    if !violations.is_empty() {
        // What is on the small disk goes with it.
        let kept = std::env::temp_dir().join(format!("lazybase-torture-{}", args.seed));
        copy_folder(&torture.folder, &kept)?;
        eprintln!("the database is kept in {}", kept.display());
    }
    match args.json {
        true => println!("{}", serde_json::to_string(&report)?),
        false => println!("{}", serde_json::to_string_pretty(&report)?),
    }
    Ok(violations.is_empty())
}

impl Torture<'_> {
    async fn start(&mut self) -> Outcome<Server> {
        let began = Instant::now();
        match start(&self.args.binary, &self.folder)? {
            Ok(server) => {
                // Everything acknowledged is to be had at once.
                let client = server.connect().await?;
                client.batch_execute(TABLES).await?;
                last(&client).await?;
                let took = began.elapsed().as_millis() as u64;
                self.report.slowest_start_ms = self.report.slowest_start_ms.max(took);
                Ok(server)
            }
            Err(Refused(said)) => Err(format!("the database does not open: {said}").into()),
        }
    }

    /// One life of the server.
    async fn round(&mut self) -> Outcome<()> {
        self.report.rounds += 1;
        let server = self.start().await?;
        let end = self.draw_end();
        let over = Arc::new(AtomicBool::new(false));
        self.shared.trouble.store(false, Ordering::Relaxed);
        let writing: Vec<JoinHandle<Writer>> = std::mem::take(&mut self.writers)
            .into_iter()
            .map(|writer| {
                let (shared, over) = (self.shared.clone(), Arc::clone(&over));
                tokio::spawn(writer.write(shared, server.port(), over))
            })
            .collect();
        let mut others: Vec<JoinHandle<()>> = (0..READERS)
            .map(|_| {
                let (shared, over) = (self.shared.clone(), Arc::clone(&over));
                tokio::spawn(read(shared, server.port(), over, self.dice.random()))
            })
            .collect();
        let holding = hold_stages(
            server.connect().await?,
            Arc::clone(&over),
            self.dice.random(),
        );
        others.push(tokio::spawn(holding));
        let millis = self.dice.random_range(50..1_200);
        tokio::time::sleep(Duration::from_millis(millis)).await;
        self.end(server, end, &over).await?;
        over.store(true, Ordering::Relaxed);
        for writer in writing {
            self.writers.push(writer.await?);
        }
        for other in others {
            other.await?;
        }
        Ok(())
    }

    fn draw_end(&mut self) -> End {
        match self.dice.random_range(0..100) {
            0..55 => End::Kill,
            55..65 => End::FreezeAndGoOn,
            65..75 => End::FreezeAndKill,
            75..82 if self.disk.is_some() => End::FillAndGoOn,
            82..87 if self.disk.is_some() => End::FillAndKill,
            87..100 => End::Stop,
            _ => End::Kill,
        }
    }

    async fn end(&mut self, server: Server, end: End, over: &AtomicBool) -> Outcome<()> {
        match end {
            End::FreezeAndGoOn | End::FreezeAndKill => {
                self.report.freezes += 1;
                server.signal(Signal::Stop)?;
                let frozen = self.dice.random_range(20..1_500);
                tokio::time::sleep(Duration::from_millis(frozen)).await;
            }
            End::FillAndGoOn | End::FillAndKill => {
                self.report.fills += 1;
                self.shared.trouble.store(true, Ordering::Relaxed);
                let filler = self.disk.as_ref().map(Disk::fill).transpose()?;
                let full = self.dice.random_range(100..1_500);
                tokio::time::sleep(Duration::from_millis(full)).await;
                if end == End::FillAndKill {
                    self.report.kills += 1;
                    return server.kill();
                }
                drop(filler);
            }
            End::Kill | End::Stop => {}
        }
        match end {
            End::Kill | End::FreezeAndKill => {
                self.report.kills += 1;
                return server.kill();
            }
            End::FreezeAndGoOn => server.signal(Signal::Continue)?,
            _ => {}
        }
        if end != End::Stop {
            // It goes on as if nothing had been.
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
        over.store(true, Ordering::Relaxed);
        self.report.stops += 1;
        server.stop().await
    }

    /// Damages one file, and looks what comes of it; then puts everything back.
    async fn corrupt(&mut self) -> Outcome<()> {
        self.report.corruptions += 1;
        let server = self.start().await?;
        let client = server.connect().await?;
        let there = last(&client).await?;
        drop(client);
        server.stop().await?;
        copy_folder(&self.folder, &self.kept)?;
        let done = damage(&self.folder, &mut self.dice)?;
        let found = self.look_at_damage(&there).await?;
        match found {
            Found::Refused => self.report.corruptions_refused += 1,
            Found::QueryFailed => self.report.corruptions_query_failed += 1,
            Found::Right => self.report.corruptions_unnoticed += 1,
            Found::Wrong(what) => self
                .shared
                .violated(format!("after damage ({done}): {what}")),
        }
        if self.shared.violations.lock().is_empty() {
            std::fs::remove_dir_all(&self.folder)?;
            copy_folder(&self.kept, &self.folder)?;
            std::fs::remove_dir_all(&self.kept)?;
        }
        Ok(())
    }

    async fn look_at_damage(&self, there: &Final) -> Outcome<Found> {
        let server = match start(&self.args.binary, &self.folder)? {
            Ok(server) => server,
            Err(Refused(said)) => {
                let names = [
                    "damaged", "corrupt", "missing", "checksum", "lost", "no such",
                ];
                let said_low = said.to_lowercase();
                return Ok(match names.iter().any(|name| said_low.contains(name)) {
                    true => Found::Refused,
                    false => Found::Wrong(format!("it refuses without a reason: {said}")),
                });
            }
        };
        let client = server.connect().await?;
        let found = self.ask_after_damage(&client, there).await?;
        server.kill()?;
        Ok(found)
    }

    async fn ask_after_damage(&self, client: &Client, there: &Final) -> Outcome<Found> {
        let mut failed = false;
        for bound in [None, Some(0), Some(1_000_000)] {
            match look_once(client, &self.shared, bound).await {
                Ok(Some(answer)) => self.shared.history.lock().answers.push(answer),
                Ok(None) => return Ok(Found::Wrong("an answer is torn".to_owned())),
                Err(error) => match error.as_db_error().map(|told| told.code().code()) {
                    Some("XX001") => failed = true,
                    code => {
                        return Ok(Found::Wrong(format!("a query failed: {code:?}: {error:?}")));
                    }
                },
            }
        }
        match last(client).await {
            Ok(found) if found == *there => {}
            Ok(_) => return Ok(Found::Wrong("other rows are there than before".to_owned())),
            Err(error) => match error.as_db_error().map(|told| told.code().code()) {
                Some("XX001") => failed = true,
                code => return Ok(Found::Wrong(format!("a query failed: {code:?}: {error:?}"))),
            },
        }
        Ok(match failed {
            true => Found::QueryFailed,
            false => Found::Right,
        })
    }

    /// A disk that can only be read refuses the start in words, and harms nothing.
    async fn read_only(&mut self) -> Outcome<()> {
        let Some(disk) = &self.disk else {
            return Ok(());
        };
        disk.set_writable(false)?;
        let started = start(&self.args.binary, &self.folder);
        let refused = match started? {
            Ok(server) => {
                server.kill()?;
                None
            }
            Err(Refused(said)) => Some(said),
        };
        disk.set_writable(true)?;
        match refused {
            Some(said) if said.to_lowercase().contains("read-only") => self.report.read_only += 1,
            Some(said) => {
                let what = format!("a read-only disk is refused without its name: {said}");
                self.shared.violated(what);
            }
            None => self
                .shared
                .violated("it starts on a read-only disk".to_owned()),
        }
        Ok(())
    }

    /// All that was found.
    async fn judge(&mut self) -> Outcome<Vec<String>> {
        let mut violations = self.shared.violations.lock().clone();
        if violations.is_empty() {
            let server = self.start().await?;
            let client = server.connect().await?;
            let there = last(&client).await?;
            server.stop().await?;
            violations = self.shared.history.lock().violations(&there);
            self.check_files(&mut violations)?;
        }
        let history = self.shared.history.lock();
        self.report.answers = history.answers.len() as u64;
        for write in history.writes.values().flatten() {
            match write.fate {
                crate::history::Fate::Acknowledged(_) => self.report.acknowledged += 1,
                crate::history::Fate::Refused => self.report.refused += 1,
                crate::history::Fate::Unknown => self.report.unknown += 1,
            }
        }
        self.report.refusals = self.shared.refusals.lock().clone();
        Ok(violations)
    }

    fn check_files(&self, violations: &mut Vec<String>) -> Outcome<()> {
        let checked = std::process::Command::new(&self.args.binary)
            .arg("--db")
            .arg(&self.folder)
            .arg("verify")
            .output()?;
        if !checked.status.success() {
            let said = String::from_utf8_lossy(&checked.stderr);
            violations.push(format!("`lazybase verify` finds: {said}"));
        }
        Ok(())
    }
}

/// What a damaged file led to.
enum Found {
    /// The database does not open, and says why.
    Refused,
    /// Some query failed, and said why; what was answered was right.
    QueryFailed,
    /// Every answer was right.
    Right,
    Wrong(String),
}

/// Holds stages of the pipeline for a while, so that reads meet data at all of them.
async fn hold_stages(client: Client, over: Arc<AtomicBool>, seed: u64) {
    let mut dice = SmallRng::seed_from_u64(seed);
    let stages = ["SORT", "MERGE", "AUTHORITY"];
    while !over.load(Ordering::Relaxed) {
        let stage = stages[dice.random_range(0..stages.len())];
        for what in ["PAUSE", "RESUME"] {
            // The server may have gone: then the round is over.
            if client
                .batch_execute(&format!("{what} STAGE {stage}"))
                .await
                .is_err()
            {
                return;
            }
            let pause = dice.random_range(0..300);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }
}
