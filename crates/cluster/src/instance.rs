//! One running database: ingest, coordinator and workers of one process behind one handle.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use lazybase_engine::change_batch::ChangeBatch;
use lazybase_engine::env::{ActorHandle, Env};
use lazybase_engine::manifest::{Ddl, Manifest, ManifestStore, Pin, ProducerMark, Repartitioned};
use lazybase_engine::read::{Identifier, Reader, Snapshot, SnapshotAsk};
use lazybase_engine::schema::{Alteration, altered};
use lazybase_engine::stages::ingest::{
    self, BatchNumber, CoordinatorClock, Ingest, IngestOptions, TableVersions, UnsortedScu,
};
use lazybase_engine::stages::remap::KeyedChanges;
use lazybase_model::access::RoleId;
use lazybase_model::{
    Column, DatabaseId, Error, ErrorKind, Freshness, Horizon, IdKeyColumn, NextIds, OnMiss,
    PartitionChange, Result, SchemaVersion, ScuNumber, Table, TableId, Token, ViewId, ViewQuery,
};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};

use crate::adopt::seal_edit;
use crate::condemned;
use crate::coordinator::{
    Command, Coordinator, CoordinatorParts, DdlRequest, Event, TableSpec, Unchanged, ViewSpec,
    define, define_view, no_table,
};
use crate::sequences::Sequences;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::task::StageName;
use crate::trace::ScuSpans;
use crate::worker::WorkerContext;

mod numbers;
mod settle;
mod upkeep;

pub use settle::SettleTo;

/// A running database. Cheap to clone; [`Instance::close`] ends it for all clones.
#[derive(Clone)]
pub struct Instance {
    shared: Arc<Shared>,
    events: mpsc::UnboundedSender<Event>,
    coordinator: Arc<Mutex<Option<Box<dyn ActorHandle>>>>,
}

/// What a reader asks for.
#[derive(Debug, Clone, Default)]
pub struct SnapshotRequest {
    /// The bound on staleness.
    pub freshness: Freshness,
    /// The answer is never before this: the session's floor, or a token's horizon.
    pub floor: Horizon,
    /// What to do when the bound needs unsorted data.
    pub on_miss: OnMiss,
    /// A horizon of the past instead of a bound.
    pub at: Option<AsOf>,
    /// The tables that the query names; `None` for all.
    pub tables: Option<Vec<TableId>>,
    /// Who holds the pin, for the status.
    pub owner: String,
}

/// A horizon of the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsOf {
    /// The end of this SCU.
    Scu(ScuNumber),
    /// The newest boundary whose batches were all acknowledged by then, in microseconds since 1970.
    Timestamp {
        /// The moment.
        micros: i64,
    },
}

/// What a committed batch is told.
#[derive(Debug, Clone)]
pub struct Acknowledgement {
    /// Covers the batch; carries its horizon to other clients.
    pub token: Token,
    /// The rows of the batch.
    pub rows: u64,
    /// The producer had committed this number before.
    pub duplicate: bool,
}

/// One batch being written, over one or more tables. Dropping it rolls it back.
pub struct BatchWriter {
    inner: ingest::BatchWriter,
    database: DatabaseId,
    spans: ScuSpans,
}

impl BatchWriter {
    /// Adds changes: the table's columns in its order, without the hidden key where the rows are
    /// new. They are taken as validated.
    ///
    /// # Errors
    /// `Invalid` when the batch grows past its limit; `Unavailable` when the log can't be written.
    #[boxed]
    pub async fn append(&mut self, table: &Arc<Table>, changes: ChangeBatch) -> Result<()> {
        self.inner.append(table, changes).await
    }

    /// Adds changes whose ID columns may hold places of natural keys.
    ///
    /// # Errors
    /// As [`BatchWriter::append`]; `Invalid` when an ID column names no key.
    #[boxed]
    pub async fn append_keyed(&mut self, table: &Arc<Table>, keyed: KeyedChanges) -> Result<()> {
        self.inner.append_keyed(table, keyed).await
    }

    /// Makes the batch durable and visible.
    ///
    /// # Errors
    /// `Conflict` when a table changed meanwhile or the producer was fenced; `MaybeHappened` when
    /// the disk failed at the wrong moment.
    #[boxed]
    pub async fn commit(self) -> Result<Acknowledgement> {
        let done = self.inner.commit().await?;
        self.spans.acknowledged(&done);
        Ok(Acknowledgement::new(self.database, done))
    }
}

