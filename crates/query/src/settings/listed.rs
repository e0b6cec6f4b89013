//! The settings that SHOW ALL and `pg_settings` list: LazyBase's own, and those of PostgreSQL's
//! that SHOW tells, by the names that PostgreSQL lists them under. DataFusion's are in
//! `lazybase.settings` alone.

use super::{INTERVAL_STYLE, ONLY_SHOWN, OURS, Settings, of_postgres, without_effect};

/// What is told here and is neither a setting of ours nor one with one value.
const OTHERS: [(&str, &str); 4] = [
    ("max_connections", "the most connections of clients"),
    (
        "superuser_reserved_connections",
        "how many of these are kept for superusers",
    ),
    ("timezone", "the zone in which moments are read and shown"),
    (
        "transaction_read_only",
        "whether the transaction only reads",
    ),
];

/// A setting as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) description: &'static str,
    /// Whether it has no other value.
    pub(crate) is_fixed: bool,
}

impl Settings {
    /// All of them, by their names.
    pub(crate) fn listed(&self) -> Vec<Listed> {
        let ours = OURS.iter().chain(&OTHERS);
        let ours = ours.map(|(name, told)| (*name, *told, ONLY_SHOWN.contains(name)));
        let theirs = of_postgres::ALL.iter().chain(&without_effect::ALL);
        let theirs = theirs.map(|(name, _, is_free)| match *is_free {
            true => (*name, "any value is taken, and changes nothing", false),
            false => (*name, "it has this value here", true),
        });
        let listed = ours
            .chain(theirs)
            .filter_map(|(name, description, is_fixed)| {
                Some(Listed {
                    name: listed_name(name),
                    // Where no server is, nobody connects.
                    value: self.show(name).ok()?,
                    description,
                    is_fixed,
                })
            });
        let mut listed: Vec<Listed> = listed.collect();
        listed.sort_by_key(|setting| setting.name);
        listed
    }
}

/// The name as PostgreSQL lists it; SHOW and SET take it in any case.
fn listed_name(name: &'static str) -> &'static str {
    match name {
        "datestyle" => "DateStyle",
        INTERVAL_STYLE => "IntervalStyle",
        "timezone" => "TimeZone",
        name => name,
    }
}
