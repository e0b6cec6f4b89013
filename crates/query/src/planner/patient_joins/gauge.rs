//! How many pairs of rows a join looks at for a batch on its right, by what its left has given.
//!
//! Pure, but for the counts.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::buffer::NullBuffer;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::common::{NullEquality, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::joins::HashJoinExec;

/// The most rows between two pauses: a nested loop compares each of them with all rows on the left
/// before it looks up. With fewer it is slower.
const ROWS_BETWEEN_PAUSES_MAX: usize = 1024;

/// The most pairs of rows that a nested loop compares between two pauses, about a second of them,
/// as long as the left has no more rows than that.
pub(super) const PAIRS_BETWEEN_PAUSES: usize = 1 << 26;

/// The same of a hash join, which gathers the columns of each pair for its filter.
const EQUAL_PAIRS_BETWEEN_PAUSES: u64 = 1 << 24;

/// Rows on the left with equal keys are counted together, and with them those of other keys: with
/// thirty million keys about two thousand.
const COUNTS: usize = 1 << 14;

/// What the right side of a join knows of the left, which gives all its rows first.
pub(super) trait Gauge: fmt::Debug + Send + Sync {
    /// A partition of the left is begun, maybe not for the first time.
    fn begin(&self, partition: usize);

    /// These are rows of the left.
    fn count(&self, partition: usize, rows: &RecordBatch) -> Result<()>;

    /// How many rows of a batch on the right come after each pause.
    fn parts(&self, partition: usize, rows: &RecordBatch) -> Result<Vec<usize>>;
}

/// A nested loop compares each row with all.
#[derive(Debug, Default)]
pub(super) struct AllRows {
    /// How many rows the left has given since it was last begun.
    left_rows: AtomicUsize,
}

/// How many rows on the right of a nested loop come between two pauses.
pub(super) fn rows_between_pauses(left_rows: usize) -> usize {
    (PAIRS_BETWEEN_PAUSES / left_rows.max(1)).clamp(1, ROWS_BETWEEN_PAUSES_MAX)
}

impl Gauge for AllRows {
    fn begin(&self, _: usize) {
        self.left_rows.store(0, Ordering::Relaxed);
    }

    fn count(&self, _: usize, rows: &RecordBatch) -> Result<()> {
        self.left_rows.fetch_add(rows.num_rows(), Ordering::Relaxed);
        Ok(())
    }

    fn parts(&self, _: usize, rows: &RecordBatch) -> Result<Vec<usize>> {
        let rows_max = rows_between_pauses(self.left_rows.load(Ordering::Relaxed));
        let starts = (0..rows.num_rows()).step_by(rows_max);
        Ok(starts
            .map(|at| rows_max.min(rows.num_rows() - at))
            .collect())
    }
}

/// What two rows have alike that a hash join compares.
type Keys = Vec<Arc<dyn PhysicalExpr>>;

/// A hash join looks at the rows of equal keys.
#[derive(Debug)]
pub(super) struct EqualKeys {
    left: Keys,
    right: Keys,
    null_equality: NullEquality,
    /// The most pairs between two pauses, as long as no key has more rows on the left.
    pairs_max: u64,
    /// For each partition of the left, once it has rows: a plan that is only shown has none.
    counts: Vec<OnceLock<Counts>>,
}

/// How many rows of the left have the same keys.
#[derive(Debug)]
struct Counts {
    /// By the hash of the key.
    each: Box<[AtomicU32]>,
    /// The largest of them: each batch on the right asks for it.
    most: AtomicU32,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            each: (0..COUNTS).map(|_| AtomicU32::new(0)).collect(),
            most: AtomicU32::new(0),
        }
    }
}

impl Counts {
    fn clear(&self) {
        for count in self.each.iter().chain([&self.most]) {
            count.store(0, Ordering::Relaxed);
        }
    }
}

