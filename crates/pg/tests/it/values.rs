//! Values of all types, as text and binary, both ways.

use crate::raw::Raw;
use crate::served::{Served, cells, sqlstate};

const ROW: &str = "INSERT INTO t VALUES (1, true, 2, 3, 4, 1.5, 2.25, 12345.67, 'text', X'00ff', \
     '0a0b0c0d-0e0f-1011-1213-141516171819', '2013-01-02', '03:04:05.5', \
     '2013-01-02 03:04:05.000006', '2013-01-02 03:04:05+00', '1 month 2 days 3 seconds', \
     ARRAY[1, NULL, 3], 18446744073709551615, -128, '{\"a\": 1}', \
     '2013-01-02 03:04:05.000000006', '03:04:05.000000006')";

const TABLE: &str = "CREATE TABLE t (k INT PRIMARY KEY, b BOOLEAN, s SMALLINT, i INT, l BIGINT, \
     f REAL, d DOUBLE PRECISION, n DECIMAL(10, 2), t TEXT, y BYTEA, u UUID, dt DATE, tm TIME, \
     ts TIMESTAMP, tz TIMESTAMPTZ, iv INTERVAL, a INT[], ul BIGINT UNSIGNED, \
     ti TINYINT, j JSON, ns TIMESTAMP(9), tn TIME(9))";

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
            "-128",
            "{\"a\": 1}",
            "2013-01-02 03:04:05.000000006",
            "03:04:05.000000006",
        ]
    );
    let row = client
        .query_one("SELECT b, s, i, l, f, d, t, y, a, ti FROM t", &[])
        .await
        .unwrap();
    assert!(row.get::<_, bool>(0));
    assert_eq!(row.get::<_, i16>(1), 2);
    assert_eq!((row.get::<_, i32>(2), row.get::<_, i64>(3)), (3, 4));
    assert_eq!((row.get::<_, f32>(4), row.get::<_, f64>(5)), (1.5, 2.25));
    assert_eq!(row.get::<_, &str>(6), "text");
    assert_eq!(row.get::<_, &[u8]>(7), [0, 255]);
    assert_eq!(row.get::<_, Vec<Option<i32>>>(8), [Some(1), None, Some(3)]);
    assert_eq!(row.get::<_, i16>(9), -128);
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

/// `$1::type` says what the client is to send, as asyncpg and others rely on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cast_says_the_type_of_its_parameter() {
    use tokio_postgres::types::Type;
    let served = Served::start().await;
    let client = served.client().await;
    client
        .batch_execute("CREATE TABLE c (k INT PRIMARY KEY, t TEXT)")
        .await
        .unwrap();
    client
        .batch_execute("INSERT INTO c VALUES (5, 'five'), (6, 'six')")
        .await
        .unwrap();
    let list = client
        .prepare("SELECT k FROM c WHERE k = ANY($1::int[]) AND t = ANY($2::text[])")
        .await
        .unwrap();
    assert_eq!(list.params(), [Type::INT4_ARRAY, Type::TEXT_ARRAY]);
    let found = client
        .query(&list, &[&vec![5_i32, 6], &vec!["six"]])
        .await
        .unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].get::<_, i32>(0), 6);
    let number = client
        .prepare("SELECT $1::bigint + 1, $2::varchar")
        .await
        .unwrap();
    assert_eq!(number.params(), [Type::INT8, Type::TEXT]);
    let found = client.query_one(&number, &[&41_i64, &"a"]).await.unwrap();
    assert_eq!(found.get::<_, i64>(0), 42);
    served.stop().await;
}

