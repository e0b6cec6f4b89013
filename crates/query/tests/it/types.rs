//! Every type through every way in, at every mix of stages and in both layouts of the authority;
//! as a key where it has an order.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Decimal128Array,
    Decimal256Array, FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, IntervalMonthDayNanoArray, RecordBatch, StringArray, StructArray,
    Time32SecondArray, Time64MicrosecondArray, Time64NanosecondArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt8Array,
    UInt16Array, UInt32Array, UInt64Array, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{SortOptions, concat, concat_batches, sort_to_indices, take};
use arrow::datatypes::{DataType, Field, Fields, Int32Type, Int64Type, IntervalMonthDayNano, i256};
use arrow::util::display::array_value_to_string;
use lazybase_cluster::Settings;
use lazybase_query::{Database, Op, Session};

use crate::in_memory;
use crate::stages::{Mix, Pipeline};

/// A type and values of it.
struct Sample {
    sql: &'static str,
    /// Values that every way can carry, NULL among them.
    values: ArrayRef,
    /// Values that have no text, or that a format of files lacks; appended from Arrow.
    extremes: ArrayRef,
    /// Whether it has an order.
    key: bool,
}

fn sample(
    sql: &'static str,
    values: impl Array + 'static,
    extremes: impl Array + 'static,
) -> Sample {
    Sample {
        sql,
        values: Arc::new(values),
        extremes: Arc::new(extremes),
        key: true,
    }
}

/// As [`sample`], of a type whose values all have texts.
fn plain(sql: &'static str, values: impl Array + Clone + 'static) -> Sample {
    sample(sql, values.clone(), values)
}

macro_rules! numbers {
    ($sql:literal, $array:ty, $native:ty) => {
        plain(
            $sql,
            <$array>::from(vec![
                None,
                Some(<$native>::MIN),
                Some(<$native>::MAX),
                Some(1),
                Some(7),
            ]),
        )
    };
}

fn floats() -> [Sample; 2] {
    let doubles = vec![
        None,
        Some(f64::MIN),
        Some(f64::MAX),
        Some(f64::MIN_POSITIVE),
        Some(5e-324),
        Some(0.0),
        Some(-0.0),
        Some(0.1),
        Some(f64::NAN),
        Some(f64::INFINITY),
        Some(f64::NEG_INFINITY),
    ];
    let singles = vec![
        None,
        Some(f32::MIN),
        Some(f32::MAX),
        Some(1e-45),
        Some(-0.0),
        Some(0.1),
        Some(f32::NAN),
        Some(f32::NEG_INFINITY),
    ];
    [
        plain("DOUBLE PRECISION", Float64Array::from(doubles)),
        plain("REAL", Float32Array::from(singles)),
    ]
}

fn decimals() -> [Sample; 2] {
    let short = vec![
        None,
        Some(0),
        Some(-999_999_999_999),
        Some(999_999_999_999),
        Some(1),
    ];
    let nines = i256::from_string(&"9".repeat(60)).unwrap();
    let long = vec![None, Some(nines), Some(i256::ZERO - nines), Some(i256::ONE)];
    let short = Decimal128Array::from(short)
        .with_precision_and_scale(12, 2)
        .unwrap();
    let long = Decimal256Array::from(long)
        .with_precision_and_scale(60, 5)
        .unwrap();
    [
        plain("DECIMAL(12, 2)", short),
        plain("DECIMAL(60, 5)", long),
    ]
}

fn texts() -> [Sample; 4] {
    let long = "long text, ".repeat(20_000);
    let odd = [
        "a \"quoted\" text",
        "comma, tab\t, line\nand \\x",
        "NULL",
        "äöü\u{10ffff}",
    ];
    let texts: Vec<Option<&str>> = [None, Some(""), Some(" "), Some(long.as_str())]
        .into_iter()
        .chain(odd.map(Some))
        .collect();
    let bytes: Vec<Option<&[u8]>> = vec![
        None,
        Some(b""),
        Some(b"\0"),
        Some(&[0, 255, 128]),
        Some(b"text"),
        Some(b"\\x00"),
    ];
    let ids = vec![
        None,
        Some([0; 16]),
        Some([255; 16]),
        Some(*b"0123456789abcdef"),
    ];
    let ids = FixedSizeBinaryArray::try_from_sparse_iter_with_size(ids.into_iter(), 16).unwrap();
    let limited = StringArray::from(vec![None, Some(""), Some("äöü"), Some("a")]);
    [
        plain("TEXT", StringArray::from(texts)),
        plain("VARCHAR(3)", limited),
        plain("BYTEA", BinaryArray::from(bytes)),
        plain("UUID", ids),
    ]
}

