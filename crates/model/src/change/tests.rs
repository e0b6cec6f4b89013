//! Tests of the algebra: laws over random changes, then cases with names (the paper's section 3.2).

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::{
    Action, Cell, Change, OnAbsent, OnRow, Row, Sets, StoredError, StoredKind, StoredRow, Value,
    Version,
};
use crate::table::MergeOperator;

/// Zero stands for NULL.
impl Value for u8 {
    fn combine(&self, operator: MergeOperator, later: &u8) -> u8 {
        match (operator, *self, *later) {
            (MergeOperator::Sum, a, b) => a.wrapping_add(b),
            (_, 0, given) | (_, given, 0) => given,
            (MergeOperator::Min, a, b) => a.min(b),
            (MergeOperator::Max, a, b) => a.max(b),
            (MergeOperator::First, a, _) => a,
        }
    }
}

/// The operators of a table's first columns.
const OPERATORS: [Option<MergeOperator>; 6] = [
    Some(MergeOperator::Sum),
    None,
    Some(MergeOperator::Min),
    Some(MergeOperator::Max),
    None,
    Some(MergeOperator::First),
];

type TestRow = Row<u8>;
type TestChange = Change<u8>;

/// The clock goes back and forth on purpose: nothing may depend on it.
fn version(scu: u64) -> Version {
    Version {
        scu,
        time_micros: ((scu * 7_919) % 13) as i64,
    }
}

fn cell(value: u8, scu: u64) -> Cell<u8> {
    Cell {
        value,
        version: version(scu),
    }
}

fn row(values: &[u8], scu: u64) -> TestRow {
    Row::new(values.iter().map(|&value| cell(value, scu)).collect())
}

fn sets(columns: &[(usize, u8)], scu: u64) -> Sets<u8> {
    columns
        .iter()
        .map(|&(ordinal, value)| (ordinal, Action::Set(cell(value, scu))))
        .collect()
}

fn combines(columns: &[(usize, u8)], scu: u64) -> Sets<u8> {
    let combine = |&(ordinal, value): &(usize, u8)| {
        let operator = OPERATORS[ordinal].expect("a column with an operator");
        (ordinal, Action::Combine(operator, cell(value, scu)))
    };
    columns.iter().map(combine).collect()
}

#[derive(Clone, Copy, Debug)]
enum Verb {
    Delete,
    Insert,
    Upsert,
    Update,
    UpsertColumns,
    InsertIfAbsent,
    InsertOrUpdate,
}

const VERBS: [Verb; 7] = [
    Verb::Insert,
    Verb::Delete,
    Verb::Upsert,
    Verb::Update,
    Verb::UpsertColumns,
    Verb::InsertIfAbsent,
    Verb::InsertOrUpdate,
];

/// What a writer asks for, before it has a version.
#[derive(Clone, Debug)]
struct Write {
    key: u8,
    verb: Verb,
    row: Vec<u8>,
    sets: Vec<Option<u8>>,
}

impl Write {
    fn row(&self, scu: u64) -> TestRow {
        row(&self.row, scu)
    }

    fn sets(&self, scu: u64) -> Sets<u8> {
        let given = self.sets.iter().enumerate();
        given
            .filter_map(|(ordinal, value)| Some((ordinal, Action::Set(cell((*value)?, scu)))))
            .collect()
    }

    fn change(&self, scu: u64) -> TestChange {
        match self.verb {
            Verb::Delete => Change::delete(),
            Verb::Insert => Change::insert(self.row(scu), &OPERATORS),
            Verb::Upsert => Change::upsert(self.row(scu)),
            Verb::Update => Change::update(self.sets(scu)),
            Verb::UpsertColumns => Change::upsert_columns(self.sets(scu), self.row(scu)),
            Verb::InsertIfAbsent => Change::insert_if_absent(self.row(scu)),
            Verb::InsertOrUpdate => Change::insert_or_update(self.row(scu), self.sets(scu)),
        }
    }

