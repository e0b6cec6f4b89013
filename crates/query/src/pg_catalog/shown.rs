//! `pg_settings`: what SHOW ALL tells.

use super::Row;
use crate::settings::Settings;

pub(super) const COLUMNS: [(&str, &str); 1] = [(
    "pg_settings",
    "name t, setting t, unit t?, category t, short_desc t, extra_desc t?, context t, vartype t, \
     source t, min_val t?, max_val t?, boot_val t?, reset_val t?, pending_restart b",
)];

/// The rows of the table.
pub(super) fn rows(settings: &Settings) -> Vec<Row> {
    let row = |name: &str, value: String, told: &str, is_fixed: bool| -> Row {
        vec![
            ("name", name.into()),
            ("vartype", kind(&value).into()),
            ("setting", value.into()),
            ("short_desc", told.into()),
            ("context", if is_fixed { "internal" } else { "user" }.into()),
            ("source", "session".into()),
        ]
    };
    let listed = settings.listed().into_iter();
    let rows = listed.map(|one| row(one.name, one.value, one.description, one.is_fixed));
    rows.collect()
}

/// What a value looks like.
fn kind(value: &str) -> &'static str {
    match value {
        "on" | "off" => "bool",
        value if value.parse::<i64>().is_ok() => "integer",
        value if value.parse::<f64>().is_ok() => "real",
        _ => "string",
    }
}
