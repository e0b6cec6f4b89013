//! RETURNING of an UPDATE or DELETE: expressions over the rows that its query finds, of an UPDATE
//! with the new values where columns are set. What they read comes with the query.
//!
//! ```text
//!   RETURNING a + u.n, u.*   ->  SELECT key, new values, t.a, u.n, u.* FROM t, u WHERE ...
//!   a batch of these rows    ->  a as it is written, and n, u.*  ->  values, which wait for the
//!                                commit
//! ```
//!
//! Reads and rewrites sqlparser's tree, and takes the batches of the query. Invariant RET-2: what is
//! told of a row is of the same row of the query as what is written.

use std::collections::{BTreeSet, HashMap};
use std::iter;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::datatypes::{DataType, Field, Fields, Schema};
use datafusion::common::DFSchema;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, SelectItem,
    Value, VisitorMut,
};
use lazybase_model::{Error, Result, Table};

use super::{
    Names, Waiting, batch, called_in, check_numbers, check_plain, no_entry, odd, value_of,
};
use crate::answer::{AnswerStream, Columns, Definitions};
use crate::changes::labelled;
use crate::context::Constants;
use crate::error::from_datafusion;
use crate::labels::Sight;
use crate::origins::Origin;
use crate::parse::{ChangedRows, folded, unsupported};
use crate::scan::Shape;
use crate::session::Shared;
use crate::walk::visit_mut;

/// How names are quoted that stand for columns of the query, or for none: no statement has that.
const DONE: char = '`';

/// What RETURNING wants of the query that finds rows.
pub(crate) struct Wanted {
    table: Arc<Table>,
    /// What the session sees of the table.
    sight: Sight,
    sources: Vec<Source>,
    wildcards: Vec<Wildcard>,
    items: Vec<Item>,
}

/// A column that RETURNING names.
#[derive(PartialEq)]
struct Source {
    /// As the query names it.
    expr: Expr,
    /// Its place in the table, if it is one of the table that is changed.
    own: Option<usize>,
}

/// All columns of other tables.
#[derive(PartialEq)]
struct Wildcard {
    item: SelectItem,
    /// Whether those of the table that is changed come before them.
    of_all: bool,
}

/// One item of RETURNING.
enum Item {
    /// A source by its place.
    Column { name: String, source: usize },
    /// An expression over sources.
    Computed { name: String, expr: Box<Expr> },
    /// What a wildcard gives, by its place.
    All(usize),
}

/// The query that finds rows.
pub(crate) struct FoundColumns<'f> {
    pub(crate) schema: &'f Schema,
    pub(crate) origins: &'f [Origin],
    /// How many columns stand before those that RETURNING wants.
    pub(crate) before: usize,
    /// Whether the hidden key of the table is shown.
    pub(crate) shows_key: bool,
    pub(crate) definitions: Definitions,
}

impl Wanted {
    /// What `items` tell of the rows that a statement changes.
    ///
    /// # Errors
    /// `Invalid`: 0A000 for what is not of one row, 42501 for columns that may not be read.
    pub(crate) fn of(
        session: &Shared,
        table: &Arc<Table>,
        rows: &ChangedRows,
        items: &[SelectItem],
    ) -> Result<Wanted> {
        let mut reader = Reader {
            names: Names {
                session,
                table,
                called: rows.called(),
            },
            alone: rows.from.is_empty(),
            sources: Vec::new(),
            wildcards: Vec::new(),
            items: Vec::new(),
        };
        for item in items {
            reader.read(item)?;
        }
        let used: BTreeSet<usize> = reader.sources.iter().filter_map(|of| of.own).collect();
        let used: Vec<usize> = used.into_iter().collect();
        let gate = session.gate_now();
        let sight = match used.is_empty() {
            true => gate.sight().clone(),
            false => gate.read(table, &used)?,
        };
        Ok(Wanted {
            table: Arc::clone(table),
            sight,
            sources: reader.sources,
            wildcards: reader.wildcards,
            items: reader.items,
        })
    }

    /// How many columns it names one by one: the first of those that it wants.
    pub(crate) fn named(&self) -> usize {
        self.sources.len()
    }

