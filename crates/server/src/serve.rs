//! `lazybase serve`: the database for clients that speak PostgreSQL's protocol.
//!
//! ```text
//!   open -> listen -> say where -> SIGINT or SIGTERM -> statements end -> seal -> close
//! ```
//!
//! A second signal does not wait for statements that still run.

use std::io::{self, Write};
use std::path::PathBuf;

use lazybase_model::{Error, Result};
use lazybase_pg::{Options, Server};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::ServeArgs;
use crate::open::{self, Missing};

/// Serves until it is told to stop.
pub(crate) async fn run(db: Option<PathBuf>, args: ServeArgs) -> Result<()> {
    let folder = open::folder(db.clone())?;
    let mut signals = Signals::new()?;
    let database = open::database(db, Missing::Create).await?;
    let options = Options {
        connections_max: args.max_connections,
        ..Options::default()
    };
    let outcome = match Server::bind(database.clone(), args.pg_listen, options).await {
        Ok(server) => {
            let address = server.address();
            say(&format!(
                "lazybase {}: serving {}",
                env!("CARGO_PKG_VERSION"),
                folder.display()
            ));
            say(&format!(
                "PostgreSQL clients: psql -h {} -p {} -d lazybase (any user, this machine only)",
                address.ip(),
                address.port()
            ));
            say("ready; Ctrl-C stops");
            let (stop, stopped) = tokio::sync::oneshot::channel();
            let serving = server.serve(async {
                // Whoever would tell has gone: then the end has come too.
                drop(stopped.await);
            });
            signals.end(serving, stop).await;
            Ok(())
        }
        Err(error) => Err(error),
    };
    let served = outcome.is_ok();
    open::close(&database, outcome).await?;
    if served {
        say("stopped: everything that was acknowledged is sealed");
    }
    Ok(())
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

    /// Serves until a signal comes, and then until statements have ended, or another one comes.
    async fn end(
        &mut self,
        serving: impl Future<Output = ()>,
        stop: tokio::sync::oneshot::Sender<()>,
    ) {
        tokio::pin!(serving);
        tokio::select! {
            () = &mut serving => return,
            () = self.next() => {}
        }
        say("stopping: statements that run may end");
        // It listens as long as it serves.
        let _ = stop.send(());
        tokio::select! {
            () = &mut serving => {}
            () = self.next() => {}
        }
    }
}

/// Tells whoever started the server.
fn say(line: &str) {
    // Standard error that can't be written leaves nobody to tell.
    drop(writeln!(io::stderr().lock(), "{line}"));
}
