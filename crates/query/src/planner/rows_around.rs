//! LIMIT, ORDER BY and windows in a subquery that depends on the row around it: the planner joins
//! it for all those rows at once, and would take a limit, or a window, over what belongs to
//! different ones. They are taken for each. What the planner joins by is given by queries in it
//! that have names, too.
//!
//! ```text
//!   Limit n                                   Filter number <= n
//!     Sort x                             ->     Window row_number() PARTITION BY u.a ORDER BY x
//!       Filter u.a = outer(t.a)                   Filter u.a = outer(t.a)
//! ```
//!
//! A rule of the planner before its own; reads and gives plans. Invariant RAR-1: what a limit or a
//! window is over depends on the row around it by equal columns alone; anything else is refused.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType};
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::{Exists, InSubquery, Sort as Ordered};
use datafusion::logical_expr::logical_plan::{FetchType, Limit, SkipType};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, ExprFunctionExt, Filter, LogicalPlan,
    LogicalPlanBuilder, Operator, Subquery, Window, lit,
};
use lazybase_model::Error;

use crate::error::into_datafusion;
use crate::planner::certain_rows::lets_first_pass;
use crate::planner::rule::{NodeRule, rewrite_parts};
use crate::walk::plans::map_children;

/// The rule.
pub(crate) const ROWS_AROUND: NodeRule = NodeRule::new("rows_around", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    // What stands beside other tables; the queries of expressions are rewritten with these.
    let plan = map_children(plan, &mut |input| match &input {
        LogicalPlan::Subquery(lateral) => Ok(match of_lateral(&lateral.subquery)? {
            Some(rows) => {
                let rows = lateral.with_plan(Arc::new(rows));
                Transformed::yes(LogicalPlan::Subquery(rows))
            }
            None => Transformed::no(input),
        }),
        _ => Ok(Transformed::no(input)),
    })?;
    plan.transform_data(in_expressions)
}

fn in_expressions(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    rewrite_parts(plan, &|expr, _| {
        let subquery = match &expr {
            Expr::Exists(exists) => &exists.subquery,
            Expr::InSubquery(looked) => &looked.subquery,
            Expr::ScalarSubquery(subquery) => subquery,
            _ => return Ok(Transformed::no(expr)),
        };
        let asked = match &expr {
            Expr::Exists(_) => without_limit(&subquery.subquery)?,
            _ => subquery.subquery.as_ref(),
        };
        let rows = match per_row(asked)? {
            Some(rows) => rows,
            None if std::ptr::eq(asked, subquery.subquery.as_ref()) => {
                return Ok(Transformed::no(expr));
            }
            None => asked.clone(),
        };
        let subquery: Subquery = subquery.with_plan(Arc::new(rows));
        Ok(Transformed::yes(match expr {
            Expr::Exists(exists) => Expr::Exists(Exists { subquery, ..exists }),
            Expr::InSubquery(looked) => Expr::InSubquery(InSubquery { subquery, ..looked }),
            _ => Expr::ScalarSubquery(subquery),
        }))
    })
}

/// A query of which only matters whether it has rows, without what keeps a first one.
fn without_limit(plan: &LogicalPlan) -> Result<&LogicalPlan> {
    match plan {
        LogicalPlan::Limit(limit) if lets_first_pass(limit)? => without_limit(&limit.input),
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => without_limit(&sort.input),
        _ => Ok(plan),
    }
}

/// The same for a query beside other tables, of which also counts how often it has a row.
fn of_lateral(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    match has_each_once(plan) {
        true => with_columns(plan).map(Some),
        false => per_row(plan),
    }
}

/// Whether a query gives each row once of those that depend on the row around it.
fn has_each_once(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Distinct(_) => !plan.all_out_ref_exprs().is_empty(),
        LogicalPlan::Aggregate(aggregate) => {
            aggregate.aggr_expr.is_empty() && !plan.all_out_ref_exprs().is_empty()
        }
        LogicalPlan::Projection(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Filter(_) => plan.inputs().into_iter().any(has_each_once),
        _ => false,
    }
}

/// The rows of a subquery with its limits and windows for each row around it; nothing where they
/// are right as they are.
fn per_row(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    match is_over_dependent(plan) {
        true => with_columns(plan).map(Some),
        false => Ok(None),
    }
}

