//! Edits by hand, and random ones against what each run must hold.

use std::collections::{BTreeMap, BTreeSet};

use lazybase_model::{
    ErrorKind, Horizon, NextIds, SchemaVersion, ScuNumber, Span, TableId, UsedColumn, UsedTable,
    ViewId, ViewQuery,
};
use proptest::prelude::*;

use super::*;
use crate::manifest::check::check_commit;
use crate::manifest::testing::{Draw, Story, key, segment, table};

fn kind_of(result: lazybase_model::Result<&Manifest>) -> ErrorKind {
    result.expect_err("the edit must be refused").kind()
}

#[test]
fn a_table_of_an_empty_database_has_an_empty_base() {
    let mut story = Story::new();
    let view = story.create_table("t");
    assert_eq!(story.current(view, 0), "1..=0");
    story.seal();
    story.sort(&[view], 1);
    assert_eq!(story.current(view, 0), "1..=0 1..=1");
    let other = story.create_table("u");
    assert_eq!(story.current(other, 0), "1..=1");
    story.merge(view, 0, 0, 2);
    assert_eq!(story.current(view, 0), "1..=1");
    assert_eq!(story.superseded(view, 0), "1..=0 1..=1");
}

#[test]
fn views_that_an_scu_leaves_alone_are_extended() {
    let mut story = Story::new();
    let (a, b) = (story.create_table("a"), story.create_table("b"));
    for _ in 0..3 {
        story.seal();
    }
    let late = story.create_table("late");
    assert_eq!(story.manifest.tables[&TableId(3)].created_after.0, 3);
    assert_eq!(story.current(late, 0), "1..=0");
    story.sort(&[a], 1);
    story.sort(&[a, b], 1);
    story.sort(&[b], 1);
    assert_eq!(story.current(a, 0), "1..=0 1..=1 2..=3");
    assert_eq!(story.current(b, 0), "1..=1 2..=2 3..=3");
    assert_eq!(story.current(late, 0), "1..=3");
    let run = &story.manifest.edges(story.range(a, 0))[2];
    assert_eq!((run.changes_through.0, run.span.last.0), (2, 3));
}

#[test]
fn a_merge_is_extended_as_its_last_input_was_meanwhile() {
    let mut story = Story::new();
    let (a, b) = (story.create_table("a"), story.create_table("b"));
    for _ in 0..4 {
        story.seal();
    }
    story.sort(&[a], 2);
    story.sort(&[a], 1);
    let edit = story.merge_edit(a, 0, 1, 3);
    story.sort(&[b], 1);
    let Edit::Merged {
        mut output,
        view,
        low,
        inputs,
        clock_micros,
    } = edit
    else {
        unreachable!()
    };
    output.id = RunId(story.manifest.next_run);
    let edit = Edit::Merged {
        output,
        view,
        low,
        inputs,
        clock_micros,
    };
    story.apply(edit.clone());
    assert_eq!(story.current(a, 0), "1..=0 1..=3");
    assert_eq!(story.superseded(a, 0), "1..=1 1..=1 2..=3");
    // What was superseded is extended too: it is still a true path.
    story.sort(&[b], 1);
    assert_eq!(story.superseded(a, 0), "1..=1 1..=1 2..=4");
    assert_eq!(kind_of(story.try_apply(edit)), ErrorKind::Conflict);
}

