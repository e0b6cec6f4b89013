//! `pg_settings`: what SHOW ALL tells, and PostgreSQL's names of limits, as they are here.

use lazybase_model::limits::{COLUMNS_MAX, NAME_BYTES_MAX};

use super::Row;
use crate::settings::Settings;

pub(super) const COLUMNS: [(&str, &str); 1] = [(
    "pg_settings",
    "name t, setting t, unit t?, category t, short_desc t, extra_desc t?, context t, vartype t, \
     source t, min_val t?, max_val t?, boot_val t?, reset_val t?, pending_restart b",
)];

/// What no session can set.
const LIMITS: [(&str, usize, &str); 2] = [
    ("max_index_keys", COLUMNS_MAX, "The most columns of a key."),
    (
        "max_identifier_length",
        NAME_BYTES_MAX,
        "The most bytes of a name.",
    ),
];

/// The rows of the table.
pub(super) fn rows(settings: &Settings) -> Vec<Row> {
    let row = |name: String, value: String, told: String, context: &str, kind: &str| -> Row {
        vec![
            ("name", name.into()),
            ("setting", value.into()),
            ("short_desc", told.into()),
            ("context", context.into()),
            ("vartype", kind.into()),
            ("source", "session".into()),
        ]
    };
    let limits = LIMITS.iter().map(|(name, most, told)| {
        let (name, most) = ((*name).to_owned(), most.to_string());
        row(name, most, (*told).to_owned(), "internal", "integer")
    });
    let shown = settings.all().into_iter();
    let shown =
        shown.map(|shown| row(shown.name, shown.value, shown.description, "user", "string"));
    limits.chain(shown).collect()
}

/// The value of a setting that the table has.
pub(super) fn value(settings: &Settings, name: &str) -> Option<String> {
    let limit = LIMITS.iter().find(|(known, ..)| *known == name);
    let limit = limit.map(|(_, most, _)| most.to_string());
    let shown = || settings.all().into_iter().find(|shown| shown.name == name);
    limit.or_else(|| shown().map(|shown| shown.value))
}
