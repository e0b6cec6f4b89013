//! Changes of the catalogue, alone or with a batch: a transaction. Each has a place in the order of
//! batches: DDL seals the open SCU and takes effect at that boundary. What takes rows away has an
//! SCU of its own after it: readers of the boundary find the rows, whenever they come.
//!
//! ```text
//!   what takes rows away: seal -> wait until all is sorted, a few times
//!   hold commits, seal -> commit the seals -> validate -> reserve an SCU, prepare the batch
//!       -> commit the edit -> publish the batch, or give it up
//!       -> release under the tables that there are then
//! ```
//!
//! The edit decides for DDL and batch alike (COORD-3): the batch's commit frame is durable before,
//! but counts only if the manifest names it. While the store can't tell whether the edit happened,
//! nothing is published and commits stay held: the next tick asks again. Invariant DDL-1: before
//! its edit is on the way, no request holds commits for long, nor outlives whoever asked, nor
//! waits for a store that takes none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lazybase_engine::manifest::{Ddl, Edit, Manifest, ProducerMark};
use lazybase_engine::schema::check_succession;
use lazybase_engine::stages::ingest::{
    self, Acknowledgement, AfterHold, BatchWriter, Hold, TableVersions,
};
use lazybase_model::access::RoleId;
use lazybase_model::{
    Column, Error, ErrorKind, PartitionChange, Result, SchemaVersion, ScuNumber, Table, TableId,
    UsedColumn,
};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::numbers::check_sequences;
use super::run::Coordinator;

/// What is asked of the catalogue: all of it happens, or nothing.
#[derive(Debug)]
pub(crate) struct DdlRequest {
    /// What happens to tables, in this order.
    pub(crate) ddl: Vec<Ddl>,
    /// A batch that was written ahead.
    pub(crate) batch: Option<BatchWriter>,
    /// What must not have happened meanwhile.
    pub(crate) unchanged: Option<Unchanged>,
}

impl DdlRequest {
    /// See the fields.
    pub(crate) fn new(
        ddl: Vec<Ddl>,
        batch: Option<BatchWriter>,
        unchanged: Option<Unchanged>,
    ) -> DdlRequest {
        DdlRequest {
            ddl,
            batch,
            unchanged,
        }
    }
}

/// A table that was read up to a boundary, so that what is made of it may take its place.
#[derive(Debug, Clone)]
pub struct Unchanged {
    /// The table.
    pub table: TableId,
    /// Up to where its rows were read.
    pub through: ScuNumber,
    /// Where its definition was read, and who may do what with it.
    pub read_in: Arc<Manifest>,
}

impl Unchanged {
    /// # Errors
    /// `Conflict` (40001) where rows were written after the boundary, or the table or its grants
    /// are others now.
    fn check(&self, manifest: &Manifest) -> Result<()> {
        let definition = |manifest: &Manifest| {
            let state = manifest.tables.get(&self.table);
            let access = manifest.access.objects.get(&self.table).cloned();
            (state.map(|state| Arc::clone(&state.table)), access)
        };
        let (table, access) = definition(manifest);
        let Some(table) = table else {
            return Err(table_gone(self.table));
        };
        if (Some(Arc::clone(&table)), access) != definition(&self.read_in) {
            return Err(table_changed(&table.name));
        }
        match manifest.changes_after(self.table, self.through) {
            false => Ok(()),
            true => Err(Error::conflict(format!(
                "rows of table {:?} were written while it was read",
                table.name
            ))
            .with_hint("do it again while nobody writes to it")
            .with_sqlstate("40001")),
        }
    }
}

/// How often what takes rows away lets others write while all that is there is sorted: each time
/// less is left, and the last of it is sorted while commits are held.
const ROUNDS: u32 = 3;
/// For how long commits are held at first while it is sorted. Then others write once more, and the
/// next hold may last twice as long: writers that are faster than the sort can't put it off for
/// ever.
const HELD_MAX: Duration = Duration::from_secs(5);

/// What became of a request: where its batch stands, if there is one.
type Outcome = Result<Option<Acknowledgement>>;

/// A request on its way.
pub(crate) struct PendingDdl {
    request: Box<DdlRequest>,
    reply: oneshot::Sender<Outcome>,
    /// Up to where everything is to be sorted before commits are held.
    awaited: Option<ScuNumber>,
    /// How often that was waited for.
    rounds: u32,
    hold: Option<Hold>,
    /// Since when commits are held, on the monotonic clock.
    held_since: Duration,
    /// For how long they may be.
    held_max: Duration,
    /// Once its edit is on the way to the log: hears when it is there, and is closed if it never
    /// will be.
    committed: Option<oneshot::Receiver<Option<Acknowledgement>>>,
}

