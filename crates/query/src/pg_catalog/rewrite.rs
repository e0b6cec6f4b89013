//! What PostgreSQL's tools write and the planner does not read, as something that means the same.
//!
//! | written                                   | planned                                    |
//! | ----------------------------------------- | ------------------------------------------ |
//! | `pg_class`                                | `pg_catalog.pg_class`                      |
//! | `pg_catalog.f(x)`                         | `f(x)`                                     |
//! | `x OPERATOR(pg_catalog.~) y`              | `x ~ y`                                    |
//! | `x COLLATE pg_catalog.default`            | `x`                                        |
//! | `x::regclass`, `regtype`, `regnamespace`  | functions to names or numbers              |
//! | `x::regproc`, `typreceive = p.oid`        | functions to names or numbers              |
//! | `JOIN pg_proc p ON p.oid = t.typreceive`  | `JOIN pg_proc_of_types p ON ...`           |
//! | `x::oid`, `x::name`, `x::pg_catalog.text` | `x::bigint`, `x::text`                     |
//! | `generate_subscripts(x, 1)`               | `unnest(range(1, cardinality(x) + 1))`     |
//! | `array_upper(x, 1)`                       | `nullif(cardinality(x), 0)`                |
//! | `information_schema._pg_expandarray(x)`   | `unnest(pg_expanded(x))`                   |
//! | `(_pg_expandarray(x)).n`                  | as `generate_subscripts(x, 1)`             |
//! | `typname[0]`                              | `left(typname, 1)`                         |
//! | `indkey[0]`                               | `indkey[0 + 1]`                            |
//! | `age(xmin)`, `age('7'::xid)`              | `pg_xid_age(xmin)`, which is 0             |
//! | `(SELECT x FROM pg_... WHERE ...)`        | `(SELECT max(x) FROM ...)`: of one row     |
//! | the same of `pg_attrdef`, for a column    | `pg_default_of(table, column)`             |
//! | the same over a table without rows        | NULL                                       |
//! | `(SELECT json_build_object(...) FROM      | `pg_identity_options(table, column)`       |
//! | pg_sequence WHERE ...)`, for a column     |                                            |
//! | `ARRAY(SELECT ... FROM pg_auth_members)`  | `pg_or_empty(pg_member_of(role))`          |
//!
//! Rewrites sqlparser's tree and does nothing else. Invariant RWR-1: what is rewritten in general
//! means the same to everybody; the last two are done only where all tables are of `pg_catalog`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, Join, JoinConstraint,
    JoinOperator, ObjectName, ObjectNamePart, Query, Select, SelectItem, SetExpr, Statement,
    Subscript, TableAlias, TableFactor, TableWithJoins, Value, VisitorMut,
};

use super::by_name::{self, REGPROC_KNOWN};
use super::expanded::EXPANDED;
use super::facts;
use super::fixed::TYPE_FUNCTIONS;
use super::functions::{DEFAULT_OF, IDENTITY_OPTIONS, REGPROC_NAME, REGPROC_OID, XID_AGE};
use super::looked_up::{default_of, identity_of};
use super::or_empty::OR_EMPTY;
use super::privileges::MEMBER_OF;
use super::vectors::{count_as_lists, is_vector};
use super::{PG_CATALOG, dumped, has, is_empty, order, select_list};
use crate::parse::folded;
use crate::planner::json_values::JSON_CHECKED;
use crate::walk::visit_mut;

/// Columns that hold numbers of transactions.
const TRANSACTIONS: [&str; 6] = [
    "backend_xid",
    "backend_xmin",
    "datfrozenxid",
    "relfrozenxid",
    "transactionid",
    "xmin",
];

/// Rewrites a statement, which may be about the catalogue.
pub(crate) fn rewrite(statement: &mut Statement, of_catalog: bool) {
    let done = visit_mut(statement, &mut Rewriter { of_catalog });
    debug_assert!(done.is_continue(), "nothing ends the visit");
    if let Statement::Query(query) = statement {
        select_list::rewrite(query);
        order::in_order(query);
    }
}

struct Rewriter {
    /// Elsewhere columns that are called as those of the catalogue are users' own.
    of_catalog: bool,
}

impl VisitorMut for Rewriter {
    type Break = ();