    /// The columns that it names, as the query does.
    pub(crate) fn exprs(&self) -> impl Iterator<Item = &Expr> + Clone {
        self.sources.iter().map(|source| &source.expr)
    }

    /// What the query shall give.
    pub(crate) fn select_items(&self) -> Vec<SelectItem> {
        let named = self.exprs().cloned().enumerate();
        let named = named.map(|(place, expr)| called(expr, source_name(place)));
        let mut items: Vec<SelectItem> = named.collect();
        for (place, wildcard) in self.wildcards.iter().enumerate() {
            let nothing = Expr::value(Value::Number("0".to_owned(), false));
            items.push(wildcard.item.clone());
            items.push(called(nothing, end_name(place)));
        }
        items
    }

    /// What tells the rows of a query, in which the columns `set` get other values.
    ///
    /// # Errors
    /// `Invalid` (0A000) where the rows may be hidden from the session once they are written, and
    /// whatever the planner says of the expressions.
    pub(crate) fn telling(
        self,
        session: &Shared,
        found: FoundColumns<'_>,
        set: &[usize],
    ) -> Result<Telling> {
        let fields = found.schema.fields()[found.before..].iter();
        let mut fields: Vec<Field> = fields.map(|field| field.as_ref().clone()).collect();
        let wildcards = self.expanded(&fields, found.shows_key)?;
        let changed = self.changed(set)?;
        if let Some(changed) = &changed {
            for (source, at) in &changed.places {
                let shown = changed.shape.schema.field(*at).clone();
                fields[*source] = shown.with_name(source_name(*source));
            }
        }
        let columns = told_columns(self.items, wildcards, &fields);
        let sources = Fields::from(fields[..self.sources.len()].to_vec());
        let names = DFSchema::from_unqualified_fields(sources, HashMap::new());
        let place = |told: &Told| match told {
            Told::Column(place) => found.origins.get(found.before + place).copied(),
            Told::Computed(_) => None,
        };
        let origins = columns.iter().map(|(_, told)| place(told));
        let origins = origins.map(Option::unwrap_or_default).collect();
        let (labels, told): (Vec<String>, Vec<Told>) = columns.into_iter().unzip();
        let mut telling = Telling {
            before: found.before,
            changed,
            names: names.map_err(|error| from_datafusion(&error, ""))?,
            told,
            waiting: Waiting::new(session, Arc::new(Schema::empty())),
            origins,
            definitions: found.definitions,
        };
        // The types of the expressions are those of their values.
        let none = RecordBatch::new_empty(Arc::new(Schema::new(fields.clone())));
        let values = telling.values(&session.constants(), none.columns(), 0)?;
        let shown = labels.into_iter().zip(&telling.told).zip(&values);
        let shown = shown.map(|((name, told), values)| match told {
            Told::Column(place) => fields[*place].clone().with_name(name),
            Told::Computed(_) => Field::new(name, values.data_type().clone(), true),
        });
        telling.waiting.schema = Arc::new(Schema::new(shown.collect::<Vec<Field>>()));
        Ok(telling)
    }

    /// Where the columns of each wildcard are among those that it wants.
    fn expanded(&self, fields: &[Field], shows_key: bool) -> Result<Vec<Range<usize>>> {
        let mut begin = self.sources.len();
        let wildcards = self.wildcards.iter().enumerate();
        let expanded = wildcards.map(|(place, wildcard)| {
            let name = end_name(place);
            let mut rest = fields.iter().skip(begin);
            let columns = rest.position(|field| *field.name() == name);
            let columns = columns.ok_or_else(|| Error::internal("a wildcard has an end"))?;
            let own = match wildcard.of_all {
                true => self.table.visible_columns() + usize::from(shows_key),
                false => 0,
            };
            let others = begin + own.min(columns)..begin + columns;
            begin += columns + 1;
            Ok::<_, Error>(others)
        });
        expanded.collect()
    }

