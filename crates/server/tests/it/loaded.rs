//! The real server with many at work at a time: with budgets of 60 % of those that are shipped, and
//! within 60 % of what these add up to, with few open files and with bounds on what its disk is
//! taken by; and nobody stands still while others take all that they can.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{SinkExt, TryStreamExt};
use tokio::task::JoinHandle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error};

use crate::group::Group;
use crate::http::get;
use crate::limits::{Budgets, after, cell, client, own_memory_kib, wait_for};
use crate::prometheus::{Family, parse};
use crate::run::Place;
use crate::server::{PATIENCE, Server};

/// How long many are at work; `LAZYBASE_LOAD_SECONDS` says otherwise.
const SECONDS: u64 = 20;
/// What the server is given: 60 % of what is shipped, and so little for queries that sorts of some
/// seconds spill. It may hold 60 % of what is shipped, queries included: connections, answers on
/// their way and what the allocator has not given back count in no budget.
const BUDGETS: Budgets = Budgets {
    query: 32 << 20,
    cache: Budgets::SHIPPED.cache * 6 / 10,
    unsorted: Budgets::SHIPPED.unsorted * 6 / 10,
    sort: Budgets::SHIPPED.sort * 6 / 10,
};
/// The temporary files that its queries may have: some sorts' of all rows at a time.
const SPILL: u64 = 256 << 20;
/// 60 % of the open files with which the server lets in as many connections as it is configured to.
const OPEN_FILES: u32 = 1024 * 6 / 10;
/// Connections that do nothing beside those that work.
const IDLE: usize = 100;
/// Writers that COPY, and how many rows a batch of theirs has.
const COPIERS: usize = 3;
const COPY_ROWS: u64 = 1_000;
/// All writers; the others INSERT.
const WRITERS: usize = 5;
const INSERT_ROWS: u64 = 20;
/// So much is there before a slow reader begins that it does not fit between it and the server.
const SLOW_ROWS: u64 = 30_000;
/// After so many rows it waits until writers have written as many as a few batches hold.
const SLOW_STRETCH: u64 = 200;

/// 400,000 rows of 100 bytes: more than queries may hold in memory to sort them.
const TABLES: &str = "CREATE TABLE events (w INT, n BIGINT, v TEXT, PRIMARY KEY (w, n));
    CREATE TABLE big (k INT PRIMARY KEY, v TEXT);
    INSERT INTO big SELECT x, concat(repeat('v', 90), CAST(x AS TEXT))
        FROM generate_series(1, 200000) AS s (x);
    INSERT INTO big SELECT k + 200000, concat(v, 'more') FROM big";
/// The greatest text ends in `9more`: a letter comes after all digits.
const SORTED: (&str, &str) = ("SELECT k FROM big ORDER BY v OFFSET 399999", "200009");
/// Several sorts at a time, and what merges them, would have parts of the memory each.
const ALONE: &str = "SET datafusion.execution.target_partitions = 1";
/// How many rows each writer has, and that none is left out or there twice.
const COUNTS: &str = "SELECT w, count(*), min(n), max(n), CAST(sum(n) AS BIGINT)
    FROM events GROUP BY w";

/// A server in a group, if there is one, with these budgets and few open files.
fn start_limited(place: &Place, group: Option<&Group>, budgets: Budgets) -> Server {
    let inner = Server::command(place, &[]);
    let words = format!("{} && ulimit -n {OPEN_FILES}", Group::enter(group));
    let mut limited = after(&words, &inner);
    limited.envs(budgets.variables());
    limited.env("LAZYBASE_QUERY_SPILL_BYTES", SPILL.to_string());
    Server::spawn(&mut limited)
}

fn seconds() -> Duration {
    let given = std::env::var("LAZYBASE_LOAD_SECONDS");
    Duration::from_secs(given.map_or(SECONDS, |given| given.parse().unwrap()))
}

