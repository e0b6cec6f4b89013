//! `lazybase serve` with a certificate: HTTP and Flight are encrypted from the first byte on, the
//! same options mean all protocols, new certificates are read at SIGHUP, and HTTP's pages may be
//! for those alone who show a certificate of their own.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion, version,
};

use crate::run::Place;
use crate::server::{PATIENCE, Server};
use crate::skips::skip;

/// Makes a certificate authority, and certificates of it for the server and for clients.
fn certificates(folder: &Path) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(folder.join("ca.crt"), authority.pem()).unwrap();
    for name in ["server", "watcher", "stranger"] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &authority).unwrap();
        std::fs::write(folder.join(format!("{name}.crt")), certificate.pem()).unwrap();
        std::fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}

/// What a page gives over TLS to a client that trusts the authority of a folder.
fn get(
    address: &str,
    folder: &Path,
    versions: &[&'static SupportedProtocolVersion],
) -> std::io::Result<String> {
    get_as(address, folder, versions, None)
}

/// The same, to a client that shows a certificate.
fn get_as(
    address: &str,
    folder: &Path,
    versions: &[&'static SupportedProtocolVersion],
    shows: Option<&Path>,
) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_file(folder.join("ca.crt")).unwrap();
    roots.add(ca).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    let config = match shows {
        None => config.with_no_client_auth(),
        Some(path) => {
            let own = CertificateDer::from_pem_file(path).unwrap();
            let key = PrivateKeyDer::from_pem_file(path.with_extension("key")).unwrap();
            config.with_client_auth_cert(vec![own], key).unwrap()
        }
    };
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
    let (status, text) = crate::http::get(&address, "/ready");
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

#[test]
fn pages_are_for_those_who_show_a_certificate_where_that_is_asked() {
    let place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let other = tempfile::tempdir().unwrap();
    certificates(other.path());
    let files = ["server.crt", "server.key", "ca.crt"];
    let files = files.map(|name| folder.path().join(name).display().to_string());
    let tls = ["--tls-cert", &files[0], "--tls-key", &files[1]];
    let asks = ["--http-client-cert", "on", "--tls-client-ca", &files[2]];
    let server = Server::start(&place, &[&tls[..], &asks].concat());
    let told = server.line("HTTP: ");
    assert!(told.ends_with(" (with a certificate)"), "{told}");
    let address = told.split("https://").nth(1).unwrap();
    let address = address.split('/').next().unwrap().to_owned();
    let shows = |folder: &Path, name: &str| {
        let own = folder.join(format!("{name}.crt"));
        get_as(&address, folder, &[&version::TLS13], Some(&own))
    };
    let is = |answer: std::io::Result<String>, status: &str, end: &str| {
        let answer = answer.unwrap();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
        assert!(answer.ends_with(end), "{answer}");
    };
    let needed = "a client certificate is needed\n";

    // Without roles, whoever is vouched for.
    is(shows(folder.path(), "watcher"), "200", "ready\n");
    is(
        get(&address, folder.path(), &[&version::TLS13]),
        "403",
        needed,
    );
    is(
        get(&address, folder.path(), &[&version::TLS12]),
        "403",
        needed,
    );
    for page in ["/", "/health", "/ready", "/metrics", "/absent"] {
        let (status, text) = crate::http::get(&address, page);
        assert_eq!(
            (status, text.as_str()),
            (403, needed),
            "{page}, not encrypted"
        );
    }

    // Whom somebody else vouches for is not spoken to.
    let own = other.path().join("watcher.crt");
    let refused = get_as(&address, folder.path(), &[&version::TLS13], Some(&own));
    assert!(refused.is_err(), "{refused:?}");
    let line = server.line("TLS handshake refused: invalid peer certificate");
    assert!(line.contains("peer=127.0.0.1:"), "{line}");

    // With roles, those that may log in.
    let sql = "CREATE ROLE watcher LOGIN; CREATE ROLE admin SUPERUSER LOGIN PASSWORD 'secret'";
    server.rows(sql);
    is(shows(folder.path(), "watcher"), "200", "ready\n");
    is(shows(folder.path(), "stranger"), "403", "can't log in\n");
    let admin = format!("postgresql://admin:secret@{}/lazybase", server.pg);
    let sql = ["sql", "--url", &admin, "-c", "ALTER ROLE watcher NOLOGIN"];
    let said = crate::run::alone(&sql);
    assert!(said.ok, "{}", said.err);
    is(shows(folder.path(), "watcher"), "403", "can't log in\n");
    server.stop();
}

#[test]
fn the_shell_shows_a_certificate_of_its_own() {
    let place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key, authority) = (file("server.crt"), file("server.key"), file("ca.crt"));
    let server = Server::start(
        &place,
        &[
            "--tls-cert",
            &certificate,
            "--tls-key",
            &key,
            "--tls-client-ca",
            &authority,
        ],
    );
    server.rows("CREATE ROLE watcher LOGIN; CREATE ROLE admin SUPERUSER LOGIN PASSWORD 'secret'");
    let trusting = format!(
        "postgresql://watcher@{}/lazybase?sslmode=verify-ca&sslrootcert={authority}",
        server.pg
    );
    let url = format!(
        "{trusting}&sslcert={}&sslkey={}",
        file("watcher.crt"),
        file("watcher.key")
    );
    let said = crate::run::alone(&["sql", "--url", &url, "-c", "SELECT current_user"]);
    assert!(said.ok && said.out.contains("watcher"), "{}", said.err);
    let page = crate::run::alone(&["status", "--url", &url, "--once"]);
    assert!(page.ok, "{}", page.err);
    for (more, told) in [
        (
            format!("&sslcert={}", file("watcher.crt")),
            "without sslkey",
        ),
        (
            format!(
                "&sslcert={}&sslkey={}",
                file("stranger.crt"),
                file("stranger.key")
            ),
            "not of \"watcher\"",
        ),
    ] {
        let url = format!("{trusting}{more}");
        let said = crate::run::alone(&["sql", "--url", &url, "-c", "SELECT 1"]);
        assert!(!said.ok && said.err.contains(told), "{}", said.err);
    }
    server.stop();
}

/// What a shell's lines leave in a folder, if there is openssl.
fn by_openssl(folder: &Path, lines: &str) -> bool {
    if Command::new("openssl").arg("version").output().is_err() {
        skip("certificates of openssl: it is not on this machine");
        return false;
    }
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", lines]);
    let output = shell.current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    true
}

/// Clients are told hardly any reason; those who run the server are.
#[test]
fn certificates_of_openssl_are_taken_and_why_others_are_not_is_logged() {
    let place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    // Without extensions, openssl makes certificates of X.509's first version.
    let first =
        "openssl x509 -req -in anna.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out v1.crt";
    let lines = format!("{}{first}", include_str!("certificates.sh"));
    if !by_openssl(folder.path(), &lines) {
        return;
    }
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key, authority) = (file("server.crt"), file("server.key"), file("ca.crt"));
    let tls = ["--tls-cert", &certificate, "--tls-key", &key];
    let server = Server::start(
        &place,
        &[&tls[..], &["--tls-client-ca", &authority]].concat(),
    );
    server.rows("CREATE ROLE anna LOGIN");
    let url = format!(
        "postgresql://anna@localhost:{}/lazybase?sslmode=verify-full&sslrootcert={authority}\
         &sslcert={}&sslkey={}",
        server.pg.rsplit(':').next().unwrap(),
        file("anna.crt"),
        file("anna.key")
    );
    let said = crate::run::alone(&["sql", "--url", &url, "-c", "SELECT current_user"]);
    assert!(said.ok && said.out.contains("anna"), "{}", said.err);
    let told = server.line("HTTP: ");
    let address = told.split("https://").nth(1).unwrap();
    let mut client = Command::new("openssl");
    client.args(["s_client", "-connect", address.split('/').next().unwrap()]);
    client.args(["-cert", &file("v1.crt"), "-key", &file("anna.key")]);
    client.stdin(Stdio::null()).output().unwrap();
    let line = server.line("UnsupportedCertVersion");
    assert!(
        line.contains("INFO") && line.contains("peer=127.0.0.1:"),
        "{line}"
    );
    server.stop();
}

