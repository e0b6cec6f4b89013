//! The rows of the complex schema go through the stages that the benchmark runs one by one.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use lazybase_query::{Database, Session};

use super::stages;
use super::world::{ATTRIBUTES, World};
use crate::data::Seeded;

async fn count(session: &Session, from: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {from}");
    let answers = session.execute(&sql).await.unwrap();
    let rows = &answers[0].batches[0];
    rows.column(0).as_primitive::<Int64Type>().value(0)
}

#[test]
fn rows_keep_their_keys_through_each_stage() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::create(folder.path(), true).unwrap();
    let mut seeded = Seeded::new(1);
    // Half of the keys of the second SCU are known from the first.
    for keys in [0..40, 20..60] {
        world.ingest(keys, &mut seeded).unwrap();
        world.remap().unwrap();
        stages::rewrite(&world).unwrap();
        world.sort().unwrap();
        world.settle().unwrap();
    }
    world.close().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let database = Database::open(folder.path()).await.unwrap();
        let session = database.session();
        let values = 60 * ATTRIBUTES as i64;
        for (from, rows) in [
            ("test_id", 60),
            ("test_id_by_id", 60),
            ("test_one", 60),
            ("test_one_by_text", 60),
            ("test_two", values),
            ("test_two_by_value", values),
            (
                "test_two JOIN test_one USING (id) JOIN test_id USING (id)",
                values,
            ),
        ] {
            assert_eq!(count(&session, from).await, rows, "{from}");
        }
        drop(session);
        database.close().await.unwrap();
    });
}
