//! The real binary within 60 % of what its budgets add up to, and with few open files, while it
//! writes, merges and queries: little of it under a limit of the operating system that counts
//! address space too, of which the allocator sets much aside; much of it in a group of processes
//! whose memory is bound, or watched, where no such group can be made.
#![cfg(target_os = "linux")]

use std::io::Read;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lazybase_model::limits;
use tokio_postgres::{Client, NoTls};

use crate::group::Group;
use crate::http::get;
use crate::run::Place;
use crate::server::{PATIENCE, Server};

/// The budgets of memory that a process is given, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budgets {
    /// Of all queries together.
    pub(crate) query: u64,
    pub(crate) cache: u64,
    pub(crate) unsorted: u64,
    /// Of each sort: as many run as there are workers.
    pub(crate) sort: u64,
}

impl Budgets {
    /// As shipped. Tests ask for them: a machine with more memory gives more to the cache and to
    /// queries.
    pub(crate) const SHIPPED: Budgets = Budgets {
        query: limits::QUERY_MEMORY_BYTES,
        cache: limits::CACHE_BYTES,
        unsorted: limits::UNSORTED_MEMORY_BYTES,
        sort: limits::SORT_MEMORY_BYTES,
    };

    /// What they add up to, with what waits for the log, which no option says.
    const fn bytes(self) -> u64 {
        let of_stages = self.unsorted + self.sort * limits::WORKERS as u64;
        self.query + self.cache + of_stages + limits::COMMIT_QUEUE_BYTES_MAX
    }

    /// What the process may hold, in KiB: 60 % of what they add up to.
    pub(crate) const fn allowed_kib(self) -> u64 {
        self.bytes() / 1024 * 6 / 10
    }

    /// The variables that ask for them.
    pub(crate) fn variables(self) -> [(&'static str, String); 4] {
        [
            ("LAZYBASE_QUERY_MEMORY", self.query),
            ("LAZYBASE_CACHE_BYTES", self.cache),
            ("LAZYBASE_UNSORTED_MEMORY", self.unsorted),
            ("LAZYBASE_SORT_MEMORY", self.sort),
        ]
        .map(|(name, bytes)| (name, bytes.to_string()))
    }
}

/// Open files that it gets along with, whatever it holds.
const OPEN_FILES: u32 = 64;

/// A command after these words of the shell.
pub(crate) fn after(words: &str, inner: &Command) -> Command {
    let mut outer = Command::new("sh");
    outer
        .args(["-c", &format!("{words} && exec \"$@\""), "limited"])
        .arg(inner.get_program())
        .args(inner.get_args())
        .env_remove("LAZYBASE_DB")
        .stdin(Stdio::null());
    outer
}

/// A server that is started after these words of the shell.
fn start_after(place: &Place, words: &str, args: &[&str]) -> Server {
    Server::spawn(&mut after(words, &Server::command(place, args)))
}

/// Runs `lazybase sql` with these budgets, under the limits of those that are shipped, and gives
/// what it wrote.
fn limited(place: &Place, budgets: Budgets, sql: &str) -> (bool, String) {
    let inner = place.command(&["sql", "--format", "csv", "-q", "-c", sql]);
    let kib = Budgets::SHIPPED.allowed_kib();
    let mut outer = after(
        &format!("ulimit -n {OPEN_FILES} && ulimit -d {kib}"),
        &inner,
    );
    // The stack of each thread counts, and by default there are as many as cores.
    outer
        .env("TOKIO_WORKER_THREADS", "2")
        .envs(budgets.variables());
    let output = outer.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.success(),
        text(&output.stdout) + &text(&output.stderr),
    )
}

