//! Tests of `parse`.

use lazybase_cluster::{SettleTo, StageName};
use lazybase_model::{ColumnDefault, Layout};

use super::*;
use crate::copy::{ForcedColumns, Header};

fn statement(sql: &str) -> Statement {
    parse(sql)
        .unwrap_or_else(|error| panic!("{sql}: {error}"))
        .statement
}

fn refused(sql: &str) -> Error {
    match parse(sql) {
        Ok(parsed) => panic!("{sql}: {parsed:?}"),
        Err(error) => error,
    }
}

fn table(sql: &str) -> CreateTable {
    match statement(sql) {
        Statement::CreateTable(table) => *table,
        other => panic!("{other:?}"),
    }
}

#[test]
fn tables_are_read_as_declared() {
    let made = table(
        "CREATE TABLE IF NOT EXISTS T (a INT PRIMARY KEY, \"B\" TEXT NOT NULL DEFAULT 'x', \
         c TIMESTAMP DEFAULT now(), d DECIMAL(10, 2) NULL) WITH (layout = 'point')",
    );
    assert_eq!((made.name.as_str(), made.if_not_exists), ("t", true));
    assert_eq!(
        (made.key.as_slice(), made.layout),
        (["a".to_owned()].as_slice(), Layout::Point)
    );
    let nullable: Vec<bool> = made.columns.iter().map(|column| column.nullable).collect();
    assert_eq!(nullable, [false, false, true, true]);
    assert_eq!(made.columns[1].name, "B");
    assert_eq!(
        made.columns[1].default,
        ColumnDefault::Expression("'x'".to_owned())
    );

    let made = table("CREATE TABLE t (a INT, b INT, PRIMARY KEY (b, a)) COMMENT = 'two'");
    assert_eq!(made.key, ["b", "a"]);
    assert_eq!(made.comment.as_deref(), Some("two"));
    assert!(made.columns.iter().all(|column| !column.nullable));

    let made = table("CREATE TABLE t (a INT COMMENT 'first', b INT)");
    assert_eq!(made.columns[0].comment.as_deref(), Some("first"));
    assert!(made.key.is_empty());
    assert!(
        table("CREATE TABLE t AS SELECT 1 AS a FRESHNESS 0")
            .query
            .is_some()
    );
}

#[test]
fn tables_that_are_not_kept_are_refused() {
    for (sql, state) in [
        ("CREATE TABLE t (a INT, a INT)", "42701"),
        (
            "CREATE TABLE t (a INT PRIMARY KEY, b INT PRIMARY KEY)",
            "42P16",
        ),
        ("CREATE TABLE t (a INT, PRIMARY KEY (b))", "42703"),
        ("CREATE TABLE t (a INT[], PRIMARY KEY (a))", "42P16"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a, a))", "42701"),
        ("CREATE TABLE t (a INT UNIQUE)", "0A000"),
        ("CREATE TABLE t (a INT CHECK (a > 0))", "0A000"),
        ("CREATE TABLE t (a INTERVAL DAY TO SECOND)", "0A000"),
        ("CREATE TABLE t (_row INT)", "42939"),
        ("CREATE TABLE t (a INT) WITH (layout = 'round')", "22023"),
        ("CREATE TABLE t (a INT) WITH (colour = 'red')", "22023"),
        ("CREATE TEMPORARY TABLE t (a INT) ON COMMIT DROP", "0A000"),
        ("CREATE TABLE \"pg_temp_1.t\" (a INT)", "42939"),
        ("CREATE VIEW v AS SELECT 1 WITH CHECK OPTION", "0A000"),
        (
            "CREATE VIEW v WITH (check_option = local) AS SELECT 1",
            "0A000",
        ),
        (
            "CREATE OR REPLACE VIEW IF NOT EXISTS v AS SELECT 1",
            "42601",
        ),
        ("CREATE VIEW v AS", "42601"),
        ("CREATE VIEW lazybase.v AS SELECT 1", "42809"),
        ("ALTER VIEW v RENAME COLUMN a TO b", "0A000"),
        ("ALTER VIEW v RENAME TO w x", "42601"),
        ("CREATE TABLE lazybase.t (a INT)", "42809"),
        ("CREATE TABLE other.t (a INT)", "3F000"),
    ] {
        assert_eq!(refused(sql).sqlstate(), state, "{sql}");
    }
}

