//! Who may do what, as a text: each statement by each role, planned and prepared; then what no
//! table of statements can say.

use lazybase_model::{Error, Result};
use lazybase_query::{Database, Op, Session};
use tempfile::TempDir;

use crate::open_in;

const ROLES: [&str; 6] = ["owner", "reader", "writer", "columns", "viewer", "nobody"];

const SETUP: &str = "
    CREATE ROLE owner; CREATE ROLE reader; CREATE ROLE writer; CREATE ROLE columns;
    CREATE ROLE viewer; CREATE ROLE nobody;
    GRANT CREATE ON DATABASE lazybase TO owner;
    SET ROLE owner;
    CREATE TABLE t (k INT PRIMARY KEY, a INT, s INT);
    CREATE TABLE u (z INT PRIMARY KEY);
    INSERT INTO t VALUES (1, 1, 1), (2, 2, 2);
    INSERT INTO u VALUES (1);
    CREATE MATERIALIZED VIEW v AS SELECT k, a, s FROM t ORDER BY a, k;
    GRANT SELECT ON t TO reader;
    GRANT INSERT, UPDATE, DELETE ON t TO writer;
    GRANT SELECT (k, a), INSERT (k, a), UPDATE (a) ON t TO columns;
    GRANT SELECT ON v TO viewer;
    RESET ROLE;
    SETTLE";

async fn world() -> (TempDir, Database, Session) {
    let folder = tempfile::tempdir().unwrap();
    let database = open_in(folder.path()).await;
    let session = database.session();
    session.execute(SETUP).await.unwrap();
    (folder, database, session)
}

async fn role(database: &Database, name: &str) -> Session {
    let session = database.session();
    let begin = format!("SET ROLE {name}; SET lazybase.read_modify_write = on");
    session.execute(&begin).await.unwrap();
    session
}