/// Runs `lazybase sql` in a group, if there is one, with few open files and the budgets as shipped;
/// gives what it wrote and the most memory of its own that it was seen to hold, in KiB.
fn watched(place: &Place, group: Option<&Group>, sql: &str) -> (bool, String, u64) {
    let inner = place.command(&["sql", "--format", "csv", "-q", "-c", sql]);
    let words = format!("{} && ulimit -n {OPEN_FILES}", Group::enter(group));
    let mut outer = after(&words, &inner);
    outer
        .envs(Budgets::SHIPPED.variables())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = outer.spawn().unwrap();
    let mut most = 0;
    // What it writes fits into the pipes.
    while child.try_wait().unwrap().is_none() {
        most = most.max(own_memory_kib(child.id()));
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    (output.status.success(), said, most)
}

/// What a process holds in memory beside its files, in KiB; 0 once it is gone.
pub(crate) fn own_memory_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.map_or(0, |kib| kib.parse().unwrap())
}

/// Runs `lazybase sql` after these words of the shell, which must fail.
fn under(place: &Place, words: &str, sql: &str) -> String {
    let inner = place.command(&["sql", "-q", "-c", sql]);
    let output = after(words, &inner).output().unwrap();
    assert!(!output.status.success());
    assert!(output.status.code().is_some(), "ended by a signal");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn wait_for<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(work)
}

pub(crate) async fn client(server: &Server) -> Client {
    let connected = tokio_postgres::connect(&server.url(), NoTls).await;
    let (client, connection) = connected.unwrap();
    tokio::spawn(connection);
    client
}

