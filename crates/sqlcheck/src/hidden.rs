//! Hidden columns: which SCU has changed a row last, when that was ingested, and the same of each
//! column. Which SCU it was, the model says; when that was, the database has said once, and has to
//! say for ever.

use std::collections::BTreeMap;

/// The SCU of a row.
pub(crate) const SCU: &str = "_scu";
/// The time of a row.
pub(crate) const TIME: &str = "_time";

/// The times of SCUs, in microseconds.
pub(crate) type Times = BTreeMap<u64, i64>;

/// The time of a column, as plain tables name it.
pub(crate) fn time_of(column: &str) -> String {
    format!("{TIME}({column})")
}

/// Whether a statement names hidden columns.
pub(crate) fn are_named(sql: &str) -> bool {
    sql.contains(SCU) || sql.contains(TIME)
}

/// A statement in which `_time(column)` is the name of a column, as plain tables have it.
pub(crate) fn as_names(sql: &str) -> String {
    let mut text = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some((before, after)) = rest.split_once("_time(") {
        let Some((column, after)) = after.split_once(')') else {
            break;
        };
        text += before;
        text += &match column.split_once('.') {
            Some((table, column)) => format!("{table}.\"{}\"", time_of(column)),
            None => format!("\"{}\"", time_of(column)),
        };
        rest = after;
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::{are_named, as_names};

    #[test]
    fn times_of_columns_are_names_to_plain_tables() {
        let sql = "SELECT _time(a) AS x0, q._scu FROM t0 AS q WHERE (_time(q.b) = q._time)";
        let plain =
            "SELECT \"_time(a)\" AS x0, q._scu FROM t0 AS q WHERE (q.\"_time(b)\" = q._time)";
        assert_eq!(as_names(sql), plain);
        assert!(are_named(sql));
    }

    #[test]
    fn other_statements_stay_as_they_are() {
        let sql = "SELECT date_trunc('day', a) FROM t0 WHERE a < TIMESTAMP '2024-01-01 07:00:00'";
        assert_eq!(as_names(sql), sql);
        assert!(!are_named(sql));
    }
}
