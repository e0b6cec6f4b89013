//! All that could tell of what is hidden is the same where it was never loaded: plans, what they
//! cost, stamps, errors, system tables, catalogues.

use lazybase_query::Session;

use super::world;

const TABLES: &str = "
    CREATE ROLE guest;
    CREATE TABLE t (k INT PRIMARY KEY, g INT, a TEXT WITH LABELS) WITH (row_labels = true);
    CREATE MATERIALIZED VIEW by_a AS SELECT k, g, a FROM t ORDER BY a, k;
    CREATE MATERIALIZED VIEW by_g AS SELECT k, g, a FROM t ORDER BY g, k;
    GRANT SELECT ON t TO guest;
    GRANT SELECT ON by_a TO guest;
    GRANT SELECT ON by_g TO guest";

const SEEN: &str = "INSERT INTO t (k, g, a) VALUES (1, 1, '1'), (5, 1, '5'), (9, 2, 'x')";

const HIDDEN: &str = "
    INSERT INTO t (k, g, a, _label) VALUES (0, 0, 'y', 'secret'), (3, 1, '3', 'secret'),
        (7, 3, '7', 'secret'), (99, 99, '99', 'secret');
    INSERT INTO t (k, g, a, \"_label(a)\") VALUES (6, 1, '66', 'secret'), (8, 2, 'w', 'secret')";

const UNLOADED: &str = "INSERT INTO t (k, g) VALUES (6, 1), (8, 2)";

const ASKED: [&str; 40] = [
    "EXPLAIN SELECT * FROM t",
    "EXPLAIN SELECT count(*) FROM t",
    "EXPLAIN SELECT a FROM t WHERE k = 3",
    "EXPLAIN SELECT a FROM t WHERE k IN (1, 3)",
    "EXPLAIN SELECT a FROM t WHERE k > 6",
    "EXPLAIN SELECT a FROM t WHERE a = '7'",
    "EXPLAIN SELECT k FROM t ORDER BY a LIMIT 2",
    "EXPLAIN SELECT k FROM t ORDER BY k LIMIT 2",
    "EXPLAIN SELECT * FROM by_a WHERE a = '7'",
    "EXPLAIN SELECT * FROM by_g WHERE g = 77",
    "EXPLAIN SELECT k, g FROM t WHERE g > 50 AND g < 200",
    "EXPLAIN SELECT count(*) FROM t WHERE g >= 90",
    "EXPLAIN SELECT k, g FROM t ORDER BY g",
    "EXPLAIN SELECT x.k FROM t x JOIN by_g y ON x.g = y.g",
    "EXPLAIN VERBOSE SELECT max(k) FROM t",
    "EXPLAIN (STEPS) SELECT max(k) FROM t",
    "EXPLAIN ANALYZE SELECT * FROM t",
    "EXPLAIN ANALYZE SELECT count(a) FROM t WHERE g < 50",
    "EXPLAIN ANALYZE SELECT k FROM t WHERE k = 3",
    "EXPLAIN ANALYZE SELECT k FROM t ORDER BY k LIMIT 3",
    "EXPLAIN ANALYZE SELECT * FROM by_g",
    "SELECT count(*), min(k), max(k), min(a), max(a) FROM t",
    "SELECT min(g), max(g), count(*) FROM by_g",
    "SELECT CAST(a AS INT) FROM t WHERE k < 9",
    "SELECT CAST(a AS INT) FROM t",
    "SELECT k, 1 / (k - 3) FROM t",
    "SELECT k / (g - 2) FROM t",
    "SELECT name, stored_rows, bytes, ranges FROM lazybase.tables",
    "SELECT name, stored_rows, bytes FROM lazybase.views",
    "SELECT table_name, column_name, data_type FROM information_schema.columns",
    "SELECT relname, reltuples FROM pg_catalog.pg_class ORDER BY relname",
    "SELECT pg_total_relation_size('t'::regclass), pg_table_size('t'::regclass)",
    "SELECT pg_relation_size('t'), pg_total_relation_size('public.by_a')",
    "SELECT relname, pg_table_size(oid) FROM pg_catalog.pg_class ORDER BY relname",
    "SELECT pg_database_size('lazybase')",
    "SELECT pg_size_pretty(pg_database_size('lazybase'))",
    "SELECT relname, n_live_tup FROM pg_catalog.pg_stat_user_tables",
    "SELECT * FROM lazybase.segments",
    "SHOW lazybase.last_answer",
    "SELECT k, _label, _label(a), _time(a) = _time(k), _time(a) IS NULL FROM t ORDER BY k",
];

/// What a statement tells, without times, and places that times decide.
async fn told(session: &Session, sql: &str) -> Vec<String> {
    let answers = match session.execute(sql).await {
        Ok(answers) => answers,
        Err(error) => return vec![format!("{error:?}")],
    };
    let answer = answers.last().unwrap();
    let mut lines: Vec<String> = answer
        .batches
        .iter()
        .flat_map(crate::texts)
        .map(|row| row.join(" "))
        .map(|line| {
            let parts = line.split(", ").filter(|part| !is_time(part));
            parts.collect::<Vec<_>>().join(", ")
        })
        .collect();
    if !sql.contains("ORDER BY") && !sql.starts_with("EXPLAIN") {
        lines.sort();
    }
    if let Some(stamp) = &answer.stamp {
        lines.push(format!("{:?} {:?}", stamp.sources, stamp.advice));
    }
    lines
}

/// Whether a part of a plan's line is a time, which no two runs share.
fn is_time(part: &str) -> bool {
    let beginnings = ["horizon", "as of "];
    let begins = beginnings.iter().any(|word| part.starts_with(*word));
    begins || part.contains("elapsed") || part.contains("time")
}

/// The two databases in which nothing may differ for the guest.
async fn both(settle: &str) -> Vec<(Session, impl Sized)> {
    let mut both = Vec::new();
    for last in [HIDDEN, UNLOADED] {
        let (folder, database, owner) = world(TABLES).await;
        owner.execute(SEEN).await.unwrap();
        owner.execute(last).await.unwrap();
        owner.execute(settle).await.unwrap();
        let guest = database.session();
        guest.execute("SET ROLE guest").await.unwrap();
        both.push((guest, (folder, database)));
    }
    both
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_tells_of_what_is_hidden() {
    for settle in ["SELECT 1", "SETTLE TO SORTED", "SETTLE"] {
        let both = both(settle).await;
        for sql in ASKED {
            let (hidden, unloaded) = (told(&both[0].0, sql).await, told(&both[1].0, sql).await);
            assert_eq!(hidden, unloaded, "{sql} after {settle}");
            let all = hidden.join("\n");
            for secret in ["secret", "99", "66"] {
                assert!(
                    !all.contains(secret),
                    "{sql} after {settle} tells {secret}: {all}"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sizes_are_for_those_who_have_a_privilege() {
    let (_folder, database, owner) = world(
        "CREATE ROLE guest;
         CREATE TABLE plain (k INT PRIMARY KEY)",
    )
    .await;
    owner.execute("INSERT INTO plain VALUES (1)").await.unwrap();
    owner.execute("SETTLE").await.unwrap();
    let guest = database.session();
    guest.execute("SET ROLE guest").await.unwrap();
    let sizes = "SELECT pg_table_size('plain'), pg_database_size('lazybase')";
    assert_eq!(crate::rows(&guest, sizes).await, [["NULL", "0"]]);
    let grant = "GRANT SELECT ON plain TO guest";
    owner.execute(grant).await.unwrap();
    let of_owner = crate::rows(&owner, sizes).await;
    assert_eq!(crate::rows(&guest, sizes).await, of_owner);
    assert_ne!(of_owner[0][1], "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_counts_everything_is_for_those_who_see_it() {
    let (_folder, database, owner) = world(TABLES).await;
    owner.execute(HIDDEN).await.unwrap();
    owner.execute("SETTLE").await.unwrap();
    let stored = "SELECT stored_rows FROM lazybase.tables WHERE name = 't'";
    assert_eq!(crate::rows(&owner, stored).await, [["6"]]);
    let sizes = "SELECT pg_table_size('t'), pg_table_size('by_g'), pg_database_size('lazybase')";
    let of_owner = crate::rows(&owner, sizes).await;
    assert!(
        !["NULL", "0"].contains(&of_owner[0][0].as_str()),
        "{of_owner:?}"
    );
    let plan = told(&owner, "EXPLAIN SELECT * FROM t").await.join("\n");
    assert!(plan.contains("extents=1 of 1"), "{plan}");
    owner.execute("VERIFY TABLE t").await.unwrap();
    owner.execute("ALTER TABLE t OWNER TO guest").await.unwrap();
    let guest = database.session();
    guest.execute("SET ROLE guest").await.unwrap();
    assert_eq!(crate::rows(&guest, stored).await, [["NULL"]]);
    assert_eq!(crate::rows(&guest, sizes).await, [["NULL", "NULL", "0"]]);
    let error = guest.execute("VERIFY TABLE t").await.map(drop).unwrap_err();
    assert_eq!(error.sqlstate(), "42501");
}
