//! Rows to measure with, from a seed, made beforehand: wide rows like short messages with their
//! authors (26 columns, about 1.1 KB), and narrow rows like sensor readings.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use lazybase_model::{Column, Table, TableId, ViewId};

/// A small, fast, seeded generator (SplitMix64).
#[derive(Debug, Clone)]
pub(crate) struct Seeded(u64);

impl Seeded {
    /// Draws that depend on the seed alone.
    pub(crate) fn new(seed: u64) -> Seeded {
        Seeded(seed)
    }

    /// Sixty-four bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// The two shapes of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// 26 columns, about 1.1 KB.
    Wide,
    /// i64, i32, i32, timestamp.
    Narrow,
}

impl Shape {
    /// The name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Shape::Wide => "wide",
            Shape::Narrow => "narrow",
        }
    }

    /// The columns of a table of such rows; its key is `id`.
    pub(crate) fn columns(self) -> Vec<Column> {
        let schema = schema(self);
        let column = |field: &Arc<Field>| Column {
            nullable: field.is_nullable(),
            ..Column::new(field.name(), field.data_type().clone())
        };
        schema.fields().iter().map(column).collect()
    }

    /// A table of such rows that is in no database: what the kernels alone need.
    pub(crate) fn table(self) -> Arc<Table> {
        let (id, view) = (TableId(1), ViewId(1));
        Arc::new(Table::new(id, view, self.name(), self.columns(), &[0]))
    }

    /// Positions of the columns that small changes set: some counters.
    pub(crate) fn counters(self) -> Vec<usize> {
        let schema = schema(self);
        let names: &[&str] = match self {
            Shape::Wide => &["likes", "shares", "views"],
            Shape::Narrow => &["value"],
        };
        names
            .iter()
            .map(|name| schema.index_of(name).expect("a column of the schema"))
            .collect()
    }
}

const TEXTS: [(&str, usize); 12] = [
    ("text", 36),
    ("author_name", 3),
    ("author_handle", 2),
    ("author_location", 4),
    ("author_description", 28),
    ("source", 8),
    ("place", 4),
    ("hashtags", 5),
    ("mentions", 5),
    ("urls", 18),
    ("reply_text", 32),
    ("language", 1),
];
const NUMBERS: [&str; 9] = [
    "author_id",
    "reply_to",
    "retweet_of",
    "followers",
    "friends",
    "likes",
    "shares",
    "replies",
    "views",
];

/// The schema of a shape.
pub(crate) fn schema(shape: Shape) -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Microsecond, None);
    let mut fields = vec![Field::new("id", DataType::Int64, false)];
    match shape {
        Shape::Narrow => {
            fields.push(Field::new("sensor", DataType::Int32, true));
            fields.push(Field::new("value", DataType::Int32, true));
            fields.push(Field::new("at", time, true));
        }
        Shape::Wide => {
            fields.push(Field::new("created_at", time, true));
            fields.extend(TEXTS.map(|(name, _)| Field::new(name, DataType::Utf8, true)));
            fields.extend(NUMBERS.map(|name| Field::new(name, DataType::Int64, true)));
            fields.push(Field::new("latitude", DataType::Float64, true));
            fields.push(Field::new("longitude", DataType::Float64, true));
            fields.push(Field::new("verified", DataType::Boolean, true));
        }
    }
    Arc::new(Schema::new(fields))
}

/// Batches of rows whose `id` is put in later: a pool small enough to keep, large enough that a
/// compressor finds no repetition between the rows of an extent.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    shape: Shape,
    batches: Vec<RecordBatch>,
}

impl Pool {
    /// `batches` batches of `rows` rows.
    pub(crate) fn new(shape: Shape, seed: u64, batches: usize, rows: usize) -> Pool {
        let mut seeded = Seeded::new(seed);
        let words = words(&mut seeded);
        let made = (0..batches).map(|_| match shape {
            Shape::Wide => wide(&mut seeded, &words, rows),
            Shape::Narrow => narrow(&mut seeded, rows),
        });
        Pool {
            shape,
            batches: made.collect(),
        }
    }

