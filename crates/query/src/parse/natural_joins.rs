//! NATURAL JOIN as the `JOIN ... USING` that it is, where the columns of both sides are known: of
//! stored tables, and of subqueries that name what they give. Of a NATURAL JOIN the planner gives
//! the merged columns of the table whose name comes first, also where an outer join made them up.
//!
//! ```text
//!   a NATURAL LEFT JOIN b    ->  a LEFT JOIN b USING (c), c in a and in b
//! ```
//!
//! Rewrites sqlparser's tree and does nothing else.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Ident, JoinConstraint, JoinOperator, ObjectName, Query, SelectItem, SetExpr, Statement,
    TableFactor, TableWithJoins, VisitorMut,
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
    let with = named_queries(statement);
    match visit_mut(statement, &mut Speller { find, with }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Speller<'f> {
    find: &'f Find<'f>,
    /// What WITH names: no stored tables.
    with: BTreeSet<String>,
}

impl VisitorMut for Speller<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if !self.in_body(&mut query.body) {
            return ControlFlow::Continue(());
        }
        match using_joins::in_query(query) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

impl Speller<'_> {
    /// Rewrites the joins of a query's SELECTs; tells whether there were any.
    fn in_body(&self, body: &mut SetExpr) -> bool {
        match body {
            SetExpr::Select(select) => {
                let mut changed = false;
                for from in &mut select.from {
                    changed |= self.in_chain(from);
                }
                changed
            }
            SetExpr::SetOperation { left, right, .. } => {
                let changed = self.in_body(left);
                self.in_body(right) || changed
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
        let mut changed = false;
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
                    if common.is_empty() || names.len() < common.len() {
                        break;
                    }
                    let using = common.iter().map(|name| quoted(name));
                    *on = JoinConstraint::Using(using.collect());
                    changed = true;
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
        changed
    }

    /// The columns of one side in their order, where they are known.
    fn columns(&self, factor: &TableFactor) -> Option<Vec<String>> {
        match factor {
            TableFactor::Table {
                name,
                alias,
                args: None,
                ..
            } if alias.as_ref().is_none_or(|alias| alias.columns.is_empty()) => {
                let name = table_name(name).ok()?;
                let is_stored = !self.with.contains(&name);
                let table = is_stored.then(|| (self.find)(&name))??;
                let columns = table.columns.iter().take(table.visible_columns());
                Some(columns.map(|column| column.name.clone()).collect())
            }
            TableFactor::Derived {
                subquery,
                alias: Some(alias),
                ..
            } if alias.columns.is_empty() => match subquery.body.as_ref() {
                SetExpr::Select(select) => select.projection.iter().map(name_of).collect(),
                _ => None,
            },
            _ => None,
        }
    }
}

/// What a SELECT calls one of its columns.
fn name_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        SelectItem::UnnamedExpr(expr) => {
            Some(column_names::of(expr)).filter(|name| name != NAMELESS)
        }
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
