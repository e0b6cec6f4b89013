//! Ingests: tables that are made, replaced and appended to; one stream is one batch.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{
    ArrayRef, DictionaryArray, Int32Array, Int64Array, LargeStringArray, RecordBatch, StringArray,
    StringViewArray, StructArray, TimestampMillisecondArray, TimestampNanosecondArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use arrow_flight::FlightDescriptor;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::sql::{CommandStatementIngest, DoPutUpdateResult, ProstMessageExt};
use futures::{StreamExt, TryStreamExt, stream};
use prost::Message;
use tonic::{Code, Request};

use crate::served::{
    Client, Served, failure, ingest, ingest_into, number, pairs, query, sqlstate, text,
};

#[tokio::test]
async fn each_mode_does_what_it_says() {
    let served = Served::start().await;
    let mut client = served.client().await;
    let missing = ingest(&mut client, ingest_into("t", "append"), vec![pairs(0..1)]).await;
    assert_eq!(failure(missing).0, Code::NotFound);
    let made = ingest(
        &mut client,
        ingest_into("t", "create"),
        vec![pairs(0..10), pairs(10..20)],
    );
    assert_eq!(made.await.unwrap(), 20);
    let again = ingest(&mut client, ingest_into("t", "create"), vec![pairs(0..1)]).await;
    assert_eq!(sqlstate(again), "42P07");
    let more = ingest(&mut client, ingest_into("t", "append"), vec![pairs(0..5)]).await;
    assert_eq!(more.unwrap(), 5);
    // A table without a key takes each row.
    assert_eq!(text(&mut client, "SELECT count(*) FROM t").await, "25");
    let anew = ingest(&mut client, ingest_into("t", "replace"), vec![pairs(7..9)]).await;
    assert_eq!(anew.unwrap(), 2);
    assert_eq!(
        text(&mut client, "SELECT k, v FROM t ORDER BY k").await,
        "7 v7; 8 v8"
    );
    for (count, total) in [(3, "3"), (2, "5")] {
        let batch = vec![pairs(0..count)];
        let more = ingest(&mut client, ingest_into("u", "create_append"), batch).await;
        assert_eq!(more.unwrap(), count);
        assert_eq!(text(&mut client, "SELECT count(*) FROM u").await, total);
    }
    // A schema without rows makes a table without rows.
    let none = ingest(&mut client, ingest_into("e", "create"), vec![pairs(0..0)]).await;
    assert_eq!(none.unwrap(), 0);
    assert_eq!(text(&mut client, "SELECT count(*) FROM e").await, "0");
    served.stop().await;
}

/// Ingests a schema, and no batch; how many rows the server says that it has written.
async fn ingest_schema(
    client: &mut Client,
    command: CommandStatementIngest,
    schema: Schema,
) -> i64 {
    let command = command.as_any().encode_to_vec();
    let messages: Vec<_> = FlightDataEncoderBuilder::new()
        .with_schema(Arc::new(schema))
        .with_flight_descriptor(Some(FlightDescriptor::new_cmd(command)))
        .build(stream::empty::<Result<RecordBatch, FlightError>>())
        .try_collect()
        .await
        .unwrap();
    assert_eq!(messages.len(), 1);
    let messages = Request::new(stream::iter(messages));
    let put = client.inner_mut().do_put(messages).await.unwrap();
    let result = put.into_inner().message().await.unwrap().unwrap();
    let told = DoPutUpdateResult::decode(result.app_metadata).unwrap();
    told.record_count
}