    /// The shape of its rows.
    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    /// Batch `number` (modulo the pool) under these ids; as many rows as there are ids.
    pub(crate) fn batch(&self, number: usize, ids: Vec<i64>) -> RecordBatch {
        let of_pool = &self.batches[number % self.batches.len()];
        let rows = ids.len().min(of_pool.num_rows());
        let slice = of_pool.slice(0, rows);
        let mut columns = slice.columns().to_vec();
        columns[0] = Arc::new(Int64Array::from(ids));
        RecordBatch::try_new(slice.schema(), columns).expect("one id a row")
    }

    /// The bytes of a row, on average.
    pub(crate) fn row_bytes(&self) -> f64 {
        data_bytes(&self.batches[0]) as f64 / self.rows() as f64
    }

    /// Rows in a full batch.
    pub(crate) fn rows(&self) -> usize {
        self.batches[0].num_rows()
    }
}

/// The bytes of a batch's cells, without what its arrays have in reserve.
pub(crate) fn data_bytes(rows: &RecordBatch) -> usize {
    let bytes = rows.columns().iter().map(|column| {
        let data = column.to_data();
        data.get_slice_memory_size()
            .unwrap_or_else(|_| column.get_array_memory_size())
    });
    bytes.sum()
}

/// A vocabulary: words of 2 to 11 letters.
fn words(seeded: &mut Seeded) -> Vec<String> {
    (0..2_000)
        .map(|_| {
            let letters = 2 + seeded.below(10);
            (0..letters)
                .map(|_| (b'a' + seeded.below(26) as u8) as char)
                .collect()
        })
        .collect()
}

fn sentence(seeded: &mut Seeded, words: &[String], count: usize, text: &mut String) {
    let count = count - seeded.below(1 + count as u64 / 3) as usize;
    for at in 0..count {
        if at > 0 {
            text.push(' ');
        }
        // A power of the draw makes low ranks frequent, as in real text.
        let draw = || seeded.below(1 << 16);
        let product: u64 = std::iter::repeat_with(draw)
            .take(4)
            .fold(1 << 16, |rank, draw| (rank * draw) >> 16);
        text.push_str(&words[(product as usize * words.len()) >> 16]);
    }
}

fn texts(seeded: &mut Seeded, words: &[String], count: usize, rows: usize) -> ArrayRef {
    let mut text = String::new();
    let values: StringArray = (0..rows)
        .map(|_| {
            text.clear();
            sentence(seeded, words, count, &mut text);
            Some(text.clone())
        })
        .collect();
    Arc::new(values)
}

fn times(seeded: &mut Seeded, rows: usize) -> ArrayRef {
    let start = 1_700_000_000_000_000_i64;
    let values = (0..rows).map(|_| start + seeded.below(86_400_000_000) as i64);
    Arc::new(TimestampMicrosecondArray::from_iter_values(values))
}

fn wide(seeded: &mut Seeded, words: &[String], rows: usize) -> RecordBatch {
    let mut columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![0; rows]))];
    columns.push(times(seeded, rows));
    for (_, count) in TEXTS {
        columns.push(texts(seeded, words, count, rows));
    }
    for at in 0..NUMBERS.len() {
        let bound = if at < 3 { 1 << 40 } else { 100_000 };
        let values = (0..rows).map(|_| seeded.below(bound) as i64);
        columns.push(Arc::new(Int64Array::from_iter_values(values)));
    }
    for bound in [180.0, 360.0] {
        let share = |seeded: &mut Seeded| seeded.below(1 << 30) as f64 / (1_u64 << 30) as f64;
        let values = (0..rows).map(|_| share(seeded) * bound - bound / 2.0);
        columns.push(Arc::new(Float64Array::from_iter_values(values)));
    }
    columns.push(Arc::new(BooleanArray::from_iter(
        (0..rows).map(|_| Some(seeded.below(10) == 0)),
    )));
    RecordBatch::try_new(schema(Shape::Wide), columns).expect("columns follow the schema")
}

fn narrow(seeded: &mut Seeded, rows: usize) -> RecordBatch {
    let sensors = (0..rows).map(|_| seeded.below(10_000) as i32);
    let sensors: ArrayRef = Arc::new(Int32Array::from_iter_values(sensors));
    let values = (0..rows).map(|_| seeded.below(1 << 20) as i32);
    let values: ArrayRef = Arc::new(Int32Array::from_iter_values(values));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![0; rows])),
        sensors,
        values,
        times(seeded, rows),
    ];
    RecordBatch::try_new(schema(Shape::Narrow), columns).expect("columns follow the schema")
}