/// Clients spell UUIDs as they like, alone and in lists, and are told of UUIDs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uuids_are_found_in_any_spelling() {
    use tokio_postgres::types::Type;
    let served = Served::start().await;
    let client = served.client().await;
    client
        .batch_execute("CREATE TABLE u (k INT PRIMARY KEY, id UUID, note TEXT)")
        .await
        .unwrap();
    client
        .batch_execute(
            "INSERT INTO u (k, id) VALUES (1, '0a0b0c0d-0e0f-1011-1213-141516171819'),
                (2, '0a0b0c0d-0e0f-1011-1213-141516171820'), (3, NULL)",
        )
        .await
        .unwrap();
    for (sql, of) in [
        ("SELECT k FROM u WHERE id = $1", Type::UUID),
        ("SELECT k FROM u WHERE id = ANY($1)", Type::UUID_ARRAY),
        (
            "SELECT k FROM u WHERE id = ANY($1::uuid[])",
            Type::UUID_ARRAY,
        ),
        ("SELECT k FROM u WHERE note = ANY($1)", Type::TEXT_ARRAY),
    ] {
        assert_eq!(client.prepare(sql).await.unwrap().params(), [of], "{sql}");
    }
    let cast = client
        .prepare("SELECT $1::uuid, $2::uuid[], id::uuid FROM u")
        .await
        .unwrap();
    let told = cast
        .columns()
        .iter()
        .map(|column| (column.name(), column.type_()));
    let told: Vec<_> = told.collect();
    assert_eq!(
        told,
        [
            ("uuid", &Type::UUID),
            ("uuid", &Type::UUID_ARRAY),
            ("id", &Type::UUID),
        ]
    );
    let named = client
        .prepare("SELECT indrelid::regclass, 'u'::regclass FROM pg_index")
        .await
        .unwrap();
    let names: Vec<&str> = named.columns().iter().map(|column| column.name()).collect();
    assert_eq!(names, ["indrelid", "regclass"]);
    let mut raw = Raw::new(&served).await;
    for (sql, of, value, rows) in [
        ("id = $1", 2950_u32, "0A0B0C0D0E0F10111213141516171819", 1),
        (
            "id = ANY($1)",
            2951,
            "{0a0b0c0d0e0f10111213141516171819}",
            1,
        ),
        (
            "id = ANY($1::uuid[])",
            2951,
            "{0A0B0C0D0E0F10111213141516171820,0a0b0c0d0e0f10111213141516171819}",
            2,
        ),
        (
            "id <> ALL($1)",
            2951,
            "{0a0b0c0d0e0f10111213141516171819}",
            1,
        ),
    ] {
        let mut parse = format!("\0SELECT k FROM u WHERE {sql}\0\0\x01").into_bytes();
        parse.extend_from_slice(&of.to_be_bytes());
        let mut bind = b"\0\0\0\0\0\x01".to_vec();
        bind.extend_from_slice(&(value.len() as u32).to_be_bytes());
        bind.extend_from_slice(value.as_bytes());
        bind.extend_from_slice(&[0, 0]);
        raw.put(b'P', &parse).put(b'B', &bind).execute("", 0).sync();
        let told = raw.ready().await;
        assert_eq!(told.rows().len(), rows, "{sql}: {told:?}");
    }
    served.stop().await;
}

/// A value in its binary form, as the server sent it.
struct Sent(Vec<u8>);

impl tokio_postgres::types::FromSql<'_> for Sent {
    fn from_sql(
        _: &tokio_postgres::types::Type,
        raw: &[u8],
    ) -> Result<Sent, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Sent(raw.to_vec()))
    }

    fn accepts(_: &tokio_postgres::types::Type) -> bool {
        true
    }
}

/// Between two moments lie days and a time of day, in every form.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moments_give_intervals_and_moments_of_other_zones() {
    use tokio_postgres::types::Type;
    let served = Served::start().await;
    let client = served.client().await;
    client
        .batch_execute(
            "CREATE TABLE stays (k INT PRIMARY KEY, came TIMESTAMP, went TIMESTAMP,
                day DATE, tz TIMESTAMPTZ);
             INSERT INTO stays VALUES (1, '2024-01-15 10:20:30', '2024-02-13 11:50:30',
                '2024-01-31', '2024-01-15 23:30:00+00')",
        )
        .await
        .unwrap();
    let sql = "SELECT went - came, array_agg(went - came), INTERVAL '-1 day 2 hours' \
               FROM stays GROUP BY went, came";
    assert_eq!(
        cells(&client, sql).await,
        [[
            "29 days 01:30:00",
            "{\"29 days 01:30:00\"}",
            "-1 days +02:00:00"
        ]]
    );
    let row = client.query_one(sql, &[]).await.unwrap();
    assert_eq!(*row.columns()[0].type_(), Type::INTERVAL);
    let sent: Sent = row.get(0);
    let micros = 5_400_000_000_i64.to_be_bytes();
    let expected = [&micros[..], &29_i32.to_be_bytes(), &0_i32.to_be_bytes()].concat();
    assert_eq!(sent.0, expected);
    let prepared = client
        .prepare(
            "SELECT tz AT TIME ZONE 'Europe/Berlin', came AT TIME ZONE 'Europe/Berlin', \
             day + INTERVAL '1 hour', day + 1, extract(second FROM came), \
             came::TIMESTAMPTZ FROM stays",
        )
        .await
        .unwrap();
    let types: Vec<&Type> = prepared.columns().iter().map(|of| of.type_()).collect();
    assert_eq!(
        types,
        [
            &Type::TIMESTAMP,
            &Type::TIMESTAMPTZ,
            &Type::TIMESTAMP,
            &Type::DATE,
            &Type::FLOAT8,
            &Type::TIMESTAMPTZ,
        ]
    );
    let shown = "SELECT tz AT TIME ZONE 'Europe/Berlin', came AT TIME ZONE 'Europe/Berlin' \
                 FROM stays";
    assert_eq!(
        cells(&client, shown).await,
        [["2024-01-16 00:30:00", "2024-01-15 09:20:30+00"]]
    );
    served.stop().await;
}

