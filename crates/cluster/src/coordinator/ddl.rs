//! Changes of the catalogue: each has a place in the order of batches (design of the data model:
//! it seals the open SCU and takes effect at that boundary).
//!
//! ```text
//!   hold commits, seal -> commit the seals -> commit the edit -> release under the new tables
//! ```

use std::sync::Arc;

use lazybase_engine::key::KeyCodec;
use lazybase_engine::manifest::{Edit, Manifest, ProducerMark};
use lazybase_engine::stages::ingest::{Hold, TableVersions};
use lazybase_model::table::HIDDEN_KEY_COLUMN;
use lazybase_model::{
    Column, ColumnDefault, ColumnId, Error, Layout, Result, SchemaVersion, ScuNumber, Table,
    TableId, View, ViewId, limits,
};
use tokio::sync::oneshot;

use super::run::Coordinator;

/// A table to be made.
#[derive(Debug, Clone)]
pub struct TableSpec {
    /// Its name, as SQL folds it.
    pub name: String,
    /// Its columns; their ids are given out here.
    pub columns: Vec<Column>,
    /// Names of the key columns, most significant first. Empty: rows get the hidden key `_row`.
    pub key: Vec<String>,
    /// How the authority keeps it.
    pub layout: Layout,
    /// What the user says about it.
    pub comment: Option<String>,
}

/// What is asked of the catalogue.
#[derive(Debug)]
pub(crate) enum DdlRequest {
    Create {
        spec: TableSpec,
        if_not_exists: bool,
    },
    Drop {
        name: String,
        if_exists: bool,
    },
    Truncate {
        name: String,
    },
}

/// A request that waits for its boundary.
pub(crate) struct PendingDdl {
    request: DdlRequest,
    reply: oneshot::Sender<Result<Option<Arc<Table>>>>,
    held: Option<Hold>,
}

impl PendingDdl {
    pub(crate) fn new(
        request: DdlRequest,
        reply: oneshot::Sender<Result<Option<Arc<Table>>>>,
    ) -> Self {
        PendingDdl {
            request,
            reply,
            held: None,
        }
    }
}

