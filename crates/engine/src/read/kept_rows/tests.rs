//! What is kept is what was asked for again, in bounded memory.

use arrow::array::{ArrayRef, Int64Array, RecordBatch};

use super::*;
use crate::env::Clock;
use crate::env::system::SystemClock;

fn cache(bytes: u64) -> Arc<SegmentCache> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    Arc::new(SegmentCache::new(clock, bytes))
}

fn tile(low: u8) -> TileKey {
    TileKey {
        table: TableId(7),
        low: Some(Key::new([low].as_slice())),
        high: None,
        columns: Arc::from([0]),
        under_memory: false,
    }
}

/// The same tile, with sources in memory over it.
fn below(tile: &TileKey) -> TileKey {
    TileKey {
        under_memory: true,
        ..tile.clone()
    }
}

fn rows(count: usize) -> Vec<ChangeBatch> {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1; count]));
    let data = RecordBatch::try_from_iter([("a", column)]).unwrap();
    vec![ChangeBatch::upserts(data, 0)]
}

/// How many files what is kept stands for, and whether more is to be kept.
fn look(kept: &KeptRows, tile: &TileKey, files: &[u128], asks: bool) -> (Option<usize>, bool) {
    let (found, keep) = kept.look(tile, known(files), asks);
    (found.map(|found| found.files), keep)
}

fn keep(kept: &KeptRows, tile: &TileKey, files: &[u128], rows: Vec<ChangeBatch>) {
    kept.keep(tile, known(files), rows);
}

/// Files that rise with the horizon.
fn known(ids: &[u128]) -> Files<'_> {
    let at = ids.iter().max().map_or(0, |newest| *newest as u64);
    Files {
        ids,
        at: ScuNumber(at),
    }
}

/// Asks for a tile twice, and keeps what it comes to if that is wanted.
fn ask_and_keep(kept: &KeptRows, tile: &TileKey, files: &[u128], count: usize) {
    for _ in 0..2 {
        if look(kept, tile, files, true).1 {
            keep(kept, tile, files, rows(count));
        }
    }
}

#[test]
fn what_is_asked_for_again_is_kept_and_serves_newer_reads() {
    let kept = KeptRows::new(&cache(1 << 20));
    let tile = tile(1);
    assert_eq!(look(&kept, &tile, &[1, 2], true), (None, false));
    // What can't be kept is neither counted nor kept.
    assert_eq!(look(&kept, &tile, &[1, 2], false), (None, false));
    assert_eq!(look(&kept, &tile, &[1, 3], true), (None, false));
    assert_eq!(look(&kept, &tile, &[1, 2], true), (None, true));
    keep(&kept, &tile, &[1, 2], rows(10));
    assert_eq!(look(&kept, &tile, &[1, 2], true), (Some(2), false));
    assert_eq!(look(&kept, &tile, &[1, 2, 3], true), (Some(2), true));
    assert_eq!(look(&kept, &tile, &[1, 2, 4], false), (Some(2), false));
    // Of other files it says nothing.
    assert_eq!(look(&kept, &tile, &[1], true), (None, false));
    assert_eq!(look(&kept, &tile, &[2, 1], false), (None, false));
    let columns: Arc<[usize]> = Arc::from([0, 1]);
    let wider = TileKey { columns, ..tile };
    assert_eq!(look(&kept, &wider, &[1, 2], true), (None, false));
}

/// Files come and go between any two reads: once something was found, what they come to is kept at
/// once, for as long as what is kept is found.
#[test]
fn what_is_found_is_kept_up_to_date_at_the_first_ask() {
    let kept = KeptRows::new(&cache(1 << 20));
    let tile = tile(1);
    ask_and_keep(&kept, &tile, &[1], 10);
    let mut files = vec![1];
    for file in 2..20 {
        files.push(file);
        let before = files.len() - 1;
        assert_eq!(look(&kept, &tile, &files, true), (Some(before), true));
        keep(&kept, &tile, &files, rows(10));
    }
    // Nobody has come back to what was kept last: others may be asked for once only.
    assert_eq!(look(&kept, &tile, &[50, 51], true), (None, false));
    assert_eq!(look(&kept, &tile, &files, true), (Some(19), false));
    // The base is another one: what was kept of the one before was worth it.
    assert_eq!(look(&kept, &tile, &[60, 61], true), (None, true));
    keep(&kept, &tile, &[60, 61], rows(10));
    assert_eq!(look(&kept, &tile, &[70], true), (None, false));
    // Who reads what was before does not push out what was found.
    assert_eq!(look(&kept, &tile, &[60, 61], true), (Some(2), false));
    assert_eq!(look(&kept, &tile, &[20, 21], true), (None, false));
    assert_eq!(look(&kept, &tile, &[60, 61, 62], true), (Some(2), true));
}

