//! Chores of the repository, run as `cargo run -p xtask -- <chore>`.
//!
//! There is one so far: `tidy`, which checks the house rules of CONTRIBUTING.md over every file
//! that git knows, prints one line for each breach, and fails if there is one. `cargo test -p
//! xtask` runs the same check. This crate depends on the standard library alone, so that it builds
//! in seconds.

mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let chores: Vec<String> = std::env::args().skip(1).collect();
    match chores.as_slice() {
        [chore] if chore == "tidy" => run_tidy(),
        _ => {
            eprintln!("usage: cargo run -p xtask -- tidy");
            ExitCode::from(2)
        }
    }
}

fn run_tidy() -> ExitCode {
    let report = match tidy::check_workspace(&workspace_root()) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("tidy cannot read the repository: {error}");
            return ExitCode::from(2);
        }
    };
    print!("{report}");
    if report.findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The repository's root: the folder above this package, or the current one when cargo did not
/// start us.
fn workspace_root() -> PathBuf {
    match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(package) => PathBuf::from(package).join(".."),
        None => PathBuf::from("."),
    }
}
