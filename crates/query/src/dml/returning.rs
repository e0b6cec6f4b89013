//! RETURNING of an INSERT: expressions over the rows as they are written. Nothing is read for it:
//! only rows that replace what is stored have it, and only of columns whose values the statement
//! knows. What UPDATE and DELETE tell, whose rows a query finds, is in `wanted` and `found`.
//!
//! ```text
//!   RETURNING *, a + 1   ->  the columns that it names: asked for at the gate, shown as it says
//!   a batch of rows      ->  these columns of it  ->  values, which wait for the commit
//! ```
//!
//! Invariant RET-1: no row is told before it is kept, and nothing that could fail is left until
//! after that.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Int64Type, Schema, SchemaRef};
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::common::{DFSchema, TableReference};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, Ident, ObjectName, SelectItem, SelectItemQualifiedWildcardKind,
    WildcardAdditionalOptions,
};
use lazybase_model::{Error, Result, Table};

use super::insert::{Conflict, conflict};
use crate::answer::{AnswerStream, Columns, Definitions};
use crate::changes::sets_whole_rows;
use crate::context::Constants;
use crate::error::{from_arrow, from_datafusion};
use crate::hidden::names_hidden;
use crate::origins::Origin;
use crate::parse::{Insert, SCHEMA, folded, unsupported};
use crate::planner::column_names;
use crate::scan::{Shape, of_its_size};
use crate::session::Shared;
use crate::walk::visit_expressions;

pub(crate) mod found;
pub(crate) mod wanted;

/// What an INSERT tells of the rows that it writes.
pub(crate) struct Returning {
    table: Arc<Table>,
    items: Vec<Item>,
    /// The columns that are named, in their order in the table, as the session sees them.
    shape: Shape,
    /// The columns of whole rows that these are made of.
    stored: Vec<usize>,
    /// The same columns as the expressions name them.
    names: DFSchema,
    told: Waiting,
}

/// Rows that are told once those that they tell of are kept.
struct Waiting {
    schema: SchemaRef,
    rows: Vec<RecordBatch>,
    /// The memory that they take.
    held: MemoryReservation,
}

impl Waiting {
    fn new(session: &Shared, schema: SchemaRef) -> Waiting {
        Waiting {
            schema,
            rows: Vec::new(),
            held: session.reserve("the rows of RETURNING"),
        }
    }

    /// # Errors
    /// `Unavailable` (53200) for more rows than there is memory for.
    fn push(&mut self, columns: Vec<ArrayRef>, rows: usize) -> Result<()> {
        let told = of_its_size(batch(&self.schema, columns, rows)?);
        let told = told.map_err(|error| from_datafusion(&error, ""))?;
        self.held
            .try_grow(get_record_batch_memory_size(&told))
            .map_err(|error| from_datafusion(&error, ""))?;
        self.rows.push(told);
        Ok(())
    }

    fn answer(self, tag: String, written: u64) -> AnswerStream {
        AnswerStream::returned(self.schema, self.rows, self.held, tag, written)
    }
}

/// One column of what is told.
struct Item {
    name: String,
    told: Told,
}

enum Told {
    /// The column of the table at this place.
    Column(usize),
    Computed(Box<Expr>),
}

/// The columns of the rows that an INSERT gives; `None` for one that gives none.
///
/// # Errors
/// As [`Returning::of`].
pub(crate) fn columns(session: &Shared, insert: Insert) -> Result<Option<Columns>> {
    let Insert {
        table,
        alias,
        on_conflict,
        returning: Some(items),
        ..
    } = insert
    else {
        return Ok(None);
    };
    let table = session.table(&table)?;
    let conflict = conflict(&table, on_conflict)?;
    let returning = Returning::of(session, &table, alias.as_deref(), &items, &conflict)?;
    Ok(Some(Columns {
        definitions: returning.definitions(),
        origins: returning.origins(),
        schema: returning.told.schema,
    }))
}