    /// The sources that are told as they are set.
    fn changed(&self, set: &[usize]) -> Result<Option<Changed>> {
        let table = &self.table;
        let hides = self.sight.hides_rows(table);
        if hides && table.row_label().is_some_and(|at| set.contains(&at)) {
            return Err(
                unsupported("RETURNING is not supported where _label is set")
                    .with_detail("the session may not read the rows that it would tell of")
                    .with_hint("UPDATE without RETURNING, or as a role that reads all labels"),
            );
        }
        let is_told = |at: &usize| self.sources.iter().any(|source| source.own == Some(*at));
        let mut told: Vec<usize> = set.iter().copied().filter(is_told).collect();
        if told.is_empty() {
            return Ok(None);
        }
        told.sort_unstable();
        let sources = self.sources.iter().enumerate();
        let places = sources.filter_map(|(place, source)| {
            let at = told.iter().position(|at| Some(*at) == source.own)?;
            Some((place, at))
        });
        let places = places.collect();
        let shape = Shape::new(Arc::clone(table), told, &self.sight)?;
        Ok(Some(Changed { shape, places }))
    }
}

/// Columns that are told as they are set.
struct Changed {
    shape: Shape,
    /// The places of sources, and where these are in the shape.
    places: Vec<(usize, usize)>,
}

impl Changed {
    /// The columns of `rows` rows as the session sees them once they are `set`.
    fn shown(&self, set: &[(usize, ArrayRef)], rows: usize) -> Result<RecordBatch> {
        let table = &self.shape.table;
        let set = labelled(table, set)?;
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for at in self.shape.stored_projection() {
            let column = &table.columns[at];
            let values = match set.iter().find(|(known, _)| *known == at) {
                Some((_, values)) => Arc::clone(values),
                // The label of a row that was found: it may be read, whatever that says.
                None => new_null_array(&column.data_type, rows),
            };
            check_numbers(table, at, &values)?;
            fields.push(Field::new(&column.name, values.data_type().clone(), true));
            columns.push(values);
        }
        let stored = batch(&Arc::new(Schema::new(fields)), columns, rows)?;
        let shown = self.shape.show(&stored);
        shown.map_err(|error| from_datafusion(&error, ""))
    }
}

/// One column of what is told.
enum Told {
    /// The column at this place of what the query gives for it.
    Column(usize),
    /// Of sources, under their names.
    Computed(Box<Expr>),
}

/// The names of all columns that are told, and where they come from.
fn told_columns(
    items: Vec<Item>,
    wildcards: Vec<Range<usize>>,
    fields: &[Field],
) -> Vec<(String, Told)> {
    let mut columns = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Item::Column { name, source } => columns.push((name, Told::Column(source))),
            Item::Computed { name, expr } => columns.push((name, Told::Computed(expr))),
            Item::All(place) => columns.extend(wildcards[place].clone().map(|at| {
                let name = fields[at].name().clone();
                (name, Told::Column(at))
            })),
        }
    }
    columns
}

/// What an UPDATE or DELETE tells of the rows that it changes.
pub(crate) struct Telling {
    /// How many columns of the query stand before those that it takes.
    before: usize,
    changed: Option<Changed>,
    /// The sources as expressions name them.
    names: DFSchema,
    told: Vec<Told>,
    waiting: Waiting,
    origins: Vec<Origin>,
    definitions: Definitions,
}

impl Telling {
    /// Takes rows of the query, in which columns of the table are `set` to checked values.
    ///
    /// # Errors
    /// `Invalid` (0A000) for IDs that have no number yet, `Unavailable` (53200) for more rows than
    /// there is memory for, and whatever the expressions meet.
    pub(crate) fn take(
        &mut self,
        constants: &Constants,
        found: &RecordBatch,
        set: &[(usize, ArrayRef)],
    ) -> Result<()> {
        let rows = found.num_rows();
        let mut columns = found.columns()[self.before..].to_vec();
        if let Some(changed) = &self.changed {
            let shown = changed.shown(set, rows)?;
            for (source, at) in &changed.places {
                columns[*source] = Arc::clone(shown.column(*at));
            }
        }
        let values = self.values(constants, &columns, rows)?;
        self.waiting.push(values, rows)
    }

    /// What is told of rows.
    fn values(
        &self,
        constants: &Constants,
        columns: &[ArrayRef],
        rows: usize,
    ) -> Result<Vec<ArrayRef>> {
        let sources = self.names.inner();
        let named = batch(sources, columns[..sources.fields().len()].to_vec(), rows)?;
        let value = |told: &Told| match told {
            Told::Column(place) => Ok(Arc::clone(&columns[*place])),
            Told::Computed(expr) => constants.context().evaluate(expr, &self.names, &named),
        };
        self.told.iter().map(value).collect()
    }