impl EqualKeys {
    pub(super) fn of(join: &HashJoinExec) -> EqualKeys {
        let partitions = join.left().properties().output_partitioning();
        let (left, right) = join.on().iter().cloned().unzip();
        EqualKeys::new(
            (left, right),
            join.null_equality(),
            partitions.partition_count(),
            EQUAL_PAIRS_BETWEEN_PAUSES,
        )
    }

    pub(super) fn new(
        (left, right): (Keys, Keys),
        null_equality: NullEquality,
        left_partitions: usize,
        pairs_max: u64,
    ) -> EqualKeys {
        EqualKeys {
            left,
            right,
            null_equality,
            pairs_max,
            counts: (0..left_partitions.max(1))
                .map(|_| OnceLock::new())
                .collect(),
        }
    }

    /// What is counted of the left that a partition of the right meets: that of the same number, or
    /// the only one.
    fn counts(&self, partition: usize) -> &OnceLock<Counts> {
        &self.counts[partition % self.counts.len()]
    }
}

impl Gauge for EqualKeys {
    fn begin(&self, partition: usize) {
        if let Some(counts) = self.counts(partition).get() {
            counts.clear();
        }
    }

    fn count(&self, partition: usize, rows: &RecordBatch) -> Result<()> {
        let keys = keys(&self.left, rows)?;
        // What equals nothing is looked at by nobody.
        let nulls = match self.null_equality {
            NullEquality::NullEqualsNothing => nulls(&keys),
            NullEquality::NullEqualsNull => None,
        };
        let counts = self.counts(partition).get_or_init(Counts::default);
        let mut most = 0;
        for (at, place) in places(&keys, rows.num_rows())?.enumerate() {
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(at)) {
                most = most.max(counts.each[place].fetch_add(1, Ordering::Relaxed) + 1);
            }
        }
        counts.most.fetch_max(most, Ordering::Relaxed);
        Ok(())
    }

    fn parts(&self, partition: usize, rows: &RecordBatch) -> Result<Vec<usize>> {
        if rows.num_rows() == 0 {
            return Ok(Vec::new());
        }
        let of = |count: &AtomicU32| u64::from(count.load(Ordering::Relaxed));
        // So it is nearly always, and the keys need not be looked at.
        let few = |counts: &&Counts| of(&counts.most) * rows.num_rows() as u64 <= self.pairs_max;
        let counts = self.counts(partition).get();
        let Some(counts) = counts.filter(|counts| !few(counts)) else {
            return Ok(vec![rows.num_rows()]);
        };
        let keys = keys(&self.right, rows)?;
        let mut parts = Vec::new();
        let (mut part, mut pairs) = (0, 0);
        for place in places(&keys, rows.num_rows())? {
            let of_row = of(&counts.each[place]);
            if part > 0 && pairs + of_row > self.pairs_max {
                parts.push(part);
                (part, pairs) = (0, 0);
            }
            part += 1;
            pairs += of_row;
        }
        parts.extend((part > 0).then_some(part));
        Ok(parts)
    }
}

fn keys(keys: &[Arc<dyn PhysicalExpr>], rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
    let values = |key: &Arc<dyn PhysicalExpr>| key.evaluate(rows)?.into_array(rows.num_rows());
    keys.iter().map(values).collect()
}

/// Which rows have all of their key.
fn nulls(keys: &[ArrayRef]) -> Option<NullBuffer> {
    let each = keys.iter().map(|values| values.logical_nulls());
    each.fold(None, |all, nulls| {
        NullBuffer::union(all.as_ref(), nulls.as_ref())
    })
}

/// Where the rows of each key are counted.
fn places(keys: &[ArrayRef], rows: usize) -> Result<impl Iterator<Item = usize> + use<>> {
    let mut hashes = vec![0_u64; rows];
    create_hashes(keys, &RandomState::default(), &mut hashes)?;
    Ok(hashes
        .into_iter()
        .map(|hash| (hash % COUNTS as u64) as usize))
}
