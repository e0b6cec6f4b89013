//! What a column of a SELECT list is called that was given no name: as PostgreSQL calls it, so that
//! `count(*)` is `count` to every client. Pure.
//!
//! | written                        | called                                        |
//! | ------------------------------ | --------------------------------------------- |
//! | `t.a`, `(t.a)`, `a::TEXT`      | `a`                                           |
//! | `t.a[1]`, `(t.s).a`            | `a`                                           |
//! | `count(*)`, `upper(a)`         | `count`, `upper`                              |
//! | `1::INT`, `DATE '2013-01-01'`  | `int4`, `date`                                |
//! | `CASE ... ELSE a END`          | `a`; `case` where no column stands there      |
//! | `(SELECT max(a) FROM t)`       | as the column of that query                   |
//! | `1 + 1`                        | `?column?`                                    |

use datafusion::sql::sqlparser::ast::{
    AccessExpr, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Query,
    SelectItem, SetExpr, TrimWhereField, Value,
};

use crate::parse::folded;
use crate::pg_catalog::functions;
use crate::planner::json_values::JSON_CHECKED;
use crate::planner::sql_types;

/// The name of what has none.
pub(crate) const NAMELESS: &str = "?column?";

/// The name of a column that an expression computes.
pub(crate) fn of(expr: &Expr) -> String {
    match found(expr) {
        Found::Nothing => NAMELESS.to_owned(),
        Found::Type(name) | Found::Name(name) => name,
    }
}

/// What an expression says of its name.
enum Found {
    Nothing,
    /// What it is, for want of anything better.
    Type(String),
    Name(String),
}

impl Found {
    fn name(name: &str) -> Found {
        Found::Name(name.to_owned())
    }

    /// This, or what it is where this is no name.
    fn or_type(self, name: impl FnOnce() -> String) -> Found {
        match self {
            Found::Name(name) => Found::Name(name),
            Found::Nothing | Found::Type(_) => Found::Type(name()),
        }
    }
}

fn found(expr: &Expr) -> Found {
    match expr {
        Expr::Identifier(name) => Found::Name(folded(name)),
        Expr::CompoundIdentifier(parts) => match parts.last() {
            Some(name) => Found::Name(folded(name)),
            None => Found::Nothing,
        },
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(field) => Some(field),
                AccessExpr::Subscript(_) => None,
            });
            field.map_or_else(|| found(root), found)
        }
        Expr::Function(function) => {
            // Of a cast to JSON the text is looked at.
            if let Some((JSON_CHECKED, cast)) = sole_argument(function) {
                return found(cast);
            }
            if let Some((cast, type_name)) = cast_of(function) {
                return found(cast).or_type(|| type_name.to_owned());
            }
            let last = function.name.0.last().and_then(|part| part.as_ident());
            last.map_or(Found::Nothing, |name| Found::Name(folded(name)))
        }
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => found(inner),
        Expr::Cast {
            expr, data_type, ..
        } => found(expr).or_type(|| type_name(data_type)),
        Expr::TypedString(typed) => Found::Type(type_name(&typed.data_type)),
        Expr::Interval(_) => Found::Type("interval".to_owned()),
        Expr::Case { else_result, .. } => {
            let otherwise = else_result.as_ref().map(|expr| found(expr));
            otherwise
                .unwrap_or(Found::Nothing)
                .or_type(|| "case".to_owned())
        }
        Expr::Subquery(query) => of_query(query),
        Expr::Exists { negated: false, .. } => Found::name("exists"),
        Expr::Extract { .. } => Found::name("extract"),
        Expr::Position { .. } => Found::name("position"),
        Expr::Substring { .. } => Found::name("substring"),
        Expr::Overlay { .. } => Found::name("overlay"),
        Expr::Ceil { .. } => Found::name("ceil"),
        Expr::Floor { .. } => Found::name("floor"),
        Expr::AtTimeZone { .. } => Found::name("timezone"),
        Expr::Trim { trim_where, .. } => Found::name(match trim_where {
            Some(TrimWhereField::Leading) => "ltrim",
            Some(TrimWhereField::Trailing) => "rtrim",
            Some(TrimWhereField::Both) | None => "btrim",
        }),
        Expr::Array(_) => Found::name("array"),
        Expr::Tuple(_) => Found::name("row"),
        Expr::Value(value) if matches!(value.value, Value::Boolean(_)) => {
            Found::Type("bool".to_owned())
        }
        _ => Found::Nothing,
    }
}

/// What is cast, and to which type, where a function stands for a cast.
fn cast_of(function: &Function) -> Option<(&Expr, &'static str)> {
    let (name, cast) = sole_argument(function)?;
    let type_name = sql_types::cast_by(name).or_else(|| functions::cast_by(name))?;
    Some((cast, type_name))
}

/// The name of a function, and what it is called with, if that is one value.
fn sole_argument(function: &Function) -> Option<(&str, &Expr)> {
    let name = function.name.0.last().and_then(|part| part.as_ident())?;
    match &function.args {
        FunctionArguments::List(list) => match list.args.as_slice() {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))] => {
                Some((name.value.as_str(), expr))
            }
            _ => None,
        },
        _ => None,
    }
}

/// As the first column of a query.
fn of_query(query: &Query) -> Found {
    let mut body = query.body.as_ref();
    loop {
        body = match body {
            SetExpr::SetOperation { left, .. } => left,
            SetExpr::Query(query) => &query.body,
            SetExpr::Select(select) => {
                return match select.projection.first() {
                    Some(SelectItem::ExprWithAlias { alias, .. }) => Found::Name(folded(alias)),
                    Some(SelectItem::UnnamedExpr(expr)) => found(expr),
                    _ => Found::Nothing,
                };
            }
            SetExpr::Values(_) => return Found::name("column1"),
            _ => return Found::Nothing,
        };
    }
}

/// PostgreSQL's own name of a type.
fn type_name(sql: &DataType) -> String {
    let text = sql.to_string().to_lowercase();
    let has_zone = text.ends_with("with time zone") || text.starts_with("timestamptz");
    let plain = text.split(['(', '[']).next().unwrap_or_default().trim();
    let name = match plain {
        "int" | "integer" => "int4",
        "bigint" => "int8",
        "smallint" => "int2",
        "real" => "float4",
        "double" | "double precision" | "float" => "float8",
        "boolean" => "bool",
        "decimal" | "dec" => "numeric",
        "character varying" | "char varying" => "varchar",
        "char" | "character" => "bpchar",
        "string" => "text",
        _ if plain.starts_with("timestamp") && has_zone => "timestamptz",
        _ if plain.starts_with("timestamp") => "timestamp",
        _ if plain.starts_with("time") => "time",
        other => other,
    };
    name.to_owned()
}
