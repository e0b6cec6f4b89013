//! The statements of YCSB's clients for PostgreSQL, to the letter: prepared once, no types
//! declared, texts in and out. One of the clients itself is driven by `tests/clients/run`.

use tokio_postgres::types::Type;

use crate::served::Served;

fn fields() -> Vec<String> {
    (0..10).map(|at| format!("field{at}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_statements_of_clients_work() {
    let served = Served::start().await;
    let client = served.client().await;
    let columns: Vec<String> = (0..10)
        .map(|at| format!("FIELD{at} VARCHAR(100)"))
        .collect();
    let create = format!(
        "CREATE TABLE IF NOT EXISTS usertable (YCSB_KEY VARCHAR(64) PRIMARY KEY, {});",
        columns.join(", ")
    );
    client.batch_execute(&create).await.unwrap();
    client.batch_execute(&create).await.unwrap();
    let places: Vec<String> = (1..=11).map(|at| format!("${at} ")).collect();
    let insert = client
        .prepare(&format!(
            "INSERT INTO usertable (YCSB_KEY ,{}) VALUES ({}) ON CONFLICT DO NOTHING",
            fields().join(" ,"),
            places.join(",")
        ))
        .await
        .unwrap();
    let is_text = |known: &Type| matches!(*known, Type::TEXT | Type::VARCHAR);
    assert!(insert.params().len() == 11 && insert.params().iter().all(is_text));
    for key in ["user3", "user1", "user2", "user3"] {
        let values: Vec<String> = (0..10).map(|at| format!("{key}-{at}")).collect();
        let mut parameters: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> = vec![&key];
        for value in &values {
            parameters.push(value);
        }
        assert_eq!(client.execute(&insert, &parameters).await.unwrap(), 1);
    }
    let all = fields().join(",");
    let read = client
        .prepare(&format!("SELECT {all} FROM usertable WHERE YCSB_KEY = $1"))
        .await
        .unwrap();
    assert!(read.params().iter().all(is_text));
    let row = client.query_one(&read, &[&"user2"]).await.unwrap();
    assert_eq!(row.get::<_, &str>("field9"), "user2-9");
    assert!(client.query(&read, &[&"nobody"]).await.unwrap().is_empty());
    let scan = client
        .prepare(&format!(
            "SELECT {all} FROM usertable WHERE YCSB_KEY >= $1 LIMIT $2"
        ))
        .await
        .unwrap();
    assert!(is_text(&scan.params()[0]));
    assert_eq!(scan.params()[1], Type::INT8);
    let rows = client.query(&scan, &[&"user1", &2_i64]).await.unwrap();
    let first: Vec<&str> = rows.iter().map(|row| row.get("field0")).collect();
    assert_eq!(first, ["user1-0", "user2-0"]);
    let update = client
        .prepare("UPDATE usertable SET field8 = $1 WHERE YCSB_KEY = $2")
        .await
        .unwrap();
    assert!(update.params().iter().all(is_text));
    assert_eq!(
        client.execute(&update, &[&"new", &"user1"]).await.unwrap(),
        1
    );
    let row = client.query_one(&read, &[&"user1"]).await.unwrap();
    assert_eq!(row.get::<_, &str>("field8"), "new");
    let delete = client
        .prepare("DELETE FROM usertable WHERE YCSB_KEY = $1")
        .await
        .unwrap();
    assert_eq!(client.execute(&delete, &[&"user1"]).await.unwrap(), 1);
    assert!(client.query(&read, &[&"user1"]).await.unwrap().is_empty());
    served.stop().await;
}
