//! What counts foretell, and that filters are what they say.

use std::sync::Arc;

use super::{Filter, may_name_keys};
use crate::dice::Dice;
use crate::kind::Kind;
use crate::rows::Rows;
use crate::schema::{Schema, Table};

fn tables() -> impl Iterator<Item = (Dice, Schema, Arc<Table>)> {
    let stories = (0..300).map(|seed| {
        let mut dice = Dice::new(seed);
        let schema = Schema::draw(&mut dice);
        (dice, schema)
    });
    stories.filter_map(|(dice, schema)| {
        let exact = |of: &Table| {
            let mut kinds = of.key.iter().map(|at| of.columns[*at].kind);
            kinds.all(|kind| !matches!(kind, Kind::Real | Kind::Double | Kind::Decimal))
        };
        let mut all = schema.tables.iter().cloned();
        let table = all.find(|of| !of.owner && !of.key.is_empty() && exact(of))?;
        Some((dice, schema, table))
    })
}

#[test]
fn keys_are_counted_whether_their_rows_are_there() {
    let mut several = 0;
    for (mut dice, _, table) in tables() {
        let filter = Filter::by_key(&mut dice, &table);
        let named = filter.keys.as_ref().map_or(0, Vec::len) as u64;
        let counted = filter.counted(0, &Rows::new(Arc::clone(&table)));
        assert_eq!(counted.start(), counted.end());
        assert!((1..=named).contains(counted.start()), "{}", filter.sql);
        several += u64::from(*counted.start() > 1);
    }
    assert!(several > 10);
}

#[test]
fn keys_that_no_partition_takes_are_not_counted() {
    let mut met = 0;
    for (mut dice, _, table) in tables() {
        let Some(ranges) = &table.ranges else {
            continue;
        };
        let mut rows = Rows::new(Arc::clone(&table));
        (0..ranges.count()).for_each(|part| rows.end_partition(part));
        let filter = Filter::by_key(&mut dice, &table);
        assert_eq!(filter.counted(0, &rows), 0..=0, "{}", filter.sql);
        met += 1;
    }
    assert!(met > 5);
}

#[test]
fn what_is_found_is_counted_otherwise() {
    for (mut dice, schema, table) in tables() {
        let filter = Filter::draw(&mut dice, &schema, &table);
        if filter.keys.is_some() {
            continue;
        }
        assert!(!may_name_keys(&filter.sql, &table), "{}", filter.sql);
        let rows = Rows::new(Arc::clone(&table));
        assert_eq!(filter.counted(7, &rows), 7..=7);
    }
}

#[test]
fn predicates_that_name_keys() {
    let table = Table::with_keys(&mut Dice::new(1), 0, false, 2);
    for sql in ["k0 = 1 AND k1 = 2", "(k1 IN (1, 2) AND 'x' = k0)"] {
        assert!(may_name_keys(sql, &table), "{sql}");
    }
    for sql in [
        "k0 = 1",
        "k0 = 1 AND k1 > 2",
        "k0 = 1 AND k1 = 2 AND k1 IS NOT NULL",
        "(k0 = 1 OR k1 = 2)",
        "k0 = 1 AND k1 NOT IN (2)",
    ] {
        assert!(!may_name_keys(sql, &table), "{sql}");
    }
}
