//! The other side: which servers a client trusts, and what a password is bound to there.
//!
//! Invariant TLS-3: who asks for a server to be verified speaks to nobody whose certificate was not
//! vouched for, or, where the name is asked for too, has another one.

use std::path::Path;
use std::sync::Arc;

use lazybase_model::{Error, Result};
use tokio_rustls::rustls;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::client::{WebPkiServerVerifier, verify_server_name};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use x509_certificate::X509Certificate;

use crate::{certificates, file, private_key, unusable};

/// Where systems keep the certificates of those whom they trust.
const SYSTEM_ROOTS: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// What is checked of a server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Nothing: nobody who only listens reads along.
    Anybody,
    /// That somebody who is trusted vouches for it.
    VouchedFor,
    /// That too, and that it has the server's name.
    VouchedForByName,
}

/// What a client shows of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientFiles<'a> {
    /// Its certificate and those that lead from it to a known one, as PEM.
    pub certificate: &'a Path,
    /// Its private key, as PEM.
    pub key: &'a Path,
}

/// How a client encrypts, and what it shows where a server asks for that. Those who are trusted
/// are in a PEM file; without one, they are those whom the system trusts.
///
/// # Errors
/// `Invalid`, naming the file, for one that can't be read; `NotFound` where the system has none.
pub fn of_client(
    trust: Trust,
    roots: Option<&Path>,
    own: Option<ClientFiles<'_>>,
    protocols: &[&str],
) -> Result<Arc<ClientConfig>> {
    let provider = Arc::new(ring::default_provider());
    let trusted = match trust {
        Trust::Anybody => None,
        Trust::VouchedFor | Trust::VouchedForByName => Some(Trusted::read(roots, &provider)?),
    };
    let verifier = Verifier {
        provider: Arc::clone(&provider),
        trusted,
        checks_name: trust == Trust::VouchedForByName,
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::internal(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(ClientFiles { certificate, key }) => {
            let chain = certificates(certificate, &file(certificate)?)?;
            builder
                .with_client_auth_cert(chain, private_key(key)?)
                .map_err(|error| unusable(certificate, error))?
        }
    };
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    Ok(Arc::new(config))
}

/// What a password is bound to that is sent to the server of a certificate (RFC 5929's
/// `tls-server-end-point`); nothing for a certificate that has no such thing.
pub fn end_point(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    use x509_certificate::DigestAlgorithm::{Sha1, Sha256};

    let signed_by = X509Certificate::from_der(certificate.as_ref()).ok()?;
    let digest = match signed_by.signature_algorithm()?.digest_algorithm()? {
        // As RFC 5929 says of weak ones.
        Sha1 => Sha256,
        digest => digest,
    };
    Some(digest.digest_data(certificate.as_ref()))
}

/// Those who are trusted.
#[derive(Debug)]
struct Trusted {
    verifier: Arc<WebPkiServerVerifier>,
    /// Their certificates: a server may show one of these itself.
    own: Vec<CertificateDer<'static>>,
}

impl Trusted {
    fn read(roots: Option<&Path>, provider: &Arc<CryptoProvider>) -> Result<Trusted> {
        let path = match roots {
            Some(path) => path,
            None => system_roots()?,
        };
        let own = certificates(path, &file(path)?)?;
        let mut store = RootCertStore::empty();
        // A system's file may have some that are too odd, and not all of them need be there.
        let (read, _) = store.add_parsable_certificates(own.iter().cloned());
        if read == 0 {
            return Err(unusable(
                path,
                "there is no certificate of an authority in it",
            ));
        }
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider))
                .build()
                .map_err(|error| unusable(path, error))?;
        Ok(Trusted { verifier, own })
    }
}

fn system_roots() -> Result<&'static Path> {
    let mut files = SYSTEM_ROOTS.iter().map(Path::new);
    files.find(|path| path.exists()).ok_or_else(|| {
        Error::not_found("this system has no file of certificates that it trusts")
            .with_detail(format!("looked for {}", SYSTEM_ROOTS.join(", ")))
            .with_hint("name a PEM file: sslrootcert=ca.crt")
    })
}

/// Checks certificates as far as it is asked to.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    trusted: Option<Trusted>,
    checks_name: bool,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(trusted) = &self.trusted else {
            return Ok(ServerCertVerified::assertion());
        };
        let is_own = |own: &CertificateDer<'_>| own.as_ref() == end_entity.as_ref();
        if trusted.own.iter().any(is_own) {
            if self.checks_name {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
            }
            return Ok(ServerCertVerified::assertion());
        }
        let verified = trusted.verifier.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            // The name is looked at last: everything else was found good.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.checks_name => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let known = &self.provider.signature_verification_algorithms;
        known.supported_schemes()
    }
}
