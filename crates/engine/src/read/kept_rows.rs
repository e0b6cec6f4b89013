//! What reads have reconciled where changes lie over the authority, for reads that come back to it:
//! to the same files, or to these and newer ones. Its memory is lent by the cache of segments.
//!
//! ```text
//!   files of a tile    base, r1, r2        asked for the second time: its rows are kept
//!                      base, r1, r2        the kept rows
//!                      base, r1, r2, r3    the kept rows, and r3 over them: kept in their place
//!                      base', r3           another base: all of it is reconciled, and kept
//!                      base, r1 | memory   what the files come to is kept, and memory over it
//! ```
//!
//! A tile is a stretch of keys around one row group of the authority, which all scans cut it into,
//! with the columns that are read of it. Rows are kept once the same files are asked for again, or
//! at once where what was kept of the tile has been found: it is asked for again and again then,
//! and only its files change. A horizon that moves between any two reads of a tile of which nothing
//! is kept keeps nothing. In the place of others rows are kept only if nobody asked for those since
//! they were asked for before: a scan of more than fits finds what did fit, and does not push out
//! ahead of itself what it is about to read. What nobody asks for goes after a while.
//!
//! What is in memory changes with each read and is kept by nobody. What lies below it is: the row
//! that older changes make of none is all that newer ones need to know of them (`change`, in the
//! model). So reads with memory and those without find what either has kept. Yet each kind keeps
//! its own, for their horizons differ: one would push out what the other comes back to.
//!
//! Keeps memory only. Invariant KEPT-1: kept rows stand for the very files that they were made of,
//! all of a tile's oldest sources, with all that they have between its keys, and files never
//! change; what is newer is reconciled over them.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use lazybase_model::{ScuNumber, TableId};
use parking_lot::Mutex;

use crate::change_batch::ChangeBatch;
use crate::key::Key;
use crate::segment::{Lent, SegmentCache};

#[cfg(test)]
mod tests;

/// One part of so many of the cache may be kept rows.
const CACHE_SHARE: u64 = 4;
/// So many tiles are known at most.
const TILES_MAX: usize = 1024;
/// So many sets of files are known to have been asked for, of each tile.
const ASKED_MAX: usize = 4;
/// What nobody asks for goes after so long.
const UNASKED_MAX: Duration = Duration::from_secs(600);
/// Scans look for it so often.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Which rows: of a table those of some keys, and of them some columns.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TileKey {
    /// The table, or the view.
    pub(super) table: TableId,
    pub(super) low: Option<Key>,
    pub(super) high: Option<Key>,
    pub(super) columns: Arc<[usize]>,
    /// Whether sources in memory lie over its files.
    pub(super) under_memory: bool,
}

/// The files that a tile is read from at a horizon, oldest first, up to the first source in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Files<'f> {
    pub(super) ids: &'f [u128],
    pub(super) at: ScuNumber,
}

/// Rows that stand for the first files of a tile.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// How many files.
    pub(super) files: usize,
    pub(super) rows: Arc<[ChangeBatch]>,
    /// Whether they were found before.
    is_again: bool,
}

/// See the module's header.
#[derive(Debug)]
pub(super) struct KeptRows {
    shelf: Mutex<Shelf>,
    bytes_max: u64,
}

#[derive(Debug)]
struct Shelf {
    tiles: BTreeMap<TileKey, Known>,
    /// Counts what is asked for.
    turn: u64,
    /// When the last scan began, and when one last looked for what nobody asks for.
    now: Duration,
    swept: Duration,
    bytes: u64,
    lent: Lent,
}

/// What is known of a tile.
#[derive(Debug, Default)]
struct Known {
    /// The files that were asked for last, as hashes: what they tell is not what rows come out.
    asked: VecDeque<u64>,
    kept: Option<Kept>,
    /// When it was asked for last, and before that.
    turn: u64,
    turn_before: u64,
    /// When it was asked for last, by the clock.
    asked_at: Duration,
}

