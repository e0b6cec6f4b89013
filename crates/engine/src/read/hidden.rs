//! Hidden columns: which SCU last changed a row, when that was ingested, and the same of a column
//! (section 3.2 of the paper: a time stamp for each row and each data column).
//!
//! Reads the versions that stored rows carry anyway; a read that names no hidden column leaves them
//! alone. In a scan's projection a hidden column is a position behind those of the table's columns.
//!
//! A time is that of the SCU: when its first batch was acknowledged, in whole milliseconds. So it
//! is the same at every stage, and all rows of an SCU have one time, at most as long before their
//! own acknowledgement as the SCU was open. It is NULL for what a transaction has not committed,
//! and for SCUs that were forgotten before there was a place for their times.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, TimestampMicrosecondArray, UInt64Array};
use arrow::datatypes::{DataType, Field, TimeUnit};
use lazybase_model::table::ROW_LABEL_COLUMN;
use lazybase_model::{Error, Result, ScuNumber, Table};
use parking_lot::Mutex;

use super::snapshot::Snapshot;
use crate::change_batch::{ChangeBatch, Scus};
use crate::env::Store;
use crate::manifest::history::{TimesFile, TimesTail, shown_millis};

/// The SCU of changes that are not committed: after every other.
pub(super) const OWN_SCU: u64 = 1 << 62;

/// A hidden column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HiddenColumn {
    /// `_scu`: the SCU that last changed the row.
    Scu,
    /// `_time`: when that was ingested.
    Time,
    /// `_time(column)`: the same of the column at a position.
    TimeOf(usize),
    /// The SCU that last set the cell of the column at a position. SQL has no name for it.
    ScuOf(usize),
    /// `_label` or `_label(column)`: a column of labels, which is stored as others are, by its
    /// position.
    Label(usize),
}

impl HiddenColumn {
    /// The name of the row's SCU.
    pub const SCU: &str = "_scu";
    /// The name of the row's time.
    pub const TIME: &str = "_time";

    /// The name of a column's time.
    pub fn time_of(column: &str) -> String {
        format!("_time({column})")
    }

    /// Whether a hidden column of some table may have the name.
    pub fn is_name(name: &str) -> bool {
        matches!(name, Self::SCU | Self::TIME | ROW_LABEL_COLUMN)
            || column_in(name).is_some()
            || is_label_of_cells(name)
    }

    /// The hidden column of a name.
    pub fn named(table: &Table, name: &str) -> Option<HiddenColumn> {
        match name {
            Self::SCU => Some(HiddenColumn::Scu),
            Self::TIME => Some(HiddenColumn::Time),
            name if name == ROW_LABEL_COLUMN || is_label_of_cells(name) => {
                let at = table.column_index(name);
                let label = at.filter(|at| table.columns[*at].holds_labels());
                label.map(HiddenColumn::Label)
            }
            name => {
                let at = table.column_index(column_in(name)?);
                let shown = at.filter(|at| *at < table.visible_columns());
                shown.map(HiddenColumn::TimeOf)
            }
        }
    }

    /// What stands at a position in a projection, if that is no column of the table.
    pub fn at(table: &Table, position: usize) -> Option<HiddenColumn> {
        match position.checked_sub(table.columns.len())? {
            0 => Some(HiddenColumn::Scu),
            1 => Some(HiddenColumn::Time),
            behind => Some(match (behind - 2).checked_sub(table.columns.len()) {
                None => HiddenColumn::TimeOf(behind - 2),
                Some(column) => HiddenColumn::ScuOf(column),
            }),
        }
    }

    /// Its position in a projection.
    pub fn position(self, table: &Table) -> usize {
        let columns = table.columns.len();
        match self {
            HiddenColumn::Scu => columns,
            HiddenColumn::Time => columns + 1,
            HiddenColumn::TimeOf(column) => columns + 2 + column,
            HiddenColumn::ScuOf(column) => columns + 2 + columns + column,
            HiddenColumn::Label(column) => column,
        }
    }

    /// Its name and type.
    pub fn field(self, table: &Table) -> Field {
        let time = DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
        let name = |column: usize| {
            let column = table.columns.get(column);
            column.map_or("", |column| column.name.as_str())
        };
        match self {
            HiddenColumn::Scu => Field::new(Self::SCU, DataType::Int64, true),
            HiddenColumn::Time => Field::new(Self::TIME, time, true),
            HiddenColumn::TimeOf(column) => Field::new(Self::time_of(name(column)), time, true),
            HiddenColumn::ScuOf(column) => {
                let name = format!("{}({})", Self::SCU, name(column));
                Field::new(name, DataType::Int64, true)
            }
            HiddenColumn::Label(column) => Field::new(name(column), DataType::Utf8, true),
        }
    }
}

/// Whether a name has the form `_label(column)`.
fn is_label_of_cells(name: &str) -> bool {
    let rest = name.strip_prefix(ROW_LABEL_COLUMN);
    rest.is_some_and(|rest| rest.starts_with('(') && rest.ends_with(')'))
}

