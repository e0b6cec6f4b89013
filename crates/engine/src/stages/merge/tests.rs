//! The kernels against the scalar algebra: sorting, merging in any grouping, and meeting no row
//! give exactly what applying changes one by one gives, SCUs of cells included.

pub(crate) mod scalar;

use arrow::datatypes::DataType;
use futures::executor::block_on;
use lazybase_model::change::StoredKind;
use proptest::prelude::*;

use self::scalar::{
    Changes, Op, Rows, any_shape, any_size, batch_of, changes_of, op, recut, rows_of, shape,
};
use super::*;
use crate::stages::sort::sort_shaped;

/// The changes of a span: by SCU, by batch.
pub(crate) type Story = Vec<Vec<Vec<Op>>>;

pub(crate) fn any_story() -> impl Strategy<Value = Story> {
    let batch = prop::collection::vec(op(9), 0..7);
    prop::collection::vec(prop::collection::vec(batch, 0..4), 1..8)
}

fn source(batches: Vec<ChangeBatch>) -> BoxStream<'static, Result<ChangeBatch>> {
    stream::iter(batches.into_iter().map(Ok)).boxed()
}

pub(crate) fn merge(
    shape: &MergeShape,
    runs: &[Vec<ChangeBatch>],
    mode: MergeMode,
    size: OutputSize,
) -> Vec<ChangeBatch> {
    let merger = Merger::new(shape, runs.len(), mode, size).unwrap();
    let sources = runs.iter().cloned().map(source).collect();
    block_on(drive(merger, sources).try_collect()).unwrap()
}

/// A run an SCU, sorted.
pub(crate) fn sorted(
    shape: &MergeShape,
    story: &Story,
    size: OutputSize,
    lengths: &[usize],
) -> Vec<Vec<ChangeBatch>> {
    let scus = story.iter().enumerate().map(|(at, batches)| {
        let of_batch = |ops: &Vec<Op>| {
            let changes: Vec<_> = ops
                .iter()
                .map(|op| op.change(shape, at as u64 + 1))
                .collect();
            batch_of(shape, &changes)
        };
        let batches: Vec<_> = batches.iter().map(of_batch).collect();
        let run = sort_shaped(shape, &batches, size).unwrap();
        changes_of(shape, &run);
        recut(&run, lengths)
    });
    scus.collect()
}

/// What applying the changes one by one leaves.
pub(crate) fn applied(shape: &MergeShape, story: &Story) -> Rows {
    let mut rows = Rows::new();
    for (at, op) in ops(story) {
        let (key, change, _) = op.change(shape, at);
        let entry = change.apply(rows.remove(&key));
        rows.extend(entry.map(|row| (key, row)));
    }
    rows
}

pub(crate) fn composed(shape: &MergeShape, story: &Story) -> Changes {
    let mut changes = Changes::new();
    for (at, op) in ops(story) {
        let (key, change, _) = op.change(shape, at);
        let all = match changes.remove(&key) {
            Some(before) => before.then(change),
            None => change,
        };
        changes.insert(key, all);
    }
    changes
}

fn ops(story: &Story) -> impl Iterator<Item = (u64, &Op)> {
    let scus = story.iter().enumerate();
    scus.flat_map(|(at, batches)| batches.iter().flatten().map(move |op| (at as u64 + 1, op)))
}

