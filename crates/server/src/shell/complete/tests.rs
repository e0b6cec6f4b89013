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

#[test]
fn names_come_as_they_must_be_written() {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let names = Names {
        tables: owned(&["zoo", "Zoo", "z \"o"]),
        columns: owned(&["zeit", "Zeit"]),
    };
    let all = ["zoo", "\"Zoo\"", "\"z \"\"o\""];
    assert_eq!(offered("select * from z", &names), (14, owned(&all)));
    let quoted = ["\"zoo\"", "\"Zoo\""];
    assert_eq!(offered("select * from \"Zo", &names), (14, owned(&quoted)));
    assert_eq!(
        offered("select 'a\"', \"x\" from \"z \"\"", &names),
        (22, owned(&["\"z \"\"o\""]))
    );
    assert_eq!(
        offered("select zei", &names),
        (7, owned(&["zeit", "\"Zeit\""]))
    );
}

#[test]
fn system_tables_and_settings_are_known() {
    let one = |before: &str| {
        let (start, words) = offered(before, &names());
        assert_eq!(words.len(), 1, "{before}: {words:?}");
        format!("{}{}", &before[..start], words[0])
    };
    for (before, after) in [
        ("select * from lazybase.sc", "select * from lazybase.scus"),
        ("select * from lazybase_", ""),
        (
            "select 1; set LazyBase.fr",
            "select 1; set LazyBase.freshness",
        ),
        ("show lazybase.last_t", "show lazybase.last_token"),
        ("\\d lazybase.table_", "\\d lazybase.table_lag"),
    ] {
        match after.is_empty() {
            true => assert!(offered(before, &names()).1.is_empty(), "{before}"),
            false => assert_eq!(one(before), after),
        }
    }
    for (before, among) in [
        ("select * from lazy", "lazybase.scus"),
        ("reset la", "lazybase.freshness"),
    ] {
        let words = offered(before, &names()).1;
        assert!(
            words.iter().any(|word| word == among),
            "{before}: {words:?}"
        );
    }
}