impl Returning {
    /// What `items` tell of rows of a table, which the statement may call by an alias.
    ///
    /// # Errors
    /// `Invalid`: 0A000 for what only the stored row tells, 42501 for columns that may not be
    /// read, and whatever the planner says of the expressions.
    pub(crate) fn of(
        session: &Shared,
        table: &Arc<Table>,
        alias: Option<&str>,
        items: &[SelectItem],
        conflict: &Conflict,
    ) -> Result<Returning> {
        check_conflict(table, conflict)?;
        let called = alias.unwrap_or(&table.name);
        let mut reader = Reader {
            names: Names {
                session,
                table,
                called,
            },
            items: Vec::new(),
            used: BTreeSet::new(),
        };
        for item in items {
            reader.read(item)?;
        }
        let called = TableReference::bare(called);
        let used: Vec<usize> = reader.used.into_iter().collect();
        check_columns(table, &used)?;
        let gate = session.gate_now();
        let sight = match used.is_empty() {
            true => gate.sight().clone(),
            false => gate.read(table, &used)?,
        };
        let hides_rows = sight.hides_rows(table);
        let shape = Shape::new(Arc::clone(table), used, &sight)?;
        let names = DFSchema::try_from_qualified_schema(called, &shape.schema)
            .map_err(|error| from_datafusion(&error, ""))?;
        let mut returning = Returning {
            table: Arc::clone(table),
            items: reader.items,
            stored: match shape.projection.is_empty() && !hides_rows {
                true => Vec::new(),
                false => shape.stored_projection(),
            },
            names,
            told: Waiting::new(session, Arc::new(Schema::empty())),
            shape,
        };
        // The types of the expressions are those of their values.
        let none = RecordBatch::new_empty(Arc::clone(&returning.shape.schema));
        let values = returning.values(&session.constants(), &none)?;
        returning.told.schema = returning.schema_of(&values);
        Ok(returning)
    }

    /// Takes whole rows as they are written: all columns that can be, as they are stored.
    /// `generated` are the columns whose values are others each time, of a batch that may have been
    /// there before under its producer's number.
    ///
    /// # Errors
    /// `Invalid` (0A000) for such columns and for IDs that have no number yet, `Unavailable`
    /// (53200) for more rows than there is memory for, and whatever the expressions meet.
    pub(crate) fn take(
        &mut self,
        constants: &Constants,
        columns: &[ArrayRef],
        rows: usize,
        generated: &[usize],
    ) -> Result<()> {
        let mut named = self.shape.projection.iter();
        if let Some(at) = named.find(|at| generated.contains(at)) {
            return Err(not_known(&self.table.columns[*at].name));
        }
        for at in &self.shape.projection {
            check_numbers(&self.table, *at, &columns[*at])?;
        }
        let fields = self.stored.iter().map(|at| {
            let name = &self.table.columns[*at].name;
            Field::new(name, columns[*at].data_type().clone(), true)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<Field>>()));
        let stored = self.stored.iter().map(|at| Arc::clone(&columns[*at]));
        let stored = batch(&schema, stored.collect(), rows)?;
        let shown = self.shape.show(&stored);
        let shown = shown.map_err(|error| from_datafusion(&error, ""))?;
        let values = self.values(constants, &shown)?;
        self.told.push(values, shown.num_rows())
    }

    /// The answer, once the rows are kept; `written` of them were given.
    pub(crate) fn answer(self, tag: String, written: u64) -> AnswerStream {
        let (definitions, origins) = (self.definitions(), self.origins());
        let answer = self.told.answer(tag, written);
        answer.with_definitions(definitions).with_origins(origins)
    }

    /// What is told of rows.
    fn values(&self, constants: &Constants, shown: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let of_item = |item: &Item| match &item.told {
            Told::Column(at) => Ok(Arc::clone(shown.column(self.place(*at)))),
            Told::Computed(expr) => constants.context().evaluate(expr, &self.names, shown),
        };
        self.items.iter().map(of_item).collect()
    }

    fn schema_of(&self, values: &[ArrayRef]) -> SchemaRef {
        let of_item = |(item, values): (&Item, &ArrayRef)| match &item.told {
            Told::Column(at) => {
                let field = self.shape.schema.field(self.place(*at)).clone();
                field.with_name(item.name.as_str())
            }
            Told::Computed(_) => Field::new(&item.name, values.data_type().clone(), true),
        };
        let fields: Vec<Field> = self.items.iter().zip(values).map(of_item).collect();
        Arc::new(Schema::new(fields))
    }

    /// Where a column of the table is among those that are named.
    fn place(&self, at: usize) -> usize {
        let named = &self.shape.projection;
        named.partition_point(|known| *known < at)
    }

    fn definitions(&self) -> Definitions {
        Definitions(vec![(self.table.id, self.table.version)])
    }

