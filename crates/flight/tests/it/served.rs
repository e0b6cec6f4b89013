//! A server on a port of its own, over a database in a temporary folder, and a client for it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::Int64Type;
use arrow::util::pretty::pretty_format_batches;
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::sql::{
    CommandStatementIngest, TableDefinitionOptions, TableExistsOption, TableNotExistOption,
};
use arrow_flight::{FlightData, FlightInfo, Ticket};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use lazybase_flight::{Options, Server};
use lazybase_query::{Database, OpenOptions};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::held;

pub(crate) type Client = FlightSqlServiceClient<Channel>;

/// A running server.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) database: Database,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
    folder: TempDir,
}

impl Served {
    pub(crate) async fn start() -> Served {
        Served::start_with(Options::default()).await
    }

    pub(crate) async fn start_with(options: Options) -> Served {
        Served::start_over(OpenOptions::default(), options).await
    }

    /// A server over a database that is opened in some way; with small log files, which are filled
    /// with zeros ahead of time.
    pub(crate) async fn start_over(mut open: OpenOptions, options: Options) -> Served {
        open.settings.log_file_bytes = 1 << 20;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let database = Database::open_with(path, open).await.unwrap();
        let address = "127.0.0.1:0".parse().unwrap();
        let server = Server::bind(database.clone(), address, options)
            .await
            .unwrap();
        let address = server.address();
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(server.serve(async {
            drop(stopped.await);
        }));
        Served {
            address,
            database,
            stop: Some(stop),
            serving,
            folder,
        }
    }

    pub(crate) async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        endpoint.connect().await.unwrap()
    }

    /// A client without a session.
    pub(crate) async fn client(&self) -> Client {
        Client::new(self.channel().await)
    }

    /// A client with a session.
    pub(crate) async fn named(&self) -> Client {
        let mut client = self.client().await;
        client.handshake("somebody", "").await.unwrap();
        client
    }

    /// Runs statements past the server.
    pub(crate) async fn sql(&self, sql: &str) {
        self.database.session().execute(sql).await.unwrap();
    }

    /// The rows of a query, past the server.
    pub(crate) async fn read(&self, sql: &str) -> String {
        let answers = self.database.session().execute(sql).await.unwrap();
        pretty(&answers[0].batches)
    }

    /// Waits until no statement holds files or memory, or has temporary files.
    pub(crate) async fn until_nothing_is_held(&self) {
        held::until_nothing_is_held(&self.database, &self.folder.path().join("db")).await;
    }

    /// Waits until some statement has temporary files.
    pub(crate) async fn until_spilt(&self) {
        held::until_spilt(&self.folder.path().join("db")).await;
    }

    pub(crate) fn tell_to_stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// Stops the server and closes the database.
    pub(crate) async fn stop(mut self) {
        if self.stop.is_some() {
            self.tell_to_stop();
        }
        (&mut self.serving).await.unwrap();
        self.database.close().await.unwrap();
    }
}

/// Rows, a line each, without the frame.
pub(crate) fn pretty(batches: &[RecordBatch]) -> String {
    let table = pretty_format_batches(batches).unwrap().to_string();
    let lines = table.lines().filter(|line| line.starts_with('|')).skip(1);
    let cells = |line: &str| {
        let cells = line.trim_matches('|').split('|').map(str::trim);
        cells.collect::<Vec<_>>().join(" ")
    };
    lines.map(cells).collect::<Vec<_>>().join("; ")
}

/// How many are connected.
pub(crate) const COUNT: &str = "SELECT count(*) FROM pg_stat_activity";

