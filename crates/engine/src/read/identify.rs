//! Numbers for SCUs that are not sorted: what the remap stage does, for the worker and for readers
//! that come earlier (section 3.7 of the paper: a query runs the stages' work itself).
//!
//! ```text
//!   mentions of a batch --> distinct --> SCUs before it, not sorted: what they gave out
//!                                    --> the stored map: its runs, by key
//!                                    --> new: the next numbers, in order
//! ```
//!
//! Reads the log, and the key map's runs; keeps what it finds with the SCU, for whoever needs it
//! next. What a damaged run of the map held, the log of its SCU tells once more. Invariant ID-4:
//! the numbers of an SCU are given out after those of all SCUs before it, from the next numbers
//! that these leave.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use futures::FutureExt;
use futures::future::BoxFuture;
use lazybase_model::table::Table;
use lazybase_model::{Error, NextIds, Result, ScuNumber, TableId};
use parking_lot::Mutex;

use super::key_map::find_in_map;
use super::snapshot::Reader;
use super::turns::Turn;
use crate::change_batch::ChangeBatch;
use crate::env::planted::{Planted, is_planted};
use crate::manifest::{Manifest, Pin, ScuEntry, TableState};
use crate::segment::RowLayout;
use crate::stages::ingest::{AcceptedBatch, UnsortedScu, open_sealed};
use crate::stages::remap::key_table::KeyTable;
use crate::stages::remap::sorted_keys::SortedKeys;
use crate::stages::remap::{Assigned, Known, Mentions, rewrite};

/// What is read of a part of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The part.
    part: usize,
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The table's own changes.
    Given,
    /// Of the mentions of its keys: rows that references make.
    Implied,
    /// Of the mentions of a key map: the new keys.
    NewKeys,
}

impl Place {
    /// The uncompressed bytes of what it is read from.
    pub fn raw_bytes(self, batch: &AcceptedBatch) -> u64 {
        batch.parts[self.part].raw_bytes
    }
}

/// Gives numbers to natural keys, over a manifest and the SCUs after those that it has sorted.
#[derive(Debug, Clone)]
pub struct Identifier {
    pub(crate) reader: Reader,
    pub(super) manifest: Arc<Manifest>,
    unsorted: Arc<[Arc<UnsortedScu>]>,
    /// What damaged runs of key maps held, as their logs tell it. Clones share it.
    logged: Arc<Mutex<Logged>>,
    /// Keeps the key maps' files.
    _pin: Option<Arc<Pin>>,
}

/// Sorted SCUs whose logs were opened again, with numbers for the keys of one map.
type Logged = BTreeMap<(ScuNumber, TableId), Arc<UnsortedScu>>;

/// SCUs, each with how many of its batches count.
type Group<'g> = Vec<(&'g UnsortedScu, u32)>;

/// The uncompressed bytes of mentions that are looked up together.
const REMAP_BYTES: u64 = 128 << 20;

/// The numbers after an SCU, by key map.
pub type NextOfMaps = BTreeMap<TableId, NextIds>;

impl Identifier {
    /// Of a manifest that the caller keeps pinned. `unsorted` are all SCUs after those that are
    /// sorted in it, oldest first, up to the newest that will be asked for.
    pub fn new(
        reader: Reader,
        manifest: Arc<Manifest>,
        unsorted: impl IntoIterator<Item = Arc<UnsortedScu>>,
    ) -> Identifier {
        Identifier {
            reader,
            manifest,
            unsorted: unsorted.into_iter().collect(),
            logged: Arc::default(),
            _pin: None,
        }
    }

    /// The same, of a manifest that this keeps pinned.
    pub fn pinned(
        reader: Reader,
        pin: Pin,
        unsorted: impl IntoIterator<Item = Arc<UnsortedScu>>,
    ) -> Identifier {
        let manifest = Arc::clone(pin.manifest());
        Identifier {
            _pin: Some(Arc::new(pin)),
            ..Identifier::new(reader, manifest, unsorted)
        }
    }

    /// Of one SCU whose log was opened again after it was sorted.
    pub(crate) fn of_log(&self) -> Identifier {
        Identifier {
            unsorted: Arc::default(),
            ..self.clone()
        }
    }

    /// Gives numbers to all mentions of an SCU that is sealed, and tells what comes next. SCUs
    /// before it get theirs together with it.
    ///
    /// # Errors
    /// `Corrupt` when log or map are damaged, or the map holds other numbers.
    pub async fn remap(&self, scu: &UnsortedScu) -> Result<NextOfMaps> {
        let batches = scu.acknowledged();
        for map in self.maps_of(scu) {
            self.assign(scu, map, batches).await?;
        }
        let state = scu.remap.lock().await;
        let next = state.iter().map(|(map, of)| (*map, of.next.clone()));
        Ok(next.collect())
    }