    /// The same write done to a table, without the algebra.
    fn execute(&self, scu: u64, table: &mut Table) {
        let fresh: Vec<Cell<u8>> = self.row.iter().map(|&value| cell(value, scu)).collect();
        let assign = |target: &mut Vec<Cell<u8>>| {
            for (ordinal, value) in self.sets.iter().enumerate() {
                if let Some(value) = value {
                    target[ordinal] = cell(*value, scu);
                }
            }
        };
        match (self.verb, table.get_mut(&self.key)) {
            (Verb::Delete, _) => drop(table.remove(&self.key)),
            (Verb::Insert, Some(row)) => {
                for ((now, given), operator) in row.iter_mut().zip(fresh).zip(OPERATORS) {
                    let both = [now.value, given.value];
                    let known = both.into_iter().filter(|value| *value != 0);
                    now.version = given.version;
                    now.value = match operator {
                        None => given.value,
                        Some(MergeOperator::Sum) => known.fold(0, u8::wrapping_add),
                        Some(MergeOperator::Min) => known.min().unwrap_or(0),
                        Some(MergeOperator::Max) => known.max().unwrap_or(0),
                        Some(MergeOperator::First) => known.take(1).sum(),
                    };
                }
            }
            (Verb::Insert | Verb::InsertIfAbsent | Verb::InsertOrUpdate, None)
            | (Verb::Upsert, _) => {
                table.insert(self.key, fresh);
            }
            (Verb::UpsertColumns, None) => {
                let mut given = fresh;
                assign(&mut given);
                table.insert(self.key, given);
            }
            (Verb::Update, None) | (Verb::InsertIfAbsent, Some(_)) => {}
            (Verb::Update | Verb::UpsertColumns | Verb::InsertOrUpdate, Some(row)) => assign(row),
        }
    }
}

/// The naive model: a map from keys to rows.
type Table = BTreeMap<u8, Vec<Cell<u8>>>;

/// A table as it was, and the writes that follow, the n-th of them in SCU n + 1.
#[derive(Clone, Debug)]
struct History {
    before: BTreeMap<u8, Vec<u8>>,
    writes: Vec<Write>,
}

impl History {
    fn table_before(&self) -> Table {
        let rows = self.before.iter();
        rows.map(|(&key, values)| (key, values.iter().map(|&v| cell(v, 0)).collect()))
            .collect()
    }

    fn table_after(&self) -> Table {
        let mut table = self.table_before();
        for (scu, write) in (1..).zip(&self.writes) {
            write.execute(scu, &mut table);
        }
        table
    }

    fn changes_of(&self, key: u8) -> Vec<TestChange> {
        let numbered = (1..)
            .zip(&self.writes)
            .filter(|(_, write)| write.key == key);
        numbered.map(|(scu, write)| write.change(scu)).collect()
    }
}

const KEYS: u8 = 3;

/// NULL, and values with others on both sides.
fn value() -> impl Strategy<Value = u8> {
    select(&[0, 5, 6, 7][..])
}

fn values(width: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(value(), width)
}

/// Masks that are empty and full more often than by chance: the corners are there.
fn optional_values(width: usize) -> impl Strategy<Value = Vec<Option<u8>>> {
    prop_oneof![
        4 => vec(option::of(value()), width),
        1 => Just(vec![None; width]),
        1 => values(width).prop_map(|given| given.into_iter().map(Some).collect()),
    ]
}

fn write(width: usize) -> impl Strategy<Value = Write> {
    (
        0..KEYS,
        select(&VERBS[..]),
        values(width),
        optional_values(width),
    )
        .prop_map(|(key, verb, row, sets)| Write {
            key,
            verb,
            row,
            sets,
        })
}

fn history() -> impl Strategy<Value = History> {
    (1..=6_usize).prop_flat_map(|width| {
        let before = proptest::collection::btree_map(0..KEYS, values(width), 0..=2);
        (before, vec(write(width), 0..40)).prop_map(|(before, writes)| History { before, writes })
    })
}