#[test]
fn merges_that_do_not_fit_are_refused() {
    let mut story = Story::new();
    let view = story.create_table("t");
    for _ in 0..3 {
        story.seal();
        story.sort(&[view], 1);
    }
    let change = |change: fn(&mut Vec<RunId>, &mut Run)| {
        let mut edit = story.merge_edit(view, 0, 1, 4);
        if let Edit::Merged { inputs, output, .. } = &mut edit {
            change(inputs, output);
        }
        story.clone().try_apply(edit).map(|_| ()).unwrap_err()
    };
    let gap = change(|inputs, _| inputs.retain(|run| run.0 != 3));
    assert_eq!(gap.kind(), ErrorKind::Internal);
    assert_eq!(
        gap.message(),
        "edit 9 (merged): r5 joins 1..=1 and 3..=3 across a gap"
    );
    let kinds: Vec<ErrorKind> = [
        change(|inputs, _| inputs.clear()),
        change(|_, output| output.span.last = ScuNumber(2)),
        change(|_, output| output.changes_through = ScuNumber(2)),
        change(|_, output| output.kind = RunKind::Base),
        change(|inputs, _| inputs.push(RunId(77))),
        change(|_, output| output.id = RunId(1)),
    ]
    .iter()
    .map(lazybase_model::Error::kind)
    .collect();
    use ErrorKind::{Conflict, Internal};
    assert_eq!(
        kinds,
        [Internal, Internal, Internal, Internal, Conflict, Conflict]
    );
}

#[test]
fn ranges_supersede_shared_runs_one_by_one() {
    let mut story = Story::new();
    let view = story.create_table("t");
    story.seal();
    story.sort(&[view], 1);
    story.apply(Edit::SplitRange {
        view,
        low: None,
        at: key(50),
    });
    story.merge(view, 0, 0, 2);
    assert_eq!(story.current(view, 0), "1..=1");
    assert_eq!(story.current(view, 1), "1..=0 1..=1");
    let retire = |story: &Story, range: usize| Edit::Retire {
        runs: vec![RetiredRun {
            view,
            low: story.range(view, range).range.low.clone(),
            run: RunId(2),
        }],
        scus: vec![],
        times_before: ScuNumber(0),
    };
    let right = retire(&story, 1);
    assert_eq!(kind_of(story.try_apply(right)), ErrorKind::Conflict);
    let left = retire(&story, 0);
    assert!(story.apply(left).runs.contains_key(&RunId(2)));
    story.merge(view, 1, 0, 2);
    let right = retire(&story, 1);
    assert!(!story.apply(right).runs.contains_key(&RunId(2)));
}

#[test]
fn ranges_that_an_edit_leaves_alone_stay_the_values_that_they_were() {
    let mut story = Story::new();
    let view = story.create_table("t");
    story.seal();
    story.sort(&[view], 1);
    story.apply(Edit::SplitRange {
        view,
        low: None,
        at: key(100),
    });
    let ranges = |story: &Story| story.manifest.tables[&TableId(1)].ranges.clone();
    let before = ranges(&story);
    story.merge(view, 1, 0, 2);
    let after = ranges(&story);
    let pairs = before.iter().zip(&after);
    let same: Vec<bool> = pairs.map(|(one, other)| Arc::ptr_eq(one, other)).collect();
    assert_eq!(same, [true, false]);
}

#[test]
fn a_moved_segment_is_one_value() {
    let mut story = Story::new();
    let view = story.create_table("t");
    story.seal();
    story.sort(&[view], 1);
    let mut edit = story.merge_edit(view, 0, 0, 2);
    if let Edit::Merged { output, .. } = &mut edit {
        output.segments = vec![segment("r2", 0, 200, 1), segment("new", 201, 202, 1)];
    }
    let manifest = story.apply(edit);
    let (sorted, base) = (&manifest.runs[&RunId(2)], &manifest.runs[&RunId(3)]);
    assert!(Arc::ptr_eq(&sorted.segments[0], &base.segments[0]));
}

