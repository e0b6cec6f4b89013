//! NATURAL JOIN as the `JOIN ... USING` that it is, where the columns of both sides are known: of
//! stored tables, of subqueries, and of the queries that WITH names, which name what they give. Of
//! a NATURAL JOIN the planner gives the merged columns of the table whose name comes first, also
//! where an outer join made them up.
//!
//! ```text
//!   a NATURAL LEFT JOIN b    ->  a LEFT JOIN b USING (c), c in a and in b
//! ```
//!
//! Rewrites sqlparser's tree and does nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Ident, JoinConstraint, JoinOperator, ObjectName, Query, SelectItem, SetExpr, Statement,
    TableAlias, TableFactor, TableWithJoins, VisitorMut, WildcardAdditionalOptions,
};
use lazybase_model::{Error, Result};

use super::{folded, table_name, using_joins};
use crate::hidden::{Find, named_queries};
use crate::planner::column_names::{self, NAMELESS};
use crate::walk::visit_mut;

/// Writes the columns that NATURAL JOINs merge.
///
/// # Errors
/// `Invalid` (0A000) for merged columns that can't be told.
pub(crate) fn spell(statement: &mut Statement, find: &Find<'_>) -> Result<()> {
    let mut speller = Speller {
        find,
        with: named_queries(statement),
        scopes: Vec::new(),
    };
    match visit_mut(statement, &mut speller) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// What queries named by WITH give, as far as it is known.
type Scope = BTreeMap<String, Option<Vec<String>>>;

struct Speller<'f> {
    find: &'f Find<'f>,
    /// What WITH names anywhere: no stored tables.
    with: BTreeSet<String>,
    /// What the queries that are being visited name, the innermost last.
    scopes: Vec<Scope>,
}

impl VisitorMut for Speller<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.enter(query);
        if !self.in_body(&mut query.body) {
            return ControlFlow::Continue(());
        }
        match using_joins::in_spelt_query(query) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }
}