impl Acknowledgement {
    fn new(database: DatabaseId, done: ingest::Acknowledgement) -> Acknowledgement {
        Acknowledgement {
            token: Token {
                database,
                horizon: done.horizon,
            },
            rows: done.rows,
            duplicate: done.duplicate,
        }
    }
}

impl Instance {
    /// Opens the database in the environment's store; makes one where there is none.
    ///
    /// # Errors
    /// `Corrupt` when what is stored can't be trusted, naming the file; `Unavailable` when the
    /// store refuses.
    pub async fn open(env: Env, settings: Settings) -> Result<Instance> {
        Instance::open_healing(env, settings, &[]).await
    }

    /// The same, with damage that is known already: it is read around and healed from the first
    /// moment on, before anything that heals it could be retired.
    ///
    /// # Errors
    /// As [`Instance::open`].
    #[boxed(?Send)]
    pub async fn open_healing(env: Env, settings: Settings, known: &[Error]) -> Result<Instance> {
        env.planted.begin();
        crate::repair::finish_cuts(&*env.store).await?;
        // Opening writes an edit: the number of one that is gone must not be given to it.
        match ManifestStore::open_read_only(&env).await {
            Ok(found) => drop(ingest::examine(&*env.store, &found.current()).await?),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let manifests = Arc::new(ManifestStore::open(&env).await?);
        let manifest = manifests.current();
        let (recovered, opening) = ingest::open_log(&env, &manifest).await?;
        for scu in recovered {
            manifests.commit(seal_edit(&scu)).await?;
        }
        let persisted = manifest.clock_micros.max(opening.last_ack_micros);
        let clock = CoordinatorClock::start(Arc::clone(&env.clock), persisted);
        let (sealed_tx, sealed) = mpsc::unbounded_channel();
        let tables = Arc::new(TableVersions::of(&manifest));
        let options = ingest_options(&settings);
        let lost = opening.lost.clone();
        let ingest = Ingest::open(
            env.clone(),
            clock.clone(),
            options,
            tables,
            opening,
            sealed_tx,
        )
        .await;
        let shared = Arc::new(Shared {
            clock,
            reader: Reader::new(env.clone(), settings.cache_bytes),
            changed: watch::Sender::new(manifest.number),
            tasks: Mutex::default(),
            tending: tokio::sync::Mutex::default(),
            next_ids: Mutex::new((TableId(manifest.next_table), ViewId(manifest.next_view))),
            next_version: Mutex::new(next_version(&manifest)),
            sequences: Sequences::default(),
            spans: ScuSpans::default(),
            env,
            settings,
            manifests,
            ingest,
        });
        for error in &lost {
            shared.report_trouble(error);
        }
        let marks = condemned::load(&*shared.env.store).await?;
        for error in lost.iter().chain(known).chain(&marks.damaged) {
            shared.reader.damaged.note(error);
        }
        condemned::reset_views(&shared.manifests, &marks.condemned).await?;
        for error in &marks.condemned {
            shared.reader.damaged.condemn(error);
        }
        let marked = marks.damaged.iter().filter_map(Error::damaged_file);
        let marked = marked.map(str::to_owned).collect();
        Ok(Instance::start(shared, sealed, marked))
    }

    fn start(
        shared: Arc<Shared>,
        sealed: mpsc::UnboundedReceiver<ingest::Sealed>,
        damage_marks: BTreeSet<String>,
    ) -> Instance {
        let (events, inbox) = mpsc::unbounded_channel();
        let context = WorkerContext {
            env: shared.env.clone(),
            settings: shared.settings.clone(),
            cache: Arc::clone(&shared.reader.cache),
            damaged: shared.reader.damaged.clone(),
            reports: events.clone(),
        };
        let parts = CoordinatorParts {
            shared: Arc::clone(&shared),
            events: inbox,
            sealed,
            context,
            damage_marks,
        };
        let actor = Box::pin(Coordinator::new(parts).run());
        let handle = shared.env.spawner.spawn("coordinator", actor);
        Instance {
            shared,
            events,
            coordinator: Arc::new(Mutex::new(Some(handle))),
        }
    }

    /// Whose database it is.
    pub fn database(&self) -> DatabaseId {
        self.shared.manifests.current().database
    }

    /// The newest manifest.
    pub fn manifest(&self) -> Arc<Manifest> {
        self.shared.manifests.current()
    }

    /// The environment it runs in.
    pub fn env(&self) -> &Env {
        &self.shared.env
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Now, in microseconds since 1970, on the clock that staleness is measured on.
    pub fn now_micros(&self) -> i64 {
        self.shared.now()
    }

    /// The newest definition of a table.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    pub fn table(&self, name: &str) -> Result<Arc<Table>> {
        let manifest = self.shared.manifests.current();
        let state = manifest.table_named(name).ok_or_else(|| no_table(name))?;
        Ok(Arc::clone(&state.table))
    }

    /// Begins a batch; with a number, it counts once.
    pub fn begin(&self, number: Option<BatchNumber>) -> BatchWriter {
        BatchWriter {
            inner: self.shared.ingest.begin(number),
            database: self.database(),
            spans: self.shared.spans.clone(),
        }
    }

    /// Opens a producer's session as whoever owns the folder: fences older ones of its name, and
    /// tells its mark.
    ///
    /// # Errors
    /// `Unavailable` when the store refuses the edit.
    #[boxed]
    pub async fn open_producer(&self, name: &str) -> Result<(u64, Option<ProducerMark>)> {
        self.open_producer_as(name, None).await
    }

    /// Opens a producer's session as a role, which it belongs to from then on, if it belongs to
    /// nobody yet.
    ///
    /// # Errors
    /// As [`Instance::open_producer`]; `Invalid` (42501) for a producer of another role, of which
    /// this one is no member.
    #[boxed]
    pub async fn open_producer_as(
        &self,
        name: &str,
        role: Option<RoleId>,
    ) -> Result<(u64, Option<ProducerMark>)> {
        let name = name.to_owned();
        self.ask(|reply| Command::OpenProducer { name, role, reply })
            .await?
    }

    /// The definition of a new table, under ids of its own. It is not there yet: batches may be
    /// written for it, and [`Instance::commit`] makes it.
    ///
    /// # Errors
    /// `Invalid` when the specification makes no sense.
    pub fn define_table(&self, spec: &TableSpec) -> Result<Arc<Table>> {
        let (table, view) = self.shared.take_ids();
        define(spec, table, view).map(Arc::new)
    }

    /// The next definition of a table, under a version of its own. It is not in force yet: batches
    /// may be written under it, and [`Instance::commit`] takes it as a `Ddl::Alter`.
    ///
    /// # Errors
    /// `Invalid` when a change can't be made, saying why; `NotFound` for an unknown column.
    pub fn define_alteration(&self, table: &Table, changes: &[Alteration]) -> Result<Arc<Table>> {
        altered(table, changes, self.shared.take_version()).map(Arc::new)
    }

    /// What a change of its range partitions makes of a table, under a version of its own. It is
    /// not there yet: [`Instance::commit`] makes it.
    ///
    /// # Errors
    /// As [`Manifest::repartitioned`].
    pub fn repartition(&self, table: &Table, change: &PartitionChange) -> Result<Repartitioned> {
        let version = self.shared.take_version();
        self.manifest().repartitioned(table, change, version)
    }

    /// Changes a table's definition.
    ///
    /// # Errors
    /// As [`Instance::define_alteration`] and [`Instance::commit`].
    #[boxed]
    pub async fn alter_table(&self, name: &str, changes: &[Alteration]) -> Result<Arc<Table>> {
        let before = self.table(name)?;
        let table = self.define_alteration(&before, changes)?;
        let alter = Ddl::Alter {
            base: before.version,
            table: table.as_ref().clone(),
        };
        self.commit(vec![alter], None).await?;
        Ok(table)
    }

    /// The definition of a new secondary view of a table, under ids of its own. It is not there
    /// yet: [`Instance::commit`] makes it.
    ///
    /// # Errors
    /// `Invalid` when the specification makes no sense, `NotFound` for a column that is not there.
    pub fn define_view(&self, table: &Table, spec: &ViewSpec) -> Result<Arc<Table>> {
        let (id, view) = self.shared.take_ids();
        define_view(table, spec, id, view).map(Arc::new)
    }

    /// The definition of a new plain view, under an id of its own. It is not there yet:
    /// [`Instance::commit`] makes it.
    pub fn define_plain_view(&self, name: &str, columns: Vec<Column>, query: ViewQuery) -> Table {
        let (id, _) = self.shared.take_ids();
        Table::plain_view(id, name, columns, query)
    }

    /// A definition that a plain view goes on under, with a version of its own. It is not in force
    /// yet: [`Instance::commit`] takes it as a `Ddl::AlterPlainView`.
    pub fn define_next(&self, view: Table) -> Arc<Table> {
        let version = self.shared.take_version();
        Arc::new(Table { version, ..view })
    }

    /// The first of these numbers that a key map never gave out, if there is one.
    ///
    /// # Errors
    /// `NotFound` when the map is gone; `Corrupt` when the log is damaged.
    #[boxed]
    pub async fn first_not_given(&self, map: TableId, ids: &[i64]) -> Result<Option<i64>> {
        let missing = |next: &NextIds| ids.iter().copied().find(|id| !next.has_given(*id));
        let known = self.manifest().next_ids_at(map, ScuNumber(u64::MAX));
        if known.as_ref().is_some_and(|next| missing(next).is_none()) {
            return Ok(None);
        }
        let (ids_of, _) = self.identifier("ID keys");
        Ok(missing(&ids_of.next_ids(map).await?))
    }

    /// What gives numbers to natural keys of the SCUs that are not sorted, and those SCUs, oldest
    /// first. `owner` is who holds the pin.
    pub fn identifier(&self, owner: &str) -> (Identifier, Vec<Arc<UnsortedScu>>) {
        let (unsorted, pin) = self.look(owner);
        let sorted = pin.manifest().sorted_through;
        let unsorted = unsorted.iter().filter(|scu| scu.scu() > sorted).cloned();
        let unsorted: Vec<Arc<UnsortedScu>> = unsorted.collect();
        let ids = Identifier::pinned(self.shared.reader.clone(), pin, unsorted.clone());
        (ids, unsorted)
    }

    /// The definitions of a new table and, where it owns an ID key, of its key map.
    ///
    /// # Errors
    /// As [`Instance::define_table`].
    pub fn define_tables(&self, spec: &TableSpec) -> Result<Vec<Arc<Table>>> {
        let mut table = self.define_table(spec)?.as_ref().clone();
        let owned = |column: &&mut Column| column.id_key == Some(IdKeyColumn::OWN);
        let Some(column) = table.columns.iter_mut().find(owned) else {
            return Ok(vec![Arc::new(table)]);
        };
        let (map, view) = self.shared.take_ids();
        column.id_key = Some(IdKeyColumn {
            map,
            owner: table.id,
        });
        let map = table.key_map_table(map, view);
        Ok(vec![Arc::new(table), Arc::new(map)])
    }

    /// Commits a transaction: what happens to tables, in this order, and a batch that may be
    /// written for the tables as they are then. All of it becomes visible at once, or nothing.
    /// `None` when there is no batch, or no row in it.
    ///
    /// # Errors
    /// `Conflict` when a name was taken or a table changed meanwhile, `NotFound` when a table is
    /// gone, `Unavailable` when log or manifest can't be written: nothing happened.
    /// `MaybeHappened` when the database was closed before it was known.
    #[boxed]
    pub async fn commit(
        &self,
        ddl: Vec<Ddl>,
        batch: Option<BatchWriter>,
    ) -> Result<Option<Acknowledgement>> {
        self.commit_unless_changed(ddl, batch, None).await
    }

    /// As [`Instance::commit`], if a table that the changes were made of is as it was read.
    ///
    /// # Errors
    /// Those, and `Conflict` (40001) when it is not: nothing happened.
    #[boxed]
    pub async fn commit_unless_changed(
        &self,
        ddl: Vec<Ddl>,
        batch: Option<BatchWriter>,
        unchanged: Option<Unchanged>,
    ) -> Result<Option<Acknowledgement>> {
        let mut batch = batch.map(|batch| batch.inner);
        if let Some(batch) = &mut batch {
            batch.write_ahead().await?;
        }
        let batch = batch.filter(|batch| batch.rows() > 0);
        let request = Box::new(DdlRequest::new(ddl, batch, unchanged));
        let done = self.ask(|reply| Command::Ddl { request, reply }).await??;
        if let Some(done) = &done {
            self.shared.spans.acknowledged(done);
        }
        Ok(done.map(|done| Acknowledgement::new(self.database(), done)))
    }

    /// Makes a table; `None` when it was there already and that is no error.
    ///
    /// # Errors
    /// `Conflict` when the name is taken; `Invalid` when the specification makes no sense.
    #[boxed]
    pub async fn create_table(
        &self,
        spec: TableSpec,
        if_not_exists: bool,
    ) -> Result<Option<Arc<Table>>> {
        let is_there = || self.manifest().table_named(&spec.name).is_some();
        if if_not_exists && is_there() {
            return Ok(None);
        }
        let tables = self.define_tables(&spec)?;
        let create = |table: &Arc<Table>| Ddl::Create {
            table: table.as_ref().clone(),
        };
        match self.commit(tables.iter().map(create).collect(), None).await {
            Ok(_) => Ok(tables.into_iter().next()),
            // Somebody else was quicker.
            Err(error) if error.kind() == ErrorKind::Conflict && if_not_exists && is_there() => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Drops a table; `false` when there was none and that is no error.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    #[boxed]
    pub async fn drop_table(&self, name: &str, if_exists: bool) -> Result<bool> {
        let dropped = async {
            let table = self.table(name)?;
            let map = table.owned_id().map(|(_, map)| map);
            let dropped = map.into_iter().chain([table.id]);
            let ddl = dropped.map(|table| Ddl::Drop { table }).collect();
            self.commit(ddl, None).await
        };
        match dropped.await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound && if_exists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Empties a table from this boundary on.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    #[boxed]
    pub async fn truncate_table(&self, name: &str) -> Result<()> {
        let table = self.table(name)?.id;
        self.commit(vec![Ddl::Truncate { table }], None)
            .await
            .map(drop)
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let closed = || Error::new(ErrorKind::Cancelled, "the database is closed");
        self.events
            .send(Event::Asked(command(reply)))
            .map_err(|_| closed())?;
        answer.await.map_err(|_| closed())
    }

    /// Pins what a query reads: the newest manifest, and the horizon that its bound demands.
    ///
    /// # Errors
    /// `Unavailable` when the bound can't be met and the request says `ON MISS ERROR`; `NotFound`
    /// when a past horizon is outside the retention.
    #[boxed]
    pub async fn snapshot(&self, request: SnapshotRequest) -> Result<Snapshot> {
        if let OnMiss::Wait(limit) = request.on_miss {
            return self.snapshot_waiting(request, limit).await;
        }
        self.try_snapshot(&request)
    }

    /// Whatever was altered while the snapshot was made may have batches in it of a definition that
    /// its manifest does not know: then it is made anew. Such a batch is taken only once the
    /// definition is current.
    fn try_snapshot(&self, request: &SnapshotRequest) -> Result<Snapshot> {
        loop {
            let (snapshot, seen) = self.snapshot_of_now(request)?;
            let now = self.shared.manifests.current();
            if Arc::ptr_eq(&now, &seen) || !now.redefines(&seen) {
                return Ok(snapshot);
            }
        }
    }

    fn snapshot_of_now(&self, request: &SnapshotRequest) -> Result<(Snapshot, Arc<Manifest>)> {
        let (unsorted, pin) = self.look(&request.owner);
        let manifest = Arc::clone(pin.manifest());
        let unsorted = unsorted
            .iter()
            .filter(|scu| scu.scu() > manifest.sorted_through)
            .cloned()
            .collect();
        let snapshot = self.shared.reader.snapshot(SnapshotAsk {
            pin,
            unsorted,
            now_micros: self.shared.now(),
            freshness: request.freshness,
            floor: request.floor,
            on_miss: request.on_miss,
            at: request.at.map(|at| match at {
                AsOf::Scu(scu) => lazybase_engine::read::AsOf::Scu(scu),
                AsOf::Timestamp { micros } => lazybase_engine::read::AsOf::Timestamp { micros },
            }),
            tables: request.tables.clone(),
        })?;
        Ok((snapshot, manifest))
    }

    /// The unsorted SCUs first, then the manifest: what is sorted between the two looks is in
    /// both, and the manifest's word counts. The other way round it could be in neither.
    fn look(&self, owner: &str) -> (Arc<Vec<Arc<UnsortedScu>>>, Pin) {
        loop {
            let unsorted = self.shared.ingest.unsorted();
            let pins = &self.shared.reader.pins;
            let pin = pins.pin(owner.to_owned(), || self.shared.manifests.current());
            // SCUs that began and were sealed between the two looks are in neither: look again.
            let sealed = pin.manifest().sealed_through;
            if unsorted.last().is_some_and(|open| open.scu() > sealed) {
                return (unsorted, pin);
            }
        }
    }

    /// Waits for the pipeline until the bound can be met from sorted data, then digs.
    async fn snapshot_waiting(
        &self,
        request: SnapshotRequest,
        limit: Duration,
    ) -> Result<Snapshot> {
        let mut changed = self.shared.changed.subscribe();
        let deadline = self.shared.env.clock.monotonic() + limit;
        let strict = SnapshotRequest {
            on_miss: OnMiss::Error,
            ..request.clone()
        };
        loop {
            match self.try_snapshot(&strict) {
                Err(error) if error.kind() == ErrorKind::Unavailable => {}
                other => return other,
            }
            let left = deadline.saturating_sub(self.shared.env.clock.monotonic());
            if left.is_zero() {
                return self.try_snapshot(&SnapshotRequest {
                    on_miss: OnMiss::Dig,
                    ..request
                });
            }
            tokio::select! {
                biased;
                _ = changed.changed() => {}
                () = self.shared.env.clock.sleep(left) => {}
            }
        }
    }

    /// Seals the open SCU, if it holds a batch; tells the newest sealed SCU.
    ///
    /// # Errors
    /// `Cancelled` when the database closes.
    #[boxed]
    pub async fn seal(&self) -> Result<ScuNumber> {
        self.shared.ingest.seal().await
    }

    /// Starts no new attempts of a stage; for [`StageName::Ingest`], the open SCU is not sealed by
    /// age or size.
    pub async fn pause(&self, stage: StageName) -> Result<()> {
        self.set_paused(stage, true).await
    }

    /// Lets a paused stage go on.
    pub async fn resume(&self, stage: StageName) -> Result<()> {
        self.set_paused(stage, false).await
    }

    async fn set_paused(&self, stage: StageName, paused: bool) -> Result<()> {
        self.ask(|reply| Command::Pause {
            stage,
            paused,
            reply,
        })
        .await
    }

    /// The snapshots that readers hold, the oldest first.
    pub fn pins(&self) -> Vec<crate::status::HeldPin> {
        crate::status::pins(&self.shared)
    }

    /// What the status shows.
    pub fn status(&self) -> crate::status::Status {
        crate::status::status(&self.shared)
    }

    /// The stored rows of a table that are acknowledged and not sorted yet.
    pub fn unsorted_rows(&self, table: TableId) -> u64 {
        let unsorted = self.shared.ingest.unsorted();
        let manifest = self.shared.manifests.current();
        let Some(state) = manifest.tables.get(&table) else {
            return 0;
        };
        let through = manifest.sorted_through.max(state.created_after);
        let unsorted = unsorted.iter().filter(|scu| scu.scu() > through);
        unsorted.map(|scu| scu.table_totals(table).rows).sum()
    }

    /// Seals the open SCU, lets the running attempts end, and stops. What is not sorted stays in
    /// the log and goes on when the database is opened again. A checkpoint of the manifest says
    /// once more what its edits say; where it can't be written, that is reported, and nothing is
    /// lost.
    ///
    /// # Errors
    /// `Cancelled` when it has stopped already. Where the last seal can't be written all stays as
    /// after a crash: the next opening seals what the log holds.
    #[boxed]
    pub async fn close(&self) -> Result<()> {
        let Some(actor) = self.coordinator.lock().take() else {
            return Ok(());
        };
        let closing = self.shared.ingest.close().await;
        let stopped = self.ask(|reply| Command::Stop { reply }).await;
        actor.join();
        if let Err(error) = self.shared.manifests.close().await {
            let detail = "the edits of the manifest hold all that it would";
            self.shared.report_trouble(&error.with_detail(detail));
        }
        let known = self.shared.manifests.current().sealed_through;
        // Where the last seal could not be written the log alone holds it.
        let closing = closing?;
        let in_manifest = closing.sealed_through() <= known;
        closing.finish(in_manifest).await;
        stopped
    }
}

fn ingest_options(settings: &Settings) -> IngestOptions {
    IngestOptions {
        seal_age: settings.seal_age,
        seal_bytes: settings.seal_bytes,
        batch_bytes_max: settings.batch_bytes_max,
        log_file_bytes: settings.log_file_bytes,
        frame_bytes_max: settings.frame_bytes,
        queue_bytes_max: settings.log_queue_bytes,
        memory_bytes: settings.unsorted_memory,
        compression: settings.log_compression,
    }
}

/// Above the version of every definition in the manifest, so that no two definitions of a table
/// share one, whether they are ever committed or not.
fn next_version(manifest: &Manifest) -> SchemaVersion {
    let tables = manifest.tables.values().map(|state| &state.table);
    let versions = tables.chain(manifest.plain_views.values());
    let newest = versions.map(|table| table.version.0).max();
    SchemaVersion(newest.unwrap_or(0) + 1)
}