/// The first and the last second of the years that ISO 8601 writes with four digits.
const SECONDS: [i64; 2] = [-62_135_596_800, 253_402_300_799];

fn moments() -> Vec<Sample> {
    let with = |factor: i64| {
        let seconds = [SECONDS[0] * factor, SECONDS[1] * factor, 0, -1, 1];
        std::iter::once(None)
            .chain(seconds.map(Some))
            .collect::<Vec<_>>()
    };
    let ends = || vec![None, Some(i64::MIN), Some(i64::MAX), Some(0)];
    let micros = |values| TimestampMicrosecondArray::from(values);
    let nanos: Vec<Option<i64>> = vec![
        None,
        Some(0),
        Some(-1),
        Some(1_767_225_600_123_456_789),
        Some(-9_000_000_000_000_000_000),
    ];
    let days = vec![None, Some(-719_162), Some(2_932_896), Some(0), Some(-1)];
    let day_ends = vec![None, Some(i32::MIN), Some(i32::MAX)];
    let day = 86_400_000_000;
    vec![
        sample("DATE", Date32Array::from(days), Date32Array::from(day_ends)),
        plain(
            "TIME",
            Time64MicrosecondArray::from(vec![None, Some(0), Some(day - 1)]),
        ),
        plain(
            "TIME(0)",
            Time32SecondArray::from(vec![None, Some(0), Some(86_399)]),
        ),
        plain(
            "TIME(9)",
            Time64NanosecondArray::from(vec![None, Some(0), Some(day * 1000 - 1)]),
        ),
        sample("TIMESTAMP", micros(with(1_000_000)), micros(ends())),
        sample(
            "TIMESTAMP WITH TIME ZONE",
            micros(with(1_000_000)).with_timezone("+00:00"),
            micros(ends()).with_timezone("+00:00"),
        ),
        sample(
            "TIMESTAMP(0)",
            TimestampSecondArray::from(with(1)),
            TimestampSecondArray::from(ends()),
        ),
        sample(
            "TIMESTAMP(3)",
            TimestampMillisecondArray::from(with(1000)),
            TimestampMillisecondArray::from(ends()),
        ),
        sample(
            "TIMESTAMP(9)",
            TimestampNanosecondArray::from(nanos),
            TimestampNanosecondArray::from(ends()),
        ),
    ]
}

/// Types without an order.
fn values_only() -> Vec<Sample> {
    let interval = |months, days, nanos| Some(IntervalMonthDayNano::new(months, days, nanos));
    let intervals = vec![
        None,
        interval(0, 0, 0),
        interval(14, 3, 1_000_000_001),
        interval(-1, -1, -1),
        interval(0, 40, 0),
    ];
    let ends = vec![interval(i32::MIN, i32::MAX, i64::MIN), None];
    let list = Field::new_list_field(DataType::Int64, true);
    let mut lists = arrow::array::ListBuilder::new(arrow::array::Int64Builder::new());
    lists = lists.with_field(list);
    for values in [
        vec![],
        vec![Some(i64::MIN), None, Some(i64::MAX)],
        vec![Some(1)],
    ] {
        lists.append_value(values);
    }
    lists.append_null();
    let fields = Fields::from(vec![
        Field::new("a", DataType::Int32, true),
        Field::new("b", DataType::Utf8, true),
        Field::new("c", DataType::Float64, true),
    ]);
    let parts: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![Some(1), None, None])),
        Arc::new(StringArray::from(vec![Some("x \"y\""), Some(""), None])),
        Arc::new(Float64Array::from(vec![Some(f64::NAN), Some(-0.0), None])),
    ];
    let nulls = NullBuffer::from(vec![true, true, false]);
    let structs = StructArray::new(fields, parts, Some(nulls));
    let mut samples = vec![
        sample(
            "INTERVAL",
            IntervalMonthDayNanoArray::from(intervals),
            IntervalMonthDayNanoArray::from(ends),
        ),
        plain("BIGINT[]", lists.finish()),
        plain("STRUCT<a INT, b TEXT, c DOUBLE PRECISION>", structs),
    ];
    samples.iter_mut().for_each(|sample| sample.key = false);
    samples
}

