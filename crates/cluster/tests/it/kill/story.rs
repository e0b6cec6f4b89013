//! What the writers write, as functions of the writer and the batch's number alone: so a reader
//! that knows how many batches an answer holds knows every row of it.
//!
//! Each writer has keys of its own in two tables. Every batch sets its head row in both, to `n` in
//! one and `-n` in the other, and does random changes to random keys; every sixteenth settles all
//! keys anew, so that a state follows from the last sixteen batches. A third table has no key: a
//! batch that counts twice shows there as rows too many.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch, StringArray};
use lazybase_cluster::BatchWriter;
use lazybase_engine::change_batch::ChangeBatch;
use lazybase_model::{Result, Table};

use crate::harness::{Change, Row, changes};
use crate::model::Model;

/// The named producers and, last, one writer without a name.
pub(super) const WRITERS: usize = 4;
/// Writers below this one are named.
pub(super) const NAMED: usize = WRITERS - 1;
/// Rows of the table without a key that each batch adds.
pub(super) const JOURNAL_ROWS: u64 = 2;

const KEYS: u64 = 40;
const SPACE: i64 = 1_000_000;
/// All keys are settled anew this often.
const RESET_EVERY: u64 = 16;
/// A settling this often is so large that it leaves in several frames.
const BIG_EVERY: u64 = 96;
const BIG_NOTE_BYTES: usize = 160 << 10;

/// How many batches of each writer count.
pub(super) type Marks = [u64; WRITERS];

/// The three tables.
#[derive(Clone)]
pub(super) struct Tables {
    pub(super) left: Arc<Table>,
    pub(super) right: Arc<Table>,
    pub(super) journal: Arc<Table>,
}

/// Well-mixed bits of a few numbers.
fn mix(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0x9E37_79B9_7F4A_7C15, |state, number| {
        let mut bits = (state ^ number).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits ^= bits >> 27;
        bits = bits.wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    })
}

/// The key of a writer's head row.
pub(super) fn head(writer: usize) -> i64 {
    writer as i64 * SPACE
}

/// Which batch of its writer the head row `value` of a table is of.
fn head_value(number: u64, side: u64) -> Option<i64> {
    let number = number as i64;
    Some(if side == 0 { number } else { -number })
}

/// The changes of batch `number` of `writer` to one of the two tables.
fn part(writer: usize, number: u64, side: u64) -> Vec<Change> {
    let key = |at: u64| head(writer) + 1 + (at % KEYS) as i64;
    let seed = |at: u64| mix(&[writer as u64, number, side, at]);
    let value = Some(number as i64);
    let mut part = vec![Change::Upsert((
        head(writer),
        head_value(number, side),
        None,
    ))];
    if number.is_multiple_of(RESET_EVERY) {
        let big = number.is_multiple_of(BIG_EVERY) && side == 0;
        part.extend((0..KEYS).map(|at| match seed(at) % 4 {
            0 => Change::Delete(key(at)),
            _ => Change::Upsert((key(at), value, Some(note(seed(at), big)))),
        }));
        return part;
    }
    let count = 2 + seed(0) % 9;
    part.extend((1..=count).map(|at| {
        let bits = seed(at);
        let key = key(bits >> 8);
        match bits % 8 {
            0..=2 => Change::Upsert((key, value, Some(note(bits, false)))),
            3 => Change::Delete(key),
            4 | 5 => Change::Update(key, value),
            6 => Change::UpsertValue(key, value),
            _ => Change::InsertIfAbsent((key, value, None)),
        }
    }));
    part
}

fn note(seed: u64, big: bool) -> String {
    let word = format!("{seed:016x} ");
    match big {
        true => word.repeat(BIG_NOTE_BYTES / word.len()),
        false => word,
    }
}

/// Adds batch `number` of `writer`.
pub(super) async fn append(
    batch: &mut BatchWriter,
    tables: &Tables,
    writer: usize,
    number: u64,
) -> Result<()> {
    let left = changes(&tables.left, &part(writer, number, 0));
    let right = changes(&tables.right, &part(writer, number, 1));
    batch.append(&tables.left, left).await?;
    batch.append(&tables.right, right).await?;
    let rows = journal(writer, number..number + 1);
    batch.append(&tables.journal, upserts(&rows)).await
}

/// Whole rows for a table of the test, without its hidden key.
pub(super) fn upserts(rows: &[Row]) -> ChangeBatch {
    let ids: Int64Array = rows.iter().map(|row| row.0).collect();
    let counts: Int64Array = rows.iter().map(|row| row.1).collect();
    let notes: StringArray = rows.iter().map(|row| row.2.clone()).collect();
    let data = RecordBatch::try_from_iter([
        ("id", Arc::new(ids) as _),
        ("count", Arc::new(counts) as _),
        ("note", Arc::new(notes) as _),
    ]);
    ChangeBatch::upserts(data.unwrap(), 0)
}

/// The rows of the table without a key that these batches of a writer add.
fn journal(writer: usize, numbers: std::ops::Range<u64>) -> Vec<Row> {
    let row = |number: u64, at: u64| (writer as i64, Some(number as i64), Some(at.to_string()));
    numbers
        .flat_map(|number| (0..JOURNAL_ROWS).map(move |at| row(number, at)))
        .collect()
}

/// What a table with a key holds once these batches count.
fn expected(marks: &Marks, side: u64) -> Vec<Row> {
    let of_writer = |(writer, mark): (usize, &u64)| {
        let mut model = Model::default();
        let first = (mark / RESET_EVERY * RESET_EVERY).max(1);
        (first..=*mark).for_each(|number| model.apply(&part(writer, number, side)));
        model.rows()
    };
    marks.iter().enumerate().flat_map(of_writer).collect()
}

/// What an answer holds of the three tables.
pub(super) struct Seen {
    pub(super) left: Vec<Row>,
    pub(super) right: Vec<Row>,
    pub(super) journal: Vec<Row>,
}

impl Seen {
    /// The batches that are in the answer, if each of them is there whole and once, and nothing
    /// else is. The table without a key was empty at `bases`.
    pub(super) fn check(mut self, bases: &Marks) -> Result<Marks, String> {
        let mut marks = Marks::default();
        for (writer, mark) in marks.iter_mut().enumerate() {
            let row = self.left.iter().find(|row| row.0 == head(writer));
            *mark = row.and_then(|row| row.1).unwrap_or(0) as u64;
        }
        same("left", &self.left, &expected(&marks, 0))?;
        same("right", &self.right, &expected(&marks, 1))?;
        self.journal.sort_unstable();
        let wanted: Vec<Row> = (0..WRITERS)
            .flat_map(|writer| journal(writer, bases[writer] + 1..marks[writer] + 1))
            .collect();
        same("journal", &self.journal, &wanted)?;
        Ok(marks)
    }
}

fn same(table: &str, found: &[Row], wanted: &[Row]) -> Result<(), String> {
    if found == wanted {
        return Ok(());
    }
    let at = found
        .iter()
        .zip(wanted)
        .position(|(found, wanted)| found != wanted)
        .unwrap_or(found.len().min(wanted.len()));
    let short = |row: Option<&Row>| {
        let cut = |note: &String| note.chars().take(24).collect::<String>();
        row.map(|row| (row.0, row.1, row.2.as_ref().map(cut)))
    };
    Err(format!(
        "table {table}: {} rows, {} wanted; row {at} is {:?}, wanted {:?}",
        found.len(),
        wanted.len(),
        short(found.get(at)),
        short(wanted.get(at)),
    ))
}