#[test]
fn truncation_needs_everything_sorted_and_cuts_older_runs() {
    let mut story = Story::new();
    let (a, b) = (story.create_table("a"), story.create_table("b"));
    for _ in 0..3 {
        story.seal();
    }
    let edit = Edit::TruncateTable {
        table: TableId(1),
        clock_micros: 5,
    };
    assert_eq!(kind_of(story.try_apply(edit.clone())), ErrorKind::Conflict);
    story.sort(&[a], 1);
    story.sort(&[a], 1);
    story.sort(&[b], 1);
    story.apply(edit.clone());
    assert_eq!(story.current(a, 0), "1..=3");
    assert_eq!(story.superseded(a, 0), "1..=0 1..=1 2..=2");
    let edges = story.manifest.edges(story.range(a, 0));
    let paths = crate::manifest::graph::Paths::new(&edges);
    assert_eq!(paths.path_to(ScuNumber(2)), Some(vec![1, 3]));
    assert_eq!(
        paths
            .path_to(ScuNumber(3))
            .map(|path| edges[path[0]].runs.len()),
        Some(1)
    );
    story.seal();
    story.sort(&[b], 1);
    assert_eq!(story.current(a, 0), "1..=4");
    assert_eq!(story.superseded(a, 0), "1..=0 1..=1 2..=2");
    // An SCU that changed the table last has no older boundary to end at: it goes.
    story.apply(Edit::TruncateTable {
        table: TableId(2),
        clock_micros: 6,
    });
    assert_eq!(story.superseded(b, 0), "1..=2 3..=3");
}

#[test]
fn a_boundary_keeps_what_a_transaction_with_an_scu_of_its_own_takes_away() {
    let mut story = Story::new();
    let (a, b) = (story.create_table("a"), story.create_table("b"));
    story.seal();
    story.seal();
    let truncate = |table: u32| Edit::Transaction {
        ddl: vec![Ddl::Truncate {
            table: TableId(table),
        }],
        batch: Some(9),
        own_scu: true,
        clock_micros: 9_000_000,
    };
    let early = kind_of(story.try_apply(truncate(1)));
    assert_eq!(early, ErrorKind::Conflict);
    story.sort(&[b], 1);
    story.sort(&[a], 1);
    story.apply(truncate(1));
    let now = &story.manifest;
    assert_eq!(
        (now.sealed_through, now.sorted_through),
        (ScuNumber(3), ScuNumber(3))
    );
    assert_eq!(now.times[&ScuNumber(3)].last_ack_micros, 9_000_000);
    let batches = now.times[&ScuNumber(2)].batches_through;
    assert_eq!(now.times[&ScuNumber(3)].batches_through, batches);
    assert_eq!(now.ddl_batch.unwrap().scu, ScuNumber(4));
    // At SCU 2 the table has what it had; other tables do not notice.
    assert_eq!(story.current(a, 0), "1..=3");
    assert_eq!(story.superseded(a, 0), "1..=1 2..=2");
    assert_eq!(story.current(b, 0), "1..=0 1..=3");
}

#[test]
fn dropped_tables_take_their_runs_along() {
    let mut story = Story::new();
    let (a, b) = (story.create_table("a"), story.create_table("b"));
    story.seal();
    let sorted = story.sort_edit(&[a, b], 1);
    let merged = story.merge_edit(a, 0, 0, 1);
    story.apply(Edit::DropTable { table: TableId(1) });
    assert!(story.manifest.runs.values().all(|run| run.view == b));
    assert_eq!(kind_of(story.try_apply(merged)), ErrorKind::NotFound);
    story.apply(sorted);
    assert!(story.manifest.runs.values().all(|run| run.view == b));
    let again = story.create_table("a");
    assert_eq!(again, ViewId(3));
}

#[test]
fn numbers_that_were_given_out_are_refused() {
    let mut story = Story::new();
    story.create_table("t");
    let mut table = (*story.manifest.tables[&TableId(1)].table).clone();
    let same_name = Edit::CreateTable {
        table: table.clone(),
    };
    assert_eq!(kind_of(story.try_apply(same_name)), ErrorKind::Conflict);
    table.name = "other".to_owned();
    assert_eq!(
        kind_of(story.try_apply(Edit::CreateTable { table })),
        ErrorKind::Conflict
    );
    let seal = story.seal_edit();
    story.apply(seal.clone());
    assert_eq!(kind_of(story.try_apply(seal)), ErrorKind::Conflict);
    let open = Edit::OpenProducer {
        name: "loader".to_owned(),
        epoch: 1,
        owner: None,
    };
    story.apply(open.clone());
    assert_eq!(kind_of(story.try_apply(open)), ErrorKind::Conflict);
    // An SCU that was open meanwhile does not bring the older session back.
    story.seal();
    assert_eq!(story.manifest.producers["loader"].epoch, 1);
}

