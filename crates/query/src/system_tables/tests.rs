//! Tests of `system_tables`.

use arrow::array::AsArray;
use lazybase_engine::manifest::ScuTime;
use lazybase_model::DatabaseId;

use super::*;

fn manifest() -> Manifest {
    let time = |micros| ScuTime {
        first_ack_micros: micros,
        last_ack_micros: micros,
        batches_through: 1,
    };
    let database = DatabaseId {
        database: 1,
        history: 1,
    };
    Manifest {
        sealed_through: ScuNumber(5),
        sorted_through: ScuNumber(3),
        times: (1..=5)
            .map(|scu| (ScuNumber(scu), time(scu as i64 * 1_000_000)))
            .collect(),
        ..Manifest::created(database, 0)
    }
}

#[test]
fn lag_is_the_age_of_the_first_scu_that_waits() {
    let stages = lag::of_stages(&manifest(), 10_000_000);
    let columns = status::lag(&stages, false);
    let behind = columns[2].1.as_primitive::<arrow::datatypes::UInt64Type>();
    assert_eq!(behind.values(), &[0, 2, 2, 0]);
    let seconds = columns[3].1.as_primitive::<arrow::datatypes::Float64Type>();
    assert_eq!(seconds.values(), &[0.0, 6.0, 6.0, 0.0]);
}

#[test]
fn every_table_of_an_empty_database_is_empty() {
    let manifest = manifest();
    for columns in [
        producers(&manifest),
        runs(&manifest),
        scus(&manifest),
        segments(&manifest),
        tables(&manifest, 0).unwrap(),
    ] {
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        assert_eq!(rows.num_rows(), 0);
    }
}
