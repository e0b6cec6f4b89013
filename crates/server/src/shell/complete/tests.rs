//! Tests of `shell::complete`.

use super::{Names, offered};

fn names() -> Names {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    Names {
        tables: owned(&["flights", "weather"]),
        columns: owned(&["carrier", "flight", "fare"]),
    }
}

#[test]
fn the_word_before_the_cursor_is_completed() {
    assert_eq!(offered("sel", &names()), (0, vec!["SELECT".to_owned()]));
    let (start, words) = offered("SELECT fl", &names());
    assert_eq!(
        (start, words),
        (7, vec!["flight".to_owned(), "flights".to_owned()])
    );
    let (_, words) = offered("SELECT f", &names());
    assert!(words.contains(&"FRESHNESS".to_owned()), "{words:?}");
}

#[test]
fn tables_come_where_a_table_must() {
    assert_eq!(
        offered("select * from ", &names()).1,
        ["flights", "weather"]
    );
    assert_eq!(offered("\\d w", &names()), (3, vec!["weather".to_owned()]));
    assert_eq!(offered("\\d+ w", &names()), (4, vec!["weather".to_owned()]));
    assert_eq!(
        offered("\\fr", &names()),
        (0, vec!["\\freshness".to_owned()])
    );
    assert!(offered("select ", &names()).1.is_empty());
}