/// Drivers that send values in their binary form ask the server which.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parameter_has_the_type_of_what_it_stands_beside() {
    use tokio_postgres::types::Type;
    let served = Served::start().await;
    let client = served.client().await;
    client
        .batch_execute(
            "CREATE TABLE p (k INT PRIMARY KEY, n BIGINT, d DOUBLE PRECISION, note TEXT,
                at TIMESTAMP, day DATE, done BOOLEAN, tags TEXT[])",
        )
        .await
        .unwrap();
    for (sql, types) in [
        ("coalesce(n, $1) > 0", &[Type::INT8][..]),
        ("coalesce($1, d) > 0", &[Type::FLOAT8]),
        ("nullif(note, $1) IS NULL", &[Type::TEXT]),
        (
            "greatest($1, at, $2) = at",
            &[Type::TIMESTAMP, Type::TIMESTAMP],
        ),
        (
            "CASE WHEN $1 THEN n ELSE $2 END = 1",
            &[Type::BOOL, Type::INT8],
        ),
        (
            "CASE k WHEN $1 THEN day ELSE $2 END = day",
            &[Type::INT4, Type::DATE],
        ),
        ("NOT $1 OR done", &[Type::BOOL]),
        ("$1 AND done", &[Type::BOOL]),
        ("at + $1 > at", &[Type::INTERVAL]),
        ("$1 = ANY (tags)", &[Type::TEXT]),
        ("tags[$1] = 'a'", &[Type::INT8]),
        ("$1 IS NULL OR n = $1", &[Type::INT8]),
        ("n = $1 OR $1 IS NULL", &[Type::INT8]),
        ("left(note, $1) = $2", &[Type::INT8, Type::TEXT]),
        ("k = $1 AND n = $1", &[Type::INT4]),
    ] {
        let statement = format!("SELECT k FROM p WHERE {sql}");
        let prepared = client.prepare(&statement).await;
        let prepared = prepared.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        assert_eq!(prepared.params(), types, "{sql}");
    }
    client
        .batch_execute("INSERT INTO p (k, n, at) VALUES (1, NULL, '2024-01-01'), (2, 5, NULL)")
        .await
        .unwrap();
    let counted = "SELECT count(*) FROM p WHERE coalesce(n, $1) = 5 AND ($2 IS NULL OR k = $2)";
    for (k, rows) in [(None, 2), (Some(1_i32), 1)] {
        let found = client.query_one(counted, &[&5_i64, &k]).await.unwrap();
        assert_eq!(found.get::<_, i64>(0), rows);
    }
    served.stop().await;
}

