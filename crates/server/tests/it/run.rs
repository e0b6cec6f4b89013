//! Runs the binary and looks at what it says.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// Log files are filled with zeros ahead of time, for which each run would wait.
pub(crate) const SMALL_LOGS: (&str, &str) = ("LAZYBASE_LOG_FILE_BYTES", "1 MiB");

/// A folder for a database and files.
pub(crate) struct Place {
    folder: TempDir,
}

/// What a run said.
pub(crate) struct Said {
    pub(crate) ok: bool,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file and gives its path as text.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// `lazybase --db DIR args`, to be run.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lazybase"));
        command.arg("--db").arg(self.path("db")).args(args);
        command.envs([SMALL_LOGS]);
        command.env_remove("LAZYBASE_DB").stdin(Stdio::null());
        command
    }

    /// Runs `lazybase --db DIR args`.
    pub(crate) fn run(&self, args: &[&str]) -> Said {
        said(&self.command(args).output().unwrap())
    }

    /// Runs with a text on standard input.
    pub(crate) fn run_with(&self, args: &[&str], input: &str) -> Said {
        self.run_with_bytes(args, input.as_bytes())
    }

    /// Runs with bytes on standard input.
    pub(crate) fn run_with_bytes(&self, args: &[&str], input: &[u8]) -> Said {
        let mut command = self.command(args);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        said(&child.wait_with_output().unwrap())
    }

    /// Has a shell run statements, and kills it: nothing is closed, and the newest edits of the
    /// manifest are told once.
    pub(crate) fn kill_after(&self, sql: &str) {
        let mut command = self.command(&["sql", "--quiet", "--format", "csv"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = command.spawn().unwrap();
        let input = shell.stdin.as_mut().unwrap();
        writeln!(input, "{sql}; SELECT 'done' AS x;").unwrap();
        input.flush().unwrap();
        let mut lines = BufReader::new(shell.stdout.as_mut().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "done"));
        shell.kill().unwrap();
        shell.wait().unwrap();
    }

    /// Runs what must succeed; gives its data.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let said = self.run(args);
        assert!(said.ok, "{args:?}: {}{}", said.out, said.err);
        said.out
    }

    /// Runs what must fail; gives what it said.
    pub(crate) fn fails(&self, args: &[&str]) -> String {
        let said = self.run(args);
        assert!(!said.ok, "{args:?}: {}{}", said.out, said.err);
        assert!(said.err.contains("error: "), "{args:?}: {}", said.err);
        said.err
    }

    /// The rows of a query as CSV without its header.
    pub(crate) fn rows(&self, sql: &str) -> String {
        let out = self.ok(&["sql", "--format", "csv", "-c", sql]);
        out.split_once('\n').map_or("", |(_, rows)| rows).to_owned()
    }
}

/// Runs `lazybase args` with no database named.
pub(crate) fn alone(args: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lazybase"));
    said(
        &command
            .args(args)
            .env_remove("LAZYBASE_DB")
            .output()
            .unwrap(),
    )
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn said(output: &Output) -> Said {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said {
        ok: output.status.success(),
        out: text(&output.stdout),
        err: text(&output.stderr),
    }
}