    fn origins(&self) -> Vec<Origin> {
        let of_item = |item: &Item| match item.told {
            Told::Column(at) => Origin::of(&self.table, at),
            Told::Computed(_) => Origin::default(),
        };
        self.items.iter().map(of_item).collect()
    }
}

/// Refuses IDs of natural keys, which stand for places of keys until they have numbers.
fn check_numbers(table: &Table, at: usize, values: &ArrayRef) -> Result<()> {
    let column = &table.columns[at];
    if column.id_key.is_none() {
        return Ok(());
    }
    let ids = values.as_primitive::<Int64Type>();
    match ids.iter().flatten().any(|id| id < 0) {
        true => Err(no_number(&column.name)),
        false => Ok(()),
    }
}

fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| from_arrow(&error))
}

/// Refuses rows of which the stored ones may keep something.
fn check_conflict(table: &Table, conflict: &Conflict) -> Result<()> {
    let replaces = match conflict {
        Conflict::Replace => true,
        Conflict::Set(set) => sets_whole_rows(table, set)?,
        Conflict::Keep | Conflict::SetOther(_) => false,
    };
    match replaces {
        true => Ok(()),
        false => Err(
            unsupported("RETURNING is not supported with this ON CONFLICT")
                .with_detail("what becomes of a row that is there is not known: writes are blind")
                .with_hint(
                    "leave ON CONFLICT out, set every column to what EXCLUDED has, or SELECT the \
                     rows after the write",
                ),
        ),
    }
}

/// Refuses columns whose values come from elsewhere than the statement.
fn check_columns(table: &Table, used: &[usize]) -> Result<()> {
    let owned = table.owned_id().map(|(at, _)| at);
    for at in used {
        let column = &table.columns[*at];
        if owned == Some(*at) {
            return Err(no_number(&column.name));
        }
        if column.merge.is_some() {
            return Err(unsupported(format!(
                "column {:?} can't be in RETURNING: it has a merge operator",
                column.name
            ))
            .with_detail("its value is combined with the stored one: writes are blind")
            .with_hint("name the other columns, or SELECT the rows after the write"));
        }
    }
    Ok(())
}

fn no_number(column: &str) -> Error {
    unsupported(format!(
        "column {column:?} can't be in RETURNING: its numbers come later"
    ))
    .with_detail("natural keys get their numbers when what is written is sealed")
    .with_hint("name the other columns, and SELECT the numbers after the write")
}

fn not_known(column: &str) -> Error {
    unsupported(format!(
        "column {column:?} can't be in RETURNING: the database generates it under a number"
    ))
    .with_detail("a batch that was there already has kept other values than those made now")
    .with_hint("give the value, or SELECT it after the write")
}

/// Reads the items of RETURNING.
struct Reader<'r> {
    names: Names<'r>,
    items: Vec<Item>,
    /// The columns that they name.
    used: BTreeSet<usize>,
}

impl Reader<'_> {
    fn read(&mut self, item: &SelectItem) -> Result<()> {
        let (expr, name) = match item {
            SelectItem::Wildcard(options) => return self.all(options),
            SelectItem::QualifiedWildcard(kind, options) => {
                let name = called_in(kind, item)?;
                return match self.names.is_called(name) {
                    true => self.all(options),
                    false => Err(no_entry(name)),
                };
            }
            item => value_of(item)?,
        };
        self.look(expr)?;
        let told = match self.names.column(expr) {
            Some(at) => Told::Column(at),
            None => Told::Computed(Box::new(expr.clone())),
        };
        self.items.push(Item { name, told });
        Ok(())
    }

    /// Adds all columns that the table shows.
    fn all(&mut self, options: &WildcardAdditionalOptions) -> Result<()> {
        check_plain(options)?;
        let table = self.names.table;
        let shown = 0..table.visible_columns();
        self.used.extend(shown.clone());
        self.items.extend(shown.map(|at| Item {
            name: table.columns[at].name.clone(),
            told: Told::Column(at),
        }));
        Ok(())
    }

    /// Notes the columns that an expression names.
    fn look(&mut self, expr: &Expr) -> Result<()> {
        self.names.check(expr)?;
        let looked = visit_expressions(expr, |part| {
            self.used.extend(self.names.first_column(part));
            ControlFlow::<()>::Continue(())
        });
        debug_assert!(looked.is_continue(), "nothing ends the visit");
        Ok(())
    }
}

