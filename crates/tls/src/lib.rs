//! Certificates and keys, read from files and read again on demand, the configurations of TLS that
//! are made of them, and listeners that encrypt with them: the same for each protocol that the
//! server speaks.
//!
//! TLS 1.2 and 1.3, by `rustls` over `ring`. Invariant TLS-1: what is read anew counts for new
//! connections only once all of it was found whole; until then the old one does.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lazybase_model::{Error, Result};
use parking_lot::RwLock;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;
use x509_certificate::X509Certificate;

mod client;
mod descriptors;
mod listener;
mod refusals;

pub use client::{ClientFiles, Trust, end_point, of_client};
pub use descriptors::{Descriptor, Descriptors};
pub use listener::{Connection, Listener, is_local};

use crate::refusals::Refusals;

/// The first byte of a handshake of TLS.
pub const HANDSHAKE: [u8; 1] = [0x16];

/// Where certificates and keys are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate and those that lead from it to a known one, as PEM.
    pub certificate: PathBuf,
    /// Its private key, as PEM.
    pub key: PathBuf,
    /// The certificates, as PEM, of those who vouch for clients. A client that shows a certificate
    /// of theirs is the role of its common name, without a password.
    pub client_ca: Option<PathBuf>,
}

/// Encryption of connections. Shared by all of them.
pub struct Tls {
    files: TlsFiles,
    loaded: RwLock<Loaded>,
    refusals: Refusals,
}

/// What the files hold.
#[derive(Clone)]
struct Loaded {
    config: Arc<ServerConfig>,
    /// The text of the certificate, which passwords are bound to.
    certificate: Arc<[u8]>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// `Invalid`, naming the file, for one that can't be read or does not fit the others.
    pub fn load(files: TlsFiles) -> Result<Arc<Tls>> {
        let loaded = RwLock::new(read(&files)?);
        Ok(Arc::new(Tls {
            files,
            loaded,
            refusals: Refusals::default(),
        }))
    }

    /// Reads the files again, for connections from now on.
    ///
    /// # Errors
    /// As [`Tls::load`]; then all stays as it is.
    pub fn reload(&self) -> Result<()> {
        let loaded = read(&self.files)?;
        *self.loaded.write() = loaded;
        Ok(())
    }

    /// Whether clients may show who they are by certificates.
    pub fn takes_certificates(&self) -> bool {
        self.files.client_ca.is_some()
    }

    /// Agrees with a client on encryption for one of these protocols, by their names in TLS (such
    /// as `h2`); gives the text of the server's certificate too, which is that of now.
    ///
    /// # Errors
    /// Those of the connection, and `InvalidData` for what TLS refuses, which is logged.
    pub async fn accept(
        &self,
        stream: TcpStream,
        protocols: &[&str],
    ) -> io::Result<(TlsStream<TcpStream>, Arc<[u8]>)> {
        let peer = stream.peer_addr().ok();
        let (config, certificate) = self.now(protocols);
        match TlsAcceptor::from(config).accept(stream).await {
            Ok(stream) => Ok((stream, certificate)),
            Err(error) => {
                self.refusals.note(peer, &error);
                Err(error)
            }
        }
    }

    fn now(&self, protocols: &[&str]) -> (Arc<ServerConfig>, Arc<[u8]>) {
        let Loaded {
            config,
            certificate,
        } = self.loaded.read().clone();
        let mut config = ServerConfig::clone(&config);
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        (Arc::new(config), certificate)
    }
}

fn read(files: &TlsFiles) -> Result<Loaded> {
    let certificate = file(&files.certificate)?;
    let chain = certificates(&files.certificate, &certificate)?;
    let key = private_key(&files.key)?;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::internal(error.to_string()))?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path, &file(path)?)? {
                roots
                    .add(certificate)
                    .map_err(|error| unusable(path, error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|error| unusable(path, error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let config = builder
        .with_single_cert(chain, key)
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                let key = files.key.display();
                unusable(&files.certificate, format!("{key} is not its private key"))
            }
            error => unusable(&files.certificate, error),
        })?;
    Ok(Loaded {
        config: Arc::new(config),
        certificate: certificate.into(),
    })
}

fn file(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| unusable(path, error))
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(&file(path)?)
        .map_err(|_| unusable(path, "there is no private key in it"))
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let read: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(unusable(path, "there is no certificate in it")),
        Err(error) => Err(unusable(path, error)),
    }
}

fn unusable(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::invalid(format!("{} can't be used for TLS: {why}", path.display()))
        .with_hint("give PEM files: a certificate chain, and the private key that belongs to it")
        .with_sqlstate("F0000")
}

/// The common name of a certificate that was verified.
pub fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    X509Certificate::from_der(certificate.as_ref())
        .ok()?
        .subject_common_name()
}