/// Joins neighbours until no grouping is left: each number picks where, and how many.
fn joined(
    shape: &MergeShape,
    mut runs: Vec<Vec<ChangeBatch>>,
    groups: &[(usize, usize)],
    size: OutputSize,
    lengths: &[usize],
) -> Vec<Vec<ChangeBatch>> {
    for &(start, count) in groups {
        let start = start % runs.len();
        let end = runs.len().min(start + count);
        let run = merge(shape, &runs[start..end], MergeMode::Changes, size);
        runs.splice(start..end, [recut(&run, lengths)]);
    }
    runs
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn every_grouping_gives_what_applying_one_by_one_gives(
        shape in any_shape(),
        story in any_story(),
        size in any_size(),
        lengths in prop::collection::vec(1usize..7, 1..5),
        groups in prop::collection::vec((0usize..8, 1usize..5), 0..6),
    ) {
        let runs = sorted(&shape, &story, size, &lengths);
        let runs = joined(&shape, runs, &groups, size, &lengths);
        let rows = merge(&shape, &runs, MergeMode::Rows, size);
        prop_assert_eq!(rows_of(&shape, &rows), applied(&shape, &story));
    }

    #[test]
    fn merged_changes_are_the_composition_of_changes(
        shape in any_shape(),
        story in any_story(),
        size in any_size(),
        lengths in prop::collection::vec(1usize..7, 1..5),
        groups in prop::collection::vec((0usize..8, 1usize..5), 0..6),
    ) {
        let runs = sorted(&shape, &story, size, &lengths);
        let runs = joined(&shape, runs, &groups, size, &lengths);
        let run = merge(&shape, &runs, MergeMode::Changes, size);
        prop_assert_eq!(changes_of(&shape, &run), composed(&shape, &story));
    }

    #[test]
    fn what_is_sorted_may_be_sorted_again_with_what_came_later(
        shape in any_shape(),
        batches in prop::collection::vec(prop::collection::vec(op(9), 0..7), 0..8),
        sizes in (any_size(), any_size()),
        cut in 0usize..8,
    ) {
        let encoded = |ops: &Vec<Op>| {
            let changes: Vec<_> = ops.iter().map(|op| op.change(&shape, 1)).collect();
            batch_of(&shape, &changes)
        };
        let encoded: Vec<ChangeBatch> = batches.iter().map(encoded).collect();
        let (older, later) = encoded.split_at(cut.min(encoded.len()));
        let older = sort_shaped(&shape, older, sizes.0).unwrap();
        let run = sort_shaped(&shape, &[older.as_slice(), later].concat(), sizes.1).unwrap();
        prop_assert_eq!(changes_of(&shape, &run), composed(&shape, &vec![batches]));
    }

    #[test]
    fn a_read_sees_the_values_of_the_rows(
        shape in any_shape(),
        story in any_story(),
        sizes in (any_size(), any_size()),
        groups in prop::collection::vec((0usize..8, 1usize..5), 0..6),
        in_base in 0usize..8,
        chosen in any::<u8>(),
    ) {
        let runs = sorted(&shape, &story, sizes.0, &[3]);
        let mut runs = joined(&shape, runs, &groups, sizes.0, &[3]);
        let whole = merge(&shape, &runs, MergeMode::Rows, sizes.0);
        let later = runs.split_off(in_base.min(runs.len()));
        let base = merge(&shape, &runs, MergeMode::Rows, sizes.1);
        let columns: Vec<usize> = (0..shape.schema.fields().len())
            .filter(|at| shape.key.contains(at) || chosen >> at & 1 == 1)
            .collect();
        let project = |run: Vec<ChangeBatch>| -> Vec<ChangeBatch> {
            run.iter().map(|batch| batch.project(&columns).unwrap()).collect()
        };
        let runs: Vec<_> = [vec![base], later].concat().into_iter().map(project).collect();
        let narrow = shape.project(&columns).unwrap();
        let read = merge(&narrow, &runs, MergeMode::Values, sizes.1);
        prop_assert!(read.iter().all(|batch| batch.all_upserts() && batch.scu(0) == 0));
        prop_assert_eq!(cells(&read), cells(&project(whole)));
    }

    #[test]
    fn what_older_sources_come_to_may_be_reconciled_by_itself(
        shape in any_shape(),
        story in any_story(),
        sizes in (any_size(), any_size()),
        groups in prop::collection::vec((0usize..8, 1usize..5), 0..6),
        cuts in prop::collection::vec(0usize..8, 1..4),
        chosen in any::<u8>(),
    ) {
        let columns: Vec<usize> = (0..shape.schema.fields().len())
            .filter(|at| shape.key.contains(at) || chosen >> at & 1 == 1)
            .collect();
        let narrow = shape.project(&columns).unwrap();
        let project = |run: Vec<ChangeBatch>| -> Vec<ChangeBatch> {
            run.iter().map(|batch| batch.project(&columns).unwrap()).collect()
        };
        let runs = sorted(&shape, &story, sizes.0, &[3]);
        let runs = joined(&shape, runs, &groups, sizes.0, &[3]);
        let mut runs: Vec<_> = runs.into_iter().map(project).collect();
        let at_once = merge(&narrow, &runs, MergeMode::Values, sizes.0);
        // What was kept is reconciled with what is newer, and kept again.
        for cut in cuts {
            let later = runs.split_off(cut.min(runs.len()));
            let kept = merge(&narrow, &runs, MergeMode::Values, sizes.1);
            runs = [vec![kept], later].concat();
        }
        let read = merge(&narrow, &runs, MergeMode::Values, sizes.0);
        prop_assert_eq!(cells(&read), cells(&at_once));
    }

    #[test]
    fn a_projection_shows_the_rows_and_their_own_scus(
        shape in any_shape(),
        story in any_story(),
        size in any_size(),
        chosen in any::<u8>(),
        joined_from in 0usize..8,
    ) {
        let width = shape.schema.fields().len();
        let columns: Vec<usize> = (0..width)
            .rev()
            .filter(|at| shape.key.contains(at) || chosen >> at & 1 == 1)
            .collect();
        let narrow = shape.project(&columns).unwrap();
        let runs = sorted(&shape, &story, size, &[3]);
        let whole = merge(&shape, &runs, MergeMode::Rows, size);
        let mut runs: Vec<Vec<ChangeBatch>> = runs
            .iter()
            .map(|run| run.iter().map(|batch| batch.project(&columns).unwrap()).collect())
            .collect();
        if joined_from < runs.len() {
            let later = runs.split_off(joined_from);
            runs.push(merge(&narrow, &later, MergeMode::Changes, size));
        }
        let projected = merge(&narrow, &runs, MergeMode::Rows, size);
        let seen = |batches: &[ChangeBatch], columns: &[usize]| -> Vec<String> {
            let row = |batch: &ChangeBatch, row: usize| {
                let cell = |column: &usize| {
                    let values = batch.data.column(*column).slice(row, 1);
                    let scu = batch.scus_of_column(*column).unwrap().value(row);
                    format!("{values:?}@{scu}")
                };
                let cells: Vec<String> = columns.iter().map(cell).collect();
                format!("{} {cells:?}", batch.scu(row))
            };
            let rows = |batch: &ChangeBatch| -> Vec<String> {
                (0..batch.rows()).map(|at| row(batch, at)).collect()
            };
            batches.iter().flat_map(rows).collect()
        };
        let places: Vec<usize> = (0..columns.len()).collect();
        prop_assert_eq!(seen(&projected, &places), seen(&whole, &columns));
    }
}