#[test]
fn the_text_of_a_view_is_its_query() {
    let sql = "create or replace view public.\"V\" (a, \"B\")\n  AS -- why\n SELECT 1, 'as' -- x\n";
    let Statement::PlainView(view) = statement(sql) else {
        panic!("{sql}");
    };
    let PlainViewStatement::Create(view) = *view else {
        panic!("{sql}");
    };
    assert!(view.or_replace && !view.if_not_exists);
    assert_eq!(
        (view.name.as_str(), view.text.as_str()),
        ("V", "SELECT 1, 'as'")
    );
    assert_eq!(view.columns, ["a", "B"]);
    assert_eq!(view.placed.find("SELECT"), sql.find("SELECT"));
    // A constant may end it that is written in several pieces.
    let sql = "CREATE VIEW v AS SELECT 'a'\n  'b' -- x\n  'c'";
    let Statement::PlainView(view) = statement(sql) else {
        panic!("{sql}");
    };
    assert!(matches!(
        &*view,
        PlainViewStatement::Create(view) if view.text == "SELECT 'a'\n  'b' -- x\n  'c'"
    ));
    let Statement::PlainView(view) = statement("ALTER VIEW IF EXISTS v RENAME TO \"W\"") else {
        panic!("not of a view");
    };
    assert!(matches!(
        &*view,
        PlainViewStatement::Rename { if_exists: true, to, .. } if to == "W"
    ));
    let Statement::PlainView(view) = statement("DROP VIEW IF EXISTS a, public.b CASCADE") else {
        panic!("not of a view");
    };
    assert!(matches!(
        &*view,
        PlainViewStatement::Drop { names, if_exists: true, cascade: true } if *names == ["a", "b"]
    ));
}

#[test]
fn inserts_are_read() {
    let Statement::Insert(insert) = statement(
        "INSERT INTO public.t (a, B) VALUES (1, 'x'), (2, DEFAULT) \
         ON CONFLICT (a) DO UPDATE SET b = EXCLUDED.b",
    ) else {
        panic!()
    };
    assert_eq!((insert.table.as_str(), insert.columns.len()), ("t", 2));
    assert!(matches!(&insert.source, InsertSource::Values(rows) if rows.len() == 2));
    let conflict = insert.on_conflict.unwrap();
    assert_eq!(conflict.target.unwrap(), ["a"]);
    assert_eq!(conflict.update.unwrap()[0].0, "b");
    for (sql, query) in [
        ("INSERT INTO t DEFAULT VALUES", false),
        ("INSERT INTO t SELECT * FROM u FRESHNESS 10", true),
        ("INSERT INTO t WITH x AS (SELECT 1) SELECT * FROM x", true),
    ] {
        let Statement::Insert(insert) = statement(sql) else {
            panic!()
        };
        assert_eq!(
            matches!(insert.source, InsertSource::Query(_)),
            query,
            "{sql}"
        );
    }
}

#[test]
fn what_would_read_the_stored_row_is_refused() {
    for sql in [
        "INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET b = 1 WHERE b = 2",
        "SELECT * FROM t FOR UPDATE",
        "BEGIN ISOLATION LEVEL SERIALIZABLE",
        "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE",
    ] {
        assert_eq!(refused(sql).sqlstate(), "0A000", "{sql}");
    }
}

