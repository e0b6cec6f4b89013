//! Unsorted SCUs as readers need them: sorted for scans, indexed by key for point reads. What a
//! reader was forced to do is kept for the next one, and grows with the open SCU.

use std::collections::BTreeMap;
use std::sync::Arc;

use lazybase_model::{Result, SchemaVersion, ScuNumber, Table, TableId};
use parking_lot::Mutex;
use tokio::task::yield_now;

use super::identify::{Identifier, Place};
use super::key_places::{KeyChanges, KeyPlaces};
use super::source::Chunk;
use crate::change_batch::ChangeBatch;
use crate::segment::{Lent, RowLayout, key_hash};
use crate::stages::ingest::{AcceptedBatch, UnsortedScu};
use crate::stages::merge::MergeShape;
use crate::stages::sort::sort_changes;

/// Two neighbouring tiers are sorted together once the newer is at least a quarter of the older:
/// so a row of the open SCU is sorted a logarithmic number of times, however often it is read.
const TIER_RATIO: u64 = 4;

/// Sorted tiers and key indexes of unsorted SCUs.
#[derive(Debug, Default)]
pub struct UnsortedCache {
    /// In order, so that what they lend comes back in the same order in each run.
    tables: Mutex<BTreeMap<(ScuNumber, TableId, SchemaVersion), Known>>,
}

/// What is kept, and under which definition.
type Known = (Arc<Table>, Arc<TableCache>);

/// What is kept of one table in one SCU. Async locks: readers of one SCU wait for each other
/// rather than sort the same rows twice.
#[derive(Debug, Default)]
struct TableCache {
    tiers: tokio::sync::Mutex<Tiers>,
    index: tokio::sync::Mutex<KeyIndex>,
}

/// Oldest first. Their memory is taken from what the cache of segments may hold.
#[derive(Debug, Default)]
struct Tiers {
    tiers: Vec<Tier>,
    lent: Option<Lent>,
}

/// The batches of an SCU after those of the tier before, up to `to`, sorted and composed.
#[derive(Debug, Clone)]
struct Tier {
    to: u32,
    /// As many as were written: those of one key are one in the chunks.
    rows: u64,
    chunks: Arc<Vec<Chunk>>,
}

/// Where each key of the first `to` batches stands. Its memory is taken from what the cache of
/// segments may hold.
#[derive(Debug, Default)]
struct KeyIndex {
    to: u32,
    parts: Vec<(Arc<AcceptedBatch>, Place)>,
    places: KeyPlaces,
    lent: Option<Lent>,
}

/// After so many rows a read lets others run, and ends if nobody waits for it any more.
const ROWS_AT_ONCE: usize = 1 << 16;

impl UnsortedCache {
    /// Forgets SCUs that are sorted now.
    pub fn forget(&self, through: ScuNumber) {
        self.tables.lock().retain(|(scu, ..), _| *scu > through);
    }

    fn table(&self, scu: ScuNumber, table: &Arc<Table>) -> Arc<TableCache> {
        let key = (scu, table.id, table.version);
        let mut tables = self.tables.lock();
        // A transaction's definition may have the version that another one will commit.
        if let Some((of, known)) = tables.get(&key)
            && (Arc::ptr_eq(of, table) || of == table)
        {
            return Arc::clone(known);
        }
        let begun = Arc::<TableCache>::default();
        tables.insert(key, (Arc::clone(table), Arc::clone(&begun)));
        begun
    }

    /// The changes of a table in the first `batches` batches of an SCU as sorted sources, oldest
    /// first.
    pub(super) async fn sorted(
        &self,
        ids: &Identifier,
        layout: &Arc<RowLayout>,
        scu: &UnsortedScu,
        batches: u32,
    ) -> Result<Vec<Arc<Vec<Chunk>>>> {
        let cache = self.table(scu.scu(), &layout.table);
        let mut known = cache.tiers.lock().await;
        let tiers = &known.tiers;
        let kept = tiers.iter().take_while(|tier| tier.to <= batches).count();
        let end = tiers[..kept].last().map_or(0, |tier| tier.to);
        if kept < tiers.len() {
            // An older snapshot than the cache has seen: its tail is its own affair.
            let mut sources: Vec<_> = tiers[..kept]
                .iter()
                .map(|tier| Arc::clone(&tier.chunks))
                .collect();
            drop(known);
            let tail = read_changes(ids, layout, scu, end, batches).await?;
            sources.push(Arc::new(sort_chunks(layout, &tail)?));
            return Ok(sources);
        }
        if end < batches {
            let added = read_changes(ids, layout, scu, end, batches).await?;
            known.extend(layout, added, batches)?;
            known.note_memory(ids);
        }
        let tiers = known.tiers.iter();
        Ok(tiers.map(|tier| Arc::clone(&tier.chunks)).collect())
    }

