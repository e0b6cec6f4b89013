//! How fast the kernels are on this machine, one thread: rows per second of sorting and merging
//! narrow rows (24 bytes) and wide rows (26 columns, 1.1 KB), without decoding or encoding. The
//! time is that of the processor, as Linux tells it, so that a busy machine says the same.
//!
//! `cargo run --release -p lazybase-engine --example kernels [thousands of narrow rows]`

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use futures::executor::block_on;
use futures::{StreamExt, TryStreamExt, stream};
use lazybase_engine::change_batch::ChangeBatch;
use lazybase_engine::stages::merge::{MergeMode, MergeShape, Merger, OutputSize, drive};
use lazybase_engine::stages::sort::sort_shaped;
use lazybase_model::Result;
use lazybase_model::change::StoredKind;

/// A generator that needs no randomness from outside: splitmix64.
fn mixed(mut number: u64) -> u64 {
    number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// What rows a case has.
#[derive(Clone, Copy, Debug)]
enum Form {
    Narrow,
    Wide,
    Text,
}

fn shape(form: Form) -> MergeShape {
    let mut fields = match form {
        Form::Text => vec![Field::new("k", DataType::Utf8, false)],
        _ => vec![Field::new("k", DataType::Int64, false)],
    };
    match form {
        Form::Narrow | Form::Text => fields.extend([
            Field::new("a", DataType::Int32, true),
            Field::new("b", DataType::Int32, true),
            Field::new("c", DataType::Int64, true),
        ]),
        Form::Wide => {
            for at in 0..13 {
                fields.push(Field::new(format!("t{at}"), DataType::Utf8, true));
            }
            for at in 0..12 {
                fields.push(Field::new(format!("n{at}"), DataType::Int64, true));
            }
        }
    }
    let schema = Arc::new(Schema::new(fields));
    let key = vec![0];
    MergeShape {
        schema,
        key,
        partitioner: None,
        operators: Default::default(),
    }
}

fn batch(form: Form, keys: &[u64]) -> RecordBatch {
    let ints = || -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(
            keys.iter().map(|key| *key as i64),
        ))
    };
    let small = || -> ArrayRef {
        Arc::new(Int32Array::from_iter_values(
            keys.iter().map(|key| *key as i32),
        ))
    };
    let texts = keys.iter().map(|key| format!("user/{:018}", *key));
    let mut columns: Vec<ArrayRef> = match form {
        Form::Text => vec![Arc::new(StringArray::from_iter_values(texts))],
        _ => vec![ints()],
    };
    match form {
        Form::Narrow | Form::Text => columns.extend([small(), small(), ints()]),
        Form::Wide => {
            let text: ArrayRef = Arc::new(StringArray::from_iter_values(
                keys.iter().map(|key| format!("{key:075}")),
            ));
            columns.extend((0..13).map(|_| Arc::clone(&text)));
            columns.extend((0..12).map(|_| ints()));
        }
    }
    RecordBatch::try_new(shape(form).schema, columns).expect("the columns are those of the schema")
}

/// Runs of batches of upserts: `runs` runs of `rows` rows together. Keys come in blocks of `block`
/// neighbours, each block in a run that chance picks; `shared` in 100 are in the next run too.
fn runs(
    form: Form,
    runs: usize,
    rows: usize,
    block: usize,
    shared: u64,
    lengths: usize,
) -> Vec<Vec<ChangeBatch>> {
    let mut keys = vec![Vec::new(); runs];
    for key in 0..rows as u64 {
        let run = (mixed(key / block as u64) % runs as u64) as usize;
        keys[run].push(key);
        if mixed(key ^ 0xabcd) % 100 < shared {
            keys[(run + 1) % runs].push(key);
        }
    }
    let batches = |(scu, keys): (usize, &Vec<u64>)| {
        let chunks = keys.chunks(lengths);
        chunks
            .map(|keys| ChangeBatch::upserts(batch(form, keys), scu as u64 + 1))
            .collect()
    };
    keys.iter().enumerate().map(batches).collect()
}

/// The nanoseconds that this thread has run.
fn processor_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat");
    let text = text.expect("this benchmark runs on Linux");
    let first = text.split_whitespace().next();
    first
        .and_then(|nanos| nanos.parse().ok())
        .expect("the first number is the time that the thread has run")
}

