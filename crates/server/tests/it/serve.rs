//! `lazybase serve` as a process: its first lines, a client, a signal, its end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

#[test]
fn it_says_where_it_listens_and_stops_when_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_lazybase"))
        .arg("--db")
        .arg(folder.path().join("db"))
        .args(["serve", "--pg-listen", "127.0.0.1:0"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert!(next().contains("serving"));
    let told = next();
    let port = told.split(" -p ").nth(1).unwrap();
    let port: u16 = port.split(' ').next().unwrap().parse().unwrap();
    assert!(next().starts_with("ready"));

    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    client.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).unwrap();
    let mut answer = [0];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"N", "encryption is declined");

    let told = Command::new("kill")
        .args(["-TERM", &server.id().to_string()])
        .status()
        .unwrap();
    assert!(told.success());
    assert!(next().starts_with("stopping"));
    assert!(next().starts_with("stopped"));
    assert!(server.wait().unwrap().success());
}

#[test]
fn an_address_that_others_reach_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = Command::new(env!("CARGO_BIN_EXE_lazybase"))
        .arg("--db")
        .arg(folder.path().join("db"))
        .args(["serve", "--pg-listen", "0.0.0.0:0"])
        .output()
        .unwrap();
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("hint:") && said.contains("ssh"), "{said}");
}
