//! Settings: what they go back to, and when.

use tokio_postgres::Client;

use crate::raw::Raw;
use crate::served::{Served, cells, rows_of, sqlstate};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_goes_back_to_what_the_connection_asked_for() {
    let served = Served::with("CREATE TABLE t (k INT PRIMARY KEY, v TEXT)").await;
    let client = served
        .connect(
            "application_name=tests options='-c lazybase.freshness=30 -c statement_timeout=9s'",
        )
        .await
        .unwrap();
    let began = [
        ("lazybase.copy_format", "text", "csv"),
        ("lazybase.freshness", "30s", "5"),
        ("application_name", "tests", "other"),
        ("statement_timeout", "9000", "1h"),
    ];
    for all in ["RESET ALL", "DISCARD ALL", ""] {
        for (name, value, other) in began {
            client
                .batch_execute(&format!("SET {name} = '{other}'"))
                .await
                .unwrap();
            if all.is_empty() {
                let one = format!("SET {name} TO DEFAULT");
                client.batch_execute(&one).await.unwrap();
                let shown = cells(&client, &format!("SHOW {name}")).await;
                assert_eq!(shown, [[value]], "{one}");
                let one = format!("SET {name} = '{other}'; RESET {name}");
                client.batch_execute(&one).await.unwrap();
            }
        }
        client.batch_execute(all).await.unwrap();
        for (name, value, _) in began {
            let shown = cells(&client, &format!("SHOW {name}")).await;
            assert_eq!(shown, [[value]], "{name} after {all:?}");
        }
    }
    served.stop().await;
}