    fn pre_visit_relation(&mut self, name: &mut ObjectName) -> ControlFlow<()> {
        if let [ObjectNamePart::Identifier(only)] = name.0.as_slice() {
            let plain = folded(only);
            if plain.starts_with("pg_") && has(&plain) {
                name.0 = vec![part(PG_CATALOG), part(&plain)];
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        join_functions(select);
        dumped::stand_in(select);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table {
            name,
            args: Some(_),
            ..
        } = factor
            && let [ObjectNamePart::Identifier(schema), _] = name.0.as_slice()
            && folded(schema) == PG_CATALOG
        {
            name.0.remove(0);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        rewrite_expr(expr, self.of_catalog);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        each_select(&mut query.body, &mut |select| {
            if reads_catalog_only(select) {
                facts::fold(select);
                if never_has_rows(select) {
                    empty_projection(select);
                }
            }
        });
        ControlFlow::Continue(())
    }
}

pub(super) fn part(name: &str) -> ObjectNamePart {
    ObjectNamePart::Identifier(Ident::new(name))
}

/// The parts of a name, folded; nothing for one that is no plain name.
pub(super) fn parts(name: &ObjectName) -> Vec<String> {
    let part = |part: &ObjectNamePart| part.as_ident().map(folded).unwrap_or_default();
    name.0.iter().map(part).collect()
}

pub(super) fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

fn text(expr: Expr) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type: DataType::Text,
        array: false,
        format: None,
    }
}

pub(crate) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let arguments = arguments
        .into_iter()
        .map(|expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)));
    Expr::Function(Function {
        name: ObjectName(vec![part(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments.collect(),
            clauses: vec![],
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}

fn rewrite_expr(expr: &mut Expr, of_catalog: bool) {
    match expr {
        Expr::Collate { expr: inner, .. } => {
            *expr = std::mem::replace(inner, null());
        }
        Expr::Cast { data_type, .. } => {
            if let Some(kind) = cast_kind(data_type) {
                rewrite_cast(expr, kind);
            }
        }
        Expr::BinaryOp { left, op, right } => {
            if let Some(plain) = plain_operator(op) {
                *op = plain;
            }
            if of_catalog {
                compare_functions(left, right);
            }
        }
        Expr::Function(function) => {
            let member_of = members_of(function).map(|role| {
                let names = call(MEMBER_OF, vec![role]);
                call(OR_EMPTY, vec![names])
            });
            match member_of.or_else(|| facts::array_of(function)) {
                Some(replaced) => *expr = replaced,
                None => rewrite_function(function, of_catalog),
            }
        }
        Expr::CompoundFieldAccess { root, access_chain } => {
            let letter = || match of_catalog {
                true => first_letter(root, access_chain),
                false => None,
            };
            match part_of_expanded(root, access_chain).or_else(letter) {
                Some(replaced) => *expr = replaced,
                None if of_catalog => count_as_lists(root, access_chain),
                None => {}
            }
        }
        Expr::Subquery(query) => {
            if let Some(replaced) = scalar(query) {
                *expr = replaced;
            }
        }
        _ => {}
    }
    if let Expr::Function(function) = expr
        && parts(&function.name) == ["generate_subscripts"]
        && let Some(list) = first_argument(function)
    {
        let first = if of_catalog && is_vector(&list) { 0 } else { 1 };
        *expr = subscripts(list, first);
    }
    if let Expr::Function(function) = expr
        && parts(&function.name) == ["array_upper"]
        && let Some(list) = first_argument(function)
    {
        let of_vector = of_catalog && is_vector(&list);
        let last = call("nullif", vec![count(list), number(0)]);
        *expr = match of_vector {
            true => computed(last, BinaryOperator::Minus, number(1)),
            false => last,
        };
    }
}

pub(super) fn number(number: u8) -> Expr {
    Expr::Value(Value::Number(number.to_string(), false).into())
}

pub(super) fn computed(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    }
}

/// How many elements a list has.
fn count(list: Expr) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(call("cardinality", vec![list])),
        data_type: DataType::BigInt(None),
        array: false,
        format: None,
    }
}

/// The numbers of a list's elements, a row each, from `first` on.
fn subscripts(list: Expr, first: u8) -> Expr {
    let end = computed(count(list), BinaryOperator::Plus, number(first));
    call("unnest", vec![call("range", vec![number(first), end])])
}

/// The elements of a list, or their numbers, where a part of the two together is asked for.
fn part_of_expanded(root: &Expr, access: &[AccessExpr]) -> Option<Expr> {
    let Expr::Nested(inner) = root else {
        return None;
    };
    let function = |expr: &Expr, name: &str| match expr {
        Expr::Function(function) if parts(&function.name) == [name] => first_argument(function),
        _ => None,
    };
    let list = function(&function(inner, "unnest")?, EXPANDED)?;
    match access {
        [AccessExpr::Dot(Expr::Identifier(part))] => match folded(part).as_str() {
            "n" => Some(subscripts(list, 1)),
            "x" => Some(call("unnest", vec![list])),
            _ => None,
        },
        _ => None,
    }
}

/// `typname[0]` as the first letter of the name: letters of names are counted from 0.
fn first_letter(root: &Expr, access: &[AccessExpr]) -> Option<Expr> {
    let [AccessExpr::Subscript(Subscript::Index { index })] = access else {
        return None;
    };
    let is_first = column(root) == "typname" && index.to_string() == "0";
    is_first.then(|| call("left", vec![root.clone(), number(1)]))
}

/// The role whose memberships `ARRAY(SELECT ... FROM pg_auth_members m ... WHERE m.member = role)`
/// asks for.
fn members_of(function: &Function) -> Option<Expr> {
    let FunctionArguments::Subquery(query) = &function.args else {
        return None;
    };
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let mut tables = relations(select).filter_map(catalog_table);
    if !tables.any(|name| name == "pg_auth_members") {
        return None;
    }
    match select.selection.as_ref()? {
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Eq,
            right,
        } => match left.as_ref() {
            Expr::CompoundIdentifier(parts) if folded(parts.last()?) == "member" => {
                Some(right.as_ref().clone())
            }
            _ => None,
        },
        _ => None,
    }
}