    /// The next numbers of a key map after everything that was acknowledged.
    ///
    /// # Errors
    /// As [`Identifier::remap`].
    pub async fn next_ids(&self, map: TableId) -> Result<NextIds> {
        let mut next = self.manifest.next_ids_at(map, ScuNumber(u64::MAX));
        for scu in self
            .unsorted
            .iter()
            .filter(|scu| scu.table_totals(map).rows > 0)
        {
            self.assign(scu, map, scu.acknowledged()).await?;
            next = scu
                .remap
                .lock()
                .await
                .get(&map)
                .map(|of| of.next.clone())
                .or(next);
        }
        next.ok_or_else(|| Error::not_found(format!("{map} is no key map")))
    }

    /// Whether an SCU changes a table, be it through references to its keys.
    pub fn touches(table: &Table, scu: &UnsortedScu) -> bool {
        let through_map = |(_, map)| scu.table_totals(map).rows > 0;
        scu.table_totals(table.id).rows > 0 || table.owned_id().is_some_and(through_map)
    }

    /// What there is to read of a table in a batch, in the order of its changes.
    pub fn places(table: &Table, batch: &AcceptedBatch) -> Vec<Place> {
        let parts = |of: TableId, form: Form| {
            let parts = batch.parts.iter().enumerate();
            let of_table = parts.filter(move |(_, part)| part.table == of);
            of_table.map(move |(part, _)| Place { part, form })
        };
        let own = match table.key_map {
            Some(_) => Form::NewKeys,
            None => Form::Given,
        };
        let map = table.owned_id().map(|(_, map)| map);
        let implied = map.into_iter().flat_map(|map| parts(map, Form::Implied));
        implied.chain(parts(table.id, own)).collect()
    }

    /// Changes of a table, with numbers in their ID columns.
    ///
    /// # Errors
    /// As [`Identifier::remap`].
    pub async fn read(
        &self,
        layout: &RowLayout,
        scu: &UnsortedScu,
        batch: &AcceptedBatch,
        place: Place,
    ) -> Result<ChangeBatch> {
        let table = &layout.table;
        let part = &batch.parts[place.part];
        let store = &*self.reader.env.store;
        if place.form == Form::Given {
            let changes = part.read(store, layout, scu.scu()).await?;
            return match table.id_keys().next() {
                None => Ok(changes),
                Some(_) => self.with_numbers(table, scu, batch, changes).await,
            };
        }
        let map = &self.map(part.table)?.table;
        self.assign(scu, map.id, batch.position).await?;
        // Most batches mention keys that have their numbers: these make no rows.
        let mentions = part.first_row..part.first_row + part.rows;
        let gives_new = {
            let state = scu.remap.lock().await;
            of_map(&state, map.id)?.gives_new(mentions)
        };
        if !gives_new {
            return Ok(no_rows(layout, scu.scu()));
        }
        let of_map_rows = self.reader.layout(map)?;
        let rows = part.read(store, &of_map_rows, scu.scu()).await?;
        let state = scu.remap.lock().await;
        let mentioned = rewrite::MentionRows {
            map,
            rows: &rows,
            first: part.first_row,
        };
        let assigned = of_map(&state, map.id)?;
        match place.form {
            Form::Implied => {
                let made = mentioned.of_owner(table, assigned)?;
                Ok(made.unwrap_or_else(|| no_rows(layout, scu.scu())))
            }
            Form::Given | Form::NewKeys => mentioned.of_map(assigned),
        }
    }

    async fn with_numbers(
        &self,
        table: &Table,
        scu: &UnsortedScu,
        batch: &AcceptedBatch,
        changes: ChangeBatch,
    ) -> Result<ChangeBatch> {
        let mut firsts = BTreeMap::new();
        for (_, id_key) in table.id_keys() {
            let part = batch.parts.iter().find(|part| part.table == id_key.map);
            if let Some(part) = part {
                self.assign(scu, id_key.map, batch.position).await?;
                firsts.insert(id_key.map, part.first_row as usize);
            }
        }
        let state = scu.remap.lock().await;
        rewrite::with_numbers(table, changes, |map| {
            let first = *firsts.get(&map)?;
            state.get(&map)?.ids.get(first..)
        })
    }

    fn map(&self, id: TableId) -> Result<&Arc<TableState>> {
        let state = self.manifest.tables.get(&id);
        state.ok_or_else(|| Error::not_found(format!("key map {id} is not in the snapshot")))
    }

