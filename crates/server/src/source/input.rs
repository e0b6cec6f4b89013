//! What a path names: a file, which can be read at any place, or a stream, which is read once.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

use lazybase_model::Result;

use crate::failure;

/// The path that means standard input.
const STANDARD_INPUT: &str = "-";

/// Whether the path names a pipe, a device or standard input, and no file.
pub fn is_stream(path: &Path) -> bool {
    path == Path::new(STANDARD_INPUT)
        || fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// The path in words.
pub fn shown(path: &Path) -> String {
    match path == Path::new(STANDARD_INPUT) {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    }
}

/// A file that is there.
pub(super) fn opened(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| failure::io(path.display(), &error))
}

/// Bytes to load.
pub(super) struct Input {
    path: PathBuf,
    bytes: Bytes,
}

enum Bytes {
    File(File),
    Stream(Box<dyn Read + Send>),
}

impl Input {
    /// Opens what the path names; a pipe waits for whoever writes into it.
    pub(super) fn open(path: &Path) -> Result<Input> {
        let bytes = match path == Path::new(STANDARD_INPUT) {
            true => Bytes::Stream(Box::new(io::stdin())),
            false if is_stream(path) => Bytes::Stream(Box::new(opened(path)?)),
            false => Bytes::File(opened(path)?),
        };
        let path = path.to_owned();
        Ok(Input { path, bytes })
    }

    /// Of what comes as from standard input.
    pub(super) fn of_stream(stream: Box<dyn Read + Send>) -> Input {
        Input {
            path: PathBuf::from(STANDARD_INPUT),
            bytes: Bytes::Stream(stream),
        }
    }

    /// What it was opened by.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// From the beginning to the end.
    pub(super) fn into_reader(self) -> Box<dyn Read + Send> {
        match self.bytes {
            Bytes::File(file) => Box::new(file),
            Bytes::Stream(stream) => stream,
        }
    }

    /// A file that can be read at any place: a stream is read to its end first, into a nameless
    /// temporary one.
    pub(super) fn into_file(self) -> Result<File> {
        let failed = |error| failure::io("a temporary file", &error);
        match self.bytes {
            Bytes::File(file) => Ok(file),
            Bytes::Stream(mut stream) => {
                let mut spooled = tempfile::tempfile().map_err(failed)?;
                io::copy(&mut stream, &mut spooled).map_err(failed)?;
                spooled.rewind().map_err(failed)?;
                Ok(spooled)
            }
        }
    }
}