    /// What the changes of one key in the first `batches` batches of an SCU come to, back to the
    /// first that is total.
    pub(super) async fn find(
        &self,
        ids: &Identifier,
        layout: &Arc<RowLayout>,
        scu: &UnsortedScu,
        batches: u32,
        key: &[u8],
    ) -> Result<Option<ChangeBatch>> {
        let cache = self.table(scu.scu(), &layout.table);
        let mut index = cache.index.lock().await;
        index.extend(ids, layout, scu, batches).await?;
        let shape = MergeShape::of(layout);
        let mut of_key = KeyChanges::new(&shape, &layout.codec, key);
        let mut places = index.places.with_hash(key_hash(key)).peekable();
        let mut taken = 0;
        while let Some((part, newest)) = places.next() {
            let mut next = || places.next_if(|(of, _)| *of == part).map(|(_, row)| row);
            let (batch, place) = &index.parts[part as usize];
            if batch.position > batches {
                while next().is_some() {}
                continue;
            }
            let read = ids.read(layout, scu, batch, *place).await?;
            let rows = std::iter::once(newest).chain(std::iter::from_fn(next));
            if of_key.take(&read, rows.inspect(|_| taken += 1))? {
                break;
            }
            if taken >= ROWS_AT_ONCE {
                taken = 0;
                yield_now().await;
            }
        }
        of_key.composed()
    }
}

impl Tiers {
    /// Adds the changes of newer batches, up to `to`, as a tier. Older tiers that are not much
    /// larger go into it as they are: their changes are older, and are composed already.
    fn extend(&mut self, layout: &Arc<RowLayout>, added: Vec<ChangeBatch>, to: u32) -> Result<()> {
        let mut rows: u64 = added.iter().map(|batch| batch.rows() as u64).sum();
        let mut kept = self.tiers.len();
        while let Some(older) = self.tiers[..kept].last()
            && rows * TIER_RATIO >= older.rows
        {
            rows += older.rows;
            kept -= 1;
        }
        let older = self.tiers[kept..]
            .iter()
            .flat_map(|tier| tier.chunks.iter());
        let mut changes: Vec<ChangeBatch> =
            older.map(|chunk| chunk.rows.as_ref().clone()).collect();
        changes.extend(added);
        let chunks = Arc::new(sort_chunks(layout, &changes)?);
        self.tiers.truncate(kept);
        self.tiers.push(Tier { to, rows, chunks });
        Ok(())
    }

    fn note_memory(&mut self, ids: &Identifier) {
        let chunks = self.tiers.iter().flat_map(|tier| tier.chunks.iter());
        let bytes = chunks.map(|chunk| chunk.rows.memory_bytes() as u64).sum();
        let lent = self.lent.get_or_insert_with(|| ids.reader.cache.lend());
        lent.set(bytes);
    }
}

impl KeyIndex {
    async fn extend(
        &mut self,
        ids: &Identifier,
        layout: &Arc<RowLayout>,
        scu: &UnsortedScu,
        batches: u32,
    ) -> Result<()> {
        if self.to >= batches {
            return Ok(());
        }
        let mut added = 0;
        for batch in scu.batches(self.to..batches) {
            // A read may fail, or whoever waits for it leave: a batch is in the index whole, once.
            let mut parts = Vec::new();
            for place in Identifier::places(&layout.table, &batch) {
                parts.push((place, ids.read(layout, scu, &batch, place).await?));
            }
            let of_rows = |(_, rows): &(Place, ChangeBatch)| rows.rows() > 0;
            for (place, rows) in parts.into_iter().filter(of_rows) {
                let part = self.parts.len() as u32;
                self.places.add(&layout.codec, part, &rows)?;
                self.parts.push((Arc::clone(&batch), place));
                added += rows.rows();
            }
            self.to += 1;
            if added >= ROWS_AT_ONCE {
                added = 0;
                self.note_memory(ids);
                yield_now().await;
            }
        }
        self.to = batches;
        self.note_memory(ids);
        Ok(())
    }

    fn note_memory(&mut self, ids: &Identifier) {
        let parts = self.parts.capacity() * size_of::<(Arc<AcceptedBatch>, Place)>();
        let bytes = self.places.bytes() + parts as u64;
        let lent = self.lent.get_or_insert_with(|| ids.reader.cache.lend());
        lent.set(bytes);
    }
}

/// The changes of a table in the batches after the first `from`, up to `to`, in their order.
async fn read_changes(
    ids: &Identifier,
    layout: &Arc<RowLayout>,
    scu: &UnsortedScu,
    from: u32,
    to: u32,
) -> Result<Vec<ChangeBatch>> {
    let mut changes = Vec::new();
    for batch in scu.batches(from..to) {
        for place in Identifier::places(&layout.table, &batch) {
            changes.push(ids.read(layout, scu, &batch, place).await?);
        }
    }
    Ok(changes)
}

/// Changes as sorted chunks, the changes of a key composed.
fn sort_chunks(layout: &Arc<RowLayout>, changes: &[ChangeBatch]) -> Result<Vec<Chunk>> {
    let sorted = sort_changes(layout, changes)?.into_iter();
    sorted.map(|rows| Chunk::new(layout, rows)).collect()
}
