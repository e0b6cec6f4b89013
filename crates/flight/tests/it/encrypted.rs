//! Encryption: tonic's own client, with and without a certificate of its own, and roles that are
//! let in by it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_flight::error::FlightError;
use lazybase_flight::{Options, Server};
use lazybase_query::Database;
use lazybase_tls::{Tls, TlsFiles};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use tempfile::TempDir;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::served::{Client, Served, failure, query, sqlstate, text};

/// Makes a certificate authority, and certificates of it for the server and for the client `anna`.
fn certificates(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(folder.join("ca.crt"), authority.pem()).unwrap();
    let of_server = vec!["localhost".to_owned()];
    for (name, hosts) in [("server", of_server), ("anna", Vec::new())] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &authority).unwrap();
        std::fs::write(folder.join(format!("{name}.crt")), certificate.pem()).unwrap();
        std::fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}

fn tls(folder: &Path) -> Arc<Tls> {
    Tls::load(TlsFiles {
        certificate: folder.join("server.crt"),
        key: folder.join("server.key"),
        client_ca: Some(folder.join("ca.crt")),
    })
    .unwrap()
}

struct World {
    served: Served,
    folder: TempDir,
}

impl World {
    async fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        certificates(folder.path());
        let served = Served::start_with(Options {
            tls: Some(tls(folder.path())),
            ..Options::default()
        })
        .await;
        served
            .sql("CREATE ROLE admin SUPERUSER LOGIN PASSWORD 'secret'; CREATE USER anna")
            .await;
        World { served, folder }
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.folder.path().join(name)).unwrap()
    }

    /// An encrypted connection of a client that shows the certificate of a folder, or none.
    async fn connect(&self, shows: Option<PathBuf>) -> Result<Client, tonic::transport::Error> {
        let mut config = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(self.read("ca.crt")))
            .domain_name("localhost");
        if let Some(folder) = shows {
            let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
            config = config.identity(Identity::from_pem(read("anna.crt"), read("anna.key")));
        }
        let endpoint = Endpoint::from_shared(format!("https://{}", self.served.address)).unwrap();
        let channel = endpoint.tls_config(config).unwrap().connect().await?;
        Ok(Client::new(channel))
    }

    fn own(&self) -> Option<PathBuf> {
        Some(self.folder.path().to_owned())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_goes_over_an_encrypted_connection() {
    let world = World::new().await;
    let mut client = world.connect(None).await.unwrap();
    let nobody = query(&mut client, "SELECT 1").await;
    assert_eq!(sqlstate(nobody), "28000");
    let wrong = client.handshake("admin", "guess").await;
    assert!(wrong.is_err());
    client.handshake("admin", "secret").await.unwrap();
    let who = text(&mut client, "SELECT current_user").await;
    assert_eq!(who, "admin");
    // From this machine, a connection need not be encrypted.
    let mut plain = world.served.client().await;
    plain.handshake("admin", "secret").await.unwrap();
    assert_eq!(text(&mut plain, "SELECT current_user").await, "admin");
    world.served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_lets_in_the_role_of_its_name_and_no_other() {
    let world = World::new().await;
    let mut anna = world.connect(world.own()).await.unwrap();
    assert_eq!(text(&mut anna, "SELECT current_user").await, "anna");
    let mut anna = world.connect(world.own()).await.unwrap();
    anna.handshake("anna", "").await.unwrap();
    assert_eq!(text(&mut anna, "SELECT session_user").await, "anna");
    let mut other = world.connect(world.own()).await.unwrap();
    let refused = other.handshake("admin", "secret").await.unwrap_err();
    let said = refused.to_string();
    assert!(said.contains("certificate is that of"), "{said}");
    // Somebody else's authority vouches for nobody.
    let elsewhere = world.folder.path().join("elsewhere");
    certificates(&elsewhere);
    let refused = match world.connect(Some(elsewhere)).await {
        Err(_) => true,
        Ok(mut client) => query(&mut client, "SELECT 1").await.is_err(),
    };
    assert!(refused);
    world.served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_are_served_only_with_encryption_and_a_password() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let database = Database::open(folder.path().join("db")).await.unwrap();
    let session = database.session();
    let address = "0.0.0.0:0".parse().unwrap();
    let options = |encrypts: bool| Options {
        tls: encrypts.then(|| tls(folder.path())),
        ..Options::default()
    };
    for (encrypts, role, opens) in [
        (false, "", false),
        (true, "", false),
        (false, "CREATE ROLE admin LOGIN PASSWORD 'x'", false),
        (true, "", true),
    ] {
        if !role.is_empty() {
            session.execute(role).await.unwrap();
        }
        let bound = Server::bind(database.clone(), address, options(encrypts)).await;
        match bound {
            Ok(_) => assert!(opens),
            Err(error) => {
                assert!(!opens, "{error}");
                assert!(error.to_string().contains("other machines"), "{error}");
            }
        }
    }
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_agree_holds_up_nobody() {
    let world = World::new().await;
    // A handshake that begins and goes on no further, one that is none, and one of silence.
    let mut begun = Vec::new();
    for bytes in [&[0x16, 3, 1][..], b"GET / HTTP/1.0\r\n\r\n", b""] {
        use tokio::io::AsyncWriteExt;
        let mut stream = tokio::net::TcpStream::connect(world.served.address)
            .await
            .unwrap();
        stream.write_all(bytes).await.unwrap();
        begun.push(stream);
    }
    let mut client = world.connect(world.own()).await.unwrap();
    let got: Result<_, FlightError> = query(&mut client, "SELECT 1").await;
    assert_eq!(got.unwrap().text(), "1");
    let denied = query(&mut client, "CREATE ROLE x").await;
    assert_eq!(failure(denied).1, "42501");
    drop(begun);
    world.served.stop().await;
}