/// The composition of some random writes, as it stands in a merged run.
fn composed(width: usize, first_scu: u64) -> impl Strategy<Value = TestChange> {
    vec(write(width), 0..5).prop_map(move |writes| {
        let changes = (first_scu..)
            .zip(&writes)
            .map(|(scu, write)| write.change(scu));
        changes.fold(Change::identity(), Change::then)
    })
}

fn three_composed() -> impl Strategy<Value = [TestChange; 3]> {
    let in_order = |width| [composed(width, 1), composed(width, 11), composed(width, 21)];
    (1..=6_usize).prop_flat_map(in_order)
}

/// Any pair of halves, whether or not writes lead there, over so few versions that many agree.
fn any_change(width: usize) -> impl Strategy<Value = TestChange> {
    let cells = || vec((select(&[0, 5][..]), 1..3_u64), width);
    let touch = prop_oneof![2 => Just(None), 5 => Just(Some(false)), 3 => Just(Some(true))];
    let on_row = option::weighted(0.8, (cells(), vec(touch, width)));
    (on_row, option::of(cells())).prop_map(|(on_row, on_absent)| {
        let cells = |given: Vec<(u8, u64)>| given.into_iter().map(|(v, scu)| cell(v, scu));
        let on_row = on_row.map_or(OnRow::Replace, |(given, touches)| {
            let columns = cells(given).enumerate().zip(touches);
            let action = |((ordinal, cell), touch): ((usize, Cell<u8>), Option<bool>)| {
                let action = match (touch?, OPERATORS[ordinal]) {
                    (true, Some(operator)) => Action::Combine(operator, cell),
                    _ => Action::Set(cell),
                };
                Some((ordinal, action))
            };
            OnRow::Keep(columns.filter_map(action).collect())
        });
        let row = on_absent.map(|given| Row::new(cells(given).collect()));
        Change::new(on_row, row.into())
    })
}

/// Merges neighbours in the order that `picks` gives, through the stored form each time: every
/// binary tree over the span is some such order.
fn merge_in_any_grouping(mut span: Vec<TestChange>, picks: &[Index]) -> TestChange {
    let mut picks = picks.iter().cycle();
    while span.len() > 1 {
        let at = picks.next().expect("some picks").index(span.len() - 1);
        let later = span.remove(at + 1);
        let earlier = std::mem::replace(&mut span[at], Change::identity());
        span[at] = stored_and_read(&earlier.then(later));
    }
    span.pop().unwrap_or_else(Change::identity)
}

