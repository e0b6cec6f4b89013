//! What the command line takes from the world by itself: a stopwatch, sleep, tasks beside the
//! command, and files that the user named. The database takes its own from `Env`.
#![expect(
    clippy::disallowed_methods,
    reason = "the command line is no part of what a simulation replays"
)]

use std::fs;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::Context;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lazybase_model::{Error, Result};
use tokio::task::JoinHandle;

use crate::failure;

/// The most unfinished files that stand beside one.
const BESIDE_MAX: u32 = 1_000;

/// Measures time since it was made.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// Time since the start.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// Microseconds since the start.
    pub fn micros(self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// A time that can begin again.
pub struct Timer {
    sleep: Pin<Box<tokio::time::Sleep>>,
    length: Duration,
}

impl Timer {
    /// Begins now.
    pub fn of(length: Duration) -> Timer {
        Timer {
            sleep: Box::pin(tokio::time::sleep(length)),
            length,
        }
    }

    /// Begins again.
    pub fn begin_again(&mut self) {
        let end = tokio::time::Instant::now() + self.length;
        self.sleep.as_mut().reset(end);
    }

    /// Whether it is over; if not, the task is woken when it is.
    pub fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        self.sleep.as_mut().poll(cx).is_ready()
    }
}

/// Returns after `duration`.
pub async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Runs `task` beside the caller.
pub fn spawn<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(task)
}

/// Runs what blocks beside the caller, on a thread that serves nobody else.
pub fn spawn_blocking<T: Send + 'static>(
    task: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    tokio::task::spawn_blocking(task)
}

/// Runs what may plan statements on a stack of so many bytes: the system gives the first thread one
/// of its own choice.
pub fn on_a_stack<T: Send + 'static>(
    bytes: usize,
    task: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let thread = std::thread::Builder::new()
        .name("main".to_owned())
        .stack_size(bytes)
        .spawn(task)
        .map_err(|error| Error::unavailable(format!("can't start a thread: {error}")))?;
    match thread.join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Microseconds since 1970.
pub fn now_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    })
}

/// Writes a whole file.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).map_err(|error| failure::io(path.display(), &error))
}

/// What may take as long as whoever writes into a pipe, on a thread of its own: Ctrl-C is heard
/// meanwhile.
pub async fn waited_for<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::internal(format!("a reader ended: {error}")))
}

/// What stands under a path that is to be written.
pub enum Place {
    /// A file, or nothing, at this path: where links to it lead.
    File(PathBuf),
    /// What is no file, such as a pipe or a device, opened.
    Other(fs::File),
}

/// Looks at what is to be written.
pub fn place_of(path: &Path) -> Result<Place> {
    let failed = |error: std::io::Error| failure::io(path.display(), &error);
    match fs::metadata(path) {
        Ok(found) if !found.is_file() && !found.is_dir() => {
            let opened = fs::OpenOptions::new().write(true).open(path);
            return opened.map(Place::Other).map_err(failed);
        }
        Ok(_) => return fs::canonicalize(path).map(Place::File).map_err(failed),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    // What a link leads to may be missing. Links that lead in circles are another error above.
    let mut place = path.to_owned();
    while let Ok(target) = fs::read_link(&place) {
        place = place.parent().unwrap_or(Path::new("")).join(target);
    }
    Ok(Place::File(place))
}

/// Makes a file beside `path` that is not there yet, for what is to become it: its name with an
/// ending. What somebody else has there, or an earlier run left, stays.
pub fn create_beside(path: &Path) -> Result<(fs::File, PathBuf)> {
    let mut number = 1;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(match number {
            1 => ".partial".to_owned(),
            number => format!(".partial{number}"),
        });
        let beside = PathBuf::from(name);
        match fs::File::create_new(&beside) {
            Ok(file) => return Ok((file, beside)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < BESIDE_MAX => {
                number += 1;
            }
            Err(error) => return Err(failure::io(path.display(), &error)),
        }
    }
}

/// Standard output as a file.
pub fn standard_output() -> Result<fs::File> {
    let output = io::stdout().as_fd().try_clone_to_owned();
    output
        .map(fs::File::from)
        .map_err(|error| failure::stdout(&error))
}

/// Gives a file its name, in place of what had it.
pub fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(|error| failure::io(to.display(), &error))
}

/// Removes a file if it is there.
pub fn remove_file(path: &Path) {
    // A leftover temporary file harms nobody; the error that led here is the one to report.
    drop(fs::remove_file(path));
}

/// Makes a folder and those above it.
pub fn create_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| failure::io(path.display(), &error))
}

/// Removes all that is in a folder but the file `kept`, and the file `last` after everything else.
pub fn empty_folder(path: &Path, kept: &str, last: &str) -> Result<()> {
    let failed = |error: std::io::Error| failure::io(path.display(), &error);
    for entry in fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if name == kept || name == last {
            continue;
        }
        let removed = match entry.file_type().map_err(failed)?.is_dir() {
            true => fs::remove_dir_all(entry.path()),
            false => fs::remove_file(entry.path()),
        };
        removed.map_err(failed)?;
    }
    fs::remove_file(path.join(last)).map_err(failed)
}

/// Where the shell keeps its history: `LAZYBASE_HISTORY`, or a file among the user's state.
pub fn history_file() -> Option<PathBuf> {
    if let Some(file) = std::env::var_os("LAZYBASE_HISTORY") {
        return Some(PathBuf::from(file));
    }
    let state = match std::env::var_os("XDG_STATE_HOME") {
        Some(state) => PathBuf::from(state),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".local/state"),
    };
    let folder = state.join("lazybase");
    fs::create_dir_all(&folder).ok()?;
    Some(folder.join("history"))
}
