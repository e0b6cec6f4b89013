//! `generate_series`: rows, wherever it stands. The planner knows it as a function that makes a
//! list, and in FROM as a table of constants.
//!
//! | written                                | read                                             |
//! | -------------------------------------- | ------------------------------------------------ |
//! | `SELECT generate_series(1, 3)`         | `SELECT ... FROM generate_series(1, 3) AS ...`   |
//! | `SELECT k, generate_series(1, n)`      | `SELECT k, unnest(generate_series(1, n))`        |
//! | `unnest(generate_series(1, 3))`        | the same                                         |
//! | `FROM generate_series(1, 9) AS n`      | `... AS n (n)`                                   |
//! | `FROM generate_series(now(), ...) AS n`| `(SELECT unnest(generate_series(...))) AS n (n)` |
//!
//! Rewrites sqlparser's tree and does nothing else. Invariant SER-1: whole numbers that are written
//! out stay the planner's table. The rows of neither are in memory all at once.

use std::mem;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident,
    ObjectName, Query, Select, SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor,
    UnaryOperator, Value,
};

use super::{folded, outside_queries};
use crate::pg_catalog::rewrite::call;
use crate::planner::series::SERIES;
use crate::text_places::of_template;
use crate::walk::{visit_expressions, visit_expressions_mut};

/// Functions that work on all rows at once: what they give is there before a series makes rows.
const AGGREGATES: [&str; 10] = [
    "count",
    "sum",
    "min",
    "max",
    "avg",
    "array_agg",
    "string_agg",
    "bool_and",
    "bool_or",
    "grouping",
];

/// Rewrites the lists of a query's SELECTs.
pub(super) fn in_query(query: &mut Query) {
    each_select(&mut query.body);
}

fn each_select(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => in_select(select),
        SetExpr::SetOperation { left, right, .. } => {
            each_select(left);
            each_select(right);
        }
        _ => {}
    }
}

fn in_select(select: &mut Select) {
    if let Some(from) = only_series(select) {
        select.from.push(from);
        return;
    }
    for item in &mut select.projection {
        let alone = is_series(item);
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
            continue;
        };
        outside_queries::rewrite(expr, make_rows);
        if alone && matches!(item, SelectItem::UnnamedExpr(_)) {
            super::kept_names::keep(item, SERIES.to_owned());
        }
    }
}

fn is_series(item: &SelectItem) -> bool {
    match item {
        SelectItem::UnnamedExpr(expr) => of_series(expr).is_some(),
        _ => false,
    }
}

/// The arguments of a call of the function.
fn of_series(expr: &Expr) -> Option<&[FunctionArg]> {
    match expr {
        Expr::Function(function) => of_call(function, |name| name == SERIES),
        _ => None,
    }
}

/// The arguments of a plain call of a function that has such a name.
fn of_call(function: &Function, is: impl Fn(&str) -> bool) -> Option<&[FunctionArg]> {
    let [part] = function.name.0.as_slice() else {
        return None;
    };
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let plain = function.over.is_none() && function.filter.is_none();
    (plain && is(&folded(part.as_ident()?))).then_some(list.args.as_slice())
}

/// Whether a function takes a list as it is.
fn takes_lists(name: &str) -> bool {
    matches!(name, "unnest" | "cardinality") || {
        let of_lists = name.starts_with("array_") || name.starts_with("list_");
        of_lists && name != "array_agg"
    }
}

/// Makes rows of a series, or of what takes lists a list again.
fn make_rows(expr: &mut Expr) {
    if of_series(expr).is_some() {
        let list = mem::replace(expr, Expr::Value(Value::Null.into()));
        *expr = call("unnest", vec![list]);
        return;
    }
    match expr {
        Expr::Function(function) => {
            if of_call(function, takes_lists).is_some()
                && let FunctionArguments::List(list) = &mut function.args
            {
                for argument in &mut list.args {
                    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument {
                        as_list(expr);
                    }
                }
            }
        }
        Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => as_list(right),
        _ => {}
    }
}

/// The list of a series whose rows were made too early.
fn as_list(expr: &mut Expr) {
    let inner = match &*expr {
        Expr::Function(function) => of_call(function, |name| name == "unnest"),
        _ => None,
    };
    if let Some([FunctionArg::Unnamed(FunctionArgExpr::Expr(list))]) = inner
        && of_series(list).is_some()
    {
        *expr = list.clone();
    }
}

