//! Tests of `demo::tables`.

use std::collections::BTreeSet;

use arrow::array::Array;

use super::super::data::Source;
use super::super::timeline::Kind;
use super::{FLIGHT_KEY, Observations};
use crate::render::cell_texts;

#[test]
fn each_kind_gives_its_columns() {
    let observations = Observations::of(&Source::read(Some(1)).unwrap()).unwrap();
    let names = |kind| -> Vec<String> {
        let rows = observations.rows(kind, vec![0, 5]).unwrap();
        assert_eq!(rows.num_rows(), 2);
        rows.schema()
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect()
    };
    assert_eq!(names(Kind::Scheduled).len(), 16);
    assert_eq!(names(Kind::Removed), FLIGHT_KEY);
    assert_eq!(names(Kind::Diverted).last().unwrap(), "status");
    assert!(names(Kind::Departed).contains(&"dep_delay".to_owned()));
    assert_eq!(names(Kind::Weather).len(), 15);
}

#[test]
fn a_schedule_knows_nothing_of_what_comes() {
    let observations = Observations::of(&Source::read(Some(1)).unwrap()).unwrap();
    let rows = observations.rows(Kind::Scheduled, vec![0, 1]).unwrap();
    for name in super::SET_LATER {
        assert_eq!(rows.column_by_name(name).unwrap().null_count(), 2, "{name}");
    }
}

#[test]
fn the_key_is_one() {
    let source = Source::read(None).unwrap();
    let columns = super::flight_columns(&source).unwrap();
    let mut texts = Vec::new();
    for (name, column) in &columns {
        if FLIGHT_KEY.contains(name) {
            texts.push(cell_texts(column).unwrap());
        }
    }
    let keys: BTreeSet<Vec<&str>> = (0..source.flights.num_rows())
        .map(|row| {
            texts
                .iter()
                .map(|column| column[row].as_deref().unwrap())
                .collect()
        })
        .collect();
    assert_eq!(keys.len(), source.flights.num_rows());
}