fn create(name: &str, id: u32) -> Ddl {
    Ddl::Create {
        table: table(name, id, id),
    }
}

fn transaction(ddl: Vec<Ddl>, batch: Option<u64>) -> Edit {
    Edit::Transaction {
        ddl,
        batch,
        own_scu: false,
        clock_micros: 0,
    }
}

#[test]
fn a_transaction_happens_in_its_order_or_not_at_all() {
    let mut story = Story::new();
    story.create_table("t");
    let before = story.manifest.clone();
    let drop = |id| Ddl::Drop { table: TableId(id) };
    // The name is free once the table is dropped, and not before.
    let early = transaction(vec![create("t", 2), drop(1)], Some(7));
    assert_eq!(kind_of(story.try_apply(early)), ErrorKind::Conflict);
    let twice = transaction(vec![drop(1), drop(1)], None);
    assert_eq!(kind_of(story.try_apply(twice)), ErrorKind::NotFound);
    assert_eq!(story.manifest, before);
    story.apply(transaction(vec![drop(1), create("t", 2)], Some(7)));
    assert_eq!(
        story.manifest.table_named("t").unwrap().table.id,
        TableId(2)
    );
    assert!(story.manifest.counts(ScuNumber(1), Some(7)));
    assert!(story.manifest.counts(ScuNumber(1), None));
    assert!(!story.manifest.counts(ScuNumber(1), Some(8)));
    assert!(!story.manifest.counts(ScuNumber(2), Some(7)));
    // Its batch is in the SCU after the boundary, which must be sealed before the next DDL.
    let next = transaction(vec![create("u", 3)], None);
    assert_eq!(kind_of(story.try_apply(next.clone())), ErrorKind::Internal);
    story.seal();
    assert_eq!(story.manifest.scus[&ScuNumber(1)].ddl_batch, Some(7));
    story.apply(next);
    assert_eq!(
        story.manifest.least_horizon(),
        Horizon::inside(ScuNumber(1), 1)
    );
}

#[test]
fn ids_may_be_left_out_and_come_late_but_not_be_used_twice() {
    let mut story = Story::new();
    story.apply(transaction(vec![create("late", 5)], None));
    assert_eq!(story.manifest.next_table, 6);
    story.apply(transaction(vec![create("early", 2)], None));
    assert_eq!(
        (story.manifest.next_table, story.manifest.next_view),
        (6, 6)
    );
    let used = transaction(vec![create("again", 5)], None);
    assert_eq!(kind_of(story.try_apply(used)), ErrorKind::Conflict);
}

#[test]
fn what_was_granted_goes_with_what_it_is_for() {
    use lazybase_model::access::{AccessChange, Object, Privilege, Role, RoleId};

    let mut story = Story::new();
    story.create_table("t");
    let role = RoleId(1);
    let access = |change| transaction(vec![Ddl::Access { change }], None);
    story.apply(access(AccessChange::CreateRole {
        role: Role::new(role, "anna"),
    }));
    let table = story.manifest.table_named("t").unwrap().table.clone();
    let grant = |on| AccessChange::Grant {
        on,
        to: role,
        privileges: [Privilege::Select].into(),
    };
    let column = table.columns.last().unwrap().id;
    story.apply(access(grant(Object::Table(table.id))));
    story.apply(access(grant(Object::Column(table.id, column))));
    let gone = access(grant(Object::Table(TableId(99))));
    assert_eq!(kind_of(story.try_apply(gone)), ErrorKind::NotFound);
    let gone = access(grant(Object::Column(
        table.id,
        lazybase_model::ColumnId(99),
    )));
    assert_eq!(kind_of(story.try_apply(gone)), ErrorKind::NotFound);
    let name = table.columns.last().unwrap().name.clone();
    let drop = story.alter_edit(&table, &[crate::schema::Alteration::DropColumn(name)]);
    story.apply(drop);
    let left = &story.manifest.access.objects[&table.id];
    assert!(left.columns.is_empty() && left.grants.len() == 1);
    story.apply(transaction(vec![Ddl::Drop { table: table.id }], None));
    assert!(story.manifest.access.objects.is_empty());
    // An id that is taken meanwhile, and an order that can't be kept.
    let again = access(AccessChange::CreateRole {
        role: Role::new(role, "bert"),
    });
    assert_eq!(kind_of(story.try_apply(again)), ErrorKind::Conflict);
}

