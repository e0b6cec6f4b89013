//! Tests of `pipeline`.

use std::collections::BTreeMap;
use std::sync::Arc;

use lazybase_engine::key::Key;
use lazybase_engine::manifest::{
    KeyRange, Manifest, RangeState, Run, RunId, RunKind, RunRef, ScuTime, SegmentFormat,
    SegmentMeta, TableState,
};
use lazybase_model::{DatabaseId, ScuNumber, Span, Table, TableId, ViewId};

use super::{Boundaries, staleness_micros};

fn run(id: u64, kind: RunKind, first: u64, last: u64) -> Arc<Run> {
    Arc::new(Run {
        id: RunId(id),
        view: ViewId(1),
        kind,
        span: Span::new(ScuNumber(first), ScuNumber(last)),
        changes_through: ScuNumber(last),
        segments: vec![Arc::new(segment(id))],
        part: 0,
    })
}

fn segment(id: u64) -> SegmentMeta {
    let key = Key::new([1]);
    SegmentMeta {
        file: format!("segments/{id}.ext"),
        format: SegmentFormat::Extent,
        rows: 1,
        bytes: 1,
        raw_bytes: 1,
        index_offset: 0,
        index_crc: 0,
        min_key: key.clone(),
        max_key: key,
        all_upserts: true,
        newest_scu: ScuNumber(1),
        moments_through: None,
    }
}

/// A sorted run that nothing changed since its first SCU.
fn still(id: u64, first: u64, last: u64) -> Arc<Run> {
    let mut still = run(id, RunKind::Sorted, first, last).as_ref().clone();
    still.changes_through = ScuNumber(first);
    Arc::new(still)
}

fn table(ranges: Vec<Vec<u64>>) -> Arc<TableState> {
    let range = |runs: Vec<u64>| RangeState {
        range: KeyRange::default(),
        // Run 6 is the superseded one.
        runs: runs
            .into_iter()
            .map(|id| RunRef {
                id: RunId(id),
                superseded_micros: (id == 6).then_some(1),
            })
            .collect(),
    };
    Arc::new(TableState {
        table: Arc::new(Table {
            hidden_key: true,
            ..Table::new(TableId(1), ViewId(1), "t", Vec::new(), &[])
        }),
        older: Vec::new(),
        created_after: ScuNumber(0),
        ranges: ranges.into_iter().map(range).map(Arc::new).collect(),
    })
}

fn manifest(runs: Vec<Arc<Run>>, ranges: Vec<Vec<u64>>) -> Manifest {
    let time = |scu: u64| ScuTime {
        first_ack_micros: scu as i64 * 1_000,
        last_ack_micros: scu as i64 * 1_000 + 500,
        batches_through: scu,
    };
    let database = DatabaseId {
        database: 1,
        history: 1,
    };
    Manifest {
        next_table: 2,
        next_view: 2,
        next_run: 100,
        sealed_through: ScuNumber(10),
        sorted_through: ScuNumber(9),
        tables: BTreeMap::from([(TableId(1), table(ranges))]),
        times: (1..=10).map(|scu| (ScuNumber(scu), time(scu))).collect(),
        runs: runs.into_iter().map(|run| (run.id, run)).collect(),
        ..Manifest::created(database, 0)
    }
}

#[test]
fn the_slowest_range_decides() {
    let runs = vec![
        run(1, RunKind::Base, 1, 4),
        run(2, RunKind::Merged, 5, 7),
        run(3, RunKind::Sorted, 8, 9),
        run(4, RunKind::Base, 1, 6),
        run(5, RunKind::Sorted, 7, 9),
        run(6, RunKind::Base, 1, 2),
    ];
    let manifest = manifest(runs, vec![vec![6, 1, 2, 3], vec![4, 5]]);
    let reached = Boundaries::of(&manifest);
    let expected = Boundaries {
        ingested: 10,
        sorted: 9,
        merged: 6,
        authority: 4,
    };
    assert_eq!(reached, expected);
    assert_eq!(reached.scus(), [1, 3, 2, 4]);
}

#[test]
fn a_range_where_nothing_is_left_to_do_holds_nothing_up() {
    let runs = vec![
        run(1, RunKind::Base, 1, 8),
        run(2, RunKind::Sorted, 9, 9),
        still(3, 1, 9),
    ];
    let reached = Boundaries::of(&manifest(runs, vec![vec![1, 2], vec![3]]));
    assert_eq!((reached.merged, reached.authority), (8, 8));
    let changing = vec![run(1, RunKind::Base, 1, 8), run(2, RunKind::Sorted, 1, 9)];
    let reached = Boundaries::of(&manifest(changing, vec![vec![1], vec![2]]));
    assert_eq!(
        reached.authority, 0,
        "one run, but of an SCU that has just come"
    );
}

#[test]
fn staleness_is_since_the_first_batch_left_out() {
    let manifest = manifest(Vec::new(), Vec::new());
    assert_eq!(staleness_micros(&manifest, 4, 12_000), 7_000);
    assert_eq!(staleness_micros(&manifest, 10, 12_000), 0);
    assert_eq!(Boundaries::of(&manifest).authority, 9);
}
