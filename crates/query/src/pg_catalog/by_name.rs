//! Types, schemas, roles and functions by their names: casts to `regtype`, `regnamespace`,
//! `regrole` and `regproc`, from names to numbers and back.
//!
//! | function              | gives                                | where nothing has the name |
//! | --------------------- | ------------------------------------ | -------------------------- |
//! | `pg_regtype_oid(x)`   | the number of a name, or as it is    | an error                   |
//! | `pg_regtype_name(x)`  | the name, of a number too            | an error                   |
//! | `to_regtype(x)`       | the number                           | NULL                       |
//! | `pg_regproc_known(x)` | the name, if it can be called        | an error                   |
//!
//! Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::logical_expr::{ScalarUDF, Volatility};
use lazybase_model::Error;

use super::functions::{Arguments, REGCLASS_NAME, REGCLASS_OID, argument, failing, function};
use super::{fixed, types};

/// How things of one kind are found by name.
#[derive(Debug)]
pub(super) struct ByName {
    /// The type of the cast.
    pub(super) cast: &'static str,
    /// The function to numbers, which a cast of a constant is.
    pub(super) oid: &'static str,
    /// The function to names, which other casts are.
    pub(super) name: &'static str,
    /// The function to numbers that gives NULL where there is none.
    pub(super) to: &'static str,
    /// What is not there, and the SQLSTATE that says so.
    what: &'static str,
    sqlstate: &'static str,
}

/// Tables and views, whose functions are those of `crates/query/src/pg_catalog/functions.rs`.
const CLASS: ByName = ByName {
    cast: "regclass",
    oid: REGCLASS_OID,
    name: REGCLASS_NAME,
    to: "to_regclass",
    what: "relation",
    sqlstate: "42P01",
};
const TYPE: ByName = ByName {
    cast: "regtype",
    oid: "pg_regtype_oid",
    name: "pg_regtype_name",
    to: "to_regtype",
    what: "type",
    sqlstate: "42704",
};
const SCHEMA: ByName = ByName {
    cast: "regnamespace",
    oid: "pg_regnamespace_oid",
    name: "pg_regnamespace_name",
    to: "to_regnamespace",
    what: "schema",
    sqlstate: "3F000",
};
const ROLE: ByName = ByName {
    cast: "regrole",
    oid: "pg_regrole_oid",
    name: "pg_regrole_name",
    to: "to_regrole",
    what: "role",
    sqlstate: "42704",
};

/// All that are found so.
pub(super) static ALL: [ByName; 4] = [CLASS, TYPE, SCHEMA, ROLE];

/// The name that a cast of a constant to `regproc` is rewritten to.
pub(super) const REGPROC_KNOWN: &str = "pg_regproc_known";

/// Functions that statements have of their own, or that are rewritten before they are planned, by
/// how their names begin.
const OTHERS: [&str; 14] = [
    "pg_",
    "has_",
    "json",
    "regexp_",
    "string_",
    "array_",
    "inet_",
    "obj_description",
    "col_description",
    "shobj_description",
    "set_config",
    "current_",
    "session_user",
    "to_reg",
];

type Find = dyn Fn(&str) -> Option<i64> + Send + Sync;
type Name = dyn Fn(i64) -> Option<String> + Send + Sync;

/// The functions of types and schemas.
pub(super) fn fixed() -> Vec<ScalarUDF> {
    let of_types = functions(
        TYPE,
        Arc::new(|name: &str| types::named(name).map(i64::from)),
        Arc::new(|oid: i64| {
            let oid = u32::try_from(oid).ok()?;
            Some(types::format_type(oid, None))
        }),
    );
    let schemas = fixed::SCHEMAS;
    let of_schemas = functions(
        SCHEMA,
        Arc::new(move |name: &str| {
            let mut all = schemas.iter();
            let found = all.find(|(_, schema)| *schema == unquoted(name));
            found.map(|(oid, _)| *oid)
        }),
        Arc::new(move |oid: i64| {
            let found = schemas.iter().find(|(schema, _)| *schema == oid);
            found.map(|(_, name)| (*name).to_owned())
        }),
    );
    of_types.into_iter().chain(of_schemas).collect()
}

