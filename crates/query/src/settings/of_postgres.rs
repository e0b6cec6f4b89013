//! Settings of PostgreSQL's that have one value here: what its tools set and ask for.
//!
//! Pure.

use lazybase_model::{Error, Result};

use super::without_effect;
use crate::parse::{CATALOG, SCHEMA, serializable};

/// Settings of PostgreSQL's that its tools set or ask for, with the value that holds here, and
/// whether another one is accepted all the same, because it would change nothing.
pub(super) const ALL: [(&str, &str, bool); 36] = [
    ("block_size", "8192", false),
    ("bytea_output", "hex", false),
    ("check_function_bodies", "on", true),
    ("client_encoding", "UTF8", false),
    ("data_checksums", "on", false),
    ("datestyle", "ISO, MDY", false),
    ("default_table_access_method", "lazybase", false),
    ("default_tablespace", "", false),
    ("default_transaction_deferrable", "off", true),
    ("default_transaction_isolation", ISOLATION, false),
    ("escape_string_warning", "on", true),
    ("extra_float_digits", "1", true),
    ("idle_session_timeout", "0", false),
    ("in_hot_standby", "off", false),
    ("integer_datetimes", "on", false),
    ("is_superuser", "on", false),
    ("jit", "off", true),
    ("lc_collate", "C", false),
    ("lc_ctype", "C", false),
    ("max_identifier_length", "255", false),
    ("max_index_keys", "4096", false),
    ("max_prepared_transactions", "0", false),
    ("password_encryption", "scram-sha-256", false),
    ("quote_all_identifiers", "off", true),
    ("row_security", "on", true),
    ("search_path", SCHEMA, true),
    ("server_encoding", "UTF8", false),
    ("server_version", SERVER_VERSION, false),
    ("server_version_num", "150000", false),
    ("session_replication_role", "origin", true),
    ("standard_conforming_strings", "on", false),
    ("synchronize_seqscans", "on", true),
    ("transaction_deferrable", "off", false),
    ("transaction_isolation", ISOLATION, false),
    ("transaction_timeout", "0", false),
    ("xmloption", "content", true),
];

/// The isolation of every transaction, by the name that PostgreSQL has for one snapshot.
const ISOLATION: &str = "repeatable read";

/// The version of PostgreSQL whose protocol and catalogue its tools find here, and our own.
pub(crate) const SERVER_VERSION: &str = concat!("15.0 (LazyBase ", env!("CARGO_PKG_VERSION"), ")");

/// A setting of PostgreSQL's.
pub(super) fn known(name: &str) -> Option<&'static (&'static str, &'static str, bool)> {
    let mut all = ALL.iter().chain(&without_effect::ALL);
    all.find(|(known, ..)| *known == name)
}

/// Refuses a value that would have to change something.
pub(super) fn check(name: &str, value: Option<&str>) -> Result<()> {
    let (Some((_, holds, free)), Some(value)) = (known(name), value) else {
        return Ok(());
    };
    if name == "search_path" {
        return check_search_path(value);
    }
    if name.ends_with("transaction_isolation") {
        return check_isolation(value);
    }
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', ' ', '\''], "");
    let (given, known) = (plain(value), plain(holds));
    let same = match name {
        "client_encoding" => matches!(given.as_str(), "utf8" | "unicode" | "sql_ascii" | "auto"),
        // What is ambiguous is read as this order of day and month has it.
        "datestyle" => {
            let mut words = given.split(',');
            words.all(|word| matches!(word, "iso" | "mdy" | "us" | "noneuro" | "noneuropean"))
        }
        // Scripts of pg_dump say so of every table: how it is stored is nothing that they rely on.
        "default_table_access_method" => given == known || given == "heap",
        _ => given == known || (known == "on" && matches!(given.as_str(), "true" | "1")),
    };
    match same || *free {
        true => Ok(()),
        false => {
            Err(Error::invalid(format!("{name} is always {holds:?} here")).with_sqlstate("0A000"))
        }
    }
}

/// Levels of isolation that ask for no more than there is.
fn check_isolation(value: &str) -> Result<()> {
    let words = value.trim_matches(['\'', '"']).split_whitespace();
    let level = words.collect::<Vec<_>>().join(" ").to_ascii_lowercase();
    match level.as_str() {
        "read uncommitted" | "read committed" | ISOLATION | "snapshot" => Ok(()),
        "serializable" => Err(serializable()),
        _ => Err(
            Error::invalid(format!("{level:?} is no level of isolation"))
                .with_hint("there are read uncommitted, read committed and repeatable read")
                .with_sqlstate("22023"),
        ),
    }
}

/// Schemas that a search path may name: those that there are, and what stands for them in paths
/// that clients send.
const SCHEMAS: [&str; 6] = [
    SCHEMA,
    "$user",
    CATALOG,
    "information_schema",
    "pg_catalog",
    "pg_temp",
];

/// Refuses a path without the schema of all tables, where it names one that is not there: tables
/// would be made, and looked for, elsewhere than it says.
fn check_search_path(value: &str) -> Result<()> {
    let names = value.split(',').map(|name| {
        let name = name.trim().trim_matches(['"', '\'']);
        name.to_lowercase()
    });
    let names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
    let unknown = names.iter().find(|name| !SCHEMAS.contains(&name.as_str()));
    match unknown {
        Some(unknown) if !names.iter().any(|name| name == SCHEMA) => {
            Err(Error::not_found(format!("there is no schema {unknown:?}"))
                .with_detail(format!("all tables are in schema {SCHEMA:?}"))
                .with_hint(format!("SET search_path = {SCHEMA}"))
                .with_sqlstate("3F000"))
        }
        _ => Ok(()),
    }
}
