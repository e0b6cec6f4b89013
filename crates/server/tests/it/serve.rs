//! `lazybase serve` as a process: its first lines, a client, a signal, its end.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use crate::run::Place;
use crate::server::Server;
use crate::skips::skip;

#[test]
fn it_says_where_it_listens_and_stops_when_told() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let said = server.said();
    let at = |words: &str| said.iter().position(|line| line.contains(words)).unwrap();
    assert!(at("serving") < at(" -p ") && at(" -p ") < at("HTTP: "));
    assert!(at("HTTP: ") < at("other machines can't connect"));
    assert!(said[at("other machines can't connect")].contains("--tls-cert"));
    assert!(at("other machines can't connect") < at("ready; Ctrl-C stops"));
    let flight = &said[at("Arrow Flight SQL clients: ")];
    TcpStream::connect(flight.split("grpc://").nth(1).unwrap()).unwrap();

    let mut client = TcpStream::connect(&server.pg).unwrap();
    client.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).unwrap();
    let mut answer = [0];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"N", "encryption is declined");

    let said = server.stop();
    assert!(said.iter().any(|line| line.starts_with("stopping")));
}

#[test]
fn an_address_that_others_reach_is_refused() {
    let place = Place::new();
    let said = place.run(&["serve", "--pg-listen", "0.0.0.0:0", "--http-listen", "off"]);
    assert!(!said.ok);
    let err = said.err;
    assert!(err.contains("hint:") && err.contains("ssh"), "{err}");
    let args = [
        "serve",
        "--pg-listen",
        "127.0.0.1:0",
        "--http-listen",
        "off",
    ];
    let err = place.fails(&[&args[..], &["--flight-listen", "0.0.0.0:0"]].concat());
    assert!(err.contains("hint:") && err.contains("31337"), "{err}");
}

#[test]
fn a_folder_in_use_names_the_server() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let err = place.fails(&["sql", "-c", "SELECT 1"]);
    let address = format!("postgresql://{}/lazybase", server.pg);
    assert!(err.contains("in use by process"), "{err}");
    assert!(err.contains(&format!("serves {address}")), "{err}");
    let hint = format!("hint: speak to it: lazybase sql --url {address}");
    assert!(err.contains(&hint), "{err}");
}

#[test]
fn an_address_of_http_must_be_had_only_where_somebody_chose_it() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let place = Place::new();
    let pg = [
        "serve",
        "--pg-listen",
        "127.0.0.1:0",
        "--flight-listen",
        "off",
    ];
    let err = place.fails(&[&pg[..], &["--http-listen", &address]].concat());
    assert!(err.contains("--http-listen"), "{err}");
    let off = Server::spawn(&mut place.command(&[&pg[..], &["--http-listen", "off"]].concat()));
    assert!(off.line("HTTP: ").contains("off"));
    off.stop();
}

#[test]
fn nothing_to_serve_is_an_error() {
    let place = Place::new();
    let err = place.fails(&["serve", "--pg-listen", "off", "--flight-listen", "off"]);
    assert!(err.contains("nothing is to be served"), "{err}");
}

/// The unit names a file of options: it is used where it is there, and not missed where it is not.
#[test]
fn the_unit_of_systemd_reads_its_file() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd");
    let unit = std::fs::read_to_string(format!("{folder}/lazybase.service")).unwrap();
    let told = unit.split("# Options: ").nth(1).unwrap();
    let (told, _) = told.split_once(',').unwrap();
    let variables: Vec<(&str, &str)> = unit
        .lines()
        .filter_map(|line| line.strip_prefix("Environment=")?.split_once('='))
        .collect();
    let place = Place::new();
    let printed = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lazybase"));
        command.args(["serve", "--print-config"]).env_clear();
        for (name, value) in &variables {
            assert!(name.starts_with("LAZYBASE_"), "{name}");
            let path = place.path("lazybase.toml");
            command.env(name, value.replace(told, path.to_str().unwrap()));
        }
        let output = command.output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).unwrap()
    };
    let without = printed();
    assert!(without.contains("max_connections = 500\n"), "{without}");
    place.file("lazybase.toml", "max_connections = 17\n");
    let with = printed();
    assert!(with.contains("max_connections = 17\n"), "{with}");
    assert!(with.contains("log_format = \"json\"\n"), "{with}");
    assert!(unit.contains("ExecStart=/usr/local/bin/lazybase serve\n"));
}