/// How far all have come that are at work.
#[derive(Debug, Default)]
struct Load {
    over: AtomicBool,
    /// Rows that each writer has had acknowledged: those from 0 on.
    acknowledged: [AtomicU64; WRITERS],
    points: AtomicU64,
    scans: AtomicU64,
    sorts: AtomicU64,
    /// How often the slow reader waited for writers.
    rests: AtomicU64,
    /// Queries that failed alone, for want of memory.
    refused: AtomicU64,
}

impl Load {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    fn acknowledged(&self) -> [u64; WRITERS] {
        std::array::from_fn(|writer| self.acknowledged[writer].load(Ordering::SeqCst))
    }

    fn rows(&self) -> u64 {
        self.acknowledged().iter().sum()
    }

    /// Whether each kind of work was done a few times.
    fn has_got_on(&self) -> bool {
        let done = |counter: &AtomicU64, least| counter.load(Ordering::SeqCst) >= least;
        let mut writers = self.acknowledged().into_iter().enumerate();
        writers.all(|(writer, rows)| rows >= 5 * rows_of(writer))
            && done(&self.points, 50)
            && done(&self.scans, 3)
            && done(&self.sorts, 2)
            && done(&self.rests, 5)
    }

    /// An answer; `None` where the query failed alone, in the words that are documented.
    fn answered<T>(&self, told: Result<T, Error>) -> Option<T> {
        told.map_err(|error| {
            let code = error.code().map_or("", |code| code.code());
            assert!(["53200", "53400"].contains(&code), "{error:?}");
            self.refused.fetch_add(1, Ordering::SeqCst);
        })
        .ok()
    }

    /// Waits until so many rows were acknowledged, or all is over.
    async fn until_rows(&self, rows: u64) {
        while !self.is_over() && self.rows() < rows {
            rest().await;
        }
    }
}

/// Waits until something is so.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + 3 * PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn rest() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

/// The rows of one batch of a writer.
fn rows_of(writer: usize) -> u64 {
    if writer < COPIERS {
        COPY_ROWS
    } else {
        INSERT_ROWS
    }
}

fn value(row: u64) -> String {
    format!("{row:v>400}")
}

async fn copy(client: &Client, writer: usize, from: u64) -> Result<u64, Error> {
    let mut text = String::new();
    for row in from..from + COPY_ROWS {
        writeln!(text, "{writer},{row},{}", value(row)).unwrap();
    }
    let sql = "COPY events FROM STDIN (FORMAT csv)";
    let sink = client.copy_in::<_, Bytes>(sql).await?;
    let mut sink = pin!(sink);
    sink.send(Bytes::from(text)).await?;
    sink.finish().await
}

async fn insert(client: &Client, writer: usize, from: u64) -> Result<u64, Error> {
    let rows = (from..from + INSERT_ROWS).map(|row| format!("({writer}, {row}, '{}')", value(row)));
    let rows = rows.collect::<Vec<_>>().join(", ");
    let sql = format!("INSERT INTO events VALUES {rows}");
    client.execute(&sql, &[]).await
}

/// No batch may be refused: where there is too much to do, writers wait.
async fn write(client: Client, load: Arc<Load>, writer: usize) {
    let acknowledged = &load.acknowledged[writer];
    while !load.is_over() {
        let from = acknowledged.load(Ordering::SeqCst);
        let written = match writer < COPIERS {
            true => copy(&client, writer, from).await,
            false => insert(&client, writer, from).await,
        };
        let written = written.unwrap();
        assert_eq!(written, rows_of(writer));
        acknowledged.fetch_add(written, Ordering::SeqCst);
    }
}