fn with_columns(plan: &LogicalPlan) -> Result<LogicalPlan> {
    let rows = shared(plan)?.plan;
    let columns = plan.schema().columns();
    if rows.schema().columns() == columns {
        return Ok(rows);
    }
    let columns = columns.into_iter().map(Expr::Column);
    LogicalPlanBuilder::from(rows).project(columns)?.build()
}

/// Whether a plan has a limit, an order or a window over rows that depend on the row around it.
fn is_over_dependent(plan: &LogicalPlan) -> bool {
    match plan {
        // What is ordered for an aggregate is the planner's to refuse.
        LogicalPlan::Aggregate(aggregate) => match aggregate.input.as_ref() {
            LogicalPlan::Sort(_) => false,
            input => is_over_dependent(input),
        },
        LogicalPlan::Limit(_) | LogicalPlan::Sort(_) | LogicalPlan::Window(_) => {
            let inputs = plan.inputs();
            inputs
                .iter()
                .any(|input| !input.all_out_ref_exprs().is_empty())
        }
        // The planner looks for what it joins by among what the name stands for.
        LogicalPlan::SubqueryAlias(alias) => !alias.input.all_out_ref_exprs().is_empty(),
        LogicalPlan::Subquery(_) => false,
        _ => plan.inputs().into_iter().any(is_over_dependent),
    }
}

/// How rows depend on the row around them.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Dependence {
    /// Not at all, or all of them in the same way.
    None,
    /// By columns that have to equal something of it.
    Columns(Vec<Column>),
    /// In another way, in which columns of theirs have a part.
    Other(Vec<Column>),
}

impl Dependence {
    fn and(self, other: Dependence) -> Dependence {
        match (self, other) {
            (Dependence::None, any) | (any, Dependence::None) => any,
            (one, other) => {
                let is_equal = one.is_equal() && other.is_equal();
                let mut all = one.columns();
                for column in other.columns() {
                    if !all.contains(&column) {
                        all.push(column);
                    }
                }
                match is_equal {
                    true => Dependence::Columns(all),
                    false => Dependence::Other(all),
                }
            }
        }
    }

    fn is_equal(&self) -> bool {
        matches!(self, Dependence::None | Dependence::Columns(_))
    }

    fn columns(self) -> Vec<Column> {
        match self {
            Dependence::None => Vec::new(),
            Dependence::Columns(all) | Dependence::Other(all) => all,
        }
    }

    /// The columns that tell apart the rows of different rows around them.
    fn apart(&self, what: &str) -> Result<Vec<Expr>> {
        match self {
            Dependence::None => Ok(Vec::new()),
            Dependence::Columns(all) => Ok(all.iter().cloned().map(Expr::Column).collect()),
            Dependence::Other(_) => Err(refused(what)),
        }
    }
}

fn refused(what: &str) -> DataFusionError {
    into_datafusion(
        Error::invalid(format!(
            "{what} of a subquery that depends on the row around it is not supported here"
        ))
        .with_detail("only conditions are that want a column of it to equal something around it")
        .with_hint(
            "number the rows of a query by row_number() OVER (PARTITION BY ...), and join it",
        )
        .with_sqlstate("0A000"),
    )
}

/// Whether an aggregate gives what it finds in the order of a query that it reads.
fn keeps_order(aggregate: &Aggregate) -> bool {
    const ORDERED: [&str; 5] = [
        "array_agg",
        "string_agg",
        "first_value",
        "last_value",
        "nth_value",
    ];
    let takes_order = aggregate.aggr_expr.iter().any(|expr| match expr {
        Expr::AggregateFunction(call) => {
            call.params.order_by.is_empty() && ORDERED.contains(&call.func.name())
        }
        _ => false,
    });
    takes_order && is_ordered(&aggregate.input)
}

/// Whether a query gives rows in an order. One with a limit, that an aggregate reads without a name
/// between, is a value of one row: `single_rows` made the aggregate.
fn is_ordered(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Sort(_) => true,
        LogicalPlan::SubqueryAlias(alias) => match alias.input.as_ref() {
            LogicalPlan::Limit(limit) => is_ordered(&limit.input),
            input => is_ordered(input),
        },
        LogicalPlan::Projection(projection) => is_ordered(&projection.input),
        LogicalPlan::Filter(filter) => is_ordered(&filter.input),
        _ => false,
    }
}

