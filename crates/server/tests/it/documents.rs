//! The README and the user's guide: every command and statement in them runs as it stands.
//!
//! A document's blocks run one after the other in a folder of their own. After the language, a
//! fence's info string may say `no-run (why)`, `fails` (the block must end with an error), or
//! `db=FOLDER` (for SQL: the database; `docs.lb` where nothing is said). `of=FILE` says that the
//! block is a part of that file, which something else runs: all blocks of Rust are, of tests.
//! `text` is what a program prints.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::run::SMALL_LOGS;

/// A fenced block.
struct Block {
    /// Where it stands, for messages.
    place: String,
    info: String,
    text: String,
}

impl Block {
    fn language(&self) -> &str {
        self.info.split_whitespace().next().unwrap_or("")
    }

    fn says(&self, word: &str) -> bool {
        self.info.split_whitespace().any(|said| said == word)
    }

    fn database(&self) -> &str {
        let mut words = self.info.split_whitespace();
        words
            .find_map(|word| word.strip_prefix("db="))
            .unwrap_or("docs.lb")
    }

    /// The command that runs the block, if anything does.
    fn command(&self, folder: &Path) -> Option<Command> {
        if self.says("no-run") {
            let why = self.info.split_once('(');
            assert!(why.is_some(), "{}: no-run needs a reason", self.place);
            return None;
        }
        let mut command = match self.language() {
            "sh" => {
                let mut shell = Command::new("bash");
                shell.args(["-euo", "pipefail", "-c", &self.text]);
                shell
            }
            "sql" => {
                let script = folder.join("block.sql");
                std::fs::write(&script, &self.text).unwrap();
                let mut lazybase = Command::new(env!("CARGO_BIN_EXE_lazybase"));
                lazybase.args(["--db", self.database(), "sql", "-f"]);
                lazybase.arg(script);
                lazybase
            }
            "rust" => {
                let shown = self.info.contains("of=");
                assert!(shown, "{}: nothing runs this", self.place);
                return None;
            }
            "text" => return None,
            other => panic!("{}: a block of {other:?}", self.place),
        };
        let binaries = Path::new(env!("CARGO_BIN_EXE_lazybase")).parent().unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env("PATH", format!("{}:{path}", binaries.display()))
            .env("LAZYBASE_DB", "docs.lb")
            .envs([SMALL_LOGS])
            .current_dir(folder)
            .stdin(Stdio::null());
        Some(command)
    }

    /// Whether the block stands in the file that it is said to be a part of, however far in.
    fn check_excerpt(&self) {
        let mut words = self.info.split_whitespace();
        let Some(file) = words.find_map(|word| word.strip_prefix("of=")) else {
            return;
        };
        let text = std::fs::read_to_string(repository().join(file)).unwrap();
        let lines = |text: &str| -> Vec<String> {
            let lines = text.lines().map(|line| line.trim().to_owned());
            lines.filter(|line| !line.is_empty()).collect()
        };
        let (shown, all) = (lines(&self.text), lines(&text));
        assert!(!shown.is_empty(), "{}: nothing is shown", self.place);
        let is_there = all.windows(shown.len()).any(|part| *part == shown[..]);
        assert!(is_there, "{}: this does not stand in {file}", self.place);
    }

    fn run(&self, folder: &Path) {
        self.check_excerpt();
        let Some(mut command) = self.command(folder) else {
            return;
        };
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let out = String::from_utf8_lossy(&output.stdout);
        let wanted = !self.says("fails");
        assert_eq!(
            output.status.success(),
            wanted,
            "{}:\n{}\n{out}{said}",
            self.place,
            self.text
        );
    }
}

fn blocks(document: &Path) -> Vec<Block> {
    let text = std::fs::read_to_string(document).unwrap();
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in (1..).zip(text.lines()) {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(info), None) => {
                open = Some(Block {
                    place: format!("{}, line {number}", document.display()),
                    info: info.to_owned(),
                    text: String::new(),
                });
            }
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{}: an open block", document.display());
    blocks
}

fn repository() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap()
}

fn runs(document: &str) {
    let folder = tempfile::tempdir().unwrap();
    let data = repository().join("data");
    std::os::unix::fs::symlink(data, folder.path().join("data")).unwrap();
    let blocks = blocks(&repository().join(document));
    assert!(!blocks.is_empty(), "{document} has no blocks");
    for block in blocks {
        block.run(folder.path());
    }
}

#[test]
fn the_readme_runs() {
    runs("README.md");
}

#[test]
fn the_tour_runs() {
    runs("docs/user/tour.md");
}

#[test]
fn the_rust_guide_shows_what_runs() {
    runs("docs/user/rust.md");
}

#[test]
fn the_sql_guide_runs() {
    runs("docs/user/sql.md");
}

#[test]
fn the_freshness_guide_runs() {
    runs("docs/user/freshness.md");
}

#[test]
fn the_guide_to_connecting_runs() {
    runs("docs/user/connecting.md");
}

#[test]
fn the_guide_to_loading_runs() {
    runs("docs/user/loading.md");
}

#[test]
fn the_command_line_guide_runs() {
    runs("docs/user/cli.md");
}

#[test]
fn the_guide_to_partitions_runs() {
    runs("docs/user/partitions.md");
}

#[test]
fn who_may_do_what() {
    runs("docs/user/security.md");
}

#[test]
fn labels_run_as_they_are_told() {
    runs("docs/user/labels.md");
}

#[test]
fn the_guide_to_backups_runs() {
    runs("docs/user/backup.md");
}

#[test]
fn the_guide_to_configuration_runs() {
    runs("docs/user/configuration.md");
}

#[test]
fn the_guide_to_monitoring_runs() {
    runs("docs/user/monitoring.md");
}

#[test]
fn the_guarantees_run() {
    runs("docs/user/guarantees.md");
}

/// A document that nobody runs would rot.
#[test]
fn every_document_is_here() {
    let here = [
        "backup.md",
        "cli.md",
        "configuration.md",
        "connecting.md",
        "damage.md",
        "freshness.md",
        "guarantees.md",
        "labels.md",
        "loading.md",
        "monitoring.md",
        "partitions.md",
        "rust.md",
        "security.md",
        "sql.md",
        "tour.md",
    ];
    let mut found: Vec<String> = std::fs::read_dir(repository().join("docs/user"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    assert_eq!(found, here);
}
