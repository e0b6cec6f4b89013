//! JSON: clients are told which columns are it, so that they decode them, and which parameters.

use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::Client;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type};

use crate::copying::{copy_in, copy_out};
use crate::raw::Raw;
use crate::served::{Served, cells, sqlstate};

const TABLE: &str = "CREATE TABLE t (k INT PRIMARY KEY, j JSON, v TEXT); \
     INSERT INTO t VALUES (1, '{\"a\": [1, \"x\"]}', '[1]'), (2, NULL, 'v')";

/// The bytes of a value, whatever its type.
#[derive(Debug, PartialEq, Eq)]
struct Bytes(String);

impl ToSql for Bytes {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(
        &self,
        of: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.to_sql(of, out)
    }
}

impl<'a> FromSql<'a> for Bytes {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Bytes(String::from_utf8(raw.to_vec())?))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

fn bytes(text: &str) -> Bytes {
    Bytes(text.to_owned())
}

/// The JSON of a row, in the binary format.
async fn stored(client: &Client, k: i32) -> String {
    let row = client
        .query_one("SELECT j FROM t WHERE k = $1", &[&k])
        .await;
    row.unwrap().get::<_, Bytes>(0).0
}

/// Compares what clients are told of the only column of each query with what is expected, by both
/// ways that they may ask.
async fn are_told(served: &Served, queries: &[(&str, Type)]) {
    let client = served.client().await;
    let mut raw = Raw::new(served).await;
    for (columns, expected) in queries {
        let sql = format!("SELECT {columns}");
        let statement = client.prepare(&sql).await;
        let statement = statement.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        assert_eq!(statement.columns()[0].type_(), expected, "{sql}");
        let told = raw.query(&sql).ready().await;
        assert!(told.errors(b'C').is_empty(), "{sql}: {told:?}");
        assert_eq!(told.column_types(), [expected.oid()], "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_are_told_as_json() {
    let served = Served::with(TABLE).await;
    let queries = [
        ("j FROM t", Type::JSON),
        ("j FROM t WHERE k = 1", Type::JSON),
        (
            "s.i FROM (SELECT j AS i FROM t ORDER BY k) AS s",
            Type::JSON,
        ),
        ("a.j FROM t AS a LEFT JOIN t AS b ON a.k = b.k", Type::JSON),
        ("max(j) FROM t", Type::JSON),
        ("j FROM t GROUP BY j", Type::JSON),
        ("coalesce(j, '{}') FROM t", Type::JSON),
        ("nullif(j, '') FROM t", Type::JSON),
        ("CASE WHEN k > 1 THEN j END FROM t", Type::JSON),
        ("j -> 'a' FROM t", Type::JSON),
        ("v::JSON FROM t WHERE k = 1", Type::JSON),
        ("'{}'::JSONB", Type::JSON),
        // What may be something else is told as the text that it is.
        ("coalesce(j, 'none') FROM t", Type::TEXT),
        ("CASE WHEN k > 1 THEN j ELSE v END FROM t", Type::TEXT),
        ("j ->> 'a' FROM t", Type::TEXT),
        ("j::TEXT FROM t", Type::TEXT),
        ("v FROM t", Type::TEXT),
    ];
    are_told(&served, &queries).await;
    let client = served.client().await;
    assert_eq!(stored(&client, 1).await, "{\"a\": [1, \"x\"]}");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_gives_values_of_json_is_told_as_json() {
    let served = Served::with(TABLE).await;
    let queries = [
        ("lag(j) OVER (ORDER BY k) FROM t", Type::JSON),
        ("lead(j, 1, '{}') OVER (ORDER BY k) FROM t", Type::JSON),
        ("first_value(j) OVER (ORDER BY k) FROM t", Type::JSON),
        ("max(j) OVER () FROM t", Type::JSON),
        ("last_value(j ORDER BY k) FROM t", Type::JSON),
        ("max(coalesce(j, '{}')) FROM t", Type::JSON),
        (
            "coalesce(j, '{}') FROM t GROUP BY coalesce(j, '{}')",
            Type::JSON,
        ),
        ("j -> 'a' FROM t GROUP BY j -> 'a'", Type::JSON),
        (
            "(SELECT o.j FROM t AS o WHERE o.k = t.k) FROM t",
            Type::JSON,
        ),
        (
            "x FROM (SELECT nullif(j, '') AS x FROM t UNION ALL SELECT j FROM t) AS s",
            Type::JSON,
        ),
        (
            "x FROM (VALUES (NULL), (json_build_array(1))) AS s (x)",
            Type::JSON,
        ),
        ("(array_agg(j))[1] FROM t", Type::JSON),
        ("json_array_elements('[1]')", Type::JSON),
        ("array_agg(j) FROM t", Type::JSON_ARRAY),
        ("array_agg(j ORDER BY k DESC) FROM t", Type::JSON_ARRAY),
        ("array_agg(j) OVER () FROM t", Type::JSON_ARRAY),
        ("ARRAY(SELECT j FROM t)", Type::JSON_ARRAY),
        ("array_agg(v) FROM t", Type::TEXT_ARRAY),
        ("array_agg(j)::TEXT[] FROM t", Type::TEXT_ARRAY),
        ("max(CASE WHEN k > 1 THEN j ELSE v END) FROM t", Type::TEXT),
    ];
    are_told(&served, &queries).await;
    let client = served.client().await;
    let all = client
        .query_one("SELECT array_agg(j ORDER BY k) FROM t", &[])
        .await;
    assert_eq!(
        all.unwrap().get::<_, Vec<Option<Bytes>>>(0),
        [Some(bytes("{\"a\": [1, \"x\"]}")), None]
    );
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_catalogues_tell_of_it() {
    let served = Served::with(TABLE).await;
    let client = served.client().await;
    let attributes = "SELECT atttypid, format_type(atttypid, atttypmod) FROM pg_attribute \
                      WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY attnum";
    assert_eq!(
        cells(&client, attributes).await,
        [["23", "integer"], ["114", "json"], ["25", "text"]]
    );
    let columns = "SELECT data_type, udt_name FROM information_schema.columns \
                   WHERE table_name = 't' ORDER BY ordinal_position";
    assert_eq!(
        cells(&client, columns).await,
        [["integer", "int4"], ["json", "json"], ["text", "text"]]
    );
    for sql in [
        "CREATE TABLE copied AS SELECT k, j FROM t",
        "CREATE MATERIALIZED VIEW seen AS SELECT v, k, j FROM t ORDER BY v, k",
    ] {
        client.batch_execute(sql).await.unwrap();
    }
    for table in ["copied", "seen"] {
        let statement = client.prepare(&format!("SELECT j FROM {table}")).await;
        assert_eq!(*statement.unwrap().columns()[0].type_(), Type::JSON);
    }
    // A text it may become, and then its view has texts too; a text becomes no JSON.
    client
        .batch_execute("ALTER TABLE t ALTER COLUMN j TYPE TEXT")
        .await
        .unwrap();
    for table in ["t", "seen"] {
        let statement = client.prepare(&format!("SELECT j FROM {table}")).await;
        assert_eq!(*statement.unwrap().columns()[0].type_(), Type::TEXT);
    }
    let back = "ALTER TABLE t ALTER COLUMN j TYPE JSON";
    assert_eq!(sqlstate(client.batch_execute(back).await), "42804");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_are_told_as_json() {
    let served = Served::with(TABLE).await;
    let client = served.client().await;
    let insert = "INSERT INTO t VALUES ($1, $2, $3)";
    for (sql, expected) in [
        (insert, vec![Type::INT4, Type::JSON, Type::TEXT]),
        (
            "UPDATE t SET j = $1 WHERE k = $2",
            vec![Type::JSON, Type::INT4],
        ),
        ("SELECT $1::JSON", vec![Type::JSON]),
        ("SELECT $1::JSONB -> 'a'", vec![Type::JSON]),
    ] {
        let statement = client.prepare(sql).await.unwrap();
        assert_eq!(statement.params(), expected, "{sql}");
    }
    let none: Option<&str> = None;
    let written = client
        .execute(insert, &[&3, &bytes("{\"n\": null}"), &none])
        .await;
    assert_eq!(written.unwrap(), 1);
    assert_eq!(stored(&client, 3).await, "{\"n\": null}");
    let wrong = client.execute(insert, &[&4, &bytes("{n"), &none]).await;
    assert_eq!(sqlstate(wrong), "22P02");
    // Drivers that know JSONB say so of what they send, and put its version before it.
    let of_jsonb = client
        .prepare_typed("INSERT INTO t (k, j) VALUES (5, $1)", &[Type::JSONB])
        .await
        .unwrap();
    let written = client.execute(&of_jsonb, &[&bytes("\u{1}[5]")]).await;
    assert_eq!(written.unwrap(), 1);
    assert_eq!(stored(&client, 5).await, "[5]");
    // The same of a statement of PREPARE.
    let mut raw = Raw::new(&served).await;
    let prepare = "PREPARE p AS INSERT INTO t (k, j) VALUES ($1, $2)";
    raw.query(prepare).ready().await;
    let told = raw.describe("p").sync().ready().await;
    assert_eq!(
        told.parameter_types(),
        [Type::INT4.oid(), Type::JSON.oid()],
        "{told:?}"
    );
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_that_are_declared_so_are_json() {
    let served = Served::with(TABLE).await;
    let client = served.client().await;
    // JSONB has its version before it.
    for (of, version) in [(Type::JSON, ""), (Type::JSONB, "\u{1}")] {
        let given = |text: &str| bytes(&format!("{version}{text}"));
        let types = [of.clone()];
        let select = client.prepare_typed("SELECT $1", &types).await.unwrap();
        assert_eq!(select.params(), types);
        assert_eq!(*select.columns()[0].type_(), Type::JSON);
        let row = client.query_one(&select, &[&given("{\"a\": 1}")]).await;
        assert_eq!(row.unwrap().get::<_, Bytes>(0).0, "{\"a\": 1}");
        let none = client.query_one(&select, &[&None::<Bytes>]).await;
        assert_eq!(none.unwrap().get::<_, Option<Bytes>>(0), None);
        let wrong = client.query_one(&select, &[&given("no json")]).await;
        assert_eq!(sqlstate(wrong), "22P02");
        // Also where they go to a text.
        let update = "UPDATE t SET v = $1 WHERE k = 1";
        let update = client.prepare_typed(update, &types).await.unwrap();
        let wrong = client.execute(&update, &[&given("no json")]).await;
        assert_eq!(sqlstate(wrong), "22P02");
        let written = client.execute(&update, &[&given("[2]")]).await;
        assert_eq!(written.unwrap(), 1);
    }
    let mut raw = Raw::new(&served).await;
    raw.query("PREPARE p (json) AS SELECT $1").ready().await;
    let told = raw.describe("p").sync().ready().await;
    assert_eq!(told.parameter_types(), [Type::JSON.oid()], "{told:?}");
    assert_eq!(told.column_types(), [Type::JSON.oid()], "{told:?}");
    let told = raw.query("EXECUTE p ('[1]')").ready().await;
    assert_eq!(told.column_types(), [Type::JSON.oid()], "{told:?}");
    assert_eq!(told.rows(), [["[1]"]]);
    let told = raw.query("EXECUTE p ('[')").ready().await;
    assert_eq!(told.errors(b'C'), ["22P02"]);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_else_is_stored_there() {
    let served = Served::with(TABLE).await;
    let client = served.client().await;
    for sql in [
        "INSERT INTO t (k, j) VALUES (9, '{a')",
        "INSERT INTO t (k, j) VALUES (9, '')",
        "INSERT INTO t (k, j) SELECT 9, v FROM t WHERE k = 2",
        "UPDATE t SET j = 'x' WHERE k = 1",
        "INSERT INTO t (k, j) VALUES (1, '{}') ON CONFLICT (k) DO UPDATE SET j = 'x'",
        "ALTER TABLE t ADD COLUMN d JSON DEFAULT 'x'",
        "CREATE TABLE u (k INT PRIMARY KEY, j JSON DEFAULT 'x')",
    ] {
        assert_eq!(sqlstate(client.batch_execute(sql).await), "22P02", "{sql}");
    }
    let copied = copy_in(&client, "COPY t FROM STDIN", b"9\t{\"a\": 1}\tv\n8\t{\tv\n").await;
    assert_eq!(sqlstate(copied), "22P02");
    let all = cells(&client, "SELECT k, j FROM t ORDER BY k").await;
    assert_eq!(all, [["1", "{\"a\": [1, \"x\"]}"], ["2", "-"]]);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_goes_through_copy_as_it_is() {
    let sql = "CREATE TABLE u (k INT PRIMARY KEY, j JSON)";
    let served = Served::with(&format!("{TABLE}; {sql}")).await;
    let client = served.client().await;
    for format in ["text", "csv", "binary"] {
        let out = format!("COPY (SELECT k, j FROM t ORDER BY k) TO STDOUT (FORMAT {format})");
        let data = copy_out(&client, &out).await;
        let into = format!("COPY u FROM STDIN (FORMAT {format})");
        assert_eq!(copy_in(&client, &into, &data).await.unwrap(), 2, "{format}");
        assert_eq!(
            cells(&client, "SELECT k, j FROM u ORDER BY k").await,
            [["1", "{\"a\": [1, \"x\"]}"], ["2", "-"]],
            "{format}"
        );
    }
    served.stop().await;
}
