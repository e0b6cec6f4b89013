//! Values of all types, as text and binary, both ways.

use crate::served::Served;

const ROW: &str = "INSERT INTO t VALUES (1, true, 2, 3, 4, 1.5, 2.25, 12345.67, 'text', X'00ff', \
     '0a0b0c0d-0e0f-1011-1213-141516171819', '2013-01-02', '03:04:05.5', \
     '2013-01-02 03:04:05.000006', '2013-01-02 03:04:05+00', '1 month 2 days 3 seconds', \
     ARRAY[1, NULL, 3], 18446744073709551615)";

const TABLE: &str = "CREATE TABLE t (k INT PRIMARY KEY, b BOOLEAN, s SMALLINT, i INT, l BIGINT, \
     f REAL, d DOUBLE PRECISION, n DECIMAL(10, 2), t TEXT, y BYTEA, u UUID, dt DATE, tm TIME, \
     ts TIMESTAMP, tz TIMESTAMPTZ, iv INTERVAL, a INT[], ul BIGINT UNSIGNED)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_type_is_read_as_text_and_as_binary() {
    let served = Served::start().await;
    let client = served.client().await;
    client.batch_execute(TABLE).await.unwrap();
    client.batch_execute(ROW).await.unwrap();
    let messages = client.simple_query("SELECT * FROM t").await.unwrap();
    let row = messages.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let row = row.unwrap();
    let cells: Vec<&str> = (0..row.len()).map(|at| row.get(at).unwrap()).collect();
    assert_eq!(
        cells,
        [
            "1",
            "t",
            "2",
            "3",
            "4",
            "1.5",
            "2.25",
            "12345.67",
            "text",
            "\\x00ff",
            "0a0b0c0d-0e0f-1011-1213-141516171819",
            "2013-01-02",
            "03:04:05.5",
            "2013-01-02 03:04:05.000006",
            "2013-01-02 03:04:05+00",
            "1 mon 2 days 00:00:03",
            "{1,NULL,3}",
            "18446744073709551615",
        ]
    );
    let row = client
        .query_one("SELECT b, s, i, l, f, d, t, y, a FROM t", &[])
        .await
        .unwrap();
    assert!(row.get::<_, bool>(0));
    assert_eq!(row.get::<_, i16>(1), 2);
    assert_eq!((row.get::<_, i32>(2), row.get::<_, i64>(3)), (3, 4));
    assert_eq!((row.get::<_, f32>(4), row.get::<_, f64>(5)), (1.5, 2.25));
    assert_eq!(row.get::<_, &str>(6), "text");
    assert_eq!(row.get::<_, &[u8]>(7), [0, 255]);
    assert_eq!(row.get::<_, Vec<Option<i32>>>(8), [Some(1), None, Some(3)]);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_are_bound_as_binary() {
    let served = Served::start().await;
    let client = served.client().await;
    client.batch_execute(TABLE).await.unwrap();
    let moment = std::time::UNIX_EPOCH + std::time::Duration::from_micros(1_357_095_845_000_006);
    client
        .execute(
            "INSERT INTO t (k, b, s, i, l, f, d, t, y, ts, tz, a) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
            &[
                &2_i32,
                &false,
                &-3_i16,
                &i32::MIN,
                &i64::MAX,
                &0.1_f32,
                &-1e300_f64,
                &"it's",
                &&b"\x00\x01"[..],
                &moment,
                &moment,
                &vec![Some(7_i32), None],
            ],
        )
        .await
        .unwrap();
    let row = client
        .query_one("SELECT s, i, l, f, d, t, y, ts, a FROM t WHERE k = 2", &[])
        .await;
    let row = row.unwrap();
    assert_eq!((row.get::<_, i16>(0), row.get::<_, i32>(1)), (-3, i32::MIN));
    assert_eq!(
        (row.get::<_, i64>(2), row.get::<_, f32>(3)),
        (i64::MAX, 0.1)
    );
    assert_eq!(
        (row.get::<_, f64>(4), row.get::<_, &str>(5)),
        (-1e300, "it's")
    );
    assert_eq!(row.get::<_, &[u8]>(6), b"\x00\x01");
    assert_eq!(row.get::<_, std::time::SystemTime>(7), moment);
    assert_eq!(row.get::<_, Vec<Option<i32>>>(8), [Some(7), None]);
    let found = client
        .query(
            "SELECT k FROM t WHERE tz = $1 AND k = ANY($2)",
            &[&moment, &vec![1_i32, 2]],
        )
        .await
        .unwrap();
    assert_eq!(found.len(), 1);
    served.stop().await;
}
