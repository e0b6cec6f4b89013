//! What the command line says, and how it exits.

use std::collections::BTreeMap;
use std::process::{Command, Output};

pub(crate) fn run(arguments: &[&str]) -> Output {
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
fn marks_that_are_not_met_are_told_and_a_failure_where_they_are_asked_for() {
    let told = run(&["--seeds", "1", "--from", "40"]);
    assert!(told.status.success(), "{told:?}");
    let text = String::from_utf8(told.stdout).unwrap();
    assert!(text.contains("marks were not met:"), "{text}");
    let refused = run(&["--seeds", "1", "--from", "40", "--require-marks"]);
    assert_eq!(refused.status.code(), Some(1));
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

#[test]
fn a_story_of_which_much_is_left_out_is_shown() {
    let trim = "faults=false,lives=1,operations=20";
    let shown = run(&["--show", "5", "--trim", trim]);
    assert!(shown.status.success(), "{shown:?}");
    let text = String::from_utf8(shown.stdout).unwrap();
    for word in ["opened", "heard batch", "at rest", "crashes: 0"] {
        assert!(text.contains(word), "{word}");
    }
    let refused = run(&["--show", "5", "--trim", "fault=false"]);
    assert_eq!(refused.status.code(), Some(2));
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(told.contains("faults"), "{told}");
}

/// Answers by the stages that they came from.
fn answers(told: &serde_json::Value) -> BTreeMap<String, u64> {
    let stages = told["answers_by_stages"].as_object().unwrap();
    let mut answers = BTreeMap::new();
    for (stages, count) in stages {
        answers.insert(stages.clone(), count.as_u64().unwrap());
    }
    answers
}

#[test]
fn each_seed_is_told_and_all_of_them_add_up() {
    let output = run(&["--seeds", "3", "--from", "40", "--each", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let mut lines: Vec<serde_json::Value> = lines.collect();
    let report = lines.pop().unwrap();
    let mut seeds: Vec<u64> = lines
        .iter()
        .map(|line| line["seed"].as_u64().unwrap())
        .collect();
    seeds.sort_unstable();
    assert_eq!(seeds, [40, 41, 42]);
    for what in ["batches", "queries", "crashes", "restarts"] {
        let each = lines.iter().map(|line| line[what].as_u64().unwrap());
        assert_eq!(each.sum::<u64>(), report[what].as_u64().unwrap(), "{what}");
    }
    let mut sum = BTreeMap::new();
    for line in &lines {
        let mut several = 0;
        for (stages, count) in answers(line) {
            several += u64::from(stages.contains('+')) * count;
            *sum.entry(stages).or_insert(0) += count;
        }
        assert_eq!(line["queries_of_several_stages"], several);
    }
    assert_eq!(sum, answers(&report));
    assert!(sum.contains_key("authority"), "{sum:?}");
    let told = run(&["--seeds", "1", "--from", "40", "--each"]);
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.starts_with("seed 40: "), "{told}");
    let line = lines.iter().find(|line| line["seed"] == 40).unwrap();
    for (stages, count) in answers(line) {
        assert!(told.contains(&format!("{stages} {count}")), "{told}");
    }
}

#[test]
fn the_last_seeds_there_are_can_be_asked_for() {
    let first = (u64::MAX - 1).to_string();
    let output = run(&["--seeds", "3", "--from", &first, "--json"]);
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["seeds"], 1);
}
