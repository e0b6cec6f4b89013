//! The command itself, as far as it goes without a database; `.ci/run` tortures the real binary.

use std::process::Command;

#[test]
fn a_binary_that_is_not_there_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_lazybase-torture"))
        .args(["--binary", "no/such/lazybase", "--rounds", "1"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("no/such/lazybase"), "{said}");
}

/// What another program does is no finding.
#[test]
fn a_binary_that_is_no_server_is_an_error() {
    let output = Command::new(env!("CARGO_BIN_EXE_lazybase-torture"))
        .args(["--binary", "true", "--rounds", "1"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("is no LazyBase"), "{said}");
}