#[test]
fn certificates_are_asked_of_this_machine_unless_it_is_trusted() {
    let place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let files = ["server.crt", "server.key", "ca.crt"];
    let files = files.map(|name| folder.path().join(name).display().to_string());
    let tls = ["--tls-cert", &files[0], "--tls-key", &files[1]];
    let asks = ["--http-client-cert", "on"];

    let other = folder.path().join("watcher.key").display().to_string();
    let error = place.fails(&["serve", "--tls-cert", &files[0], "--tls-key", &other]);
    assert!(
        error.contains("watcher.key is not its private key"),
        "{error}"
    );

    // Nobody could show one that counts.
    let said = place.run(&[&["serve"][..], &tls, &asks].concat());
    assert!(
        !said.ok && said.err.contains("--tls-client-ca"),
        "{}",
        said.err
    );

    let trusts = ["--tls-client-ca", &files[2], "--trust-loopback", "on"];
    let server = Server::start(&place, &[&tls[..], &asks, &trusts].concat());
    let told = server.line("HTTP: ");
    let address = told.split("https://").nth(1).unwrap();
    let address = address.split('/').next().unwrap();
    let (status, text) = crate::http::get(address, "/ready");
    assert_eq!((status, text.as_str()), (200, "ready\n"));
    assert!(get(address, folder.path(), &[&version::TLS13]).is_ok());
    server.stop();
}

