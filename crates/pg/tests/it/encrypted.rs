//! Encryption: psql with and without certificates of its own, a raw client, and bytes that somebody
//! between would send.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use lazybase_pg::{Options, Tls, TlsFiles};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion, version};

use crate::raw::startup;
use crate::served::{LESS_THAN_SILENCE, Served, sqlstate};
use crate::skips::skip;

/// Makes a certificate authority, and certificates of it for the server and for the client `anna`.
fn certificates(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
        .distinguished_name
        .push(DnType::CommonName, "authority");
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(folder.join("ca.crt"), authority.pem()).unwrap();
    for (name, hosts) in [
        ("server", vec!["localhost".to_owned()]),
        ("anna", Vec::new()),
    ] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &authority).unwrap();
        std::fs::write(folder.join(format!("{name}.crt")), certificate.pem()).unwrap();
        let path = folder.join(format!("{name}.key"));
        std::fs::write(&path, key.serialize_pem()).unwrap();
        // psql reads no key that others may read too.
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
}

/// Encryption with certificates that are made in a folder.
pub(crate) fn tls(folder: &Path, of_clients: bool) -> Arc<Tls> {
    certificates(folder);
    Tls::load(TlsFiles {
        certificate: folder.join("server.crt"),
        key: folder.join("server.key"),
        client_ca: of_clients.then(|| folder.join("ca.crt")),
    })
    .unwrap()
}

struct World {
    served: Served,
    tls: Arc<Tls>,
    folder: tempfile::TempDir,
}

impl World {
    async fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let tls = tls(folder.path(), true);
        let options = Options {
            tls: Some(Arc::clone(&tls)),
            ..Options::default()
        };
        let served = Served::start_with(options).await;
        let session = served.database.session();
        session
            .execute("CREATE ROLE admin SUPERUSER LOGIN PASSWORD 'secret'; CREATE USER anna")
            .await
            .unwrap();
        World {
            served,
            tls,
            folder,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What psql says, and whether it went well; nothing where there is no psql.
    async fn psql(&self, more: &str, sql: &str) -> Option<(bool, String)> {
        let psql = Path::new("/usr/bin/psql");
        if !psql.exists() {
            skip("psql over TLS: it is not on this machine");
            return None;
        }
        let ca = self.path("ca.crt");
        let parameters = format!(
            "host=localhost hostaddr=127.0.0.1 port={} dbname=lazybase sslrootcert={} {more}",
            self.served.address.port(),
            ca.display()
        );
        let mut command = Command::new(psql);
        command.args(["-X", "-A", "-t", "-w", "-d", &parameters, "-c", sql]);
        command.env("PGPASSWORD", "secret");
        let output = tokio::task::spawn_blocking(move || command.output())
            .await
            .unwrap()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        Some((output.status.success(), String::from_utf8(said).unwrap()))
    }

    fn client(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        alpn: &[&str],
    ) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_file(self.path("ca.crt")).unwrap();
        roots.add(ca).unwrap();
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config).into()
    }
}

const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

