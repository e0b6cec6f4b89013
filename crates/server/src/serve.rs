//! `lazybase serve`: the database for clients over the network.
//!
//! ```text
//!   HTTP -> open -> doors -> say where -> SIGINT or SIGTERM -> statements end -> seal -> close
//! ```
//!
//! HTTP is there before the database is open, to say that it is not ready yet. Each protocol is a
//! door: a task that serves until it is told to stop. A second signal does not wait for statements
//! that still run. SIGHUP reads certificates again.

mod security;

use std::io::{self, Write};
use std::sync::Arc;

use lazybase_model::{Error, Result};
use lazybase_pg::{Options, Server};
use lazybase_query::Database;
use lazybase_tls::{Descriptors, Tls};
use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config::{self, Config, LogFormat};
use crate::failure;
use crate::http::Http;
use crate::logs::{self, Watching};
use crate::open;
use crate::pages::{Health, Phase};
use crate::process::Connections;

/// Serves until it is told to stop, heavy statements on threads of their own; or prints the
/// configuration.
pub(crate) async fn run(config: Config, print_config: bool, heavy_threads: Handle) -> Result<()> {
    if print_config {
        let text = config::printed(&config);
        return failure::write_data(&text);
    }
    let folder = open::folder(config.db.clone())?;
    let mut signals = Signals::new()?;
    let tls = security::tls(&config)?;
    let watching = Watching::begin(&config)?;
    let teller = Teller(config.log_format);
    let health = Health::default();
    let connections = Connections::allowed();
    let http = Http::open(&config, &health, tls.clone(), connections.http).await?;
    let database = open::served(folder.clone(), heavy_threads).await?;
    health.opened(&database);
    let mut doors = Doors::new(connections);
    let outcome = match doors.open_all(&database, &config, tls.as_ref()).await {
        Ok(lines) => {
            teller.say(&format!(
                "lazybase {}: serving {}",
                env!("CARGO_PKG_VERSION"),
                folder.display()
            ));
            lines.iter().for_each(|line| teller.say(line));
            teller.say(&http.told());
            if doors.are_local {
                teller.say(FOR_OTHERS);
            }
            let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
            for line in config::misspelt(variables) {
                teller.say(&line);
            }
            teller.say("ready; Ctrl-C stops");
            health.enter(Phase::Ready);
            security::reload_on_hangup(tls, |line| teller.say(line), signals.next()).await?;
            health.enter(Phase::Stopping);
            teller.say("stopping: statements that run may end");
            doors.close(&mut signals).await;
            Ok(())
        }
        Err(error) => Err(error),
    };
    let served = outcome.is_ok();
    open::close(&database, outcome).await?;
    if served {
        teller.say("stopped: everything that was acknowledged is sealed");
    }
    http.close();
    watching.end();
    Ok(())
}

/// How other machines are let in, where none is.
const FOR_OTHERS: &str = "other machines can't connect; to let them in: lazybase role create NAME \
    --superuser, then serve with --tls-cert, --tls-key and --pg-listen 0.0.0.0:5432; \
    or a tunnel: ssh -L 5432:127.0.0.1:5432 THIS-MACHINE";

/// The protocols that are served, each by a task of its own.
struct Doors {
    /// They can be reached from this machine alone.
    are_local: bool,
    stop: watch::Sender<bool>,
    serving: JoinSet<()>,
    connections: Connections,
}

impl Doors {
    fn new(connections: Connections) -> Doors {
        Doors {
            are_local: true,
            stop: watch::Sender::new(false),
            serving: JoinSet::new(),
            connections,
        }
    }

    /// Opens every door that is configured; gives what to say about them.
    async fn open_all(
        &mut self,
        database: &Database,
        config: &Config,
        tls: Option<&Arc<Tls>>,
    ) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        let connections_max = self.connections.let_in(config.max_connections);
        let descriptors = Descriptors::new(self.connections.clients);
        if let Some(address) = config.pg_listen {
            let options = Options {
                connections_max,
                superuser_reserved: config.superuser_reserved_connections,
                grace: config.grace,
                tls: tls.cloned(),
                trusts_loopback: config.trust_loopback,
                descriptors: descriptors.clone(),
            };
            let server = Server::bind(database.clone(), address, options).await?;
            let address = server.address();
            self.are_local &= address.ip().is_loopback();
            database.set_address(&format!("postgresql://{address}/lazybase"));
            lines.push(format!(
                "PostgreSQL clients: psql -h {} -p {} -d lazybase ({})",
                address.ip(),
                address.port(),
                who(database, config)
            ));
            self.serving.spawn(server.serve(self.told_to_stop()));
        }
        if let Some(address) = config.flight_listen {
            let options = lazybase_flight::Options {
                connections_max,
                grace: config.grace,
                tls: tls.cloned(),
                trusts_loopback: config.trust_loopback,
                descriptors,
                ..lazybase_flight::Options::default()
            };
            let server = lazybase_flight::Server::bind(database.clone(), address, options).await?;
            let address = server.address();
            self.are_local &= address.ip().is_loopback();
            let scheme = if tls.is_some() { "grpc+tls" } else { "grpc" };
            lines.push(format!("Arrow Flight SQL clients: {scheme}://{address}"));
            self.serving.spawn(server.serve(self.told_to_stop()));
        }
        if lines.is_empty() {
            return Err(Error::invalid("nothing is to be served")
                .with_hint("give --pg-listen an address, such as 127.0.0.1:5432"));
        }
        if connections_max < config.max_connections {
            lines.push(format!(
                "max_connections is {connections_max}, not {}: the system lets this process open \
                 only {} files at once (ulimit -n)",
                config.max_connections, self.connections.files
            ));
        }
        Ok(lines)
    }

    /// Ends when the doors are to close.
    fn told_to_stop(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stop = self.stop.subscribe();
        async move {
            // Whoever would tell has gone: then the end has come too.
            drop(stop.wait_for(|stop| *stop).await);
        }
    }

    /// Lets nobody in, and waits until statements have ended, or another signal comes.
    async fn close(&mut self, signals: &mut Signals) {
        self.stop.send_replace(true);
        tokio::select! {
            () = async { while self.serving.join_next().await.is_some() {} } => {}
            () = signals.next() => {}
        }
        self.serving.shutdown().await;
    }
}

/// Who is let in, in words.
fn who(database: &Database, config: &Config) -> &'static str {
    let shows_certificates = config.tls_client_ca.is_some();
    match database.is_open(config.trust_loopback || shows_certificates) {
        true => "any user, this machine only",
        false if config.trust_loopback => {
            "roles; from this machine without a password, also lazybase, who owns the folder"
        }
        false if shows_certificates => "roles, with a password or a certificate",
        false => "roles, with a password",
    }
}

/// The signals that stop the server.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> Result<Signals> {
        let failed = |error| Error::unavailable(format!("can't wait for signals: {error}"));
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Tells whoever started the server: in lines for people, or among the log's lines.
struct Teller(LogFormat);

impl Teller {
    fn say(&self, line: &str) {
        match self.0 {
            LogFormat::Json => tracing::info!(target: logs::TOLD, "{line}"),
            // Standard error that can't be written leaves nobody to tell.
            LogFormat::Text => drop(writeln!(io::stderr().lock(), "{line}")),
        }
    }
}