/// What `lazybase sql --url` says over an address, with a password in the environment.
fn sql(url: &str, password: Option<&str>) -> std::result::Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lazybase"));
    command.args(["sql", "--url", url, "--format", "csv", "-q"]);
    command.args(["-c", "SELECT 41 + 1 AS n"]);
    command.stdin(Stdio::null());
    for name in ["LAZYBASE_DB", "PGPASSWORD", "PGSSLMODE", "PGSSLROOTCERT"] {
        command.env_remove(name);
    }
    if let Some(password) = password {
        command.env("PGPASSWORD", password);
    }
    let output = command.output().unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap()),
        false => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

#[test]
fn the_shell_checks_whom_it_speaks_to_as_far_as_it_is_asked() {
    let place = Place::new();
    place.ok(&[
        "sql",
        "-c",
        "CREATE ROLE admin SUPERUSER LOGIN PASSWORD 'secret'",
    ]);
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let other = tempfile::tempdir().unwrap();
    certificates(other.path());
    let file = |folder: &Path, name: &str| folder.join(name).display().to_string();
    let certificate = file(folder.path(), "server.crt");
    let key = file(folder.path(), "server.key");
    let server = Server::start(&place, &["--tls-cert", &certificate, "--tls-key", &key]);
    let port = server.pg.rsplit(':').next().unwrap().to_owned();
    let ask = |host: &str, query: &str| {
        let url = format!("postgresql://admin@{host}:{port}/lazybase{query}");
        sql(&url, Some("secret"))
    };
    let answer = || Ok("n\n42\n".to_owned());
    let ours = format!("sslrootcert={}", file(folder.path(), "ca.crt"));
    let itself = format!("sslrootcert={certificate}");
    let theirs = format!("sslrootcert={}", file(other.path(), "ca.crt"));
    for (host, query, accepted) in [
        ("127.0.0.1", String::new(), true),
        ("127.0.0.1", "?sslmode=disable".to_owned(), true),
        ("127.0.0.1", "?sslmode=prefer".to_owned(), true),
        ("127.0.0.1", "?sslmode=require".to_owned(), true),
        (
            "127.0.0.1",
            "?sslmode=require&sslnegotiation=direct".to_owned(),
            true,
        ),
        ("127.0.0.1", format!("?sslmode=require&{theirs}"), false),
        ("127.0.0.1", format!("?sslmode=verify-ca&{ours}"), true),
        ("127.0.0.1", format!("?sslmode=verify-ca&{itself}"), true),
        ("127.0.0.1", format!("?sslmode=verify-ca&{theirs}"), false),
        ("127.0.0.1", format!("?sslmode=verify-full&{ours}"), false),
        ("127.0.0.1", format!("?sslmode=verify-full&{itself}"), false),
        ("localhost", format!("?sslmode=verify-full&{ours}"), true),
        ("localhost", format!("?{itself}&sslmode=verify-full"), true),
        ("localhost", format!("?sslmode=verify-full&{theirs}"), false),
        (
            "localhost",
            "?sslmode=verify-full&sslrootcert=absent.crt".to_owned(),
            false,
        ),
        ("localhost", "?sslmode=strict".to_owned(), false),
    ] {
        let told = ask(host, &query);
        match accepted {
            true => assert_eq!(told, answer(), "{host} {query}"),
            false => assert!(told.is_err(), "{host} {query}: {told:?}"),
        }
    }

    // Passwords come from the address, from the environment, or from a terminal.
    let url = format!("postgresql://admin@127.0.0.1:{port}/lazybase");
    let said = sql(&url, None).unwrap_err();
    assert!(
        said.contains("asks for a password") && said.contains("PGPASSWORD"),
        "{said}"
    );
    let said = sql(&url, Some("wrong")).unwrap_err();
    assert!(said.contains("password"), "{said}");
    let pairs = format!("host=localhost port={port} user=admin dbname=lazybase {ours}");
    let pairs = format!("{pairs} sslmode=verify-full password=secret");
    assert_eq!(sql(&pairs, None), answer());
    server.stop();

    // A server without certificates is not enough for who insists.
    let server = Server::start(&place, &[]);
    let url = |mode: &str| format!("postgresql://admin@{}/lazybase?sslmode={mode}", server.pg);
    assert_eq!(sql(&url("prefer"), Some("secret")), answer());
    let said = sql(&url("require"), Some("secret")).unwrap_err();
    assert!(said.contains("TLS"), "{said}");
    server.stop();
}