/// The name of a column, without that of its table; nothing for what is none.
fn column(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(name) => folded(name),
        Expr::CompoundIdentifier(parts) => parts.last().map(folded).unwrap_or_default(),
        _ => String::new(),
    }
}

/// Whether a condition says that a function is the one that a type names.
fn finds_function(condition: &Expr) -> bool {
    match condition {
        Expr::Nested(inner) => finds_function(inner),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } => finds_function(left) || finds_function(right),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Eq,
            right,
        } => {
            let finds = |one: &Expr, other: &Expr| column(one) == "oid" && names_function(other);
            finds(left, right) || finds(right, left)
        }
        _ => false,
    }
}

/// Lets a join of `pg_proc` by what types name find these functions.
fn join_functions(select: &mut Select) {
    let joins = select.from.iter_mut().flat_map(|from| &mut from.joins);
    for join in joins {
        let condition = match &join.join_operator {
            JoinOperator::Join(JoinConstraint::On(condition))
            | JoinOperator::Inner(JoinConstraint::On(condition))
            | JoinOperator::Left(JoinConstraint::On(condition))
            | JoinOperator::LeftOuter(JoinConstraint::On(condition)) => condition,
            _ => continue,
        };
        let by_function = finds_function(condition);
        let TableFactor::Table { name, alias, .. } = &mut join.relation else {
            continue;
        };
        let of_functions = match parts(name).as_slice() {
            [table] => table == "pg_proc",
            [schema, table] => schema == PG_CATALOG && table == "pg_proc",
            _ => false,
        };
        if by_function && of_functions {
            name.0 = vec![part(PG_CATALOG), part(TYPE_FUNCTIONS.0)];
            alias.get_or_insert_with(|| TableAlias {
                explicit: true,
                name: Ident::new("pg_proc"),
                columns: Vec::new(),
                at: None,
            });
        }
    }
}

/// The function that a column of `pg_type` names as its number, where that is compared with others.
fn function_as_number(named: &mut Expr, other: &Expr) {
    if names_function(named) && column(other) == "oid" {
        let name = std::mem::replace(named, null());
        *named = call(REGPROC_OID, vec![name]);
    }
}