#[derive(Debug)]
struct Kept {
    files: Box<[u128]>,
    /// The horizon that they were read at.
    at: ScuNumber,
    rows: Arc<[ChangeBatch]>,
    bytes: u64,
    /// Whether anybody has come back to it.
    is_found: bool,
}

impl Known {
    /// For how many of these files, from the first on, what is kept stands.
    fn stands_for(&self, files: &[u128]) -> Option<usize> {
        let kept = self.kept.as_ref()?;
        let stands = files.starts_with(&kept.files);
        stands.then_some(kept.files.len())
    }

    /// Somebody asks for it, in a turn once.
    fn ask(&mut self, turn: u64, now: Duration) {
        if self.turn != turn {
            self.turn_before = mem::replace(&mut self.turn, turn);
        }
        self.asked_at = now;
    }

    /// Whether what these files come to had better be kept: they were asked for before, or what is
    /// kept of older ones was worth it. Where to keep it takes more work, it must have been so
    /// before.
    fn is_wanted(&mut self, files: Files<'_>, found: Option<&Found>, is_dear: bool) -> bool {
        let is_older = |kept: &&Kept| kept.at <= files.at;
        let was_worth_it = match found {
            Some(found) => found.is_again || !is_dear,
            None => {
                let older = self.kept.as_ref().filter(is_older);
                older.is_some_and(|kept| kept.is_found)
            }
        };
        self.is_asked_again(files.ids) || was_worth_it
    }

    /// Whether these files were asked for before.
    fn is_asked_again(&mut self, files: &[u128]) -> bool {
        let mut hasher = DefaultHasher::new();
        files.hash(&mut hasher);
        let files = hasher.finish();
        if self.asked.contains(&files) {
            return true;
        }
        if self.asked.len() >= ASKED_MAX {
            self.asked.pop_front();
        }
        self.asked.push_back(files);
        false
    }
}

impl Shelf {
    /// What is kept for most of a tile's first files, by reads of its kind or of the other.
    fn find(&mut self, tile: &TileKey, files: &[u128]) -> Option<Found> {
        let other = TileKey {
            under_memory: !tile.under_memory,
            ..tile.clone()
        };
        let stands_for = |tile: &TileKey| self.tiles.get(tile)?.stands_for(files);
        let (own, others) = (stands_for(tile), stands_for(&other));
        let stands_for = own.max(others)?;
        let tile = match own >= others {
            true => tile,
            false => &other,
        };
        let known = self.tiles.get_mut(tile)?;
        let kept = known.kept.as_mut()?;
        let found = Found {
            files: stands_for,
            rows: Arc::clone(&kept.rows),
            is_again: mem::replace(&mut kept.is_found, true),
        };
        known.ask(self.turn, self.now);
        Some(found)
    }

    /// Makes room for so many bytes more: lets go of what was asked for longest ago, if nobody
    /// asked for it since a turn. Whether there is room then.
    fn make_room(&mut self, bytes: u64, bytes_max: u64, since: u64) -> bool {
        while self.bytes + bytes > bytes_max {
            let kept = self.tiles.values_mut().filter(|known| known.kept.is_some());
            let oldest = kept.min_by_key(|known| known.turn);
            let Some(oldest) = oldest.filter(|known| known.turn < since) else {
                return false;
            };
            let kept = oldest.kept.take();
            self.bytes -= kept.map_or(0, |kept| kept.bytes);
        }
        true
    }

    /// Forgets the tiles that were asked for longest ago, where they are too many.
    fn forget(&mut self) {
        while self.tiles.len() > TILES_MAX {
            let oldest = self.tiles.iter().min_by_key(|(_, known)| known.turn);
            let Some(tile) = oldest.map(|(tile, _)| tile.clone()) else {
                break;
            };
            let known = self.tiles.remove(&tile);
            self.bytes -= known.and_then(|of| of.kept).map_or(0, |kept| kept.bytes);
        }
        self.lent.set(self.bytes);
    }

