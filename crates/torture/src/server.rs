//! The database as a process: started, stopped, killed, frozen, asked. What it says is kept in a
//! file beside the database.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_postgres::{Client, NoTls};

use crate::Outcome;

/// How long a start may take.
const START_MAX: Duration = Duration::from_secs(60);
/// How long a stop that was asked for may take.
const STOP_MAX: Duration = Duration::from_secs(60);
/// How long anything else may take.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// So many of the server's last lines are told with an error.
const LINES_TOLD: usize = 12;

/// What a program calls itself, and what it must.
///
/// # Errors
/// When it can't be run, or is another program.
pub(crate) fn check_binary(binary: &Path) -> Outcome<()> {
    let named = Command::new(binary)
        .arg("--version")
        .output()
        .map_err(|error| format!("{}: {error}", binary.display()))?;
    let name = String::from_utf8_lossy(&named.stdout).into_owned();
    match named.status.success() && name.starts_with("lazybase") {
        true => Ok(()),
        false => Err(format!("{} is no LazyBase: {name:?}", binary.display()).into()),
    }
}

/// What is awaited, unless it hangs.
///
/// # Errors
/// When it takes too long, and those of what is awaited.
pub(crate) async fn timely<T, E>(what: &str, done: impl Future<Output = Result<T, E>>) -> Outcome<T>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match tokio::time::timeout(ANSWER_MAX, done).await {
        Ok(done) => done.map_err(|error| format!("{what}: {}", shown(error.into())).into()),
        Err(_) => Err(format!("{what}: nothing came in {ANSWER_MAX:?}").into()),
    }
}

/// An error with what is under it: the client's own words alone say little.
fn shown(error: Box<dyn std::error::Error + Send + Sync>) -> String {
    match error.source() {
        Some(inner) => format!("{error}: {inner}"),
        None => error.to_string(),
    }
}

/// Signals by their names for `kill`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Stop,
    Continue,
    Terminate,
}

/// A running server.
pub(crate) struct Server {
    child: Child,
    port: u16,
    said: Arc<Mutex<Vec<String>>>,
}

/// A start that failed: the server's words.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) String);

/// The program over a folder. Its log files are small: a life begins some, and a full disk is felt
/// at once.
pub(crate) fn command(binary: &Path, folder: &Path) -> Command {
    let mut command = Command::new(binary);
    command.env("LAZYBASE_LOG_FILE_BYTES", "256 KiB");
    command.arg("--db").arg(folder);
    command
}

/// Starts a server over a folder, and waits until it is ready; what it says goes to `log` too.
///
/// # Errors
/// The outer error when the program can't be run, panics, or hangs.
pub(crate) fn start(binary: &Path, folder: &Path, log: &Path) -> Outcome<Result<Server, Refused>> {
    let mut log = File::options().create(true).append(true).open(log)?;
    writeln!(log, "--- a start")?;
    let mut child = command(binary, folder)
        .args([
            "serve",
            "--pg-listen",
            "127.0.0.1:0",
            "--flight-listen",
            "off",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{}: {error}", binary.display()))?;
    let said = Arc::new(Mutex::new(Vec::new()));
    let (sender, lines) = mpsc::channel();
    let stderr = child.stderr.take().ok_or("the server has no stderr")?;
    let heard = Arc::clone(&said);
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            heard.lock().push(line.clone());
            // What was said is in memory too.
            let _ = writeln!(log, "{line}");
            // Nobody listens any more once the server is ready.
            let _ = sender.send(line);
        }
    });
    let mut port = None;
    loop {
        match lines.recv_timeout(START_MAX) {
            Ok(line) => {
                if let Some(found) = port_in(&line) {
                    port = Some(found);
                }
                if let (Some(port), true) = (port, line.starts_with("ready")) {
                    return Ok(Ok(Server { child, port, said }));
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let _ = child.kill();
                return Err(format!("no start within {START_MAX:?}: {:?}", said.lock()).into());
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let status = child.wait()?;
                let said = said.lock().join("\n");
                let panicked = said.contains("panicked at");
                if status.success() || status.code().is_none() || panicked {
                    return Err(format!("the server ended with {status}: {said}").into());
                }
                return Ok(Err(Refused(said)));
            }
        }
    }
}

fn port_in(line: &str) -> Option<u16> {
    let (_, rest) = line.split_once(" -p ")?;
    rest.split_whitespace().next()?.parse().ok()
}

impl Server {
    /// A new connection.
    pub(crate) async fn connect(&self) -> Outcome<Client> {
        connect(self.port).await
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn signal(&self, signal: Signal) -> Outcome<()> {
        let name = match signal {
            Signal::Stop => "-STOP",
            Signal::Continue => "-CONT",
            Signal::Terminate => "-TERM",
        };
        let status = Command::new("kill")
            .args([name, &self.child.id().to_string()])
            .status()?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("kill {name} failed").into()),
        }
    }

    /// Kills it, and waits until it is gone.
    ///
    /// # Errors
    /// When it went before, or something in it panicked.
    pub(crate) fn kill(mut self) -> Outcome<()> {
        if let Some(status) = self.child.try_wait()? {
            return Err(format!("it ended by itself with {status}: {}", self.told()).into());
        }
        self.child.kill()?;
        self.child.wait()?;
        self.calm()
    }

    /// Asks it to stop, and waits for that.
    pub(crate) async fn stop(mut self) -> Outcome<()> {
        self.signal(Signal::Terminate)?;
        let step = Duration::from_millis(20);
        let mut waited = Duration::ZERO;
        while waited < STOP_MAX {
            if let Some(status) = self.child.try_wait()? {
                self.calm()?;
                return match status.success() {
                    true => Ok(()),
                    false => Err(format!("it stopped with {status}: {}", self.told()).into()),
                };
            }
            tokio::time::sleep(step).await;
            waited += step;
        }
        let _ = self.child.kill();
        Err(format!("it does not stop: {}", self.told()).into())
    }

    /// The last that it said.
    fn told(&self) -> String {
        let said = self.said.lock();
        let from = said.len().saturating_sub(LINES_TOLD);
        said[from..].join("\n")
    }

    /// Nothing may panic, whatever happens around it.
    fn calm(&self) -> Outcome<()> {
        let said = self.said.lock();
        match said.iter().find(|line| line.contains("panicked at")) {
            Some(line) => Err(format!("it panicked: {line}").into()),
            None => Ok(()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection to a server on this machine.
pub(crate) async fn connect(port: u16) -> Outcome<Client> {
    let text = format!("host=127.0.0.1 port={port} user=torture dbname=lazybase");
    let (client, connection) = tokio_postgres::connect(&text, NoTls).await?;
    // It ends with the client, or the server.
    tokio::spawn(connection);
    Ok(client)
}

/// Copies a folder with all it holds; what is empty in a log takes no space.
pub(crate) fn copy_folder(from: &Path, to: &Path) -> Outcome<()> {
    let args = ["-a", "--sparse=always", "-T"];
    let copied = Command::new("cp").args(args).arg(from).arg(to).output()?;
    match copied.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&copied.stderr).into()),
    }
}

/// All files in a folder and below, in a fixed order.
pub(crate) fn files_below(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => files.extend(files_below(&path)?),
            false => files.push(path),
        }
    }
    files.sort();
    Ok(files)
}
