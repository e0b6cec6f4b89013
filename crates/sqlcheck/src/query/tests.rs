//! A wildcard gives the columns of what its name means to whoever asks, on both sides.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Queries, Query};
use crate::define::Define;
use crate::dice::Dice;
use crate::kind::Kind;
use crate::rows::State;
use crate::schema::{Column, Schema, Table};
use crate::story::{Ask, Step, Story};
use crate::sweep::{Teller, with_stack};

/// A table of whole numbers, whose key is all columns that begin with `k`.
fn table(id: usize, columns: &[&str]) -> Table {
    let is_key = |at: &usize| columns[*at].starts_with('k');
    let key: Vec<usize> = (0..columns.len()).filter(is_key).collect();
    let columns = columns.iter().enumerate().map(|(at, name)| Column {
        name: (*name).to_owned(),
        kind: Kind::Int,
        nullable: !is_key(&at),
        wild: false,
        default: None,
        merge: None,
    });
    Table::plain(id, "t0".to_owned(), columns.collect(), key)
}

/// A table that all see, and one of the session that writes, which stands before it.
fn tables() -> [Arc<Table>; 2] {
    let stored = table(0, &["k0", "k1", "a"]);
    let own = table(1, &["k0", "a"]).temporary("t0".to_owned());
    [Arc::new(stored), Arc::new(own)]
}

/// So many queries of all columns of a table, and a hidden one.
fn starred(of: &Arc<Table>, count: usize) -> Vec<Query> {
    let schema = Schema {
        tables: vec![Arc::clone(of)],
        views: Vec::new(),
        temporary: Vec::new(),
        ended: BTreeSet::new(),
    };
    let mut dice = Dice::new(1);
    let drawn = (0..count).map(|_| {
        let mut queries = Queries {
            dice: &mut dice,
            schema: &schema,
            hidden: true,
        };
        let source = queries.source(None);
        let body = queries.starred(source);
        queries.finished(body)
    });
    drawn.collect()
}

#[test]
fn plain_tables_are_asked_for_the_columns_of_the_table_that_is_meant() {
    let [stored, own] = tables();
    let mut others = State::default();
    others.create(&stored);
    let mut writer = others.clone();
    writer.create(&own);
    for query in starred(&stored, 20) {
        let asked = |state: &State| query.asked(|| state.clone()).into_owned();
        assert!(query.sql.starts_with("SELECT *, "), "{}", query.sql);
        let all = asked(&others);
        assert!(all.starts_with("SELECT k0, k1, a, "), "{all}");
        assert_eq!(asked(&writer), all.replacen("k0, k1, a, ", "k0, a, ", 1));
        // Nothing has that name.
        assert!(asked(&State::default()).starts_with("SELECT *, "));
    }
}

/// The same queries by others, and by the session that writes, of what they mean to each.
#[test]
fn a_temporary_table_has_its_own_columns() {
    let [stored, own] = tables();
    let mut queries = starred(&stored, 400);
    // What both tables can answer, in no order that the key of one of them settles.
    queries.retain(|query| !query.sql.contains("k1") && !query.sql.contains("ORDER BY"));
    queries.truncate(12);
    let asked = queries.len() as u64;
    assert!(asked > 0);
    let mut steps = vec![Step::Create(stored), Step::Define(Define::Create(own))];
    for query in queries {
        steps.push(Step::Query(query.clone(), Ask::Pinned));
        steps.push(Step::Query(query, Ask::Prepared));
    }
    let story = Story { seed: 0, steps };
    let teller = Teller::new(None).unwrap();
    let outcome = with_stack(|| teller.tell(&story)).unwrap();
    assert!(outcome.violation.is_none(), "{:?}", outcome.violation);
    // Few are refused, and then on both sides.
    assert!(outcome.tally.hidden > asked, "{:?}", outcome.tally);
}