/// Rails sets the style, and reads intervals in no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn intervals_are_sent_in_the_style_that_was_asked_for() {
    let served = Served::start().await;
    let client = served.client().await;
    let ask = "SELECT INTERVAL '1 month 2 days 3.5 seconds', ARRAY[INTERVAL '90 minutes']";
    let postgres = ["1 mon 2 days 00:00:03.5", "{01:30:00}"];
    assert_eq!(cells(&client, ask).await, [postgres]);
    client
        .batch_execute("SET intervalstyle = iso_8601")
        .await
        .unwrap();
    assert_eq!(cells(&client, ask).await, [["P1M2DT3.5S", "{PT1H30M}"]]);
    assert_eq!(cells(&client, "SHOW intervalstyle").await, [["iso_8601"]]);
    let fetched = "BEGIN; DECLARE c CURSOR FOR SELECT INTERVAL '1 day'; FETCH c; COMMIT";
    assert_eq!(cells(&client, fetched).await, [["P1D"]]);
    client.batch_execute("RESET intervalstyle").await.unwrap();
    assert_eq!(cells(&client, ask).await, [postgres]);
    let refused = client.batch_execute("SET intervalstyle = sql_standard");
    assert_eq!(sqlstate(refused.await), "0A000");

    let mut raw = Raw::new(&served).await;
    let told = raw.query("SET intervalstyle = iso_8601").ready().await;
    assert!(told.kinds().contains('S'), "{told:?}");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_follow_their_transaction() {
    let served = Served::start().await;
    let client = served.client().await;
    let shown = async || cells(&client, "SHOW lazybase.freshness").await[0][0].clone();
    let run = async |sql: &str| client.batch_execute(sql).await.unwrap();
    run("BEGIN; SET LOCAL lazybase.freshness = 1").await;
    assert_eq!(shown().await, "1s");
    run("COMMIT").await;
    assert_eq!(shown().await, "0");
    run("BEGIN; SET lazybase.freshness = 2; ROLLBACK").await;
    assert_eq!(shown().await, "0");
    run("BEGIN; SET lazybase.freshness = 3; SET LOCAL lazybase.freshness = 4").await;
    assert_eq!(shown().await, "4s");
    run("COMMIT").await;
    assert_eq!(shown().await, "3s");
    run("BEGIN; SET lazybase.freshness = 5; SAVEPOINT s; SET lazybase.freshness = 6").await;
    run("ROLLBACK TO s").await;
    assert_eq!(shown().await, "5s");
    run("COMMIT").await;
    assert_eq!(shown().await, "5s");
    run("BEGIN; RESET ALL; COMMIT").await;
    assert_eq!(shown().await, "0");
    run("BEGIN; SET lazybase.freshness = 7").await;
    assert_eq!(sqlstate(client.simple_query("SELECT 1 / 0").await), "22012");
    run("COMMIT").await;
    assert_eq!(
        shown().await,
        "0",
        "a transaction that failed keeps nothing"
    );
    // Outside of a transaction it says so, and changes nothing.
    run("SET LOCAL lazybase.freshness = 8").await;
    assert_eq!(shown().await, "0");
    let failed = client
        .batch_execute("SET lazybase.freshness = 9; SELECT 1 / 0")
        .await;
    assert_eq!(sqlstate(failed), "22012");
    assert_eq!(shown().await, "0");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_discarded_inside_a_transaction() {
    let served = Served::start().await;
    let client = served.client().await;
    client.batch_execute("BEGIN").await.unwrap();
    assert_eq!(sqlstate(client.batch_execute("DISCARD ALL").await), "25001");
    client.batch_execute("ROLLBACK").await.unwrap();
    client.batch_execute("SELECT 1; DISCARD ALL").await.unwrap();
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zone_that_is_not_followed_is_told() {
    let served = Served::start().await;
    let begun = async |zone: &str| {
        let mut body = 196_608_u32.to_be_bytes().to_vec();
        let parameters = format!("user\0x\0database\0lazybase\0TimeZone\0{zone}\0\0");
        body.extend_from_slice(parameters.as_bytes());
        Raw::begin(&served, &body).await
    };
    let told = begun("Europe/Berlin").await;
    assert_eq!(
        told.status(),
        Some('I'),
        "drivers send it unasked: {told:?}"
    );
    let notices = told.notices();
    assert_eq!(notices.len(), 1, "{told:?}");
    assert!(notices[0].contains("Europe/Berlin") && notices[0].contains("UTC"));
    for zone in ["UTC", "Etc/UTC", "GMT"] {
        assert!(begun(zone).await.notices().is_empty(), "{zone}");
    }
    let mut raw = Raw::new(&served).await;
    for (sql, is_told) in [
        ("SET timezone = 'Europe/Berlin'", true),
        ("SET TIME ZONE 'America/New_York'", true),
        ("ALTER DATABASE lazybase SET timezone = 'Asia/Tokyo'", true),
        ("SET TimeZone TO 'Etc/UTC'", false),
        ("RESET timezone", false),
    ] {
        let answer = raw.query(sql).ready().await;
        assert!(answer.errors(b'C').is_empty(), "{sql}: {answer:?}");
        let notices = answer.notices();
        assert_eq!(notices.len(), usize::from(is_told), "{sql}: {answer:?}");
        assert!(notices.iter().all(|told| told.contains("in UTC")), "{sql}");
    }
    let client = served
        .connect("options='-c TimeZone=Europe/Berlin'")
        .await
        .unwrap();
    assert_eq!(cells(&client, "SHOW timezone").await, [["UTC"]]);
    served.stop().await;
}

/// What scripts and drivers set to tune PostgreSQL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_no_effect_is_taken_and_told() {
    let served = Served::start().await;
    let mut raw = Raw::new(&served).await;
    for (sql, told) in [
        ("SET work_mem = '64MB'", Some("work_mem has no effect here")),
        (
            "SET Enable_SeqScan = off",
            Some("enable_seqscan has no effect here"),
        ),
        (
            "SET synchronous_commit TO off",
            Some("synchronous_commit has no effect here: what is acknowledged is durable"),
        ),
        (
            "SET lock_timeout = '5s'",
            Some("lock_timeout has no effect here"),
        ),
        ("SET lc_time = 'de_DE'", Some("lc_time has no effect here")),
        ("SET lc_monetary = 'C'", None),
        // What says what holds already tells nobody anything.
        ("SET lock_timeout = 0", None),
        ("SET synchronous_commit = on", None),
        ("RESET work_mem", None),
        ("SET work_mem TO DEFAULT", None),
        // As scripts of pg_dump begin.
        ("SET idle_in_transaction_session_timeout = 0", None),
        ("SET transaction_timeout = 0", None),
        ("SET default_table_access_method = heap", None),
        ("SET session_replication_role = replica", None),
    ] {
        let answer = raw.query(sql).ready().await;
        assert!(answer.errors(b'C').is_empty(), "{sql}: {answer:?}");
        assert_eq!(answer.notices(), Vec::from_iter(told), "{sql}");
    }
    let client = served
        .connect("options='-c work_mem=1GB -c synchronous_commit=off'")
        .await
        .unwrap();
    assert_eq!(cells(&client, "SHOW synchronous_commit").await, [["on"]]);
    for (sql, state) in [
        ("SET work_memory = '64MB'", "42704"),
        ("SET transaction_timeout = '1s'", "0A000"),
        ("SET default_table_access_method = columnar", "0A000"),
    ] {
        assert_eq!(sqlstate(client.batch_execute(sql).await), state, "{sql}");
    }
    served.stop().await;
}

/// What tools look for in `pg_settings`, and by SHOW.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_postgresql_are_listed_as_they_are_shown() {
    let served = Served::start().await;
    let client = served.client().await;
    let listed = "SELECT name, setting FROM pg_settings WHERE name IN ('DateStyle', 'TimeZone', \
                  'lazybase.freshness', 'max_connections', 'search_path', 'server_encoding', \
                  'server_version_num', 'superuser_reserved_connections', \
                  'transaction_isolation') ORDER BY 1";
    let listed = cells(&client, listed).await;
    assert_eq!(
        listed,
        [
            ["DateStyle", "ISO, MDY"],
            ["TimeZone", "UTC"],
            ["lazybase.freshness", "0"],
            ["max_connections", "500"],
            ["search_path", "public"],
            ["server_encoding", "UTF8"],
            ["server_version_num", "150000"],
            ["superuser_reserved_connections", "3"],
            ["transaction_isolation", "repeatable read"],
        ]
    );
    for row in listed {
        let shown = cells(&client, &format!("SHOW {}", row[0])).await;
        assert_eq!(shown, [[row[1].as_str()]], "{}", row[0]);
        let asked = format!("SELECT current_setting('{}')", row[0]);
        assert_eq!(cells(&client, &asked).await, [[row[1].as_str()]]);
    }
    let all = cells(&client, "SHOW ALL").await;
    let of_planner = "SELECT count(*) FROM pg_settings WHERE name LIKE 'datafusion%'";
    assert_eq!(cells(&client, of_planner).await, [["0"]]);
    let count = cells(&client, "SELECT count(*) FROM pg_settings").await;
    assert_eq!(count, [[all.len().to_string()]]);
    let set = client.batch_execute("SET max_connections = 7").await;
    assert_eq!(sqlstate(set), "55P02");
    served.stop().await;
}