fn samples() -> Vec<Sample> {
    let json = StringArray::from(vec![None, Some("{\"a\": [1, null]}"), Some("7")]);
    let mut samples = vec![
        plain(
            "BOOLEAN",
            BooleanArray::from(vec![None, Some(true), Some(false)]),
        ),
        numbers!("TINYINT", Int8Array, i8),
        numbers!("SMALLINT", Int16Array, i16),
        numbers!("INT", Int32Array, i32),
        numbers!("BIGINT", Int64Array, i64),
        numbers!("TINYINT UNSIGNED", UInt8Array, u8),
        numbers!("SMALLINT UNSIGNED", UInt16Array, u16),
        numbers!("INT UNSIGNED", UInt32Array, u32),
        numbers!("BIGINT UNSIGNED", UInt64Array, u64),
        plain("JSON", json),
    ];
    samples.extend(floats());
    samples.extend(decimals());
    samples.extend(texts());
    samples.extend(moments());
    samples.extend(values_only());
    samples
}

/// A database at a mix of stages.
struct World {
    database: Database,
    session: Session,
    pipeline: Pipeline,
    layout: &'static str,
    note: String,
}

impl World {
    async fn run(&self, sql: &str) -> Vec<RecordBatch> {
        self.pipeline.before(false).await.unwrap();
        let shown: String = sql.chars().take(300).collect();
        let answer = self.session.execute(sql).await;
        let answer = answer.unwrap_or_else(|error| panic!("{}: {shown}: {error:?}", self.note));
        self.pipeline.after(false).await.unwrap();
        answer
            .into_iter()
            .flat_map(|answer| answer.batches)
            .collect()
    }

    async fn create(&self, name: &str, columns: &str) {
        let layout = self.layout;
        self.run(&format!(
            "CREATE TABLE {name} ({columns}) WITH (layout = '{layout}')"
        ))
        .await;
    }

    async fn append(&self, table: &str, rows: &RecordBatch) {
        let mut appender = self.database.appender();
        appender.append(table, rows, Op::Upsert).await.unwrap();
        appender.commit().await.unwrap();
        self.pipeline.after(false).await.unwrap();
    }

    /// The columns of a table beside its key `k`, in its order.
    async fn stored(&self, table: &str) -> Vec<ArrayRef> {
        let batches = self.run(&format!("SELECT * FROM {table} ORDER BY k")).await;
        let rows = concat_batches(&batches[0].schema(), &batches).unwrap();
        rows.columns()[1..].to_vec()
    }
}

/// Values with NULL behind them, up to so many rows.
fn padded(values: &ArrayRef, rows: usize) -> ArrayRef {
    let nulls = new_null_array(values.data_type(), rows - values.len());
    concat(&[values.as_ref(), nulls.as_ref()]).unwrap()
}

/// Keys and the columns of the samples.
fn rows_of(columns: &[ArrayRef]) -> RecordBatch {
    let keys: Int64Array = (0..columns[0].len() as i64).map(Some).collect();
    let named = columns.iter().enumerate();
    let named = named.map(|(at, column)| (format!("c{at}"), Arc::clone(column)));
    let keys: ArrayRef = Arc::new(keys);
    let all = std::iter::once(("k".to_owned(), keys)).chain(named);
    RecordBatch::try_from_iter_with_nullable(all.map(|(name, column)| (name, column, true)))
        .unwrap()
}