#[tokio::test]
async fn without_rows_a_table_is_made_all_the_same() {
    let served = Served::start().await;
    let mut client = served.client().await;
    let empty = pairs(0..0);
    let schema = || empty.schema().as_ref().clone();
    let columns = async |table: &str| {
        let table = served.database.session().table(table).unwrap();
        let columns = table.columns[..table.visible_columns()].iter();
        let columns = columns.map(|column| format!("{} {}", column.name, column.data_type));
        columns.collect::<Vec<_>>().join(", ")
    };
    for (table, batches) in [("without_batches", 0), ("without_rows", 1), ("twice", 2)] {
        for mode in ["create", "append", "replace", "create_append"] {
            let into = ingest_into(table, mode);
            let written = match batches {
                0 => ingest_schema(&mut client, into, schema()).await,
                _ => ingest(&mut client, into, vec![empty.clone(); batches])
                    .await
                    .unwrap(),
            };
            assert_eq!(written, 0, "{table}, {mode}");
        }
        assert_eq!(columns(table).await, "k Int64, v Utf8");
        let count = format!("SELECT count(*) FROM {table}");
        assert_eq!(served.read(&count).await, "0");
    }
    // Where it replaces a table, its rows go, and its columns.
    let some = ingest_into("without_batches", "append");
    assert_eq!(
        ingest(&mut client, some, vec![pairs(0..3)]).await.unwrap(),
        3
    );
    let other = Schema::new(vec![Field::new("other", DataType::Int32, true)]);
    let anew = ingest_into("without_batches", "replace");
    assert_eq!(ingest_schema(&mut client, anew, other).await, 0);
    assert_eq!(columns("without_batches").await, "other Int32");
    let count = "SELECT count(*) FROM without_batches";
    assert_eq!(served.read(count).await, "0");
    // A client that does not even send a schema is told what to do.
    let nothing = ingest(&mut client, ingest_into("t", "create"), vec![]).await;
    let (code, _, message) = failure(nothing);
    assert_eq!(code, Code::InvalidArgument);
    assert!(message.contains("nothing is put"), "{message}");
    served.stop().await;
}

#[tokio::test]
async fn what_there_is_not_is_refused_with_a_word() {
    let served = Served::start().await;
    let mut client = served.client().await;
    // A client that names no session would lose it at once.
    let mut temporary = ingest_into("t", "create");
    temporary.temporary = true;
    let (code, sqlstate, message) =
        failure(ingest(&mut client, temporary, vec![pairs(0..1)]).await);
    assert_eq!(
        (code, sqlstate.as_str()),
        (Code::FailedPrecondition, "55000")
    );
    assert!(message.contains("temporary"), "{message}");
    let mut elsewhere = ingest_into("t", "create");
    elsewhere.schema = Some("private".to_owned());
    assert_eq!(
        crate::served::sqlstate(ingest(&mut client, elsewhere, vec![pairs(0..1)]).await),
        "3F000"
    );
    let mut elsewhere = ingest_into("t", "create");
    elsewhere.catalog = Some("other".to_owned());
    assert_eq!(
        crate::served::sqlstate(ingest(&mut client, elsewhere, vec![pairs(0..1)]).await),
        "3D000"
    );
    let mut here = ingest_into("t", "create");
    (here.catalog, here.schema) = (Some("lazybase".to_owned()), Some("public".to_owned()));
    assert_eq!(
        ingest(&mut client, here, vec![pairs(0..1)]).await.unwrap(),
        1
    );
    served.stop().await;
}

#[tokio::test]
async fn a_schema_says_that_no_temporary_table_is_meant() {
    let served = Served::start().await;
    let (mut client, mut other) = (served.named().await, served.named().await);
    let mut own = ingest_into("t", "create");
    own.temporary = true;
    ingest(&mut client, own, vec![pairs(0..1)]).await.unwrap();
    for (mode, rows, count) in [
        ("create", 0..2, 2),
        ("append", 2..5, 5),
        ("create_append", 5..6, 6),
        ("replace", 0..3, 3),
    ] {
        let mut of_all = ingest_into("t", mode);
        of_all.schema = Some("public".to_owned());
        ingest(&mut client, of_all, vec![pairs(rows)])
            .await
            .unwrap();
        for (client, count) in [(&mut other, count), (&mut client, 1)] {
            let got = query(client, "SELECT count(*) FROM t").await.unwrap();
            assert_eq!(number(&got), count, "{mode}");
        }
    }
    served.stop().await;
}