/// The first cell of an answer, or the SQLSTATE of an error.
async fn told(client: &Client, sql: &str) -> String {
    match client.simple_query(sql).await {
        Ok(messages) => rows_of(&messages)[0][0].clone(),
        Err(error) => sqlstate::<()>(Err(error)),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bound_that_is_missed_is_refused_or_answered_as_the_connection_says() {
    let served = Served::with(
        "CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1); SETTLE; \
         PAUSE STAGE SORT; INSERT INTO t VALUES (2)",
    )
    .await;
    let read = "SELECT count(*) FROM t";
    // As an option of the connection. Each is new: a session never goes back.
    for (options, expected) in [
        ("", "2"),
        ("options='-c lazybase.on_miss=error'", "53L01"),
        ("options='-c lazybase.on_miss=stale'", "1"),
    ] {
        let client = served.connect(options).await.unwrap();
        assert_eq!(told(&client, read).await, expected, "{options}");
    }
    // By SET.
    for (choice, expected) in [
        ("dig", "2"),
        ("wait 50 ms", "2"),
        ("error", "53L01"),
        ("stale", "1"),
    ] {
        let client = served.client().await;
        let set = format!("SET lazybase.on_miss = '{choice}'");
        client.batch_execute(&set).await.unwrap();
        assert_eq!(told(&client, read).await, expected, "{set}");
        let prepared = match client.query(read, &[]).await {
            Ok(rows) => rows[0].get::<_, i64>(0).to_string(),
            Err(error) => sqlstate::<()>(Err(error)),
        };
        assert_eq!(prepared, expected, "prepared, {set}");
    }
    // A clause counts before the setting, and a bound that is met is not missed.
    let options = "options='-c lazybase.on_miss=error'";
    let client = served.connect(options).await.unwrap();
    let error = client.simple_query(read).await.unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!(error.message(), "sorted data does not meet FRESHNESS 0");
    let detail = error.detail().unwrap();
    assert!(detail.contains(" stale, as of SCU "), "{detail}");
    let met = format!("{read} FRESHNESS '1 h'");
    assert_eq!(told(&client, &met).await, "1");
    let stale = format!("{read} FRESHNESS 0 ON MISS STALE");
    assert_eq!(told(&client, &stale).await, "1");
    let stamp = told(&client, "SHOW lazybase.last_answer").await;
    let left_out = " stale, 1 acknowledged batch left out (asked 0), as of ";
    assert!(stamp.contains(left_out), "{stamp}");
    client
        .batch_execute("SET lazybase.on_miss = 'stale'; RESET lazybase.on_miss")
        .await
        .unwrap();
    assert_eq!(told(&client, "SHOW lazybase.on_miss").await, "error");
    let dug = format!("{read} FRESHNESS 0 ON MISS DIG");
    assert_eq!(told(&client, &dug).await, "2");
    served.stop().await;
}