/// Runs a statement and leaves nothing of it.
async fn tried(session: &Session, sql: &str, prepared: bool) -> Result<()> {
    let (sql, alone) = match sql.strip_prefix('!') {
        Some(sql) => (sql, true),
        None => (sql, false),
    };
    if !alone {
        session.execute("BEGIN").await?;
    }
    let done = match prepared {
        true => session.execute_with(sql, &[]).await.map(drop),
        false => session.execute(sql).await.map(drop),
    };
    if !alone {
        session.execute("ROLLBACK").await?;
    }
    done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_statement_is_for_whom_it_was_granted() {
    let (_folder, database, _) = world().await;
    let mut wrong = Vec::new();
    for line in include_str!("roles/matrix.txt").lines() {
        if line.starts_with('#') {
            continue;
        }
        let (sql, outcomes) = line.split_once("=>").unwrap();
        for (name, outcome) in ROLES.iter().zip(outcomes.split_whitespace()) {
            for prepared in [false, true] {
                let session = role(&database, name).await;
                let done = tried(&session, sql.trim(), prepared).await;
                let told = match &done {
                    Ok(()) => "+",
                    Err(error) if error.sqlstate() == "42501" => "-",
                    Err(_) => "?",
                };
                if told != outcome {
                    wrong.push(format!(
                        "{} by {name} (prepared: {prepared}): {done:?}",
                        sql.trim()
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Nothing of what was refused has happened.
    let session = database.session();
    assert_eq!(
        text(&session, "SELECT k, a, s FROM t ORDER BY k").await,
        "1 1 1\n2 2 2"
    );
    assert_eq!(text(&session, "SHOW TABLES").await, "public t\npublic u");
}

fn denied<T: std::fmt::Debug>(outcome: Result<T>) -> Error {
    let error = outcome.unwrap_err();
    assert_eq!(error.sqlstate(), "42501", "{error:?}");
    error
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepared_statement_asks_at_each_run() {
    let (_folder, database, operator) = world().await;
    let reader = role(&database, "reader").await;
    let point = reader
        .prepare("SELECT s FROM t WHERE k = $1")
        .await
        .unwrap();
    let planned = reader
        .prepare("SELECT s FROM t WHERE a = $1")
        .await
        .unwrap();
    assert!(point.reads_keys() && !planned.reads_keys());
    for statement in [&point, &planned] {
        assert_eq!(statement.execute(&[1_i64.into()]).await.unwrap().rows, 1);
    }
    operator
        .execute("REVOKE SELECT ON t FROM reader")
        .await
        .unwrap();
    for statement in [&point, &planned] {
        let present = denied(statement.execute(&[1_i64.into()]).await);
        let absent = denied(statement.execute(&[77_i64.into()]).await);
        assert_eq!(
            format!("{present:?}"),
            format!("{absent:?}"),
            "nothing is told of the rows"
        );
    }
    operator
        .execute("GRANT SELECT (k, s) ON t TO reader")
        .await
        .unwrap();
    assert_eq!(point.execute(&[1_i64.into()]).await.unwrap().rows, 1);
    denied(planned.execute(&[1_i64.into()]).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rust_api_of_a_session_has_the_same_gate() {
    let (_folder, database, _) = world().await;
    let keys = operator_rows(&database, "SELECT 1::INT AS k").await;
    let nobody = role(&database, "nobody").await;
    denied(nobody.get("t", &keys, &[]).await);
    denied(nobody.get("t", &keys, &["k"]).await);
    denied(nobody.copy_to("COPY t TO STDOUT").await.map(drop));
    denied(nobody.copy_plan("COPY t FROM STDIN").map(drop));
    denied(
        nobody
            .copy_from("COPY t FROM STDIN", &b"5,5,5\n"[..])
            .await
            .map(drop),
    );
    let columns = role(&database, "columns").await;
    assert_eq!(columns.get("t", &keys, &["a"]).await.unwrap().rows, 1);
    denied(columns.get("t", &keys, &["s"]).await);
    let rows = operator_rows(&database, "SELECT 5::INT AS k, 6::INT AS a").await;
    let secret = operator_rows(&database, "SELECT 5::INT AS k, 6::INT AS s").await;
    for op in [Op::Upsert, Op::Insert, Op::Update] {
        let mut appender = columns.appender(None);
        denied(appender.append("t", &secret, op).await);
        appender.append("t", &rows, op).await.unwrap();
        denied(columns.appender(None).append("t", &rows, Op::Delete).await);
        denied(nobody.appender(None).append("t", &rows, op).await);
    }
    let writer = role(&database, "writer").await;
    writer
        .appender(None)
        .append("t", &rows, Op::Delete)
        .await
        .unwrap();
}

async fn operator_rows(database: &Database, sql: &str) -> arrow::array::RecordBatch {
    let mut answers = database.session().execute(sql).await.unwrap();
    answers.pop().unwrap().batches.pop().unwrap()
}

async fn text(session: &Session, sql: &str) -> String {
    let answers = session
        .execute(sql)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let mut rows = Vec::new();
    for batch in &answers.last().unwrap().batches {
        for row in crate::texts(batch) {
            rows.push(row.join(" "));
        }
    }
    rows.join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_granted_follows_a_table_through_renames_and_goes_with_it() {
    let (folder, database, operator) = world().await;
    operator
        .execute(
            "DROP MATERIALIZED VIEW v; ALTER TABLE t RENAME TO other; \
             CREATE TABLE t (k INT PRIMARY KEY, a INT, s INT)",
        )
        .await
        .unwrap();
    let reader = role(&database, "reader").await;
    reader.execute("SELECT * FROM other").await.unwrap();
    denied(reader.execute("SELECT * FROM t").await);
    let columns = role(&database, "columns").await;
    operator
        .execute("ALTER TABLE other RENAME COLUMN a TO s2; ALTER TABLE other RENAME COLUMN s TO a")
        .await
        .unwrap();
    columns.execute("SELECT s2 FROM other").await.unwrap();
    denied(columns.execute("SELECT a FROM other").await);
    // A column that comes again is another one.
    operator
        .execute(
            "ALTER TABLE other DROP COLUMN s2; \
             ALTER TABLE other ADD COLUMN s2 INT",
        )
        .await
        .unwrap();
    denied(columns.execute("SELECT s2 FROM other").await);
    operator.execute("DROP TABLE other").await.unwrap();
    assert_eq!(
        text(&operator, "SELECT count(*) FROM lazybase.grants").await,
        "2"
    );
    database.close().await.unwrap();
    drop((reader, columns, operator, database));
    let database = open_in(folder.path()).await;
    let names = text(
        &database.session(),
        "SELECT name FROM lazybase.roles ORDER BY name",
    )
    .await;
    assert_eq!(names, "columns\nnobody\nowner\nreader\nviewer\nwriter");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_change_roles_and_tables_together_or_not_at_all() {
    let (_folder, database, operator) = world().await;
    operator
        .execute(
            "BEGIN; CREATE TABLE n (k INT PRIMARY KEY); CREATE ROLE new; GRANT SELECT ON n TO new;
             ALTER TABLE n OWNER TO new; DROP TABLE n; CREATE TABLE n (k INT PRIMARY KEY);
             GRANT SELECT ON n TO nobody; SAVEPOINT s; GRANT SELECT ON t TO nobody; ROLLBACK TO s",
        )
        .await
        .unwrap();
    let nobody = role(&database, "nobody").await;
    denied(nobody.execute("SELECT * FROM t").await);
    operator.execute("COMMIT").await.unwrap();
    denied(nobody.execute("SELECT * FROM t").await);
    nobody.execute("SELECT * FROM n").await.unwrap();
    assert_eq!(
        text(&operator, "SELECT count(*) FROM lazybase.roles").await,
        "7"
    );
    operator
        .execute("BEGIN; DROP ROLE new; ROLLBACK; DROP ROLE new")
        .await
        .unwrap();
    let owned = operator.execute("DROP ROLE owner").await.unwrap_err();
    assert_eq!(owned.sqlstate(), "2BP01");
    operator
        .execute("REASSIGN OWNED BY owner TO reader; DROP ROLE owner")
        .await
        .unwrap();
    let reader = role(&database, "reader").await;
    reader.execute("DROP TABLE u").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_are_made_by_many_sessions_at_once() {
    let (_folder, database, operator) = world().await;
    let made = (0..8).map(|n| {
        let session = database.session();
        async move {
            session
                .execute(&format!("CREATE ROLE r{n}"))
                .await
                .map(drop)
        }
    });
    for done in futures::future::join_all(made).await {
        done.unwrap();
    }
    let count = text(
        &operator,
        "SELECT count(*) FROM lazybase.roles WHERE name LIKE 'r_'",
    )
    .await;
    assert_eq!(count, "8");
}

/// A role that a transaction makes has a number that another one may get: nobody becomes that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_acts_as_a_role_of_a_transaction_is_nobody_else_behind_it() {
    let (_folder, database, operator) = world().await;
    operator
        .execute("CREATE ROLE maker CREATEROLE")
        .await
        .unwrap();
    let acts = "SELECT current_user, current_setting('is_superuser')";
    let make = "CREATE ROLE made; GRANT made TO maker; SET ROLE made";
    for (at, (begin, end)) in [
        ("BEGIN", "ROLLBACK"),
        ("BEGIN; SAVEPOINT s", "ROLLBACK TO s; COMMIT"),
    ]
    .into_iter()
    .enumerate()
    {
        let maker = role(&database, "maker").await;
        maker.execute(&format!("{begin}; {make}")).await.unwrap();
        assert_eq!(text(&maker, acts).await, "made off");
        maker.execute(end).await.unwrap();
        let boss = format!("CREATE ROLE boss{at} SUPERUSER");
        operator.execute(&boss).await.unwrap();
        assert_eq!(text(&maker, acts).await, "maker off", "{end}");
    }

    // Others may be quicker: then the transaction fails, and is not one of theirs meanwhile.
    let maker = role(&database, "maker").await;
    maker.execute(&format!("BEGIN; {make}")).await.unwrap();
    operator
        .execute("CREATE ROLE boss SUPERUSER")
        .await
        .unwrap();
    denied(maker.execute("SELECT s FROM t").await);
    maker.execute("ROLLBACK").await.unwrap();
    assert_eq!(text(&maker, acts).await, "maker off");
    let maker = role(&database, "maker").await;
    maker.execute(&format!("BEGIN; {make}")).await.unwrap();
    operator
        .execute("CREATE ROLE chief SUPERUSER")
        .await
        .unwrap();
    let late = maker.execute("COMMIT").await.unwrap_err();
    assert_eq!(late.sqlstate(), "40001", "{late:?}");
    assert_eq!(text(&maker, acts).await, "maker off");

    // What is committed stays, as whom the session acts too.
    maker
        .execute(&format!("BEGIN; {make}; COMMIT"))
        .await
        .unwrap();
    assert_eq!(text(&maker, acts).await, "made off");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_inherits_nothing_takes_nothing_from_its_members() {
    let (_folder, database, operator) = world().await;
    let groups = "CREATE ROLE readers IN ROLE reader; CREATE ROLE apart NOINHERIT IN ROLE writer; \
                  CREATE ROLE bert IN ROLE readers, apart";
    operator.execute(groups).await.unwrap();
    let bert = role(&database, "bert").await;
    bert.execute("SELECT s FROM t").await.unwrap();
    denied(bert.execute("DELETE FROM t WHERE k = 1").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_act_as_their_groups_and_a_dropped_role_may_nothing() {
    let (_folder, database, operator) = world().await;
    operator
        .execute("CREATE ROLE anna; GRANT reader TO anna; CREATE ROLE root SUPERUSER")
        .await
        .unwrap();
    let anna = role(&database, "anna").await;
    anna.execute("SELECT s FROM t").await.unwrap();
    operator.execute("ALTER ROLE anna NOINHERIT").await.unwrap();
    denied(anna.execute("SELECT s FROM t").await);
    operator.execute("ALTER ROLE anna INHERIT").await.unwrap();
    let asked = "SELECT current_user, session_user, has_table_privilege('t', 'SELECT'), \
                 has_table_privilege('t', 'INSERT'), has_column_privilege('columns', 't', 'a', \
                 'UPDATE'), pg_has_role('reader', 'MEMBER'), pg_has_role('owner', 'MEMBER')";
    assert_eq!(
        text(&anna, asked).await,
        "anna lazybase true false true true false"
    );
    let circle = operator.execute("GRANT anna TO reader").await.unwrap_err();
    assert_eq!(circle.sqlstate(), "0LP01");
    // CREATEROLE opens no way to superusers, neither straight nor around a corner.
    operator
        .execute(
            "CREATE ROLE maker CREATEROLE; CREATE ROLE admins; GRANT root TO admins; \
             CREATE ROLE door LOGIN",
        )
        .await
        .unwrap();
    let maker = role(&database, "maker").await;
    maker
        .execute("CREATE ROLE made LOGIN; GRANT made TO anna; DROP ROLE made")
        .await
        .unwrap();
    for sql in [
        "CREATE ROLE evil SUPERUSER",
        "GRANT root TO maker",
        "GRANT admins TO maker",
        "ALTER ROLE root PASSWORD 'x'",
        "ALTER ROLE admins PASSWORD 'x'",
        "ALTER ROLE admins RENAME TO x",
        "DROP ROLE root",
        "CREATE ROLE evil IN ROLE admins",
        "ALTER ROLE root SET lazybase.freshness = 5",
        "GRANT SELECT ON t TO maker",
    ] {
        denied(maker.execute(sql).await);
    }
    operator.execute("DROP ROLE anna").await.unwrap();
    let error = anna.execute("SELECT s FROM t").await.unwrap_err();
    assert_eq!(error.sqlstate(), "42501");
    assert_eq!(error.detail(), Some("the session's role was dropped"));
    denied(anna.execute("CREATE TABLE x (k INT)").await);
}

/// Whoever was let in without a password before is not any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_first_role_that_may_log_in_changes_is_told() {
    let (_folder, _database, operator) = world().await;
    operator.execute("CREATE ROLE quiet").await.unwrap();
    for (sql, told) in [
        ("CREATE ROLE one LOGIN", "as the role of the name or else"),
        ("DROP ROLE one", "everybody on this machine"),
        (
            "ALTER ROLE quiet LOGIN PASSWORD 'x'",
            "no superuser has one",
        ),
    ] {
        let answers = operator.execute(sql).await.unwrap();
        let notices = &answers[0].notices;
        assert!(
            notices.len() == 1 && notices[0].message.contains(told),
            "{sql}: {notices:?}"
        );
    }
    let answers = operator.execute("CREATE ROLE two LOGIN").await.unwrap();
    assert!(answers[0].notices.is_empty(), "{:?}", answers[0].notices);
}

/// Without roles that log in, everybody on the machine is let in as the folder's owner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn superusers_alone_take_the_last_login_away() {
    let (_folder, database, operator) = world().await;
    operator
        .execute("CREATE ROLE maker LOGIN CREATEROLE; CREATE ROLE other LOGIN")
        .await
        .unwrap();
    let maker = role(&database, "maker").await;
    maker.execute("ALTER ROLE other NOLOGIN").await.unwrap();
    for sql in [
        "ALTER ROLE maker NOLOGIN",
        "BEGIN; ALTER ROLE maker NOLOGIN",
    ] {
        denied(maker.execute(sql).await);
        maker.execute("ROLLBACK").await.unwrap();
    }
    let third = "CREATE ROLE third CREATEROLE; SET ROLE third; DROP ROLE maker";
    denied(operator.execute(third).await);
    assert!(!database.is_open(true));
    let last = "RESET ROLE; DROP ROLE maker";
    let answers = operator.execute(last).await.unwrap();
    let told = &answers.last().unwrap().notices;
    assert!(
        told[0].message.contains("everybody on this machine"),
        "{told:?}"
    );
    assert!(database.is_open(true));
}

/// Without passwords of roles that log in, everybody on the machine is let in too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn superusers_alone_take_the_last_password_away() {
    let (_folder, database, operator) = world().await;
    operator
        .execute(
            "CREATE ROLE bare LOGIN; CREATE ROLE anna LOGIN PASSWORD 'x'; \
             CREATE ROLE maker CREATEROLE",
        )
        .await
        .unwrap();
    for (who, sql) in [
        ("anna", "ALTER ROLE anna PASSWORD NULL"),
        ("maker", "ALTER ROLE anna NOLOGIN"),
        ("maker", "DROP ROLE anna"),
    ] {
        denied(role(&database, who).await.execute(sql).await);
    }
    assert!(!database.is_open(false));
    let refused = database.trust("nosuch").unwrap_err();
    assert_eq!(refused.sqlstate(), "28000");
    let last = "ALTER ROLE anna PASSWORD NULL";
    let told = &operator.execute(last).await.unwrap()[0].notices;
    assert!(
        told[0].message.contains("no role that may log in has"),
        "{told:?}"
    );
    // Roles are let in as themselves, and by a certificate nobody else is.
    assert!(database.is_open(false) && !database.is_open(true));
    for (name, owns) in [("anna", false), ("bare", false), ("nosuch", true)] {
        let who = database.trust(name).unwrap();
        assert_eq!((who.name(), who.is_superuser()), (name, owns));
    }
    let refused = database.trust_certificate("nosuch").unwrap_err();
    assert_eq!(refused.sqlstate(), "28000");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_role_may_not_see_is_not_told_of() {
    let (_folder, database, operator) = world().await;
    let nobody = role(&database, "nobody").await;
    let tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'";
    assert_eq!(text(&nobody, tables).await, "");
    assert_eq!(
        text(&nobody, "SELECT count(*) FROM lazybase.tables").await,
        "0"
    );
    assert_eq!(
        text(&nobody, "SELECT count(*) FROM lazybase.columns").await,
        "0"
    );
    assert_eq!(text(&nobody, "SHOW TABLES").await, "");
    let reader = role(&database, "reader").await;
    assert_eq!(text(&reader, tables).await, "t");
    assert_eq!(text(&reader, "SHOW TABLES").await, "public t");
    operator
        .execute("ALTER ROLE reader PASSWORD 'hunter2'")
        .await
        .unwrap();
    let password = "SELECT rolpassword FROM pg_roles WHERE rolname = 'reader'";
    assert_eq!(text(&operator, password).await, "********");
    // What tests passwords is shown to superusers, of those that have one.
    let with_password = "SELECT rolname FROM pg_authid WHERE rolpassword LIKE 'SCRAM-SHA-256$%'";
    assert_eq!(text(&operator, with_password).await, "reader");
    denied(reader.execute("SELECT rolname FROM pg_authid").await);
    denied(nobody.execute("SELECT passwd FROM pg_shadow").await);
    // They don't keep anybody from the columns of the others.
    let columns = "SELECT column_name FROM information_schema.columns WHERE table_name IN \
                   ('t', 'pg_shadow') ORDER BY ordinal_position";
    assert_eq!(text(&reader, columns).await, "k\na\ns");
    assert_eq!(text(&nobody, columns).await, "");
    let readable = "SELECT has_table_privilege('pg_authid', 'SELECT'), \
                    has_table_privilege('pg_roles', 'SELECT')";
    assert_eq!(text(&nobody, readable).await, "false true");
    let error = operator
        .execute("ALTER ROLE missing PASSWORD 'hunter2'")
        .await
        .unwrap_err();
    assert!(!format!("{error:?}").contains("hunter2"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_come_from_the_session_the_role_the_database_and_the_server() {
    let (_folder, database, operator) = world().await;
    operator
        .execute(
            "ALTER DATABASE lazybase SET lazybase.freshness = 9;
             ALTER DATABASE lazybase SET lazybase.on_miss = stale;
             CREATE ROLE anna LOGIN PASSWORD 'secret';
             ALTER ROLE anna SET lazybase.freshness = 'best effort'",
        )
        .await
        .unwrap();
    let anna = database
        .authenticate_password("anna", "secret")
        .await
        .unwrap();
    let anna = database.session_of(&anna);
    let shown = |session: &Session, name: &str| session.setting(name).unwrap();
    assert_eq!(shown(&anna, "lazybase.freshness"), "best effort");
    assert_eq!(shown(&anna, "lazybase.on_miss"), "stale");
    anna.execute("SET lazybase.freshness = 1; SET lazybase.on_miss = error")
        .await
        .unwrap();
    assert_eq!(shown(&anna, "lazybase.freshness"), "1s");
    anna.execute("RESET lazybase.freshness").await.unwrap();
    assert_eq!(shown(&anna, "lazybase.freshness"), "best effort");
    assert_eq!(shown(&anna, "lazybase.on_miss"), "error");
    anna.execute("RESET ALL").await.unwrap();
    assert_eq!(shown(&anna, "lazybase.on_miss"), "stale");
    assert_eq!(shown(&database.session(), "lazybase.freshness"), "9s");
    operator
        .execute("ALTER DATABASE lazybase RESET ALL")
        .await
        .unwrap();
    assert_eq!(shown(&database.session(), "lazybase.on_miss"), "dig");
    for (sql, sqlstate) in [
        ("ALTER ROLE anna SET lazybase.freshness = soon", "22023"),
        ("ALTER ROLE anna SET lazybase.such = 1", "42704"),
        ("ALTER ROLE anna SET freshness = 1", "42704"),
    ] {
        assert_eq!(
            operator.execute(sql).await.unwrap_err().sqlstate(),
            sqlstate,
            "{sql}"
        );
    }
    // Those with a point in their names have a bound, all of a role's together.
    let set = |name: &str| format!("ALTER ROLE anna SET app.{name} = '{}'", "x".repeat(600_000));
    operator.execute(&set("a")).await.unwrap();
    operator.execute(&set("a")).await.unwrap();
    let error = operator.execute(&set("b")).await.unwrap_err();
    assert_eq!(error.sqlstate(), "54000");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_not_let_in_learns_nothing() {
    let (_folder, database, operator) = world().await;
    operator
        .execute(
            "CREATE ROLE anna LOGIN PASSWORD 'secret' VALID UNTIL '9999-12-31';
             CREATE ROLE bert LOGIN;
             CREATE ROLE late LOGIN PASSWORD 'secret' VALID UNTIL '2020-01-01 00:00:00+00';
             CREATE ROLE group1 PASSWORD 'secret'",
        )
        .await
        .unwrap();
    database
        .authenticate_password("anna", "secret")
        .await
        .unwrap();
    for (user, password) in [
        ("anna", "Secret"),
        ("anna", ""),
        ("bert", "secret"),
        ("late", "secret"),
        ("group1", "secret"),
        ("nosuch", "secret"),
    ] {
        let error = database
            .authenticate_password(user, password)
            .await
            .unwrap_err();
        assert_eq!(error.sqlstate(), "28P01", "{user}");
        let message = format!("password authentication failed for user {user:?}");
        assert_eq!(
            (error.message(), error.detail(), error.hint()),
            (message.as_str(), None, None)
        );
    }
    operator
        .execute("REVOKE CONNECT ON DATABASE lazybase FROM PUBLIC")
        .await
        .unwrap();
    denied(database.authenticate_password("anna", "secret").await);
    operator
        .execute("GRANT CONNECT ON DATABASE lazybase TO anna")
        .await
        .unwrap();
    database
        .authenticate_password("anna", "secret")
        .await
        .unwrap();
}