/// A plain view that reads the first column of something.
fn plain_view(id: u32, name: &str, of: &Table) -> Table {
    let column = of.columns[0].clone();
    let used = UsedColumn {
        id: column.id,
        name: column.name.clone(),
        read: true,
    };
    let query = ViewQuery {
        text: format!("SELECT {} FROM {}", column.name, of.name),
        renamed: false,
        uses: vec![UsedTable {
            name: of.name.clone(),
            table: of.id,
            columns: vec![used],
        }],
    };
    Table::plain_view(TableId(id), name, vec![column], query)
}

#[test]
fn plain_views_have_names_ids_and_versions_as_tables_have() {
    let mut story = Story::new();
    story.create_table("t");
    let t = story.manifest.table_named("t").unwrap().table.clone();
    let create = |view: &Table| Ddl::CreatePlainView { view: view.clone() };
    let first = plain_view(2, "v", &t);
    story.apply(transaction(vec![create(&first)], None));
    assert_eq!(story.manifest.next_table, 3);
    let taken = plain_view(3, "t", &t);
    let refused = story.try_apply(transaction(vec![create(&taken)], None));
    assert_eq!(kind_of(refused), ErrorKind::Conflict);
    let same_id = plain_view(2, "w", &t);
    let refused = story.try_apply(transaction(vec![create(&same_id)], None));
    assert_eq!(kind_of(refused), ErrorKind::Conflict);
    let named = Ddl::Create {
        table: table("v", 3, 3),
    };
    let refused = story.try_apply(transaction(vec![named], None));
    assert_eq!(kind_of(refused), ErrorKind::Conflict);

    let alter = |base: u32, next: u32, view: &Table| Ddl::AlterPlainView {
        base: SchemaVersion(base),
        view: Table {
            version: SchemaVersion(next),
            ..view.clone()
        },
    };
    let renamed = Table {
        name: "w".to_owned(),
        ..first.clone()
    };
    story.apply(transaction(vec![alter(0, 4, &renamed)], None));
    assert!(story.manifest.plain_view_named("v").is_none());
    let late = story.try_apply(transaction(vec![alter(0, 5, &first)], None));
    assert_eq!(kind_of(late), ErrorKind::Conflict);

    // One reads the other; then it can't be the other way round.
    let other = plain_view(3, "x", &renamed);
    story.apply(transaction(vec![create(&other)], None));
    let circle = Table {
        query: plain_view(2, "w", &other).query,
        ..renamed.clone()
    };
    let refused = story.try_apply(transaction(vec![alter(4, 6, &circle)], None));
    assert_eq!(kind_of(refused), ErrorKind::Conflict);

    let drop = |view: u32| Ddl::DropPlainView {
        view: TableId(view),
    };
    story.apply(transaction(vec![drop(2), drop(3)], None));
    assert!(story.manifest.plain_views.is_empty());
    let again = story.try_apply(transaction(vec![drop(2)], None));
    assert_eq!(kind_of(again), ErrorKind::NotFound);
}

