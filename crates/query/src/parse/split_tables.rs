//! Functions in FROM that give a row for each part of a text, as elements of the array of them;
//! those of JSON too.
//!
//! ```text
//!   FROM regexp_split_to_table(x, p) AS y  ->  FROM unnest(regexp_split_to_array(x, p)) AS y
//!   FROM string_to_table(x, ',') AS y      ->  FROM unnest(string_to_array(x, ',')) AS y
//! ```
//!
//! Rewrites sqlparser's tree before lists are put beside rows, and does nothing else.

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, Query, SetExpr, TableAlias, TableAliasColumnDef,
    TableFactor,
};

use super::{folded, json};
use crate::pg_catalog::rewrite::call;

/// The functions, and those that give the same as an array.
const FUNCTIONS: [(&str, &str); 2] = [
    ("regexp_split_to_table", "regexp_split_to_array"),
    ("string_to_table", "string_to_array"),
];

/// Rewrites the FROM of each SELECT of a query.
pub(super) fn in_query(query: &mut Query) {
    each_select(&mut query.body);
}

fn each_select(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            for from in &mut select.from {
                in_factor(&mut from.relation);
                for join in &mut from.joins {
                    in_factor(&mut join.relation);
                }
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            each_select(left);
            each_select(right);
        }
        _ => {}
    }
}

fn in_factor(factor: &mut TableFactor) {
    let (name, alias, args, with_ordinality) = match factor {
        TableFactor::Table {
            name,
            alias,
            args: Some(args),
            with_ordinality,
            ..
        } => (name.0.as_slice(), alias, &args.args, *with_ordinality),
        TableFactor::Function {
            name,
            alias,
            args,
            with_ordinality,
            ..
        } => (name.0.as_slice(), alias, &*args, *with_ordinality),
        _ => return,
    };
    let [part] = name else {
        return;
    };
    let name = part.as_ident().map(folded).unwrap_or_default();
    let Some((lists, columns)) = parts(&name, args).or_else(|| json::lists(&name, args)) else {
        return;
    };
    let mut alias = alias.take().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(name),
        columns: Vec::new(),
        at: None,
    });
    // A function of one column gives it the name that it has itself, if it says nothing else.
    let names = match columns {
        [] => vec![alias.name.clone()],
        columns => columns.iter().copied().map(Ident::new).collect(),
    };
    for name in names.into_iter().skip(alias.columns.len()) {
        alias.columns.push(TableAliasColumnDef {
            name,
            data_type: None,
        });
    }
    *factor = TableFactor::UNNEST {
        alias: Some(alias),
        array_exprs: lists,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality,
    };
}

/// The list of the parts of a text.
fn parts(name: &str, arguments: &[FunctionArg]) -> Option<(Vec<Expr>, &'static [&'static str])> {
    let (_, array) = FUNCTIONS.iter().find(|(known, _)| *known == name)?;
    let arguments = arguments.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    Some((vec![call(array, arguments.collect::<Option<_>>()?)], &[]))
}
