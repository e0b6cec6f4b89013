//! The servers as processes: started over folders of their own, watched, stopped.
//!
//! PostgreSQL refuses to run as the system's owner: then it runs as its own user, who gets its
//! folder.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::socket::Socket;
use crate::Outcome;

/// Who connects, and to what, on both servers.
pub(super) const USER: &str = "bench";
pub(super) const DATABASE: &str = "lazybase";
/// How long a start or a stop may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// The user that PostgreSQL's packages make.
const POSTGRES_USER: &str = "postgres";

/// Keeps this process and those that it starts on two cores; says what was done.
pub(super) fn pin_to_two_cores() -> String {
    let id = std::process::id().to_string();
    let pinned = Command::new("taskset")
        .args(["-a", "-c", "-p", "0,1", &id])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match pinned {
        Ok(status) if status.success() => "everything runs on cores 0 and 1".to_owned(),
        _ => "this process can't be kept on two cores (taskset): everything runs on all".to_owned(),
    }
}

/// The server's program.
pub(super) fn binary(given: Option<&Path>) -> Outcome<PathBuf> {
    let beside = std::env::current_exe()?.with_file_name("lazybase");
    let program = given.map_or(beside, Path::to_owned);
    match program.is_file() {
        true => Ok(program),
        false => Err(format!(
            "{} is not there: build it (cargo build --release), or name it with --lazybase",
            program.display()
        )
        .into()),
    }
}

/// A signal by its name for `kill`.
fn signal(child: &Child, name: &str) -> Outcome<()> {
    let id = child.id().to_string();
    match Command::new("kill").args([name, &id]).status()?.success() {
        true => Ok(()),
        false => Err(format!("kill {name} failed").into()),
    }
}

/// Waits for a process that was told to stop.
fn ended(child: &mut Child, what: &str) -> Outcome<()> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait()? {
            return match status.success() {
                true => Ok(()),
                false => Err(format!("{what} stopped with {status}").into()),
            };
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(format!("{what} does not stop").into())
}

/// A running LazyBase.
pub(super) struct LazyBase {
    child: Child,
    /// Where its clients of PostgreSQL connect.
    pub(super) address: SocketAddr,
    /// Where its clients of Flight connect.
    pub(super) flight: SocketAddr,
}

impl LazyBase {
    /// Starts it over a folder, on ports that are free.
    pub(super) fn start(program: &Path, folder: &Path) -> Outcome<LazyBase> {
        let mut child = Command::new(program)
            .arg("--db")
            .arg(folder)
            .args(["serve", "--pg-listen", "127.0.0.1:0"])
            .args(["--flight-listen", "127.0.0.1:0", "--http-listen", "off"])
            // Room for the idle ones and those that measure.
            .args(["--max-connections", "1000"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let stderr = child.stderr.take().ok_or("the server has no stderr")?;
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                // Nobody listens any more once the server is ready.
                let _ = sender.send(line);
            }
        });
        let mut said = Vec::new();
        loop {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) => said.push(line),
                Err(_) => {
                    let _ = child.kill();
                    return Err(format!("the server did not start: {}", said.join("\n")).into());
                }
            }
            if said.last().is_some_and(|line| line.starts_with("ready")) {
                break;
            }
        }
        let flight = said.iter().find_map(|line| line.split_once("grpc://"));
        let flight = flight.and_then(|(_, address)| address.trim().parse().ok());
        Ok(LazyBase {
            address: port(&said).ok_or("the server does not say its port")?,
            flight: flight.ok_or("the server does not say its port for Flight")?,
            child,
        })
    }

    /// Its anonymous memory, in KiB.
    pub(super) fn memory_kib(&self) -> f64 {
        crate::machine::anonymous_kib_of(self.child.id()) as f64
    }

    /// Its processor time so far.
    pub(super) fn cpu(&self) -> Option<Duration> {
        crate::machine::process_cpu_of(self.child.id())
    }

    /// Ends it as a crash does, at once.
    pub(super) fn kill(&self) -> Outcome<()> {
        signal(&self.child, "-KILL")
    }

    pub(super) fn stop(mut self) -> Outcome<()> {
        signal(&self.child, "-TERM")?;
        ended(&mut self.child, "LazyBase")
    }
}

