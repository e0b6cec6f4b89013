//! The options of `serve` about who is let in, and how connections are encrypted.

use std::sync::Arc;

use lazybase_model::{Error, Result};
use lazybase_tls::{Tls, TlsFiles};
use tokio::signal::unix::{SignalKind, signal};

use crate::config::Config;

/// Reads certificates and keys, where they are given.
///
/// # Errors
/// `Invalid` for a certificate without its key, or the other way around, and where clients'
/// certificates are asked for that nobody vouches for; as [`Tls::load`].
pub(crate) fn tls(config: &Config) -> Result<Option<Arc<Tls>>> {
    let alone = |given: &str, missing: &str| {
        Err(
            Error::invalid(format!("{given} is given without {missing}"))
                .with_hint("TLS needs both --tls-cert and --tls-key"),
        )
    };
    if config.http_client_cert && config.tls_client_ca.is_none() {
        return Err(
            Error::invalid("--http-client-cert is given without --tls-client-ca")
                .with_hint("name those who vouch for clients, or ask for no certificates"),
        );
    }
    match (&config.tls_cert, &config.tls_key, &config.tls_client_ca) {
        (Some(certificate), Some(key), client_ca) => Tls::load(TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            client_ca: client_ca.clone(),
        })
        .map(Some),
        (Some(_), None, _) => alone("--tls-cert", "--tls-key"),
        (None, Some(_), _) => alone("--tls-key", "--tls-cert"),
        (None, None, Some(_)) => alone("--tls-client-ca", "--tls-cert"),
        (None, None, None) => Ok(None),
    }
}

/// Reads certificates and keys again at each SIGHUP; ends with the future it runs beside.
pub(crate) async fn reload_on_hangup<T>(
    tls: Option<Arc<Tls>>,
    say: impl Fn(&str),
    beside: impl Future<Output = T>,
) -> Result<T> {
    let failed = |error| Error::unavailable(format!("can't wait for signals: {error}"));
    let mut hangups = signal(SignalKind::hangup()).map_err(failed)?;
    tokio::pin!(beside);
    loop {
        tokio::select! {
            done = &mut beside => return Ok(done),
            _ = hangups.recv() => match tls.as_ref().map(|tls| tls.reload()) {
                None => {}
                Some(Ok(())) => say("certificate and key were read again"),
                Some(Err(error)) => say(&format!("the old certificate stays: {}", error.message())),
            },
        }
    }
}
