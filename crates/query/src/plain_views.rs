//! Plain views: CREATE VIEW, DROP VIEW, a new name, comments; and what the names in a view's text
//! mean.
//!
//! ```text
//!   CREATE VIEW v AS query -> names of the query looked up: their ids, and what they have today
//!                          -> planned once: the columns that it gives, those that it reads
//!                          -> definition under an id of its own -> Sink: table changes
//!   ... FROM v             -> `crate::expansion`
//! ```
//!
//! Reads definitions; writes through the sink. Invariant PLV-1: a view means what it meant when it
//! was made, whatever was renamed or added since.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::sql::parser::Statement as PlannerStatement;
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast;
use lazybase_engine::read::HiddenColumn;
use lazybase_model::limits::COLUMNS_MAX;
use lazybase_model::table::{HIDDEN_KEY_COLUMN, cell_label_name};
use lazybase_model::{
    Column, Error, ErrorKind, Result, Table, TableId, UsedColumn, UsedTable, ViewQuery,
};

use crate::alter::is_stale;
use crate::answer::AnswerStream;
use crate::definition::identifier;
use crate::dml::sink::Sink;
use crate::error::{from_datafusion, unknown_table};
use crate::id_keys::own::Buffered;
use crate::notice::Notice;
use crate::parse::create::checked_name;
use crate::parse::{
    self, CreatePlainView, PlainViewStatement, SCHEMA, Statement, Text, parameters, unsupported,
};
use crate::pg_catalog::types::is_json_field;
use crate::sequences::functions as of_sequences;
use crate::session::Shared;
use crate::temporary::{self, own_name};
use crate::types;
use crate::views::drop_found;
use crate::visible::{TableChange, Visible, uses};

mod alter;
mod names;
pub(crate) mod text;

pub(crate) use alter::{alter, check_readers};
pub(crate) use names::{as_used, first_columns, is_unlisted, listed};

/// How many views may read each other, one the next.
const DEPTH_MAX: usize = 32;
/// How often a view is made anew that other sessions change meanwhile.
const ATTEMPTS: usize = 16;

/// Does a statement about plain views.
pub(crate) async fn run(
    session: &Arc<Shared>,
    statement: PlainViewStatement,
) -> Result<AnswerStream> {
    match statement {
        PlainViewStatement::Create(view) => create(session, &view).await,
        PlainViewStatement::Drop {
            names,
            if_exists,
            cascade,
        } => drop(session, &names, if_exists, cascade).await,
        PlainViewStatement::Rename {
            name,
            if_exists,
            to,
        } => alter::rename(session, &name, if_exists, to).await,
    }
}

async fn create(session: &Arc<Shared>, view: &CreatePlainView) -> Result<AnswerStream> {
    let done = || AnswerStream::done("CREATE VIEW", 0);
    let skipped = || {
        let said = format!("{:?} is there already: skipped", view.name);
        done().with_notices([Notice::note(said).with_sqlstate("42P07")])
    };
    let mut attempts = 0;
    loop {
        attempts += 1;
        let visible = session.visible();
        let before = match visible.taken_by(&view.name) {
            None => None,
            Some(_) if view.if_not_exists => return Ok(skipped()),
            Some("view") if view.or_replace => {
                let mut views = visible.plain_views().into_iter();
                views.find(|known| known.name == view.name)
            }
            Some(kind) => return Err(taken(view, kind)),
        };
        let made = Box::pin(define(session, &visible, view, before.as_ref())).await?;
        let change = match before {
            None => TableChange::CreatePlainView(Arc::new(made)),
            Some(before) => TableChange::AlterPlainView {
                after: session.instance().define_next(made),
                before,
            },
        };
        let mut sink = Sink::of(session);
        let in_transaction = sink.in_transaction();
        sink.change_table(change)?;
        let again = |error: &Error| {
            let other = is_stale(error) || error.kind() == ErrorKind::NotFound;
            let taken = error.kind() == ErrorKind::Conflict && error.sqlstate() == "42P07";
            let replaces = view.or_replace && (other || taken);
            !in_transaction && attempts < ATTEMPTS && (replaces || is_stale(error))
        };
        match sink.finish(session).await {
            Ok(token) => return Ok(done().with_token(token)),
            // Somebody else was quicker.
            Err(error) if again(&error) => {}
            Err(error) if view.if_not_exists && error.sqlstate() == "42P07" => {
                return Ok(skipped());
            }
            Err(error) => return Err(error),
        }
    }
}

