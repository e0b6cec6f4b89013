//! `lazybase serve` with a certificate: HTTP and Flight are encrypted from the first byte on, the
//! same options mean all protocols, and new certificates are read at SIGHUP.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion, version,
};

use crate::run::Place;
use crate::server::{PATIENCE, Server};

/// Makes a certificate authority, and a certificate of it for the server.
fn certificates(folder: &Path) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, "server");
    let certificate = params.signed_by(&key, &authority).unwrap();
    for (name, pem) in [
        ("ca.crt", authority.pem()),
        ("server.crt", certificate.pem()),
        ("server.key", key.serialize_pem()),
    ] {
        std::fs::write(folder.join(name), pem).unwrap();
    }
}

/// What a page gives over TLS to a client that trusts the authority of a folder.
fn get(
    address: &str,
    folder: &Path,
    versions: &[&'static SupportedProtocolVersion],
) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_file(folder.join("ca.crt")).unwrap();
    roots.add(ca).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(client, TcpStream::connect(address)?);
    stream.write_all(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn pages_are_served_over_tls_and_to_this_machine_also_without() {
    let place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key) = (file("server.crt"), file("server.key"));
    let server = Server::start(&place, &["--tls-cert", &certificate, "--tls-key", &key]);
    let told = server.line("HTTP: ");
    let address = told.split("https://").nth(1).unwrap();
    let address = address.split('/').next().unwrap().to_owned();
    for versions in [&[&version::TLS12][..], &[&version::TLS13]] {
        let answer = get(&address, folder.path(), versions).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.ends_with("ready\n"), "{answer}");
    }
    let (status, text) = crate::server::get(&address, "/ready");
    assert_eq!((status, text.as_str()), (200, "ready\n"));
    let flight = server.line("Arrow Flight SQL clients: ");
    assert!(flight.contains("grpc+tls://127.0.0.1:"), "{flight}");

    // A client that trusts somebody else is not spoken to, until the server has the certificate
    // that it trusts.
    let other = tempfile::tempdir().unwrap();
    certificates(other.path());
    assert!(get(&address, other.path(), &[&version::TLS13]).is_err());
    for name in ["server.crt", "server.key"] {
        std::fs::copy(other.path().join(name), folder.path().join(name)).unwrap();
    }
    server.signal("HUP");
    let until = Instant::now() + PATIENCE;
    while get(&address, other.path(), &[&version::TLS13]).is_err() {
        assert!(Instant::now() < until, "the new certificate does not count");
        std::thread::sleep(Duration::from_millis(20));
    }
    server.stop();
}