fn localhost() -> ServerName<'static> {
    ServerName::try_from("localhost").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn psql_verifies_the_server_and_binds_its_password_to_the_certificate() {
    let world = World::new().await;
    let ask = "SELECT current_user, CASE WHEN ssl THEN 'on' ELSE 'off' END FROM pg_stat_ssl \
               WHERE pid = pg_backend_pid()";
    for (more, expected) in [
        (
            "user=admin sslmode=verify-full channel_binding=require",
            "admin|on",
        ),
        (
            "user=admin sslmode=verify-full channel_binding=disable",
            "admin|on",
        ),
        ("user=admin sslmode=disable", "admin|off"),
    ] {
        let Some((done, said)) = world.psql(more, ask).await else {
            return;
        };
        assert!(done && said.trim() == expected, "{more}: {said}");
    }
    let wrong = "user=nosuch sslmode=verify-full";
    let (done, said) = world.psql(wrong, "SELECT 1").await.unwrap();
    assert!(
        !done && said.contains("password authentication failed"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_lets_in_the_role_of_its_name_and_no_other() {
    let world = World::new().await;
    let shows = format!(
        "sslmode=verify-full sslcert={} sslkey={}",
        world.path("anna.crt").display(),
        world.path("anna.key").display()
    );
    let Some((done, said)) = world
        .psql(&format!("user=anna {shows}"), "SELECT current_user")
        .await
    else {
        return;
    };
    assert!(done && said.trim() == "anna", "{said}");
    let (done, said) = world
        .psql(&format!("user=admin {shows}"), "SELECT 1")
        .await
        .unwrap();
    assert!(!done && said.contains("certificate is that of"), "{said}");
    // Somebody else's authority vouches for nobody.
    let other = world.path("other");
    certificates(&other);
    let shows = format!(
        "user=anna sslmode=verify-full sslcert={} sslkey={}",
        other.join("anna.crt").display(),
        other.join("anna.key").display()
    );
    let (done, said) = world.psql(&shows, "SELECT 1").await.unwrap();
    assert!(!done, "{said}");
}

/// A role without a password comes in by its certificate: nobody else needs to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_certificates_let_roles_in_others_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        tls: Some(tls(folder.path(), true)),
        ..Options::default()
    };
    let served = Served::start_with(options).await;
    let client = served.connect("user=me").await.unwrap();
    client.batch_execute("CREATE USER anna").await.unwrap();
    for user in ["me", "anna", "lazybase"] {
        let refused = served.connect(&format!("user={user} password=x")).await;
        assert_eq!(sqlstate(refused), "28P01", "{user}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_spoken_on_request_and_at_once() {
    let world = World::new().await;
    for versions in [&[&version::TLS12][..], &[&version::TLS13]] {
        let mut stream = TcpStream::connect(world.served.address).await.unwrap();
        stream.write_all(&SSL_REQUEST).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'S');
        let connector = world.client(versions, &[]);
        let mut stream = connector.connect(localhost(), stream).await.unwrap();
        stream.write_all(&startup("admin")).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'R');
    }
    let stream = TcpStream::connect(world.served.address).await.unwrap();
    let connector = world.client(&[&version::TLS13], &["postgresql"]);
    let mut stream = connector.connect(localhost(), stream).await.unwrap();
    stream.write_all(&startup("admin")).await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), b'R');
    // Without the protocol's name it could be meant for another server.
    let stream = TcpStream::connect(world.served.address).await.unwrap();
    let connector = world.client(&[&version::TLS13], &[]);
    let mut stream = connector.connect(localhost(), stream).await.unwrap();
    drop(stream.write_all(&startup("admin")).await);
    assert!(stream.read_u8().await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_sent_before_the_handshake_is_not_taken_for_what_comes_after() {
    let world = World::new().await;
    let mut stream = TcpStream::connect(world.served.address).await.unwrap();
    let injected = [&SSL_REQUEST[..], &startup("admin")].concat();
    stream.write_all(&injected).await.unwrap();
    let mut told = Vec::new();
    let reading = stream.read_to_end(&mut told);
    tokio::time::timeout(LESS_THAN_SILENCE, reading)
        .await
        .expect("it ends")
        .unwrap();
    let text = String::from_utf8_lossy(&told).into_owned();
    assert!(text.contains("FATAL") && text.contains("08P01"), "{text}");
    assert_ne!(told[0], b'S', "no handshake is begun");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handshakes_that_are_cut_off_end_their_own_connection_only() {
    let world = World::new().await;
    let hello = [0x16, 3, 1, 0x02, 0x00, 1, 0, 1, 0xfc, 3, 3];
    for (bytes, end) in [
        ([&SSL_REQUEST[..]].concat(), true),
        (hello.to_vec(), true),
        (hello.to_vec(), false),
        (
            [&[0x16, 3, 1, 0xff, 0xff][..], &[0xff; 300]].concat(),
            false,
        ),
        (vec![0x16], true),
    ] {
        let mut stream = TcpStream::connect(world.served.address).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        if end {
            stream.shutdown().await.unwrap();
            let mut told = Vec::new();
            let reading = stream.read_to_end(&mut told);
            drop(
                tokio::time::timeout(LESS_THAN_SILENCE, reading)
                    .await
                    .expect("it ends"),
            );
        }
    }
    world
        .served
        .connect("user=admin password=secret")
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_certificates_count_from_the_next_connection_on() {
    let world = World::new().await;
    let connect = async || {
        let stream = TcpStream::connect(world.served.address).await.unwrap();
        let connector = world.client(&[&version::TLS13], &["postgresql"]);
        connector.connect(localhost(), stream).await.map(drop)
    };
    connect().await.unwrap();
    // The files are of another authority now, but were not read yet.
    let before = std::fs::read(world.path("ca.crt")).unwrap();
    certificates(world.folder.path());
    let after = std::fs::read(world.path("ca.crt")).unwrap();
    std::fs::write(world.path("ca.crt"), &before).unwrap();
    connect().await.unwrap();
    std::fs::write(world.path("ca.crt"), &after).unwrap();
    world.tls.reload().unwrap();
    connect().await.unwrap();
    std::fs::write(world.path("server.key"), "no key").unwrap();
    let error = world.tls.reload().unwrap_err();
    assert!(error.message().contains("server.key"), "{error:?}");
    connect().await.unwrap();
}
