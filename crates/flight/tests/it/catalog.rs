//! Catalog commands: what there is, and what the server says of itself.

use arrow::array::AsArray;
use arrow::datatypes::Schema;
use arrow_flight::IpcMessage;
use arrow_flight::sql::{
    CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, CommandGetTables, CommandGetXdbcTypeInfo, SqlInfo,
};

use crate::served::{Served, fetch};

#[tokio::test]
async fn names_are_listed_and_filtered() {
    let served = Served::start().await;
    served
        .sql(
            "CREATE TABLE orders (id BIGINT, item TEXT NOT NULL, PRIMARY KEY (id, item)); \
              CREATE TABLE keyless (v INT); \
              CREATE MATERIALIZED VIEW by_item AS SELECT item, id FROM orders ORDER BY item, id; \
              CREATE VIEW few AS SELECT id AS number FROM orders WHERE id < 3",
        )
        .await;
    let mut client = served.client().await;
    let info = client.get_catalogs().await.unwrap();
    assert_eq!(fetch(&mut client, &info).await.unwrap().text(), "lazybase");
    let asked = CommandGetDbSchemas {
        db_schema_filter_pattern: Some("pub%".to_owned()),
        ..CommandGetDbSchemas::default()
    };
    let info = client.get_db_schemas(asked).await.unwrap();
    assert_eq!(
        fetch(&mut client, &info).await.unwrap().text(),
        "lazybase public"
    );
    let info = client.get_table_types().await.unwrap();
    let kinds = fetch(&mut client, &info).await.unwrap().text();
    assert!(kinds.contains("TABLE") && kinds.contains("VIEW"), "{kinds}");

    let asked = CommandGetTables {
        db_schema_filter_pattern: Some("public".to_owned()),
        ..CommandGetTables::default()
    };
    let info = client.get_tables(asked.clone()).await.unwrap();
    let tables = fetch(&mut client, &info).await.unwrap().text();
    for expected in [
        "lazybase public keyless TABLE",
        "lazybase public orders TABLE",
        "lazybase public few VIEW",
    ] {
        assert!(tables.contains(expected), "{tables}");
    }
    let of_views = CommandGetTables {
        table_name_filter_pattern: Some("few".to_owned()),
        table_types: vec!["VIEW".to_owned()],
        include_schema: true,
        ..asked.clone()
    };
    let info = client.get_tables(of_views).await.unwrap();
    let got = fetch(&mut client, &info).await.unwrap();
    let bytes = got.rows[0].column(4).as_binary::<i32>().value(0).to_vec();
    let schema = Schema::try_from(IpcMessage(bytes.into())).unwrap();
    assert_eq!(schema.field(0).name(), "number");
    let asked = CommandGetTables {
        table_name_filter_pattern: Some("orders".to_owned()),
        table_types: vec!["TABLE".to_owned()],
        include_schema: true,
        ..asked
    };
    let info = client.get_tables(asked).await.unwrap();
    let got = fetch(&mut client, &info).await.unwrap();
    assert_eq!(got.rows[0].num_rows(), 1);
    let bytes = got.rows[0].column(4).as_binary::<i32>().value(0).to_vec();
    let schema = Schema::try_from(IpcMessage(bytes.into())).unwrap();
    let names: Vec<&str> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    assert_eq!(names, ["id", "item"]);
    // All of it, system tables and their columns, too.
    let all = CommandGetTables {
        include_schema: true,
        ..CommandGetTables::default()
    };
    let info = client.get_tables(all).await.unwrap();
    let got = fetch(&mut client, &info).await.unwrap();
    assert!(got.last["rows"].as_u64().unwrap() > 10);
    served.stop().await;
}

#[tokio::test]
async fn keys_are_told() {
    let served = Served::start().await;
    served
        .sql("CREATE TABLE t (a INT, b INT, c INT, PRIMARY KEY (b, a)); CREATE TABLE u (v INT)")
        .await;
    let mut client = served.client().await;
    for (table, expected) in [
        (
            "t",
            "lazybase public t b t_pkey 1; lazybase public t a t_pkey 2",
        ),
        ("u", ""),
        ("nothing", ""),
    ] {
        let asked = CommandGetPrimaryKeys {
            table: table.to_owned(),
            ..CommandGetPrimaryKeys::default()
        };
        let info = client.get_primary_keys(asked).await.unwrap();
        let got = fetch(&mut client, &info).await.unwrap();
        assert_eq!(got.text(), expected, "{table}");
    }
    let table = "t".to_owned();
    let exported = CommandGetExportedKeys {
        table: table.clone(),
        ..CommandGetExportedKeys::default()
    };
    let imported = CommandGetImportedKeys {
        table: table.clone(),
        ..CommandGetImportedKeys::default()
    };
    let cross = CommandGetCrossReference {
        pk_table: table.clone(),
        fk_table: table,
        ..CommandGetCrossReference::default()
    };
    for info in [
        client.get_exported_keys(exported).await.unwrap(),
        client.get_imported_keys(imported).await.unwrap(),
        client.get_cross_reference(cross).await.unwrap(),
    ] {
        let schema = info.clone().try_decode_schema().unwrap();
        assert_eq!(schema.fields().len(), 13);
        assert!(fetch(&mut client, &info).await.unwrap().rows.is_empty());
    }
    served.stop().await;
}

#[tokio::test]
async fn the_server_tells_what_it_can_do() {
    let served = Served::start().await;
    let mut client = served.client().await;
    let asked = vec![
        SqlInfo::FlightSqlServerName,
        SqlInfo::FlightSqlServerBulkIngestion,
    ];
    let info = client.get_sql_info(asked).await.unwrap();
    let got = fetch(&mut client, &info).await.unwrap().text();
    assert!(got.contains("LazyBase") && got.contains("true"), "{got}");
    let info = client.get_sql_info(Vec::new()).await.unwrap();
    assert!(
        fetch(&mut client, &info).await.unwrap().last["rows"]
            .as_u64()
            .unwrap()
            > 25
    );
    for (data_type, least) in [(None, 15), (Some(-5), 2)] {
        let asked = CommandGetXdbcTypeInfo { data_type };
        let info = client.get_xdbc_type_info(asked).await.unwrap();
        let got = fetch(&mut client, &info).await.unwrap();
        assert!(got.rows[0].num_rows() >= least, "{data_type:?}");
    }
    served.stop().await;
}
