//! Every type in its natural Arrow form, both ways.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array,
    FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array,
    Int64Array, IntervalMonthDayNanoArray, ListArray, RecordBatch, StringArray, StructArray,
    Time32MillisecondArray, Time64MicrosecondArray, TimestampMicrosecondArray,
    TimestampNanosecondArray, TimestampSecondArray, UInt8Array, UInt16Array, UInt32Array,
    UInt64Array,
};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int32Type, IntervalMonthDayNano, i256};

use crate::served::{Client, Served, fetch, ingest, ingest_into, query};

/// A column of each type, each with a value and a NULL.
fn columns() -> Vec<(&'static str, &'static str, ArrayRef)> {
    let decimal = Decimal128Array::from(vec![Some(-1250), None]);
    let wide = Decimal256Array::from(vec![Some(i256::from_i128(7)), None]);
    let interval = IntervalMonthDayNano::new(1, 2, 3_000_000_000);
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1), None, Some(3)]),
        None,
    ]);
    let inner = StructArray::from(vec![(
        Arc::new(Field::new("a", DataType::Int32, true)),
        Arc::new(Int32Array::from(vec![Some(1), None])) as ArrayRef,
    )]);
    let utc = |array: TimestampMicrosecondArray| array.with_timezone("+00:00");
    vec![
        (
            "b",
            "BOOLEAN",
            Arc::new(BooleanArray::from(vec![Some(true), None])),
        ),
        (
            "i1",
            "TINYINT",
            Arc::new(Int8Array::from(vec![Some(-8), None])),
        ),
        (
            "i2",
            "SMALLINT",
            Arc::new(Int16Array::from(vec![Some(-16), None])),
        ),
        (
            "i4",
            "INT",
            Arc::new(Int32Array::from(vec![Some(-32), None])),
        ),
        (
            "i8",
            "BIGINT",
            Arc::new(Int64Array::from(vec![Some(i64::MIN), None])),
        ),
        (
            "u1",
            "TINYINT UNSIGNED",
            Arc::new(UInt8Array::from(vec![Some(u8::MAX), None])),
        ),
        (
            "u2",
            "SMALLINT UNSIGNED",
            Arc::new(UInt16Array::from(vec![Some(u16::MAX), None])),
        ),
        (
            "u4",
            "INT UNSIGNED",
            Arc::new(UInt32Array::from(vec![Some(u32::MAX), None])),
        ),
        (
            "u8",
            "BIGINT UNSIGNED",
            Arc::new(UInt64Array::from(vec![Some(u64::MAX), None])),
        ),
        (
            "f4",
            "REAL",
            Arc::new(Float32Array::from(vec![Some(1.5), None])),
        ),
        (
            "f8",
            "DOUBLE PRECISION",
            Arc::new(Float64Array::from(vec![Some(f64::NAN), None])),
        ),
        (
            "n",
            "DECIMAL(10, 2)",
            Arc::new(decimal.with_precision_and_scale(10, 2).unwrap()),
        ),
        (
            "nn",
            "DECIMAL(50, 5)",
            Arc::new(wide.with_precision_and_scale(50, 5).unwrap()),
        ),
        (
            "t",
            "TEXT",
            Arc::new(StringArray::from(vec![Some("ünï\0"), None])),
        ),
        (
            "y",
            "BYTEA",
            Arc::new(BinaryArray::from(vec![Some(&b"\x00\xff"[..]), None])),
        ),
        (
            "d",
            "DATE",
            Arc::new(Date32Array::from(vec![Some(-1), None])),
        ),
        (
            "tm",
            "TIME",
            Arc::new(Time64MicrosecondArray::from(vec![Some(1), None])),
        ),
        (
            "t3",
            "TIME(3)",
            Arc::new(Time32MillisecondArray::from(vec![Some(1), None])),
        ),
        (
            "ts",
            "TIMESTAMP",
            Arc::new(TimestampMicrosecondArray::from(vec![Some(1), None])),
        ),
        (
            "s0",
            "TIMESTAMP(0)",
            Arc::new(TimestampSecondArray::from(vec![Some(1), None])),
        ),
        (
            "s9",
            "TIMESTAMP(9)",
            Arc::new(TimestampNanosecondArray::from(vec![Some(1), None])),
        ),
        (
            "tz",
            "TIMESTAMPTZ",
            Arc::new(utc(TimestampMicrosecondArray::from(vec![Some(1), None]))),
        ),
        (
            "iv",
            "INTERVAL",
            Arc::new(IntervalMonthDayNanoArray::from(vec![Some(interval), None])),
        ),
        ("l", "INT[]", Arc::new(list)),
        ("st", "STRUCT<a INT>", Arc::new(inner)),
    ]
}

