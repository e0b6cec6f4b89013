//! Scans that are cut into parts read each row once, in order, and the parts are of one size.

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Int64Type};
use lazybase_model::{Column, Stage, Table, TableId, ViewId};
use proptest::prelude::*;

use super::*;
use crate::change_batch::ChangeBatch;
use crate::read::source::Chunk;
use crate::segment::RowLayout;

fn layout() -> Arc<RowLayout> {
    let columns = vec![Column::new("id", DataType::Int64)];
    let table = Table::new(TableId(1), ViewId(1), "t", columns, &[0]);
    Arc::new(RowLayout::primary(&Arc::new(table)).unwrap())
}

fn rows(layout: &RowLayout, keys: impl IntoIterator<Item = i64>) -> ChangeBatch {
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(keys));
    let data = RecordBatch::try_new(Arc::clone(&layout.schema), vec![keys]).unwrap();
    ChangeBatch::upserts(data, 1)
}

fn source(layout: &RowLayout, chunks: &[Vec<i64>]) -> Source {
    let chunk = |keys: &Vec<i64>| Chunk::new(layout, rows(layout, keys.clone())).unwrap();
    Source::Memory {
        stage: Stage::Open,
        name: "chunks".to_owned(),
        chunks: Arc::new(chunks.iter().map(chunk).collect()),
        own: false,
    }
}

fn key(layout: &RowLayout, id: i64) -> Key {
    let keys = layout.codec.encode(&rows(layout, [id]).data).unwrap();
    Key::new(keys.row(0).data())
}

/// The keys of a source's pieces that lie in a range.
fn keys_in(layout: &RowLayout, sources: &[Source], of: &Stretch, range: &KeyRange) -> Vec<i64> {
    let Source::Memory { chunks, .. } = &sources[of.source] else {
        panic!("all sources are in memory");
    };
    let clipped = chunks[of.pieces.clone()].iter().map(|chunk| {
        let clipped = chunk.rows.clip(&layout.codec, range).unwrap();
        let keys = clipped.data.column(0).as_primitive::<Int64Type>();
        keys.values().to_vec()
    });
    clipped.collect::<Vec<_>>().concat()
}

/// What a step reads: keys with the source that they are of, in the order of keys.
fn read(layout: &RowLayout, sources: &[Source], step: &ReadStep) -> Vec<(i64, usize)> {
    let (stretches, range) = match step {
        ReadStep::Alone {
            stretch,
            range,
            whole,
        } => {
            let all = keys_in(layout, sources, stretch, &KeyRange::default());
            let inside = keys_in(layout, sources, stretch, range);
            assert!(!whole || all == inside, "whole pieces need no clipping");
            (std::slice::from_ref(stretch), range)
        }
        ReadStep::Reconcile { stretches, range } => (stretches.as_slice(), range),
    };
    let of_stretch = |of: &Stretch| {
        let keys = keys_in(layout, sources, of, range).into_iter();
        keys.map(|key| (key, of.source)).collect::<Vec<_>>()
    };
    let mut read: Vec<_> = stretches.iter().flat_map(of_stretch).collect();
    read.sort_unstable();
    read
}

fn read_all(layout: &RowLayout, sources: &[Source], steps: &[ReadStep]) -> Vec<(i64, usize)> {
    let of_steps = steps.iter().map(|step| read(layout, sources, step));
    of_steps.collect::<Vec<_>>().concat()
}

fn all_bytes(sources: &[Source], steps: &[ReadStep]) -> u64 {
    steps.iter().map(|step| step_bytes(sources, step)).sum()
}

/// Chunks whose keys rise: how far each lies behind the one before, and how many rows it has.
fn chunks_of(lengths: &[(i64, i64)]) -> Vec<Vec<i64>> {
    let mut next = 0;
    let chunk = |(gap, rows): &(i64, i64)| {
        let keys: Vec<i64> = (0..*rows).map(|row| next + gap + 2 * row).collect();
        next = keys[keys.len() - 1] + 1;
        keys
    };
    lengths.iter().map(chunk).collect()
}

fn any_chunks() -> impl Strategy<Value = Vec<Vec<i64>>> {
    let lengths = prop::collection::vec((0_i64..40, 1_i64..20), 1..12);
    lengths.prop_map(|lengths| chunks_of(&lengths))
}