/// Asks, past the server, until a query gives this.
pub(crate) async fn until(served: &Served, sql: &str, wanted: &str) {
    let asked = async {
        while served.read(sql).await != wanted {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(30), asked).await;
    if found.is_err() {
        panic!("{sql} gives {}", served.read(sql).await);
    }
}

/// What a ticket gives.
pub(crate) struct Got {
    pub(crate) rows: Vec<RecordBatch>,
    pub(crate) trailers: MetadataMap,
    /// The metadata of the last message.
    pub(crate) last: serde_json::Value,
}

impl Got {
    pub(crate) fn text(&self) -> String {
        pretty(&self.rows)
    }

    /// What the trailers tell.
    pub(crate) fn answer(&self) -> serde_json::Value {
        let answer = self.trailers.get("lazybase-answer").unwrap();
        serde_json::from_str(answer.to_str().unwrap()).unwrap()
    }
}

pub(crate) fn ticket(info: &FlightInfo) -> Ticket {
    info.endpoint[0].ticket.clone().unwrap()
}

/// Fetches an answer.
pub(crate) async fn fetch(client: &mut Client, info: &FlightInfo) -> Result<Got, FlightError> {
    let stream = client.do_get(ticket(info)).await?;
    let mut messages = stream.into_inner();
    let (mut rows, mut last) = (Vec::new(), Bytes::new());
    while let Some(message) = messages.try_next().await? {
        last = message.app_metadata();
        if let arrow_flight::decode::DecodedPayload::RecordBatch(batch) = message.payload
            && batch.num_rows() > 0
        {
            rows.push(batch);
        }
    }
    let last = serde_json::from_slice(&last).unwrap_or_default();
    Ok(Got {
        rows,
        trailers: MetadataMap::new(),
        last,
    })
}

/// The same with the trailers, by the lower client.
pub(crate) async fn fetch_raw(client: &mut Client, info: &FlightInfo) -> Result<Got, Status> {
    let answer = client.inner_mut().do_get(ticket(info)).await?;
    let mut messages = answer.into_inner();
    let mut data: Vec<FlightData> = Vec::new();
    while let Some(message) = messages.message().await? {
        data.push(message);
    }
    let trailers = messages.trailers().await?.unwrap_or_default();
    let last = data.last().unwrap().app_metadata.clone();
    let rows = arrow_flight::utils::flight_data_to_batches(&data).unwrap();
    Ok(Got {
        rows: rows
            .into_iter()
            .filter(|rows| rows.num_rows() > 0)
            .collect(),
        trailers,
        last: serde_json::from_slice(&last).unwrap_or_default(),
    })
}

/// Runs a statement and fetches its rows.
pub(crate) async fn query(client: &mut Client, sql: &str) -> Result<Got, FlightError> {
    let info = client.execute(sql.to_owned(), None).await?;
    fetch(client, &info).await
}

/// The rows of a query, as text.
pub(crate) async fn text(client: &mut Client, sql: &str) -> String {
    query(client, sql).await.unwrap().text()
}

/// The code and the SQLSTATE of what must have failed.
pub(crate) fn failure<T>(outcome: Result<T, FlightError>) -> (Code, String, String) {
    match outcome {
        Ok(_) => panic!("it did not fail"),
        Err(FlightError::Tonic(status)) => refused(*status),
        Err(other) => panic!("{other}"),
    }
}

/// The same of a status.
pub(crate) fn refused(status: Status) -> (Code, String, String) {
    let sqlstate = status.metadata().get("lazybase-sqlstate");
    let sqlstate = sqlstate.map(|value| value.to_str().unwrap().to_owned());
    (
        status.code(),
        sqlstate.unwrap_or_default(),
        status.message().to_owned(),
    )
}

/// The SQLSTATE of what must have failed.
pub(crate) fn sqlstate<T>(outcome: Result<T, FlightError>) -> String {
    failure(outcome).1
}

/// Rows `k`, `v`.
pub(crate) fn pairs(keys: std::ops::Range<i64>) -> RecordBatch {
    let values: StringArray = keys.clone().map(|k| Some(format!("v{k}"))).collect();
    let keys: ArrayRef = Arc::new(keys.collect::<Int64Array>());
    let columns = [("k", keys, true), ("v", Arc::new(values) as ArrayRef, true)];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// An ingest of what the mode says: `append`, `create`, `replace`, `create_append`.
pub(crate) fn ingest_into(table: &str, mode: &str) -> CommandStatementIngest {
    let (absent, present) = match mode {
        "create" => (TableNotExistOption::Create, TableExistsOption::Fail),
        "append" => (TableNotExistOption::Fail, TableExistsOption::Append),
        "replace" => (TableNotExistOption::Create, TableExistsOption::Replace),
        "create_append" => (TableNotExistOption::Create, TableExistsOption::Append),
        other => panic!("{other}"),
    };
    CommandStatementIngest {
        table_definition_options: Some(TableDefinitionOptions {
            if_not_exist: absent.into(),
            if_exists: present.into(),
        }),
        table: table.to_owned(),
        ..CommandStatementIngest::default()
    }
}

/// Ingests batches.
pub(crate) async fn ingest(
    client: &mut Client,
    command: CommandStatementIngest,
    batches: Vec<RecordBatch>,
) -> Result<i64, FlightError> {
    let batches = stream::iter(batches.into_iter().map(Ok)).boxed();
    client.execute_ingest(command, batches).await
}

/// The only value, a whole number.
pub(crate) fn number(got: &Got) -> i64 {
    let rows = concat_batches(&got.rows[0].schema(), &got.rows).unwrap();
    assert_eq!(rows.num_rows(), 1);
    assert!(!rows.column(0).is_null(0));
    rows.column(0).as_primitive::<Int64Type>().value(0)
}