/// The name of a view is that of something else.
fn taken(view: &CreatePlainView, kind: &str) -> Error {
    let name = &view.name;
    if view.or_replace {
        return Error::invalid(format!("{name:?} is a {kind}"))
            .with_hint("CREATE OR REPLACE VIEW takes the place of a view alone")
            .with_sqlstate("42809");
    }
    let error = Error::conflict(format!("{name:?} is there already: a {kind}"));
    let error = match kind {
        "view" => error.with_hint("CREATE OR REPLACE VIEW gives it another query"),
        _ => error.with_hint("give the view another name"),
    };
    error.with_sqlstate("42P07")
}

/// The definition that a view gets, which takes the place of one that is there.
async fn define(
    session: &Arc<Shared>,
    visible: &Visible,
    view: &CreatePlainView,
    before: Option<&Arc<Table>>,
) -> Result<Table> {
    let gate = session.gate_now();
    match before {
        None => gate.create()?,
        Some(before) => gate.own(before)?,
    }
    let statement = query_of(view)?;
    let mut query = ViewQuery {
        text: view.text.clone(),
        renamed: !view.columns.is_empty(),
        uses: resolve(session, visible, &statement)?,
    };
    check_depth(visible, view, &query, before)?;
    let unnamed = Table::plain_view(TableId(0), &view.name, Vec::new(), query.clone());
    let (context, _) = session.context(None, Buffered::default(), None);
    let looked = context.look_at_view(Arc::new(unnamed), statement, &view.placed);
    let (given, read) = looked.await?;
    mark_read(&mut query, &read);
    let mut columns = columns(view, &given)?;
    let Some(before) = before else {
        let instance = session.instance();
        return Ok(instance.define_plain_view(&view.name, columns, query));
    };
    check_columns(before, &columns)?;
    for (column, known) in columns.iter_mut().zip(&before.columns) {
        column.comment.clone_from(&known.comment);
    }
    let numbered = Table::plain_view(before.id, &view.name, columns, query);
    Ok(Table {
        comment: before.comment.clone(),
        ..numbered
    })
}

/// The query of a new view.
fn query_of(view: &CreatePlainView) -> Result<ast::Statement> {
    let unbound = parse::read(&view.placed)?;
    if !unbound.clauses.is_empty() {
        let what = "a view's query has no clause about freshness";
        return Err(unsupported(what)
            .with_detail("all of a statement is read at one moment: who reads the view says which")
            .with_hint("leave FRESHNESS, AFTER, AS OF and ON MISS out, and give them then"));
    }
    if let Text::Sql(tree) = &unbound.text
        && parameters::count(tree)? > 0
    {
        return Err(unsupported("a view's query has no parameters")
            .with_hint("who reads the view gives values: SELECT ... FROM it WHERE ...")
            .with_sqlstate("42P02"));
    }
    match unbound.finish()?.statement {
        Statement::Query(query) => {
            refuse_calls(&query)?;
            Ok(ast::Statement::Query(query))
        }
        _ => Err(Error::invalid("a view is of a query")
            .with_hint("write CREATE VIEW v AS SELECT ...")
            .with_sqlstate("42601")),
    }
}

/// Refuses natural keys: their numbers are looked up for a statement, and not for a view. Numbers
/// of sequences are taken for one, too.
fn refuse_calls(query: &ast::Query) -> Result<()> {
    if of_sequences::are_named(query) {
        return Err(
            unsupported("functions of sequences in a view are not supported")
                .with_hint("take numbers where the view is read: SELECT nextval('s'), * FROM v"),
        );
    }
    let called = crate::walk::visit_expressions(query, |expr| match expr {
        ast::Expr::Function(function)
            if function
                .name
                .to_string()
                .eq_ignore_ascii_case(crate::id_keys::function::NAME) =>
        {
            std::ops::ControlFlow::Break(())
        }
        _ => std::ops::ControlFlow::Continue(()),
    });
    match called.is_break() {
        false => Ok(()),
        true => Err(unsupported("IDKEY(...) in a view is not supported")
            .with_hint("join the table of the natural keys")),
    }
}