fn timed(name: &str, rows: usize, bytes: usize, mut run: impl FnMut() -> usize) {
    let mut best = f64::MAX;
    let mut made = 0;
    for _ in 0..3 {
        let start = processor_nanos();
        made = run();
        best = best.min((processor_nanos() - start) as f64 / 1e9);
    }
    let rate = rows as f64 / best / 1e6;
    let megabytes = (rows * bytes) as f64 / best / 1e6;
    println!("{name:<52} {rate:>9.2} Mrows/s {megabytes:>9.0} MB/s  ({made} rows made)");
}

fn merge(shape: &MergeShape, runs: &[Vec<ChangeBatch>], mode: MergeMode) -> Result<usize> {
    let merger = Merger::new(shape, runs.len(), mode, OutputSize::default())?;
    let source = |run: &Vec<ChangeBatch>| stream::iter(run.clone().into_iter().map(Ok)).boxed();
    let outputs = drive(merger, runs.iter().map(source).collect());
    block_on(outputs.try_fold(0, |rows, batch| async move { Ok(rows + batch.rows()) }))
}

fn sorting(form: Form, rows: usize, bytes: usize) {
    let shape = shape(form);
    for (name, place) in [("shuffled", true), ("sorted", false)] {
        let keys: Vec<u64> = (0..rows as u64)
            .map(|key| if place { mixed(key) >> 4 } else { key })
            .collect();
        let chunks = keys.chunks(8192);
        let batches: Vec<ChangeBatch> = chunks
            .map(|keys| ChangeBatch::upserts(batch(form, keys), 1))
            .collect();
        timed(&format!("sort {form:?}, {name}"), rows, bytes, || {
            let sorted = sort_shaped(&shape, &batches, OutputSize::default());
            let sorted = sorted.expect("the batches are sound");
            sorted.iter().map(ChangeBatch::rows).sum()
        });
    }
}

fn merging(form: Form, rows: usize, bytes: usize, lengths: usize) {
    let shape = shape(form);
    for (block, shared) in [(1, 0), (1, 10), (200, 0), (rows / 8, 0)] {
        let runs = runs(form, 8, rows, block, shared, lengths);
        let all = runs.iter().flatten().map(ChangeBatch::rows).sum();
        let name = format!("merge {form:?}, 8 runs, blocks of {block}, {shared} % shared");
        timed(&name, all, bytes, || {
            merge(&shape, &runs, MergeMode::Changes).expect("the batches are sound")
        });
    }
}

/// Updates of two columns, of a tenth of the rows, onto a base.
fn updating(form: Form, rows: usize, bytes: usize, lengths: usize) {
    let shape = shape(form);
    let keys: Vec<u64> = (0..rows as u64).collect();
    let tenth: Vec<u64> = keys
        .iter()
        .copied()
        .filter(|key| mixed(*key).is_multiple_of(10))
        .collect();
    let base = keys.chunks(lengths);
    let base = base.map(|keys| ChangeBatch::upserts(batch(form, keys), 1));
    let updates = tenth.chunks(lengths).map(|keys| {
        let mut columns = batch(form, keys).columns().to_vec();
        for column in &mut columns[3..] {
            *column = arrow::array::new_null_array(column.data_type(), keys.len());
        }
        let data = RecordBatch::try_new(shape.schema.clone(), columns);
        let data = data.expect("all but the key may be null");
        ChangeBatch::alike(data, StoredKind::UPDATE, Some(&[1, 2]), 2)
    });
    let runs = [base.collect(), updates.collect()];
    let name = format!("authority {form:?}, a tenth of the rows updated");
    timed(&name, rows, bytes, || {
        merge(&shape, &runs, MergeMode::Rows).expect("the batches are sound")
    });
}

fn main() {
    let thousands = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let rows = thousands.unwrap_or(4000) * 1000;
    let wide = rows / 16;
    sorting(Form::Narrow, rows, 24);
    sorting(Form::Text, rows / 2, 47);
    sorting(Form::Wide, wide, 1080);
    merging(Form::Narrow, rows, 24, 2730);
    merging(Form::Text, rows / 2, 47, 1400);
    merging(Form::Wide, wide, 1080, 60);
    updating(Form::Narrow, rows, 24, 2730);
    updating(Form::Wide, wide, 1080, 60);
}