/// Reads with memory over their files have newer ones than those without. Either finds what the
/// other has kept, and neither pushes it out.
#[test]
fn reads_with_memory_and_without_keep_their_own_and_find_both() {
    let cache = cache(1 << 20);
    let kept = KeptRows::new(&cache);
    let (plain, below) = (tile(1), below(&tile(1)));
    ask_and_keep(&kept, &plain, &[1, 2], 10);
    let each = cache.usage().bytes;
    assert_eq!(look(&kept, &below, &[1, 2], true), (Some(2), false));
    assert_eq!(look(&kept, &below, &[1, 2, 3], true), (Some(2), true));
    keep(&kept, &below, &[1, 2, 3], rows(10));
    assert_eq!(cache.usage().bytes, 2 * each);
    for _ in 0..3 {
        assert_eq!(look(&kept, &below, &[1, 2, 3], true), (Some(3), false));
        assert_eq!(look(&kept, &plain, &[1, 2], true), (Some(2), false));
    }
    assert_eq!(look(&kept, &plain, &[1, 2, 3], true), (Some(3), false));
    assert_eq!(look(&kept, &plain, &[1, 2, 3, 4], false), (Some(3), false));
    // What reads without memory have kept serves both: the other goes.
    assert_eq!(look(&kept, &plain, &[1, 2, 3, 4], true), (Some(3), true));
    keep(&kept, &plain, &[1, 2, 3, 4], rows(10));
    assert_eq!(cache.usage().bytes, 2 * each);
    assert_eq!(look(&kept, &below, &[1, 2, 3, 4], true), (Some(4), false));
    assert_eq!(cache.usage().bytes, each);
    assert_eq!(look(&kept, &below, &[1, 2, 3], true), (None, true));
}

/// To keep what lies below memory takes a merge more: not where files change with each read and
/// nobody would find it.
#[test]
fn below_memory_what_was_found_once_is_not_kept_up_to_date_at_once() {
    let kept = KeptRows::new(&cache(1 << 20));
    let tile = below(&tile(1));
    assert_eq!(look(&kept, &tile, &[1, 2], true), (None, false));
    assert_eq!(look(&kept, &tile, &[1, 2], true), (None, true));
    keep(&kept, &tile, &[1, 2], rows(10));
    assert_eq!(look(&kept, &tile, &[1, 2, 3], true), (Some(2), false));
    assert_eq!(look(&kept, &tile, &[1, 2, 3], true), (Some(2), true));
    keep(&kept, &tile, &[1, 2, 3], rows(10));
    assert_eq!(look(&kept, &tile, &[1, 2, 3, 4], true), (Some(3), false));
    assert_eq!(look(&kept, &tile, &[1, 2, 3, 4, 5], true), (Some(3), true));
}

/// What has grown takes no room from what is asked for just as often, and what it was stays.
#[test]
fn what_finds_no_room_for_more_stays_what_it_was() {
    let cache = cache(1 << 20);
    let kept = KeptRows::new(&cache);
    let each = rows(8_000)[0].memory_bytes() as u64;
    let fit = ((1 << 20) / CACHE_SHARE / each) as u8;
    for low in 0..fit {
        ask_and_keep(&kept, &tile(low), &[1], 8_000);
    }
    for _ in 0..3 {
        assert_eq!(look(&kept, &tile(0), &[1, 2], true), (Some(1), true));
        keep(&kept, &tile(0), &[1, 2], rows(16_000));
        for low in 1..fit {
            let found = look(&kept, &tile(low), &[1], true);
            assert_eq!(found, (Some(1), false), "{low}");
        }
    }
    assert_eq!(cache.usage().bytes, u64::from(fit) * each);
}

