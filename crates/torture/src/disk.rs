//! A small disk of the run's own: ext4 in a file where the system lets us have one, else memory. It
//! fills up, can only be read for a while, or fails and is mended as a machine does when it starts.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::Outcome;

/// What the small disk holds.
const DISK_MEBIBYTES: u64 = 768;
/// How often it is tried again while somebody has a file open, and how long is waited before.
const BUSY_TRIES: u32 = 250;
const BUSY_PAUSE: Duration = Duration::from_millis(20);
/// What e2fsck says with its exit status: nothing was wrong, or all that was is mended.
const MENDED: [i32; 3] = [0, 1, 2];

/// A small file system, until it is dropped.
pub(crate) struct Disk {
    place: PathBuf,
    /// The file that it is in; `None` where it is in memory.
    image: Option<PathBuf>,
}

impl Disk {
    /// Mounts one; `None` where that is not allowed.
    pub(crate) fn mount(place: &Path) -> Outcome<Option<Disk>> {
        std::fs::create_dir_all(place)?;
        let image = place.with_extension("image");
        let disk = |image| Disk {
            place: place.to_owned(),
            image,
        };
        if ext4(&image, place).is_ok() {
            return Ok(Some(disk(Some(image))));
        }
        // What was made of it is of no use.
        let _ = std::fs::remove_file(&image);
        let size = format!("size={DISK_MEBIBYTES}m");
        let mounted = run("mount", &["-t", "tmpfs", "-o", &size, "none"], &[place]);
        Ok(mounted.is_ok().then(|| disk(None)))
    }

    /// The kind of file system that it is.
    pub(crate) fn kind(&self) -> &'static str {
        match self.image {
            Some(_) => "ext4",
            None => "tmpfs",
        }
    }

    /// Whether it can be written from here on; while a file is open for writing it must be.
    pub(crate) fn set_writable(&self, writable: bool) -> Outcome<()> {
        let option = match writable {
            true => "remount,rw",
            false => "remount,ro",
        };
        run("mount", &["-o", option], &[&self.place])
    }

    /// Has it read alone by whoever opens a file from now on, until the cover goes. Where a file is
    /// open for writing (the log is) the disk itself can't be made so: it is mounted once more over
    /// its own place. What is open can be written; nothing can be made, renamed or removed.
    pub(crate) fn cover(&self) -> Outcome<Cover> {
        let place = &*self.place;
        run("mount", &["--bind", "-o", "ro"], &[place, place])?;
        let cover = Cover {
            place: self.place.clone(),
        };
        match File::create(self.filler()) {
            Err(_) => Ok(cover),
            Ok(_) => Err("mount --bind -o ro does not keep anybody from writing".into()),
        }
    }

    /// Whether it can fail.
    pub(crate) fn can_fail(&self) -> bool {
        self.image.is_some()
    }

    /// Has the kernel do what it does when a disk fails: nothing can be written any more, not even
    /// what is on its way, until the disk is mended.
    pub(crate) fn fail(&self) -> Outcome<()> {
        run("mount", &["-o", "remount,abort"], &[&self.place])
    }

    /// Checks and mounts a disk that failed, once nobody has a file of it: what was not synced may
    /// be gone.
    pub(crate) async fn mend(&self) -> Outcome<()> {
        let Some(image) = &self.image else {
            return Err("only a disk that is in a file can be mended".into());
        };
        let mut tries = 0;
        while let Err(error) = run("umount", &[], &[&self.place]) {
            tries += 1;
            if tries > BUSY_TRIES {
                return Err(error);
            }
            tokio::time::sleep(BUSY_PAUSE).await;
        }
        let checked = Command::new("e2fsck").arg("-y").arg(image).output()?;
        let mended = checked
            .status
            .code()
            .is_some_and(|code| MENDED.contains(&code));
        if !mended {
            let said = String::from_utf8_lossy(&checked.stdout);
            return Err(format!("e2fsck ended with {}: {said}", checked.status).into());
        }
        run("mount", &["-o", "loop"], &[image, &self.place])
    }

    /// Makes durable what is there: files that were copied are not, and a database counts on its
    /// own.
    pub(crate) fn sync(&self) -> Outcome<()> {
        run("sync", &["-f"], &[&self.place])
    }

    /// Takes all space that is left; it is given back when the filler goes.
    pub(crate) fn fill(&self) -> Outcome<Filler> {
        let path = self.filler();
        let mut file = File::options().create(true).append(true).open(&path)?;
        let filler = Filler { path };
        if self.image.is_some() {
            // All that is there, and an error for what is not: quicker than to write it.
            let all = format!("{DISK_MEBIBYTES}M");
            let _ = run("fallocate", &["-l", &all], &[&filler.path]);
        }
        let chunk = vec![7; 1 << 20];
        let mut length = chunk.len();
        while length > 0 {
            if file.write_all(&chunk[..length]).is_err() {
                length /= 2;
            }
        }
        Ok(filler)
    }

    fn filler(&self) -> PathBuf {
        self.place.join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // What is still open keeps it: then it goes with the last of those.
        let _ = run("umount", &["-l"], &[&self.place]);
    }
}

/// Makes an ext4 in a file, and mounts it.
fn ext4(image: &Path, place: &Path) -> Outcome<()> {
    File::create(image)?.set_len(DISK_MEBIBYTES << 20)?;
    run("mkfs.ext4", &["-q", "-F", "-m", "0"], &[image])?;
    run("mount", &["-o", "loop"], &[image, place])
}

/// Runs a program with what it is given and then with paths.
fn run(program: &str, args: &[&str], paths: &[&Path]) -> Outcome<()> {
    let done = Command::new(program).args(args).args(paths).output();
    let done = done.map_err(|error| format!("{program}: {error}"))?;
    match done.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&done.stderr);
            Err(format!("{program} {args:?} {paths:?}: {}", said.trim()).into())
        }
    }
}

/// A file that takes all space.
pub(crate) struct Filler {
    path: PathBuf,
}

impl Drop for Filler {
    fn drop(&mut self) {
        // Without it the disk stays full, and the next round tells.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What keeps a disk from being written by whoever opens a file.
pub(crate) struct Cover {
    place: PathBuf,
}

impl Drop for Cover {
    fn drop(&mut self) {
        // Files that were opened through it stay open. Where it stays, no batch comes through.
        let _ = run("umount", &["-l"], &[&self.place]);
    }
}

#[cfg(test)]
mod tests;