impl Speller<'_> {
    /// Adds what a query names by WITH. A name that means something else too is left unknown: which
    /// of both is meant depends on the place.
    fn enter(&mut self, query: &Query) {
        self.scopes.push(Scope::new());
        for named in query.with.iter().flat_map(|with| &with.cte_tables) {
            let name = folded(&named.alias.name);
            let is_taken = self.scoped(&name).is_some() || (self.find)(&name).is_some();
            let columns = match is_taken {
                true => None,
                false => renamed(self.given_by(&named.query), Some(&named.alias)),
            };
            if let Some(scope) = self.scopes.last_mut() {
                scope.insert(name, columns);
            }
        }
    }

    /// What is known of a name that WITH gave.
    fn scoped(&self, name: &str) -> Option<&Option<Vec<String>>> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
    }

    /// Rewrites the joins of a query's SELECTs; tells whether there were any that are NATURAL.
    fn in_body(&self, body: &mut SetExpr) -> bool {
        match body {
            SetExpr::Select(select) => {
                let mut found = false;
                for from in &mut select.from {
                    found |= self.in_chain(from);
                }
                found
            }
            SetExpr::SetOperation { left, right, .. } => {
                let found = self.in_body(left);
                self.in_body(right) || found
            }
            _ => false,
        }
    }

    fn in_chain(&self, from: &mut TableWithJoins) -> bool {
        let natural = from.joins.iter_mut().any(|join| {
            let on = constraint(&mut join.join_operator);
            matches!(on, Some(JoinConstraint::Natural))
        });
        if !natural {
            return false;
        }
        let mut known = self.columns(&from.relation);
        for join in &mut from.joins {
            let right = self.columns(&join.relation);
            let (Some(left), Some(right)) = (known.take(), right) else {
                break;
            };
            let merged = match constraint(&mut join.join_operator) {
                Some(on @ JoinConstraint::Natural) => {
                    let common = left.iter().filter(|name| right.contains(name));
                    let common: Vec<String> = common.cloned().collect();
                    let names: BTreeSet<&String> = common.iter().collect();
                    let is_nameless = common.iter().any(|name| name == NAMELESS);
                    if common.is_empty() || names.len() < common.len() || is_nameless {
                        break;
                    }
                    let using = common.iter().map(|name| quoted(name));
                    *on = JoinConstraint::Using(using.collect());
                    common
                }
                Some(JoinConstraint::Using(names)) => names.iter().filter_map(last).collect(),
                Some(JoinConstraint::On(_) | JoinConstraint::None) => Vec::new(),
                None => break,
            };
            let rest = left.into_iter().chain(right);
            let rest: Vec<String> = rest.filter(|name| !merged.contains(name)).collect();
            known = Some([merged, rest].concat());
        }
        true
    }

    /// The columns of one side in their order, where they are known.
    fn columns(&self, factor: &TableFactor) -> Option<Vec<String>> {
        match factor {
            TableFactor::Table {
                name,
                alias,
                args: None,
                ..
            } => renamed(self.of_table(name), alias.as_ref()),
            TableFactor::Derived {
                subquery,
                alias: Some(alias),
                ..
            } => renamed(self.given_by(subquery), Some(alias)),
            _ => None,
        }
    }

    fn of_table(&self, name: &ObjectName) -> Option<Vec<String>> {
        let name = table_name(name).ok()?;
        if let Some(columns) = self.scoped(&name) {
            return columns.clone();
        }
        let is_stored = !self.with.contains(&name);
        let table = is_stored.then(|| (self.find)(&name))??;
        let columns = table.columns.iter().take(table.visible_columns());
        Some(columns.map(|column| column.name.clone()).collect())
    }

    /// What a query calls the columns that it gives. What it names by WITH itself is not known yet.
    fn given_by(&self, query: &Query) -> Option<Vec<String>> {
        self.given_by_body(&query.body, query.with.is_none())
    }

    fn given_by_body(&self, body: &SetExpr, knows_tables: bool) -> Option<Vec<String>> {
        match body {
            SetExpr::Select(select) => {
                let mut columns = Vec::with_capacity(select.projection.len());
                for item in &select.projection {
                    match item {
                        SelectItem::Wildcard(options)
                            if knows_tables && *options == WildcardAdditionalOptions::default() =>
                        {
                            columns.append(&mut self.all_of(&select.from)?);
                        }
                        item => columns.push(name_of(item)?),
                    }
                }
                Some(columns)
            }
            SetExpr::SetOperation { left, .. } => self.given_by_body(left, knows_tables),
            SetExpr::Query(query) if knows_tables => self.given_by(query),
            SetExpr::Values(values) => {
                let width = values.rows.first()?.content.len();
                Some((1..=width).map(|at| format!("column{at}")).collect())
            }
            _ => None,
        }
    }

    /// What `*` gives of one table.
    fn all_of(&self, from: &[TableWithJoins]) -> Option<Vec<String>> {
        match from {
            [only] if only.joins.is_empty() => self.columns(&only.relation),
            _ => None,
        }
    }
}

/// Columns under the names that an alias gives to the first of them.
fn renamed(columns: Option<Vec<String>>, alias: Option<&TableAlias>) -> Option<Vec<String>> {
    let mut columns = columns?;
    let names = alias.map(|alias| alias.columns.as_slice());
    let names = names.unwrap_or_default();
    if names.len() > columns.len() {
        return None;
    }
    for (column, name) in columns.iter_mut().zip(names) {
        *column = folded(&name.name);
    }
    Some(columns)
}

/// What a SELECT calls one of its columns.
fn name_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        SelectItem::UnnamedExpr(expr) => Some(column_names::of(expr)),
        _ => None,
    }
}

fn constraint(join: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    use JoinOperator as J;
    match join {
        J::Join(on)
        | J::Inner(on)
        | J::Left(on)
        | J::LeftOuter(on)
        | J::Right(on)
        | J::RightOuter(on)
        | J::FullOuter(on)
        | J::CrossJoin(on) => Some(on),
        _ => None,
    }
}

fn quoted(name: &str) -> ObjectName {
    ObjectName::from(vec![Ident::with_quote('"', name)])
}

fn last(name: &ObjectName) -> Option<String> {
    name.0.last()?.as_ident().map(folded)
}