fn stored_and_read(change: &TestChange) -> TestChange {
    let stored = change.to_stored();
    assert_eq!(stored.len(), if change.halves_agree() { 1 } else { 2 });
    Change::from_stored(&stored).expect("what was stored can be read")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_grouping_equals_the_changes_one_by_one(
        history in history(),
        picks in vec(any::<Index>(), 1..40),
    ) {
        let (before, after) = (history.table_before(), history.table_after());
        for key in 0..KEYS {
            let merged = merge_in_any_grouping(history.changes_of(key), &picks);
            let entry = merged.apply(before.get(&key).cloned().map(Row::new));
            prop_assert_eq!(entry, after.get(&key).cloned().map(Row::new));
        }
    }

    #[test]
    fn composition_is_associative([f, g, h] in three_composed()) {
        let left = f.clone().then(g.clone()).then(h.clone());
        let right = f.then(g.then(h));
        prop_assert_eq!(left, right);
    }

    #[test]
    fn composition_is_associative_for_any_halves(
        [f, g, h] in (1..=3_usize).prop_flat_map(|w| [any_change(w), any_change(w), any_change(w)]),
    ) {
        let left = f.clone().then(g.clone()).then(h.clone());
        let right = f.then(g.then(h));
        prop_assert_eq!(left, right);
    }

    #[test]
    fn identity_changes_nothing_on_either_side([f, _, _] in three_composed()) {
        prop_assert_eq!(&Change::identity().then(f.clone()), &f);
        prop_assert_eq!(&f.clone().then(Change::identity()), &f);
    }

    #[test]
    fn total_changes_absorb_everything_earlier_and_no_others_do(
        [f, g] in (1..=3_usize).prop_flat_map(|width| [any_change(width), any_change(width)]),
    ) {
        if g.is_total() {
            prop_assert_eq!(&f.then(g.clone()), &g);
        } else {
            // After a delete the row that was there shows no more, so a change that is not total
            // cannot stay what it was.
            prop_assert_ne!(&Change::delete().then(g.clone()), &g);
        }
    }

    #[test]
    fn stored_changes_are_read_back_exactly(
        change in (1..=6_usize).prop_flat_map(any_change),
        padding in 0..8_usize,
    ) {
        prop_assert_eq!(&stored_and_read(&change), &change);
        let stored = change.to_stored();
        let wide = |row: StoredRow<u8>| {
            // A row that makes a row has all its cells; there is nothing to pad.
            if row.kind.makes_row() { row } else { row.padded(padding) }
        };
        let padded: Vec<_> = stored.into_iter().map(wide).collect();
        prop_assert_eq!(Change::from_stored(&padded), Ok(change));
    }

    #[test]
    fn stored_kinds_say_what_the_change_does(change in (1..=4_usize).prop_flat_map(any_change)) {
        let kind = change.to_stored()[0].kind;
        prop_assert_eq!(StoredKind::try_from(kind.bits()), Ok(kind));
        prop_assert_eq!(kind.is_total(), change.is_total());
        prop_assert_eq!(kind.keeps_row(), matches!(change.on_row(), OnRow::Keep(_)));
        prop_assert_eq!(kind.makes_row(), matches!(change.on_absent(), OnAbsent::Row(_)));
        prop_assert_eq!(kind.is_split(), !change.halves_agree());
    }

    #[test]
    fn changes_are_equal_exactly_if_they_act_alike(
        (width, f, g) in (1..=3_usize)
            .prop_flat_map(|width| (Just(width), any_change(width), any_change(width))),
    ) {
        // No change holds a cell of SCU 99, so these rows show which columns are left; what is
        // NULL, less or greater than all cells shows which are combined.
        let of = |value| Some(row(&vec![value; width], 99));
        let probes = [None, of(0), of(1), of(100)];
        let alike = probes.into_iter().all(|probe| f.apply(probe.clone()) == g.apply(probe));
        prop_assert_eq!(f == g, alike);
    }
}

#[test]
fn inserts_add_up_where_there_is_a_row_and_where_there_is_none() {
    let insert = |value, scu| Change::insert(row(&[value, value], scu), &OPERATORS);
    let change = insert(2, 1).then(insert(3, 2));
    check_halves(
        &change,
        (row(&[10, 10], 0), Some(row(&[15, 3], 2))),
        Some(row(&[5, 3], 2)),
    );
    assert_eq!(kinds(&change), [3]);
    assert!(!change.is_total());
}

#[test]
fn combining_after_setting_sets_and_setting_after_combining_forgets() {
    let set = Change::update(sets(&[(0, 10)], 1));
    let add = Change::update(combines(&[(0, 3)], 2));
    assert_eq!(
        set.clone().then(add.clone()),
        Change::update(sets(&[(0, 13)], 2))
    );
    let set = Change::update(sets(&[(0, 10)], 3));
    assert_eq!(add.then(set.clone()), set);
}

#[test]
fn an_insert_after_a_delete_starts_anew() {
    let insert = Change::insert(row(&[2, 2], 5), &OPERATORS);
    assert_eq!(
        Change::delete().then(insert),
        Change::upsert(row(&[2, 2], 5))
    );
}