/// The newest acknowledged row of one writer after the other is there.
async fn read_points(client: Client, load: Arc<Load>) {
    let sql = "SELECT v FROM events WHERE w = $1 AND n = $2";
    let get = client.prepare(sql).await.unwrap();
    let mut writers = (0..WRITERS).cycle();
    while !load.is_over() {
        let writer = writers.next().unwrap();
        let Some(newest) = load.acknowledged()[writer].checked_sub(1) else {
            rest().await;
            continue;
        };
        let (w, n) = (writer as i32, newest as i64);
        let row = client.query_one(&get, &[&w, &n]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), value(newest));
        load.points.fetch_add(1, Ordering::SeqCst);
    }
}

/// The rows of each writer, of which there are whole batches from the first on.
fn counted(rows: &[tokio_postgres::Row]) -> [u64; WRITERS] {
    let mut counts = [0; WRITERS];
    for row in rows {
        let writer = usize::try_from(row.get::<_, i32>(0)).unwrap();
        let [count, least, greatest, sum] = [1_usize, 2, 3, 4].map(|at| row.get::<_, i64>(at));
        assert_eq!((least, greatest), (0, count - 1));
        assert_eq!(sum, count * (count - 1) / 2);
        counts[writer] = u64::try_from(count).unwrap();
        assert_eq!(counts[writer] % rows_of(writer), 0, "of {writer}");
    }
    counts
}

fn assert_there(acknowledged: [u64; WRITERS], found: [u64; WRITERS]) {
    let mut both = acknowledged.iter().zip(&found);
    assert!(
        both.all(|(acknowledged, found)| acknowledged <= found),
        "{acknowledged:?} were acknowledged, {found:?} found"
    );
}

async fn scan(client: Client, load: Arc<Load>) {
    while !load.is_over() {
        let acknowledged = load.acknowledged();
        if let Some(rows) = load.answered(client.query(COUNTS, &[]).await) {
            assert_there(acknowledged, counted(&rows));
            load.scans.fetch_add(1, Ordering::SeqCst);
        }
    }
}