fn unordered() -> DataFusionError {
    into_datafusion(
        Error::invalid(
            "an aggregate of ordered rows that depend on the row around them is not supported",
        )
        .with_hint("write the order into the aggregate: array_agg(x ORDER BY y)")
        .with_sqlstate("0A000"),
    )
}

/// Rows with the columns that they depend by.
struct Shared {
    plan: LogicalPlan,
    by: Dependence,
}

fn shared(plan: &LogicalPlan) -> Result<Shared> {
    match plan {
        LogicalPlan::Filter(filter) => {
            let below = shared(&filter.input)?;
            let by = below.by.and(conditions(filter));
            let plan = plan.with_new_exprs(plan.expressions(), vec![below.plan])?;
            Ok(Shared { plan, by })
        }
        LogicalPlan::Limit(limit) => limited(limit),
        // An order without a limit says nothing.
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => shared(&sort.input),
        LogicalPlan::Window(window) => windows(window),
        LogicalPlan::Projection(projection) => {
            let below = shared(&projection.input)?;
            let mut exprs = projection.expr.clone();
            let by = beside(&mut exprs, below.by);
            let plan = LogicalPlanBuilder::from(below.plan).project(exprs)?;
            Ok(Shared {
                plan: plan.build()?,
                by,
            })
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let below = shared(&alias.input)?;
            let of = |column: Column| Column::new(Some(alias.alias.clone()), column.name);
            let by = match below.by {
                Dependence::None => Dependence::None,
                Dependence::Columns(all) => Dependence::Columns(all.into_iter().map(of).collect()),
                Dependence::Other(all) => Dependence::Other(all.into_iter().map(of).collect()),
            };
            let plan = LogicalPlanBuilder::from(below.plan).alias(alias.alias.clone())?;
            Ok(Shared {
                plan: plan.build()?,
                by,
            })
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let below = shared(input)?;
            if !below.by.is_equal() {
                return Err(refused("DISTINCT"));
            }
            let plan = LogicalPlanBuilder::from(below.plan).distinct()?.build()?;
            Ok(Shared { plan, by: below.by })
        }
        LogicalPlan::Aggregate(aggregate) => grouped(aggregate),
        LogicalPlan::Join(join) => {
            let (left, right) = (shared(&join.left)?, shared(&join.right)?);
            let keeps = join.join_type == JoinType::Inner || right.by == Dependence::None;
            let by = match keeps && !plan.contains_outer_reference() {
                true => left.by.and(right.by),
                false => Dependence::Other(Vec::new()),
            };
            let plan = plan.with_new_exprs(plan.expressions(), vec![left.plan, right.plan])?;
            Ok(Shared { plan, by })
        }
        other => Ok(Shared {
            plan: other.clone(),
            by: match other.all_out_ref_exprs().is_empty() {
                true => Dependence::None,
                false => Dependence::Other(Vec::new()),
            },
        }),
    }
}

/// Groups of the rows of one row around them.
fn grouped(aggregate: &Aggregate) -> Result<Shared> {
    if keeps_order(aggregate) {
        return Err(unordered());
    }
    let below = shared(&aggregate.input)?;
    let mut groups = aggregate.group_expr.clone();
    let is_set = groups
        .iter()
        .any(|group| matches!(group, Expr::GroupingSet(_)));
    let by = match (&below.by, groups.is_empty() || is_set) {
        (Dependence::None, _) => Dependence::None,
        (Dependence::Columns(_), false) => beside(&mut groups, below.by),
        (Dependence::Other(_), false) if aggregate.aggr_expr.is_empty() => {
            return Err(refused("GROUP BY"));
        }
        _ => Dependence::Other(Vec::new()),
    };
    let plan =
        LogicalPlanBuilder::from(below.plan).aggregate(groups, aggregate.aggr_expr.clone())?;
    Ok(Shared {
        plan: plan.build()?,
        by,
    })
}

/// Gives the columns that rows depend by beside what a node gives of them.
fn beside(exprs: &mut Vec<Expr>, by: Dependence) -> Dependence {
    if let Dependence::Columns(all) | Dependence::Other(all) = &by {
        for column in all {
            let column = Expr::Column(column.clone());
            if !exprs.contains(&column) {
                exprs.push(column);
            }
        }
    }
    by
}