#[test]
fn an_insert_after_an_update_needs_two_rows_for_its_halves_disagree() {
    let change = Change::update(sets(&[(0, 10)], 1));
    let change = change.then(Change::insert(row(&[2, 2], 2), &OPERATORS));
    check_halves(
        &change,
        (
            row(&[1, 1], 0),
            Some(Row::new(vec![cell(12, 2), cell(2, 2)])),
        ),
        Some(row(&[2, 2], 2)),
    );
    assert_eq!(kinds(&change), [7, 1]);
}

#[test]
fn null_gives_way_and_yet_the_later_version_counts() {
    let change = Change::insert(row(&[0, 0, 0, 0, 0, 0], 4), &OPERATORS);
    let before = row(&[9, 9, 9, 9, 9, 9], 0);
    assert_eq!(
        change.apply(Some(before)),
        Some(row(&[9, 0, 9, 9, 0, 9], 4))
    );
    let change = Change::insert(row(&[4, 4, 4, 4, 4, 4], 4), &OPERATORS);
    let before = row(&[0, 0, 0, 0, 0, 0], 0);
    assert_eq!(
        change.apply(Some(before)),
        Some(row(&[4, 4, 4, 4, 4, 4], 4))
    );
}

#[test]
fn inserts_without_operators_are_whole_row_upserts() {
    let whole = row(&[1, 2], 3);
    assert_eq!(Change::insert(whole.clone(), &[]), Change::upsert(whole));
}

fn check_halves(change: &TestChange, of_row: (TestRow, Option<TestRow>), of_none: Option<TestRow>) {
    assert_eq!(change.apply(Some(of_row.0)), of_row.1);
    assert_eq!(change.apply(None), of_none);
    assert_eq!(&stored_and_read(change), change);
}

fn kinds(change: &TestChange) -> Vec<u8> {
    change
        .to_stored()
        .iter()
        .map(|stored| stored.kind.bits())
        .collect()
}

#[test]
fn update_then_partial_upsert_needs_two_rows_for_its_halves_disagree() {
    let update = Change::update(sets(&[(0, 7)], 1));
    let upsert = Change::upsert_columns(sets(&[(1, 8)], 2), row(&[0, 0], 2));
    let change = update.then(upsert);

    // A row shows the update; no row was not updated, so it has the default in that column.
    let updated = Row::new(vec![cell(7, 1), cell(8, 2)]);
    check_halves(
        &change,
        (row(&[3, 3], 0), Some(updated)),
        Some(row(&[0, 8], 2)),
    );
    assert!(!change.halves_agree());
    assert_eq!(kinds(&change), [7, 1]);
}

#[test]
fn halves_with_equal_values_but_other_versions_disagree() {
    let update = Change::update(sets(&[(0, 0)], 1));
    let change = update.then(Change::upsert_columns(sets(&[(1, 8)], 2), row(&[0, 0], 2)));
    assert!(!change.halves_agree());
    assert_eq!(kinds(&change), [7, 1]);
}

#[test]
fn delete_then_insert_if_absent_is_a_whole_row_upsert() {
    let change = Change::delete().then(Change::insert_if_absent(row(&[1, 2], 5)));
    assert_eq!(change, Change::upsert(row(&[1, 2], 5)));
    assert_eq!(kinds(&change), [2]);
}

#[test]
fn insert_if_absent_after_delete_inserts_whatever_was_deleted() {
    let change = Change::delete().then(Change::insert_if_absent(row(&[1, 2], 5)));
    let inserted = Some(row(&[1, 2], 5));
    check_halves(&change, (row(&[9, 9], 0), inserted.clone()), inserted);
}

#[test]
fn insert_if_absent_leaves_a_row_and_its_versions() {
    let change = Change::insert_if_absent(row(&[1, 2], 5));
    let there = row(&[9, 9], 0);
    check_halves(&change, (there.clone(), Some(there)), Some(row(&[1, 2], 5)));
    assert_eq!(kinds(&change), [3]);
}