#[test]
fn updates_and_deletes_name_one_table() {
    let Statement::Update(update) = statement("UPDATE t AS x SET a = 1, b = 'y' WHERE k = 2")
    else {
        panic!()
    };
    assert_eq!(
        (update.rows.table.as_str(), update.rows.called()),
        ("t", "x")
    );
    assert_eq!(update.assignments.len(), 2);
    assert!(matches!(
        statement("DELETE FROM t WHERE a = 1"),
        Statement::Delete(_)
    ));
    assert_eq!(refused("UPDATE t SET a = 1, a = 2").sqlstate(), "42601");
}

#[test]
fn transactions_are_read() {
    assert!(matches!(
        statement("BEGIN"),
        Statement::Begin { read_only: None }
    ));
    assert!(matches!(
        statement("BEGIN READ ONLY"),
        Statement::Begin {
            read_only: Some(true)
        }
    ));
    let sql = "START TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY";
    assert!(matches!(
        statement(sql),
        Statement::Begin {
            read_only: Some(true)
        }
    ));
    for (suffix, chained) in [
        ("", false),
        (" WORK", false),
        (" AND NO CHAIN", false),
        (" TRANSACTION AND NO CHAIN", false),
        (" AND CHAIN", true),
        (" work and chain", true),
    ] {
        for word in ["COMMIT", "END", "ROLLBACK", "ABORT"] {
            let sql = format!("{word}{suffix}");
            let chain = match (word, statement(&sql)) {
                ("COMMIT" | "END", Statement::Commit { chain }) => chain,
                ("ROLLBACK" | "ABORT", Statement::Rollback { chain }) => chain,
                (_, other) => panic!("{sql}: {other:?}"),
            };
            assert_eq!(chain, chained, "{sql}");
        }
    }
    assert!(matches!(statement("SAVEPOINT A"), Statement::Savepoint(name) if name == "a"));
    assert!(matches!(
        statement("ROLLBACK TO SAVEPOINT a"),
        Statement::RollbackTo(_)
    ));
    assert!(matches!(
        statement("RELEASE SAVEPOINT a"),
        Statement::Release(_)
    ));
}

#[test]
fn settings_are_read() {
    for (sql, name, value) in [
        (
            "SET lazybase.freshness = '30s'",
            "lazybase.freshness",
            Some("30s"),
        ),
        (
            "SET lazybase.freshness TO best effort",
            "lazybase.freshness",
            Some("best effort"),
        ),
        (
            "SET lazybase.freshness = 0.5",
            "lazybase.freshness",
            Some("0.5"),
        ),
        (
            "SET SESSION lazybase.monotonic = off",
            "lazybase.monotonic",
            Some("off"),
        ),
        (
            "SET lazybase.freshness = DEFAULT",
            "lazybase.freshness",
            None,
        ),
        (
            "SET TIME ZONE 'UTC'",
            "datafusion.execution.time_zone",
            Some("UTC"),
        ),
    ] {
        match statement(sql) {
            Statement::Set {
                name: n,
                value: v,
                local,
                ..
            } => {
                assert_eq!((n.as_str(), v.as_deref()), (name, value), "{sql}");
                assert_eq!(local, sql.contains("LOCAL"), "{sql}");
            }
            other => panic!("{other:?}"),
        }
    }
    let shown = statement("SHOW LazyBase.last_answer");
    assert!(matches!(shown, Statement::Show(name) if name == "lazybase.last_answer"));
    assert!(matches!(statement("RESET ALL"), Statement::Reset(None)));
    assert!(matches!(statement("SHOW TABLES"), Statement::ShowTables));
    for (sql, expected) in [
        ("DESCRIBE T", (None, "t")),
        ("DESCRIBE public.\"a.b\"", (None, "a.b")),
        ("SHOW COLUMNS FROM \"T\"", (None, "T")),
        ("DESCRIBE \"q\"\"q\"", (None, "q\"q")),
        (
            "SHOW COLUMNS IN LazyBase.tables",
            (Some("lazybase"), "tables"),
        ),
    ] {
        let Statement::Describe { schema, name } = statement(sql) else {
            panic!("{sql}");
        };
        assert_eq!((schema.as_deref(), name.as_str()), expected, "{sql}");
    }
}