#[test]
fn plain_views_go_with_what_they_read_where_nobody_is_asked() {
    let mut story = Story::new();
    story.create_table("t");
    story.create_table("u");
    let named = |story: &Story, name| story.manifest.table_named(name).unwrap().table.clone();
    let (t, u) = (named(&story, "t"), named(&story, "u"));
    let of_t = plain_view(3, "of_t", &t);
    let of_view = plain_view(4, "of_view", &of_t);
    let of_u = plain_view(5, "of_u", &u);
    let create = |view: &Table| Ddl::CreatePlainView { view: view.clone() };
    let ddl = [&of_view, &of_t, &of_u].map(create);
    story.apply(transaction(ddl.to_vec(), None));
    let mut without = story.manifest.clone();
    without.tables.remove(&t.id);
    without.prune_plain_views();
    let left: Vec<TableId> = without.plain_views.keys().copied().collect();
    assert_eq!(left, [of_u.id]);
    // A column that nobody reads may go, one that is read may not.
    let mut columns = story.manifest.clone();
    let state = columns.tables.get_mut(&u.id).unwrap();
    let table = Arc::make_mut(&mut Arc::make_mut(state).table);
    table.columns.pop();
    assert!(columns.missing_for(&of_u).is_none());
    let state = columns.tables.get_mut(&u.id).unwrap();
    let table = Arc::make_mut(&mut Arc::make_mut(state).table);
    table.columns.clear();
    assert!(columns.missing_for(&of_u).is_some());
}

/// What each run holds, by what made it: the SCUs that changed its view.
#[derive(Default)]
struct Contents {
    runs: BTreeMap<RunId, BTreeSet<u64>>,
    changes: BTreeMap<ViewId, BTreeSet<u64>>,
    truncations: BTreeMap<ViewId, BTreeSet<u64>>,
}

impl Contents {
    fn see(&mut self, before: &Manifest, edit: &Edit) {
        match edit {
            Edit::Sorted { scu, runs } => {
                for run in runs {
                    self.runs.insert(run.id, BTreeSet::from([scu.0]));
                    self.changes.entry(run.view).or_default().insert(scu.0);
                }
            }
            Edit::Merged { inputs, output, .. } => {
                let all = inputs.iter().flat_map(|run| self.runs.get(run)).flatten();
                let all = all.copied().collect();
                self.runs.insert(output.id, all);
            }
            Edit::TruncateTable { table, .. } => {
                let view = before.tables[table].table.primary.id;
                let boundary = before.sealed_through.0;
                self.truncations.entry(view).or_default().insert(boundary);
            }
            Edit::Transaction { ddl, own_scu, .. } => {
                let boundary = before.sealed_through.0 + u64::from(*own_scu);
                for ddl in ddl {
                    if let Ddl::Truncate { table } = ddl {
                        let view = before.tables[table].table.primary.id;
                        self.truncations.entry(view).or_default().insert(boundary);
                    }
                }
            }
            _ => {}
        }
    }

    /// What an edge that ends at `end` must hold: nothing from before the last truncation.
    fn expected(&self, view: ViewId, span: Span, end: u64) -> BTreeSet<u64> {
        let empty = BTreeSet::new();
        let truncations = self.truncations.get(&view).unwrap_or(&empty);
        let cut = truncations.range(..=end).next_back().copied().unwrap_or(0);
        let start = span.start().0;
        assert!(cut <= start || start == 0, "an edge across a truncation");
        let changes = self.changes.get(&view).unwrap_or(&empty);
        let inside = |scu: &&u64| cut.max(start) < **scu && **scu <= end;
        changes.iter().filter(inside).copied().collect()
    }

    /// Every edge, left at any boundary that it allows, holds exactly the changes up to there.
    fn check(&self, manifest: &Manifest) {
        let nothing = BTreeSet::new();
        for (view, range) in manifest.all_ranges() {
            for edge in manifest.edges(range) {
                for end in edge.changes_through.0..=edge.span.last.0 {
                    let expected = self.expected(view, edge.span, end);
                    for run in &edge.runs {
                        let holds = self.runs.get(&run.id).unwrap_or(&nothing);
                        assert_eq!(holds, &expected, "{view} {edge:?} at {end}");
                    }
                }
            }
        }
    }
}