proptest! {
    #[test]
    fn parts_read_each_row_once_and_in_order(
        chunks in prop::collection::vec(any_chunks(), 1..4),
        bounds in (-5_i64..150, 0_i64..200),
        bounded in (any::<bool>(), any::<bool>()),
        parts in 1_usize..6,
    ) {
        let layout = layout();
        let sources: Vec<Source> = chunks.iter().map(|of| source(&layout, of)).collect();
        let (low, high) = (bounds.0, bounds.0 + bounds.1);
        let range = KeyRange {
            low: bounded.0.then(|| key(&layout, low)),
            high: bounded.1.then(|| key(&layout, high)),
        };
        let inside = |id: &i64| (!bounded.0 || *id >= low) && (!bounded.1 || *id < high);
        let of_source = |(at, of): (usize, &Vec<Vec<i64>>)| {
            let keys = of.iter().flatten().copied().filter(inside);
            keys.map(|id| (id, at)).collect::<Vec<_>>()
        };
        let mut expected: Vec<_> = chunks.iter().enumerate().flat_map(of_source).collect();
        expected.sort_unstable();
        let steps = decompose(&sources, &range);
        let mut shares = Shares::new(all_bytes(&sources, &steps), parts);
        let cut = cut(&sources, steps, &mut shares);
        prop_assert!(cut.len() <= parts);
        prop_assert!(cut.iter().all(|steps| !steps.is_empty()));
        prop_assert_eq!(read_all(&layout, &sources, &cut.concat()), expected);
    }

    /// A tile's keys and its files tell its rows, whatever else the scan reads.
    #[test]
    fn tiles_have_all_that_lies_in_their_keys(
        chunks in prop::collection::vec(any_chunks(), 2..4),
        parts in 1_usize..4,
    ) {
        let layout = layout();
        let sources: Vec<Source> = chunks.iter().map(|of| source(&layout, of)).collect();
        let steps = decompose(&sources, &KeyRange::default());
        let mut shares = Shares::new(all_bytes(&sources, &steps), parts);
        for step in cut(&sources, steps, &mut shares).concat() {
            let ReadStep::Reconcile { stretches, range } = step else {
                continue;
            };
            let oldest = stretches.iter().map(|of| of.source).min().unwrap();
            for tile in tiles(&sources, &stretches, &range, oldest) {
                let in_keys = |at: usize| stretches_of(&sources[at], at, &tile.range);
                let all: Vec<Stretch> = (0..sources.len()).flat_map(in_keys).collect();
                let mut own = tile.stretches.clone();
                own.sort_by_key(|of| of.source);
                prop_assert_eq!(own, all);
            }
        }
    }

    #[test]
    fn parts_of_pieces_that_nothing_overlaps_differ_by_a_piece(
        lengths in prop::collection::vec((1_i64..40, 1_i64..20), 1..40),
        parts in 1_usize..6,
    ) {
        let layout = layout();
        let sources = [source(&layout, &chunks_of(&lengths))];
        let steps = decompose(&sources, &KeyRange::default());
        let all = all_bytes(&sources, &steps);
        let mut shares = Shares::new(all, parts);
        let cut = cut(&sources, steps, &mut shares);
        let largest = (0..lengths.len()).map(|piece| weigh(&sources[0], 0, piece).1).max();
        for steps in &cut {
            let most = all / parts as u64 + largest.unwrap();
            prop_assert!(all_bytes(&sources, steps) <= most);
        }
    }
}

/// Three files of sizes 3, 3 and 2 are two parts of 4, and not one of 6 and one of 2.
#[test]
fn parts_are_cut_inside_of_what_would_not_fit() {
    let layout = layout();
    let pieces = |count: i64, from: i64| -> Vec<Vec<i64>> {
        let piece = |at: i64| (0..10).map(|row| from + 10 * at + row).collect();
        (0..count).map(piece).collect()
    };
    // Between the sources lie keys of nobody: they are steps of their own.
    let sources = [pieces(30, 0), pieces(30, 10_000), pieces(20, 20_000)];
    let sources = sources.map(|of| source(&layout, &of));
    let steps = decompose(&sources, &KeyRange::default());
    assert_eq!(steps.len(), 3);
    let all = all_bytes(&sources, &steps);
    let parts = cut(&sources, steps, &mut Shares::new(all, 2));
    let bytes: Vec<u64> = parts.iter().map(|of| all_bytes(&sources, of)).collect();
    assert_eq!(bytes, [all / 2, all / 2]);
}

/// What lies over a large source does not move the cuts between its pieces.
#[test]
fn a_large_source_is_cut_between_its_pieces() {
    let layout = layout();
    let large: Vec<Vec<i64>> = (0..20)
        .map(|piece| (0..100).map(|row| 100 * piece + row).collect())
        .collect();
    for step in [7, 13, 31] {
        let small: Vec<i64> = (0..2_000).step_by(step).collect();
        let small: Vec<Vec<i64>> = small.chunks(5).map(<[i64]>::to_vec).collect();
        let sources = [source(&layout, &large), source(&layout, &small)];
        let steps = decompose(&sources, &KeyRange::default());
        let all = all_bytes(&sources, &steps);
        let parts = cut(&sources, steps, &mut Shares::new(all, 2));
        assert_eq!(parts.len(), 2, "{step}");
        let of_large = |steps: &Vec<ReadStep>| -> Vec<Range<usize>> {
            let stretches = steps.iter().flat_map(|step| match step {
                ReadStep::Alone { stretch, .. } => std::slice::from_ref(stretch),
                ReadStep::Reconcile { stretches, .. } => stretches.as_slice(),
            });
            let of_large = stretches.filter(|stretch| stretch.source == 0);
            of_large.map(|stretch| stretch.pieces.clone()).collect()
        };
        let (first, second) = (of_large(&parts[0]), of_large(&parts[1]));
        let end = first.iter().map(|pieces| pieces.end).max();
        assert_eq!(end, Some(10), "{step}");
        assert!(second.iter().all(|pieces| pieces.start >= 10), "{step}");
    }
}

