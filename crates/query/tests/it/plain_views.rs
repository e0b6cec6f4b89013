//! Plain views beyond what texts of statements can say: who may read them and what they show,
//! other sessions, prepared statements, the past, and databases that are opened again.

use lazybase_query::{Database, Session};
use tempfile::TempDir;

use crate::{open_in, rows};

async fn world(setup: &str) -> (TempDir, Database, Session) {
    let folder = tempfile::tempdir().unwrap();
    let database = open_in(folder.path()).await;
    let session = database.session();
    session.execute(setup).await.unwrap();
    (folder, database, session)
}

async fn role(database: &Database, name: &str) -> Session {
    let session = database.session();
    session.execute(&format!("SET ROLE {name}")).await.unwrap();
    session
}

/// The SQLSTATE that a statement fails with.
async fn refused(session: &Session, sql: &str) -> String {
    let error = session.execute(sql).await.map(drop).expect_err(sql);
    error.sqlstate().to_owned()
}

async fn ok(session: &Session, sql: &str) {
    let done = session.execute(sql).await;
    done.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
}

const ROLES: &str = "
    CREATE ROLE owner; CREATE ROLE maker; CREATE ROLE reader; CREATE ROLE nobody;
    GRANT CREATE ON DATABASE lazybase TO owner, maker;
    SET ROLE owner;
    CREATE TABLE t (k INT PRIMARY KEY, a INT, secret INT);
    INSERT INTO t VALUES (1, 10, 100), (2, 20, 200);
    GRANT SELECT ON t TO maker;
    RESET ROLE";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_is_read_by_its_owners_rights_and_named_by_ones_own() {
    let (_folder, database, admin) = world(ROLES).await;
    let (owner, maker) = (
        role(&database, "owner").await,
        role(&database, "maker").await,
    );
    let (reader, nobody) = (
        role(&database, "reader").await,
        role(&database, "nobody").await,
    );
    assert_eq!(
        refused(&reader, "CREATE VIEW r AS SELECT 1 AS one").await,
        "42501"
    );
    assert_eq!(
        refused(&nobody, "CREATE VIEW r AS SELECT k FROM t").await,
        "42501"
    );
    let made = "CREATE VIEW v AS SELECT k, a FROM t WHERE secret > 100";
    ok(&maker, made).await;
    let read = "SELECT k, a FROM v";
    assert_eq!(rows(&maker, read).await, [["2", "20"]]);
    for session in [&owner, &reader, &nobody] {
        assert_eq!(refused(session, read).await, "42501");
        assert_eq!(refused(session, "SELECT count(*) FROM v").await, "42501");
        assert_eq!(refused(session, "EXPLAIN SELECT 1 FROM v").await, "42501");
    }
    ok(&maker, "GRANT SELECT ON v TO reader").await;
    assert_eq!(rows(&reader, read).await, [["2", "20"]]);
    assert_eq!(refused(&reader, "SELECT k FROM t").await, "42501");

    // A view of a view: its owner needs the right to the inner one, its reader does not.
    ok(&admin, "GRANT CREATE ON DATABASE lazybase TO reader").await;
    ok(&reader, "CREATE VIEW outer_v AS SELECT a FROM v").await;
    ok(&reader, "GRANT SELECT ON outer_v TO nobody").await;
    assert_eq!(rows(&nobody, "SELECT a FROM outer_v").await, [["20"]]);
    assert_eq!(refused(&nobody, read).await, "42501");
    let prepared = nobody
        .prepare("SELECT a FROM outer_v WHERE a > $1")
        .await
        .unwrap();
    assert_eq!(prepared.execute(&[1_i64.into()]).await.unwrap().rows, 1);
    ok(&maker, "REVOKE SELECT ON v FROM reader").await;
    assert_eq!(refused(&nobody, "SELECT a FROM outer_v").await, "42501");
    let late = prepared.execute(&[1_i64.into()]).await.unwrap_err();
    assert_eq!(late.sqlstate(), "42501");
    ok(&maker, "GRANT SELECT ON v TO reader").await;
    ok(&owner, "REVOKE SELECT ON t FROM maker").await;
    for (session, sql) in [(&reader, read), (&nobody, "SELECT a FROM outer_v")] {
        assert_eq!(refused(session, sql).await, "42501");
    }
    // It goes on by the rights of whoever gets it.
    ok(&admin, "ALTER VIEW v OWNER TO owner").await;
    assert_eq!(rows(&reader, read).await, [["2", "20"]]);

    // Names and columns are seen by whom they concern; its query by its owner.
    let seen = "SELECT count(*) FROM information_schema.columns WHERE table_name = 'v'";
    assert_eq!(rows(&reader, seen).await, [["2"]]);
    assert_eq!(rows(&nobody, seen).await, [["0"]]);
    let query = "SELECT view_definition FROM information_schema.views WHERE table_name = 'v'";
    assert_eq!(rows(&reader, query).await, [["NULL"]]);
    assert_eq!(
        rows(&owner, query).await,
        [["SELECT k, a FROM t WHERE secret > 100"]]
    );
    for sql in [
        "DROP VIEW v",
        "ALTER VIEW v RENAME TO w",
        "COMMENT ON VIEW v IS 'mine'",
        "CREATE OR REPLACE VIEW v AS SELECT 1 AS k, 2 AS a",
    ] {
        assert_eq!(refused(&reader, sql).await, "42501", "{sql}");
    }
    // What a table's owner drops takes the views of others along.
    ok(&owner, "DROP TABLE t CASCADE").await;
    assert_eq!(refused(&nobody, "SELECT a FROM outer_v").await, "42P01");
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_of_a_view_are_asked_for_at_each_run() {
    let (folder, database, admin) = world(ROLES).await;
    ok(
        &admin,
        "CREATE VIEW v AS SELECT k, a, secret FROM t; GRANT SELECT (k, a) ON v TO reader",
    )
    .await;
    let reader = role(&database, "reader").await;
    let granted = reader.prepare("SELECT a FROM v WHERE k = $1").await;
    let withheld = reader.prepare("SELECT a FROM v WHERE secret = $1").await;
    let (granted, withheld) = (granted.unwrap(), withheld.unwrap());
    assert_eq!(granted.execute(&[1_i64.into()]).await.unwrap().rows, 1);
    // A refusal is the same whether or not a row is there.
    let present = withheld.execute(&[100_i64.into()]).await.unwrap_err();
    let absent = withheld.execute(&[77_i64.into()]).await.unwrap_err();
    assert_eq!(present.sqlstate(), "42501");
    assert_eq!(format!("{present:?}"), format!("{absent:?}"));
    ok(&admin, "GRANT SELECT (secret) ON v TO reader").await;
    assert_eq!(withheld.execute(&[100_i64.into()]).await.unwrap().rows, 1);
    ok(&admin, "REVOKE SELECT (a) ON v FROM reader").await;
    for statement in [&granted, &withheld] {
        let late = statement.execute(&[1_i64.into()]).await.unwrap_err();
        assert_eq!(late.sqlstate(), "42501");
    }
    database.close().await.unwrap();
    drop((granted, withheld, reader, admin, database));
    let database = open_in(folder.path()).await;
    let reader = role(&database, "reader").await;
    assert_eq!(
        rows(&reader, "SELECT k, secret FROM v WHERE k = 2").await,
        [["2", "200"]]
    );
    assert_eq!(refused(&reader, "SELECT a FROM v").await, "42501");
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_are_those_of_who_reads() {
    let setup = "
        CREATE ROLE boss SUPERUSER; CREATE ROLE pay AUTHORIZATIONS ('pay'); CREATE ROLE guest;
        GRANT CREATE ON DATABASE lazybase TO guest;
        CREATE TABLE t (k INT PRIMARY KEY, a INT WITH LABELS) WITH (row_labels = true);
        INSERT INTO t (k, a, \"_label(a)\", _label)
            VALUES (1, 10, 'pay', NULL), (2, 20, 'hr', NULL), (3, 30, NULL, 'pay');
        GRANT SELECT ON t TO guest;
        CREATE VIEW of_all AS SELECT k, a FROM t;
        CREATE VIEW filtered AS SELECT k FROM t WHERE a > 5;
        CREATE VIEW counted AS SELECT count(*) AS n, sum(a) AS total FROM t;
        GRANT SELECT ON of_all, filtered, counted TO PUBLIC";
    let (_folder, database, admin) = world(setup).await;
    let guest = role(&database, "guest").await;
    ok(&guest, "CREATE VIEW of_guest AS SELECT k, a FROM t").await;
    ok(&guest, "GRANT SELECT ON of_guest TO PUBLIC").await;
    let (boss, pay) = (role(&database, "boss").await, role(&database, "pay").await);
    let all = vec![vec!["1", "10"], vec!["2", "20"], vec!["3", "30"]];
    let cases = [
        (&admin, all.clone(), "3", "60"),
        (&boss, all, "3", "60"),
        (
            &pay,
            vec![vec!["1", "10"], vec!["2", "NULL"], vec!["3", "30"]],
            "3",
            "40",
        ),
        (
            &guest,
            vec![vec!["1", "NULL"], vec!["2", "NULL"]],
            "2",
            "NULL",
        ),
    ];
    for (session, wanted, count, total) in cases {
        for view in ["of_all", "of_guest"] {
            let sql = format!("SELECT k, a FROM {view} ORDER BY k");
            assert_eq!(rows(session, &sql).await, wanted, "{view}");
        }
        let counted = "SELECT n, total FROM counted";
        assert_eq!(rows(session, counted).await, [[count, total]]);
        let shown = wanted.iter().filter(|row| row[1] != "NULL").count();
        let filtered = rows(session, "SELECT count(*) FROM filtered").await;
        assert_eq!(filtered, [[shown.to_string()]]);
    }
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_change_what_others_read_are_refused_at_commit() {
    let (_folder, database, one) = world("CREATE TABLE t (k INT PRIMARY KEY, a INT)").await;
    let other = database.session();
    // A table goes while a view of it is being made.
    ok(&one, "BEGIN; CREATE VIEW v AS SELECT a FROM t").await;
    assert_eq!(refused(&other, "SELECT * FROM v").await, "42P01");
    ok(&other, "ALTER TABLE t DROP COLUMN a").await;
    assert_eq!(refused(&one, "COMMIT").await, "40001");
    ok(&one, "BEGIN; CREATE VIEW v AS SELECT k FROM t").await;
    ok(&other, "DROP TABLE t").await;
    assert_eq!(refused(&one, "COMMIT").await, "40001");
    assert_eq!(refused(&one, "SELECT * FROM v").await, "42P01");
    // A view comes while its table is being dropped.
    ok(
        &one,
        "CREATE TABLE t (k INT PRIMARY KEY); BEGIN; DROP TABLE t",
    )
    .await;
    ok(&other, "CREATE VIEW v AS SELECT k FROM t").await;
    assert_eq!(refused(&one, "COMMIT").await, "2BP01");
    assert_eq!(rows(&one, "SELECT count(*) FROM v").await, [["0"]]);
    // Both give it another query, or make each other's circle.
    ok(
        &one,
        "BEGIN; CREATE OR REPLACE VIEW v AS SELECT k FROM t WHERE k > 1",
    )
    .await;
    ok(&other, "COMMENT ON VIEW v IS 'changed'").await;
    assert_eq!(refused(&one, "COMMIT").await, "40001");
    ok(&other, "CREATE VIEW w AS SELECT k FROM t").await;
    ok(&one, "BEGIN; CREATE OR REPLACE VIEW v AS SELECT k FROM w").await;
    ok(&other, "CREATE OR REPLACE VIEW w AS SELECT k FROM v").await;
    assert_eq!(refused(&one, "COMMIT").await, "40001");
    // Who reads in such a circle before COMMIT is told of it.
    ok(&other, "CREATE VIEW x AS SELECT k FROM t").await;
    ok(&one, "BEGIN; CREATE OR REPLACE VIEW v AS SELECT k FROM x").await;
    ok(&other, "CREATE OR REPLACE VIEW x AS SELECT k FROM v").await;
    assert_eq!(refused(&one, "SELECT k FROM v").await, "40001");
    ok(&one, "ROLLBACK").await;
    assert_eq!(rows(&one, "SELECT count(*) FROM x").await, [["0"]]);
    // Alone each of them goes through, whatever others do meanwhile.
    ok(
        &one,
        "CREATE OR REPLACE VIEW v AS SELECT k FROM t WHERE k > 1",
    )
    .await;
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_deeply_views_read_each_other_has_a_bound_from_both_ends() {
    let setup = "CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1), (2);
        CREATE VIEW v1 AS SELECT k FROM t; CREATE VIEW beside AS SELECT k FROM t";
    let (_folder, database, session) = world(setup).await;
    for at in 2..=32 {
        let sql = format!("CREATE VIEW v{at} AS SELECT k FROM v{}", at - 1);
        ok(&session, &sql).await;
    }
    assert_eq!(rows(&session, "SELECT sum(k) FROM v32").await, [["3"]]);
    let more = "CREATE VIEW v33 AS SELECT k FROM v32";
    assert_eq!(refused(&session, more).await, "54001");
    // It would grow from below, too.
    let below = "CREATE OR REPLACE VIEW v1 AS SELECT k FROM beside";
    assert_eq!(refused(&session, below).await, "54001");
    let same = "CREATE OR REPLACE VIEW v1 AS SELECT k FROM t WHERE k > 1";
    ok(&session, same).await;
    assert_eq!(rows(&session, "SELECT sum(k) FROM v32").await, [["2"]]);
    ok(&session, "DROP VIEW v32").await;
    ok(&session, below).await;
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepared_statement_reads_the_view_that_there_is() {
    let setup = "CREATE TABLE t (k INT PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 10), (2, 20);
        CREATE VIEW v AS SELECT k, a FROM t WHERE a > 15";
    let (_folder, database, session) = world(setup).await;
    let prepared = session
        .prepare("SELECT * FROM v WHERE k <= $1")
        .await
        .unwrap();
    let described = prepared.columns().await.unwrap().unwrap();
    assert_eq!(described.schema.fields().len(), 2);
    let answer = prepared.execute(&[9_i64.into()]).await.unwrap();
    assert_eq!(answer.rows, 1);
    ok(
        &session,
        "CREATE OR REPLACE VIEW v AS SELECT k, a, 'x' AS more FROM t",
    )
    .await;
    let answer = prepared.query(&[9_i64.into()]).await.unwrap();
    assert_ne!(*answer.definitions(), described.definitions);
    assert_eq!(answer.collect().await.unwrap().rows, 2);
    ok(
        &session,
        "ALTER TABLE t RENAME COLUMN a TO b; ALTER TABLE t RENAME TO u",
    )
    .await;
    assert_eq!(prepared.execute(&[9_i64.into()]).await.unwrap().rows, 2);
    ok(&session, "DROP VIEW v").await;
    let error = prepared.execute(&[9_i64.into()]).await.unwrap_err();
    assert_eq!(error.sqlstate(), "42P01");
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_of_a_statement_is_one_cut_and_the_past_is_read_through_todays_view() {
    let setup = "CREATE TABLE t (k INT PRIMARY KEY, a INT);
        CREATE VIEW v AS SELECT k, a FROM t; CREATE VIEW twice AS SELECT k FROM v;
        INSERT INTO t VALUES (1, 10); SETTLE TO SORTED";
    let (_folder, database, session) = world(setup).await;
    let both = "SELECT count(*), (SELECT count(*) FROM twice), (SELECT count(*) FROM t) FROM v";
    assert_eq!(rows(&session, both).await, [["1", "1", "1"]]);
    let stamp = session.last_stamp().unwrap();
    let scu = stamp.horizon.scu.0.max(1);
    ok(&session, "INSERT INTO t VALUES (2, 20); SETTLE TO SORTED").await;
    assert_eq!(rows(&session, both).await, [["2", "2", "2"]]);
    let past = format!("{both} AS OF SCU {scu}");
    assert_eq!(rows(&session, &past).await, [["1", "1", "1"]]);
    // A reader's clauses hold for what the view reads.
    ok(&session, "INSERT INTO t VALUES (3, 30)").await;
    let fresh = "SELECT count(*) FROM twice FRESHNESS 0";
    assert_eq!(rows(&database.session(), fresh).await, [["3"]]);
    // A transaction reads what its first query has found.
    ok(&session, "BEGIN; SELECT count(*) FROM v").await;
    ok(&database.session(), "INSERT INTO t VALUES (4, 40)").await;
    assert_eq!(rows(&session, "SELECT count(*) FROM twice").await, [["3"]]);
    ok(&session, "ROLLBACK").await;
    // Columns that came later are none of a view's, and one that it reads was not there then.
    ok(
        &session,
        "ALTER TABLE t ADD COLUMN c INT DEFAULT 7; CREATE VIEW late AS SELECT c FROM t",
    )
    .await;
    let error = refused(&session, &format!("SELECT c FROM late AS OF SCU {scu}")).await;
    assert_eq!(error, "42703");
    assert_eq!(rows(&session, &past).await, [["1", "1", "1"]]);
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn views_are_there_when_the_database_is_opened_again() {
    let setup = "CREATE TABLE t (k INT PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 10), (2, 20);
        CREATE VIEW v (num, doubled) AS SELECT k, a * 2 FROM t;
        CREATE VIEW over_v AS SELECT * FROM v WHERE num > 1;
        COMMENT ON VIEW v IS 'it''s kept';
        CREATE VIEW gone AS SELECT 1 AS one; DROP VIEW gone;
        ALTER TABLE t RENAME COLUMN a TO b; ALTER TABLE t RENAME TO u";
    let (folder, database, session) = world(setup).await;
    let read = "SELECT num, doubled FROM over_v";
    let made = "SHOW CREATE VIEW v";
    let (seen, statements) = (rows(&session, read).await, rows(&session, made).await);
    assert_eq!(seen, [["2", "40"]]);
    database.close().await.unwrap();
    drop((session, database));
    let database = open_in(folder.path()).await;
    let session = database.session();
    assert_eq!(rows(&session, read).await, seen);
    assert_eq!(rows(&session, made).await, statements);
    assert_eq!(statements[1][1], "COMMENT ON VIEW v IS 'it''s kept'");
    assert_eq!(refused(&session, "SELECT * FROM gone").await, "42P01");
    // The statements make it again, over what is called otherwise by now.
    ok(&session, "DROP VIEW v CASCADE").await;
    for statement in &statements {
        ok(&session, &statement[1]).await;
    }
    let again = "SELECT num, doubled FROM v ORDER BY num";
    assert_eq!(rows(&session, again).await, [["1", "20"], ["2", "40"]]);
    database.close().await.unwrap();
}

/// Columns have the types that the catalogue says, whatever the planner makes of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_have_their_declared_types() {
    let setup = "CREATE TABLE t (k INT PRIMARY KEY, u UUID, j JSON, d DECIMAL(10, 2), s VARCHAR(5),
            at TIMESTAMP, z TIMESTAMPTZ, l INT[], b BYTEA);
        INSERT INTO t VALUES (1, '00000000-0000-0000-0000-0000000000ff', '{\"a\": 1}', 1.5, 'x',
            '2024-01-01', '2024-01-01 00:00:00+00', ARRAY[1, 2], X'00ff');
        CREATE VIEW v AS SELECT *, k + 1 AS after_k, d / 3 AS third, avg(k) OVER () AS mean,
            NULL AS nothing, now() AS moment, at - at AS span, upper(s) AS big, 1.25 AS exact,
            j -> 'a' AS part FROM t";
    let (_folder, database, session) = world(setup).await;
    let columns = "SELECT column_name, data_type FROM information_schema.columns \
        WHERE table_name = 'v' ORDER BY ordinal_position";
    let told = rows(&session, columns).await;
    let kept = "CREATE TABLE copied AS SELECT * FROM v";
    ok(&session, kept).await;
    let copied = columns.replace("'v'", "'copied'");
    assert_eq!(told, rows(&session, &copied).await);
    let read = "SELECT k, u, s, after_k, nothing, big FROM v \
        WHERE u = '00000000-0000-0000-0000-0000000000ff'";
    assert_eq!(
        rows(&session, read).await,
        [[
            "1",
            "00000000-0000-0000-0000-0000000000ff",
            "x",
            "2",
            "NULL",
            "X"
        ]]
    );
    let grouped = "SELECT u, count(*), sum(d) FROM v GROUP BY u HAVING max(moment) IS NOT NULL";
    assert_eq!(rows(&session, grouped).await.len(), 1);
    database.close().await.unwrap();
}

/// What dbt asks, so that it knows which views went with what it has dropped.
const DEPENDENCIES: &str = "select distinct
        dependent_namespace.nspname as dependent_schema,
        dependent_class.relname as dependent_name,
        referenced_namespace.nspname as referenced_schema,
        referenced_class.relname as referenced_name
    from pg_class as dependent_class
    join pg_namespace as dependent_namespace
        on dependent_namespace.oid = dependent_class.relnamespace
    join pg_depend as dependent_depend on dependent_depend.refobjid = dependent_class.oid
        and dependent_depend.classid = 'pg_rewrite'::regclass
        and dependent_depend.refclassid = 'pg_class'::regclass
        and dependent_depend.deptype = 'i'
    join pg_depend as joining_depend on joining_depend.objid = dependent_depend.objid
        and joining_depend.classid = 'pg_rewrite'::regclass
        and joining_depend.refclassid = 'pg_class'::regclass
        and joining_depend.refobjid != dependent_depend.refobjid
    join pg_class as referenced_class on referenced_class.oid = joining_depend.refobjid
    join pg_namespace as referenced_namespace
        on referenced_namespace.oid = referenced_class.relnamespace
        and referenced_namespace.nspname != 'information_schema'
        and referenced_namespace.nspname not like 'pg\\_%'
    order by dependent_schema, dependent_name, referenced_schema, referenced_name";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_views_read_is_told_as_postgresql_tells_it() {
    let setup = "CREATE TABLE t (k INT PRIMARY KEY); CREATE TABLE u (k INT PRIMARY KEY);
        CREATE MATERIALIZED VIEW kept AS SELECT k FROM t ORDER BY k;
        CREATE VIEW v AS SELECT t.k FROM t JOIN u USING (k);
        CREATE VIEW w AS SELECT k FROM v UNION ALL SELECT k FROM kept";
    let (_folder, database, session) = world(setup).await;
    let told = rows(&session, DEPENDENCIES).await;
    let told: Vec<String> = told.iter().map(|row| row.join(" ")).collect();
    assert_eq!(
        told,
        [
            "public kept public t",
            "public v public t",
            "public v public u",
            "public w public kept",
            "public w public v"
        ]
    );
    let all =
        "SELECT relname, relkind FROM pg_class WHERE relname IN ('t', 'kept', 'v') ORDER BY 1";
    assert_eq!(
        rows(&session, all).await,
        [["kept", "m"], ["t", "r"], ["v", "v"]]
    );
    database.close().await.unwrap();
}