    /// The answer, once the rows are kept; `written` of them were changed.
    pub(crate) fn answer(self, tag: String, written: u64) -> AnswerStream {
        let answer = self.waiting.answer(tag, written);
        answer
            .with_definitions(self.definitions)
            .with_origins(self.origins)
    }

    /// The columns of what is told.
    pub(crate) fn columns(self) -> Columns {
        Columns {
            schema: self.waiting.schema,
            definitions: self.definitions,
            origins: self.origins,
        }
    }
}

/// What the query calls a source.
fn source_name(place: usize) -> String {
    format!("__told_{place}")
}

/// What the query calls the column behind those of a wildcard.
fn end_name(place: usize) -> String {
    format!("__told_all_{place}")
}

fn called(expr: Expr, name: String) -> SelectItem {
    let alias = Ident::with_quote('"', name);
    SelectItem::ExprWithAlias { expr, alias }
}

/// Reads the items of RETURNING.
struct Reader<'r> {
    names: Names<'r>,
    /// Whether no other tables are there.
    alone: bool,
    sources: Vec<Source>,
    wildcards: Vec<Wildcard>,
    items: Vec<Item>,
}

impl Reader<'_> {
    fn read(&mut self, item: &SelectItem) -> Result<()> {
        match item {
            SelectItem::Wildcard(options) => {
                check_plain(options)?;
                self.own_columns();
                match self.alone {
                    true => Ok(()),
                    false => self.others(item, true),
                }
            }
            SelectItem::QualifiedWildcard(kind, options) => {
                check_plain(options)?;
                let name = called_in(kind, item)?;
                if self.names.is_called(name) {
                    self.own_columns();
                    return Ok(());
                }
                match self.alone {
                    true => Err(no_entry(name)),
                    false => self.others(item, false),
                }
            }
            item => {
                let (expr, name) = value_of(item)?;
                self.names.check(expr)?;
                let mut expr = expr.clone();
                if let ControlFlow::Break(error) = visit_mut(&mut expr, self) {
                    return Err(error);
                }
                self.items.push(match self.source_of(&expr) {
                    Some(source) => Item::Column { name, source },
                    None => Item::Computed {
                        name,
                        expr: Box::new(expr),
                    },
                });
                Ok(())
            }
        }
    }

    /// Adds all columns that the table shows.
    fn own_columns(&mut self) {
        let table = self.names.table;
        for at in 0..table.visible_columns() {
            let source = self.own(at, true);
            let name = table.columns[at].name.clone();
            self.items.push(Item::Column { name, source });
        }
    }

    /// Adds all columns of other tables.
    fn others(&mut self, item: &SelectItem, of_all: bool) -> Result<()> {
        let item = item.clone();
        let wildcard = Wildcard { item, of_all };
        let place = place_of(&mut self.wildcards, wildcard);
        // The planner wants each column once.
        if self.wildcards.len() > 1 && self.wildcards.iter().any(|all| all.of_all) {
            return Err(unsupported("* beside t.* in RETURNING is not supported")
                .with_hint("name the columns"));
        }
        self.items.push(Item::All(place));
        Ok(())
    }

    /// A column of the table that is changed. Where it is not qualified, the planner says if
    /// another table has one of its name.
    fn own(&mut self, at: usize, qualified: bool) -> usize {
        let name = self.names.table.columns[at].name.as_str();
        let name = Ident::with_quote('"', name);
        let expr = match qualified || self.alone {
            true => {
                let called = Ident::with_quote('"', self.names.called);
                Expr::CompoundIdentifier(vec![called, name])
            }
            false => Expr::Identifier(name),
        };
        let own = Some(at);
        place_of(&mut self.sources, Source { expr, own })
    }

    /// The source that stands for a name, and the fields of it that are meant.
    fn placed(&mut self, parts: &[Ident]) -> Result<Vec<Ident>> {
        let within = self.names.within(parts);
        let qualified = within.len() < parts.len();
        let own = within.first().and_then(|name| self.names.shown(name));
        let has_fields = |at: &usize| {
            let of = &self.names.table.columns[*at].data_type;
            matches!(of, DataType::Struct(_))
        };
        let own = own.filter(|at| qualified || within.len() == 1 || has_fields(at));
        let (source, fields) = match (own, parts) {
            (Some(at), _) => (self.own(at, qualified), &within[1..]),
            (None, [name]) if folded(name) == self.names.called => return Err(odd(name)),
            (None, parts) => {
                let expr = named(parts.to_vec());
                let source = Source { expr, own: None };
                (place_of(&mut self.sources, source), &parts[parts.len()..])
            }
        };
        let source = Ident::with_quote(DONE, source_name(source));
        Ok(iter::once(source).chain(fields.iter().cloned()).collect())
    }

    /// The source that an expression is, whose names were replaced.
    fn source_of(&self, expr: &Expr) -> Option<usize> {
        let Expr::Identifier(name) = expr else {
            return None;
        };
        let mut places = 0..self.sources.len();
        places.find(|place| name.quote_style == Some(DONE) && name.value == source_name(*place))
    }

    /// Puts sources in the places of names.
    fn replace(&mut self, expr: &mut Expr) -> Result<()> {
        match expr {
            Expr::Identifier(name) if name.quote_style == Some(DONE) => Ok(()),
            Expr::Identifier(name) => {
                let parts = [name.clone()];
                *expr = named(self.placed(&parts)?);
                Ok(())
            }
            Expr::CompoundIdentifier(parts) => {
                let placed = self.placed(parts)?;
                *expr = named(placed);
                Ok(())
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                if let Expr::Identifier(first) = &**root {
                    let parts = iter::once(first).chain(access_chain.iter().map_while(dotted));
                    let parts: Vec<Ident> = parts.cloned().collect();
                    let mut placed = self.placed(&parts)?.into_iter();
                    if let Some(source) = placed.next() {
                        **root = Expr::Identifier(source);
                    }
                    let rest = access_chain.split_off(parts.len() - 1);
                    let fields = placed.map(|field| AccessExpr::Dot(Expr::Identifier(field)));
                    *access_chain = fields.chain(rest).collect();
                }
                for access in access_chain {
                    if let AccessExpr::Dot(Expr::Identifier(field)) = access {
                        *field = no_column(field);
                    }
                }
                Ok(())
            }
            Expr::Function(function) => in_call(function),
            Expr::QualifiedWildcard(..) => Err(odd(expr)),
            _ => Ok(()),
        }
    }
}