/// Compares columns of `pg_type` that name functions with numbers of these.
fn compare_functions(left: &mut Expr, right: &mut Expr) {
    function_as_number(left, right);
    function_as_number(right, left);
    // A function's number is 0 where there is none; here it has a name, or none.
    if names_function(left) && matches!(right, Expr::Value(_)) && right.to_string() == "0" {
        let none = Value::SingleQuotedString(String::new());
        *right = Expr::Value(none.into());
    }
}

/// Whether a column of `pg_type` names a function.
fn names_function(expr: &Expr) -> bool {
    matches!(
        column(expr).as_str(),
        "typreceive" | "typsend" | "typinput" | "typoutput"
    )
}

pub(super) fn first_argument(function: &Function) -> Option<Expr> {
    match &function.args {
        FunctionArguments::List(list) => match list.args.first()? {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
            _ => None,
        },
        _ => None,
    }
}

fn rewrite_function(function: &mut Function, of_catalog: bool) {
    if parts(&function.name) == ["information_schema", "_pg_expandarray"] {
        let list = first_argument(function).unwrap_or_else(null);
        if let Expr::Function(unnest) = call("unnest", vec![call(EXPANDED, vec![list])]) {
            *function = unnest;
        }
        return;
    }
    if let [ObjectNamePart::Identifier(schema), _] = function.name.0.as_slice()
        && folded(schema) == PG_CATALOG
    {
        function.name.0.remove(0);
    }
    if parts(&function.name) == ["age"]
        && first_argument(function).is_some_and(|of| is_transaction(&of, of_catalog))
    {
        function.name = ObjectName(vec![part(XID_AGE)]);
    }
}

/// Whether an expression is the number of a transaction: casts to `xid` have become such to BIGINT.
fn is_transaction(expr: &Expr, of_catalog: bool) -> bool {
    match expr {
        Expr::Cast { data_type, .. } => matches!(data_type, DataType::BigInt(_)),
        expr => of_catalog && TRANSACTIONS.contains(&column(expr).as_str()),
    }
}

/// `OPERATOR(pg_catalog.~)` without its schema.
fn plain_operator(op: &BinaryOperator) -> Option<BinaryOperator> {
    let BinaryOperator::PGCustomBinaryOperator(name) = op else {
        return None;
    };
    Some(match name.last()?.as_str() {
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "~~" => BinaryOperator::PGLikeMatch,
        "=" => BinaryOperator::Eq,
        "<>" | "!=" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        ">" => BinaryOperator::Gt,
        "<=" => BinaryOperator::LtEq,
        ">=" => BinaryOperator::GtEq,
        "||" => BinaryOperator::StringConcat,
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        _ => return None,
    })
}

