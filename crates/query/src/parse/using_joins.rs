//! The merged columns of `JOIN ... USING (c)`: the planner has both columns, calls the name
//! ambiguous nearly everywhere, and where it does not takes the left side's for every kind of join.
//!
//! | join                | `c` alone means                                          |
//! | ------------------- | -------------------------------------------------------- |
//! | `a JOIN b`          | `a.c`                                                    |
//! | `a LEFT JOIN b`     | `a.c`                                                    |
//! | `a RIGHT JOIN b`    | `b.c`                                                    |
//! | `a FULL JOIN b`     | `coalesce(a.c, b.c)`                                     |
//!
//! ```text
//!   SELECT * FROM a FULL JOIN b USING (c)
//!     ->  SELECT coalesce(a.c, b.c) AS c, a.* EXCLUDE (c), b.* EXCLUDE (c)
//!         FROM a FULL JOIN b USING (c)
//! ```
//!
//! Rewrites sqlparser's tree and does nothing else. Invariant USG-1: a RIGHT or FULL JOIN whose
//! merged columns can't be told is refused, and never answered by the left side's columns.

use std::mem;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName,
    OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor,
    TableWithJoins, VisitMut, WildcardAdditionalOptions,
};
use lazybase_model::{Error, Result};

use super::kept_names::keep;
use super::{folded, outside_queries, unsupported};
use crate::pg_catalog::rewrite::call;
use crate::planner::column_names;

/// Rewrites the SELECTs of a query, but those with a NATURAL JOIN: what that merges is known only
/// where the tables are.
///
/// # Errors
/// `Invalid` (0A000) for merged columns that can't be told.
pub(super) fn in_query(query: &mut Query) -> Result<()> {
    rewritten(query, |select| !select.from.iter().any(is_natural))
}

/// Rewrites all SELECTs of a query whose NATURAL JOINs were written as others, where they could.
///
/// # Errors
/// `Invalid` (0A000) for merged columns that can't be told.
pub(super) fn in_spelt_query(query: &mut Query) -> Result<()> {
    rewritten(query, |_| true)
}

fn is_natural(from: &TableWithJoins) -> bool {
    let is_natural = |join: &Join| matches!(kind(join), Some((_, JoinConstraint::Natural)));
    from.joins.iter().any(is_natural)
}

fn rewritten(query: &mut Query, counts: fn(&Select) -> bool) -> Result<()> {
    if let SetExpr::Select(select) = query.body.as_mut() {
        if !counts(select) {
            return Ok(());
        }
        let merged = in_select(select)?;
        if let Some(order) = &mut query.order_by
            && let OrderByKind::Expressions(all) = &mut order.kind
        {
            for ordered in all {
                in_order(&mut ordered.expr, select, &merged);
            }
        }
        return Ok(());
    }
    each_select(&mut query.body, counts)
}

fn each_select(body: &mut SetExpr, counts: fn(&Select) -> bool) -> Result<()> {
    match body {
        SetExpr::Select(select) if counts(select) => in_select(select).map(drop),
        SetExpr::SetOperation { left, right, .. } => {
            each_select(left, counts)?;
            each_select(right, counts)
        }
        _ => Ok(()),
    }
}

/// Refuses what stands in parentheses in FROM where its merged columns would be the wrong ones.
///
/// # Errors
/// `Invalid` (0A000).
pub(super) fn in_factor(factor: &TableFactor) -> Result<()> {
    let TableFactor::NestedJoin {
        table_with_joins, ..
    } = factor
    else {
        return Ok(());
    };
    match table_with_joins.joins.iter().any(takes_the_right) {
        true => Err(untold()),
        false => Ok(()),
    }
}

/// Whether a join merges columns that are not the left side's.
fn takes_the_right(join: &Join) -> bool {
    match kind(join) {
        Some((kind, on)) => {
            let merges = matches!(on, JoinConstraint::Using(_) | JoinConstraint::Natural);
            merges && matches!(kind, Kind::Right | Kind::Full)
        }
        None => false,
    }
}

