//! A store that fails on request, around any other.
//!
//! Reads and writes what the inner store does. Tests hold a [`Faults`] and say what is to go
//! wrong: an operation that is refused, one that happens and still reports failure, damaged
//! bytes, a full disk, a crash.

mod files;
mod plan;

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::{FailedSync, FileWriter, LogFile, Store, StoreError, StoreResult};
use files::{FaultyLog, FaultyWriter};

pub use plan::{Fault, Faults, Operation, Rule};

/// A store whose operations fail as [`Faults`] say.
#[derive(Clone)]
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    faults: Faults,
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStore")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

impl FaultyStore {
    /// A store that does what `inner` does, until `faults` say otherwise.
    pub fn over(inner: Arc<dyn Store>, faults: Faults) -> FaultyStore {
        FaultyStore { inner, faults }
    }

    /// What is to go wrong.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The length at which `name` is to seem cut off, given its true length.
    fn seeming_len(&self, name: &str, length: u64) -> u64 {
        self.faults
            .cut(name)
            .map_or(length, |bytes| bytes.min(length))
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn put_if_absent(&self, name: &str, bytes: Bytes) -> StoreResult<()> {
        let after = self.faults.before(Operation::Put, name)?;
        let length = bytes.len() as u64;
        self.faults.take_space(name, length)?;
        let put = self.inner.put_if_absent(name, bytes).await;
        if put.is_err() {
            self.faults.give_space(length);
        }
        put?;
        after.report()
    }

    async fn create(&self, name: &str) -> StoreResult<Box<dyn FileWriter>> {
        let after = self.faults.before(Operation::Create, name)?;
        let inner = self.inner.create(name).await?;
        after.report()?;
        let writer = FaultyWriter::over(inner, self.faults.clone(), name);
        Ok(Box::new(writer))
    }

    async fn read(&self, name: &str, range: Range<u64>) -> StoreResult<Bytes> {
        let after = self.faults.before(Operation::Read, name)?;
        if self.faults.cut(name).is_some_and(|bytes| range.end > bytes) {
            return Err(StoreError::TooShort {
                name: name.to_owned(),
                end: range.end,
            });
        }
        let bytes = self.inner.read(name, range.clone()).await?;
        after.report()?;
        Ok(self.faults.damage(name, range.start, bytes))
    }

    async fn len(&self, name: &str) -> StoreResult<u64> {
        let after = self.faults.before(Operation::Len, name)?;
        let length = self.inner.len(name).await?;
        after.report()?;
        Ok(self.seeming_len(name, length))
    }

    async fn list(&self, prefix: &str) -> StoreResult<Vec<(String, u64)>> {
        let after = self.faults.before(Operation::List, prefix)?;
        let mut files = self.inner.list(prefix).await?;
        after.report()?;
        for (name, length) in &mut files {
            *length = self.seeming_len(name, *length);
        }
        Ok(files)
    }

    async fn delete(&self, name: &str) -> StoreResult<()> {
        let after = self.faults.before(Operation::Delete, name)?;
        self.inner.delete(name).await?;
        after.report()
    }

    async fn create_log(
        &self,
        name: &str,
        bytes: u64,
        recycle: Option<&str>,
    ) -> StoreResult<Box<dyn LogFile>> {
        let after = self.faults.before(Operation::CreateLog, name)?;
        let taken = if recycle.is_none() { bytes } else { 0 };
        self.faults.take_space(name, taken)?;
        let created = self.inner.create_log(name, bytes, recycle).await;
        if created.is_err() {
            self.faults.give_space(taken);
        }
        let inner = created?;
        after.report()?;
        let log = FaultyLog::over(inner, self.faults.clone(), name);
        Ok(Box::new(log))
    }

    fn folder(&self) -> Option<&Path> {
        self.inner.folder()
    }

    fn failed_sync(&self) -> Option<FailedSync> {
        self.inner.failed_sync()
    }
}

#[cfg(test)]
mod tests;
