//! The words of a statement.

/// The names and words of SQL in a text, without those that stand in constants.
pub(crate) fn words(sql: &str) -> Vec<&str> {
    // A quote inside of a constant is two, with nothing between.
    let outside = sql.split('\'').step_by(2);
    let is_end = |at: char| !at.is_ascii_alphanumeric() && at != '_';
    let words = outside.flat_map(|part| part.split(is_end));
    words.filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn constants_have_no_words() {
        let sql = "SELECT left(q.a, 2) AS x0 FROM t0 AS q WHERE b = 'it''s b' OR c_1='k'";
        let found = [
            "SELECT", "left", "q", "a", "2", "AS", "x0", "FROM", "t0", "AS", "q", "WHERE", "b",
            "OR", "c_1",
        ];
        assert_eq!(words(sql), found);
    }
}