/// A value as SQL writes it.
fn literal(values: &ArrayRef, row: usize) -> String {
    if values.is_null(row) {
        return "NULL".to_owned();
    }
    let text = match values.data_type() {
        DataType::Binary => {
            let bytes = values.as_binary::<i32>().value(row);
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("\\x{digits}")
        }
        DataType::List(_) => {
            let list = values.as_list::<i32>().value(row);
            let items = list.as_primitive::<Int64Type>().iter();
            let items = items.map(|item| item.map_or_else(|| "null".to_owned(), |i| i.to_string()));
            format!("[{}]", items.collect::<Vec<_>>().join(", "))
        }
        DataType::Struct(_) => {
            let row = values.as_struct().slice(row, 1);
            let a = row
                .column(0)
                .as_primitive::<Int32Type>()
                .iter()
                .next()
                .flatten();
            let b = row
                .column(1)
                .as_string::<i32>()
                .value(0)
                .replace('"', "\\\"");
            let c = array_value_to_string(row.column(2), 0).unwrap();
            let a = a.map_or_else(|| "null".to_owned(), |a| a.to_string());
            format!("{{\"a\": {a}, \"b\": \"{b}\", \"c\": \"{c}\"}}")
        }
        _ => array_value_to_string(values, row).unwrap(),
    };
    format!("'{}'", text.replace('\'', "''"))
}

/// A value as SQL compares a column with it.
fn compared(sample: &Sample, values: &ArrayRef, row: usize) -> String {
    let text = array_value_to_string(values, row).unwrap();
    match values.data_type() {
        DataType::Boolean => text,
        integer if integer.is_integer() => text,
        DataType::Binary => format!("X'{text}'"),
        number if number.is_numeric() => format!("CAST('{text}' AS {})", sample.sql),
        _ => literal(values, row),
    }
}

/// What SQL shows of values.
fn shown(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::FixedSizeBinary(16) => {
            let spell = |bytes: &[u8]| {
                let mut text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                [20, 16, 12, 8]
                    .into_iter()
                    .for_each(|at| text.insert(at, '-'));
                text
            };
            let ids = values.as_fixed_size_binary().iter();
            Arc::new(ids.map(|id| id.map(spell)).collect::<StringArray>())
        }
        _ => Arc::clone(values),
    }
}

fn check(samples: &[Sample], stored: &[ArrayRef], given: &[ArrayRef], note: &str) {
    assert_eq!(stored.len(), given.len(), "{note}");
    for ((sample, stored), given) in samples.iter().zip(stored).zip(given) {
        assert_eq!(
            stored.to_data(),
            shown(given).to_data(),
            "{note}: {}",
            sample.sql
        );
    }
}

/// Every way in gives the values back.
async fn every_way(world: &World, samples: &[Sample], folder: &Path) {
    let types = samples
        .iter()
        .enumerate()
        .map(|(at, s)| format!(", c{at} {}", s.sql));
    let columns = format!("k BIGINT PRIMARY KEY{}", types.collect::<String>());
    let rows = samples
        .iter()
        .map(|sample| sample.values.len())
        .max()
        .unwrap();
    let given: Vec<ArrayRef> = samples.iter().map(|s| padded(&s.values, rows)).collect();
    let extremes: Vec<ArrayRef> = samples.iter().map(|s| padded(&s.extremes, rows)).collect();
    for (table, columns_given) in [("extremes", &extremes), ("appended", &given)] {
        world.create(table, &columns).await;
        world.append(table, &rows_of(columns_given)).await;
        let note = format!("{}, {table}", world.note);
        check(samples, &world.stored(table).await, columns_given, &note);
    }
    world.create("inserted", &columns).await;
    for row in 0..rows {
        let values: Vec<String> = given.iter().map(|column| literal(column, row)).collect();
        let values = values.join(", ");
        world
            .run(&format!("INSERT INTO inserted VALUES ({row}, {values})"))
            .await;
    }
    let note = format!("{}, inserted", world.note);
    check(samples, &world.stored("inserted").await, &given, &note);
    for format in ["csv", "json", "parquet", "arrow"] {
        let path = folder.join(format!("rows.{format}"));
        let options = match format {
            "csv" => "FORMAT csv, HEADER true, NULL 'nothing'".to_owned(),
            other => format!("FORMAT {other}"),
        };
        let path = path.display();
        world
            .run(&format!("COPY appended TO '{path}' WITH ({options})"))
            .await;
        let table = format!("from_{format}");
        world.create(&table, &columns).await;
        world
            .run(&format!("COPY {table} FROM '{path}' WITH ({options})"))
            .await;
        let note = format!("{}, {format}", world.note);
        check(samples, &world.stored(&table).await, &given, &note);
    }
}

