//! Scans that are cut into parts read each row once, in order, and the parts are of one size, by
//! the rows that lie in them.

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::compute::cast;
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

fn weights(layout: &Arc<RowLayout>) -> Weights {
    Weights::new(layout, 1, (0, 0))
}

fn weight_of(layout: &Arc<RowLayout>, sources: &[Source], steps: &[ReadStep]) -> u64 {
    let weights = weights(layout);
    steps.iter().map(|step| weights.step(sources, step)).sum()
}

/// All that the sources have in a range, in so many parts at most.
fn parts_of(
    layout: &Arc<RowLayout>,
    sources: &[Source],
    range: &KeyRange,
    parts: usize,
) -> Vec<Cut> {
    let steps = decompose(sources, range);
    let mut shares = Shares::new(weight_of(layout, sources, &steps), parts);
    cut(sources, steps, &weights(layout), &mut shares)
}

fn all_steps(parts: Vec<Cut>) -> Vec<ReadStep> {
    parts.into_iter().flat_map(|part| part.steps).collect()
}

fn cut_again(
    layout: &Arc<RowLayout>,
    sources: &[Source],
    steps: &[ReadStep],
    shares: &mut Shares,
) -> Vec<ReadStep> {
    all_steps(cut(sources, steps.to_vec(), &weights(layout), shares))
}

