//! Lists in FROM as the planner takes them: with a name for each column, and with WITH ORDINALITY
//! as one list more, of the numbers that it counts.
//!
//! ```text
//!   unnest(l)                                 ->  UNNEST(l) AS unnest (unnest)
//!   LATERAL unnest(l) AS x                    ->  UNNEST(l) AS x (x)
//!   unnest(a, b) AS x (i)                     ->  UNNEST(a, b) AS x (i, unnest_2)
//!   unnest(l) WITH ORDINALITY AS x            ->  UNNEST(l, series_places(1, length of l))
//!                                                   AS x (x, ordinality)
//!   generate_series(5, 7) WITH ORDINALITY     ->  UNNEST(generate_series(5, 7),
//!                                                   series_places(5, 7))
//!   string_to_table(t, ',') AS x              ->  UNNEST(string_to_array(t, ',')) AS x (x)
//!   upper(t) AS x                             ->  UNNEST(make_array(upper(t))) AS x (x)
//! ```
//!
//! Rewrites sqlparser's tree and does nothing else.

use std::mem;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, TableAlias,
    TableAliasColumnDef, TableFactor, TableWithJoins, Value,
};

use super::series::names_series;
use super::{folded, split_tables};
use crate::pg_catalog::rewrite::call;
use crate::planner::series::{PLACES, SERIES};

/// The function that gives a list's elements as rows; what they are called, where nothing else is
/// said.
const UNNEST: &str = "unnest";
const ORDINALITY: &str = "ordinality";
/// A function of the planner's own that gives rows itself.
const RANGE: &str = "range";

/// Rewrites what stands in a FROM, and what is joined to it.
pub(super) fn in_from(from: &mut [TableWithJoins]) {
    for from in from {
        in_factor(&mut from.relation);
        for join in &mut from.joins {
            in_factor(&mut join.relation);
        }
    }
}

/// Rewrites one thing in FROM.
pub(super) fn in_factor(factor: &mut TableFactor) {
    let columns = as_lists(factor);
    let TableFactor::UNNEST {
        alias,
        array_exprs: lists,
        with_offset: false,
        with_ordinality,
        ..
    } = factor
    else {
        return;
    };
    let counted = mem::take(with_ordinality);
    let mut names: Vec<String> = match (columns, lists.len(), &alias) {
        ([], 1, Some(alias)) => vec![alias.name.value.clone()],
        ([], 1, None) => vec![UNNEST.to_owned()],
        // In one FROM no two columns have one name.
        ([], many, _) => (1..=many).map(numbered).collect(),
        (columns, ..) => columns.iter().copied().map(str::to_owned).collect(),
    };
    if counted {
        lists.push(numbers(lists));
        names.push(ORDINALITY.to_owned());
    }
    let alias = alias.get_or_insert_with(|| TableAlias {
        explicit: true,
        name: Ident::new(UNNEST),
        columns: Vec::new(),
        at: None,
    });
    let quote = alias.name.quote_style;
    for name in names.into_iter().skip(alias.columns.len()) {
        let name = match name == alias.name.value {
            true => Ident {
                value: name,
                quote_style: quote,
                span: alias.name.span,
            },
            false => Ident::new(name),
        };
        alias.columns.push(TableAliasColumnDef {
            name,
            data_type: None,
        });
    }
}

fn numbered(list: usize) -> String {
    match list {
        1 => UNNEST.to_owned(),
        more => format!("{UNNEST}_{more}"),
    }
}

/// A function that is written as any other as the parser has `UNNEST(...)`; also a series, where
/// its rows are to be counted, what gives the parts of a text, and a function of one value, which
/// is one row. Gives what the columns are called, where the function says it.
fn as_lists(factor: &mut TableFactor) -> &'static [&'static str] {
    let (name, given, alias, with_ordinality) = match factor {
        TableFactor::Function {
            name,
            args,
            alias,
            with_ordinality,
            ..
        } => (name, args, alias, *with_ordinality),
        TableFactor::Table {
            name,
            args: Some(given),
            alias,
            with_ordinality,
            ..
        } => (name, &mut given.args, alias, *with_ordinality),
        _ => return &[],
    };
    let lists = || given.iter().map(expression).collect::<Option<Vec<Expr>>>();
    let ((lists, columns), otherwise) = match only_part(name) {
        _ if names_series(name) => match with_ordinality {
            true => (
                (vec![series(mem::take(given))], &[][..]),
                Ident::new(SERIES),
            ),
            false => return &[],
        },
        Some(part) => match (folded(part).as_str(), lists()) {
            // The planner's own gives rows, and the catalog's do, each in its own way.
            (RANGE, _) | (_, None) => return &[],
            (name, _) if name.starts_with("pg_") => return &[],
            (UNNEST, Some(lists)) => ((lists, &[][..]), Ident::new(UNNEST)),
            (name, Some(arguments)) => {
                let lists = split_tables::lists(name, &arguments).unwrap_or_else(|| {
                    let value = call(name, arguments);
                    (vec![call("make_array", vec![value])], &[])
                });
                (lists, part.clone())
            }
        },
        None => return &[],
    };
    let called = alias.take().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: otherwise,
        columns: Vec::new(),
        at: None,
    });
    *factor = TableFactor::UNNEST {
        alias: Some(called),
        array_exprs: lists,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality,
    };
    columns
}

/// The name of a function that stands without a schema.
fn only_part(name: &ObjectName) -> Option<&Ident> {
    match name.0.as_slice() {
        [part] => part.as_ident(),
        _ => None,
    }
}

fn expression(argument: &FunctionArg) -> Option<Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    }
}

/// A series as a list.
pub(super) fn series(given: Vec<FunctionArg>) -> Expr {
    let mut series = call(SERIES, Vec::new());
    if let Expr::Function(function) = &mut series
        && let FunctionArguments::List(list) = &mut function.args
    {
        list.args = given;
    }
    series
}

/// From 1 on, as many as the longest list has elements. A series is not made a list for that.
fn numbers(lists: &[Expr]) -> Expr {
    if let [Expr::Function(series)] = lists
        && names_series(&series.name)
    {
        let mut places = series.clone();
        places.name = ObjectName::from(vec![Ident::new(PLACES)]);
        return Expr::Function(places);
    }
    let number = |digits: &str| Expr::Value(Value::Number(digits.to_owned(), false).into());
    let length = |list: &Expr| call("array_length", vec![list.clone(), number("1")]);
    let longest = match lists {
        [list] => length(list),
        lists => call("greatest", lists.iter().map(length).collect()),
    };
    call(PLACES, vec![number("1"), longest])
}