#[test]
fn the_first_insert_if_absent_wins() {
    let first = Change::insert_if_absent(row(&[1, 2], 5));
    let second = Change::insert_if_absent(row(&[3, 4], 6));
    assert_eq!(first.clone().then(second), first);
}

#[test]
fn insert_or_update_over_nothing_inserts_the_row_without_the_update() {
    let change = Change::insert_or_update(row(&[1, 1], 4), sets(&[(1, 6)], 4));
    assert_eq!(change.apply(None), Some(row(&[1, 1], 4)));
    assert_eq!(kinds(&change), [7, 1]);
}

#[test]
fn insert_or_update_over_a_row_sets_its_columns_only() {
    let change = Change::insert_or_update(row(&[1, 1], 4), sets(&[(1, 6)], 4));
    let updated = Row::new(vec![cell(9, 0), cell(6, 4)]);
    assert_eq!(change.apply(Some(row(&[9, 9], 0))), Some(updated));
}

#[test]
fn delete_then_update_is_a_delete() {
    let change = Change::delete().then(Change::update(sets(&[(0, 7)], 1)));
    assert_eq!(change, Change::delete());
    assert_eq!(kinds(&change), [0]);
}

#[test]
fn partial_upserts_that_cover_the_columns_make_a_whole_row_upsert() {
    let left = Change::upsert_columns(sets(&[(0, 7)], 1), row(&[0, 0], 1));
    let right = Change::upsert_columns(sets(&[(1, 8)], 2), row(&[0, 0], 2));
    let change = left.then(right);
    assert_eq!(
        change,
        Change::upsert(Row::new(vec![cell(7, 1), cell(8, 2)]))
    );
    assert!(change.is_total());
}

#[test]
fn an_update_of_all_columns_is_not_total_for_it_makes_nothing_of_no_row() {
    let change = Change::update(sets(&[(0, 7), (1, 8)], 1));
    assert!(!change.is_total());
    assert_eq!(change.apply(None), None);
}

#[test]
fn equality_includes_versions() {
    assert_ne!(Change::upsert(row(&[1], 1)), Change::upsert(row(&[1], 2)));
    assert_ne!(
        Change::update(sets(&[(0, 1)], 1)),
        Change::update(sets(&[(0, 1)], 2))
    );
    let later = Version {
        time_micros: 99,
        ..version(1)
    };
    let other_time = Row::new(vec![Cell {
        value: 1,
        version: later,
    }]);
    assert_ne!(Change::upsert(row(&[1], 1)), Change::upsert(other_time));
}

#[test]
fn a_rows_version_is_the_greatest_of_its_cells_by_scu_and_not_by_clock() {
    let old = Cell {
        value: 0,
        version: Version {
            scu: 1,
            time_micros: 1_000,
        },
    };
    let new = Cell {
        value: 0,
        version: Version {
            scu: 2,
            time_micros: 10,
        },
    };
    assert_eq!(
        Row::new(vec![old, new.clone()]).version(),
        Some(new.version)
    );
    assert_eq!(row(&[], 1).version(), None);
}

#[test]
#[should_panic(expected = "beyond its row's 1")]
fn halves_of_different_schemas_are_refused() {
    let _ = Change::insert_or_update(row(&[1], 1), sets(&[(1, 1)], 1));
}

#[test]
fn only_five_bytes_are_kinds() {
    let valid = |byte: &u8| StoredKind::try_from(*byte).is_ok();
    assert_eq!(
        (0..=u8::MAX).filter(valid).collect::<Vec<_>>(),
        [0, 1, 2, 3, 7]
    );
    assert_eq!(StoredKind::try_from(4), Err(StoredError::UnknownKind(4)));
}

fn stored(kind: StoredKind, mask: Option<&[usize]>, cells: &[Option<u8>]) -> StoredRow<u8> {
    let sets = mask.map(|mask| mask.iter().copied().collect());
    let cells = cells.iter().map(|value| Some(cell((*value)?, 1))).collect();
    StoredRow {
        kind,
        sets,
        combines: BTreeMap::new(),
        cells,
    }
}

