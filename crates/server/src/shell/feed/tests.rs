//! Tests of `shell::feed`.

use super::{Feed, Item};

fn ends_with_semicolon(text: &str) -> bool {
    text.trim_end().ends_with(';')
}

fn items(text: &str) -> Vec<Item> {
    let mut feed = Feed::new(ends_with_semicolon);
    let mut items: Vec<Item> = text.lines().filter_map(|line| feed.line(line)).collect();
    items.extend(feed.rest());
    items
}

fn sql(text: &str) -> Item {
    Item::Sql(text.to_owned())
}

#[test]
fn statements_may_take_several_lines() {
    let text = "SELECT 1;\n\nSELECT\n  2;\n\\dt\nSELECT 3";
    let expected = [
        sql("SELECT 1;\n"),
        sql("SELECT\n  2;\n"),
        Item::Command("\\dt".to_owned()),
        sql("SELECT 3\n"),
    ];
    assert_eq!(items(text), expected);
}

#[test]
fn a_backslash_inside_a_statement_is_part_of_it() {
    assert_eq!(items("SELECT 'a\n\\d b';"), [sql("SELECT 'a\n\\d b';\n")]);
    assert!(items(" \n\n").is_empty());
}