/// What a query names in FROM, as it is today.
fn resolve(
    session: &Arc<Shared>,
    visible: &Visible,
    statement: &ast::Statement,
) -> Result<Vec<UsedTable>> {
    let gate = session.gate_now();
    let functions = session.database.planner().table_functions();
    let statement = PlannerStatement::Statement(Box::new(statement.clone()));
    let (references, _) =
        resolve_table_references(&statement, true).map_err(|error| from_datafusion(&error, ""))?;
    let mut used: Vec<UsedTable> = Vec::new();
    for reference in references {
        let (schema, name) = (reference.schema(), reference.table());
        let found = match schema {
            None => visible.relation(name),
            Some(SCHEMA) => visible.relation(&temporary::of_public(name)),
            Some(_) => continue,
        };
        if let Some(table) = found
            .as_ref()
            .filter(|table| visible.is_temporary(table.id))
        {
            return Err(of_temporary(table));
        }
        if used.iter().any(|known| known.name == name) {
            continue;
        }
        let Some(table) = found else {
            if functions.contains_key(name) && schema.is_none() {
                continue;
            }
            if visible.sequence_named(name).is_some() {
                return Err(unsupported(format!("a view can't read sequence {name:?}"))
                    .with_detail("where it stands is of no snapshot"));
            }
            let known = visible.relations();
            let known = known.iter().map(|table| table.name.as_str());
            return Err(unknown_table(name, known));
        };
        gate.name(&table)?;
        let columns = table.columns.iter();
        let columns = columns.filter(|column| column.name != HIDDEN_KEY_COLUMN);
        used.push(UsedTable {
            name: name.to_owned(),
            table: table.id,
            columns: columns.map(used_column).collect(),
        });
    }
    Ok(used)
}

fn of_temporary(table: &Table) -> Error {
    let what = format!("a view can't read temporary table {:?}", table.name);
    unsupported(what)
        .with_detail("the table ends with its session, the view does not")
        .with_hint("CREATE TEMPORARY TABLE ... AS SELECT keeps the rows of a query as long")
}

fn used_column(column: &Column) -> UsedColumn {
    UsedColumn {
        id: column.id,
        name: column.name.clone(),
        read: false,
    }
}

/// Marks the columns that the query reads, by the names that its plan names: where several tables
/// have a column of one name, all of them.
fn mark_read(query: &mut ViewQuery, read: &BTreeSet<String>) {
    for column in query.uses.iter_mut().flat_map(|used| &mut used.columns) {
        let name = &column.name;
        column.read = read.contains(name)
            || read.contains(&HiddenColumn::time_of(name))
            || read.contains(&cell_label_name(name));
    }
}

/// Refuses views that read themselves, and views over too many others: those that read the one
/// that is replaced count too.
fn check_depth(
    visible: &Visible,
    view: &CreatePlainView,
    query: &ViewQuery,
    before: Option<&Arc<Table>>,
) -> Result<()> {
    let all = visible.plain_views();
    let above = before.map_or(0, |before| height_above(&all, before.id));
    let mut level: BTreeSet<TableId> = query.uses.iter().map(|used| used.table).collect();
    for _ in above..DEPTH_MAX {
        if before.is_some_and(|before| level.contains(&before.id)) {
            return Err(
                Error::invalid(format!("view {:?} would read itself", view.name))
                    .with_hint("give it another name; WITH RECURSIVE is for queries that go on")
                    .with_sqlstate("42P17"),
            );
        }
        let read = all.iter().filter(|known| level.contains(&known.id));
        level = read
            .flat_map(|known| uses(known))
            .map(|used| used.table)
            .collect();
        if level.is_empty() {
            return Ok(());
        }
    }
    Err(Error::invalid(format!(
        "view {:?} reads too many others, one by the next",
        view.name
    ))
    .with_detail(format!("at most {DEPTH_MAX} views may be read so"))
    .with_hint("CREATE TABLE ... AS SELECT keeps the rows of one")
    .with_sqlstate("54001"))
}

/// How many views read each other, one the next, the first of which reads this one.
fn height_above(all: &[Arc<Table>], view: TableId) -> usize {
    let mut level = BTreeSet::from([view]);
    for height in 0..DEPTH_MAX {
        let reads = |known: &&Arc<Table>| uses(known).any(|used| level.contains(&used.table));
        let readers = all.iter().filter(reads).map(|known| known.id);
        let readers: BTreeSet<TableId> = readers.collect();
        if readers.is_empty() {
            return height;
        }
        level = readers;
    }
    DEPTH_MAX
}

