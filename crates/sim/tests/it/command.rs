//! What the command line says, and how it exits.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lazybase-sim"));
    command.args(arguments).output().unwrap()
}

#[test]
fn a_report_is_one_line_of_json() {
    let output = run(&["--seeds", "2", "--from", "40", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 1);
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["seeds"], 2);
    assert_eq!(report["counted"], 2);
    assert_eq!(report["violations"], 0);
    assert!(report["seeds_per_s"].as_f64().unwrap() > 0.0);
    assert!(report["marks_missing"].is_array());
}

#[test]
fn a_seed_is_shown_with_everything_that_happens() {
    let shown = run(&["--show", "5"]);
    assert!(shown.status.success(), "{shown:?}");
    assert_eq!(shown.stdout, run(&["--show", "5"]).stdout);
    let text = String::from_utf8(shown.stdout).unwrap();
    for word in [
        "opened",
        "send batch",
        "heard batch",
        "sync log",
        "crash",
        "at rest",
    ] {
        assert!(text.contains(word), "{word}");
    }
}
