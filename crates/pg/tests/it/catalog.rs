//! What clients ask of PostgreSQL's own tables.

use tokio_postgres::Client;

use crate::served::{Served, cells};

/// What SQLAlchemy, pgJDBC, pgcli and dbt prepare, as recorded.
const PREPARED: &str = include_str!("catalog/prepared.sql");

/// What psql sends for `\d` and its family, and SQLAlchemy as it reflects, as recorded.
const RECORDED: &str = include_str!("catalog/recorded.sql");

/// What pg_dump of PostgreSQL 15 sends before it reads tables, as recorded.
const DUMPED: &str = include_str!("catalog/dumped.sql");

/// The recorded statements that are refused, about a table of this number.
async fn refused(client: &Client, recorded: &str, oid: &str) -> Vec<String> {
    let mut failed = Vec::new();
    for statement in recorded.split(";\n") {
        let sql = statement.replace("16404", oid);
        if sql.trim().is_empty() {
            continue;
        }
        if let Err(error) = client.simple_query(&sql).await {
            let told = error.as_db_error().map_or(error.to_string(), |told| {
                format!("{}: {}", told.code().code(), told.message())
            });
            failed.push(format!("{told}\n{sql}\n"));
        }
    }
    failed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_statements_are_answered() {
    let served = Served::start().await;
    let client = served.client().await;
    client
        .batch_execute(
            "CREATE TABLE ct (id BIGINT PRIMARY KEY, v VARCHAR(20) DEFAULT 'x', n DECIMAL(8, 2));
             COMMENT ON TABLE ct IS 'things'",
        )
        .await
        .unwrap();
    let oid = cells(&client, "SELECT 'ct'::regclass::oid").await[0][0].clone();
    let mut failed = refused(&client, RECORDED, &oid).await;
    for statement in PREPARED.split(";\n") {
        if statement.trim().is_empty() {
            continue;
        }
        if let Err(error) = client.prepare(statement).await {
            let told = error.as_db_error().map_or(error.to_string(), |told| {
                format!("{}: {}", told.code().code(), told.message())
            });
            failed.push(format!("{told}\n{statement}\n"));
        }
    }
    assert!(
        failed.is_empty(),
        "{} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
    served.stop().await;
}

/// pg_dump prepares what it asks of each table that has them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pg_dump_finds_grants_on_columns() {
    let served = Served::with("CREATE TABLE ct (id BIGINT PRIMARY KEY, part TEXT)").await;
    let client = served.client().await;
    for sql in [
        "CREATE ROLE reader",
        "GRANT SELECT (part) ON ct TO reader",
        "PREPARE getColumnACLs(pg_catalog.oid) AS\n\
         SELECT at.attname, at.attacl, '{}' AS acldefault, pip.privtype, pip.initprivs \
         FROM pg_catalog.pg_attribute at LEFT JOIN pg_catalog.pg_init_privs pip \
         ON (at.attrelid = pip.objoid AND pip.classoid = \
         'pg_catalog.pg_class'::pg_catalog.regclass AND at.attnum = pip.objsubid) \
         WHERE at.attrelid = $1 AND NOT at.attisdropped \
         AND (at.attacl IS NOT NULL OR pip.initprivs IS NOT NULL) ORDER BY at.attnum",
    ] {
        client.batch_execute(sql).await.unwrap();
    }
    let oid = cells(&client, "SELECT 'ct'::regclass::oid").await[0][0].clone();
    assert_eq!(
        cells(&client, &format!("EXECUTE getColumnACLs('{oid}')")).await,
        [["part", "{reader=r/lazybase}", "{}", "-", "-"]]
    );
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_pg_dump_asks_is_answered() {
    let served = Served::start().await;
    let client = served.client().await;
    for sql in [
        "CREATE TABLE ct (id BIGINT, part TEXT DEFAULT 'x', PRIMARY KEY (part, id))",
        "CREATE MATERIALIZED VIEW by_id AS SELECT id, part FROM ct ORDER BY id, part",
        "COMMENT ON TABLE ct IS 'things'",
    ] {
        client.batch_execute(sql).await.unwrap();
    }
    let oid = cells(&client, "SELECT 'ct'::regclass::oid").await[0][0].clone();
    let failed = refused(&client, DUMPED, &oid).await;
    assert!(
        failed.is_empty(),
        "{} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
    for (sql, expected) in [
        ("SELECT indkey FROM pg_index", "2 1"),
        (
            "SELECT tableoid, oid, nspacl FROM pg_namespace WHERE nspname = 'public'",
            "2615 2200 {lazybase=UC/lazybase,=U/lazybase}",
        ),
        ("SELECT tableoid FROM pg_class WHERE relname = 'ct'", "1259"),
        (
            "SELECT pg_get_viewdef('by_id'::regclass)",
            "SELECT id, part FROM ct ORDER BY id, part;",
        ),
        ("SELECT acldefault('r', 10)", "{lazybase=arwdD/lazybase}"),
        // The view is made once its table is there, and has its key.
        (
            "SELECT classid, refclassid FROM pg_depend WHERE deptype <> 'e' ORDER BY refclassid",
            "1259 1259\n1259 2606",
        ),
        // What comes with an extension is not written; to others there is none.
        (
            "SELECT x.oid, x.extname, x.extconfig FROM pg_extension x",
            "13002 lazybase -",
        ),
        ("SELECT count(*) FROM pg_extension", "0"),
        (
            "SELECT refobjid FROM pg_depend WHERE objid = 13001",
            "13002",
        ),
    ] {
        let rows = cells(&client, sql).await;
        let rows: Vec<String> = rows.iter().map(|row| row.join(" ")).collect();
        assert_eq!(rows.join("\n"), expected, "{sql}");
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_columns_and_keys_are_described() {
    let served = Served::start().await;
    let client = served.client().await;
    client
        .batch_execute(
            "CREATE TABLE ct (id BIGINT, part TEXT, v VARCHAR(20) DEFAULT 'x', n DECIMAL(8, 2), \
             a INT[], PRIMARY KEY (part, id))",
        )
        .await
        .unwrap();
    let named = "SELECT c.relname, c.relkind, n.nspname FROM pg_class c \
                 JOIN pg_namespace n ON n.oid = c.relnamespace \
                 WHERE n.nspname = 'public' ORDER BY 1";
    assert_eq!(
        cells(&client, named).await,
        [["ct", "r", "public"], ["ct_pkey", "i", "public"]]
    );
    let columns = "SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull \
                   FROM pg_catalog.pg_attribute a \
                   WHERE a.attrelid = 'ct'::regclass ORDER BY a.attnum";
    assert_eq!(
        cells(&client, columns).await,
        [
            ["id", "bigint", "t"],
            ["part", "text", "t"],
            ["v", "character varying(20)", "f"],
            ["n", "numeric(8,2)", "f"],
            ["a", "integer[]", "f"],
        ]
    );
    let key = "SELECT conname, pg_get_constraintdef(oid), conrelid::regclass, conkey \
               FROM pg_constraint";
    assert_eq!(
        cells(&client, key).await,
        [["ct_pkey", "PRIMARY KEY (part, id)", "ct", "{2,1}"]]
    );
    served.stop().await;
}

/// What pgJDBC sends for the base of columns, which it does where it was told of a table.
const OF_BASE: &str = "SELECT c.oid, a.attnum, a.attname, c.relname, n.nspname, a.attnotnull OR \
     (t.typtype = 'd' AND t.typnotnull), a.attidentity != '' OR \
     pg_catalog.pg_get_expr(d.adbin, d.adrelid) LIKE '%nextval(%' FROM pg_catalog.pg_class c JOIN \
     pg_catalog.pg_namespace n ON (c.relnamespace = n.oid) JOIN pg_catalog.pg_attribute a ON \
     (c.oid = a.attrelid) JOIN pg_catalog.pg_type t ON (a.atttypid = t.oid) LEFT JOIN \
     pg_catalog.pg_attrdef d ON (d.adrelid = a.attrelid AND d.adnum = a.attnum) JOIN (SELECT \
     $OID AS oid, 1 AS attnum UNION ALL SELECT $OID, 2) vals ON (c.oid = vals.oid AND a.attnum = \
     vals.attnum)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_say_of_which_table_they_are() {
    let served = Served::start().await;
    let client = served.client().await;
    for sql in [
        "CREATE TABLE t (k INT PRIMARY KEY, v TEXT, w TEXT)",
        "CREATE TABLE u (k INT PRIMARY KEY, x INT)",
        "CREATE MATERIALIZED VIEW by_w AS SELECT w, k FROM t ORDER BY w, k",
        "ALTER TABLE t DROP COLUMN v",
    ] {
        client.batch_execute(sql).await.unwrap();
    }
    let oid = async |name: &str| {
        let sql = format!("SELECT oid FROM pg_class WHERE relname = '{name}'");
        cells(&client, &sql).await[0][0].parse::<u32>().unwrap()
    };
    let (t, u, by_w) = (oid("t").await, oid("u").await, oid("by_w").await);
    let attnum = "SELECT attnum FROM pg_attribute WHERE attrelid = 't'::regclass AND attname = 'w'";
    let w: i16 = cells(&client, attnum).await[0][0].parse().unwrap();
    for (sql, expected) in [
        ("SELECT * FROM t", vec![Some((t, 1)), Some((t, w))]),
        (
            "SELECT w AS a, k + 1, 'x' FROM t WHERE k > 1",
            vec![Some((t, w)), None, None],
        ),
        ("SELECT w FROM t WHERE k = 1", vec![Some((t, w))]),
        (
            "SELECT DISTINCT w FROM t ORDER BY 1 LIMIT 3",
            vec![Some((t, w))],
        ),
        (
            "SELECT a.w, x, b.k FROM t a LEFT JOIN u b ON a.k = b.k",
            vec![Some((t, w)), Some((u, 2)), Some((u, 1))],
        ),
        (
            "SELECT w, count(*) FROM (SELECT w, k FROM t) s GROUP BY w",
            vec![Some((t, w)), None],
        ),
        ("SELECT k FROM t UNION ALL SELECT k FROM u", vec![None]),
        ("SELECT k, _scu FROM t", vec![Some((t, 1)), None]),
        (
            "SELECT k, w FROM by_w",
            vec![Some((by_w, 2)), Some((by_w, 1))],
        ),
        ("SELECT relname FROM pg_class", vec![None]),
    ] {
        let statement = client.prepare(sql).await.unwrap();
        let columns = statement.columns().iter();
        let told = columns.map(|column| column.table_oid().zip(column.column_id()));
        assert_eq!(told.collect::<Vec<_>>(), expected, "{sql}");
    }
    let base = cells(&client, &OF_BASE.replace("$OID", &t.to_string())).await;
    let mut names: Vec<&str> = base.iter().map(|row| row[2].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["k", "w"]);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_tools_ask_for_is_there() {
    let served = Served::start().await;
    let client = served.client().await;
    for table in [
        "information_schema.domains",
        "information_schema.sequences",
        "information_schema.triggers",
        "pg_available_extension_versions",
        "pg_available_extensions",
        "pg_cursors",
        "pg_policies",
        "pg_prepared_xacts",
        "pg_publication_tables",
        "pg_sequences",
        "pg_stat_replication",
        "pg_statistic_ext",
        "pg_catalog.pg_stats",
    ] {
        assert!(
            cells(&client, &format!("SELECT * FROM {table}"))
                .await
                .is_empty()
        );
    }
    let zones = "SELECT name, abbrev, utc_offset, is_dst FROM pg_timezone_names \
                 WHERE name IN ('UTC', 'Asia/Tokyo', 'Etc/GMT+5') ORDER BY 1";
    assert_eq!(
        cells(&client, zones).await,
        [
            ["Asia/Tokyo", "JST", "09:00:00", "f"],
            ["Etc/GMT+5", "-05", "-05:00:00", "f"],
            ["UTC", "UTC", "00:00:00", "f"],
        ]
    );
    // DataGrip looks for zones so.
    let zones = "SELECT name, is_dst FROM pg_catalog.pg_timezone_names UNION DISTINCT \
                 SELECT abbrev AS name, is_dst FROM pg_catalog.pg_timezone_abbrevs";
    let zones = cells(&client, zones).await;
    assert!(zones.contains(&vec!["CEST".to_owned(), "t".to_owned()]));
    client
        .batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT 1")
        .await
        .unwrap();
    let held = "DECLARE \"H\" BINARY CURSOR WITH HOLD FOR SELECT 2";
    client.batch_execute(held).await.unwrap();
    let cursors = "SELECT name, statement, is_holdable, is_binary, is_scrollable, \
                   creation_time <= clock_timestamp() FROM pg_cursors ORDER BY 1";
    assert_eq!(
        cells(&client, cursors).await,
        [
            ["H", held, "t", "t", "f", "t"],
            ["c", "DECLARE c CURSOR FOR SELECT 1", "f", "f", "f", "t"],
        ]
    );
    client.batch_execute("COMMIT").await.unwrap();
    let held = "SELECT name FROM pg_cursors";
    assert_eq!(cells(&client, held).await, [["H"]]);
    assert!(cells(&served.client().await, held).await.is_empty());
    client.batch_execute("CLOSE ALL").await.unwrap();
    assert!(cells(&client, held).await.is_empty());
    served.stop().await;
}

/// What Grafana's editor of queries sends to list tables: those of the schemas in `search_path`.
const OF_GRAFANA: &str = "SELECT quote_ident(table_name) AS \"table\" \
    FROM information_schema.tables \
    WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog') \
    AND table_type = 'BASE TABLE' AND quote_ident(table_schema) IN (\
    SELECT CASE WHEN trim(s[i]) = '\"$user\"' THEN user ELSE trim(s[i]) END \
    FROM generate_series(\
    array_lower(string_to_array(current_setting('search_path'), ','), 1), \
    array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i, \
    string_to_array(current_setting('search_path'), ',') s)";

/// What Django sends for the constraints of a table.
const OF_DJANGO: &str = "SELECT c.conname, array(\
    SELECT attname FROM unnest(c.conkey) WITH ORDINALITY cols(colid, arridx) \
    JOIN pg_attribute AS ca ON cols.colid = ca.attnum \
    WHERE ca.attrelid = c.conrelid ORDER BY cols.arridx), c.contype, \
    (SELECT fkc.relname || '.' || fka.attname FROM pg_attribute AS fka \
    JOIN pg_class AS fkc ON fka.attrelid = fkc.oid \
    WHERE fka.attrelid = c.confrelid AND fka.attnum = c.confkey[1]), cl.reloptions \
    FROM pg_constraint AS c JOIN pg_class AS cl ON c.conrelid = cl.oid \
    WHERE cl.relname = 'ct' AND pg_catalog.pg_table_is_visible(cl.oid)";

/// What Rails sends for the indexes of a table, beside its key.
const OF_RAILS: &str = "SELECT distinct i.relname, d.indisunique, d.indkey, \
    pg_get_indexdef(d.indexrelid), \
    pg_catalog.obj_description(i.oid, 'pg_class') AS comment, d.indisvalid, \
    ARRAY(SELECT pg_get_indexdef(d.indexrelid, k + 1, true) \
    FROM generate_subscripts(d.indkey, 1) AS k ORDER BY k) AS columns \
    FROM pg_class t INNER JOIN pg_index d ON t.oid = d.indrelid \
    INNER JOIN pg_class i ON d.indexrelid = i.oid \
    LEFT JOIN pg_namespace n ON n.oid = t.relnamespace \
    WHERE i.relkind IN ('i', 'I') AND d.indisprimary = 'f' AND t.relname = 'ct' \
    AND n.nspname = ANY (current_schemas(false)) ORDER BY i.relname";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frameworks_and_dashboards_find_tables_and_keys() {
    let served =
        Served::with("CREATE TABLE ct (id BIGINT, \"a,b\" TEXT, PRIMARY KEY (\"a,b\", id))").await;
    let client = served.client().await;
    assert_eq!(cells(&client, OF_GRAFANA).await, [["ct"]]);
    assert_eq!(
        cells(&client, OF_DJANGO).await,
        [["ct_pkey", "{\"a,b\",id}", "p", "-", "-"]]
    );
    assert!(cells(&client, OF_RAILS).await.is_empty());
    let usage = "SELECT table_name, constraint_name FROM information_schema.constraint_table_usage";
    assert_eq!(cells(&client, usage).await, [["ct", "ct_pkey"]]);
    let named = "SELECT catalog_name FROM information_schema.information_schema_catalog_name";
    assert_eq!(cells(&client, named).await, [["lazybase"]]);
    served.stop().await;
}

/// What DBeaver sends for the indexes of a table.
const OF_DBEAVER: &str = "SELECT i.*, i.indkey AS keys, c.relname, c.relnamespace, c.relam, \
    c.reltablespace, tc.relname AS tabrelname, dsc.description, \
    pg_catalog.pg_get_expr(i.indpred, i.indrelid) AS pred_expr, \
    pg_catalog.pg_get_expr(i.indexprs, i.indrelid, true) AS expr, \
    pg_catalog.pg_relation_size(i.indexrelid) AS index_rel_size, \
    pg_catalog.pg_stat_get_numscans(i.indexrelid) AS index_num_scans \
    FROM pg_catalog.pg_index i \
    INNER JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
    INNER JOIN pg_catalog.pg_class tc ON tc.oid = i.indrelid \
    LEFT OUTER JOIN pg_catalog.pg_description dsc ON i.indexrelid = dsc.objoid \
    WHERE i.indrelid = $OID ORDER BY tabrelname, c.relname";

/// What DataGrip sends for the schemas, and for the keys of tables.
const OF_SCHEMAS: &str = "select N.oid::bigint as id, N.xmin as state_number, nspname as name, \
    D.description, pg_catalog.pg_get_userbyid(N.nspowner) as \"owner\" \
    from pg_catalog.pg_namespace N left join pg_catalog.pg_description D on N.oid = D.objoid \
    order by case when nspname = pg_catalog.current_schema() then -1::bigint \
    else N.oid::bigint end";
const OF_CONSTRAINTS: &str = "select conname con_name, C.xmin con_state_id, contype con_kind, \
    conkey con_columns from pg_catalog.pg_constraint C \
    join pg_catalog.pg_class T on C.conrelid = T.oid \
    where contype in ('p', 'u', 'f', 'c', 'x') and pg_catalog.age(C.xmin) <= 2147483647";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dbeaver_and_datagrip_find_indexes_and_what_has_changed() {
    let served =
        Served::with("CREATE TABLE ct (id BIGINT, part TEXT, PRIMARY KEY (part, id))").await;
    let client = served.client().await;
    let oid = cells(&client, "SELECT 'ct'::regclass::oid").await[0][0].clone();
    let indexes = cells(&client, &OF_DBEAVER.replace("$OID", &oid)).await;
    let [index] = indexes.as_slice() else {
        panic!("{indexes:?}");
    };
    assert_eq!(index[15..19], ["2 1", "0 0", "0 0", "0 0"], "{index:?}");
    assert!(index.contains(&"ct_pkey".to_owned()), "{index:?}");
    assert_eq!(index[index.len() - 2..], ["0", "-"], "{index:?}");
    let schemas = cells(&client, OF_SCHEMAS).await;
    assert_eq!(schemas[0][1..3], ["0", "public"], "{schemas:?}");
    assert_eq!(
        cells(&client, OF_CONSTRAINTS).await,
        [["ct_pkey", "0", "p", "{2,1}"]]
    );
    let now = "select case when pg_catalog.pg_is_in_recovery() then null \
               else (pg_catalog.txid_current() % 4294967296)::varchar::bigint end as current_txid";
    let now = cells(&client, now).await;
    assert!(now[0][0].parse::<u64>().is_ok(), "{now:?}");
    let locks = "SELECT L.transactionid::varchar::bigint AS transaction_id \
                 FROM pg_catalog.pg_locks AS L WHERE L.transactionid IS NOT NULL \
                 ORDER BY pg_catalog.age(L.transactionid) DESC LIMIT 1";
    assert!(cells(&client, locks).await.is_empty());
    served.stop().await;
}

/// What psql sends for `\d` of a pattern, with what it makes of that.
fn of_pattern(condition: &str) -> String {
    format!(
        "SELECT n.nspname, c.relname FROM pg_catalog.pg_class c \
         LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE {condition} ORDER BY 1, 2"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_system_has_is_found_by_its_name() {
    let served = Served::with("CREATE TABLE ct (id BIGINT PRIMARY KEY)").await;
    let client = served.client().await;
    let named = |name: &str| {
        format!("c.relname OPERATOR(pg_catalog.~) '^({name})$' COLLATE pg_catalog.default")
    };
    let visible = "pg_catalog.pg_table_is_visible(c.oid)";
    let of_lazybase = "n.nspname OPERATOR(pg_catalog.~) '^(lazybase)$' COLLATE pg_catalog.default";
    let found = of_pattern(&format!("{} AND {of_lazybase}", named("lag")));
    assert_eq!(cells(&client, &found).await, [["lazybase", "lag"]]);
    let hidden = of_pattern(&format!("{} AND {visible}", named("lag")));
    assert!(cells(&client, &hidden).await.is_empty());
    let found = of_pattern(&format!("{} AND {visible}", named("pg_class")));
    assert_eq!(cells(&client, &found).await, [["pg_catalog", "pg_class"]]);
    // Without a pattern there are the users' own.
    let own = format!(
        "c.relkind IN ('r','p','v','m','S','f','') AND n.nspname <> 'pg_catalog' AND n.nspname !~ \
         '^pg_toast' AND n.nspname <> 'information_schema' AND {visible}"
    );
    let own = cells(&client, &of_pattern(&own)).await;
    assert_eq!(own, [["public", "ct"]]);
    let shown = "SELECT 'ct'::regclass, 'lazybase.lag'::regclass";
    let statement = client.prepare(shown).await.unwrap();
    let names = statement.columns().iter().map(|column| column.name());
    assert_eq!(names.collect::<Vec<_>>(), ["regclass", "regclass"]);
    assert_eq!(cells(&client, shown).await, [["ct", "lazybase.lag"]]);
    served.stop().await;
}
