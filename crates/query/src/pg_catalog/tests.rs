//! Tests of `pg_catalog`.

use super::*;
use crate::advisory::SessionLocks;
use crate::parse::{self, Statement as Ours};

/// The query that a text is planned as.
fn planned(sql: &str) -> String {
    match parse::parse(sql).unwrap().statement {
        Ours::Query(query) => query.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_only_postgresql_reads_is_rewritten() {
    for (written, expected) in [
        (
            "SELECT relname FROM pg_class",
            "SELECT relname FROM pg_catalog.pg_class",
        ),
        ("SELECT pg_catalog.version()", "SELECT version()"),
        (
            "SELECT a FROM t WHERE a OPERATOR(pg_catalog.~) '^(x)$' COLLATE pg_catalog.default",
            "SELECT a FROM t WHERE a ~ '^(x)$'",
        ),
        (
            "SELECT a::regclass::oid FROM t",
            "SELECT pg_regclass_oid(a) FROM t",
        ),
        ("SELECT 't'::regclass::text", "SELECT pg_regclass_name('t')"),
        (
            "SELECT 't'::regclass, 't'::regclass = a FROM t",
            "SELECT pg_regclass_name(pg_regclass_oid('t')), pg_regclass_oid('t') = a FROM t",
        ),
        (
            "SELECT 't'::regclass::oid",
            "SELECT pg_regclass_oid('t')::BIGINT",
        ),
        (
            "SELECT a FROM t WHERE a = CAST($1::regclass AS regclass)",
            "SELECT a FROM t WHERE a = pg_regclass_oid($1)",
        ),
        (
            "SELECT a::regtype::regtype FROM t",
            "SELECT pg_regtype_name(a) FROM t",
        ),
        (
            "SELECT typname[0] = '_' FROM pg_type",
            "SELECT left(typname, 1) = '_' FROM pg_catalog.pg_type",
        ),
        (
            "SELECT i.indkey[0], indoption[k - 1], a[0] FROM pg_index i, t",
            "SELECT i.indkey[0 + 1], indoption[k - 1 + 1], a[0] FROM pg_catalog.pg_index i, t",
        ),
        (
            "SELECT d.objid FROM pg_depend d WHERE d.deptype <> 'e'",
            "SELECT d.objid FROM pg_catalog.pg_depend_of_dumps d WHERE d.deptype <> 'e'",
        ),
        (
            "SELECT c.relname FROM pg_class c JOIN pg_depend d ON d.refobjid = c.oid \
             AND d.classid = 'pg_rewrite'::regclass",
            "SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_depend_of_views d \
             ON d.refobjid = c.oid AND d.classid = pg_regclass_oid('pg_rewrite')",
        ),
        (
            "SELECT count(*) FROM pg_depend",
            "SELECT count(*) FROM pg_catalog.pg_depend",
        ),
        (
            "SELECT extname FROM pg_extension",
            "SELECT extname FROM pg_catalog.pg_extension",
        ),
        ("SELECT user", "SELECT current_user() AS \"user\""),
        (
            "SELECT USER AS u, current_schema",
            "SELECT current_user() AS u, current_schema() AS \"current_schema\"",
        ),
        (
            "SELECT user FROM pg_user WHERE usename = user",
            "SELECT current_user() AS \"user\" FROM pg_catalog.pg_user \
             WHERE usename = current_user()",
        ),
        (
            "SELECT CASE WHEN a = 'a' THEN user END AS c FROM information_schema.tables",
            "SELECT CASE WHEN a = 'a' THEN current_user() END AS c FROM information_schema.tables",
        ),
        ("SELECT a::pg_catalog.text FROM t", "SELECT a::TEXT FROM t"),
        (
            "SELECT (SELECT d.adbin FROM pg_attrdef d WHERE d.adrelid = t.a) FROM t",
            "SELECT (SELECT max(d.adbin) FROM pg_catalog.pg_attrdef d WHERE d.adrelid = t.a) \
             FROM t",
        ),
        (
            "SELECT (SELECT c.collname FROM pg_collation c) FROM t",
            "SELECT CAST(NULL AS TEXT) FROM t",
        ),
    ] {
        assert_eq!(planned(written), expected);
    }
}

#[test]
fn other_statements_stay_as_they_are() {
    for sql in [
        "SELECT (SELECT b FROM u WHERE u.a = t.a) FROM t",
        "SELECT a FROM t WHERE a LIKE 'x/%' ESCAPE '/'",
        "SELECT other.version() FROM t",
        "SELECT CAST(a AS BIGINT) FROM t",
        "SELECT user, (SELECT user FROM u WHERE u.a = t.a) FROM t",
        "SELECT user FROM t, pg_catalog.pg_class",
        "SELECT user FROM (SELECT 1 AS user) AS q",
        "SELECT \"user\"",
    ] {
        assert_eq!(planned(sql), sql);
    }
}

#[test]
fn every_table_has_its_columns() {
    let manifest = lazybase_engine::manifest::Manifest::created(
        lazybase_model::DatabaseId {
            database: 7,
            history: 1,
        },
        0,
    );
    let visible = Visible::stored(Arc::new(manifest));
    let seen = Seen {
        gate: Gate::new(visible.access(), None, None),
        visible,
        settings: Settings::default(),
        activities: Arc::default(),
        cursors: Arc::default(),
        named: Arc::default(),
        locks: SpanLocks::new(&SessionLocks::new(Arc::default())),
        numbers: None,
        now_micros: 0,
    };
    for name in names() {
        let batch = rows(name, &seen).unwrap().expect("it is there");
        assert!(batch.num_columns() > 1, "{name}");
        assert!(has(name));
        assert!(!is_empty(name) || batch.num_rows() == 0, "{name}");
    }
    assert!(rows("pg_nothing", &seen).unwrap().is_none());
}

#[test]
fn types_have_their_names() {
    assert_eq!(
        types::format_type(1700, Some((10 << 16) + 2 + 4)),
        "numeric(10,2)"
    );
    assert_eq!(types::format_type(1043, Some(68)), "character varying(64)");
    assert_eq!(types::format_type(1007, Some(-1)), "integer[]");
    assert_eq!(types::format_type(0, None), "-");
    assert_eq!(types::named("pg_catalog.int4"), Some(23));
    assert_eq!(types::named("Character Varying"), Some(1043));
    assert_eq!(types::named("text[]"), Some(1009));
    assert_eq!(types::named("nothing"), None);
}
