//! The folder as a whole: made, locked, walked, and settled when it is opened.
//!
//! The lock is the system's, on the file `LOCK`, and goes with the process that holds it, however
//! that ends. `OWNER` beside it only tells people whom to ask; nothing depends on it.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lazybase_model::{Error, Result};

use super::disk::Disk;
use crate::env::name::{
    FOLDERS, LOCK_FILE, LOG_SUFFIX, OWNER_FILE, TEMP_MARK, is_own, is_unfinished,
};

/// One who asks for the owner holds the lock for a moment, and an owner that starts has not yet
/// written its name: so a taken lock is tried again, this often and after such a pause.
const LOCK_TRIES: usize = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Who uses a folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Owner {
    /// The process.
    pub pid: Option<u32>,
    /// What it runs.
    pub program: Option<String>,
    /// Its machine.
    pub host: Option<String>,
    /// Where it listens, if it does.
    pub address: Option<String>,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid}")?,
            None => write!(f, "another process")?,
        }
        match &self.program {
            Some(program) => write!(f, " ({program})"),
            None => Ok(()),
        }
    }
}

impl Owner {
    fn of_this_process(address: Option<&str>) -> Owner {
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(Path::file_stem);
        Owner {
            pid: Some(std::process::id()),
            program: program.map(|stem| stem.to_string_lossy().into_owned()),
            host: host_name(),
            address: address.map(str::to_owned),
        }
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        let mut line = |key: &str, value: Option<&str>| {
            if let Some(value) = value {
                text.push_str(&format!("{key} {}\n", value.replace(['\n', '\r'], " ")));
            }
        };
        line("pid", self.pid.map(|pid| pid.to_string()).as_deref());
        line("program", self.program.as_deref());
        line("host", self.host.as_deref());
        line("address", self.address.as_deref());
        text
    }

    /// Takes any text: the file may be missing, old, or half written.
    fn from_text(text: &str) -> Owner {
        let value = |key: &str| {
            let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
            let pair = pairs.find(|(found, _)| *found == key);
            pair.map(|(_, value)| value.to_owned())
        };
        Owner {
            pid: value("pid").and_then(|pid| pid.parse().ok()),
            program: value("program"),
            host: value("host"),
            address: value("address"),
        }
    }
}

/// The machine's name, where the system tells it without a call of its own.
fn host_name() -> Option<String> {
    let read = |path: &str| fs::read_to_string(path).ok();
    let name = read("/proc/sys/kernel/hostname")
        .or_else(|| read("/etc/hostname"))
        .or_else(|| std::env::var("HOSTNAME").ok())?;
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// The lock on a folder, until it is dropped.
pub(super) struct FolderLock {
    root: PathBuf,
    _file: File,
}

impl FolderLock {
    pub(super) fn take(root: &Path) -> Result<FolderLock> {
        let file = open_lock(root, true).map_err(|error| {
            // What stands in the way may be the lock's own file.
            cannot_open(root, &error).with_detail(format!("{LOCK_FILE}: {error}"))
        })?;
        lock(root, &file)?;
        write_owner(root, None);
        Ok(FolderLock {
            root: root.to_owned(),
            _file: file,
        })
    }
}

impl Drop for FolderLock {
    #[expect(clippy::disallowed_methods, reason = "nothing depends on this file")]
    fn drop(&mut self) {
        // The lock itself goes with the file's handle, after this.
        let _ = fs::remove_file(self.root.join(OWNER_FILE));
    }
}

#[expect(clippy::disallowed_methods, reason = "a lock, which holds nothing")]
fn open_lock(root: &Path, create: bool) -> io::Result<File> {
    let path = root.join(LOCK_FILE);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(create);
    options.truncate(false).open(path)
}

fn in_use(root: &Path) -> Error {
    let owner = read_owner(root);
    let mut detail = Vec::new();
    if let Some(host) = &owner.host {
        detail.push(format!("on host {host}"));
    }
    let root = root.display();
    let error =
        Error::conflict(format!("folder {root} is in use by {owner}")).with_sqlstate("55006");
    let error = match &owner.address {
        None => error.with_hint("one process at a time has a database: end that one first"),
        Some(address) => {
            detail.push(format!("which serves {address}"));
            error.with_hint(format!("speak to it: lazybase sql --url {address}"))
        }
    };
    if detail.is_empty() {
        error
    } else {
        error.with_detail(detail.join(", "))
    }
}

/// Who holds the lock, if somebody does.
pub(super) fn owner_if_locked(root: &Path) -> Result<Option<Owner>> {
    let file = match open_lock(root, false) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(cannot_open(root, &error)),
    };
    // Shared, so that two who ask at once do not see each other as the owner.
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(Some(read_owner(root))),
        Err(TryLockError::Error(error)) => Err(cannot_open(root, &error)),
    }
}

