//! `lazybase.columns`: the columns of all tables, and how the authority stores them.

use lazybase_engine::manifest::Manifest;
use lazybase_model::{Column, Layout, Table};

use super::{Columns, counts, texts};
use crate::types;

/// The rows of the table.
pub(super) fn rows(manifest: &Manifest) -> Columns {
    let tables = manifest.tables.values().map(|state| &*state.table);
    let columns: Vec<(&Table, usize, &Column)> = tables
        .flat_map(|table| {
            let shown = table.columns[..table.visible_columns()].iter().enumerate();
            shown.map(move |(at, column)| (table, at, column))
        })
        .collect();
    let all = || columns.iter();
    let stored = |table: &Table, said: Option<String>| match (table.layout, said) {
        (Layout::Point, _) => "by extent".to_owned(),
        (Layout::Scan, Some(said)) => said,
        (Layout::Scan, None) => "auto".to_owned(),
    };
    vec![
        (
            "table_name",
            texts(all().map(|(table, ..)| Some(table.name.clone()))),
        ),
        (
            "column_name",
            texts(all().map(|(.., column)| Some(column.name.clone()))),
        ),
        ("position", counts(all().map(|(_, at, _)| *at as u64 + 1))),
        (
            "type",
            texts(all().map(|(.., column)| Some(types::declared_name(column)))),
        ),
        ("codec", {
            let codec = |column: &Column| column.storage.codec.map(|codec| codec.to_string());
            texts(all().map(|(table, _, column)| Some(stored(table, codec(column)))))
        }),
        ("encoding", {
            let name = |column: &Column| {
                let encoding = column.storage.encoding;
                encoding.map(|encoding| encoding.name().to_owned())
            };
            texts(all().map(|(table, _, column)| Some(stored(table, name(column)))))
        }),
    ]
}