fn untold() -> Error {
    unsupported("which columns this RIGHT or FULL JOIN merges can't be told here").with_hint(
        "write ON a.c = b.c, and coalesce(a.c, b.c) for the merged column of a FULL JOIN",
    )
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Inner,
    Left,
    Right,
    Full,
}

fn kind(join: &Join) -> Option<(Kind, &JoinConstraint)> {
    use JoinOperator as J;
    Some(match &join.join_operator {
        J::Join(on) | J::Inner(on) => (Kind::Inner, on),
        J::Left(on) | J::LeftOuter(on) => (Kind::Left, on),
        J::Right(on) | J::RightOuter(on) => (Kind::Right, on),
        J::FullOuter(on) => (Kind::Full, on),
        _ => return None,
    })
}

/// A column that a join merges.
#[derive(Debug, Clone)]
struct Merged {
    name: Ident,
    value: Expr,
}

impl Merged {
    fn is(&self, name: &Ident) -> bool {
        folded(&self.name) == folded(name)
    }
}

/// One table of a chain of joins, and its columns that are merged ones.
#[derive(Debug)]
struct Side {
    called: Option<Ident>,
    merged: Vec<Ident>,
}

/// What is known of one chain of joins.
#[derive(Debug, Default)]
struct Chain {
    sides: Vec<Side>,
    /// In the order in which `*` has them.
    merged: Vec<Merged>,
    /// Whether it merges columns that are not the left side's.
    takes_the_right: bool,
    /// Whether `*` is the merged columns and what else each side has.
    is_told: bool,
}

impl Chain {
    fn of(from: &mut TableWithJoins) -> Result<Chain> {
        let mut chain = Chain {
            sides: vec![Side::of(&from.relation)],
            is_told: true,
            ..Chain::default()
        };
        let mut names: Option<Vec<String>> = None;
        for join in &mut from.joins {
            let right = Side::of(&join.relation);
            let columns = match kind(join) {
                Some((kind, JoinConstraint::Using(columns))) => {
                    let columns = columns.iter().map(single).collect::<Option<Vec<Ident>>>();
                    Some((kind, columns.ok_or_else(untold)?))
                }
                _ => None,
            };
            chain.takes_the_right |= takes_the_right(join);
            let Some((kind, columns)) = columns else {
                // What a NATURAL JOIN merges only the tables tell.
                if takes_the_right(join) {
                    return Err(untold());
                }
                chain.is_told = false;
                chain.sides.push(right);
                chain.in_condition(join);
                continue;
            };
            let mut of_join: Vec<String> = columns.iter().map(folded).collect();
            of_join.sort();
            chain.is_told &= names.as_ref().is_none_or(|names| *names == of_join);
            names = Some(of_join);
            chain.join(kind, &columns, right, join)?;
        }
        Ok(chain)
    }

    /// The condition of a join that merges nothing, over what was merged before it.
    fn in_condition(&self, join: &mut Join) {
        use JoinOperator as J;
        if let J::Join(JoinConstraint::On(condition))
        | J::Inner(JoinConstraint::On(condition))
        | J::Left(JoinConstraint::On(condition))
        | J::LeftOuter(JoinConstraint::On(condition))
        | J::Right(JoinConstraint::On(condition))
        | J::RightOuter(JoinConstraint::On(condition))
        | J::FullOuter(JoinConstraint::On(condition)) = &mut join.join_operator
        {
            resolve(condition, &self.merged);
        }
    }

