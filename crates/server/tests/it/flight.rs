//! A client of Arrow Flight SQL.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::sql::{
    CommandStatementIngest, TableDefinitionOptions, TableExistsOption, TableNotExistOption,
};
use futures::stream;
use tonic::transport::{Channel, Endpoint};

use crate::server::Server;

pub(crate) type FlightClient = FlightSqlServiceClient<Channel>;

/// Connects a client that keeps no session.
pub(crate) async fn connect(server: &Server) -> FlightClient {
    let told = server.line("Arrow Flight SQL clients: ");
    let (_, address) = told.split_once("grpc://").unwrap();
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    FlightSqlServiceClient::new(endpoint.connect().await.unwrap())
}

/// Rows of `k BIGINT, v TEXT`.
pub(crate) fn rows(keys: Range<i64>) -> RecordBatch {
    let values: StringArray = keys.clone().map(|k| Some(format!("secret {k}"))).collect();
    let keys: ArrayRef = Arc::new(keys.collect::<Int64Array>());
    let columns = [("k", keys), ("v", Arc::new(values) as ArrayRef)];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// Puts rows into a table that is there, as one batch; how many were taken.
pub(crate) async fn put(client: &mut FlightClient, table: &str, rows: RecordBatch) -> i64 {
    let command = CommandStatementIngest {
        table_definition_options: Some(TableDefinitionOptions {
            if_not_exist: TableNotExistOption::Fail.into(),
            if_exists: TableExistsOption::Append.into(),
        }),
        table: table.to_owned(),
        ..CommandStatementIngest::default()
    };
    let taken = client.execute_ingest(command, stream::iter([Ok(rows)]));
    taken.await.unwrap()
}
