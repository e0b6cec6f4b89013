//! Tests of `shell::feed`.

use super::{Feed, Item};

fn ends_with_semicolon(text: &str) -> bool {
    text.trim_end().ends_with(';')
}

fn items(text: &str) -> Vec<Item> {
    let mut feed = Feed::new(ends_with_semicolon);
    let lines = text.lines().zip(1..);
    let mut items: Vec<Item> = lines.filter_map(|(line, at)| feed.line(line, at)).collect();
    items.extend(feed.rest());
    items
}

fn sql(text: &str, line: usize) -> Item {
    let text = text.to_owned();
    Item::Sql { text, line }
}

#[test]
fn statements_may_take_several_lines() {
    let text = "SELECT 1;\n\nSELECT\n  2;\n\\dt\nSELECT 3";
    let expected = [
        sql("SELECT 1;\n", 1),
        sql("SELECT\n  2;\n", 3),
        Item::Command {
            text: "\\dt".to_owned(),
            line: 5,
        },
        sql("SELECT 3\n", 6),
    ];
    assert_eq!(items(text), expected);
}

#[test]
fn a_backslash_inside_a_statement_is_part_of_it() {
    let text = "SELECT 'a\n\\d b';\n";
    assert_eq!(items(text), [sql(text, 1)]);
    assert!(items(" \n\n").is_empty());
}
