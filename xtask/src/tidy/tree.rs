//! The repository as a value: paths, sizes and texts. Reads the disk once, in [`Tree::load`].
//!
//! The files are those that git tracks or would track; where there is no git (an unpacked archive),
//! all files outside build and hidden git folders.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

/// One file.
pub(super) struct File {
    /// Relative to the root, with `/` between its parts.
    pub(super) path: String,
    pub(super) size_bytes: u64,
    /// Nothing if the file is not UTF-8 text.
    pub(super) text: Option<String>,
}

impl File {
    /// The text of a file with one of these endings (without the dot).
    pub(super) fn text_if(&self, endings: &[&str]) -> Option<&str> {
        let text = self.text.as_deref()?;
        endings.contains(&extension(&self.path)?).then_some(text)
    }

    /// Whether the file holds tests only: `tests.rs`, or anything below a folder `tests` or
    /// `benches`.
    pub(super) fn is_test(&self) -> bool {
        let mut parts = self.path.split('/');
        parts.any(|part| matches!(part, "tests.rs" | "tests" | "benches"))
    }
}

/// What stands after the last dot of a path's last part.
pub(super) fn extension(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next()?;
    Some(name.rsplit_once('.')?.1)
}

/// All files, by path.
pub(super) struct Tree {
    pub(super) files: Vec<File>,
    folders: BTreeSet<String>,
}

impl Tree {
    /// Reads the repository at `root`.
    pub(super) fn load(root: &Path) -> io::Result<Self> {
        let paths = match git_paths(root) {
            Some(paths) => paths,
            None => walked_paths(root)?,
        };
        let mut files = Vec::with_capacity(paths.len());
        for path in paths {
            let full = root.join(&path);
            // Git still lists a file that was deleted and not staged; a link is no file of ours.
            let Ok(meta) = fs::symlink_metadata(&full) else {
                continue;
            };
            if meta.is_file() {
                let text = String::from_utf8(fs::read(&full)?).ok();
                files.push(File {
                    path,
                    size_bytes: meta.len(),
                    text,
                });
            }
        }
        Ok(Self::new(files))
    }

    /// A tree of literal texts.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File {
            path: (*path).to_owned(),
            size_bytes: text.len() as u64,
            text: Some((*text).to_owned()),
        };
        Self::new(files.iter().map(file).collect())
    }

    /// A tree of given files, which it sorts.
    pub(super) fn new(mut files: Vec<File>) -> Self {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let mut folders = BTreeSet::new();
        for file in &files {
            let cuts = file.path.match_indices('/');
            folders.extend(cuts.map(|(at, _)| file.path[..at].to_owned()));
        }
        Self { files, folders }
    }

    /// The file at exactly this path.
    pub(super) fn file(&self, path: &str) -> Option<&File> {
        let at = self
            .files
            .binary_search_by(|file| file.path.as_str().cmp(path))
            .ok()?;
        self.files.get(at)
    }

    /// Whether a file or folder stands at exactly this path.
    pub(super) fn exists(&self, path: &str) -> bool {
        self.file(path).is_some() || self.folders.contains(path)
    }

    /// Whether some file or folder has these last parts.
    pub(super) fn exists_ending(&self, path: &str) -> bool {
        let ends = |full: &str| {
            full.strip_suffix(path)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        };
        self.files.iter().any(|file| ends(&file.path)) || self.folders.iter().any(|path| ends(path))
    }
}

fn git_paths(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .output()
        .ok()?;
    let listed = String::from_utf8(output.stdout).ok()?;
    let paths: BTreeSet<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
    let found = output.status.success() && !paths.is_empty();
    found.then(|| paths.into_iter().map(str::to_owned).collect())
}

fn walked_paths(root: &Path) -> io::Result<Vec<String>> {
    let mut paths = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() {
                name.clone()
            } else {
                format!("{folder}/{name}")
            };
            let kind = entry.file_type()?;
            if kind.is_file() {
                paths.push(path);
            } else if kind.is_dir() && !matches!(name.as_str(), ".git" | "target") {
                folders.push(path);
            }
        }
    }
    Ok(paths)
}
