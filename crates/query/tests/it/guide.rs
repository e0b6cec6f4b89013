//! The examples of `docs/user/rust.md`, which shows them as they stand here: the tests of
//! `crates/server` compare the two.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, RecordBatch, TimestampMicrosecondArray};
use lazybase_query::Database;
use tempfile::TempDir;

const TABLE: &str = "CREATE TABLE readings (sensor INT, at TIMESTAMP, value DOUBLE PRECISION, \
                     PRIMARY KEY (sensor, at))";
const ALL: &str = "SELECT * FROM readings ORDER BY sensor, at";

/// A database with the table that the examples are about.
async fn database(folder: &TempDir) -> Database {
    let database = Database::open(folder.path().join("readings.lb")).await;
    let database = database.unwrap();
    database.session().execute(TABLE).await.unwrap();
    database
}

/// Readings of these sensors, at the first moment of 2026.
fn readings(sensors: &[i32]) -> RecordBatch {
    let moments = vec![1_767_225_600_000_000; sensors.len()];
    let values = sensors.iter().map(|sensor| f64::from(*sensor) / 2.0);
    let columns: [(&str, ArrayRef); 3] = [
        ("sensor", Arc::new(Int32Array::from(sensors.to_vec()))),
        ("at", Arc::new(TimestampMicrosecondArray::from(moments))),
        ("value", Arc::new(values.collect::<Float64Array>())),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

mod open {
    use std::path::Path;

    use futures::StreamExt;
    use lazybase_query::Database;

    async fn example(folder: &Path) -> lazybase_model::Result<()> {
        let database = Database::open(folder).await?;
        let session = database.session();
        let table = "CREATE TABLE readings (sensor INT, at TIMESTAMP, value DOUBLE PRECISION,
                                            PRIMARY KEY (sensor, at))";
        session.execute(table).await?;
        let insert = "INSERT INTO readings VALUES (1, '2026-01-01', 20.5)";
        session.execute(insert).await?;

        let mut answer = session.query("SELECT * FROM readings").await?;
        while let Some(batch) = answer.next().await {
            println!("{} rows", batch?.num_rows());
        }
        println!("{}", answer.stamp().expect("a stored table was read"));
        database.close().await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn runs() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("readings.lb");
        example(&folder).await.unwrap();
        let database = Database::open(&folder).await.unwrap();
        let rows = crate::rows(&database.session(), super::ALL).await;
        assert_eq!(rows, [["1", "2026-01-01T00:00:00", "20.5"]]);
        database.close().await.unwrap();
    }
}

mod parameters {
    use lazybase_query::{Session, Value};

    async fn example(session: Session) -> lazybase_model::Result<()> {
        let add = "INSERT INTO readings VALUES ($1, $2, $3)";
        let add = session.prepare(add).await?;
        let noon = "2026-01-01 12:00:00";
        add.execute(&[1.into(), noon.into(), 20.5.into()]).await?;
        add.execute(&[2.into(), noon.into(), Value::Null]).await?;

        let find = "SELECT value FROM readings WHERE sensor = $1 AND at = $2";
        let find = session.prepare(find).await?;
        let answer = find.execute(&[1.into(), noon.into()]).await?;
        println!("{} row", answer.rows);
        Ok(())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn runs() {
        let folder = tempfile::tempdir().unwrap();
        let database = super::database(&folder).await;
        example(database.session()).await.unwrap();
        let rows = crate::rows(&database.session(), super::ALL).await;
        let noon = "2026-01-01T12:00:00";
        assert_eq!(rows, [["1", noon, "20.5"], ["2", noon, "NULL"]]);
        database.close().await.unwrap();
    }
}

mod append {
    use arrow::array::RecordBatch;
    use lazybase_query::{Database, Op};

    async fn example(
        database: Database,
        rows: RecordBatch,
        gone: RecordBatch,
    ) -> lazybase_model::Result<()> {
        let mut appender = database.appender();
        appender.append("readings", &rows, Op::Upsert).await?;
        appender.append("readings", &gone, Op::Delete).await?;
        let acknowledged = appender.commit().await?;
        println!("{} rows, token {}", acknowledged.rows, acknowledged.token);
        Ok(())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn runs() {
        let folder = tempfile::tempdir().unwrap();
        let database = super::database(&folder).await;
        let gone = super::readings(&[2]).project(&[0, 1]).unwrap();
        let rows = super::readings(&[1, 2, 3]);
        example(database.clone(), rows, gone).await.unwrap();
        let rows = crate::rows(
            &database.session(),
            "SELECT sensor, value FROM readings ORDER BY sensor",
        )
        .await;
        assert_eq!(rows, [["1", "0.5"], ["3", "1.5"]]);
        database.close().await.unwrap();
    }
}

mod once {
    use arrow::array::RecordBatch;
    use lazybase_cluster::BatchNumber;
    use lazybase_query::{Database, Op};

    async fn example(database: Database, rows: RecordBatch) -> lazybase_model::Result<u64> {
        let (epoch, mark) = database.instance().open_producer("gateway-7").await?;
        let number = mark.map_or(1, |mark| mark.number + 1);
        let batch = BatchNumber {
            name: "gateway-7".to_owned(),
            epoch,
            number,
        };
        let mut appender = database.producer_appender(batch);
        appender.append("readings", &rows, Op::Upsert).await?;
        appender.commit().await?;
        Ok(number)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn runs() {
        let folder = tempfile::tempdir().unwrap();
        let database = super::database(&folder).await;
        for number in 1..=2 {
            let rows = super::readings(&[number]);
            let taken = example(database.clone(), rows).await.unwrap();
            assert_eq!(taken, number as u64);
        }
        let rows = crate::rows(&database.session(), "SELECT count(*) FROM readings").await;
        assert_eq!(rows, [["2"]]);
        database.close().await.unwrap();
    }
}
