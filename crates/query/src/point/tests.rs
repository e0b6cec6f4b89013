//! Tests of `point`.

use arrow::datatypes::DataType;
use lazybase_model::{Column, TableId, ViewId};

use super::*;
use crate::parse::{Statement, parse};

/// k INT, v INT, sorted by k.
fn table() -> Arc<Table> {
    let columns = ["k", "v"].map(|name| Column::new(name, DataType::Int32));
    let columns = columns.to_vec();
    Arc::new(Table::new(TableId(1), ViewId(1), "t", columns, &[0]))
}

fn read(sql: &str) -> Option<(Vec<usize>, Vec<String>)> {
    let Statement::Query(query) = parse(sql).unwrap().statement else {
        panic!("{sql}")
    };
    let find = |name: &str| (name == "t").then(table);
    recognise(&query, find).unwrap().map(|point| {
        let names = point.schema.fields().iter().map(|field| field.name());
        (point.projection.to_vec(), names.cloned().collect())
    })
}

#[test]
fn plain_columns_of_full_keys_are_point_reads() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    for (sql, projection, expected) in [
        (
            "SELECT * FROM t WHERE k = 1",
            vec![0, 1],
            names(&["k", "v"]),
        ),
        (
            "SELECT v FROM public.t WHERE k IN (1, 2)",
            vec![1],
            names(&["v"]),
        ),
        (
            "SELECT x.v AS w, k FROM t x WHERE x.k = 1",
            vec![1, 0],
            names(&["w", "k"]),
        ),
        (
            "SELECT * FROM t WHERE k = 1 FRESHNESS 0",
            vec![0, 1],
            names(&["k", "v"]),
        ),
    ] {
        assert_eq!(read(sql), Some((projection, expected)), "{sql}");
    }
}

#[test]
fn everything_else_is_planned() {
    for sql in [
        "SELECT * FROM t",
        "SELECT v + 1 FROM t WHERE k = 1",
        "SELECT * FROM t WHERE k = 1 AND v = 2",
        "SELECT * FROM t WHERE k = 1 ORDER BY k",
        "SELECT * FROM t WHERE k = 1 LIMIT 0",
        "SELECT DISTINCT v FROM t WHERE k = 1",
        "SELECT count(*) FROM t WHERE k = 1",
        "SELECT v FROM t WHERE k = 1 GROUP BY v",
        "SELECT v FROM t WHERE k = 1 HAVING true",
        "SELECT v, v FROM t WHERE k = 1",
        "SELECT nothing FROM t WHERE k = 1",
        "SELECT * FROM u WHERE k = 1",
        "SELECT t.* FROM t JOIN t AS u ON t.k = u.k WHERE t.k = 1",
        "SELECT * FROM t x (a, b) WHERE a = 1",
        "SELECT * FROM t WHERE k = 1 UNION ALL SELECT * FROM t WHERE k = 2",
    ] {
        assert_eq!(read(sql), None, "{sql}");
    }
}