fn port(said: &[String]) -> Option<SocketAddr> {
    let rest = said.iter().find_map(|line| line.split_once(" -p "))?.1;
    let port = rest.split_whitespace().next()?.parse().ok()?;
    Some(SocketAddr::from(([127, 0, 0, 1], port)))
}

impl Drop for LazyBase {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The folder of PostgreSQL's programs, or why there is none.
pub(super) fn postgres_folder(given: Option<&Path>) -> Result<PathBuf, String> {
    let whole = |folder: &Path| {
        ["initdb", "postgres"]
            .iter()
            .all(|p| folder.join(p).is_file())
    };
    if let Some(folder) = given {
        return match whole(folder) {
            true => Ok(folder.to_owned()),
            false => Err(format!("{} has no initdb and postgres", folder.display())),
        };
    }
    let asked = Command::new("pg_config").arg("--bindir").output().ok();
    let told = asked.map(|told| String::from_utf8_lossy(&told.stdout).trim().to_owned());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = told
        .into_iter()
        .map(PathBuf::from)
        .chain(std::env::split_paths(&path));
    folders.find(|folder| whole(folder)).ok_or_else(|| {
        "there is none; --postgres or LAZYBASE_BENCH_POSTGRES names the folder of its programs"
            .to_owned()
    })
}

/// A running PostgreSQL with its defaults.
pub(super) struct Postgres {
    child: Child,
    pub(super) address: SocketAddr,
    _folder: TempDir,
}

impl Postgres {
    /// Makes a database in a folder of its own, and serves it on a free port.
    pub(super) fn start(programs: &Path, parent: &Path) -> Outcome<Postgres> {
        let folder = tempfile::Builder::new()
            .prefix("lazybase-server-postgres-")
            .tempdir_in(parent)?;
        let owner = match std::fs::metadata(folder.path())?.uid() {
            0 => Some(user(POSTGRES_USER)?),
            _ => None,
        };
        if let Some((uid, gid)) = owner {
            chown(folder.path(), Some(uid), Some(gid))?;
        }
        let data = folder.path().join("data");
        let command = |name: &str| {
            let mut command = Command::new(programs.join(name));
            command.arg("-D").arg(&data).current_dir(folder.path());
            if let Some((uid, gid)) = owner {
                command.uid(uid).gid(gid);
            }
            command.stdin(Stdio::null()).stdout(Stdio::null());
            command
        };
        let log = folder.path().join("log");
        let log_file = || File::options().create(true).append(true).open(&log);
        let made = command("initdb")
            .args(["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C"])
            .stderr(log_file()?)
            .status()?;
        let told = || std::fs::read_to_string(&log).unwrap_or_default();
        if !made.success() {
            return Err(format!("PostgreSQL's initdb failed: {}", told()).into());
        }
        // Whoever takes the port meanwhile is an error below.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut child = command("postgres")
            .args(["-p", &address.port().to_string()])
            .args(["-c", "listen_addresses=127.0.0.1"])
            .arg("-c")
            .arg(format!(
                "unix_socket_directories={}",
                folder.path().display()
            ))
            .stderr(log_file()?)
            .spawn()?;
        let begun = Instant::now();
        loop {
            if Socket::connect_to(&address, "postgres").is_ok() {
                break;
            }
            if child.try_wait()?.is_some() || begun.elapsed() > PATIENCE {
                let _ = child.kill();
                return Err(format!("PostgreSQL did not start: {}", told()).into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Socket::connect_to(&address, "postgres")?.query(&format!("CREATE DATABASE {DATABASE}"))?;
        Ok(Postgres {
            child,
            address,
            _folder: folder,
        })
    }

    pub(super) fn stop(mut self) -> Outcome<()> {
        signal(&self.child, "-INT")?;
        ended(&mut self.child, "PostgreSQL")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            // A kill would leave the processes that it has started.
            let _ = signal(&self.child, "-QUIT");
            let _ = self.child.wait();
        }
    }
}

/// A user's and its group's number.
fn user(name: &str) -> Outcome<(u32, u32)> {
    let users = std::fs::read_to_string("/etc/passwd")?;
    let missing = || format!("PostgreSQL does not run as root, and there is no user {name}");
    let line = users
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .ok_or_else(missing)?;
    let mut fields = line.split(':').skip(1);
    let mut number = || fields.next()?.parse().ok();
    Ok((number().ok_or_else(missing)?, number().ok_or_else(missing)?))
}