/// How many rows of all sources each part reads.
fn rows_of_parts(layout: &RowLayout, sources: &[Source], parts: &[Cut]) -> Vec<usize> {
    let rows = parts
        .iter()
        .map(|part| read_all(layout, sources, &part.steps).len());
    rows.collect()
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
        let cut = parts_of(&layout, &sources, &range, parts);
        prop_assert!(cut.len() <= parts);
        prop_assert!(cut.iter().all(|part| !part.steps.is_empty()));
        // What a part has is cut again, and nothing of it is lost or doubled.
        let again = |part: &Cut| {
            let mut shares = Shares::between_pieces(part.weight, 3);
            cut_again(&layout, &sources, &part.steps, &mut shares)
        };
        let again: Vec<ReadStep> = cut.iter().flat_map(again).collect();
        prop_assert_eq!(read_all(&layout, &sources, &again), expected.clone());
        prop_assert_eq!(read_all(&layout, &sources, &all_steps(cut)), expected);
    }

    /// A tile's keys and its files tell its rows, whatever else the scan reads.
    #[test]
    fn tiles_have_all_that_lies_in_their_keys(
        chunks in prop::collection::vec(any_chunks(), 2..4),
        parts in 1_usize..4,
    ) {
        let layout = layout();
        let sources: Vec<Source> = chunks.iter().map(|of| source(&layout, of)).collect();
        for step in all_steps(parts_of(&layout, &sources, &KeyRange::default(), parts)) {
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
        let all: i64 = lengths.iter().map(|(_, rows)| rows).sum();
        let largest = lengths.iter().map(|(_, rows)| rows).max();
        let most = all as usize / parts + *largest.unwrap() as usize;
        let cut = parts_of(&layout, &sources, &KeyRange::default(), parts);
        for rows in rows_of_parts(&layout, &sources, &cut) {
            prop_assert!(rows <= most, "{rows} of {most}");
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
    assert_eq!(decompose(&sources, &KeyRange::default()).len(), 3);
    let parts = parts_of(&layout, &sources, &KeyRange::default(), 2);
    assert_eq!(rows_of_parts(&layout, &sources, &parts), [400, 400]);
    let weights: Vec<u64> = parts.iter().map(|part| part.weight).collect();
    assert_eq!(weights, [400, 400]);
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
        let parts = parts_of(&layout, &sources, &KeyRange::default(), 2);
        assert_eq!(pieces_of(&parts, 0), [(0, 10), (10, 20)], "{step}");
    }
}

/// The first piece of a source that each part reads, and the one behind its last.
fn pieces_of(parts: &[Cut], source: usize) -> Vec<(usize, usize)> {
    let of_part = |part: &Cut| {
        let stretches = part.steps.iter().flat_map(|step| step.read().0);
        let of_source = stretches.filter(|stretch| stretch.source == source);
        let pieces: Vec<_> = of_source.map(|stretch| stretch.pieces.clone()).collect();
        let first = pieces.iter().map(|pieces| pieces.start).min();
        let behind = pieces.iter().map(|pieces| pieces.end).max();
        Some((first?, behind?))
    };
    parts.iter().filter_map(of_part).collect()
}

/// The pieces that lie under chunks of unsorted SCUs, each of which reaches over all of the keys:
/// these weigh in both parts what they have there, and not all of it where they begin.
#[test]
fn a_chunk_over_all_keys_weighs_where_its_rows_are() {
    let layout = layout();
    let large: Vec<Vec<i64>> = (0..20)
        .map(|piece| (0..100).map(|row| 100 * piece + row).collect())
        .collect();
    let over =
        |first: i64| -> Vec<Vec<i64>> { vec![(0..300).map(|row| first + 6 * row).collect()] };
    let mut sources = vec![source(&layout, &large)];
    sources.extend((0..4).map(|first| source(&layout, &over(first))));
    let parts = parts_of(&layout, &sources, &KeyRange::default(), 2);
    // The chunks have their 1,200 rows in the first 1,800 keys: where they begin they would make
    // it four pieces, and sixteen.
    assert_eq!(pieces_of(&parts, 0), [(0, 8), (8, 20)]);
    for part in &parts {
        let rows = read_all(&layout, &sources, &part.steps).len() as u64;
        assert!(rows.abs_diff(part.weight) <= 4 * 64, "{rows}: {part:?}");
    }
}

/// What is in memory alone is cut inside of its chunks, where several reach over the same keys.
#[test]
fn chunks_over_the_same_keys_are_cut_in_two() {
    let layout = layout();
    let chunk = |first: i64, rows: i64| -> Vec<Vec<i64>> {
        vec![(0..rows).map(|row| first + 3 * row).collect()]
    };
    for rows in [[1_000, 1_000, 1_000], [1_000, 700, 1_000], [1_000, 10, 5]] {
        let chunks = [0, 1, 2].map(|at| chunk(at as i64, rows[at]));
        let sources = chunks.map(|of| source(&layout, &of));
        let parts = parts_of(&layout, &sources, &KeyRange::default(), 2);
        let read = rows_of_parts(&layout, &sources, &parts);
        let all = rows.iter().sum::<i64>() as usize;
        assert_eq!(
            (read.len(), read.iter().sum::<usize>()),
            (2, all),
            "{rows:?}"
        );
        assert!(read[0].abs_diff(read[1]) <= 6 * 64, "{rows:?}: {read:?}");
    }
}

/// Of a chunk that the range takes little of, little is dealt out.
#[test]
fn rows_outside_of_the_range_weigh_nothing() {
    let layout = layout();
    let chunk = vec![(0..1_000).collect::<Vec<i64>>()];
    let small: Vec<Vec<i64>> = (0..10)
        .map(|piece| (0..10).map(|row| 900 + 10 * piece + row).collect())
        .collect();
    let sources = [source(&layout, &chunk), source(&layout, &small)];
    let range = KeyRange {
        low: Some(key(&layout, 900)),
        high: None,
    };
    let parts = parts_of(&layout, &sources, &range, 2);
    let read = rows_of_parts(&layout, &sources, &parts);
    assert_eq!((read.len(), read.iter().sum::<usize>()), (2, 200));
    assert!(read.iter().all(|rows| *rows <= 130), "{read:?}");
}

/// Columns count, and a row in memory is as heavy as the mean of those in files.
#[test]
fn weights_are_rows_times_columns() {
    let layout = layout();
    let chunk = vec![(0..1_000).collect::<Vec<i64>>()];
    let sources = [source(&layout, &chunk)];
    for (columns, weight) in [(0, 1_000), (1, 1_000), (7, 7_000)] {
        let weights = Weights::new(&layout, columns, (10, 12_345));
        let all = weights.inside(&sources[0], 0, 0, &KeyRange::default());
        assert_eq!(all, weight);
        let range = KeyRange {
            low: Some(key(&layout, 100)),
            high: Some(key(&layout, 300)),
        };
        let some = weights.inside(&sources[0], 0, 0, &range);
        let columns = columns.max(1) as u64;
        assert!(some >= 200 * columns && some <= 330 * columns, "{some}");
    }
}

/// Marks are keys of rows, whether these are encoded one by one or not.
#[test]
fn marks_are_the_keys_of_every_so_manieth_row() {
    for data_type in [DataType::Int64, DataType::Utf8] {
        let columns = vec![Column::new("id", data_type.clone())];
        let table = Table::new(TableId(1), ViewId(1), "t", columns, &[0]);
        let layout = Arc::new(RowLayout::primary(&Arc::new(table)).unwrap());
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(1_000..2_000));
        let keys = cast(&numbers, &data_type).unwrap();
        let data = RecordBatch::try_new(Arc::clone(&layout.schema), vec![keys]).unwrap();
        let keys = layout.codec.encode(&data).unwrap();
        let chunk = Chunk::new(&layout, ChangeBatch::upserts(data, 1)).unwrap();
        let source = Source::Memory {
            stage: Stage::Open,
            name: "chunk".to_owned(),
            chunks: Arc::new(vec![chunk]),
            own: false,
        };
        let (weights, all) = (weights(&layout), KeyRange::default());
        let marks = weights.marks(&source, 0, 0, &all);
        let found: Vec<&[u8]> = marks.iter().map(|mark| &*mark.key).collect();
        let expected = (0..1_000).step_by(64).map(|row| keys.row(row).data());
        assert_eq!(found, expected.collect::<Vec<_>>(), "{data_type}");
        let rows: u64 = marks.iter().map(|mark| mark.weight).sum();
        assert_eq!(rows, 1_000);
    }
}

/// Parts that are cut once more share no piece of what they mostly consist of.
#[test]
fn a_part_is_split_between_the_pieces_of_its_largest_source() {
    let layout = layout();
    let large: Vec<Vec<i64>> = (0..5)
        .map(|piece| (0..400).map(|row| 400 * piece + row).collect())
        .collect();
    let small: Vec<i64> = (0..2_000).step_by(3).collect();
    let sources = [source(&layout, &large), source(&layout, &[small])];
    let steps = decompose(&sources, &KeyRange::default());
    let weight = weight_of(&layout, &sources, &steps);
    for parts in 2..9 {
        let mut shares = Shares::between_pieces(weight, parts);
        let cut = cut(&sources, steps.clone(), &weights(&layout), &mut shares);
        let pieces = pieces_of(&cut, 0);
        assert_eq!(pieces.len(), parts.min(5), "{parts}");
        assert!(
            pieces.windows(2).all(|two| two[0].1 == two[1].0),
            "{pieces:?}"
        );
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
        let cut = all_steps(parts_of(&layout, &sources, &KeyRange::default(), parts));
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