fn read_owner(root: &Path) -> Owner {
    let text = fs::read_to_string(root.join(OWNER_FILE));
    Owner::from_text(&text.unwrap_or_default())
}

/// Writes who owns the folder. A full disk must not keep a database from opening, so a failure
/// costs the name only: then no owner is shown rather than a former one.
#[expect(clippy::disallowed_methods, reason = "nothing depends on this file")]
pub(super) fn write_owner(root: &Path, address: Option<&str>) {
    let path = root.join(OWNER_FILE);
    let text = Owner::of_this_process(address).to_text();
    let temp = root.join(format!("{OWNER_FILE}{TEMP_MARK}0"));
    let written = fs::write(&temp, text).and_then(|()| fs::rename(&temp, &path));
    if written.is_err() {
        let _ = fs::remove_file(&temp);
        let _ = fs::remove_file(&path);
    }
}

/// Makes the folder unless it is there, and its place in those above it durable, which no sync of
/// what it holds would be. Who comes to the lock has done that.
pub(super) fn create_root(disk: &Disk, root: &Path) -> Result<()> {
    match check_root(root) {
        Err(error) if error.kind() == lazybase_model::ErrorKind::NotFound => {}
        Ok(()) if !root.join(LOCK_FILE).exists() => {}
        checked => return checked,
    }
    make_root(disk, root).map_err(|error| cannot_open(root, &error))
}

fn make_root(disk: &Disk, root: &Path) -> io::Result<()> {
    let path = std::path::absolute(root)?;
    let missing = path.ancestors().take_while(|folder| !folder.exists());
    let missing = missing.count();
    disk.create_dir_all(root)?;
    for (at, above) in root.canonicalize()?.ancestors().skip(1).enumerate() {
        let synced = disk.sync_folder(above);
        // One that was there may be where nobody may look, or where nothing can be synced.
        if at < missing {
            synced?;
        }
    }
    Ok(())
}

/// Whether `root` is a folder.
pub(super) fn check_root(root: &Path) -> Result<()> {
    match fs::metadata(root) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(Error::invalid(format!(
            "{} is not a folder",
            root.display()
        ))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let message = format!("there is no folder {}", root.display());
            Err(Error::not_found(message))
        }
        Err(error) => Err(cannot_open(root, &error)),
    }
}

pub(super) fn cannot_open(root: &Path, error: &io::Error) -> Error {
    if root.as_os_str().is_empty() {
        return Error::invalid("a folder's name is empty");
    }
    let refused = Error::unavailable(format!("can't open folder {}", root.display()))
        .with_detail(error.to_string())
        .with_sqlstate("58030");
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => refused.with_hint(
            "to open a folder is to write in it; `lazybase repair --dry-run` and `lazybase \
             inspect FILE` read a database as it is",
        ),
        _ => refused,
    }
}

/// Removes what unfinished writers left, and makes durable what a killed process may have left in
/// the page cache alone: the entries of folders, and logs. Other files were durable before they
/// were linked. Looks into the store's own folders only, and follows no link out of them.
pub(super) fn settle(disk: &Disk, root: &Path) -> io::Result<()> {
    let temp = root.join(format!("{OWNER_FILE}{TEMP_MARK}0"));
    if fs::symlink_metadata(&temp).is_ok() {
        disk.remove_file(&temp)?;
    }
    for folder in FOLDERS {
        walk(root, folder, Links::Passed, &mut |found| match found {
            Found::File { name, path } => {
                let last = name.rsplit('/').next().unwrap_or(name);
                let settled = if is_unfinished(last) {
                    disk.remove_file(path)
                } else if last.ends_with(LOG_SUFFIX) {
                    disk.open_to_sync(path).and_then(|log| log.sync_data())
                } else {
                    Ok(())
                };
                // Which of the many it is nothing else tells.
                settled.map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))
            }
            Found::FolderEnd { path } => disk.sync_folder(path),
        })?;
    }
    disk.sync_folder(root)
}

