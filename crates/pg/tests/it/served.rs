//! A server on a port of its own, over a database in a temporary folder.

use std::net::SocketAddr;

use lazybase_pg::{Options, Server};
use lazybase_query::Database;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};

/// A running server.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) database: Database,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
    _folder: TempDir,
}

impl Served {
    pub(crate) async fn start() -> Served {
        Served::start_with(Options::default()).await
    }

    pub(crate) async fn start_with(options: Options) -> Served {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(folder.path().join("db")).await.unwrap();
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
            _folder: folder,
        }
    }

    /// Connects a client.
    pub(crate) async fn client(&self) -> Client {
        self.connect("").await.unwrap()
    }

    /// Connects a client with more parameters.
    pub(crate) async fn connect(&self, more: &str) -> Result<Client, tokio_postgres::Error> {
        let text = format!(
            "host=127.0.0.1 port={} user=somebody dbname=lazybase {more}",
            self.address.port()
        );
        let (client, connection) = tokio_postgres::connect(&text, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// Stops the server and closes the database.
    pub(crate) async fn stop(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        (&mut self.serving).await.unwrap();
        self.database.close().await.unwrap();
    }
}

/// The SQLSTATE of what must have failed.
pub(crate) fn sqlstate<T: std::fmt::Debug>(outcome: Result<T, tokio_postgres::Error>) -> String {
    let error = outcome.unwrap_err();
    let told = error.as_db_error().unwrap_or_else(|| panic!("{error}"));
    told.code().code().to_owned()
}
