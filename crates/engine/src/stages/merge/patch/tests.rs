//! Patching gives what merging whole rows gives.

use proptest::prelude::*;

use super::super::tests::scalar::{any_shape, any_size, rows_of};
use super::super::tests::{Story, merge, sorted};
use super::*;
use crate::stages::merge::tests::any_story;

/// A base of the first SCUs' rows, and the changes of the rest, one a key.
fn base_and_changes(
    shape: &MergeShape,
    story: &Story,
    in_base: usize,
    size: OutputSize,
) -> (Option<ChangeBatch>, Vec<ChangeBatch>, Vec<ChangeBatch>) {
    let mut runs = sorted(shape, story, size, &[3]);
    let whole = merge(shape, &runs, MergeMode::Rows, size);
    let later = runs.split_off(in_base.min(runs.len()));
    let base = merge(shape, &runs, MergeMode::Rows, size);
    let base =
        (!base.is_empty()).then(|| ChangeBatch::concat(&base.iter().collect::<Vec<_>>()).unwrap());
    let changes = match later.is_empty() {
        true => Vec::new(),
        false => merge(shape, &later, MergeMode::Changes, size),
    };
    (base, changes, whole)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn patched_rows_are_the_merged_ones(
        shape in any_shape(),
        story in any_story(),
        in_base in 0usize..8,
        size in any_size(),
    ) {
        let (base, changes, whole) = base_and_changes(&shape, &story, in_base, size);
        let (Some(base), Some(touched)) = (base, touched(&changes)) else {
            return Ok(());
        };
        let mut kept: Vec<usize> = shape.key.iter().copied().chain(touched.clone()).collect();
        kept.sort_unstable();
        kept.dedup();
        let thin_base = thin(&base, &kept).unwrap();
        let thin_changes: Vec<_> = changes.iter().map(|c| thin(c, &kept).unwrap()).collect();
        let patched = patch(&shape, &kept, &thin_base, &thin_changes).unwrap();
        let rows: usize = whole.iter().map(ChangeBatch::rows).sum();
        prop_assert_eq!(patched.is_some(), rows == base.rows());
        let Some(patched) = patched else {
            return Ok(());
        };
        // The columns that were left out come from the base.
        let columns = (0..shape.schema.fields().len()).map(|at| match kept.contains(&at) {
            true => Arc::clone(patched.data.column(at)),
            false => Arc::clone(base.data.column(at)),
        });
        let columns = columns.collect();
        let data = RecordBatch::try_new(Arc::clone(&shape.schema), columns).unwrap();
        let filled = ChangeBatch { data, ..patched };
        prop_assert_eq!(rows_of(&shape, &[filled]), rows_of(&shape, &whole));
    }
}

#[test]
fn a_delete_or_a_whole_row_is_no_patch() {
    use lazybase_model::change::StoredKind;
    let field = Field::new("id", DataType::Int64, false);
    let schema: SchemaRef = Arc::new(Schema::new(vec![field]));
    let ids: ArrayRef = Arc::new(arrow::array::Int64Array::from(vec![1]));
    let data = RecordBatch::try_new(schema, vec![ids]).unwrap();
    let of = |kind, sets: Option<&[usize]>| ChangeBatch::alike(data.clone(), kind, sets, 1);
    assert_eq!(touched(&[of(StoredKind::DELETE, None)]), None);
    assert_eq!(touched(&[of(StoredKind::UPSERT, None)]), None);
    assert_eq!(
        touched(&[of(StoredKind::UPDATE, Some(&[0]))]),
        Some(vec![0])
    );
    assert_eq!(touched(&[of(StoredKind::BOTH, Some(&[]))]), Some(vec![]));
}