/// An item that is one value, and its name.
fn value_of(item: &SelectItem) -> Result<(&Expr, String)> {
    match item {
        SelectItem::UnnamedExpr(expr) => Ok((expr, column_names::of(expr))),
        SelectItem::ExprWithAlias { expr, alias } => Ok((expr, folded(alias))),
        other => Err(odd(other)),
    }
}

/// The name before `.*`.
fn called_in<'i>(
    kind: &'i SelectItemQualifiedWildcardKind,
    item: &SelectItem,
) -> Result<&'i ObjectName> {
    match kind {
        SelectItemQualifiedWildcardKind::ObjectName(name) => Ok(name),
        SelectItemQualifiedWildcardKind::Expr(_) => Err(odd(item)),
    }
}

/// Refuses what may stand behind `*` elsewhere.
fn check_plain(options: &WildcardAdditionalOptions) -> Result<()> {
    match *options == WildcardAdditionalOptions::default() {
        true => Ok(()),
        false => Err(odd(&format!("*{options}"))),
    }
}

/// What names mean in RETURNING.
struct Names<'r> {
    session: &'r Shared,
    table: &'r Table,
    /// What the statement calls the table.
    called: &'r str,
}

impl Names<'_> {
    /// Whether a name, as it stands before `.*`, is the table's.
    fn is_called(&self, name: &ObjectName) -> bool {
        let last = name.0.last().and_then(|part| part.as_ident());
        last.is_some_and(|last| folded(last) == self.called)
    }

    /// Refuses expressions that are none of one row.
    fn check(&self, expr: &Expr) -> Result<()> {
        let looked = visit_expressions(expr, |part| match self.check_part(part) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        });
        match looked {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        }
    }

    fn check_part(&self, part: &Expr) -> Result<()> {
        match part {
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => {
                Err(unsupported("a subquery in RETURNING is not supported")
                    .with_hint("SELECT what it gives by itself"))
            }
            Expr::Function(Function { over: Some(_), .. }) => Err(Error::invalid(
                "window functions are not allowed in RETURNING",
            )
            .with_sqlstate("42P20")),
            Expr::Function(function) if self.is_aggregate(function) => Err(Error::invalid(
                "aggregate functions are not allowed in RETURNING",
            )
            .with_sqlstate("42803")),
            _ if names_hidden(part) && self.first_column(part).is_none() => {
                Err(unsupported(format!("{part} is not supported in RETURNING"))
                    .with_detail("hidden columns are those of rows that are stored")
                    .with_hint("SELECT them after the write"))
            }
            _ => Ok(()),
        }
    }

    fn is_aggregate(&self, function: &Function) -> bool {
        let known = self.session.database.planner().aggregate_functions();
        let name = function.name.0.last().and_then(|part| part.as_ident());
        name.is_some_and(|name| known.contains_key(&folded(name)))
    }

    /// The column that an expression is.
    fn column(&self, expr: &Expr) -> Option<usize> {
        match expr {
            Expr::CompoundIdentifier(parts) if self.within(parts).len() > 1 => None,
            expr => self.first_column(expr),
        }
    }

    /// The column that a name begins with: it may go on with fields.
    fn first_column(&self, expr: &Expr) -> Option<usize> {
        let name = match expr {
            Expr::Identifier(name) => name,
            Expr::CompoundIdentifier(parts) => self.within(parts).first()?,
            _ => return None,
        };
        self.shown(name)
    }

    /// The column of a name.
    fn shown(&self, name: &Ident) -> Option<usize> {
        let at = self.table.column_index(&folded(name))?;
        (at < self.table.visible_columns()).then_some(at)
    }

    /// What stands behind the table's name.
    fn within<'p>(&self, parts: &'p [Ident]) -> &'p [Ident] {
        match parts {
            [schema, table, rest @ ..]
                if !rest.is_empty() && folded(schema) == SCHEMA && folded(table) == self.called =>
            {
                rest
            }
            [table, rest @ ..] if !rest.is_empty() && folded(table) == self.called => rest,
            parts => parts,
        }
    }
}

fn no_entry(name: &ObjectName) -> Error {
    let message = format!("missing FROM-clause entry for table \"{name}\"");
    Error::not_found(message).with_sqlstate("42P01")
}

fn odd(what: &impl std::fmt::Display) -> Error {
    unsupported(format!("{what} in RETURNING is not supported"))
        .with_hint("write * or expressions over the table's columns")
}