/// What casts to PostgreSQL's own types mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CastTo {
    /// What is found by its name.
    Named(&'static str),
    RegProc,
    /// regoper: nothing here has such a name.
    RegOther,
    Oid,
    Text,
    /// A type of the schema pg_catalog that has a plain name.
    Plain(PlainType),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlainType {
    SmallInt,
    Int,
    BigInt,
    Boolean,
    Double,
    /// int2[], int2vector: what is cast to it is one.
    AsItIs,
}

fn cast_kind(data_type: &DataType) -> Option<CastTo> {
    let name = match data_type {
        DataType::Regclass => return Some(CastTo::Named("regclass")),
        DataType::Text => return Some(CastTo::Text),
        DataType::Custom(name, _) => parts(name),
        DataType::Array(_) => {
            let name = data_type.to_string().to_lowercase();
            let vector = name.contains("pg_catalog.") || name.contains("regtype");
            return vector.then_some(CastTo::Plain(PlainType::AsItIs));
        }
        _ => return None,
    };
    let name = match name.as_slice() {
        [schema, name] if schema == PG_CATALOG => name.as_str(),
        [name] => name.as_str(),
        _ => return None,
    };
    if let Some(by) = by_name::ALL.iter().find(|by| by.cast == name) {
        return Some(CastTo::Named(by.cast));
    }
    Some(match name {
        "regproc" | "regprocedure" => CastTo::RegProc,
        "regoper" => CastTo::RegOther,
        "oid" | "xid" | "cid" => CastTo::Oid,
        "text" | "name" | "char" | "varchar" | "bpchar" | "cstring" => CastTo::Text,
        "int2" => CastTo::Plain(PlainType::SmallInt),
        "int4" => CastTo::Plain(PlainType::Int),
        "int8" => CastTo::Plain(PlainType::BigInt),
        "bool" => CastTo::Plain(PlainType::Boolean),
        "float8" => CastTo::Plain(PlainType::Double),
        "int2vector" | "oidvector" => CastTo::Plain(PlainType::AsItIs),
        _ => return None,
    })
}

fn rewrite_cast(expr: &mut Expr, kind: CastTo) {
    let Expr::Cast {
        expr: inner,
        data_type,
        ..
    } = expr
    else {
        return;
    };
    let constant = matches!(inner.as_ref(), Expr::Value(_));
    let of_function = names_function(inner);
    let function = match inner.as_ref() {
        Expr::Function(function) => parts(&function.name).pop().unwrap_or_default(),
        _ => String::new(),
    };
    let mut take = || std::mem::replace(inner.as_mut(), null());
    // A cast of a cast: of a name to its number, and of a number to its name.
    let mut all = by_name::ALL.iter();
    let other = match kind {
        CastTo::Oid if [REGPROC_NAME, REGPROC_KNOWN].contains(&function.as_str()) => {
            Some(REGPROC_OID)
        }
        CastTo::Oid => all.find(|by| by.name == function).map(|by| by.oid),
        CastTo::Text => all.find(|by| by.oid == function).map(|by| by.name),
        _ => None,
    };
    if let Some(other) = other {
        if let Expr::Function(mut function) = take() {
            function.name = ObjectName(vec![part(other)]);
            *expr = Expr::Function(function);
        }
        return;
    }
    let mut all = by_name::ALL.iter();
    if let CastTo::Named(cast) = kind
        && let Some(by) = all.find(|by| by.cast == cast)
    {
        // A constant is a name whose number is meant; a column holds numbers. What is cast to its
        // own type again stays a number, or a name.
        let inner = take();
        *expr = match [by.oid, by.name].contains(&function.as_str()) {
            true => inner,
            false => call(if constant { by.oid } else { by.name }, vec![inner]),
        };
        return;
    }
    let mut all = by_name::ALL.iter();
    if kind == CastTo::Text
        && let Some(by) = all.find(|by| by.to == function)
    {
        *expr = call(by.name, vec![take()]);
        return;
    }
    match kind {
        CastTo::RegProc if constant => *expr = call(REGPROC_KNOWN, vec![take()]),
        CastTo::RegProc => *expr = call(REGPROC_NAME, vec![take()]),
        CastTo::Named(_) | CastTo::RegOther => *expr = text(take()),
        CastTo::Oid if of_function => *expr = call(REGPROC_OID, vec![take()]),
        CastTo::Oid => *data_type = DataType::BigInt(None),
        CastTo::Text => *data_type = DataType::Text,
        CastTo::Plain(PlainType::AsItIs) => *expr = take(),
        CastTo::Plain(PlainType::SmallInt) => *data_type = DataType::SmallInt(None),
        CastTo::Plain(PlainType::Int) => *data_type = DataType::Int(None),
        CastTo::Plain(PlainType::BigInt) => *data_type = DataType::BigInt(None),
        CastTo::Plain(PlainType::Boolean) => *data_type = DataType::Boolean,
        CastTo::Plain(PlainType::Double) => {
            *data_type = DataType::Double(ExactNumberInfo::None);
        }
    }
}

/// Calls `with` for every SELECT of a query's body.
pub(super) fn each_select(body: &mut SetExpr, with: &mut impl FnMut(&mut Select)) {
    match body {
        SetExpr::Select(select) => with(select),
        SetExpr::SetOperation { left, right, .. } => {
            each_select(left, with);
            each_select(right, with);
        }
        _ => {}
    }
}

pub(super) fn relations(select: &Select) -> impl Iterator<Item = &TableFactor> {
    select.from.iter().flat_map(|from| {
        let joined = from.joins.iter().map(|join| &join.relation);
        std::iter::once(&from.relation).chain(joined)
    })
}

/// The name of a table of pg_catalog.
pub(super) fn catalog_table(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::Table {
            name, args: None, ..
        } => match parts(name).as_slice() {
            [schema, name] if schema == PG_CATALOG => Some(name.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a SELECT reads tables of pg_catalog, and plain tables of nothing else.
pub(super) fn reads_catalog_only(select: &Select) -> bool {
    let plain = |factor: &TableFactor| {
        matches!(factor, TableFactor::Table { args: None, .. }) && catalog_table(factor).is_none()
    };
    relations(select).any(|factor| catalog_table(factor).is_some()) && !relations(select).any(plain)
}

pub(super) fn aggregates(select: &Select) -> bool {
    select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => aggregate(expr),
        _ => false,
    })
}

/// Whether an expression has an aggregate, outside of queries of its own.
fn aggregate(expr: &Expr) -> bool {
    match expr {
        Expr::Function(function) => {
            let name = parts(&function.name).pop().unwrap_or_default();
            let arguments = match &function.args {
                FunctionArguments::List(list) => list.args.as_slice(),
                _ => &[],
            };
            let inside = |argument: &FunctionArg| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => aggregate(expr),
                _ => false,
            };
            matches!(
                name.as_str(),
                "max"
                    | "min"
                    | "count"
                    | "sum"
                    | "array_agg"
                    | "string_agg"
                    | "bool_and"
                    | "bool_or"
            ) || arguments.iter().any(inside)
        }
        Expr::Cast { expr, .. } | Expr::Nested(expr) | Expr::UnaryOp { expr, .. } => {
            aggregate(expr)
        }
        Expr::BinaryOp { left, right, .. } => aggregate(left) || aggregate(right),
        _ => false,
    }
}

/// Whether a SELECT over `pg_catalog` can't give a row: a table that it begins with, or needs rows
/// of, has none, or none of what it asks for.
pub(super) fn never_has_rows(select: &Select) -> bool {
    let of_empty = |factor: &TableFactor| catalog_table(factor).is_some_and(|name| is_empty(&name));
    let asks_for_none = select.selection.as_ref().is_some_and(facts::never_holds);
    let mut from = select.from.iter();
    let reads_empty = from.any(|from| of_empty(&from.relation) || joins_empty(from, of_empty));
    !aggregates(select) && (asks_for_none || reads_empty)
}

/// Whether a join needs rows of a table that has none.
fn joins_empty(from: &TableWithJoins, is_empty: impl Fn(&TableFactor) -> bool) -> bool {
    let inner = |join: &Join| {
        matches!(
            join.join_operator,
            JoinOperator::Join(_) | JoinOperator::Inner(_)
        )
    };
    let left = |join: &Join| {
        matches!(
            join.join_operator,
            JoinOperator::Left(_) | JoinOperator::LeftOuter(_)
        )
    };
    // A RIGHT or a FULL JOIN has rows of its own.
    from.joins.iter().all(|join| inner(join) || left(join))
        && from
            .joins
            .iter()
            .any(|join| inner(join) && is_empty(&join.relation))
}

/// Takes out what the planner could not plan, of rows that never come.
fn empty_projection(select: &mut Select) {
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }
                if !matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) =>
            {
                *expr = text(null());
            }
            _ => {}
        }
    }
}

/// What stands for a query in the place of a value, where it reads pg_catalog.
fn scalar(query: &mut Query) -> Option<Expr> {
    let limited = query.limit_clause.is_some() || query.fetch.is_some();
    let SetExpr::Select(select) = query.body.as_mut() else {
        return None;
    };
    if !reads_catalog_only(select) || aggregates(select) || limited {
        return None;
    }
    if never_has_rows(select) {
        return Some(text(null()));
    }
    if let Some((table, column)) = identity_of(select) {
        let options = call(IDENTITY_OPTIONS, vec![table, column]);
        return Some(call(JSON_CHECKED, vec![options]));
    }
    if let Some((table, column)) = default_of(select) {
        return Some(call(DEFAULT_OF, vec![table, column]));
    }
    let [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] =
        select.projection.as_mut_slice()
    else {
        return None;
    };
    let only = std::mem::replace(expr, null());
    *expr = call("max", vec![only]);
    query.order_by = None;
    None
}