/// The stretches of a step are as few as its segments, however their pieces lie among each other.
#[test]
fn pieces_of_one_segment_are_one_stretch() {
    let layout = layout();
    let pieces = |first: i64| -> Vec<Vec<i64>> {
        let piece = |at: i64| vec![10 * at + first, 10 * at + first + 12];
        (0..50).map(|at| piece(2 * at)).collect()
    };
    let sources = [0, 5, 7].map(|first| source(&layout, &pieces(first)));
    let steps = decompose(&sources, &KeyRange::default());
    let [ReadStep::Reconcile { stretches, .. }] = &steps[..] else {
        panic!("{steps:?}");
    };
    let pieces: Vec<_> = stretches
        .iter()
        .map(|of| (of.source, of.pieces.clone()))
        .collect();
    assert_eq!(pieces, [(0, 0..50), (1, 0..50), (2, 0..50)]);
}

/// Two steps of the same files, with a piece between them that nothing lies over, share no keys.
#[test]
fn steps_on_both_sides_of_what_stands_alone_share_no_keys() {
    let layout = layout();
    let large: Vec<Vec<i64>> = (0..3)
        .map(|piece| (0..10).map(|row| 100 * piece + row).collect())
        .collect();
    let small = [vec![3, 5], vec![203, 205]];
    let sources = [source(&layout, &large), source(&layout, &small)];
    let steps = decompose(&sources, &KeyRange::default());
    let kinds: Vec<bool> = steps.iter().map(ReadStep::is_whole).collect();
    assert_eq!(kinds, [false, true, false]);
    let ranges = steps.iter().filter_map(|step| match step {
        ReadStep::Alone { .. } => None,
        ReadStep::Reconcile { stretches, range } => Some(tiles(&sources, stretches, range, 0)),
    });
    let ranges: Vec<KeyRange> = ranges.flatten().map(|tile| tile.range).collect();
    let (second, third) = (key(&layout, 100), key(&layout, 200));
    let low = KeyRange {
        low: None,
        high: Some(second),
    };
    let high = KeyRange {
        low: Some(third),
        high: None,
    };
    assert_eq!(ranges, [low, high]);
}

/// Tiles of a step hold its rows once, each around one piece, and are the same whatever lies over
/// that and however the scan is cut.
#[test]
fn tiles_lie_around_the_pieces_of_a_source() {
    let layout = layout();
    let large: Vec<Vec<i64>> = (0..20)
        .map(|piece| (0..50).map(|row| 100 * piece + 2 * row).collect())
        .collect();
    let mut known: Option<Vec<KeyRange>> = None;
    for (over, parts) in [(7, 1), (13, 1), (13, 2), (31, 3)] {
        let small: Vec<i64> = (0..2_000).step_by(over).collect();
        let small: Vec<Vec<i64>> = small.chunks(5).map(<[i64]>::to_vec).collect();
        let sources = [source(&layout, &large), source(&layout, &small)];
        let steps = decompose(&sources, &KeyRange::default());
        let whole = read_all(&layout, &sources, &steps);
        let mut shares = Shares::new(all_bytes(&sources, &steps), parts);
        let cut: Vec<ReadStep> = cut(&sources, steps, &mut shares).concat();
        let of_step = |step: &ReadStep| match step {
            ReadStep::Alone { .. } => panic!("all of it is reconciled"),
            ReadStep::Reconcile { stretches, range } => tiles(&sources, stretches, range, 0),
        };
        let tiles: Vec<Tile> = cut.iter().flat_map(of_step).collect();
        assert!(tiles.iter().all(|tile| tile.whole && tile.rows == 50));
        let ranges: Vec<KeyRange> = tiles.iter().map(|tile| tile.range.clone()).collect();
        assert_eq!(ranges.len(), large.len());
        assert_eq!(*known.get_or_insert_with(|| ranges.clone()), ranges);
        let of_tile = |tile: Tile| ReadStep::Reconcile {
            stretches: tile.stretches,
            range: tile.range,
        };
        let steps: Vec<ReadStep> = tiles.into_iter().map(of_tile).collect();
        assert_eq!(read_all(&layout, &sources, &steps), whole);
    }
}
