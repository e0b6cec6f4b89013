//! A database in a folder: opened once, shared by sessions and appenders.

use std::path::Path;
use std::sync::Arc;

use datafusion::execution::session_state::SessionState;
use lazybase_cluster::{Instance, Settings};
use lazybase_engine::env::Env;
use lazybase_engine::env::local::LocalStore;
use lazybase_model::{Error, Result, Table};

use crate::appender::Appender;
use crate::context;
use crate::session::Session;
use crate::visible::Visible;

/// A running database. Cheap to clone; all clones are the same database.
///
/// ```no_run
/// # async fn example() -> lazybase_model::Result<()> {
/// use lazybase_query::Database;
///
/// let database = Database::open("flights").await?;
/// let session = database.session();
/// session.execute("CREATE TABLE t (k INT PRIMARY KEY, v TEXT)").await?;
/// session.execute("INSERT INTO t VALUES (1, 'one')").await?;
/// let answers = session.execute("SELECT * FROM t FRESHNESS 0").await?;
/// assert_eq!(answers[0].rows, 1);
/// database.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Database {
    instance: Instance,
    planner: Arc<SessionState>,
}

/// How a database is opened.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Whether a folder without a database gets one.
    pub create: bool,
    /// The settings of the whole database.
    pub settings: Settings,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            create: true,
            settings: Settings::default(),
        }
    }
}

impl Database {
    /// Opens the database in a folder, or makes one there.
    ///
    /// # Errors
    /// `Conflict` when another process has it, `Corrupt` when its files are damaged or newer.
    pub async fn open(path: impl AsRef<Path>) -> Result<Database> {
        Database::open_with(path, OpenOptions::default()).await
    }

    /// Opens the database in a folder.
    ///
    /// # Errors
    /// As [`Database::open`]; `NotFound` when there is none and none is to be made.
    pub async fn open_with(path: impl AsRef<Path>, options: OpenOptions) -> Result<Database> {
        let path = path.as_ref();
        if !options.create && !path.join("manifest").is_dir() {
            return Err(
                Error::not_found(format!("{}: there is no database", path.display()))
                    .with_hint("name the folder of a database"),
            );
        }
        let store = LocalStore::open(path)?;
        Database::open_env(Env::system(Arc::new(store)), options.settings).await
    }

    /// Opens the database that an environment keeps: for tests that replace the world.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub async fn open_env(env: Env, settings: Settings) -> Result<Database> {
        Ok(Database {
            planner: Arc::new(context::base(&settings)?),
            instance: Instance::open(env, settings).await?,
        })
    }

    /// A session: its own settings, transaction and floor of time.
    pub fn session(&self) -> Session {
        Session::new(self.clone())
    }

    /// The pipeline behind the database.
    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    /// Appends Arrow batches to one table, or several, as one atomic batch.
    pub fn appender(&self) -> Appender {
        Appender::new(self.clone(), None)
    }

    /// The same under a producer's number, which counts it once.
    pub fn producer_appender(&self, number: lazybase_cluster::BatchNumber) -> Appender {
        Appender::new(self.clone(), Some(number))
    }

    /// Ends all work and releases the folder.
    ///
    /// # Errors
    /// `Unavailable` when what was acknowledged can't be sealed; nothing of it is lost.
    pub async fn close(&self) -> Result<()> {
        self.instance.close().await
    }

    /// A table of the newest manifest.
    ///
    /// # Errors
    /// `NotFound` (42P01) when there is none of that name.
    pub(crate) fn table(&self, name: &str) -> Result<Arc<Table>> {
        Visible::stored(self.instance.manifest()).require(name)
    }

    pub(crate) fn planner(&self) -> &SessionState {
        &self.planner
    }
}