    /// Adds a side that is joined by columns of the same name.
    fn join(
        &mut self,
        kind: Kind,
        columns: &[Ident],
        mut right: Side,
        join: &mut Join,
    ) -> Result<()> {
        let mut merged = Vec::with_capacity(columns.len());
        let mut conditions = Vec::with_capacity(columns.len());
        let mut is_plain = true;
        for name in columns {
            let earlier = self.merged.iter().position(|merged| merged.is(name));
            let of_left = match earlier {
                Some(at) => Some(self.merged.remove(at).value),
                None => self.of_only_side(name),
            };
            // The planner would take the first column of that name.
            let first = self.sides.first().and_then(|side| side.column(name));
            is_plain &= earlier.is_none() || of_left == first;
            let of_right = right.column(name);
            right.merged.push(name.clone());
            let value = match (kind, &of_left, &of_right) {
                (Kind::Inner | Kind::Left, Some(left), _) => left.clone(),
                (Kind::Inner, None, Some(right)) | (Kind::Right, _, Some(right)) => right.clone(),
                (Kind::Full, Some(left), Some(right)) => {
                    call("coalesce", vec![left.clone(), right.clone()])
                }
                (Kind::Right | Kind::Full, ..) => return Err(untold()),
                (Kind::Inner | Kind::Left, None, _) => {
                    self.is_told = false;
                    continue;
                }
            };
            self.is_told &= of_left.is_some();
            conditions.push((of_left, of_right));
            let name = name.clone();
            merged.push(Merged { name, value });
        }
        if !is_plain {
            on(join, conditions)?;
        }
        merged.append(&mut self.merged);
        self.merged = merged;
        self.sides.push(right);
        Ok(())
    }

    /// A column of the left side, where that is one table.
    fn of_only_side(&mut self, name: &Ident) -> Option<Expr> {
        match self.sides.as_mut_slice() {
            [side] => {
                side.merged.push(name.clone());
                side.column(name)
            }
            _ => None,
        }
    }

    /// What `*` gives of it.
    fn all(&self) -> Result<Vec<SelectItem>> {
        if !self.is_told {
            return Err(untold());
        }
        let merged = self.merged.iter().map(|merged| SelectItem::ExprWithAlias {
            expr: merged.value.clone(),
            alias: merged.name.clone(),
        });
        let rest = self.sides.iter().map(Side::rest);
        let mut items: Vec<SelectItem> = merged.collect();
        items.extend(
            rest.collect::<Option<Vec<SelectItem>>>()
                .ok_or_else(untold)?,
        );
        Ok(items)
    }
}

impl Side {
    fn of(factor: &TableFactor) -> Side {
        let called = match factor {
            TableFactor::Table { name, alias, .. } => match alias {
                Some(alias) => Some(alias.name.clone()),
                None => name.0.last().and_then(|part| part.as_ident()).cloned(),
            },
            TableFactor::Derived { alias, .. }
            | TableFactor::UNNEST { alias, .. }
            | TableFactor::Function { alias, .. } => alias.as_ref().map(|alias| alias.name.clone()),
            _ => None,
        };
        Side {
            called,
            merged: Vec::new(),
        }
    }

    fn column(&self, name: &Ident) -> Option<Expr> {
        let called = self.called.clone()?;
        Some(Expr::CompoundIdentifier(vec![called, name.clone()]))
    }

    /// All columns that are not merged.
    fn rest(&self) -> Option<SelectItem> {
        let name = ObjectName::from(vec![self.called.clone()?]);
        let merged = self.merged.iter();
        let merged = merged.map(|name| ObjectName::from(vec![name.clone()]));
        let merged: Vec<ObjectName> = merged.collect();
        let options = WildcardAdditionalOptions {
            opt_exclude: (!merged.is_empty()).then_some(ExcludeSelectItem::Multiple(merged)),
            ..WildcardAdditionalOptions::default()
        };
        let kind = SelectItemQualifiedWildcardKind::ObjectName(name);
        Some(SelectItem::QualifiedWildcard(kind, options))
    }
}

fn single(name: &ObjectName) -> Option<Ident> {
    match name.0.as_slice() {
        [part] => part.as_ident().cloned(),
        _ => None,
    }
}