/// Those of roles, which are there and have names as `find` and `name` tell.
pub(super) fn of_roles(find: Arc<Find>, name: Arc<Name>) -> [ScalarUDF; 3] {
    let found = Arc::new(move |given: &str| find(&unquoted(given)));
    functions(ROLE, found, name)
}

/// A name as it stands in a text: without its quotes, in lower case where it has none.
fn unquoted(name: &str) -> String {
    let name = name.trim();
    let quoted = name
        .strip_prefix('"')
        .and_then(|name| name.strip_suffix('"'));
    match quoted {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => name.to_lowercase(),
    }
}

fn functions(by: ByName, find: Arc<Find>, name: Arc<Name>) -> [ScalarUDF; 3] {
    let number = move |given: &str| match given.trim() {
        "-" => Some(0),
        given => given.parse().ok().or_else(|| find(given)),
    };
    let missing = move |given: &str| {
        Error::not_found(format!("{} {given:?} does not exist", by.what))
            .with_hint(format!("{} gives NULL for a name that nothing has", by.to))
            .with_sqlstate(by.sqlstate)
    };
    let number = Arc::new(number);
    let found = {
        let number = Arc::clone(&number);
        move |given: &str| number(given).ok_or_else(|| missing(given))
    };
    let found = Arc::new(found);
    let of_names = Arc::clone(&found);
    [
        failing(
            by.oid,
            DataType::Int64,
            Volatility::Stable,
            move |a: &Arguments<'_>| match argument(a, 0) {
                Some(given) => Ok(Some(found(given)?.to_string())),
                None => Ok(None),
            },
        ),
        failing(
            by.name,
            DataType::Utf8,
            Volatility::Stable,
            move |a: &Arguments<'_>| {
                let Some(given) = argument(a, 0) else {
                    return Ok(None);
                };
                Ok(Some(match of_names(given)? {
                    0 => "-".to_owned(),
                    oid => name(oid).unwrap_or_else(|| oid.to_string()),
                }))
            },
        ),
        function(by.to, DataType::Int64, move |a| {
            number(argument(a, 0)?).map(|oid| oid.to_string())
        }),
    ]
}

/// The functions that find functions, of which those of these names can be called.
pub(crate) fn of_functions(known: BTreeSet<String>) -> [ScalarUDF; 3] {
    let known = Arc::new(known);
    let find = move |given: &str| {
        let given = given.trim();
        let given = given.strip_prefix("pg_catalog.").unwrap_or(given);
        if let Ok(number) = given.parse() {
            let named = fixed::function_name(number);
            return Some(named.unwrap_or(given).to_owned());
        }
        // A `regprocedure` has its arguments behind it.
        let name = given.split_once('(').map_or(given, |(name, _)| name);
        let name = unquoted(name);
        let is_known = name == "-"
            || known.contains(&name)
            || fixed::function_number(&name).is_some()
            || OTHERS.iter().any(|begin| name.starts_with(begin));
        is_known.then(|| given.to_owned())
    };
    let find = Arc::new(find);
    let maybe = |name: &str| {
        let find = Arc::clone(&find);
        function(name, DataType::Utf8, move |a| find(argument(a, 0)?))
    };
    let others = [maybe("to_regproc"), maybe("to_regprocedure")];
    let known = failing(
        REGPROC_KNOWN,
        DataType::Utf8,
        Volatility::Stable,
        move |a: &Arguments<'_>| {
            let missing = |given: &str| {
                Error::not_found(format!("function {given:?} does not exist"))
                    .with_hint("to_regproc gives NULL for a name that no function has")
                    .with_sqlstate("42883")
            };
            let found = |given: &str| find(given).ok_or_else(|| missing(given));
            argument(a, 0).map(found).transpose()
        },
    );
    let [one, other] = others;
    [known, one, other]
}