    /// The key maps whose keys an SCU mentions.
    fn maps_of(&self, scu: &UnsortedScu) -> Vec<TableId> {
        let tables = scu.tables().into_keys();
        tables.filter(|id| self.manifest.is_key_map(*id)).collect()
    }

    /// Gives numbers to the mentions of a map's keys in the first batches of an SCU, those of the
    /// SCUs before it first. Whoever comes meanwhile waits, and finds them.
    async fn assign(&self, scu: &UnsortedScu, map: TableId, batches: u32) -> Result<()> {
        match assigned_through(scu, map).await >= batches {
            true => Ok(()),
            // Boxed: it is rare, and its state is large.
            false => Box::pin(self.assign_in_turn(scu, map, batches)).await,
        }
    }

    async fn assign_in_turn(&self, scu: &UnsortedScu, map: TableId, batches: u32) -> Result<()> {
        loop {
            let turn = self.reader.remapping.take().await;
            if assigned_through(scu, map).await >= batches {
                return Ok(());
            }
            // Else the turn was passed on: others give out numbers, and this one comes after them.
            if self.assign_with(&turn, scu, map, batches).await? {
                return Ok(());
            }
        }
    }

    /// The same, by whoever has the turn; whether it was kept to the end.
    async fn assign_with(
        &self,
        turn: &Turn<'_>,
        scu: &UnsortedScu,
        map: TableId,
        batches: u32,
    ) -> Result<bool> {
        let state = self.map(map)?;
        let mut group: Group<'_> = Vec::new();
        let mut bytes = 0;
        let asked = scu.scu();
        let earlier = self
            .before(scu)
            .map(|scu| (scu.as_ref(), scu.acknowledged()));
        for (scu, batches) in earlier.chain([(scu, batches)]) {
            let mentions = scu.table_totals(map);
            if mentions.rows == 0 && scu.scu() < asked {
                continue;
            }
            let through = assigned_through(scu, map).await;
            // What has numbers tells later SCUs some that the first of a group does not.
            if (through > 0 || bytes > REMAP_BYTES) && !group.is_empty() {
                if !Box::pin(self.assign_group(state, &group, Some(turn))).await? {
                    return Ok(false);
                }
                (group, bytes) = (Vec::new(), 0);
            }
            if through < batches {
                group.push((scu, batches));
                bytes += mentions.raw_bytes;
            }
        }
        match group.is_empty() {
            true => Ok(true),
            false => Box::pin(self.assign_group(state, &group, Some(turn))).await,
        }
    }

