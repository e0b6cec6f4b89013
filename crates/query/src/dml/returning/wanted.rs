//! What RETURNING of an UPDATE or DELETE wants of the query that finds the rows: the columns that
//! its expressions name, which are put in the places of their names.
//!
//! ```text
//!   a + u.n, u.*   ->  items: __told_0 + __told_1, all of u
//!                      query: t.a AS __told_0, u.n AS __told_1, u.*
//! ```
//!
//! Reads and rewrites sqlparser's tree.

use std::collections::BTreeSet;
use std::iter;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    JoinConstraint, ObjectName, SelectItem, TableFactor, TableWithJoins, Value, VisitorMut,
};
use lazybase_model::table::HIDDEN_KEY_COLUMN;
use lazybase_model::{Error, Result, Table};

use super::{Names, called_in, check_plain, no_entry, odd, value_of};
use crate::hidden::constraint;
use crate::labels::Sight;
use crate::parse::{ChangedRows, folded, unsupported};
use crate::session::Shared;
use crate::walk::visit_mut;

/// How names are quoted that stand for columns of the query, or for none: no statement has that.
const DONE: char = '`';

/// What RETURNING wants of the query that finds rows.
pub(crate) struct Wanted {
    pub(super) table: Arc<Table>,
    /// What the session sees of the table.
    pub(super) sight: Sight,
    pub(super) sources: Vec<Source>,
    pub(super) wildcards: Vec<Wildcard>,
    pub(super) items: Vec<Item>,
}

/// A column that RETURNING names.
#[derive(PartialEq)]
pub(super) struct Source {
    /// As the query names it.
    expr: Expr,
    /// Its place in the table, if it is one of the table that is changed.
    pub(super) own: Option<usize>,
}

/// All columns of other tables.
#[derive(PartialEq)]
pub(super) struct Wildcard {
    item: SelectItem,
    /// Whether those of the table that is changed come before them.
    pub(super) of_all: bool,
}

/// One item of RETURNING.
pub(super) enum Item {
    /// A source by its place.
    Column { name: String, source: usize },
    /// An expression over sources.
    Computed { name: String, expr: Box<Expr> },
    /// What a wildcard gives, by its place.
    All(usize),
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
            others: Others::of(&rows.from),
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
}

/// What the query calls a source.
pub(super) fn source_name(place: usize) -> String {
    format!("__told_{place}")
}

/// What the query calls the column behind those of a wildcard.
pub(super) fn end_name(place: usize) -> String {
    format!("__told_all_{place}")
}

fn called(expr: Expr, name: String) -> SelectItem {
    let alias = Ident::with_quote('"', name);
    SelectItem::ExprWithAlias { expr, alias }
}

/// The tables beside that which is changed.
struct Others {
    /// Whether there are none.
    none: bool,
    /// The columns that JOIN ... USING merges: the planner takes that of the left side.
    merged: Vec<String>,
    /// Whether others are, which only the tables tell.
    natural: bool,
}

impl Others {
    fn of(from: &[TableWithJoins]) -> Others {
        let mut others = Others {
            none: from.is_empty(),
            merged: Vec::new(),
            natural: false,
        };
        from.iter().for_each(|from| others.add(from));
        others
    }

    fn add(&mut self, from: &TableWithJoins) {
        self.add_factor(&from.relation);
        for join in &from.joins {
            self.add_factor(&join.relation);
            match constraint(&join.join_operator) {
                Some(JoinConstraint::Natural) => self.natural = true,
                Some(JoinConstraint::Using(columns)) => {
                    let names = columns.iter().filter_map(|name| name.0.last()?.as_ident());
                    self.merged.extend(names.map(folded));
                }
                _ => {}
            }
        }
    }

    /// Joins in parentheses.
    fn add_factor(&mut self, factor: &TableFactor) {
        if let TableFactor::NestedJoin {
            table_with_joins, ..
        } = factor
        {
            self.add(table_with_joins);
        }
    }

    /// Whether columns of theirs are merged.
    fn merge(&self) -> bool {
        self.natural || !self.merged.is_empty()
    }
}

/// Reads the items of RETURNING.
struct Reader<'r> {
    names: Names<'r>,
    others: Others,
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
                match self.others.none {
                    true => Ok(()),
                    false if self.others.merge() => Err(unsupported(
                        "* in RETURNING beside merged columns is not supported",
                    )
                    .with_hint("write t.* for each table, or name the columns")),
                    false => self.all_of(item, true),
                }
            }
            SelectItem::QualifiedWildcard(kind, options) => {
                check_plain(options)?;
                let name = called_in(kind, item)?;
                if self.names.is_called(name) {
                    self.own_columns();
                    return Ok(());
                }
                match self.others.none {
                    true => Err(no_entry(name)),
                    false => self.all_of(item, false),
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
    fn all_of(&mut self, item: &SelectItem, of_all: bool) -> Result<()> {
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
    /// another table has one of its name; one that a NATURAL JOIN merges it would take for it.
    fn own(&mut self, at: usize, qualified: bool) -> usize {
        let name = self.names.table.columns[at].name.as_str();
        let name = Ident::with_quote('"', name);
        let expr = match qualified || self.others.none || self.others.natural {
            true => {
                let called = Ident::with_quote('"', self.names.called);
                Expr::CompoundIdentifier(vec![called, name])
            }
            false => Expr::Identifier(name),
        };
        let own = Some(at);
        place_of(&mut self.sources, Source { expr, own })
    }

    /// Refuses names that are none of the table's, and by which the planner would find a column of
    /// it: what is behind another schema, and the key that nobody gave.
    fn check_other(&self, parts: &[Ident]) -> Result<()> {
        let (table, within) = (self.names.table, self.names.within(parts));
        let is_column = |name: &Ident| table.column_index(&folded(name)).is_some();
        for end in 2..parts.len() {
            let (before, name) = (&parts[..end], &parts[end]);
            if folded(&before[end - 1]) == self.names.called && is_column(name) {
                return Err(no_entry(&ObjectName::from(before.to_vec())));
            }
        }
        let is_own = within.len() < parts.len() || parts.len() == 1;
        let is_key = |name: &Ident| table.hidden_key && folded(name) == HIDDEN_KEY_COLUMN;
        match within.first().is_some_and(|name| is_own && is_key(name)) {
            true => Err(no_such_column(&within[0])),
            false => Ok(()),
        }
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
            (None, [name]) if self.others.merged.contains(&folded(name)) => {
                return Err(odd(name).with_hint("say whose it is: table.column"));
            }
            (None, parts) => {
                self.check_other(parts)?;
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

fn no_such_column(name: &Ident) -> Error {
    Error::not_found(format!("there is no column {name}")).with_sqlstate("42703")
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