#[test]
fn statements_for_operators_are_read() {
    assert!(matches!(
        statement("SETTLE"),
        Statement::Settle {
            table: None,
            to: SettleTo::Authority
        }
    ));
    assert!(matches!(
        statement("settle table T to sorted"),
        Statement::Settle { table: Some(t), to: SettleTo::Sorted } if t == "t"
    ));
    assert!(matches!(
        statement("SETTLE TABLE public.\"A b\""),
        Statement::Settle { table: Some(t), to: SettleTo::Authority } if t == "A b"
    ));
    assert!(matches!(
        statement("VERIFY TABLE \"A b\" SAMPLE 50"),
        Statement::VerifyTable { table, share } if table == "A b" && share == 0.5
    ));
    for sql in [
        "SETTLE TABLE",
        "SETTLE TABLE a.",
        "VERIFY TABLE t u",
        "VERIFY TABLE 't'",
    ] {
        assert_eq!(refused(sql).sqlstate(), "42601", "{sql}");
    }
    assert!(matches!(
        statement("PAUSE STAGE sort"),
        Statement::Pause(StageName::Sort)
    ));
    assert!(matches!(
        statement("RESUME STAGE MERGE"),
        Statement::Resume(StageName::Merge)
    ));
    assert_eq!(refused("PAUSE STAGE polish").sqlstate(), "42704");
}

#[test]
fn copies_are_read() {
    let Statement::CopyTo { file, .. } =
        statement("COPY (SELECT 1) TO '/tmp/x.csv' WITH (FORMAT csv, HEADER) FRESHNESS 0")
    else {
        panic!()
    };
    let read = (file.format.as_deref(), file.header);
    assert_eq!(read, (Some("csv"), Header::Names));
    let Statement::CopyFrom { file, .. } =
        statement("COPY t FROM STDIN (HEADER MATCH, FORCE_NULL (a, \"B\"), FORCE_NOT_NULL (c))")
    else {
        panic!()
    };
    let named = |names: &[&str]| {
        ForcedColumns::Named(names.iter().map(|name| (*name).to_owned()).collect())
    };
    assert_eq!(file.header, Header::Matched);
    assert_eq!(file.force_null, named(&["a", "B"]));
    assert_eq!(file.force_not_null, named(&["c"]));
    for sql in [
        "COPY (SELECT header, quote * 2 FROM t) TO STDOUT (FORMAT csv, FORCE_QUOTE *)",
        "COPY t TO STDOUT CSV FORCE QUOTE *",
    ] {
        let Statement::CopyTo { file, .. } = statement(sql) else {
            panic!("{sql}")
        };
        assert_eq!(file.force_quote, ForcedColumns::All);
        assert_eq!(file.header, Header::None);
    }
    for sql in [
        "COPY t TO STDOUT (HEADER MATCH)",
        "COPY t TO STDOUT (FORMAT csv, FORCE_NULL (a))",
        "COPY t TO STDOUT (FORMAT csv, FORCE_NOT_NULL (a))",
        "COPY t FROM STDIN (FORMAT csv, FORCE_QUOTE (a))",
    ] {
        assert_eq!(refused(sql).sqlstate(), "0A000", "{sql}");
    }
    assert!(matches!(
        statement("COPY t (a, b) FROM 'x.parquet'"),
        Statement::CopyFrom { columns, .. } if columns.len() == 2
    ));
}

#[test]
fn clauses_need_a_statement_that_reads() {
    assert!(parse("EXPLAIN SELECT * FROM t FRESHNESS 0").is_ok());
    assert_eq!(refused("DELETE FROM t FRESHNESS 0").sqlstate(), "42601");
    assert!(parse("SELECT * FROM t FRESHNESS 0 LIMIT 1").is_ok());
    assert_eq!(
        refused("SELECT * FROM t FRESHNESS 0 WHERE k = 1").sqlstate(),
        "42601"
    );
}
