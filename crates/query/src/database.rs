//! A database in a folder: opened once, shared by sessions and appenders.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use futures::future::BoxFuture;
use lazybase_cluster::{Instance, Settings};
use lazybase_engine::env::local::LocalStore;
use lazybase_engine::env::{Env, LOCK_FILE};
use lazybase_model::{Column, Error, Result, Table};
use tokio::runtime::Handle;

use crate::activity::{Activities, Places};
use crate::advisory::AdvisoryLocks;
use crate::appender::Appender;
use crate::error::from_datafusion;
use crate::heavy::Line;
use crate::id_keys::key_names;
use crate::planner;
use crate::session::Session;
use crate::sleep;
use crate::temporary;
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
    sessions: SessionDefaults,
    folder: Option<LocalStore>,
    activities: Arc<Activities>,
    locks: Arc<AdvisoryLocks>,
    line: Arc<Line>,
    heavy_threads: Option<Handle>,
}

/// The settings that sessions begin with, and come back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionDefaults {
    /// How long a statement may take over the wire; zero is no limit.
    pub statement_timeout: Duration,
    /// Statements that take longer are logged.
    pub slow_query: Option<Duration>,
}

/// Where queries spill, in the database's folder.
const SPILL_FOLDER: &str = "tmp";

/// What a database keeps in its folder beside the manifest: one that was not made to the end, or
/// has lost its manifest, may have these alone.
const PARTS: [&str; 4] = ["segments", "log", "set-aside", "condemned"];

/// Whether a folder has a database.
fn has_database(path: &Path) -> bool {
    path.join("manifest").is_dir()
}

/// Whether a database may be made here: whoever names a folder of other things hardly means that.
fn check_free(path: &Path) -> Result<()> {
    if !path.is_dir() {
        return Ok(());
    }
    let mut known = PARTS.to_vec();
    // Others have folders of that name too, and opening a database empties its own.
    if path.join(LOCK_FILE).exists() {
        known.push(SPILL_FOLDER);
    }
    let strangers = LocalStore::strangers(path, &known)?;
    let Some(first) = strangers.first() else {
        return Ok(());
    };
    let holds = match strangers.len() - 1 {
        0 => format!("it holds {first:?}"),
        others => format!("it holds {first:?} and {others} more"),
    };
    let fact = format!("{} is not empty, and is no database", path.display());
    Err(Error::conflict(fact)
        .with_detail(holds)
        .with_hint("name the folder of a database, an empty one, or one that is to be made"))
}

/// Takes away what queries of a process that ended left there.
#[expect(
    clippy::disallowed_methods,
    reason = "temporary files of queries are no data: the store knows nothing of them"
)]
fn empty(spill: &Path) -> Result<()> {
    match std::fs::remove_dir_all(spill) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::unavailable(format!(
            "{}: temporary files can't be removed: {error}",
            spill.display()
        ))
        .with_sqlstate("58030")),
        _ => Ok(()),
    }
}

/// How a database is opened.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Whether a folder without a database gets one.
    pub create: bool,
    /// The settings of the whole database.
    pub settings: Settings,
    /// What sessions begin with.
    pub sessions: SessionDefaults,
    /// Threads for heavy statements, which tell the time; they have to be there for as long as the
    /// database is. Without them, these run where their rows are waited for, beside all others.
    pub heavy_threads: Option<Handle>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            create: true,
            settings: Settings::default(),
            sessions: SessionDefaults::default(),
            heavy_threads: None,
        }
    }
}

impl Database {
    /// Opens the database in a folder, or makes one there.
    ///
    /// # Errors
    /// `Conflict` when another process has it, or the folder holds other things and no database;
    /// `Corrupt` when its files are damaged or newer.
    pub async fn open(path: impl AsRef<Path>) -> Result<Database> {
        Database::open_with(path, OpenOptions::default()).await
    }

    /// Opens the database in a folder.
    ///
    /// # Errors
    /// As [`Database::open`]; `NotFound` when there is none and none is to be made.
    pub async fn open_with(path: impl AsRef<Path>, options: OpenOptions) -> Result<Database> {
        let path = path.as_ref();
        match (has_database(path), options.create) {
            (true, _) => {}
            (false, true) => check_free(path)?,
            (false, false) => {
                let fact = format!("{}: there is no database", path.display());
                return Err(Error::not_found(fact).with_hint("name the folder of a database"));
            }
        }
        let store = LocalStore::open(path)?;
        let spill = path.join(SPILL_FOLDER);
        empty(&spill)?;
        let planner = planner::base(&options.settings, Some(&spill))?;
        let env = Env::system(Arc::new(store.clone()));
        let mut database = Database::open_over(env, options.settings, planner).await?;
        database.sessions = options.sessions;
        database.heavy_threads = options.heavy_threads;
        database.folder = Some(store);
        Ok(database)
    }

