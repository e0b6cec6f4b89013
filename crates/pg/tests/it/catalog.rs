//! What clients ask of PostgreSQL's own tables.

use crate::served::{Served, cells};

/// What SQLAlchemy, pgJDBC, pgcli and dbt prepare, as recorded.
const PREPARED: &str = include_str!("catalog/prepared.sql");

/// What psql sends for `\dt`, `\d`, `\d ct` and `\l`, and SQLAlchemy as it reflects, as recorded.
const RECORDED: &str = include_str!("catalog/recorded.sql");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_statements_are_answered() {
    let served = Served::start().await;
    let client = served.client().await;
    client
        .batch_execute(
            "CREATE TABLE ct (id BIGINT PRIMARY KEY, v VARCHAR(20) DEFAULT 'x', n DECIMAL(8, 2));
             COMMENT ON TABLE ct IS 'things'",
        )
        .await
        .unwrap();
    let oid = cells(&client, "SELECT 'ct'::regclass::oid").await[0][0].clone();
    let mut failed = Vec::new();
    for statement in RECORDED.split(";\n") {
        let sql = statement.replace("16404", &oid);
        if sql.trim().is_empty() {
            continue;
        }
        if let Err(error) = client.simple_query(&sql).await {
            let told = error.as_db_error().map_or(error.to_string(), |told| {
                format!("{}: {}", told.code().code(), told.message())
            });
            failed.push(format!("{told}\n{sql}\n"));
        }
    }
    for statement in PREPARED.split(";\n") {
        if statement.trim().is_empty() {
            continue;
        }
        if let Err(error) = client.prepare(statement).await {
            let told = error.as_db_error().map_or(error.to_string(), |told| {
                format!("{}: {}", told.code().code(), told.message())
            });
            failed.push(format!("{told}\n{statement}\n"));
        }
    }
    assert!(
        failed.is_empty(),
        "{} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_columns_and_keys_are_described() {
    let served = Served::start().await;
    let client = served.client().await;
    client
        .batch_execute(
            "CREATE TABLE ct (id BIGINT, part TEXT, v VARCHAR(20) DEFAULT 'x', n DECIMAL(8, 2), \
             a INT[], PRIMARY KEY (part, id))",
        )
        .await
        .unwrap();
    let named = "SELECT c.relname, c.relkind, n.nspname FROM pg_class c \
                 JOIN pg_namespace n ON n.oid = c.relnamespace ORDER BY 1";
    assert_eq!(
        cells(&client, named).await,
        [["ct", "r", "public"], ["ct_pkey", "i", "public"]]
    );
    let columns = "SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull \
                   FROM pg_catalog.pg_attribute a \
                   WHERE a.attrelid = 'ct'::regclass ORDER BY a.attnum";
    assert_eq!(
        cells(&client, columns).await,
        [
            ["id", "bigint", "t"],
            ["part", "text", "t"],
            ["v", "character varying(20)", "f"],
            ["n", "numeric(8,2)", "f"],
            ["a", "integer[]", "f"],
        ]
    );
    let key = "SELECT conname, pg_get_constraintdef(oid), conrelid::regclass, conkey \
               FROM pg_constraint";
    assert_eq!(
        cells(&client, key).await,
        [["ct_pkey", "PRIMARY KEY (part, id)", "ct", "{2,1}"]]
    );
    served.stop().await;
}