async fn sort(client: Client, load: Arc<Load>) {
    client.batch_execute(ALONE).await.unwrap();
    let (sql, last) = SORTED;
    while !load.is_over() {
        if let Some(row) = load.answered(client.query_one(sql, &[]).await) {
            assert_eq!(row.get::<_, i32>(0).to_string(), last);
            load.sorts.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Takes a few rows at a time of all that is there, and the next ones when writers have got on: it
/// holds them up no more than it loses a row.
async fn read_slowly(client: Client, load: Arc<Load>) {
    load.until_rows(SLOW_ROWS).await;
    let acknowledged = load.acknowledged();
    let nothing: [&(dyn ToSql + Sync); 0] = [];
    let rows = client.query_raw("SELECT w, n, v FROM events", nothing);
    let mut rows = pin!(rows.await.unwrap());
    let (mut found, mut sums, mut seen) = ([0_u64; WRITERS], [0_u64; WRITERS], 0_u64);
    while let Some(row) = rows.try_next().await.unwrap() {
        let writer = usize::try_from(row.get::<_, i32>(0)).unwrap();
        let row = u64::try_from(row.get::<_, i64>(1)).unwrap();
        found[writer] += 1;
        sums[writer] += row;
        seen += 1;
        if seen.is_multiple_of(SLOW_STRETCH) && !load.is_over() {
            load.until_rows(load.rows() + 2 * COPY_ROWS).await;
            load.rests.fetch_add(1, Ordering::SeqCst);
        }
    }
    assert_there(acknowledged, found);
    for (writer, (count, sum)) in found.into_iter().zip(sums).enumerate() {
        assert_eq!(count % rows_of(writer), 0, "{found:?}");
        assert_eq!(sum, count * count.saturating_sub(1) / 2, "{found:?}");
    }
}

/// Remembers the most memory of its own that a process was seen to hold, in KiB.
async fn watch(process: u32, most_kib: Arc<AtomicU64>) {
    loop {
        most_kib.fetch_max(own_memory_kib(process), Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// All at work, until each has done something and the time is over. Then all that was acknowledged
/// is there, before it is settled and after.
async fn under_load(server: &Server) -> Arc<Load> {
    let load = Arc::new(Load::default());
    let first = client(server).await;
    first.batch_execute(TABLES).await.unwrap();
    first.batch_execute(ALONE).await.unwrap();
    let mut idle = Vec::new();
    for _ in 0..IDLE {
        idle.push(client(server).await);
    }
    let mut tasks: Vec<JoinHandle<()>> = Vec::new();
    for writer in 0..WRITERS {
        let writing = write(client(server).await, Arc::clone(&load), writer);
        tasks.push(tokio::spawn(writing));
    }
    for _ in 0..2 {
        let reading = read_points(client(server).await, Arc::clone(&load));
        tasks.push(tokio::spawn(reading));
        let scanning = scan(client(server).await, Arc::clone(&load));
        tasks.push(tokio::spawn(scanning));
    }
    tasks.push(tokio::spawn(sort(client(server).await, Arc::clone(&load))));
    let slow = read_slowly(client(server).await, Arc::clone(&load));
    let slow = tokio::spawn(slow);
    let begun = Instant::now();
    let is_broken = || tasks.iter().any(JoinHandle::is_finished);
    while begun.elapsed() < seconds() || !load.has_got_on() {
        if is_broken() || begun.elapsed() > seconds() + 5 * PATIENCE {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    load.over.store(true, Ordering::SeqCst);
    for task in tasks.into_iter().chain([slow]) {
        task.await.unwrap();
    }
    assert!(load.has_got_on(), "{load:?}");
    for settled in [false, true] {
        if settled {
            first.batch_execute("SETTLE").await.unwrap();
        }
        let rows = first.query(COUNTS, &[]).await.unwrap();
        assert_eq!(counted(&rows), load.acknowledged(), "settled: {settled}");
        assert_eq!(cell(&first, SORTED.0).await, SORTED.1);
    }
    load
}

#[test]
fn many_at_work_keep_within_60_percent_of_the_budgets() {
    let limit_kib = Budgets::SHIPPED.allowed_kib();
    let group = Group::with_memory(limit_kib << 10);
    let place = Place::new();
    let server = start_limited(&place, group.as_ref(), BUDGETS);
    let most_kib = Arc::new(AtomicU64::new(0));
    let disk = DiskWatch::begin(&server, &place);
    let load = wait_for(async {
        let watching = watch(server.id(), Arc::clone(&most_kib));
        let watching = tokio::spawn(watching);
        let load = under_load(&server).await;
        watching.abort();
        load
    });
    let disk = disk.end();
    let said = server.stop().join("\n");
    for broken in ["Too many open files", "panicked"] {
        assert!(!said.contains(broken), "{said}");
    }
    let most_kib = most_kib.load(Ordering::SeqCst);
    assert!(
        (50_000..limit_kib).contains(&most_kib),
        "{most_kib} KiB of {limit_kib}"
    );
    assert_eq!(group.as_ref().map_or(0, Group::ended), 0);
    println!("{most_kib} KiB of {limit_kib}, {disk:?}: {load:?}");
    // Something was spilt, and no more than may be.
    assert!((1.0..=SPILL as f64).contains(&disk.spilt), "{disk:?}");
    place.ok(&["verify"]);
}

/// A figure of the server's: the sum of its series that have this label.
fn figure(server: &Server, name: &str, label: Option<(&str, &str)>) -> f64 {
    Figures::of(&server.http).sum(name, label)
}

/// All figures of a server at one moment.
struct Figures(BTreeMap<String, Family>);

impl Figures {
    fn of(http: &str) -> Figures {
        let (status, text) = get(http, "/metrics");
        assert_eq!(status, 200, "{text}");
        Figures(parse(&text))
    }

    /// One of them: the sum of its series that have this label.
    fn sum(&self, name: &str, label: Option<(&str, &str)>) -> f64 {
        let family = self.0.get(name);
        let samples = family.into_iter().flat_map(|family| &family.samples);
        let has = |labels: &BTreeMap<String, String>| {
            label.is_none_or(|(label, value)| labels.get(label).is_some_and(|found| found == value))
        };
        let samples = samples.filter(|sample| has(&sample.labels));
        samples.map(|sample| sample.value).sum()
    }
}

/// The most that a server was seen to have on its disk, in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Most {
    superseded: f64,
    log: f64,
    /// Segments beside those of the tables' current runs.
    other_segments: f64,
    /// Temporary files of queries.
    spilt: f64,
}

impl Most {
    fn look(&mut self, figures: &Figures, spill: &Path) {
        let disk = |kind| figures.sum("lazybase_disk_bytes", Some(("kind", kind)));
        let superseded = figures.sum("lazybase_superseded_bytes", None);
        let of_tables = figures.sum("lazybase_table_bytes", None);
        self.superseded = self.superseded.max(superseded);
        self.log = self.log.max(disk("log"));
        self.other_segments = self.other_segments.max(disk("segments") - of_tables);
        self.spilt = self.spilt.max(bytes_below(spill) as f64);
    }
}

/// The bytes of the files below a folder that are there when they are looked at.
fn bytes_below(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(about) if about.is_dir() => bytes_below(&entry.path()),
        Ok(about) => about.len(),
        Err(_) => 0,
    });
    bytes.sum()
}

/// Looks at what a server has on its disk again and again, until it is ended.
struct DiskWatch {
    over: Arc<AtomicBool>,
    /// What was written to the log so far, in bytes.
    logged: Arc<AtomicU64>,
    looks: std::thread::JoinHandle<Most>,
}

impl DiskWatch {
    fn begin(server: &Server, place: &Place) -> DiskWatch {
        let over: Arc<AtomicBool> = Arc::default();
        let logged: Arc<AtomicU64> = Arc::default();
        let (is_over, tells) = (Arc::clone(&over), Arc::clone(&logged));
        let (http, spill) = (server.http.clone(), place.path("db").join("tmp"));
        let look = move || {
            let mut most = Most::default();
            while !is_over.load(Ordering::SeqCst) {
                let figures = Figures::of(&http);
                most.look(&figures, &spill);
                let logged = figures.sum("lazybase_ingest_log_bytes_total", None);
                tells.store(logged as u64, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(50));
            }
            most
        };
        DiskWatch {
            over,
            logged,
            looks: std::thread::spawn(look),
        }
    }

    fn logged(&self) -> u64 {
        self.logged.load(Ordering::SeqCst)
    }

    /// What it has seen. The server must still be there.
    fn end(self) -> Most {
        self.over.store(true, Ordering::SeqCst);
        self.looks.join().unwrap()
    }
}

/// How far everything has come: each figure only rises.
async fn progress(server: &Server, client: &Client, load: &Load) -> [(&'static str, f64); 6] {
    let authority = "SELECT through_scu FROM lazybase.lag WHERE stage = 'authority'";
    let authority = cell(client, authority).await.parse().unwrap();
    let attempts = |stage| {
        figure(
            server,
            "lazybase_stage_attempts_total",
            Some(("stage", stage)),
        )
    };
    let count = |counter: &AtomicU64| counter.load(Ordering::SeqCst) as f64;
    [
        ("SCUs in the authority", authority),
        (
            "attempts of merges",
            attempts("merge") + attempts("authority"),
        ),
        ("rows written", load.rows() as f64),
        ("points read", count(&load.points)),
        ("scans", count(&load.scans)),
        (
            "waits of writers",
            figure(server, "lazybase_ingest_waits_total", None),
        ),
    ]
}

/// Waits until each figure has risen by as much as is wanted.
async fn until_risen(server: &Server, client: &Client, load: &Load, wanted: [f64; 6]) {
    let begun = progress(server, client, load).await;
    let until = Instant::now() + 3 * PATIENCE;
    loop {
        let now = progress(server, client, load).await;
        let risen = now.iter().zip(&begun).zip(wanted);
        let mut risen = risen.map(|((now, begun), wanted)| now.1 - begun.1 >= wanted);
        if risen.all(|risen| risen) {
            return;
        }
        assert!(Instant::now() < until, "{begun:?} became {now:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Heavy statements one after the other; how many have ended.
async fn ask_heavily(client: Client, load: Arc<Load>) {
    let sql = "SELECT count(*) FROM generate_series(1, 5000000) AS s (x) WHERE x % 7 = 3";
    while !load.is_over() {
        assert_eq!(cell(&client, sql).await, "714286");
        load.sorts.fetch_add(1, Ordering::SeqCst);
    }
}

/// Ends what is at work.
async fn end(load: &Load, tasks: Vec<JoinHandle<()>>) {
    load.over.store(true, Ordering::SeqCst);
    for task in tasks {
        task.await.unwrap();
    }
}

/// What counts is that each gets on at all: how much of the machine it has is for benchmarks.
#[test]
fn each_gets_on_while_others_take_all_that_they_can() {
    let place = Place::new();
    let given = [
        "--unsorted-bytes-max",
        "1 MiB",
        "--seal-bytes",
        "512 KiB",
        "--workers",
        "1",
        "--heavy-statements",
        "2",
    ];
    let server = Server::start(&place, &given);
    wait_for(async {
        let own = client(&server).await;
        let table = "CREATE TABLE events (w INT, n BIGINT, v TEXT, PRIMARY KEY (w, n))";
        own.batch_execute(table).await.unwrap();
        // Writers that have to wait again and again: ingest takes what it can get.
        let load = Arc::new(Load::default());
        let mut tasks = Vec::new();
        for writer in 0..WRITERS {
            let writing = write(client(&server).await, Arc::clone(&load), writer);
            tasks.push(tokio::spawn(writing));
        }
        let reading = read_points(client(&server).await, Arc::clone(&load));
        tasks.push(tokio::spawn(reading));
        tasks.push(tokio::spawn(scan(client(&server).await, Arc::clone(&load))));
        let wanted = [10.0, 5.0, 20_000.0, 30.0, 3.0, 5.0];
        until_risen(&server, &own, &load, wanted).await;
        end(&load, tasks).await;
        own.batch_execute("SETTLE").await.unwrap();
        let rows = own.query(COUNTS, &[]).await.unwrap();
        assert_eq!(counted(&rows), load.acknowledged());
        own.batch_execute("TRUNCATE events").await.unwrap();
        // Heavy queries of which some always wait for their turn.
        let load = Arc::new(Load::default());
        let mut tasks = Vec::new();
        for _ in 0..6 {
            let asking = ask_heavily(client(&server).await, Arc::clone(&load));
            tasks.push(tokio::spawn(asking));
        }
        until("no heavy statement waits", || {
            figure(&server, "lazybase_heavy_waiting", None) >= 1.0
        })
        .await;
        for writer in [0, COPIERS] {
            let writing = write(client(&server).await, Arc::clone(&load), writer);
            tasks.push(tokio::spawn(writing));
        }
        let reading = read_points(client(&server).await, Arc::clone(&load));
        tasks.push(tokio::spawn(reading));
        tasks.push(tokio::spawn(scan(client(&server).await, Arc::clone(&load))));
        let wanted = [5.0, 3.0, 5_000.0, 30.0, 3.0, 0.0];
        until_risen(&server, &own, &load, wanted).await;
        let heavy = load.sorts.load(Ordering::SeqCst);
        until("no heavy statement ends", || {
            load.sorts.load(Ordering::SeqCst) >= heavy + 3
        })
        .await;
        end(&load, tasks).await;
        let rows = own.query(COUNTS, &[]).await.unwrap();
        assert_eq!(counted(&rows), load.acknowledged());
    });
    server.stop();
}

/// A table all of which is written anew.
fn table_of_rounds(name: &str) -> String {
    format!("CREATE TABLE {name} (k BIGINT PRIMARY KEY, round INT, a BIGINT, b BIGINT)")
}

/// Each number of it is written anew. They look drawn, so that no codec makes them small.
fn anew(table: &str, round: u64) -> String {
    format!(
        "INSERT INTO {table} SELECT x, {round}, (x * x * 7919 + x * {round} * 104729) % 998244353,
             (x * x * 104729 + x * {round} * 7919) % 998244353
             FROM generate_series(1, 40000) AS s (x)"
    )
}

async fn write_anew(client: &Client, round: u64) {
    client.batch_execute(&anew("t", round)).await.unwrap();
    client.batch_execute("SETTLE").await.unwrap();
}

/// Writes a table anew, round after round.
async fn write_rounds(client: Client, load: Arc<Load>, writer: usize) {
    let table = format!("t{writer}");
    let mut round = load.acknowledged()[writer];
    while !load.is_over() {
        round += 1;
        client.batch_execute(&anew(&table, round)).await.unwrap();
        load.acknowledged[writer].store(round, Ordering::SeqCst);
    }
}

/// All rows of a table are of one round, and that is no older than what was acknowledged.
async fn read_rounds(client: Client, load: Arc<Load>, tables: usize) {
    let mut writers = (0..tables).cycle();
    while !load.is_over() {
        let writer = writers.next().unwrap();
        let acknowledged = load.acknowledged()[writer];
        let sql = format!("SELECT count(*), min(round), max(round) FROM t{writer}");
        let row = client.query_one(&sql, &[]).await.unwrap();
        let (least, greatest) = (row.get::<_, i32>(1), row.get::<_, i32>(2));
        assert_eq!((row.get::<_, i64>(0), least), (40_000, greatest));
        assert!(u64::try_from(least).unwrap() >= acknowledged);
        load.scans.fetch_add(1, Ordering::SeqCst);
    }
}

/// More is superseded than may be kept, and more is written than may be unsorted, all the time.
/// What was given up since the last look at files is still there: so much again, of segments twice
/// that, for they stay for some seconds more.
#[test]
fn disk_keeps_within_its_bounds_while_all_is_written_anew() {
    const SUPERSEDED: u64 = 32 << 20;
    const UNSORTED: u64 = 4 << 20;
    const TABLES: usize = 3;
    let place = Place::new();
    let (superseded, unsorted) = (SUPERSEDED.to_string(), UNSORTED.to_string());
    let given = [
        "--retention",
        "1 h",
        "--superseded-bytes-max",
        &superseded,
        "--unsorted-bytes-max",
        &unsorted,
        "--seal-bytes",
        "1 MiB",
    ];
    let server = Server::start(&place, &given);
    let disk = wait_for(async {
        let own = client(&server).await;
        let load = Arc::new(Load::default());
        let mut tasks: Vec<JoinHandle<()>> = Vec::new();
        for table in 0..TABLES {
            let name = format!("t{table}");
            own.batch_execute(&table_of_rounds(&name)).await.unwrap();
            own.batch_execute(&anew(&name, 1)).await.unwrap();
            load.acknowledged[table].store(1, Ordering::SeqCst);
        }
        for table in 0..TABLES {
            let writing = write_rounds(client(&server).await, Arc::clone(&load), table);
            tasks.push(tokio::spawn(writing));
        }
        let reading = read_rounds(client(&server).await, Arc::clone(&load), TABLES);
        tasks.push(tokio::spawn(reading));
        let watch = DiskWatch::begin(&server, &place);
        let begun = Instant::now();
        // Several times as much as there may be.
        while begun.elapsed() < seconds() || watch.logged() < 3 * (SUPERSEDED + UNSORTED) {
            let is_broken = tasks.iter().any(JoinHandle::is_finished);
            if is_broken || begun.elapsed() > seconds() + 5 * PATIENCE {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let logged = watch.logged();
        let disk = watch.end();
        let kept = figure(&server, "lazybase_retention_seconds", None);
        end(&load, tasks).await;
        println!("{disk:?} of {logged} bytes in the log, {kept} s are kept: {load:?}");
        assert!(logged >= 3 * (SUPERSEDED + UNSORTED), "{logged}");
        assert!(kept < 3_600.0, "{kept}");
        assert!(load.scans.load(Ordering::SeqCst) > 0);
        disk
    });
    let times = |count: u64, bytes: u64| (count * bytes) as f64;
    assert!(disk.superseded <= times(2, SUPERSEDED), "{disk:?}");
    assert!(disk.log <= times(2, SUPERSEDED + UNSORTED), "{disk:?}");
    assert!(disk.other_segments <= times(3, SUPERSEDED), "{disk:?}");
    server.stop();
    place.ok(&["verify"]);
}

/// Everything is written anew again and again, with a past of an hour and a reader that holds on to
/// what was there first.
#[test]
fn superseded_files_keep_within_their_bound() {
    const BOUND: f64 = (8 << 20) as f64;
    let place = Place::new();
    let given = ["--retention", "1 h", "--superseded-bytes-max", "8 MiB"];
    let server = Server::start(&place, &given);
    wait_for(async {
        let (writer, reader) = (client(&server).await, client(&server).await);
        writer.batch_execute(&table_of_rounds("t")).await.unwrap();
        let mut round = 1;
        write_anew(&writer, round).await;
        reader.batch_execute("BEGIN READ ONLY").await.unwrap();
        let sum = "SELECT CAST(sum(a) AS TEXT) FROM t";
        let first = cell(&reader, sum).await;
        let deadline = Instant::now() + 5 * PATIENCE;
        // It is never idle, and what it sees is what was there first, or an error.
        let lost = loop {
            assert!(Instant::now() < deadline, "{:?}", server.said());
            round += 1;
            write_anew(&writer, round).await;
            match reader.query_one(sum, &[]).await {
                Ok(row) => assert_eq!(row.get::<_, &str>(0), first),
                Err(error) => break error,
            }
        };
        assert_eq!(lost.code().unwrap().code(), "72000", "{lost:?}");
        let detail = lost.as_db_error().unwrap().detail().unwrap_or_default();
        assert!(detail.contains("superseded_bytes_max"), "{lost:?}");
        // The newest rows are there, the first ones are no longer kept.
        let newest = format!("SELECT count(*) FROM t WHERE round = {round}");
        assert_eq!(cell(&writer, &newest).await, "40000");
        let past = "SELECT count(*) FROM t AS OF SCU 1";
        let past = writer.simple_query(past).await.unwrap_err();
        assert_eq!(past.code().unwrap().code(), "72000", "{past:?}");
        assert!(figure(&server, "lazybase_retention_seconds", None) < 3_600.0);
        assert!(figure(&server, "lazybase_snapshots_ended_total", None) >= 1.0);
        until("too much stays of the past", || {
            figure(&server, "lazybase_superseded_bytes", None) <= BOUND
        })
        .await;
        until("files stay that nothing keeps", || {
            let segments = Some(("kind", "segments"));
            let segments = figure(&server, "lazybase_disk_bytes", segments);
            segments - figure(&server, "lazybase_table_bytes", None) <= BOUND
        })
        .await;
    });
    server.line("the retention is shortened");
    server.line("was ended");
    let troubles = server.rows("SELECT message FROM lazybase.troubles");
    assert!(troubles.contains("superseded_bytes_max"), "{troubles}");
    server.stop();
    place.ok(&["verify"]);
}