/// The column that a name of the form `_time(column)` speaks of.
fn column_in(name: &str) -> Option<&str> {
    name.strip_prefix("_time(")?.strip_suffix(')')
}

/// The SCU of each row.
pub(super) fn row_scus(rows: &ChangeBatch) -> UInt64Array {
    match &rows.scus {
        Scus::Uniform(scu) => UInt64Array::from(vec![*scu; rows.rows()]),
        Scus::Each(scus) => scus.clone(),
    }
}

/// SCUs as SQL shows them.
pub(super) fn shown_scus(scus: &UInt64Array) -> ArrayRef {
    let scus = scus.values().iter();
    let shown = scus.map(|scu| (*scu != OWN_SCU).then_some(*scu as i64));
    Arc::new(shown.collect::<Int64Array>())
}

/// Times of old SCUs that were read, kept for the next reader.
#[derive(Debug, Default)]
pub(super) struct TimesCache(Mutex<Vec<KeptTimes>>);

/// Times that follow each other, by the first SCU.
#[derive(Debug, Clone)]
struct KeptTimes {
    first: u64,
    millis: Arc<Vec<i64>>,
}

/// How many files' times are kept.
const KEPT_FILES_MAX: usize = 16;

impl TimesCache {
    fn find(&self, scu: u64) -> Option<KeptTimes> {
        let kept = self.0.lock();
        let holds = |times: &&KeptTimes| scu.wrapping_sub(times.first) < times.millis.len() as u64;
        kept.iter().find(holds).cloned()
    }

    fn keep(&self, tail: &TimesTail) -> Result<KeptTimes> {
        let times = KeptTimes {
            first: tail.first.0,
            millis: Arc::new(tail.millis()?),
        };
        let mut kept = self.0.lock();
        if kept.len() >= KEPT_FILES_MAX {
            kept.remove(0);
        }
        kept.push(times.clone());
        Ok(times)
    }
}

/// Reads a file of times, its checksum verified.
///
/// # Errors
/// `Corrupt`, naming the file; the store's errors.
pub async fn read_times(store: &dyn Store, file: &TimesFile) -> Result<TimesTail> {
    let within = |error: Error| error.within(&file.file).with_file(&file.file);
    let bytes = store.read(&file.file, 0..file.bytes).await;
    let bytes = bytes.map_err(|error| within(error.into()))?;
    if crc32c::crc32c(&bytes) != file.crc32c {
        return Err(within(Error::corrupt("checksum mismatch")));
    }
    let times = TimesTail::decode(&bytes).map_err(within)?;
    match (times.first, times.last) == (file.first, file.last) {
        true => Ok(times),
        false => Err(within(Error::corrupt("it holds the times of other SCUs"))),
    }
}

impl Snapshot {
    /// The times of SCUs.
    pub(super) async fn times(&self, scus: &UInt64Array) -> Result<ArrayRef> {
        let mut shown = Vec::with_capacity(scus.len());
        let mut last: Option<(u64, Option<i64>)> = None;
        let mut kept: Option<KeptTimes> = None;
        for &scu in scus.values() {
            let millis = match last {
                Some((known, millis)) if known == scu => millis,
                _ => self.time(scu, &mut kept).await?,
            };
            last = Some((scu, millis));
            shown.push(millis.map(|millis| millis.saturating_mul(1000)));
        }
        let shown = TimestampMicrosecondArray::from(shown).with_timezone("+00:00");
        Ok(Arc::new(shown))
    }

    /// The time of an SCU in milliseconds; `kept` is where the last one was found.
    async fn time(&self, scu: u64, kept: &mut Option<KeptTimes>) -> Result<Option<i64>> {
        let number = ScuNumber(scu);
        let manifest = &self.inner.manifest;
        if let Some(time) = manifest.times.get(&number) {
            return Ok(Some(shown_millis(time.first_ack_micros)));
        }
        if number > manifest.sealed_through {
            let mut unsorted = self.inner.unsorted.iter();
            let open = unsorted.find(|(unsorted, _)| unsorted.scu() == number);
            let first = open.and_then(|(unsorted, _)| unsorted.first_written_micros());
            return Ok(first.map(shown_millis));
        }
        let at = |times: &KeptTimes| {
            let place = usize::try_from(scu.wrapping_sub(times.first)).ok()?;
            times.millis.get(place).copied()
        };
        if let Some(millis) = kept.as_ref().and_then(at) {
            return Ok(Some(millis));
        }
        let cache = &self.inner.reader.times;
        let history = &manifest.history;
        let found = match (cache.find(scu), &history.tail) {
            (Some(found), _) => found,
            (None, Some(tail)) if tail.first <= number && number <= tail.last => KeptTimes {
                first: tail.first.0,
                millis: Arc::new(tail.millis()?),
            },
            _ => match history.file_of(number) {
                None => return Ok(None),
                Some(file) => {
                    let store = &*self.inner.reader.env.store;
                    cache.keep(&read_times(store, file).await?)?
                }
            },
        };
        let millis = at(&found);
        *kept = Some(found);
        Ok(millis)
    }
}