impl VisitorMut for Reader<'_> {
    type Break = Error;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match self.replace(expr) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// The place of something among others, to which it is added where it is none of them.
fn place_of<T: PartialEq>(known: &mut Vec<T>, new: T) -> usize {
    match known.iter().position(|known| *known == new) {
        Some(place) => place,
        None => {
            known.push(new);
            known.len() - 1
        }
    }
}

/// A name of such parts.
fn named(mut parts: Vec<Ident>) -> Expr {
    match parts.pop() {
        Some(only) if parts.is_empty() => Expr::Identifier(only),
        last => {
            parts.extend(last);
            Expr::CompoundIdentifier(parts)
        }
    }
}

/// The name behind a point.
fn dotted(access: &AccessExpr) -> Option<&Ident> {
    match access {
        AccessExpr::Dot(Expr::Identifier(name)) => Some(name),
        _ => None,
    }
}

/// The same name, of something that is no column.
fn no_column(name: &Ident) -> Ident {
    Ident::with_quote(DONE, folded(name))
}

/// Looks at the arguments of a function: their names are no columns.
fn in_call(function: &mut Function) -> Result<()> {
    let FunctionArguments::List(list) = &mut function.args else {
        return Ok(());
    };
    for argument in &mut list.args {
        if let FunctionArg::ExprNamed {
            name: Expr::Identifier(name),
            ..
        } = argument
        {
            *name = no_column(name);
        }
        let (FunctionArg::Named { arg, .. }
        | FunctionArg::ExprNamed { arg, .. }
        | FunctionArg::Unnamed(arg)) = argument;
        if let FunctionArgExpr::QualifiedWildcard(name) = arg {
            return Err(odd(&format!("{name}.*")));
        }
    }
    Ok(())
}