/// What a query gives is told before anybody says which keys are meant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn natural_keys_are_parameters() {
    let served = Served::start().await;
    let client = served.client().await;
    client
        .batch_execute(
            "CREATE TABLE files (id IDKEY, host TEXT, path TEXT, PRIMARY KEY (host, path));
             CREATE TABLE sizes (file IDKEY REFERENCES files, at INT, size BIGINT,
                PRIMARY KEY (file, at));",
        )
        .await
        .unwrap();
    client
        .batch_execute(
            "INSERT INTO sizes VALUES (IDKEY('a', '/x'), 1, 10), (IDKEY('b', '/x'), 1, 20)",
        )
        .await
        .unwrap();
    for sql in [
        "SELECT size FROM sizes WHERE file = IDKEY($1, $2)",
        "SELECT size FROM sizes WHERE file IN (IDKEY($1, $2))",
    ] {
        let found = client.query_one(sql, &[&"b", &"/x"]).await;
        let found = found.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        assert_eq!(found.get::<_, i64>(0), 20);
        assert!(client.query(sql, &[&"c", &"/x"]).await.unwrap().is_empty());
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_of_nested_types_are_sent_as_json() {
    let served = Served::start().await;
    let client = served.client().await;
    for (value, shown) in [
        ("map(['a'], [1])", "{\"a\":1}"),
        (
            "arrow_cast([[1], [NULL]], 'LargeList(List(Int64))')",
            "[[1],[null]]",
        ),
        (
            "arrow_cast([[1, 2]], 'FixedSizeList(1, List(Int64))')",
            "[[1,2]]",
        ),
        (
            "named_struct('n', 1, 't', 'a\"b')",
            "{\"n\":1,\"t\":\"a\\\"b\"}",
        ),
        (
            "[named_struct('x', CAST('NaN' AS DOUBLE))]",
            "[{\"x\":\"NaN\"}]",
        ),
    ] {
        let sql = format!("SELECT {value}");
        assert_eq!(cells(&client, &sql).await, [[shown]], "{value}");
        let row = client.query_one(&sql, &[]).await;
        row.unwrap_or_else(|error| panic!("{value}: {error:?}"));
    }
    // JSON has no keys that are numbers: then it is shown in another way.
    let other = cells(&client, "SELECT map([1], [2])").await;
    assert!(other[0][0].contains('1'), "{other:?}");
    served.stop().await;
}

/// What a client's type can't hold is an error, and never NULL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_that_do_not_fit_are_errors() {
    let served = Served::start().await;
    let client = served.client().await;
    let late = "SELECT arrow_cast(9223372036854775807, 'Timestamp(Second, None)') AS late";
    assert_eq!(sqlstate(client.query(late, &[]).await), "22008");
    assert_eq!(sqlstate(client.simple_query(late).await), "22008");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decimal_numbers_keep_their_digits() {
    let served = Served::with("CREATE TABLE n (k INT PRIMARY KEY, n DECIMAL(38, 18))").await;
    let client = served.client().await;
    client
        .batch_execute("INSERT INTO n VALUES (1, '12345678901234567890.123456789012345678')")
        .await
        .unwrap();
    let mut raw = Raw::new(&served).await;
    let mut asked = async |sql: &str, oid: u32, value: &str| {
        let mut parse = format!("\0{sql}\0\0\x01").into_bytes();
        parse.extend_from_slice(&oid.to_be_bytes());
        let mut bind = b"\0\0\0\0\0\x01".to_vec();
        bind.extend_from_slice(&(value.len() as u32).to_be_bytes());
        bind.extend_from_slice(value.as_bytes());
        bind.extend_from_slice(&[0, 0]);
        raw.put(b'P', &parse).put(b'B', &bind).execute("", 0).sync();
        let told = raw.ready().await;
        match told.errors(b'C').pop() {
            Some(error) => error,
            None => told
                .rows()
                .first()
                .map_or(String::new(), |row| row[0].clone()),
        }
    };
    let whole = "12345678901234567890.123456789012345678";
    assert_eq!(
        asked("SELECT k FROM n WHERE n = $1", 1700, whole).await,
        "1"
    );
    let near = "12345678901234567890.123456789012345679";
    assert_eq!(asked("SELECT k FROM n WHERE n = $1", 1700, near).await, "");
    assert_eq!(asked("SELECT $1", 1700, whole).await, whole);
    assert_eq!(asked("SELECT $1", 1700, "-0.10").await, "-0.10");
    assert_eq!(asked("SELECT $1", 1700, "1.5e3").await, "1500");
    assert_eq!(asked("SELECT $1 + 1", 1700, "2e-3").await, "1.002");
    assert_eq!(asked("SELECT $1", 1700, "1e100").await, "22003");
    let least = format!("1e{}", i32::MIN);
    assert_eq!(asked("SELECT $1", 1700, &least).await, "22P02");
    assert_eq!(asked("SELECT $1", 701, "1e400").await, "22003");
    assert_eq!(asked("SELECT $1", 700, "1e40").await, "22003");
    assert_eq!(asked("SELECT $1", 701, "Infinity").await, "Infinity");
    assert_eq!(asked("SELECT $1", 20, "9223372036854775808").await, "22003");
    assert_eq!(
        asked("SELECT $1", 1186, "1 mon 00:00:03").await,
        "1 mon 00:00:03"
    );
    served.stop().await;
}

/// Beside a decimal a constant with a point is one, and a parameter what it was declared to be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_beside_decimals_keep_their_types() {
    use tokio_postgres::types::Type;
    let served = Served::with("CREATE TABLE d (k INT PRIMARY KEY, p DECIMAL(10, 2))").await;
    let client = served.client().await;
    let insert = "INSERT INTO d VALUES (1, 1.25)";
    client.batch_execute(insert).await.unwrap();
    let sql = "SELECT p * $1, p * 1.1 FROM d";
    let statement = client.prepare_typed(sql, &[Type::FLOAT8]).await.unwrap();
    let columns = statement.columns().iter();
    let types: Vec<&Type> = columns.map(|column| column.type_()).collect();
    assert_eq!(types, [&Type::FLOAT8, &Type::NUMERIC]);
    let row = client.query_one(&statement, &[&1.1_f64]).await.unwrap();
    assert_eq!(row.get::<_, f64>(0), 1.25 * 1.1);
    assert_eq!(cells(&client, "SELECT p * 1.1 FROM d").await, [["1.375"]]);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_has_as_many_columns_as_clients_take() {
    let served = Served::start().await;
    let client = served.client().await;
    let select = |count: usize| {
        let columns: Vec<String> = (0..count).map(|at| format!("1 AS c{at}")).collect();
        format!("SELECT {}", columns.join(", "))
    };
    assert_eq!(sqlstate(client.simple_query(&select(1665)).await), "54011");
    assert_eq!(cells(&client, &select(1664)).await[0].len(), 1664);
    served.stop().await;
}