/// What definition each table had when an SCU was sealed.
#[derive(Default)]
struct Definitions(BTreeMap<ScuNumber, BTreeMap<TableId, SchemaVersion>>);

impl Definitions {
    fn see(&mut self, now: &Manifest) {
        let versions = now.tables.values().map(|t| (t.table.id, t.table.version));
        self.0
            .entry(now.sealed_through)
            .or_insert_with(|| versions.collect());
    }

    /// Every horizon whose time is known finds the definition that held there.
    fn check(&self, now: &Manifest) {
        let first = now.times.first_key_value().map(|(scu, _)| scu.previous());
        for (boundary, versions) in self.0.range(first.unwrap_or(now.sealed_through)..) {
            for (id, version) in versions {
                let state = now
                    .tables
                    .get(id)
                    .filter(|state| state.created_after < *boundary);
                let found = state.map(|state| state.at(*boundary).version);
                assert!(
                    found.is_none_or(|found| found == *version),
                    "{id} at {boundary}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn random_edits_keep_every_invariant_and_every_edge_true(seed: u64) {
        let (mut story, mut draw) = (Story::new(), Draw(seed));
        let mut contents = Contents::default();
        let mut definitions = Definitions::default();
        story.create_table("first");
        for _ in 0..150 {
            let Some(edit) = story.random_edit(&mut draw) else { continue };
            contents.see(&story.manifest, &edit);
            story.apply(edit);
            contents.check(&story.manifest);
            definitions.see(&story.manifest);
            definitions.check(&story.manifest);
        }
        let text = serde_json::to_string(&story.edits).unwrap();
        let read: Vec<Edit> = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&read, &story.edits);
        let mut replayed = Manifest::created(crate::manifest::testing::DATABASE, 0);
        for edit in &read[1..] {
            replayed = replayed.apply(edit).unwrap();
        }
        prop_assert_eq!(&replayed, &story.manifest);
        let text = serde_json::to_string(&replayed).unwrap();
        let read: Manifest = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&read, &story.manifest);
    }
}

#[test]
fn an_scu_with_natural_keys_is_remapped_before_it_is_sorted() {
    let mut story = Story::new();
    let map = story.create_owner();
    let scus = [story.seal_keys(map), story.seal_keys(map), story.seal()];
    assert_eq!(story.manifest.remapped_through(), ScuNumber::ZERO);
    let sort = story.sort_edit(&[], 1);
    assert_eq!(kind_of(story.try_apply(sort)), ErrorKind::Conflict);
    let mut next = NextIds::first(16);
    let mut remapped = |scu: ScuNumber| {
        next.give(scu.0);
        Edit::Remapped {
            through: scu,
            next_ids: BTreeMap::from([(scu, BTreeMap::from([(map, next.clone())]))]),
        }
    };
    let (first, second) = (remapped(scus[0]), remapped(scus[1]));
    story.apply(first.clone());
    assert_eq!(story.manifest.remapped_through(), scus[0]);
    story.sort(&[], 1);
    assert_eq!(kind_of(story.try_apply(first.clone())), ErrorKind::Conflict);
    story.apply(second);
    assert_eq!(story.manifest.remapped_through(), scus[2]);
    story.sort(&[], 1);
    story.sort(&[], 1);
    let newest = story.manifest.next_ids_at(map, scus[2]);
    assert_eq!(newest.map(|next| next.given()), Some(2));
    let before = story.manifest.next_ids_at(map, scus[0]);
    assert_eq!(before.map(|next| next.given()), Some(1));
    let scu = story.seal_keys(map);
    let lower = Edit::Remapped {
        through: scu,
        next_ids: BTreeMap::from([(scu, BTreeMap::from([(map, NextIds::first(16))]))]),
    };
    let next = story.manifest.apply(&lower).unwrap();
    let error = check_commit(&story.manifest, &next).unwrap_err();
    assert!(error.message().contains("MAN-16"), "{error}");
    story.apply(Edit::DropTable { table: map });
    assert!(story.manifest.next_ids.is_empty());
}
