//! What one side alone may fail for.
//!
//! For which rows an engine computes an expression is its own choice, where something else in the
//! statement leaves rows out: one filters first, the other prunes, or stops early. So a failure on
//! one side is excused where the statement has an expression that can fail in this way, and
//! something that chooses among rows. All else has to fail on both sides.

/// An expression that can fail for a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Excuse {
    /// A sum, difference or product that is out of its type's range.
    Arithmetic,
    /// A cast of a number to a type that does not hold it.
    Cast,
}

/// What such expressions fail with: a number is out of range.
const OUT_OF_RANGE: &str = "22003";

/// What leaves rows out.
const CHOICES: [&str; 9] = [
    "WHERE ",
    "CASE ",
    "COALESCE(",
    "JOIN ",
    "HAVING ",
    "LIMIT ",
    "FILTER ",
    "INTERSECT ",
    "EXCEPT ",
];

const OPERATORS: [&str; 3] = [" + ", " - ", " * "];

/// The excuse of a statement that has failed on one side with this SQLSTATE.
pub(crate) fn excuse(sql: &str, sqlstate: &str) -> Option<Excuse> {
    // A quote inside of a constant is two, with nothing between.
    let outside: Vec<&str> = sql.split('\'').step_by(2).collect();
    let mut text = outside.join("''");
    // Moments have no such ends here, and a constant fails for no row.
    for harmless in ["SELECT *", "+ INTERVAL", "- INTERVAL", "CAST(7 AS BIGINT)"] {
        text = text.replace(harmless, "");
    }
    let has = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
    match sqlstate == OUT_OF_RANGE && has(&CHOICES) {
        true if has(&OPERATORS) => Some(Excuse::Arithmetic),
        true if has(&["AS BIGINT)"]) => Some(Excuse::Cast),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Excuse, excuse};

    #[test]
    fn numbers_that_others_filter_first() {
        let sums = "SELECT (k0 + a) AS x0 FROM t0 WHERE k0 < 3";
        assert_eq!(excuse(sums, "22003"), Some(Excuse::Arithmetic));
        let casts = "SELECT CAST(k0 AS BIGINT) AS x0 FROM t0 LIMIT 3";
        assert_eq!(excuse(casts, "22003"), Some(Excuse::Cast));
    }

    #[test]
    fn all_else_fails_on_both_sides() {
        for (sql, sqlstate) in [
            // Both compute it for all rows.
            ("SELECT (k0 + a) AS x0 FROM t0", "22003"),
            ("SELECT max((k0 * a)) AS x0 FROM t0 ORDER BY 1", "22003"),
            // Nothing in it is divided, or read from a text.
            ("SELECT (k0 + a) AS x0 FROM t0 WHERE k0 < 3", "22012"),
            ("SELECT (k0 + a) AS x0 FROM t0 WHERE k0 < 3", "22P02"),
            // Nothing in it can fail.
            ("SELECT * FROM t0 WHERE k0 < 3", "22003"),
            ("SELECT * FROM t0 WHERE a = ' + '", "22003"),
            (
                "SELECT a FROM t0 WHERE k0 IN (1, CAST(7 AS BIGINT))",
                "22003",
            ),
            (
                "SELECT (b - INTERVAL '7 hours') AS x0 FROM t0 WHERE a",
                "22003",
            ),
            ("INSERT INTO t0 (k0, a) VALUES (1, 2)", "22003"),
        ] {
            assert_eq!(excuse(sql, sqlstate), None, "{sql}");
        }
    }
}