/// The cells of all rows.
fn cells(batches: &[ChangeBatch]) -> Vec<Vec<String>> {
    let row = |batch: &ChangeBatch, row: usize| {
        let cells = batch.data.columns().iter();
        cells
            .map(|column| format!("{:?}", column.slice(row, 1)))
            .collect()
    };
    let rows = |batch: &ChangeBatch| -> Vec<Vec<String>> {
        (0..batch.rows()).map(|at| row(batch, at)).collect()
    };
    batches.iter().flat_map(rows).collect()
}

#[test]
fn a_merge_of_nothing_is_nothing() {
    let shape = shape(&[DataType::Int64], &[]);
    let size = OutputSize::default();
    assert!(merge(&shape, &[], MergeMode::Rows, size).is_empty());
    assert!(merge(&shape, &[vec![], vec![]], MergeMode::Changes, size).is_empty());
}

#[test]
fn a_source_is_supplied_only_when_asked() {
    let shape = shape(&[DataType::Int64], &[]);
    let size = OutputSize::default();
    let mut merger = Merger::new(&shape, 2, MergeMode::Rows, size).unwrap();
    assert!(merger.supply(1, None).is_err());
    assert!(matches!(merger.step().unwrap(), Step::Need(0)));
    merger.supply(0, None).unwrap();
    assert!(matches!(merger.step().unwrap(), Step::Need(1)));
    merger.supply(1, None).unwrap();
    assert!(matches!(merger.step().unwrap(), Step::Done));
    assert!(matches!(merger.step().unwrap(), Step::Done));
}

#[test]
fn long_stretches_are_not_copied() {
    let shape = shape(&[DataType::Int64], &[DataType::Int64]);
    let run = |first: u64, scu: u64| {
        let values: Vec<i64> = (0..5000).map(|at| (first + at) as i64).collect();
        let column = || std::sync::Arc::new(arrow::array::Int64Array::from(values.clone()));
        let columns: Vec<arrow::array::ArrayRef> = vec![column(), column()];
        let data = arrow::array::RecordBatch::try_new(shape.schema.clone(), columns).unwrap();
        vec![ChangeBatch::upserts(data, scu)]
    };
    let runs = [run(0, 1), run(5000, 2)];
    let merged = merge(&shape, &runs, MergeMode::Changes, OutputSize::default());
    let place = |batch: &ChangeBatch| batch.data.column(0).to_data().buffers()[0].as_ptr();
    assert_eq!(merged.len(), 2);
    assert_eq!(place(&merged[0]), place(&runs[0][0]));
    assert_eq!(place(&merged[1]), place(&runs[1][0]));
    assert_eq!(merged[1].kind(0), StoredKind::UPSERT);
}