#[test]
fn only_the_last_sets_of_files_are_known_to_have_been_asked_for() {
    let kept = KeptRows::new(&cache(1 << 20));
    let tile = tile(1);
    for file in 0..=ASKED_MAX as u128 {
        assert_eq!(look(&kept, &tile, &[file], true), (None, false));
    }
    assert_eq!(look(&kept, &tile, &[0], true), (None, false));
    assert_eq!(look(&kept, &tile, &[ASKED_MAX as u128], true), (None, true));
}

#[test]
fn what_was_asked_for_longest_ago_goes_first() {
    let cache = cache(1 << 20);
    let kept = KeptRows::new(&cache);
    let each = rows(8_000)[0].memory_bytes() as u64;
    let fit = (1 << 20) / CACHE_SHARE / each;
    assert!(fit > 2, "{fit}");
    let fit = fit as u8;
    for low in 0..fit {
        ask_and_keep(&kept, &tile(low), &[1], 8_000);
    }
    assert_eq!(cache.usage().bytes, u64::from(fit) * each);
    // Between the two times that this one is asked for lie those of all but tile 1.
    assert_eq!(look(&kept, &tile(fit), &[1], true), (None, false));
    for low in (0..fit).filter(|low| *low != 1) {
        assert_eq!(look(&kept, &tile(low), &[1], true), (Some(1), false));
    }
    assert_eq!(look(&kept, &tile(fit), &[1], true), (None, true));
    keep(&kept, &tile(fit), &[1], rows(8_000));
    assert_eq!(cache.usage().bytes, u64::from(fit) * each);
    assert_eq!(look(&kept, &tile(0), &[1], true), (Some(1), false));
    assert_eq!(look(&kept, &tile(1), &[1], true), (None, true));
    // In the place of what it was before, it counts once.
    ask_and_keep(&kept, &tile(0), &[1, 2], 8_000);
    assert_eq!(look(&kept, &tile(0), &[1, 2], true), (Some(2), false));
    assert_eq!(cache.usage().bytes, u64::from(fit) * each);
    // What would take all of it is not kept.
    ask_and_keep(&kept, &tile(2), &[1, 2], 1 << 20);
    assert_eq!(look(&kept, &tile(2), &[1], true), (Some(1), false));
    drop(kept);
    assert_eq!(cache.usage().bytes, 0);
}

#[test]
fn few_tiles_are_known() {
    let kept = KeptRows::new(&cache(1 << 20));
    let tile = |number: usize| TileKey {
        low: Some(Key::new(number.to_be_bytes().as_slice())),
        ..tile(0)
    };
    for number in 0..=TILES_MAX {
        look(&kept, &tile(number), &[1], true);
    }
    assert_eq!(kept.shelf.lock().tiles.len(), TILES_MAX);
    assert_eq!(look(&kept, &tile(1), &[1], true), (None, true));
    assert_eq!(look(&kept, &tile(0), &[1], true), (None, false));
}

#[test]
fn a_scan_of_more_than_fits_finds_what_did_fit() {
    let cache = cache(1 << 20);
    let kept = KeptRows::new(&cache);
    let each = rows(8_000)[0].memory_bytes() as u64;
    let fit = ((1 << 20) / CACHE_SHARE / each) as u8;
    let mut found = Vec::new();
    for _ in 0..5 {
        let mut here = 0;
        for low in 0..fit + 2 {
            let (is_found, is_wanted) = look(&kept, &tile(low), &[1], true);
            here += u8::from(is_found.is_some());
            if is_wanted {
                keep(&kept, &tile(low), &[1], rows(8_000));
            }
        }
        found.push(here);
    }
    assert_eq!(found, [0, 0, fit, fit, fit]);
}

#[test]
fn what_nobody_asks_for_goes_after_a_while() {
    let cache = cache(1 << 20);
    let kept = KeptRows::new(&cache);
    kept.begin(SWEEP_EVERY);
    ask_and_keep(&kept, &tile(0), &[1], 100);
    ask_and_keep(&kept, &tile(1), &[1], 100);
    let both = cache.usage().bytes;
    assert_eq!(kept.begin(UNASKED_MAX), both);
    assert_eq!(look(&kept, &tile(1), &[1, 2], false), (Some(1), false));
    assert_eq!(kept.begin(SWEEP_EVERY + UNASKED_MAX), both / 2);
    assert_eq!(cache.usage().bytes, both / 2);
    assert_eq!(look(&kept, &tile(0), &[1], true), (None, false));
    assert_eq!(look(&kept, &tile(1), &[1], true), (Some(1), false));
}