/// The only cell of an answer.
pub(crate) async fn cell(client: &Client, sql: &str) -> String {
    let told = client.simple_query(sql).await.unwrap();
    let mut rows = told.iter().filter_map(|told| match told {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    rows.next().unwrap_or_default().to_owned()
}

#[test]
fn too_few_open_files_are_refused_in_words() {
    let said = under(&Place::new(), "ulimit -n 24", "SELECT 1");
    assert!(said.contains("open only 24 files at once"), "{said}");
    assert!(said.contains("ulimit -n 1024"), "{said}");
}

#[test]
fn a_file_that_may_not_grow_is_an_error_and_no_end() {
    let place = Place::new();
    place.ok(&["sql", "-c", "CREATE TABLE t (k INT PRIMARY KEY, v TEXT)"]);
    let sql = "INSERT INTO t SELECT x, repeat('v', 1000) FROM generate_series(1, 10000) AS s (x)";
    // In blocks of 512 bytes.
    let said = under(&place, "ulimit -f 4000", sql);
    assert!(said.contains("too large"), "{said}");
    assert_eq!(place.rows("SELECT count(*) FROM t"), "0\n");
}

#[test]
fn budgets_hold_at_60_percent_of_themselves() {
    let place = Place::new();
    // Many runs and segments, of several tables; then a merge of them all.
    let mut load = String::new();
    for table in 0..3 {
        load += &format!("CREATE TABLE t{table} (k INT PRIMARY KEY, v TEXT);");
    }
    for part in 0..12 {
        for table in 0..3 {
            load += &format!(
                "INSERT INTO t{table}
                     SELECT x * 12 + {part}, concat(repeat('v', 100), CAST(x AS TEXT))
                     FROM generate_series(1, 10000) AS s (x);"
            );
        }
        load += "SETTLE TO SORTED;";
    }
    load += "SELECT count(*) FROM t0 JOIN t1 ON t0.k = t1.k JOIN t2 ON t2.k = t1.k; SETTLE;";
    let (done, said) = limited(&place, Budgets::SHIPPED, &load);
    assert!(done && said.contains("120000"), "{said}");
    // A query past its memory fails, and says what sets it; the database is none the worse.
    let join = "SELECT count(*) FROM t0 JOIN t1 ON t0.v = t1.v";
    let little = Budgets {
        query: 2 << 20,
        ..Budgets::SHIPPED
    };
    let (done, said) = limited(&place, little, join);
    assert!(!done && said.contains("query_memory"), "{said}");
    assert_eq!(place.rows("SELECT count(*) FROM t2"), "120000\n");
    place.ok(&["verify"]);
}

/// What is loaded, sorted, joined and grouped comes to some hundred megabytes each.
#[test]
fn budgets_hold_where_they_are_used() {
    let place = Place::new();
    let mut script = "CREATE TABLE narrow (k INT PRIMARY KEY, g INT);
        INSERT INTO narrow SELECT x, x % 4000 FROM generate_series(1, 120000) AS s (x);
        CREATE TABLE wide (k INT PRIMARY KEY, v TEXT);"
        .to_owned();
    for part in 0..6 {
        let (first, last) = (part * 50_000 + 1, (part + 1) * 50_000);
        script += &format!(
            "INSERT INTO wide SELECT x, concat(repeat('v', 1000), CAST(x AS TEXT))
                 FROM generate_series({first}, {last}) AS s (x);"
        );
    }
    script += "SETTLE;";
    // Thirty rows of each of 4,000 groups meet: 3,600,000.
    let pairs = "narrow AS a JOIN narrow AS b ON a.g = b.g";
    let expected = [
        (
            format!("SELECT a.k AS last_key FROM {pairs} ORDER BY b.k DESC, a.k OFFSET 3599999"),
            "last_key\n116001\n",
        ),
        (
            format!(
                "SELECT count(*) AS pairs FROM
                     (SELECT a.k, b.k AS l, count(*) FROM {pairs} GROUP BY a.k, b.k) AS g"
            ),
            "pairs\n3600000\n",
        ),
        (
            "SELECT k AS least_key FROM wide ORDER BY v DESC OFFSET 299999".to_owned(),
            "least_key\n1\n",
        ),
        (
            "SELECT count(*) AS met FROM wide AS a JOIN wide AS b ON a.k = b.k
                 WHERE a.k % 2 = 0 AND length(concat(a.v, b.v)) > 2000"
                .to_owned(),
            "met\n150000\n",
        ),
        (
            "SELECT count(*) AS ends FROM
                 (SELECT substr(v, 501) AS s, count(*) FROM wide GROUP BY substr(v, 501)) AS g"
                .to_owned(),
            "ends\n300000\n",
        ),
    ];
    for (sql, _) in &expected {
        script += &format!("{sql};");
    }
    let allowed_kib = Budgets::SHIPPED.allowed_kib();
    let group = Group::with_memory(allowed_kib << 10);
    let (done, said, most_kib) = watched(&place, group.as_ref(), &script);
    for (sql, rows) in &expected {
        assert!(done && said.contains(rows), "{sql}: {said}");
    }
    assert!(
        (100_000..allowed_kib).contains(&most_kib),
        "{most_kib} KiB of {allowed_kib}"
    );
    assert_eq!(group.as_ref().map_or(0, Group::ended), 0);
    println!("{most_kib} KiB of {allowed_kib}");
}

/// A query that would spill more than there may be fails alone, in words; others go on, and so does
/// its session.
#[test]
fn a_query_past_the_temporary_files_fails_alone() {
    let place = Place::new();
    let given = ["--query-memory", "32 MiB", "--query-spill-bytes", "1 MiB"];
    let server = Server::start(&place, &given);
    wait_for(async {
        let (one, other) = (client(&server).await, client(&server).await);
        let made = "CREATE TABLE big (k INT PRIMARY KEY, v TEXT);
            INSERT INTO big SELECT x, concat(repeat('v', 90), CAST(x AS TEXT))
                FROM generate_series(1, 200000) AS s (x);
            INSERT INTO big SELECT k + 200000, concat(v, 'more') FROM big;
            SET datafusion.execution.target_partitions = 1";
        one.batch_execute(made).await.unwrap();
        for round in 1..=3 {
            let asked = one.simple_query("SELECT k FROM big ORDER BY v OFFSET 399999");
            let beside = async {
                let write = format!("INSERT INTO big VALUES (-{round}, '')");
                other.batch_execute(&write).await.unwrap();
                cell(&other, "SELECT count(*) FROM big WHERE k < 0").await
            };
            let (refused, count) = tokio::join!(asked, beside);
            let refused = refused.unwrap_err();
            let told = refused.as_db_error().unwrap();
            assert_eq!(told.code().code(), "53400", "{told:?}");
            assert!(told.message().contains("temporary files"), "{told:?}");
            assert!(
                told.hint().unwrap().contains("query_spill_bytes"),
                "{told:?}"
            );
            assert_eq!(count, round.to_string());
            let small = "SELECT v FROM big WHERE k BETWEEN 1 AND 9 ORDER BY v DESC LIMIT 1";
            assert!(cell(&one, small).await.ends_with("v9"));
        }
    });
    server.stop();
    assert_eq!(place.rows("SELECT count(*) FROM big"), "400003\n");
}

/// Connections that say nothing take the files of no session that works.
#[test]
fn idle_connections_leave_files_for_those_who_work() {
    let place = Place::new();
    let server = start_after(&place, &format!("ulimit -n {OPEN_FILES}"), &[]);
    let lowered = server.line("max_connections is ");
    assert!(lowered.contains("only 64 files"), "{lowered}");
    let flight = server.line("Arrow Flight SQL clients: ");
    let flight = flight.split("grpc://").nth(1).unwrap();
    wait_for(async {
        let client = client(&server).await;
        let made = "CREATE TABLE t (k INT PRIMARY KEY, v TEXT)";
        client.batch_execute(made).await.unwrap();
        let connect = |address: &str, count: usize| -> Vec<TcpStream> {
            let connect = |_| TcpStream::connect(address).unwrap();
            (0..count).map(connect).collect()
        };
        let others = [connect(flight, 20), connect(&server.http, 20)];
        let mut idle = connect(&server.pg, 100);
        let mut told = Vec::new();
        idle[99].set_read_timeout(Some(PATIENCE)).unwrap();
        idle[99].read_to_end(&mut told).unwrap();
        let told = String::from_utf8_lossy(&told);
        assert!(
            told.contains("53300") && told.contains("ulimit -n"),
            "{told}"
        );
        for round in 1..=20 {
            let write = format!(
                "INSERT INTO t SELECT x * 20 + {round}, repeat('v', 1000)
                     FROM generate_series(1, 1000) AS s (x)"
            );
            client.batch_execute(&write).await.unwrap();
            let count = cell(&client, "SELECT count(*) FROM t").await;
            assert_eq!(count, (round * 1_000).to_string());
        }
        client.batch_execute("SETTLE").await.unwrap();
        let sorted = "SELECT k FROM t ORDER BY v, k OFFSET 19999";
        assert_eq!(cell(&client, sorted).await, "20020");
        drop((idle, others));
    });
    let until = Instant::now() + PATIENCE;
    while !server.sql(&["-q", "-c", "SELECT 1"]).ok {
        assert!(Instant::now() < until, "{:?}", server.said());
    }
    assert_eq!(get(&server.http, "/ready").0, 200);
    let said = server.stop().join("\n");
    assert!(!said.contains("Too many open files"), "{said}");
}

#[test]
fn a_statement_that_is_too_deep_is_refused_and_a_long_one_is_not() {
    let place = Place::new();
    let all = |one: &str, between: &str, count: usize| vec![one; count].join(between);
    for (one, between) in [("1", " + "), ("'a'", " || "), ("SELECT 1", " UNION ALL ")] {
        let begin = if one.starts_with('S') { "" } else { "SELECT " };
        let err = place.fails(&["sql", "-c", &format!("{begin}{}", all(one, between, 4_000))]);
        assert!(err.contains("too deep"), "{err}");
    }
    let long = all("1 = 1", " AND ", 1_999);
    place.ok(&["sql", "-c", &format!("SELECT 1 WHERE {long}")]);
    let long = all("n = 1", " OR ", 1_999);
    place.ok(&["sql", "-c", "CREATE TABLE t (n INT PRIMARY KEY)"]);
    place.ok(&["sql", "-c", &format!("SELECT n FROM t WHERE {long}")]);
    place.ok(&[
        "sql",
        "-c",
        &format!("SELECT length({})", all("'a'", " || ", 1_500)),
    ]);
    let sum = place.rows(&format!("SELECT {}", all("1", " + ", 700)));
    assert_eq!(sum, "700\n");
    place.ok(&[
        "sql",
        "-c",
        &format!("SELECT {} FROM t", all("n", " + ", 500)),
    ]);
}