    /// Forgets the tiles that nobody asked for in a while.
    fn sweep(&mut self) {
        let now = self.now;
        self.swept = now;
        let mut gone = 0;
        self.tiles.retain(|_, known| {
            let is_wanted = known.asked_at + UNASKED_MAX > now;
            if !is_wanted {
                gone += known.kept.as_ref().map_or(0, |kept| kept.bytes);
            }
            is_wanted
        });
        self.bytes -= gone;
        self.lent.set(self.bytes);
    }
}

impl KeptRows {
    /// Nothing yet; what is kept takes memory of the cache.
    pub(super) fn new(cache: &Arc<SegmentCache>) -> KeptRows {
        KeptRows {
            bytes_max: cache.usage().bytes_max / CACHE_SHARE,
            shelf: Mutex::new(Shelf {
                tiles: BTreeMap::new(),
                turn: 0,
                now: Duration::ZERO,
                swept: Duration::ZERO,
                bytes: 0,
                lent: cache.lend(),
            }),
        }
    }

    /// A scan begins at a time of the clock. How many bytes are kept.
    pub(super) fn begin(&self, now: Duration) -> u64 {
        let shelf = &mut *self.shelf.lock();
        shelf.now = shelf.now.max(now);
        if shelf.now >= shelf.swept + SWEEP_EVERY {
            shelf.sweep();
        }
        shelf.bytes
    }

    /// What is kept for the first of a tile's files; and whether what all of them come to had
    /// better be kept. `asks` says that it could be.
    pub(super) fn look(
        &self,
        tile: &TileKey,
        files: Files<'_>,
        asks: bool,
    ) -> (Option<Found>, bool) {
        let shelf = &mut *self.shelf.lock();
        shelf.turn += 1;
        let found = shelf.find(tile, files.ids);
        if !asks {
            return (found, false);
        }
        let known = shelf.tiles.entry(tile.clone()).or_default();
        known.ask(shelf.turn, shelf.now);
        let is_whole = found.as_ref().is_some_and(|of| of.files == files.ids.len());
        // Below memory files are never older than those of reads without: what these have kept
        // serves both from now on.
        let is_superseded = |kept: &mut Kept| is_whole && *kept.files != *files.ids;
        if tile.under_memory
            && let Some(kept) = known.kept.take_if(is_superseded)
        {
            shelf.bytes -= kept.bytes;
        }
        let is_wanted = known.is_wanted(files, found.as_ref(), tile.under_memory);
        shelf.forget();
        (found, is_wanted && !is_whole)
    }

    /// Keeps what all files of a tile come to, in the place of what was kept of it, if there is
    /// room; if there is not, that stays.
    pub(super) fn keep(&self, tile: &TileKey, files: Files<'_>, rows: Vec<ChangeBatch>) {
        let bytes: u64 = rows.iter().map(|rows| rows.memory_bytes() as u64).sum();
        if bytes > self.bytes_max {
            return;
        }
        let shelf = &mut *self.shelf.lock();
        let Some(known) = shelf.tiles.get_mut(tile) else {
            return;
        };
        let since = known.turn_before;
        let before = known.kept.take();
        shelf.bytes -= before.as_ref().map_or(0, |kept| kept.bytes);
        let kept = match shelf.make_room(bytes, self.bytes_max, since) {
            false => before,
            true => Some(Kept {
                files: files.ids.into(),
                at: files.at,
                rows: rows.into(),
                bytes,
                is_found: false,
            }),
        };
        if let Some(known) = shelf.tiles.get_mut(tile) {
            shelf.bytes += kept.as_ref().map_or(0, |kept| kept.bytes);
            known.kept = kept;
        }
        shelf.lent.set(shelf.bytes);
    }
}
