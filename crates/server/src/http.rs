//! The pages of health and metrics over HTTP: where they are served, and until when.
//!
//! Listens where the configuration says; writes nothing. What the pages say stands in `pages`.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::serve::Listener as _;
use lazybase_model::{Error, Result};
use lazybase_tls::{Listener, Tls};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::config::Config;
use crate::metrics::Recorder;
use crate::pages::{self, Door, Figures, Guard, Health, Peer};
use crate::wall;

/// The name of the protocol in TLS.
const HTTP1: &str = "http/1.1";

/// What serves HTTP, if anything does.
pub(crate) struct Http {
    told: String,
    serving: Vec<JoinHandle<()>>,
}

impl Http {
    /// Begins to serve where the configuration says, so many connections at a time.
    ///
    /// # Errors
    /// `Unavailable` when an address that somebody chose can't be had.
    pub(crate) async fn open(
        config: &Config,
        health: &Health,
        tls: Option<Arc<Tls>>,
        connections_max: usize,
    ) -> Result<Http> {
        let Some(address) = config.http_listen else {
            return Ok(Http::none("HTTP: off"));
        };
        match TcpListener::bind(address).await {
            Ok(listener) => {
                let guard = Guard {
                    health: health.clone(),
                    asks: config.http_client_cert,
                    trusts_loopback: config.trust_loopback,
                };
                let encrypts = tls.is_some();
                let listener = Listener::new(listener, tls, &[HTTP1]);
                Http::serve(Door::new(listener, connections_max), guard, encrypts)
            }
            // An address that nobody asked for is no reason not to serve the database.
            Err(error) if !config.is_given("http_listen") => Ok(Http::none(&format!(
                "HTTP: off, for {address} can't be had ({error}); choose one with --http-listen"
            ))),
            Err(error) => Err(cannot_listen(address, &error)),
        }
    }

    fn none(told: &str) -> Http {
        Http {
            told: told.to_owned(),
            serving: Vec::new(),
        }
    }

    fn serve(listener: Door, guard: Guard, encrypts: bool) -> Result<Http> {
        let address = listener.local_addr();
        let address = address.map_err(|error| {
            Error::unavailable(format!("the address of HTTP is not known: {error}"))
        })?;
        let scheme = if encrypts { "https" } else { "http" };
        let recorder = Recorder::install()?;
        let shown = recorder.clone();
        let figures: Figures = Arc::new(move |health: &Health| shown.render(health));
        let whom = if guard.asks {
            " (with a certificate)"
        } else {
            ""
        };
        let router = pages::router(guard, figures).into_make_service_with_connect_info::<Peer>();
        let serving = wall::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!("HTTP has ended: {error}");
            }
        });
        Ok(Http {
            told: format!("HTTP: {scheme}://{address}/health, /ready, /metrics{whom}"),
            serving: vec![serving, wall::spawn(recorder.upkeep())],
        })
    }

    /// Where it serves, for people.
    pub(crate) fn told(&self) -> String {
        self.told.clone()
    }

    /// Ends it.
    pub(crate) fn close(self) {
        self.serving.iter().for_each(JoinHandle::abort);
    }
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> Error {
    Error::unavailable(format!("can't listen on {address}: {error}"))
        .with_hint("choose another address: --http-listen 127.0.0.1:8089, or off")
}

#[cfg(test)]
mod tests;