    /// Opens the database that an environment keeps: for tests that replace the world.
    ///
    /// # Errors
    /// As [`Database::open`].
    #[boxed(?Send)]
    pub async fn open_env(env: Env, settings: Settings) -> Result<Database> {
        let planner = planner::base(&settings, None)?;
        Database::open_over(env, settings, planner).await
    }

    #[boxed(?Send)]
    async fn open_over(env: Env, settings: Settings, planner: SessionState) -> Result<Database> {
        let mut planner = planner;
        let sleeps = Arc::new(sleep::function(&env.clock));
        let registered = planner.register_udf(sleeps);
        registered.map_err(|error| from_datafusion(&error, ""))?;
        let line = Line::new(settings.heavy_statements, settings.heavy_waiting);
        let activities = Activities::new(&*env.clock);
        let instance = Instance::open(env, settings).await?;
        temporary::drop_left(&instance).await?;
        Ok(Database {
            planner: Arc::new(planner),
            instance,
            sessions: SessionDefaults::default(),
            folder: None,
            activities: Arc::new(activities),
            locks: Arc::default(),
            line: Arc::new(line),
            heavy_threads: None,
        })
    }

    /// A session of whoever owns the folder, and may do everything: its own settings, transaction
    /// and floor of time.
    pub fn session(&self) -> Session {
        Session::new(self.clone(), None)
    }

    /// A number for a connection of a server, which no other that is listed has, whatever its
    /// protocol: the `pid` of a [`Peer`](crate::Peer).
    pub fn connection_number(&self) -> i32 {
        self.activities.number()
    }

    /// Who is connected.
    pub(crate) fn activities(&self) -> &Arc<Activities> {
        &self.activities
    }

    /// The numbers that sessions lock.
    pub(crate) fn locks(&self) -> &Arc<AdvisoryLocks> {
        &self.locks
    }

    /// Where heavy statements wait for one another.
    pub(crate) fn line(&self) -> &Arc<Line> {
        &self.line
    }

    /// The threads of heavy statements.
    pub(crate) fn heavy_threads(&self) -> Option<&Handle> {
        self.heavy_threads.as_ref()
    }

    /// How many heavy statements have their turn.
    pub fn heavy_running(&self) -> usize {
        self.line.counts().0
    }

    /// How many heavy statements wait for their turn.
    pub fn heavy_waiting(&self) -> usize {
        self.line.counts().1
    }

    /// The pipeline behind the database.
    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    /// Appends Arrow batches to one table, or several, as one atomic batch: as the folder's owner,
    /// who may do everything. [`Session::appender`] writes with the rights of a role.
    pub fn appender(&self) -> Appender {
        Appender::new(self.clone(), None, None)
    }

    /// The same under a producer's number, which counts it once.
    pub fn producer_appender(&self, number: lazybase_cluster::BatchNumber) -> Appender {
        Appender::new(self.clone(), None, Some(number))
    }

    /// The names of the columns of the natural keys that an ID column of a table takes, in their
    /// order; `None` for other columns.
    ///
    /// # Errors
    /// `NotFound` when the table that owns the ID key is gone.
    pub fn natural_key(&self, column: &Column) -> Result<Option<Vec<String>>> {
        key_names(&Visible::stored(self.instance().manifest()), column)
    }

    /// What sessions begin with.
    pub fn session_defaults(&self) -> SessionDefaults {
        self.sessions
    }

    /// Says how many connections clients of PostgreSQL's protocol can have, for those who ask.
    pub fn set_places(&self, places: Places) {
        self.activities.set_places(places);
    }

    /// Says in the folder where this process serves it, for those who find it in use.
    pub fn set_address(&self, address: &str) {
        if let Some(folder) = &self.folder {
            folder.set_address(address);
        }
    }

    /// What all running queries hold in memory to sort, group and join, in bytes.
    pub fn query_memory_used(&self) -> u64 {
        self.planner.runtime_env().memory_pool.reserved() as u64
    }

    /// Ends all work. The folder is free for another opening once the last clone, session,
    /// appender and answer is dropped, too: until then it can be read.
    ///
    /// # Errors
    /// `Unavailable` when what was acknowledged can't be sealed; nothing of it is lost.
    pub fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.instance.close().await })
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