/// What systemd does not know it passes over with a warning: a right that was to be taken away
/// would stay.
#[test]
fn systemd_knows_every_line_of_the_unit() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd");
    let unit = std::fs::read_to_string(format!("{folder}/lazybase.service")).unwrap();
    let place = Place::new();
    // It looks whether the command is there.
    let binary = env!("CARGO_BIN_EXE_lazybase");
    let here = unit.replace("/usr/local/bin/lazybase", binary);
    let file = place.file("lazybase.service", &here);
    let verify = |file: &str| {
        let mut verify = Command::new("systemd-analyze");
        let output = verify.args(["verify", "--man=no", file]).output().ok()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // Units of the machine itself may have faults of their own.
        let ours = said.lines().filter(|line| line.contains(".service:"));
        let ours = ours.filter(|line| line.contains("lazybase"));
        Some(ours.map(str::to_owned).collect::<Vec<_>>())
    };
    let Some(said) = verify(&file) else {
        skip("the systemd unit: there is no systemd-analyze on this machine");
        return;
    };
    assert!(said.is_empty(), "{said:?}");
    let other = here.replace("NoNewPrivileges", "NoNewPrivilege");
    let file = place.file("lazybase-other.service", &other);
    let said = verify(&file).unwrap();
    let mut lines = said.iter();
    assert!(
        lines.any(|line| line.contains("NoNewPrivilege")),
        "{said:?}"
    );
}

#[test]
fn the_configuration_is_printed_and_read_back() {
    let place = Place::new();
    let args = ["serve", "--workers", "3", "--print-config"];
    let mut command = place.command(&args);
    let printed = command.env("LAZYBASE_SEAL_AGE", "3 s").output().unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert!(printed.contains("workers = 3\n"), "{printed}");
    assert!(printed.contains("seal_age = \"3 s\"\n"), "{printed}");
    assert!(printed.contains("set by the flag"), "{printed}");
    let file = place.file("lazybase.toml", &printed);
    let again = place.ok(&["--config", &file, "serve", "--print-config"]);
    let values = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(values(&again), values(&printed));
    // The same options hold for what opens the folder itself.
    let file = place.file("small.toml", "batch_bytes_max = \"1 KiB\"\n");
    let insert = "CREATE TABLE t (k INT PRIMARY KEY, v TEXT);
        INSERT INTO t SELECT x, repeat('v', 100) FROM generate_series(1, 100) AS s (x)";
    let err = place.fails(&["--config", &file, "sql", "-c", insert]);
    assert!(err.contains("batch"), "{err}");
    let file = place.file("wrong.toml", "max_conections = 5\n");
    let err = place.fails(&["--config", &file, "serve"]);
    assert!(err.contains("hint: perhaps max_connections"), "{err}");
}

#[test]
fn sessions_begin_with_the_timeout_that_is_configured() {
    let place = Place::new();
    let server = Server::start(&place, &["--statement-timeout", "250 ms"]);
    assert_eq!(
        server.rows("SHOW statement_timeout").lines().nth(1),
        Some("250")
    );
    let long = "SELECT count(*) FROM generate_series(1, 1000000000000) AS s (x) WHERE x % 7 = 3";
    let said = server.sql(&["-c", long]);
    assert!(said.err.contains("statement_timeout"), "{}", said.err);
    let reset = "SET statement_timeout = '5s'; RESET statement_timeout; SHOW statement_timeout";
    assert!(server.rows(reset).ends_with("250\n"));
}