#[test]
fn stored_spellings_that_are_never_written_are_still_read() {
    let covered = stored(StoredKind::BOTH, Some(&[0, 1]), &[Some(1), Some(2)]);
    assert_eq!(
        Change::from_stored(&[covered]),
        Ok(Change::upsert(row(&[1, 2], 1)))
    );

    let first = stored(StoredKind::SPLIT, None, &[Some(1), Some(2)]);
    let second = stored(StoredKind::UPDATE, Some(&[1]), &[None, Some(2)]);
    let agreeing = Change::upsert_columns(sets(&[(1, 2)], 1), row(&[1, 0], 1));
    assert_eq!(Change::from_stored(&[first, second]), Ok(agreeing));
}

#[test]
fn torn_pairs_and_loose_rows_are_refused() {
    let first = stored(StoredKind::SPLIT, None, &[Some(1)]);
    let second = stored(StoredKind::UPDATE, Some(&[0]), &[Some(2)]);
    let refused = |rows: &[StoredRow<u8>], kinds: &[u8]| {
        let kinds = kinds.to_vec();
        assert_eq!(
            Change::from_stored(rows),
            Err(StoredError::NotOneChange { kinds })
        );
    };
    refused(&[], &[]);
    refused(std::slice::from_ref(&first), &[7]);
    refused(&[second.clone(), first.clone()], &[1, 7]);
    refused(&[first.clone(), first.clone()], &[7, 7]);
    refused(&[second.clone(), second.clone()], &[1, 1]);
    refused(&[first, second.clone(), second], &[7, 1, 1]);
}

#[test]
fn stored_rows_whose_mask_or_cells_contradict_the_kind_are_refused() {
    let refused = |row, error| assert_eq!(Change::from_stored(&[row]), Err(error));
    let (delete, update) = (StoredKind::DELETE, StoredKind::UPDATE);
    let (upsert, both) = (StoredKind::UPSERT, StoredKind::BOTH);
    refused(
        stored(delete, Some(&[]), &[]),
        StoredError::MaskUnexpected(delete),
    );
    refused(stored(update, None, &[]), StoredError::MaskMissing(update));
    refused(
        stored(both, None, &[Some(1)]),
        StoredError::MaskMissing(both),
    );
    let unexpected = |kind, ordinal| StoredError::CellUnexpected { kind, ordinal };
    refused(
        stored(delete, None, &[None, Some(1)]),
        unexpected(delete, 1),
    );
    refused(
        stored(update, Some(&[1]), &[Some(1), Some(1)]),
        unexpected(update, 0),
    );
    let missing = |kind, ordinal| StoredError::CellMissing { kind, ordinal };
    refused(stored(upsert, None, &[Some(1), None]), missing(upsert, 1));
    refused(stored(update, Some(&[2]), &[]), missing(update, 2));
    refused(stored(both, Some(&[1]), &[Some(1)]), missing(both, 1));
}

#[test]
fn columns_that_are_combined_but_left_are_refused() {
    let mut update = stored(StoredKind::UPDATE, Some(&[1]), &[None, Some(1)]);
    update.combines.insert(0, MergeOperator::Sum);
    let error = StoredError::CombineUnmasked {
        kind: StoredKind::UPDATE,
        ordinal: 0,
    };
    assert_eq!(Change::from_stored(&[update]), Err(error));
}

#[test]
fn a_pair_that_sets_columns_beyond_its_row_is_refused() {
    let first = stored(StoredKind::SPLIT, None, &[Some(1)]);
    let second = stored(StoredKind::UPDATE, Some(&[1]), &[None, Some(2)]);
    let error = StoredError::BeyondRow {
        ordinal: 1,
        width: 1,
    };
    assert_eq!(Change::from_stored(&[first, second]), Err(error));
}