impl Coordinator {
    /// Brings the oldest waiting request as far as it can come.
    pub(super) async fn advance_ddl(&mut self) -> Result<()> {
        while let Some(mut pending) = self.ddl.pop_front() {
            let manifest = self.shared.manifests.current();
            match plan(&manifest, &pending.request, self.shared.now()) {
                Err(error) => {
                    let _ = pending.reply.send(Err(error));
                    continue;
                }
                Ok(None) => {
                    let _ = pending.reply.send(Ok(None));
                    continue;
                }
                Ok(Some(_)) => {}
            }
            if pending.held.is_none() {
                pending.held = Some(self.shared.ingest.seal_and_hold().await?);
            }
            self.take_seals();
            let boundary = pending
                .held
                .as_ref()
                .map_or(ScuNumber::ZERO, Hold::sealed_through);
            let reached = self.reach(boundary).await;
            let sorted = self.shared.manifests.current().sorted_through >= boundary;
            let waits = matches!(pending.request, DdlRequest::Truncate { .. }) && !sorted;
            if waits || reached.is_err() {
                // Emptying a table begins at a boundary up to which everything is sorted.
                self.ddl.push_front(pending);
                self.hurry.sort_needed_through = boundary;
                return reached;
            }
            self.finish_ddl(pending).await;
        }
        Ok(())
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

    /// At the boundary: commits the edit and lets writers go on under the new tables.
    async fn finish_ddl(&mut self, pending: PendingDdl) {
        let manifest = self.shared.manifests.current();
        let outcome = match plan(&manifest, &pending.request, self.shared.now()) {
            Ok(Some((edit, table))) => self.commit(edit).await.map(|_| table),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        if let Some(hold) = pending.held {
            let manifest = self.shared.manifests.current();
            hold.release(Arc::new(TableVersions::of(&manifest)));
        }
        let _ = pending.reply.send(outcome);
    }

    /// Fences older sessions of a producer's name, durably, and tells how far it has come.
    pub(super) async fn open_producer(
        &mut self,
        name: &str,
    ) -> Result<(u64, Option<ProducerMark>)> {
        let epoch = self
            .shared
            .manifests
            .current()
            .producers
            .get(name)
            .map_or(0, |m| m.epoch)
            + 1;
        self.commit(Edit::OpenProducer {
            name: name.to_owned(),
            epoch,
        })
        .await?;
        let session = self.shared.ingest.open_producer(name, epoch).await?;
        Ok((epoch, session.mark))
    }
}

/// The edit that a request comes to in this state; nothing where nothing is to be done.
fn plan(
    manifest: &Manifest,
    request: &DdlRequest,
    clock_micros: i64,
) -> Result<Option<(Edit, Option<Arc<Table>>)>> {
    match request {
        DdlRequest::Create {
            spec,
            if_not_exists,
        } => {
            if manifest.table_named(&spec.name).is_some() {
                return match if_not_exists {
                    true => Ok(None),
                    false => Err(
                        Error::conflict(format!("table {:?} exists already", spec.name))
                            .with_sqlstate("42P07"),
                    ),
                };
            }
            let table = define(manifest, spec)?;
            let shared = Arc::new(table.clone());
            Ok(Some((Edit::CreateTable { table }, Some(shared))))
        }
        DdlRequest::Drop { name, if_exists } => match manifest.table_named(name) {
            Some(state) => {
                let table = Arc::clone(&state.table);
                Ok(Some((Edit::DropTable { table: table.id }, Some(table))))
            }
            None if *if_exists => Ok(None),
            None => Err(no_table(name)),
        },
        DdlRequest::Truncate { name } => {
            let state = manifest.table_named(name).ok_or_else(|| no_table(name))?;
            let table = Arc::clone(&state.table);
            let edit = Edit::TruncateTable {
                table: table.id,
                clock_micros,
            };
            Ok(Some((edit, Some(table))))
        }
    }
}

/// There is no table of that name.
pub(crate) fn no_table(name: &str) -> Error {
    Error::not_found(format!("there is no table {name:?}")).with_sqlstate("42P01")
}

/// The definition that a specification comes to, with ids given out.
fn define(manifest: &Manifest, spec: &TableSpec) -> Result<Table> {
    check_names(spec)?;
    let mut columns: Vec<Column> = spec.columns.clone();
    let hidden_key = spec.key.is_empty();
    if hidden_key {
        columns.push(hidden_key_column());
    }
    for (at, column) in columns.iter_mut().enumerate() {
        column.id = ColumnId(at as u32);
    }
    let key_names = match hidden_key {
        true => vec![HIDDEN_KEY_COLUMN.to_owned()],
        false => spec.key.clone(),
    };
    let mut key = Vec::with_capacity(key_names.len());
    for name in &key_names {
        let column = columns
            .iter_mut()
            .find(|column| column.name == *name)
            .ok_or_else(|| {
                Error::not_found(format!(
                    "key column {name:?} is not a column of {:?}",
                    spec.name
                ))
                .with_sqlstate("42703")
            })?;
        if key.contains(&column.id) {
            return Err(
                Error::invalid(format!("key column {name:?} is named twice"))
                    .with_sqlstate("42701"),
            );
        }
        column.nullable = false;
        key.push(column.id);
    }
    let table = Table {
        id: TableId(manifest.next_table),
        name: spec.name.clone(),
        version: SchemaVersion(0),
        columns,
        primary: View {
            id: ViewId(manifest.next_view),
            key,
        },
        hidden_key,
        layout: spec.layout,
        comment: spec.comment.clone(),
    };
    KeyCodec::primary(&table)?;
    Ok(table)
}

fn hidden_key_column() -> Column {
    Column {
        id: ColumnId(0),
        name: HIDDEN_KEY_COLUMN.to_owned(),
        data_type: arrow::datatypes::DataType::FixedSizeBinary(16),
        nullable: false,
        default: ColumnDefault::Null,
        comment: None,
        characters_max: None,
    }
}

fn check_names(spec: &TableSpec) -> Result<()> {
    if spec.columns.is_empty() {
        return Err(
            Error::invalid(format!("table {:?} needs a column", spec.name)).with_sqlstate("42P16"),
        );
    }
    if spec.columns.len() > limits::COLUMNS_MAX {
        return Err(Error::invalid(format!(
            "table {:?} has {} columns, at most {} are possible",
            spec.name,
            spec.columns.len(),
            limits::COLUMNS_MAX
        ))
        .with_sqlstate("54011"));
    }
    let mut seen = std::collections::BTreeSet::new();
    for column in &spec.columns {
        if column.name.len() > limits::NAME_BYTES_MAX || column.name.is_empty() {
            return Err(
                Error::invalid(format!("{:?} can't name a column", column.name))
                    .with_sqlstate("42602"),
            );
        }
        if column.name.starts_with('_') && is_reserved(&column.name) {
            return Err(
                Error::invalid(format!("column name {:?} is reserved", column.name))
                    .with_sqlstate("42939"),
            );
        }
        if !seen.insert(&column.name) {
            return Err(
                Error::invalid(format!("column {:?} is named twice", column.name))
                    .with_sqlstate("42701"),
            );
        }
    }
    Ok(())
}

/// Names of hidden columns.
fn is_reserved(name: &str) -> bool {
    matches!(
        name,
        "_row" | "_scu" | "_time" | "_kind" | "_mask" | "_column_scus"
    )
}