#[tokio::test]
async fn a_key_is_named_by_header_or_by_the_schema() {
    let served = Served::start().await;
    let mut client = served.client().await;
    client.set_header("lazybase-primary-key", "k");
    let made = ingest(
        &mut client,
        ingest_into("t", "create"),
        vec![pairs(0..5), pairs(0..5)],
    );
    assert_eq!(made.await.unwrap(), 10);
    assert_eq!(text(&mut client, "SELECT count(*) FROM t").await, "5");

    let mut client = served.client().await;
    let rows = pairs(0..4);
    let marked = HashMap::from([("lazybase.primary_key".to_owned(), "true".to_owned())]);
    let schema = rows.schema();
    let fields = schema.fields().iter().map(|field| {
        field
            .as_ref()
            .clone()
            .with_metadata(match field.name().as_str() {
                "v" => marked.clone(),
                _ => HashMap::new(),
            })
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let rows = RecordBatch::try_new(schema, rows.columns().to_vec()).unwrap();
    ingest(
        &mut client,
        ingest_into("by_field", "create"),
        vec![rows.clone()],
    )
    .await
    .unwrap();
    let whole = HashMap::from([("lazybase.primary_key".to_owned(), "v, k".to_owned())]);
    let schema = rows.schema().as_ref().clone().with_metadata(whole);
    let rows = RecordBatch::try_new(Arc::new(schema), rows.columns().to_vec()).unwrap();
    ingest(
        &mut client,
        ingest_into("by_schema", "create"),
        vec![rows.clone()],
    )
    .await
    .unwrap();
    let mut by_option = ingest_into("by_option", "create");
    by_option
        .options
        .insert("lazybase-primary-key".to_owned(), "k".to_owned());
    ingest(&mut client, by_option, vec![rows]).await.unwrap();
    for (table, key) in [("by_field", "v"), ("by_schema", "v, k"), ("by_option", "k")] {
        let table = served.database.session().table(table).unwrap();
        let names = table
            .key_indices()
            .into_iter()
            .map(|at| table.columns[at].name.clone());
        assert_eq!(names.collect::<Vec<_>>().join(", "), key, "{}", table.name);
    }
    client.set_header("lazybase-primary-key", "nothing");
    let wrong = ingest(&mut client, ingest_into("w", "create"), vec![pairs(0..1)]).await;
    assert_eq!(sqlstate(wrong), "42703");
    served.stop().await;
}

#[tokio::test]
async fn columns_go_by_name_and_are_cast_where_nothing_is_lost() {
    let served = Served::start().await;
    served
        .sql(
            "CREATE TABLE t (k INT PRIMARY KEY, a TEXT, b TEXT, c TEXT, d TEXT, \
              ts TIMESTAMP, tn TIMESTAMP(9), n BIGINT DEFAULT 5)",
        )
        .await;
    let mut client = served.client().await;
    let dictionary: DictionaryArray<Int32Type> = ["x", "y"].into_iter().collect();
    let micros = 1_000_001_000_i64;
    let rows = RecordBatch::try_from_iter_with_nullable([
        ("d", Arc::new(dictionary) as ArrayRef, true),
        (
            "c",
            Arc::new(LargeStringArray::from(vec!["c1", "c2"])) as ArrayRef,
            true,
        ),
        (
            "b",
            Arc::new(StringViewArray::from(vec![Some("b1"), None])) as ArrayRef,
            true,
        ),
        (
            "tn",
            Arc::new(TimestampMillisecondArray::from(vec![1001, 2])) as ArrayRef,
            true,
        ),
        (
            "ts",
            Arc::new(TimestampNanosecondArray::from(vec![micros * 1000, 0])) as ArrayRef,
            true,
        ),
        (
            "k",
            Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef,
            true,
        ),
    ])
    .unwrap();
    assert_eq!(
        ingest(&mut client, ingest_into("t", "append"), vec![rows])
            .await
            .unwrap(),
        2
    );
    assert_eq!(
        served
            .read("SELECT k, a, b, c, d, ts, tn, n FROM t ORDER BY k")
            .await,
        "1  b1 c1 x 1970-01-01T00:16:40.001 1970-01-01T00:00:01.001 5; \
         2   c2 y 1970-01-01T00:00:00 1970-01-01T00:00:00.002 5"
    );
    let one = |name: &str, values: ArrayRef| {
        let keys: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        RecordBatch::try_from_iter([("k", keys), (name, values)]).unwrap()
    };
    let real: ArrayRef = Arc::new(arrow::array::Float64Array::from(vec![1.0]));
    let lossy = ingest(
        &mut client,
        ingest_into("t", "append"),
        vec![one("n", real)],
    )
    .await;
    assert_eq!(sqlstate(lossy), "42804");
    let some: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let unknown = ingest(
        &mut client,
        ingest_into("t", "append"),
        vec![one("aa", some)],
    )
    .await;
    assert_eq!(sqlstate(unknown), "42703");
    served.stop().await;
}

#[tokio::test]
async fn a_stream_is_one_batch_whatever_its_length() {
    let served = Served::start().await;
    served
        .sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT)")
        .await;
    let mut client = served.client().await;
    let batches: Vec<RecordBatch> = (0..40)
        .map(|at| pairs(at * 20_000..(at + 1) * 20_000))
        .collect();
    let done = ingest(&mut client, ingest_into("t", "append"), batches.clone()).await;
    assert_eq!(done.unwrap(), 800_000);
    assert_eq!(
        served.read("SELECT count(*), max(k) FROM t").await,
        "800000 799999"
    );

    // A stream whose last batch is wrong leaves nothing, nor does one that breaks off.
    let keys: ArrayRef = Arc::new(Int64Array::from(vec![None::<i64>]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let schema = batches[0].schema();
    let mut wrong: Vec<RecordBatch> = batches[..5].to_vec();
    wrong.push(RecordBatch::try_new(schema, vec![keys, texts]).unwrap());
    let failed = ingest(&mut client, ingest_into("made", "create"), wrong.clone()).await;
    assert!(failed.is_ok(), "a table without a key takes NULL");
    client.set_header("lazybase-primary-key", "k");
    let failed = ingest(&mut client, ingest_into("none", "create"), wrong).await;
    assert_eq!(sqlstate(failed), "23502");
    let gone = query(&mut client, "SELECT count(*) FROM none").await;
    assert_eq!(sqlstate(gone), "42P01");
    let command = ingest_into("t", "append").as_any().encode_to_vec();
    let messages: Vec<_> = FlightDataEncoderBuilder::new()
        .with_flight_descriptor(Some(FlightDescriptor::new_cmd(command)))
        .build(stream::iter([Ok(pairs(900_000..910_000))]))
        .try_collect()
        .await
        .unwrap();
    let endless = stream::iter(messages).chain(stream::pending());
    let call = client.inner_mut().do_put(Request::new(endless));
    let none = tokio::time::timeout(Duration::from_millis(300), call).await;
    assert!(none.is_err(), "it waits for the end of the stream");
    assert_eq!(served.read("SELECT count(*) FROM t").await, "800000");
    // Nothing is held by what broke off: the server ends at once.
    served.stop().await;
}

#[tokio::test]
async fn a_producers_batch_counts_once() {
    let served = Served::start().await;
    let mut client = served.client().await;
    client.set_header("lazybase-producer", "sensor-7");
    client.set_header("lazybase-batch-number", "1");
    for _ in 0..2 {
        ingest(
            &mut client,
            ingest_into("t", "create_append"),
            vec![pairs(0..10)],
        )
        .await
        .unwrap();
        assert_eq!(served.read("SELECT count(*) FROM t").await, "10");
    }
    let other = ingest(&mut client, ingest_into("t", "append"), vec![pairs(0..11)]).await;
    assert!(other.is_err(), "another batch under the same number");
    client.set_header("lazybase-batch-number", "2");
    ingest(&mut client, ingest_into("t", "append"), vec![pairs(10..20)])
        .await
        .unwrap();
    let sql = "INSERT INTO t VALUES (1, 'x')".to_owned();
    client.set_header("lazybase-batch-number", "3");
    for _ in 0..2 {
        client.execute_update(sql.clone(), None).await.unwrap();
    }
    assert_eq!(served.read("SELECT count(*) FROM t").await, "21");
    served.sql("SETTLE").await;
    assert_eq!(
        served
            .read("SELECT name, number FROM lazybase.producers")
            .await,
        "sensor-7 3"
    );
    served.stop().await;
}

#[tokio::test]
async fn rows_that_were_announced_must_come() {
    let served = Served::start().await;
    let mut client = served.client().await;
    client.set_header("lazybase-rows", "11");
    let fewer = ingest(&mut client, ingest_into("t", "create"), vec![pairs(0..10)]).await;
    assert_eq!(sqlstate(fewer), "22000");
    let gone = query(&mut client, "SELECT count(*) FROM t").await;
    assert_eq!(sqlstate(gone), "42P01");
    let all = vec![pairs(0..10), pairs(10..11)];
    assert_eq!(
        ingest(&mut client, ingest_into("t", "create"), all)
            .await
            .unwrap(),
        11
    );
    client.set_header("lazybase-rows", "all");
    let wrong = ingest(&mut client, ingest_into("t", "append"), vec![pairs(0..1)]).await;
    assert_eq!(sqlstate(wrong), "22023");
    served.stop().await;
}

#[tokio::test]
async fn rows_may_insert_update_and_delete() {
    let served = Served::start().await;
    served
        .sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT, n INT)")
        .await;
    served
        .sql("INSERT INTO t SELECT value, 'old', 1 FROM generate_series(0, 9) AS g (value)")
        .await;
    let mut client = served.client().await;
    for (op, keys) in [("insert", 8..12), ("update", 0..2), ("delete", 4..6)] {
        client.set_header("lazybase-op", op);
        let count = keys.end - keys.start;
        let done = ingest(&mut client, ingest_into("t", "append"), vec![pairs(keys)]).await;
        assert_eq!(done.unwrap(), count);
    }
    assert_eq!(
        served
            .read("SELECT k, v, n FROM t WHERE k < 2 OR k > 7 ORDER BY k")
            .await,
        "0 v0 1; 1 v1 1; 8 old 1; 9 old 1; 10 v10 ; 11 v11 "
    );
    assert_eq!(served.read("SELECT count(*) FROM t").await, "10");
    client.set_header("lazybase-op", "merge");
    let wrong = ingest(&mut client, ingest_into("t", "append"), vec![pairs(0..1)]).await;
    assert_eq!(sqlstate(wrong), "22023");
    served.stop().await;
}

/// Labels are columns of the batches, by name; without them rows are for everybody to read.
#[tokio::test]
async fn labels_come_with_their_rows_and_cells() {
    let served = Served::start().await;
    served
        .sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT WITH LABELS) WITH (row_labels = true)")
        .await;
    // As frames have texts that come again and again.
    let of_rows: DictionaryArray<Int32Type> = [None, Some("hr"), None].into_iter().collect();
    let of_cells = StringArray::from(vec![Some("hr&boss"), None, Some("")]);
    let keys = Int64Array::from(vec![1, 2, 3]);
    let values = StringArray::from(vec!["one", "two", "three"]);
    let rows = RecordBatch::try_from_iter_with_nullable([
        ("_label", Arc::new(of_rows) as ArrayRef, true),
        ("k", Arc::new(keys) as ArrayRef, true),
        ("_label(v)", Arc::new(of_cells) as ArrayRef, true),
        ("v", Arc::new(values) as ArrayRef, true),
    ])
    .unwrap();
    let mut client = served.client().await;
    // No table is made that shows labels as columns of its own.
    let made = ingest(
        &mut client,
        ingest_into("made", "create"),
        vec![rows.clone()],
    );
    assert_eq!(sqlstate(made.await), "42939");
    let written = ingest(&mut client, ingest_into("t", "append"), vec![rows]).await;
    assert_eq!(written.unwrap(), 3);
    let all = "SELECT k, v, \"_label(v)\", _label FROM t ORDER BY k";
    let expected = "1 one hr&boss ; 2 two  hr; 3 three  ";
    assert_eq!(served.read(all).await, expected);
    let mut limited = served.named().await;
    for (authorizations, seen) in [
        ("", "1 ; 3 three"),
        ("hr", "1 ; 2 two; 3 three"),
        ("boss,hr", "1 one; 2 two; 3 three"),
    ] {
        let set = format!("SET lazybase.authorizations = '{authorizations}'");
        query(&mut limited, &set).await.unwrap();
        let given = text(&mut limited, "SELECT * FROM t ORDER BY k").await;
        assert_eq!(given, seen, "{authorizations}");
    }
    let wrong = RecordBatch::try_from_iter([
        ("k", Arc::new(Int64Array::from(vec![4, 5])) as ArrayRef),
        ("_label", Arc::new(StringArray::from(vec!["hr", "hr&"]))),
    ])
    .unwrap();
    let refused = ingest(&mut client, ingest_into("t", "append"), vec![wrong]).await;
    assert_eq!(sqlstate(refused), "22023");
    assert_eq!(served.read(all).await, expected);
    // Whoever sees little may replace rows, and learns of none by it.
    query(&mut limited, "SET lazybase.authorizations = ''")
        .await
        .unwrap();
    for op in ["insert", "update", "delete"] {
        limited.set_header("lazybase-op", op);
        let met = ingest(&mut limited, ingest_into("t", "append"), vec![pairs(2..3)]).await;
        assert_eq!(sqlstate(met), "42501", "{op}");
    }
    limited.set_header("lazybase-op", "upsert");
    let bare = ingest(&mut limited, ingest_into("t", "append"), vec![pairs(2..3)]).await;
    assert_eq!(bare.unwrap(), 1);
    assert_eq!(served.read(all).await, "1 one hr&boss ; 2 v2  ; 3 three  ");
    served.stop().await;
}

#[tokio::test]
async fn natural_keys_come_as_structs() {
    let served = Served::start().await;
    served
        .sql(
            "CREATE TABLE users (id IDKEY, name TEXT, site INT, PRIMARY KEY (name, site)); \
              CREATE TABLE clicks (u IDKEY REFERENCES users, n BIGINT, PRIMARY KEY (u, n))",
        )
        .await;
    let names: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "a"]));
    let sites: ArrayRef = Arc::new(Int32Array::from(vec![1, 1, 1]));
    let users = StructArray::from(vec![
        (Arc::new(Field::new("name", DataType::Utf8, true)), names),
        (Arc::new(Field::new("site", DataType::Int32, true)), sites),
    ]);
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let rows =
        RecordBatch::try_from_iter([("u", Arc::new(users) as ArrayRef), ("n", numbers)]).unwrap();
    let mut client = served.client().await;
    assert_eq!(
        ingest(&mut client, ingest_into("clicks", "append"), vec![rows])
            .await
            .unwrap(),
        3
    );
    assert_eq!(
        served
            .read("SELECT n FROM clicks WHERE u = IDKEY('a', 1) ORDER BY n")
            .await,
        "1; 3"
    );
    served.stop().await;
}