    /// A sorted SCU from its log, with numbers for the keys of a map: what the map's run of it
    /// holds. The log is opened once, and whoever opens it has it alone: this waits for no turn,
    /// which whoever needs it may have.
    ///
    /// # Errors
    /// `Corrupt` when the log is damaged, or tells of other numbers than the manifest.
    pub(super) fn logged<'f>(
        &'f self,
        map: &'f TableState,
        entry: &'f ScuEntry,
    ) -> BoxFuture<'f, Result<Arc<UnsortedScu>>> {
        async move {
            let key = (entry.scu, map.table.id);
            let known = self.logged.lock().get(&key).cloned();
            if let Some(scu) = known {
                return Ok(scu);
            }
            let scu = open_sealed(&*self.reader.env.store, entry).await?;
            let group: Group<'_> = vec![(scu.as_ref(), entry.batches)];
            self.of_log().assign_group(map, &group, None).await?;
            self.logged.lock().insert(key, Arc::clone(&scu));
            Ok(scu)
        }
        .boxed()
    }

    /// The SCUs before one that are not sorted either, oldest first.
    fn before(&self, scu: &UnsortedScu) -> impl DoubleEndedIterator<Item = &Arc<UnsortedScu>> {
        let number = scu.scu();
        self.unsorted.iter().filter(move |of| of.scu() < number)
    }

    /// Numbers for SCUs that follow each other, of which the first alone may have some already:
    /// one look into the map for all of them. Whether they were kept: whoever's turn was passed on
    /// keeps nothing (ID-5). Where nobody else has the SCUs there is no turn to be had.
    async fn assign_group(
        &self,
        map: &TableState,
        group: &Group<'_>,
        turn: Option<&Turn<'_>>,
    ) -> Result<bool> {
        let id = map.table.id;
        let layout = self.reader.layout(&map.table)?;
        let mut distinct = KeyTable::default();
        let mut mentions = Vec::with_capacity(group.len());
        for (scu, batches) in group {
            let from = assigned_through(scu, id).await;
            let mut of_scu = Mentions::default();
            for batch in scu.batches(from..*batches) {
                for part in batch.parts.iter().filter(|part| part.table == id) {
                    let store = &*self.reader.env.store;
                    let rows = part.read(store, &layout, scu.scu()).await?;
                    of_scu.add(&mut distinct, &layout.codec, &rows.data)?;
                }
            }
            mentions.push(of_scu);
        }
        let mut numbers = vec![0; distinct.len()];
        let stored = self.known(group, map, &distinct, &mut numbers).await?;
        for ((scu, batches), of_scu) in group.iter().zip(mentions) {
            let next = self.next_before(scu, id).await?;
            let mut state = scu.remap.lock().await;
            let keep = || -> Result<()> {
                let mut assigned = state
                    .remove(&id)
                    .unwrap_or_else(|| Assigned::new(scu.scu(), next));
                // What fails is not kept: nobody may read numbers that are wrong.
                assigned.extend(&distinct, &of_scu, &mut numbers, &stored, *batches)?;
                let whole = *batches == scu.acknowledged();
                self.check_next(scu.scu(), id, &assigned, whole)?;
                state.insert(id, assigned);
                Ok(())
            };
            let kept = match turn {
                Some(turn) => turn.during(keep),
                None => Some(keep()),
            };
            match kept {
                Some(kept) => kept?,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The next numbers of a map at the end of the SCU before one.
    async fn next_before(&self, scu: &UnsortedScu, map: TableId) -> Result<NextIds> {
        for earlier in self.before(scu).rev() {
            if let Some(of) = earlier.remap.lock().await.get(&map) {
                return Ok(of.next.clone());
            }
        }
        let first = self.before(scu).next();
        let first = first.map_or(scu.scu(), |first| first.scu());
        let next = self.manifest.next_ids_at(map, first.previous());
        next.ok_or_else(|| Error::internal(format!("{map} is not a key map of the snapshot")))
    }

    /// What is known of distinct keys before a group: into `numbers` what its SCUs and those
    /// before it, which are not sorted, gave out; and what the stored map holds of the others.
    async fn known(
        &self,
        group: &Group<'_>,
        map: &TableState,
        distinct: &KeyTable,
        numbers: &mut [i64],
    ) -> Result<Vec<Option<Known>>> {
        let [(first, _), ..] = group.as_slice() else {
            return Ok(Vec::new());
        };
        let mut open: Vec<u32> = (0..distinct.len() as u32).collect();
        let before = self.before(first).rev().map(|scu| scu.as_ref());
        for scu in std::iter::once(*first).chain(before) {
            let state = scu.remap.lock().await;
            if let Some(of) = state.get(&map.table.id) {
                open.retain(|at| {
                    let at = *at as usize;
                    let id = of.fresh(distinct.hash(at), distinct.key(at));
                    let id = id.filter(|_| !is_planted(Planted::IdShared));
                    numbers[at] = id.unwrap_or(0);
                    id.is_none()
                });
            }
        }
        let open = SortedKeys::new(distinct, open);
        let last = group.last().map_or(first.scu(), |(last, _)| last.scu());
        find_in_map(self, map, last, &open, distinct.len()).await
    }

    /// What an edit says of the next numbers after an SCU must come out.
    fn check_next(
        &self,
        scu: ScuNumber,
        map: TableId,
        assigned: &Assigned,
        whole: bool,
    ) -> Result<()> {
        let of_scu = self.manifest.next_ids.get(&scu);
        let said = of_scu.and_then(|of_maps| of_maps.get(&map));
        match said.filter(|_| whole) {
            Some(said) if *said != assigned.next => Err(Error::corrupt(format!(
                "SCU {scu} leaves other next numbers of {map} than the manifest says"
            ))),
            _ => Ok(()),
        }
    }
}

/// How many batches of an SCU have numbers for a map's keys.
async fn assigned_through(scu: &UnsortedScu, map: TableId) -> u32 {
    let state = scu.remap.lock().await;
    state.get(&map).map_or(0, |of| of.batches)
}

fn no_rows(layout: &RowLayout, scu: ScuNumber) -> ChangeBatch {
    let schema = Arc::clone(&layout.batch_schemas().whole);
    ChangeBatch::upserts(RecordBatch::new_empty(schema), scu.0)
}

fn of_map(state: &BTreeMap<TableId, Assigned>, map: TableId) -> Result<&Assigned> {
    let assigned = state.get(&map);
    assigned.ok_or_else(|| Error::internal(format!("keys of {map} have no numbers")))
}
