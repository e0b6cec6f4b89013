//! Unsorted SCUs as readers need them: sorted for scans, indexed by key for point reads. What a
//! reader was forced to do is kept for the next one, and grows with the open SCU.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use lazybase_model::{Result, SchemaVersion, ScuNumber, Table, TableId};
use parking_lot::Mutex;

use super::identify::{Identifier, Place};
use super::point::composed;
use super::source::Chunk;
use crate::change_batch::ChangeBatch;
use crate::segment::{RowLayout, key_hash};
use crate::stages::ingest::{AcceptedBatch, UnsortedScu};
use crate::stages::sort::sort_changes;

/// Two neighbouring tiers are sorted together once the newer is at least a quarter of the older:
/// so a row of the open SCU is sorted a logarithmic number of times, however often it is read.
const TIER_RATIO: u64 = 4;

/// Sorted tiers and key indexes of unsorted SCUs.
#[derive(Debug, Default)]
pub struct UnsortedCache {
    tables: Mutex<HashMap<(ScuNumber, TableId, SchemaVersion), Known>>,
}

/// What is kept, and under which definition.
type Known = (Arc<Table>, Arc<TableCache>);

/// What is kept of one table in one SCU. Async locks: readers of one SCU wait for each other
/// rather than sort the same rows twice.
#[derive(Debug, Default)]
struct TableCache {
    tiers: tokio::sync::Mutex<Vec<Tier>>,
    index: tokio::sync::Mutex<KeyIndex>,
}

/// The batches `from..to` of an SCU, sorted and composed.
#[derive(Debug, Clone)]
struct Tier {
    from: u32,
    to: u32,
    rows: u64,
    chunks: Arc<Vec<Chunk>>,
}

/// Where each key of the first `to` batches stands: some 40 bytes a row. The changes of keys that
/// have one hash are a chain.
#[derive(Debug, Default)]
struct KeyIndex {
    to: u32,
    parts: Vec<(Arc<AcceptedBatch>, Place)>,
    /// By the hash of a key, the newest row in `rows`.
    newest: HashMap<u64, u32>,
    rows: Vec<IndexedRow>,
}

#[derive(Debug, Clone, Copy)]
struct IndexedRow {
    part: u32,
    row: u32,
    /// The row before it that has its hash.
    older: Option<NonZeroU32>,
}

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
        let mut tiers = cache.tiers.lock().await;
        let kept = tiers.iter().take_while(|tier| tier.to <= batches).count();
        let end = tiers[..kept].last().map_or(0, |tier| tier.to);
        if kept < tiers.len() {
            // An older snapshot than the cache has seen: its tail is its own affair.
            let mut sources: Vec<_> = tiers[..kept]
                .iter()
                .map(|tier| Arc::clone(&tier.chunks))
                .collect();
            drop(tiers);
            sources.push(sort_tier(ids, layout, scu, end, batches).await?.chunks);
            return Ok(sources);
        }
        if end < batches {
            let mut newest = sort_tier(ids, layout, scu, end, batches).await?;
            while let Some(older) = tiers.last() {
                if newest.rows * TIER_RATIO < older.rows {
                    break;
                }
                newest = sort_tier(ids, layout, scu, older.from, batches).await?;
                tiers.pop();
            }
            tiers.push(newest);
        }
        Ok(tiers.iter().map(|tier| Arc::clone(&tier.chunks)).collect())
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
        let mut found: Vec<ChangeBatch> = Vec::new();
        // Many changes of a key may stand in one part.
        let mut read: Option<(u32, ChangeBatch)> = None;
        for IndexedRow { part, row, .. } in index.with_hash(key_hash(key)) {
            let (batch, place) = &index.parts[part as usize];
            if batch.position > batches {
                continue;
            }
            let rows = match &read {
                Some((known, rows)) if *known == part => rows,
                _ => {
                    let rows = ids.read(layout, scu, batch, *place).await?;
                    &read.insert((part, rows)).1
                }
            };
            let row = row as usize;
            let change = rows.slice(row, 1);
            if layout.codec.encode(&change.data)?.row(0).data() != key {
                continue;
            }
            let split = row > 0 && rows.kind(row - 1).is_split();
            let total = change.kind(0).is_total();
            found.push(if split {
                rows.slice(row - 1, 2)
            } else {
                change
            });
            if total {
                break;
            }
        }
        composed(layout, found)
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
        for batch in scu.prefix(batches).into_iter().skip(self.to as usize) {
            // A read may fail, or whoever waits for it leave: a batch is in the index whole, once.
            let mut parts = Vec::new();
            for place in Identifier::places(&layout.table, &batch) {
                parts.push((place, ids.read(layout, scu, &batch, place).await?));
            }
            for (place, rows) in parts {
                self.add(layout, Arc::clone(&batch), place, &rows)?;
            }
            self.to += 1;
        }
        self.to = batches;
        Ok(())
    }

    fn add(
        &mut self,
        layout: &RowLayout,
        batch: Arc<AcceptedBatch>,
        place: Place,
        rows: &ChangeBatch,
    ) -> Result<()> {
        let keys = layout.codec.encode(&rows.data)?;
        let part = self.parts.len() as u32;
        for row in 0..rows.rows() {
            // The second row of a pair stands for both.
            if !rows.kind(row).is_split() {
                let hash = key_hash(keys.row(row).data());
                // Counted from 1, so that 0 is none.
                let number = self.rows.len() as u32 + 1;
                let older = self.newest.insert(hash, number);
                self.rows.push(IndexedRow {
                    part,
                    row: row as u32,
                    older: older.and_then(NonZeroU32::new),
                });
            }
        }
        self.parts.push((batch, place));
        Ok(())
    }

    /// The rows of keys with this hash, newest first.
    fn with_hash(&self, hash: u64) -> impl Iterator<Item = IndexedRow> + '_ {
        let at = |number: NonZeroU32| self.rows.get(number.get() as usize - 1).copied();
        let newest = self.newest.get(&hash).copied().and_then(NonZeroU32::new);
        std::iter::successors(newest.and_then(at), move |row| row.older.and_then(at))
    }
}

async fn sort_tier(
    ids: &Identifier,
    layout: &Arc<RowLayout>,
    scu: &UnsortedScu,
    from: u32,
    to: u32,
) -> Result<Tier> {
    let mut changes = Vec::new();
    for batch in scu.prefix(to).into_iter().skip(from as usize) {
        for place in Identifier::places(&layout.table, &batch) {
            changes.push(ids.read(layout, scu, &batch, place).await?);
        }
    }
    let rows = changes.iter().map(|batch| batch.rows() as u64).sum();
    let chunks = sort_changes(layout, &changes)?
        .into_iter()
        .map(|rows| Chunk::new(layout, rows))
        .collect::<Result<Vec<_>>>()?;
    Ok(Tier {
        from,
        to,
        rows,
        chunks: Arc::new(chunks),
    })
}