/// The series as what is read, where a SELECT reads nothing else: each row of it is one for all
/// that the SELECT computes, `random()` as well.
fn only_series(select: &mut Select) -> Option<datafusion::sql::sqlparser::ast::TableWithJoins> {
    let no_groups = matches!(&select.group_by, GroupByExpr::Expressions(all, _) if all.is_empty());
    if !select.from.is_empty() || !no_groups || select.having.is_some() {
        return None;
    }
    let (mut series, mut others) = (0, false);
    let _ = visit_expressions(&select.projection, |expr| {
        if let Expr::Function(function) = expr {
            let name = function.name.0.last().and_then(|part| part.as_ident());
            let name = name.map(folded).unwrap_or_default();
            series += usize::from(name == SERIES);
            others |= function.over.is_some()
                || takes_lists(&name)
                || AGGREGATES.contains(&name.as_str());
        }
        others |= matches!(expr, Expr::AnyOp { .. } | Expr::AllOp { .. });
        others |= matches!(expr, Expr::Subquery(_) | Expr::Exists { .. });
        others |= matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        ControlFlow::<()>::Continue(())
    });
    if series != 1 || others {
        return None;
    }
    let mut arguments = None;
    let _ = visit_expressions_mut(&mut select.projection, |expr| {
        if let Some(given) = of_series(expr) {
            arguments = Some(given.to_vec());
            *expr = Expr::Identifier(Ident::new(SERIES));
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    let given = arguments?;
    let text = format!("SELECT 1 FROM {SERIES}(1) AS {SERIES} ({SERIES})");
    let query = of_template(&text);
    let SetExpr::Select(mut template) = *query.ok()?.parse_query().ok()?.body else {
        return None;
    };
    let mut from = template.from.pop()?;
    if let TableFactor::Table {
        args: Some(args), ..
    } = &mut from.relation
    {
        args.args = given;
    }
    Some(from)
}

/// Rewrites a series in FROM.
pub(super) fn in_factor(factor: &mut TableFactor) {
    let (name, given, alias) = match factor {
        TableFactor::Table {
            name,
            alias,
            args: Some(args),
            with_ordinality: false,
            ..
        } => (name, args.args.as_slice(), alias),
        TableFactor::Function {
            name,
            args,
            with_ordinality: false,
            alias,
            ..
        } => (name, args.as_slice(), alias),
        _ => return,
    };
    if !names_series(name) {
        return;
    }
    let alias = named(alias.take());
    let column = match alias.columns.first() {
        Some(column) => column.name.clone(),
        None => alias.name.clone(),
    };
    let rewritten = match whole_numbers(given) {
        Some(numbers) => table(numbers, alias),
        None => derived(given.to_vec(), &column, alias),
    };
    if let Some(rewritten) = rewritten {
        *factor = rewritten;
    }
}

/// Whether the function is meant.
pub(super) fn names_series(name: &ObjectName) -> bool {
    match name.0.as_slice() {
        [part] => part.as_ident().is_some_and(|name| folded(name) == SERIES),
        _ => false,
    }
}

/// What the rows are called; the column as the rows, where nothing else is said.
fn named(alias: Option<TableAlias>) -> TableAlias {
    let mut alias = alias.unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(SERIES),
        columns: Vec::new(),
        at: None,
    });
    if alias.columns.is_empty() {
        alias.columns.push(TableAliasColumnDef {
            name: alias.name.clone(),
            data_type: None,
        });
    }
    alias
}

/// The arguments, where all of them are whole numbers that are written out. A step of 0 is not one
/// that the planner's table would refuse as it should.
fn whole_numbers(given: &[FunctionArg]) -> Option<Vec<FunctionArg>> {
    let number = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => whole_number(expr),
        _ => None,
    };
    let numbers = given.iter().map(number).collect::<Option<Vec<Expr>>>()?;
    let no_step = numbers.get(2).is_some_and(|step| {
        let digits = step.to_string();
        digits.trim_start_matches('-').bytes().all(|b| b == b'0')
    });
    let unnamed = |expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr));
    (!no_step).then(|| numbers.into_iter().map(unnamed).collect())
}

fn whole_number(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Nested(inner) => whole_number(inner),
        Expr::Cast {
            expr: inner,
            data_type:
                DataType::Int(_)
                | DataType::Integer(_)
                | DataType::Int4(_)
                | DataType::Int8(_)
                | DataType::BigInt(_)
                | DataType::SmallInt(_),
            ..
        } => whole_number(inner),
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: inner,
        } if matches!(inner.as_ref(), Expr::Value(_)) => whole_number(inner).map(|_| expr.clone()),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => {
                let whole = digits.bytes().all(|digit| digit.is_ascii_digit());
                whole.then(|| expr.clone())
            }
            _ => None,
        },
        _ => None,
    }
}

/// The planner's own table.
fn table(numbers: Vec<FunctionArg>, called: TableAlias) -> Option<TableFactor> {
    let mut table = factor(&format!("{SERIES}(1)"))?;
    if let TableFactor::Table { alias, args, .. } = &mut table {
        *alias = Some(called);
        args.as_mut()?.args = numbers;
    }
    Some(table)
}

/// The rows of the list.
fn derived(given: Vec<FunctionArg>, column: &Ident, called: TableAlias) -> Option<TableFactor> {
    let mut derived = factor(&format!("(SELECT unnest({SERIES}(1)) AS {column}) AS s"))?;
    let TableFactor::Derived {
        subquery, alias, ..
    } = &mut derived
    else {
        return None;
    };
    *alias = Some(called);
    let mut given = Some(given);
    let _ = visit_expressions_mut(subquery, |expr| {
        if let Expr::Function(function) = expr
            && names_series(&function.name)
            && let FunctionArguments::List(list) = &mut function.args
            && let Some(given) = given.take()
        {
            list.args = given;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    Some(derived)
}

/// Something in FROM, by its text.
pub(super) fn factor(text: &str) -> Option<TableFactor> {
    let parser = of_template(text);
    parser.ok()?.parse_table_factor().ok()
}