/// Writes the columns that are to be equal, where the planner would compare others.
fn on(join: &mut Join, columns: Vec<(Option<Expr>, Option<Expr>)>) -> Result<()> {
    use JoinOperator as J;
    let equal = columns.into_iter().map(|columns| match columns {
        (Some(left), Some(right)) => Some(Expr::BinaryOp {
            left: Box::new(left),
            op: BinaryOperator::Eq,
            right: Box::new(right),
        }),
        _ => None,
    });
    let equal = equal.collect::<Option<Vec<Expr>>>().ok_or_else(untold)?;
    let and = |left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    };
    let condition = equal.into_iter().reduce(and).ok_or_else(untold)?;
    if let J::Join(on)
    | J::Inner(on)
    | J::Left(on)
    | J::LeftOuter(on)
    | J::Right(on)
    | J::RightOuter(on)
    | J::FullOuter(on) = &mut join.join_operator
    {
        *on = JoinConstraint::On(condition);
    }
    Ok(())
}

fn in_select(select: &mut Select) -> Result<Vec<Merged>> {
    let merges = |join: &Join| match kind(join) {
        Some((_, on)) => matches!(on, JoinConstraint::Using(_)) || takes_the_right(join),
        None => false,
    };
    if !select.from.iter().any(|from| from.joins.iter().any(merges)) {
        return Ok(Vec::new());
    }
    let chains = select.from.iter_mut().map(Chain::of);
    let chains: Vec<Chain> = chains.collect::<Result<_>>()?;
    let needed = chains.iter().any(|chain| chain.takes_the_right);
    let told = chains.iter().all(|chain| chain.is_told);
    if needed || told {
        wildcards(&mut select.projection, &chains, needed)?;
    }
    let merged: Vec<Merged> = chains.into_iter().flat_map(|chain| chain.merged).collect();
    let from = mem::take(&mut select.from);
    for item in &mut select.projection {
        let SelectItem::UnnamedExpr(expr) = item else {
            continue;
        };
        let name = column_names::of(expr);
        resolve(expr, &merged);
        keep(item, name);
    }
    resolve(select, &merged);
    select.from = from;
    Ok(merged)
}

/// Spells out `*`. Where it only decides the order of columns, one that can't be stays.
fn wildcards(items: &mut Vec<SelectItem>, chains: &[Chain], needed: bool) -> Result<()> {
    let is_wild = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_));
    if !items.iter().any(is_wild) {
        return Ok(());
    }
    let plain = items.iter().all(|item| match item {
        SelectItem::Wildcard(options) => *options == WildcardAdditionalOptions::default(),
        _ => true,
    });
    let all = match plain {
        true => chains.iter().map(Chain::all).collect::<Result<Vec<_>>>(),
        false => Err(untold()),
    };
    let all = match all {
        Ok(all) => all.concat(),
        Err(error) if needed => return Err(error),
        Err(_) => return Ok(()),
    };
    let spelt = mem::take(items).into_iter().flat_map(|item| match item {
        SelectItem::Wildcard(_) => all.clone(),
        other => vec![other],
    });
    *items = spelt.collect();
    Ok(())
}

/// A name that stands alone in ORDER BY is a column of the answer, if it has one of that name.
fn in_order(expr: &mut Expr, select: &Select, merged: &[Merged]) {
    if let Expr::Identifier(name) = expr {
        let is_given = select.projection.iter().any(|item| match item {
            SelectItem::UnnamedExpr(expr) => column_names::of(expr) == folded(name),
            SelectItem::ExprWithAlias { alias, .. } => folded(alias) == folded(name),
            SelectItem::Wildcard(_) => true,
            _ => false,
        });
        if is_given {
            return;
        }
    }
    resolve(expr, merged);
}

/// Writes what the names of merged columns mean, but in queries of their own.
fn resolve(part: &mut impl VisitMut, merged: &[Merged]) {
    outside_queries::rewrite(part, |expr| {
        if let Expr::Identifier(name) = expr
            && let Some(merged) = merged.iter().find(|merged| merged.is(name))
        {
            *expr = merged.value.clone();
        }
    });
}