/// Keys are unique, in order, and found.
async fn as_key(world: &World, sample: &Sample, name: &str) {
    world
        .create(name, &format!("v {} PRIMARY KEY, n BIGINT", sample.sql))
        .await;
    let known: Vec<u32> = (0..sample.values.len() as u32)
        .filter(|row| sample.values.is_valid(*row as usize))
        .collect();
    let values = take(&sample.values, &UInt32Array::from(known), None).unwrap();
    let count = values.len() as i64;
    // Twice, so that each key is met.
    for add in [0, 100] {
        let numbers: Int64Array = (add..add + count).map(Some).collect();
        let rows = [
            ("v", Arc::clone(&values)),
            ("n", Arc::new(numbers) as ArrayRef),
        ];
        world
            .append(name, &RecordBatch::try_from_iter(rows).unwrap())
            .await;
    }
    let note = format!("{}, key {}", world.note, sample.sql);
    let found = world.run(&format!("SELECT v, n FROM {name}")).await;
    let found = concat_batches(&found[0].schema(), &found).unwrap();
    let order = sort_to_indices(&values, Some(SortOptions::default()), None).unwrap();
    let sorted = shown(&take(&values, &order, None).unwrap());
    if !values.data_type().is_floating() {
        let read = world.run(&format!("SELECT v FROM {name} ORDER BY v")).await;
        let read = concat_batches(&read[0].schema(), &read).unwrap();
        assert_eq!(read.column(0).to_data(), sorted.to_data(), "{note}");
        assert_eq!(found.num_rows() as i64, count, "{note}");
    }
    for row in 0..values.len() {
        let text = compared(sample, &values, row);
        let one = world
            .run(&format!("SELECT n FROM {name} WHERE v = {text}"))
            .await;
        let one: Vec<i64> = one
            .iter()
            .flat_map(|batch| {
                batch
                    .column(0)
                    .as_primitive::<Int64Type>()
                    .values()
                    .to_vec()
            })
            .collect();
        assert_eq!(one.len(), 1, "{note}: {text:.40}");
        assert!(one[0] >= 100, "{note}: {text:.40} is {one:?}");
    }
}

async fn run(mix: Mix, layout: &'static str) {
    let folder = tempfile::tempdir().unwrap();
    let database = in_memory(Settings::default()).await;
    let pipeline = Pipeline::new(database.clone(), mix);
    pipeline.start().await.unwrap();
    let world = World {
        session: database.session(),
        pipeline,
        layout,
        note: format!("{mix:?}, {layout}"),
        database: database.clone(),
    };
    let samples = samples();
    every_way(&world, &samples, folder.path()).await;
    for (at, sample) in samples.iter().enumerate().filter(|(_, sample)| sample.key) {
        if sample.sql != "TEXT" {
            as_key(&world, sample, &format!("key_{at}")).await;
        }
    }
    drop(world);
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn types_come_back_from_every_way_while_unsorted() {
    run(Mix::Open, "scan").await;
    run(Mix::Unsorted, "point").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn types_come_back_from_every_way_sorted_and_merged() {
    run(Mix::HalfSorted, "scan").await;
    run(Mix::PartlyMerged, "point").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn types_come_back_from_every_way_in_the_authority() {
    run(Mix::Authority, "scan").await;
    run(Mix::Authority, "point").await;
}
