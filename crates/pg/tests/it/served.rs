//! A server on a port of its own, over a database in a temporary folder.

use std::net::SocketAddr;
use std::time::Duration;

use lazybase_pg::{Options, Server};
use lazybase_query::{Database, OpenOptions};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::held;

/// A query that nobody waits for.
pub(crate) const ENDLESS: &str =
    "SELECT count(*) FROM generate_series(1, 1000000000000) AS s (x) WHERE x % 7 = 3";

/// Less than a connection has until it is let in.
pub(crate) const LESS_THAN_SILENCE: Duration = Duration::from_secs(9);

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

    /// A server whose database has what these statements make.
    pub(crate) async fn with(sql: &str) -> Served {
        let served = Served::start().await;
        let client = served.client().await;
        client.batch_execute(sql).await.unwrap();
        served
    }

    /// Waits until no statement holds files or memory, or has temporary files.
    pub(crate) async fn until_nothing_is_held(&self) {
        held::until_nothing_is_held(&self.database, &self.folder.path().join("db")).await;
    }

    /// Waits until some statement has temporary files.
    pub(crate) async fn until_spilt(&self) {
        held::until_spilt(&self.folder.path().join("db")).await;
    }

    /// Waits until some statement has files pinned, and this much memory.
    pub(crate) async fn until_held(&self, bytes: u64) {
        let held = async {
            while self.database.instance().pins().is_empty()
                || self.database.query_memory_used() < bytes
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let held = tokio::time::timeout(Duration::from_secs(30), held).await;
        held.expect("the statement runs");
    }

    /// Waits until a statement of some connection runs: what is to end it is heard from then on.
    pub(crate) async fn until_one_runs(&self) {
        let session = self.database.session();
        let running = "SELECT pid FROM pg_stat_activity WHERE state = 'active'";
        let runs = async {
            loop {
                let answers = session.execute(running).await.unwrap();
                if answers[0].batches.iter().any(|batch| batch.num_rows() > 0) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let runs = tokio::time::timeout(Duration::from_secs(30), runs).await;
        runs.expect("a statement runs");
    }

    /// Where clients connect to.
    pub(crate) fn url(&self) -> String {
        format!(
            "host=127.0.0.1 port={} dbname=lazybase",
            self.address.port()
        )
    }

    /// Connects a client, as soon as one is let in; `None` when the time is over before.
    pub(crate) async fn connects_within(&self, time: Duration) -> Option<Client> {
        let trying = async {
            loop {
                match self.connect("").await {
                    Ok(client) => break client,
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        };
        tokio::time::timeout(time, trying).await.ok()
    }

    /// Connects a client.
    pub(crate) async fn client(&self) -> Client {
        self.connect("").await.unwrap()
    }

    /// Connects a client with more parameters.
    pub(crate) async fn connect(&self, more: &str) -> Result<Client, tokio_postgres::Error> {
        let user = match more.contains("user=") {
            true => "",
            false => "user=somebody",
        };
        let text = format!("{} {user} {more}", self.url());
        let (client, connection) = tokio_postgres::connect(&text, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// A client and its connection: once that ends the client is gone, whatever it waits for. Where
    /// the client alone is dropped, its connection still waits for the answer.
    pub(crate) async fn client_to_lose(&self) -> (Client, JoinHandle<()>) {
        let text = format!("{} user=somebody", self.url());
        let (client, connection) = tokio_postgres::connect(&text, NoTls).await.unwrap();
        let connected = tokio::spawn(async move { drop(connection.await) });
        (client, connected)
    }

    /// Stops the server and closes the database.
    pub(crate) async fn stop(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        (&mut self.serving).await.unwrap();
        self.database.close().await.unwrap();
    }
}

/// The cells of a query's rows, `-` for NULL.
pub(crate) async fn cells(client: &Client, sql: &str) -> Vec<Vec<String>> {
    let messages = client.simple_query(sql).await;
    rows_of(&messages.unwrap_or_else(|error| panic!("{error:?}\n{sql}")))
}

/// The cells of all rows, `-` for NULL.
pub(crate) fn rows_of(messages: &[SimpleQueryMessage]) -> Vec<Vec<String>> {
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(
            (0..row.len())
                .map(|at| row.get(at).unwrap_or("-").to_owned())
                .collect(),
        ),
        _ => None,
    });
    rows.collect()
}

/// How many rows a table has.
pub(crate) async fn count(client: &Client, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    client.query_one(&sql, &[]).await.unwrap().get(0)
}

/// The SQLSTATE of what must have failed.
pub(crate) fn sqlstate<T: std::fmt::Debug>(outcome: Result<T, tokio_postgres::Error>) -> String {
    let error = outcome.unwrap_err();
    let told = error.as_db_error().unwrap_or_else(|| panic!("{error}"));
    told.code().code().to_owned()
}
