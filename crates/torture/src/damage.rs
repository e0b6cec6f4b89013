//! What happens to files: bytes that flip, files that are cut or lost.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rand::Rng;
use rand::rngs::SmallRng;

use crate::Outcome;
use crate::server::files_below;

/// How the database was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Stopped,
    /// With batches that were acknowledged and not sealed.
    Killed,
}

/// What was done to which file.
pub(crate) struct Damage {
    /// The file's own name.
    pub(crate) name: String,
    /// Where it lies in the database's folder.
    path: PathBuf,
    done: String,
}

impl Damage {
    /// Takes the file away; `false` where it is gone already.
    pub(crate) fn remove(&self, folder: &Path) -> Outcome<bool> {
        match std::fs::remove_file(folder.join(&self.path)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether nothing but the file can tell what it held: then a database that does not open for
    /// it is right, even where the file turns out to have held nothing of worth. So it is with the
    /// newest edit of the manifest, unless a checkpoint tells what it makes, and with the newest
    /// log and the one that is ready behind it.
    pub(crate) fn is_alone(&self, folder: &Path) -> Outcome<bool> {
        let own = folder.join(&self.path);
        let beside = files_below(own.parent().unwrap_or(folder))?;
        // Their names have numbers of one length.
        let from_own_on = |kind: &str| {
            let of_kind = beside
                .iter()
                .filter(|path| path.extension().is_some_and(|end| end == kind));
            let others = of_kind.filter(|path| **path != own);
            others
                .filter(|path| path.file_stem() >= own.file_stem())
                .count()
        };
        Ok(match own.extension().and_then(|end| end.to_str()) {
            Some("edit") => from_own_on("edit") == 0 && from_own_on("checkpoint") == 0,
            Some("log") => from_own_on("log") <= 1,
            _ => false,
        })
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.done)
    }
}

/// Damages one file of a database that nobody has open.
pub(crate) fn damage(folder: &Path, ended: Ended, dice: &mut SmallRng) -> Outcome<Damage> {
    let files = files_below(folder)?;
    let mut damageable = Vec::new();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        // Who holds the folder is not data.
        let data = !matches!(&*name, "LOCK" | "OWNER");
        if data && file.metadata()?.len() > 0 {
            damageable.push(file);
        }
    }
    if damageable.is_empty() {
        return Err("there is no file to damage".into());
    }
    let file = &damageable[dice.random_range(0..damageable.len())];
    let bytes = file.metadata()?.len();
    let at = dice.random_range(0..bytes);
    // More than one flipped bit in what the last commits wrote, a power cut leaves too.
    let may_be_torn = ended == Ended::Killed && file.extension().is_some_and(|end| end == "log");
    let done = match dice.random_range(0..10) {
        5..7 if !may_be_torn => {
            let end = (at + 512).min(bytes);
            for at in at..end {
                change(file, at, |_| 0)?;
            }
            format!("zeros from {at} to {end}")
        }
        7..9 => {
            OpenOptions::new().write(true).open(file)?.set_len(at)?;
            format!("cut at {at} of {bytes}")
        }
        9 => {
            std::fs::remove_file(file)?;
            "lost".to_owned()
        }
        _ => {
            let bit = dice.random_range(0..8);
            change(file, at, |byte| byte ^ (1 << bit))?;
            format!("a flipped bit at {at}")
        }
    };
    let name = file.file_name().unwrap_or_default();
    Ok(Damage {
        name: name.to_string_lossy().into_owned(),
        path: file.strip_prefix(folder).unwrap_or(file).to_owned(),
        done,
    })
}

fn change(file: &Path, at: u64, byte: impl Fn(u8) -> u8) -> Outcome<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(file)?;
    let mut one = [0];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut one)?;
    file.seek(SeekFrom::Start(at))?;
    file.write_all(&[byte(one[0])])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::{Damage, Ended, damage};

    fn folder_of(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, [7; 2_000]).unwrap();
        }
        folder
    }

    #[test]
    fn a_damaged_file_is_taken_away_wherever_it_lies() {
        let folder = folder_of(&["segments/ab/cd.ext"]);
        let file = folder.path().join("segments/ab/cd.ext");
        let mut dice = SmallRng::seed_from_u64(1);
        let mut lost = 0;
        for _ in 0..50 {
            std::fs::write(&file, [7; 2_000]).unwrap();
            let done = damage(folder.path(), Ended::Stopped, &mut dice).unwrap();
            let was_there = file.exists();
            assert_eq!(done.remove(folder.path()).unwrap(), was_there, "{done}");
            assert!(!file.exists(), "{done}");
            lost += u32::from(!was_there);
        }
        assert!(0 < lost && lost < 50, "{lost}");
    }

    #[test]
    fn a_log_that_was_being_written_gets_no_damage_that_a_power_cut_leaves_too() {
        for (ended, file) in [
            (Ended::Killed, "log/1.log"),
            (Ended::Killed, "segments/ab.ext"),
            (Ended::Stopped, "log/1.log"),
        ] {
            let folder = folder_of(&[file]);
            let mut dice = SmallRng::seed_from_u64(1);
            let mut zeros = 0;
            for _ in 0..50 {
                std::fs::write(folder.path().join(file), [7; 2_000]).unwrap();
                let done = damage(folder.path(), ended, &mut dice).unwrap();
                zeros += u32::from(done.to_string().contains("zeros"));
            }
            let is_torn = ended == Ended::Killed && file.ends_with("log");
            assert_eq!(zeros == 0, is_torn, "{ended:?}, {file}");
        }
    }

    #[test]
    fn the_newest_edits_and_logs_stand_alone() {
        let mut files = vec![
            "manifest/00000000000000000256.checkpoint",
            "manifest/00000000000000000256.edit",
            "manifest/00000000000000000257.edit",
            "log/0000000000000001.log",
            "log/0000000000000002.log",
            "log/0000000000000003.log",
            "segments/ab.ext",
        ];
        let is_alone = |folder: &tempfile::TempDir, file: &str| {
            let done = Damage {
                name: String::new(),
                path: Path::new(file).to_owned(),
                done: String::new(),
            };
            done.is_alone(folder.path()).unwrap()
        };
        let folder = folder_of(&files);
        let alone = |file: &str| is_alone(&folder, file);
        assert!(!alone("manifest/00000000000000000256.edit"));
        assert!(alone("manifest/00000000000000000257.edit"));
        assert!(!alone("manifest/00000000000000000256.checkpoint"));
        assert!(!alone("log/0000000000000001.log"));
        assert!(alone("log/0000000000000002.log"));
        assert!(alone("log/0000000000000003.log"));
        assert!(!alone("segments/ab.ext"));
        files.push("manifest/00000000000000000257.checkpoint");
        let closed = folder_of(&files);
        for file in files {
            let is_log = file.starts_with("log/") && !file.ends_with("1.log");
            assert_eq!(is_alone(&closed, file), is_log, "{file}");
        }
    }
}