/// The columns of a new view, of what its query gives.
fn columns(view: &CreatePlainView, given: &SchemaRef) -> Result<Vec<Column>> {
    let fields = given.fields();
    if view.columns.len() > fields.len() {
        return Err(Error::invalid(format!(
            "view {:?} names {} columns, its query gives {}",
            view.name,
            view.columns.len(),
            fields.len()
        ))
        .with_sqlstate("42601"));
    }
    if fields.len() > COLUMNS_MAX {
        return Err(Error::invalid(format!(
            "view {:?} has {} columns, at most {COLUMNS_MAX} are possible",
            view.name,
            fields.len()
        ))
        .with_sqlstate("54011"));
    }
    let mut columns: Vec<Column> = Vec::with_capacity(fields.len());
    for (at, field) in fields.iter().enumerate() {
        let name = view.columns.get(at).unwrap_or(field.name());
        let name = checked_name(name.clone())?;
        if HiddenColumn::is_name(&name) || name == HIDDEN_KEY_COLUMN {
            return Err(Error::invalid(format!("column name {name:?} is reserved"))
                .with_hint("name the column of the query with AS")
                .with_name(name)
                .with_sqlstate("42939"));
        }
        if columns.iter().any(|known| known.name == name) {
            return Err(Error::invalid(format!("column {name:?} is there twice"))
                .with_hint("name the columns of the query with AS")
                .with_name(name)
                .with_sqlstate("42701"));
        }
        let data_type = match types::is_uuid(field) {
            true => types::UUID,
            false => types::storable(field.data_type())
                .map_err(|error| error.within(format_args!("column {name:?}")))?,
        };
        columns.push(Column {
            json: is_json_field(field),
            ..Column::new(name, data_type)
        });
    }
    Ok(columns)
}

/// Whether a view may have these columns in the place of those that it has: what reads it goes on
/// knowing it, as in PostgreSQL.
fn check_columns(before: &Table, columns: &[Column]) -> Result<()> {
    let refused = |what: String| {
        Err(Error::invalid(what)
            .with_detail("CREATE OR REPLACE VIEW may add columns behind those that are there")
            .with_hint(format!("DROP VIEW {} first", before.name))
            .with_sqlstate("42P16"))
    };
    if columns.len() < before.columns.len() {
        return refused(format!(
            "columns of view {:?} can't be dropped",
            before.name
        ));
    }
    for (known, column) in before.columns.iter().zip(columns) {
        if known.name != column.name {
            return refused(format!(
                "column {:?} of view {:?} can't become {:?}",
                known.name, before.name, column.name
            ));
        }
        if (&known.data_type, known.json) != (&column.data_type, column.json) {
            return refused(format!(
                "column {:?} of view {:?} can't go from {} to {}",
                known.name,
                before.name,
                types::column_name(known),
                types::column_name(column)
            ));
        }
    }
    Ok(())
}

/// DROP VIEW: all of the views, or none.
async fn drop(
    session: &Arc<Shared>,
    names: &[String],
    if_exists: bool,
    cascade: bool,
) -> Result<AnswerStream> {
    let find = |visible: &Visible, name: &str| {
        let view = visible.plain_view(name);
        view.ok_or_else(|| no_plain_view(visible, name))
    };
    drop_found(session, names, if_exists, cascade, find, "DROP VIEW").await
}

/// There is no plain view of that name.
pub(crate) fn no_plain_view(visible: &Visible, name: &str) -> Error {
    let (kind, drop) = match visible.relation(name) {
        Some(table) if table.view_of.is_some() => ("materialized view", "DROP MATERIALIZED VIEW"),
        Some(_) => ("table", "DROP TABLE"),
        None => {
            return visible.sequence_instead(name).unwrap_or_else(|| {
                Error::not_found(format!("there is no view {:?}", own_name(name)))
                    .with_hint("SHOW VIEWS lists them")
                    .with_name(own_name(name))
                    .with_sqlstate("42P01")
            });
        }
    };
    let name = own_name(name);
    Error::invalid(format!("{name:?} is a {kind}"))
        .with_hint(format!("write {drop} {} to drop it", identifier(name)))
        .with_sqlstate("42809")
}
