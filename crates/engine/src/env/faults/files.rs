//! The writers that a faulty store gives out.

use async_trait::async_trait;
use bytes::Bytes;

use super::{Fault, Faults, Operation};
use crate::env::{FileWriter, LogFile, StoreError, StoreResult};

/// A file that is being written, until something goes wrong.
pub(super) struct FaultyWriter {
    inner: Box<dyn FileWriter>,
    faults: Faults,
    name: String,
    bytes: u64,
    finished: bool,
}

impl FaultyWriter {
    pub(super) fn over(inner: Box<dyn FileWriter>, faults: Faults, name: &str) -> FaultyWriter {
        FaultyWriter {
            inner,
            faults,
            name: name.to_owned(),
            bytes: 0,
            finished: false,
        }
    }
}

impl Drop for FaultyWriter {
    fn drop(&mut self) {
        if !self.finished {
            self.faults.give_space(self.bytes);
        }
    }
}

#[async_trait]
impl FileWriter for FaultyWriter {
    async fn write(&mut self, bytes: Bytes) -> StoreResult<()> {
        let after = self.faults.before(Operation::Write, &self.name)?;
        self.faults.take_space(&self.name, bytes.len() as u64)?;
        self.bytes += bytes.len() as u64;
        self.inner.write(bytes).await?;
        after.report()
    }

    async fn finish(mut self: Box<Self>) -> StoreResult<()> {
        let after = self.faults.before(Operation::Finish, &self.name)?;
        let inner = std::mem::replace(&mut self.inner, Box::new(Finished));
        inner.finish().await?;
        self.finished = true;
        after.report()
    }
}

/// Stands where a finished writer was.
struct Finished;

#[async_trait]
impl FileWriter for Finished {
    async fn write(&mut self, _bytes: Bytes) -> StoreResult<()> {
        unreachable!("finishing consumes the writer around this")
    }

    async fn finish(self: Box<Self>) -> StoreResult<()> {
        unreachable!("finishing consumes the writer around this")
    }
}

/// A log file, until something goes wrong.
pub(super) struct FaultyLog {
    inner: Box<dyn LogFile>,
    faults: Faults,
    name: String,
}

impl FaultyLog {
    pub(super) fn over(inner: Box<dyn LogFile>, faults: Faults, name: &str) -> FaultyLog {
        let name = name.to_owned();
        FaultyLog {
            inner,
            faults,
            name,
        }
    }
}

#[async_trait]
impl LogFile for FaultyLog {
    async fn write_at(&mut self, offset: u64, bytes: &[u8]) -> StoreResult<()> {
        let after = self.faults.before(Operation::LogWrite, &self.name)?;
        let bytes = match after.fault() {
            Some(Fault::Torn) => &bytes[..bytes.len() / 2],
            _ => bytes,
        };
        self.inner.write_at(offset, bytes).await?;
        after.report()
    }

    async fn sync(&mut self) -> StoreResult<()> {
        // A sync that fails leaves in doubt what was written before it, even where it was refused.
        let before = self.faults.before(Operation::LogSync, &self.name);
        let after = before.map_err(|error| match error {
            StoreError::DefinitelyNot { name, reason, .. } => StoreError::Maybe { name, reason },
            other => other,
        })?;
        self.inner.sync().await?;
        after.report()
    }

    async fn cut(self: Box<Self>, bytes: u64) -> StoreResult<()> {
        let after = self.faults.before(Operation::LogSync, &self.name)?;
        self.inner.cut(bytes).await?;
        after.report()
    }
}