/// How a filter lets rows depend on the row around it.
fn conditions(filter: &Filter) -> Dependence {
    let mut by = Dependence::None;
    for condition in split_conjunction(&filter.predicate) {
        if !condition.contains_outer() {
            continue;
        }
        let equal = match condition {
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: Operator::Eq,
                right,
            }) => Some((left.as_ref(), right.as_ref())),
            _ => None,
        };
        by = by.and(match equal {
            Some((Expr::Column(own), around) | (around, Expr::Column(own)))
                if !around.any_column_refs() =>
            {
                Dependence::Columns(vec![own.clone()])
            }
            _ if condition.any_column_refs() => {
                let own = condition.column_refs().into_iter().cloned();
                Dependence::Other(own.collect())
            }
            _ => Dependence::None,
        });
    }
    by
}

/// The first rows for each row around them.
fn limited(limit: &Limit) -> Result<Shared> {
    if limit.input.all_out_ref_exprs().is_empty() {
        return Ok(Shared {
            plan: LogicalPlan::Limit(limit.clone()),
            by: Dependence::None,
        });
    }
    let (SkipType::Literal(skip), FetchType::Literal(fetch)) =
        (limit.get_skip_type()?, limit.get_fetch_type()?)
    else {
        return Err(refused("a LIMIT that is no number"));
    };
    match limit.input.as_ref() {
        // What is ordered by something else than the columns is projected behind the order.
        LogicalPlan::Projection(projection)
            if matches!(projection.input.as_ref(), LogicalPlan::Sort(_)) =>
        {
            let below = first_rows(&projection.input, skip, fetch)?;
            let mut exprs = projection.expr.clone();
            let by = beside(&mut exprs, below.by);
            let plan = LogicalPlanBuilder::from(below.plan).project(exprs)?;
            Ok(Shared {
                plan: plan.build()?,
                by,
            })
        }
        input => first_rows(input, skip, fetch),
    }
}

fn first_rows(plan: &LogicalPlan, skip: usize, fetch: Option<usize>) -> Result<Shared> {
    let (order, rows): (Vec<Ordered>, _) = match plan {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => (sort.expr.clone(), &*sort.input),
        other => (Vec::new(), other),
    };
    let rows = shared(rows)?;
    let apart = rows.by.apart("LIMIT")?;
    let number = row_number().partition_by(apart);
    let number = match order.is_empty() {
        true => number.build()?,
        false => number.order_by(order).build()?,
    };
    let numbered = LogicalPlanBuilder::from(rows.plan)
        .window([number])?
        .build()?;
    // The window's own column is the last one.
    let Some(number) = numbered.schema().columns().pop() else {
        return Err(refused("LIMIT"));
    };
    let number = Expr::Column(number);
    let place = |rows: usize| lit(u64::try_from(rows).unwrap_or(u64::MAX));
    let mut wanted = number.clone().gt(place(skip));
    if let Some(fetch) = fetch {
        wanted = wanted.and(number.lt_eq(place(skip.saturating_add(fetch))));
    }
    Ok(Shared {
        plan: LogicalPlanBuilder::from(numbered).filter(wanted)?.build()?,
        by: rows.by,
    })
}

/// Windows that go no further than the rows of one row around them.
fn windows(window: &Window) -> Result<Shared> {
    let rows = shared(&window.input)?;
    let apart = rows.by.apart("a window")?;
    let mut calls = window.window_expr.clone();
    for call in &mut calls {
        let call = match call {
            Expr::Alias(alias) => alias.expr.as_mut(),
            other => other,
        };
        if let Expr::WindowFunction(function) = call {
            function.params.partition_by.extend(apart.clone());
        }
    }
    let names = window
        .window_expr
        .iter()
        .map(|call| call.schema_name().to_string());
    let names: Vec<String> = names.collect();
    let given = rows.plan.schema().columns().into_iter().map(Expr::Column);
    let mut columns: Vec<Expr> = given.collect();
    let own = calls
        .iter()
        .map(|call| Column::new_unqualified(call.schema_name().to_string()));
    let own = own
        .zip(names)
        .map(|(column, name)| Expr::Column(column).alias(name));
    columns.extend(own);
    let plan = LogicalPlanBuilder::from(rows.plan)
        .window(calls)?
        .project(columns)?;
    Ok(Shared {
        plan: plan.build()?,
        by: rows.by,
    })
}