impl PendingDdl {
    pub(crate) fn new(request: Box<DdlRequest>, reply: oneshot::Sender<Outcome>) -> Self {
        PendingDdl {
            request,
            reply,
            awaited: None,
            rounds: 0,
            hold: None,
            held_since: Duration::ZERO,
            held_max: HELD_MAX,
            committed: None,
        }
    }

    /// Answers when the database closes before the end is known.
    pub(super) fn close(self) {
        if self.committed.is_some() {
            let what = "the database closed during a commit";
            let error = Error::new(ErrorKind::MaybeHappened, what);
            // Whoever asked may have stopped waiting.
            let _ = self.reply.send(Err(error));
        }
    }

    /// What became of the edit; `None` while that is not known.
    fn outcome(&mut self, written: Result<Arc<Manifest>>) -> Option<Outcome> {
        let committed = self.committed.as_mut()?;
        match committed.try_recv() {
            Ok(acknowledgement) => Some(Ok(acknowledgement)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Closed) => Some(Err(match written {
                Err(error) => not_written(&error),
                Ok(_) => Error::unavailable("the manifest could not be written"),
            })),
        }
    }
}

impl Coordinator {
    /// Brings the oldest waiting request as far as it can come. An error leaves it waiting.
    pub(super) async fn advance_ddl(&mut self) -> Result<()> {
        while let Some(mut pending) = self.ddl.pop_front() {
            match self.step_ddl(&mut pending).await {
                Ok(Some(outcome)) => self.finish_ddl(pending, outcome),
                Ok(None) => {
                    self.ddl.push_front(pending);
                    return Ok(());
                }
                Err(error) => {
                    self.ddl.push_front(pending);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Drops requests that nobody waits for, and ends a hold that has lasted too long. That is
    /// asked of nobody: it also happens while the store can't tell what became of an edit.
    pub(super) fn end_holds(&mut self) {
        let now = self.shared.env.clock.monotonic();
        let after = || AfterHold::of(&self.shared.manifests.current());
        self.ddl.retain_mut(|pending| {
            if pending.committed.is_some() {
                return true;
            }
            let gone = pending.reply.is_closed();
            let overdue = now.saturating_sub(pending.held_since) > pending.held_max;
            if let Some(hold) = pending.hold.take_if(|_| gone || overdue) {
                hold.release(after());
                pending.held_max *= 2;
                pending.awaited = None;
                pending.rounds = 0;
            }
            !gone
        });
    }

    /// Ends the requests of which nothing is on its way, since no edit comes through: nothing of
    /// them has happened, but that the open SCU may have been sealed.
    pub(super) fn refuse_ddl(&mut self, error: &Error) {
        for pending in std::mem::take(&mut self.ddl) {
            match pending.committed {
                Some(_) => self.ddl.push_back(pending),
                None => self.finish_ddl(pending, Err(not_written(error))),
            }
        }
    }

    /// One request's next steps; `None` while it waits for sorting.
    async fn step_ddl(&mut self, pending: &mut PendingDdl) -> Result<Option<Outcome>> {
        if pending.committed.is_some() {
            let written = self.shared.manifests.settle_pending().await;
            return self.heard(pending, written);
        }
        if let Err(error) = validate(&self.shared.manifests.current(), &pending.request.ddl) {
            return Ok(Some(Err(error)));
        }
        let needs_sorted = pending.request.ddl.iter().any(empties);
        if needs_sorted && pending.hold.is_none() {
            match self.is_nearly_sorted(pending).await? {
                Ok(true) => {}
                Ok(false) => return Ok(self.waits_for_nothing(pending.awaited).map(Err)),
                Err(error) => return Ok(Some(Err(error))),
            }
        }
        let holder = told(&self.shared.manifests.current(), &pending.request.ddl);
        let boundary = match &pending.hold {
            Some(hold) => hold.sealed_through(),
            None => match self.shared.ingest.seal_and_hold(holder).await {
                Ok(hold) => {
                    pending.held_since = self.shared.env.clock.monotonic();
                    pending.hold.insert(hold).sealed_through()
                }
                Err(error) => return Ok(Some(Err(error))),
            },
        };
        self.take_seals();
        self.reach(boundary).await?;
        // Emptying a table begins at a boundary up to which everything is sorted.
        if needs_sorted && !self.is_sorted(boundary) {
            return Ok(self.waits_for_nothing(Some(boundary)).map(Err));
        }
        match self.write_ddl(pending).await {
            Ok(written) => self.heard(pending, written),
            Err(error) => Ok(Some(Err(error))),
        }
    }

    /// Whether all that is there is sorted, or little enough is not that commits can be held for
    /// it. Others write meanwhile. The inner error is the request's end.
    async fn is_nearly_sorted(&mut self, pending: &mut PendingDdl) -> Result<Result<bool>> {
        loop {
            let boundary = match pending.awaited {
                Some(boundary) => boundary,
                None => match self.shared.ingest.seal().await {
                    Ok(sealed) => *pending.awaited.insert(sealed),
                    Err(error) => return Ok(Err(error)),
                },
            };
            self.take_seals();
            self.reach(boundary).await?;
            if !self.is_sorted(boundary) {
                return Ok(Ok(false));
            }
            pending.awaited = None;
            pending.rounds += 1;
            if pending.rounds > ROUNDS || self.shared.ingest.open_scu().acknowledged() == 0 {
                return Ok(Ok(true));
            }
        }
    }

    /// Whether everything up to a boundary is sorted; asks for it where it is not.
    fn is_sorted(&mut self, boundary: ScuNumber) -> bool {
        let sorted = self.shared.manifests.current().sorted_through >= boundary;
        if !sorted {
            let needed = &mut self.hurry.sort_needed_through;
            *needed = boundary.max(*needed);
        }
        sorted
    }

    /// Why the boundary that a request waits for will never be sorted, if it will not.
    fn waits_for_nothing(&self, awaited: Option<ScuNumber>) -> Option<Error> {
        let manifest = self.shared.manifests.current();
        awaited.and_then(|boundary| self.never_sorted(&manifest, boundary))
    }

    fn take_seals(&mut self) {
        while let Ok(sealed) = self.sealed.try_recv() {
            self.seals.push_back(sealed);
        }
    }

    /// Commits the seals up to a boundary that ingest has already sealed.
    async fn reach(&mut self, boundary: ScuNumber) -> Result<()> {
        loop {
            self.commit_seals().await?;
            if self.shared.manifests.current().sealed_through >= boundary {
                return Ok(());
            }
            match self.sealed.recv().await {
                Some(sealed) => self.seals.push_back(sealed),
                None => return Err(Error::internal("ingest ended before it sealed its SCU")),
            }
        }
    }

    /// At the boundary: prepares the batch and writes the edit that decides. The inner result says
    /// how the write ended; an error before it means that nothing was written.
    async fn write_ddl(&mut self, pending: &mut PendingDdl) -> Result<Result<Arc<Manifest>>> {
        let manifest = self.shared.manifests.current();
        validate(&manifest, &pending.request.ddl)?;
        if let Some(unchanged) = &pending.request.unchanged {
            unchanged.check(&manifest)?;
        }
        let batch = pending.request.batch.take();
        let own_scu = pending.request.ddl.iter().any(empties);
        // 0 is what frames without a number carry.
        let number = self.shared.env.random.next_u64().max(1);
        let edit = Edit::Transaction {
            ddl: pending.request.ddl.clone(),
            batch: batch.is_some().then_some(number),
            own_scu,
            clock_micros: self.shared.now(),
        };
        let tables = Arc::new(TableVersions::of(&manifest.apply(&edit)?));
        if let Some(hold) = pending.hold.as_ref().filter(|_| own_scu) {
            self.shared.ingest.reserve(hold).await?;
        }
        let prepared = match (batch, &pending.hold) {
            (Some(batch), Some(hold)) => {
                let ingest = &self.shared.ingest;
                Some(ingest.prepare(hold, batch, number, tables).await?)
            }
            _ => None,
        };
        let (sender, committed) = oneshot::channel();
        pending.committed = Some(committed);
        let publish = move || {
            // The coordinator holds the receiver until it knows the outcome.
            let _ = sender.send(prepared.map(ingest::Prepared::publish));
        };
        let manifests = &self.shared.manifests;
        Ok(manifests.commit_then(edit, Box::new(publish)).await)
    }

    /// What is known of the edit after the store was asked.
    fn heard(
        &self,
        pending: &mut PendingDdl,
        written: Result<Arc<Manifest>>,
    ) -> Result<Option<Outcome>> {
        match pending.outcome(written.clone()) {
            Some(outcome) => Ok(Some(outcome)),
            None => Err(written
                .err()
                .unwrap_or_else(|| Error::internal("an edit was written, and nobody heard of it"))),
        }
    }

    /// Lets writers go on under the tables that there are now, and answers.
    fn finish_ddl(&self, pending: PendingDdl, outcome: Outcome) {
        let manifest = self.shared.manifests.current();
        self.note_committed(&manifest);
        if let Some(hold) = pending.hold {
            hold.release(AfterHold::of(&manifest));
        }
        // Whoever asked may have stopped waiting.
        let _ = pending.reply.send(outcome);
    }

    /// Fences older sessions of a producer's name, durably, and tells how far it has come. From
    /// now on it belongs to the role, if it belongs to nobody yet.
    pub(super) async fn open_producer(
        &mut self,
        name: &str,
        role: Option<RoleId>,
    ) -> Result<(u64, Option<ProducerMark>)> {
        // Told when nothing is in doubt any more: an earlier session may be.
        let mut epoch = 0;
        let next = |manifest: &Manifest| {
            let access = &manifest.access;
            if !access.may_open(&access.rights_of(role), name) {
                return Err(
                    Error::invalid(format!("permission denied for producer {name:?}"))
                        .with_detail("it belongs to the role that opened it first")
                        .with_hint("write under another name, or as a member of that role")
                        .with_sqlstate("42501"),
                );
            }
            epoch = manifest.producers.get(name).map_or(0, |mark| mark.epoch) + 1;
            Ok(Edit::OpenProducer {
                name: name.to_owned(),
                epoch,
                owner: role,
            })
        };
        let manifest = self.shared.manifests.commit_with(next).await?;
        self.note_committed(&manifest);
        let session = self.shared.ingest.open_producer(name, epoch).await?;
        Ok((epoch, session.mark))
    }
}

/// What is told of an edit that was not written: if any is in doubt, it is one before it.
fn not_written(error: &Error) -> Error {
    if error.kind() != ErrorKind::MaybeHappened {
        return error.clone();
    }
    let told = Error::unavailable(error.message());
    match error.detail() {
        Some(detail) => told.with_detail(detail),
        None => told,
    }
}

/// Whether DDL takes rows away from a table that stays.
fn empties(ddl: &Ddl) -> bool {
    match ddl {
        Ddl::Truncate { .. } => true,
        Ddl::Partition { change, .. } => matches!(change, PartitionChange::Drop(_)),
        Ddl::Create { .. } | Ddl::Alter { .. } | Ddl::Drop { .. } => false,
        Ddl::CreateView { .. } | Ddl::DropView { .. } | Ddl::Access { .. } => false,
        Ddl::CreateSequence { .. } | Ddl::AlterSequence { .. } | Ddl::DropSequence { .. } => false,
        Ddl::CreatePlainView { .. } => false,
        Ddl::AlterPlainView { .. } | Ddl::DropPlainView { .. } => false,
    }
}

/// What holds commits, for people: what takes rows away, which may last, before all others.
fn told(manifest: &Manifest, ddl: &[Ddl]) -> String {
    let name = |table: &TableId| {
        let state = manifest.tables.get(table);
        state.map_or_else(|| table.to_string(), |state| state.table.name.to_string())
    };
    match ddl.iter().find(|ddl| empties(ddl)) {
        Some(Ddl::Truncate { table }) => format!("TRUNCATE of table {:?}", name(table)),
        Some(Ddl::Partition { table, .. }) => {
            format!("DROP RANGE PARTITION of table {:?}", name(table))
        }
        _ => "a change of the catalogue".to_owned(),
    }
}

/// Whether DDL can take effect on these tables, one after the other.
fn validate(manifest: &Manifest, ddl: &[Ddl]) -> Result<()> {
    let states = manifest.tables.values().chain(manifest.views.values());
    let tables = states.map(|state| &state.table);
    let tables = tables.chain(manifest.plain_views.values());
    let mut known: BTreeMap<TableId, &Table> = tables.map(|table| (table.id, &**table)).collect();
    // Changes of partitions give versions too.
    let mut versions: BTreeMap<TableId, SchemaVersion> = BTreeMap::new();
    for ddl in ddl {
        match ddl {
            Ddl::Create { table } => {
                check_free(&known, &table.name)?;
                known.insert(table.id, table);
            }
            Ddl::Drop { table } => {
                let mut views = known.values();
                if let Some(view) = views.find(|other| other.view_of == Some(*table)) {
                    let name = known.get(table).map_or("", |table| &table.name);
                    return Err(has_views(name, &view.name));
                }
                known.remove(table).ok_or_else(|| table_gone(*table))?;
            }
            Ddl::Alter { base, table } => {
                let before = known.remove(&table.id);
                let before = before.ok_or_else(|| table_gone(table.id))?;
                if versions.remove(&table.id).unwrap_or(before.version) != *base {
                    return Err(table_changed(&before.name));
                }
                check_free(&known, &table.name)?;
                check_succession(before, table)?;
                check_views(before, table, known.values().copied())?;
                known.insert(table.id, table);
            }
            Ddl::Truncate { table } => {
                known.get(table).ok_or_else(|| table_gone(*table))?;
            }
            Ddl::Partition {
                table,
                versions: step,
                ..
            } => {
                let before = known.get(table).ok_or_else(|| table_gone(*table))?;
                let version = versions.entry(*table).or_insert(before.version);
                *version = match step {
                    None => SchemaVersion(version.0 + 1),
                    Some(step) if step.base == *version => step.next,
                    Some(_) => return Err(table_changed(&before.name)),
                };
            }
            Ddl::CreateView { view } => {
                check_free(&known, &view.name)?;
                let of = view.view_of.unwrap_or(view.id);
                let table = known.get(&of).ok_or_else(|| table_gone(of))?;
                check_view(table, view)?;
                known.insert(view.id, view);
            }
            Ddl::DropView { view } | Ddl::DropPlainView { view } => {
                known.remove(view).ok_or_else(|| table_gone(*view))?;
            }
            Ddl::CreatePlainView { view } => {
                check_free(&known, &view.name)?;
                known.insert(view.id, view);
            }
            Ddl::AlterPlainView { base, view } => alter_plain_view(&mut known, *base, view)?,
            // The edit itself looks, before it is written.
            Ddl::Access { .. } => {}
            // They are looked at together, once tables are as they will be.
            Ddl::CreateSequence { .. } | Ddl::AlterSequence { .. } | Ddl::DropSequence { .. } => {}
        }
    }
    check_sequences(manifest, ddl, &known)?;
    known.values().try_for_each(|table| {
        check_owners(table, &known)?;
        check_read(manifest, table, &known)
    })
}

fn alter_plain_view<'d>(
    known: &mut BTreeMap<TableId, &'d Table>,
    base: SchemaVersion,
    view: &'d Table,
) -> Result<()> {
    let before = known.remove(&view.id);
    let before = before.ok_or_else(|| table_gone(view.id))?;
    if before.version != base {
        return Err(view_changed(&before.name));
    }
    check_free(known, &view.name)?;
    known.insert(view.id, view);
    Ok(())
}

/// Whether all that a plain view reads is there in the end.
fn check_read(manifest: &Manifest, view: &Table, known: &BTreeMap<TableId, &Table>) -> Result<()> {
    let uses = view.query.iter().flat_map(|query| &query.uses);
    for used in uses {
        let table = known.get(&used.table);
        let has = |column: &UsedColumn| {
            let mut columns = table.iter().flat_map(|table| &table.columns);
            columns.any(|of| of.id == column.id)
        };
        let mut read = used.columns.iter().filter(|column| column.read);
        if table.is_some() && read.all(has) {
            continue;
        }
        // What it reads went meanwhile, or goes now.
        return Err(match manifest.missing_for(view) {
            Some(used) => Error::conflict(format!(
                "{:?}, or a column of it, was dropped while view {:?} was being made",
                used.name, view.name
            ))
            .with_sqlstate("40001"),
            None => Error::conflict(format!(
                "{:?}, or a column of it, can't be dropped: view {:?} reads it",
                used.name, view.name
            ))
            .with_hint("DROP ... CASCADE drops the views with it")
            .with_sqlstate("2BP01"),
        });
    }
    Ok(())
}

/// Whether the owners of a table's ID keys are there.
fn check_owners(table: &Table, tables: &BTreeMap<TableId, &Table>) -> Result<()> {
    let gone = table.id_keys().find(|(_, id_key)| {
        !tables.contains_key(&id_key.map) || !tables.contains_key(&id_key.owner)
    });
    match gone {
        None => Ok(()),
        Some((at, _)) => Err(Error::conflict(format!(
            "column {:?} of table {:?} holds IDs of a table that is dropped",
            table.columns[at].name, table.name
        ))
        .with_hint(format!("DROP TABLE {} first, or with it", table.name))
        .with_sqlstate("2BP01")),
    }
}

/// Whether there is no table or view of that name.
fn check_free(known: &BTreeMap<TableId, &Table>, name: &str) -> Result<()> {
    let what = match known.values().find(|other| other.name == name) {
        None => return Ok(()),
        Some(other) if other.view_of.is_some() => {
            format!("{name:?} is there already: a materialized view")
        }
        Some(other) if other.query.is_some() => format!("{name:?} is there already: a view"),
        Some(_) => format!("table {name:?} is there already"),
    };
    Err(Error::conflict(what).with_sqlstate("42P07"))
}

fn view_changed(name: &str) -> Error {
    Error::conflict(format!("view {name:?} was changed by another session")).with_sqlstate("40001")
}

fn table_changed(name: &str) -> Error {
    Error::conflict(format!("table {name:?} was changed by another session"))
        .with_hint("look at its columns, and alter it again")
        .with_sqlstate("40001")
}

/// Whether the views among these tables can show a table after a change of its definition.
///
/// # Errors
/// `Conflict` (2BP01) for the first that can't.
pub fn check_views<'a>(
    before: &Table,
    after: &Table,
    views: impl IntoIterator<Item = &'a Table>,
) -> Result<()> {
    let mut views = views.into_iter();
    match views.find(|view| breaks(before, after, view)) {
        None => Ok(()),
        Some(view) => Err(used_by_view(before, view)),
    }
}

/// Whether a change of a table's definition changes a column that a view of it shows, or gives it
/// labels, which the view would lack.
fn breaks(before: &Table, after: &Table, view: &Table) -> bool {
    let of = |table: &Table, id| {
        let mut columns = table.columns.iter();
        columns.find(|column| column.id == id).cloned()
    };
    let changes = |id| match (of(before, id), of(after, id)) {
        (Some(before), Some(after)) => !is_shown_alike(&before, &after),
        (before, after) => before.is_some() != after.is_some(),
    };
    let mut columns = view.columns.iter().map(|column| column.id);
    let labels_rows = before.row_label().is_some() != after.row_label().is_some();
    view.view_of == Some(after.id) && (labels_rows || columns.any(changes))
}

/// Whether a view that shows the one column shows the other one too.
fn is_shown_alike(one: &Column, other: &Column) -> bool {
    one.id == other.id
        && one.name == other.name
        && one.data_type == other.data_type
        && one.nullable == other.nullable
        && one.label == other.label
}

/// Whether a new view shows what its table has. While it was being made, nothing kept others from
/// changing that.
///
/// # Errors
/// `Conflict` (40001) where it does not.
fn check_view(table: &Table, view: &Table) -> Result<()> {
    let is_of_table = |shown: &Column| {
        let mut columns = table.columns.iter();
        columns.any(|column| is_shown_alike(column, shown))
    };
    let labels_rows = table.row_label().is_some() == view.row_label().is_some();
    if labels_rows && view.columns.iter().all(is_of_table) {
        return Ok(());
    }
    let (table, view) = (&table.name, &view.name);
    Err(Error::conflict(format!(
        "table {table:?} was changed by another session while view {view:?} was being made"
    ))
    .with_hint("look at its columns, and create the view again")
    .with_sqlstate("40001"))
}

fn used_by_view(table: &Table, view: &Table) -> Error {
    let (table, view) = (&table.name, &view.name);
    Error::conflict(format!(
        "table {table:?} can't be changed so: view {view:?} depends on what it shows of it"
    ))
    .with_hint(format!(
        "DROP MATERIALIZED VIEW {view}, change the table, and create the view again"
    ))
    .with_sqlstate("2BP01")
}

/// A table can't go while views show it.
pub(crate) fn has_views(table: &str, view: &str) -> Error {
    Error::conflict(format!(
        "table {table:?} can't be dropped: view {view:?} depends on it"
    ))
    .with_hint("DROP TABLE ... CASCADE drops its views with it")
    .with_sqlstate("2BP01")
}

fn table_gone(table: TableId) -> Error {
    Error::not_found(format!("table {table} is gone: another session dropped it"))
        .with_sqlstate("42P01")
}

/// There is no table of that name.
pub(crate) fn no_table(name: &str) -> Error {
    Error::not_found(format!("there is no table {name:?}"))
        .with_name(name)
        .with_sqlstate("42P01")
}