fn batch() -> RecordBatch {
    let key: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let columns = columns()
        .into_iter()
        .map(|(name, _, values)| (name, values, true));
    RecordBatch::try_from_iter_with_nullable([("k", key, false)].into_iter().chain(columns))
        .unwrap()
}

async fn stored(client: &mut Client, table: &str) -> RecordBatch {
    let info = client
        .execute(format!("SELECT * FROM {table} ORDER BY k"), None)
        .await
        .unwrap();
    let told = info.clone().try_decode_schema().unwrap();
    let got = fetch(client, &info).await.unwrap();
    let rows = concat_batches(&got.rows[0].schema(), &got.rows).unwrap();
    assert_eq!(
        told.fields(),
        rows.schema().fields(),
        "the columns are those that were told"
    );
    rows
}

fn check(stored: &RecordBatch) {
    let given = batch();
    assert_eq!(stored.num_columns(), given.num_columns());
    for (field, column) in given.schema().fields().iter().zip(stored.columns()) {
        let wanted = given.column_by_name(field.name()).unwrap();
        assert_eq!(column.data_type(), wanted.data_type(), "{}", field.name());
        assert_eq!(&column.to_data(), &wanted.to_data(), "{}", field.name());
    }
}

#[tokio::test]
async fn they_come_back_as_they_were_ingested() {
    let served = Served::start().await;
    let mut client = served.client().await;
    client.set_header("lazybase-primary-key", "k");
    ingest(&mut client, ingest_into("made", "create"), vec![batch()])
        .await
        .unwrap();
    check(&stored(&mut client, "made").await);
    let types: Vec<String> = columns()
        .iter()
        .map(|(name, sql, _)| format!("{name} {sql}"))
        .collect();
    served
        .sql(&format!(
            "CREATE TABLE t (k INT PRIMARY KEY, {})",
            types.join(", ")
        ))
        .await;
    ingest(&mut client, ingest_into("t", "append"), vec![batch()])
        .await
        .unwrap();
    check(&stored(&mut client, "t").await);
    served.stop().await;
}

#[tokio::test]
async fn they_are_bound_to_parameters() {
    let served = Served::start().await;
    let mut client = served.client().await;
    let types: Vec<String> = columns()
        .iter()
        .map(|(name, sql, _)| format!("{name} {sql}"))
        .collect();
    served
        .sql(&format!(
            "CREATE TABLE t (k INT PRIMARY KEY, {})",
            types.join(", ")
        ))
        .await;
    let places: Vec<String> = (1..=batch().num_columns())
        .map(|at| format!("${at}"))
        .collect();
    let sql = format!("INSERT INTO t VALUES ({})", places.join(", "));
    let mut insert = client.prepare(sql, None).await.unwrap();
    let asked = insert.parameter_schema().unwrap().clone();
    for (field, given) in asked.fields().iter().zip(batch().columns()) {
        assert_eq!(field.data_type(), given.data_type(), "{}", field.name());
    }
    insert.set_parameters(batch()).unwrap();
    assert_eq!(insert.execute_update().await.unwrap(), 2);
    check(&stored(&mut client, "t").await);
    served.stop().await;
}

#[tokio::test]
async fn a_uuid_is_sixteen_bytes_or_its_text_and_is_shown_as_text() {
    let served = Served::start().await;
    let mut client = served.client().await;
    let bytes: Vec<u8> = (1..=16).collect();
    let ids = FixedSizeBinaryArray::try_from_iter([bytes].into_iter()).unwrap();
    let rows = RecordBatch::try_from_iter([("id", Arc::new(ids) as ArrayRef)]).unwrap();
    client.set_header("lazybase-primary-key", "id");
    ingest(&mut client, ingest_into("u", "create"), vec![rows])
        .await
        .unwrap();
    let text = "01020304-0506-0708-090a-0b0c0d0e0f10";
    let got = query(&mut client, "SELECT id FROM u").await.unwrap();
    assert_eq!(got.text(), text);
    let schema = got.rows[0].schema();
    assert_eq!(schema.field(0).metadata()["lazybase.type"], "uuid");
    let texts: ArrayRef = Arc::new(StringArray::from(vec![text]));
    let rows = RecordBatch::try_from_iter([("id", texts)]).unwrap();
    ingest(&mut client, ingest_into("u", "append"), vec![rows])
        .await
        .unwrap();
    assert_eq!(served.read("SELECT count(*) FROM u").await, "1");
    served.stop().await;
}
