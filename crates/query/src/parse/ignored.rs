//! Clauses that sqlparser reads and the planner leaves out without a word, and a join that it makes
//! up a condition for: refused, for the answer would be another one than was asked for (invariant
//! PAR-1). Pure.

use datafusion::sql::sqlparser::ast::{
    GroupByExpr, JoinConstraint, JoinOperator, Query, Select, SetExpr, TableFactor, TableWithJoins,
};
use lazybase_model::{Error, Result};

use super::unsupported;

/// # Errors
/// `Invalid` (0A000) for a clause of a query that nothing would do.
pub(super) fn in_query(query: &Query) -> Result<()> {
    if !query.locks.is_empty() {
        return Err(unsupported("SELECT ... FOR UPDATE is not supported")
            .with_detail("updates are blind: nothing is locked"));
    }
    none(query.settings.is_some(), "SETTINGS")?;
    none(query.format_clause.is_some(), "FORMAT")?;
    none(query.for_clause.is_some(), "FOR XML, JSON or BROWSE")?;
    none(!query.pipe_operators.is_empty(), "|>")?;
    let named = query.with.iter().flat_map(|with| &with.cte_tables);
    if named
        .map(|named| &named.query.body)
        .any(|body| changes(body))
    {
        return Err(changes_inside());
    }
    in_body(&query.body)
}

/// Whether a query changes rows.
pub(super) fn changes(body: &SetExpr) -> bool {
    matches!(
        body,
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_)
    )
}

/// The refusal of a query that changes rows where only its answer would be wanted.
pub(super) fn changes_inside() -> Error {
    unsupported("a query that changes rows is not supported inside of another")
        .with_hint("write two statements, between BEGIN and COMMIT")
}

fn in_body(body: &SetExpr) -> Result<()> {
    match body {
        SetExpr::Select(select) => select.from.iter().try_for_each(joins),
        SetExpr::SetOperation { left, right, .. } => {
            in_body(left)?;
            in_body(right)
        }
        _ => Ok(()),
    }
}

/// Joins that don't say which rows meet: the planner would let all of them.
///
/// # Errors
/// `Invalid` (42601).
pub(super) fn joins(from: &TableWithJoins) -> Result<()> {
    use JoinOperator as J;
    let is_open = from.joins.iter().any(|join| {
        matches!(
            &join.join_operator,
            J::Join(JoinConstraint::None)
                | J::Inner(JoinConstraint::None)
                | J::Left(JoinConstraint::None)
                | J::LeftOuter(JoinConstraint::None)
                | J::Right(JoinConstraint::None)
                | J::RightOuter(JoinConstraint::None)
                | J::FullOuter(JoinConstraint::None)
        )
    });
    match is_open {
        true => Err(Error::invalid("syntax error: JOIN without ON or USING")
            .with_hint("write JOIN ... ON ..., or CROSS JOIN")
            .with_sqlstate("42601")),
        false => Ok(()),
    }
}

/// # Errors
/// As [`in_query`], of a SELECT.
pub(super) fn in_select(select: &Select) -> Result<()> {
    let modifiers = match &select.group_by {
        GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers) => modifiers,
    };
    let hint = "write GROUP BY ROLLUP (...), CUBE (...) or GROUPING SETS (...)";
    none(!modifiers.is_empty(), "GROUP BY ... WITH").map_err(|error| error.with_hint(hint))?;
    none(select.prewhere.is_some(), "PREWHERE")?;
    none(!select.connect_by.is_empty(), "CONNECT BY")?;
    none(!select.cluster_by.is_empty(), "CLUSTER BY")?;
    none(!select.distribute_by.is_empty(), "DISTRIBUTE BY")?;
    none(!select.sort_by.is_empty(), "SORT BY")
}

/// # Errors
/// As [`in_query`], of something in FROM.
pub(super) fn in_factor(factor: &TableFactor) -> Result<()> {
    let sample = match factor {
        TableFactor::Table {
            with_hints,
            partitions,
            sample,
            index_hints,
            with_ordinality,
            ..
        } => {
            ordinality(*with_ordinality)?;
            none(!with_hints.is_empty(), "WITH (...) behind a table")?;
            none(!partitions.is_empty(), "PARTITION (...) behind a table")?;
            none(!index_hints.is_empty(), "an index hint")?;
            sample
        }
        TableFactor::Derived { sample, .. } => sample,
        TableFactor::NestedJoin {
            table_with_joins, ..
        } => return joins(table_with_joins),
        TableFactor::UNNEST {
            with_ordinality, ..
        }
        | TableFactor::Function {
            with_ordinality, ..
        } => return ordinality(*with_ordinality),
        _ => return Ok(()),
    };
    let hint = "WHERE random() < 0.01 takes about one row of a hundred";
    none(sample.is_some(), "TABLESAMPLE").map_err(|error| error.with_hint(hint))
}

fn ordinality(is_there: bool) -> Result<()> {
    none(is_there, "WITH ORDINALITY")
        .map_err(|error| error.with_hint("unnest(...) and generate_series(...) can be counted"))
}

fn none(is_there: bool, what: &str) -> Result<()> {
    match is_there {
        true => Err(unsupported(format!("{what} is not supported"))),
        false => Ok(()),
    }
}