/// Names of what lies in a folder that is neither the store's own nor among `known`; nothing where
/// there is no folder.
pub(super) fn strangers(root: &Path, known: &[&str]) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut strangers = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        // A file system of its own has such a folder from the beginning.
        let is_known = is_own(&name) || name == "lost+found" || known.contains(&name.as_str());
        if !is_known && !name.starts_with(&format!("{OWNER_FILE}{TEMP_MARK}")) {
            strangers.push(name);
        }
    }
    strangers.sort_unstable();
    Ok(strangers)
}

/// The nearest folder above a true path that is a store's own.
pub(super) fn store_around(path: &Path) -> Option<&Path> {
    let above = path.ancestors().skip(1);
    let has = |folder: &Path, name: &str| folder.join(name).exists();
    let mut stores = above.filter(|folder| {
        has(folder, LOCK_FILE) && (has(folder, "manifest") || has(folder, "backups"))
    });
    stores.next()
}

/// A folder's path without links and relative parts, also where its end is not there yet.
pub(super) fn true_path(path: &Path) -> io::Result<PathBuf> {
    let mut missing = Vec::new();
    let mut there = std::path::absolute(path)?;
    loop {
        match there.canonicalize() {
            Ok(found) => {
                let parts = missing.iter().rev();
                return Ok(parts.fold(found, |path: PathBuf, part| path.join(part)));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let (Some(name), Some(parent)) = (there.file_name(), there.parent()) else {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        };
        missing.push(name.to_owned());
        there = parent.to_owned();
    }
}

/// The lock of a folder that is only looked at: nothing is written, and nobody begins to write.
/// None where the folder never had an owner.
pub(super) fn lock_to_look(root: &Path) -> Result<Option<File>> {
    let file = match open_lock(root, false) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // A folder that can't be written has no writer.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => return Ok(None),
        Err(error) => return Err(cannot_open(root, &error)),
    };
    lock(root, &file)?;
    Ok(Some(file))
}

/// Locks the file for this handle alone.
#[expect(
    clippy::disallowed_methods,
    reason = "whoever opens a folder blocks its thread"
)]
fn lock(root: &Path, file: &File) -> Result<()> {
    let mut tries = 1;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if tries < LOCK_TRIES => tries += 1,
            Err(TryLockError::WouldBlock) => return Err(in_use(root)),
            Err(TryLockError::Error(error)) => return Err(cannot_open(root, &error)),
        }
        std::thread::sleep(LOCK_PAUSE);
    }
}

/// Names and lengths of the files whose names start with `prefix`, sorted.
pub(super) fn list(root: &Path, prefix: &str) -> io::Result<Vec<(String, u64)>> {
    let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut files = Vec::new();
    if folder.split('/').any(|part| part == "..") || folder.starts_with('/') {
        return Ok(files);
    }
    walk(root, folder, Links::Followed, &mut |found| {
        if let Found::File { name, path } = found
            && name.starts_with(prefix)
            && !name.contains(TEMP_MARK)
            && !is_own(name)
        {
            match fs::metadata(path) {
                Ok(metadata) => files.push((name.to_owned(), metadata.len())),
                // It was removed since the folder was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })?;
    files.sort_unstable();
    Ok(files)
}

/// What a walk does with links below the folder that it begins in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Links {
    Followed,
    Passed,
}

/// What a walk meets.
enum Found<'a> {
    File {
        name: &'a str,
        path: &'a Path,
    },
    /// A folder, after everything in it.
    FolderEnd {
        path: &'a Path,
    },
}

/// Visits everything below `folder`; nothing if there is no such folder.
fn walk(
    root: &Path,
    folder: &str,
    links: Links,
    visit: &mut dyn FnMut(Found<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let path = if folder.is_empty() {
        root.to_owned()
    } else {
        root.join(folder)
    };
    let entries = match fs::read_dir(&path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        // The store writes no other names; a stranger's file is left alone.
        let Ok(part) = entry.file_name().into_string() else {
            continue;
        };
        let name = if folder.is_empty() {
            part
        } else {
            format!("{folder}/{part}")
        };
        let mut kind = entry.file_type()?;
        if kind.is_symlink() && links == Links::Followed {
            match fs::metadata(entry.path()) {
                Ok(metadata) => kind = metadata.file_type(),
                Err(_) => continue,
            }
        }
        if kind.is_dir() {
            walk(root, &name, links, visit)?;
        } else if kind.is_file() {
            visit(Found::File {
                name: &name,
                path: &entry.path(),
            })?;
        }
    }
    visit(Found::FolderEnd { path: &path })
}
