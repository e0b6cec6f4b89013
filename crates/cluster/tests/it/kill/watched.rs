//! A store that says when an operation begins and when it has ended: so the one who kills the
//! process knows in the middle of which operations it died.

use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use lazybase_engine::env::local::LocalStore;
use lazybase_engine::env::{FileWriter, LogFile, Store, StoreResult};

use super::say;

#[derive(Debug)]
pub(super) struct Watched(pub(super) LocalStore);

/// An operation under way; it ends when this is dropped.
struct Doing(&'static str);

impl Doing {
    fn begin(what: &'static str) -> Doing {
        say(format_args!("+ {what}"));
        Doing(what)
    }
}

impl Drop for Doing {
    fn drop(&mut self) {
        say(format_args!("- {}", self.0));
    }
}

#[async_trait]
impl Store for Watched {
    async fn put_if_absent(&self, name: &str, bytes: Bytes) -> StoreResult<()> {
        let _doing = Doing::begin(match name.ends_with(".checkpoint") {
            true => "manifest checkpoint",
            false => "manifest commit",
        });
        self.0.put_if_absent(name, bytes).await
    }

    async fn create(&self, name: &str) -> StoreResult<Box<dyn FileWriter>> {
        let doing = Doing::begin("segment");
        let file = self.0.create(name).await?;
        Ok(Box::new(WatchedFile {
            file,
            _doing: doing,
        }))
    }

    async fn read(&self, name: &str, range: Range<u64>) -> StoreResult<Bytes> {
        self.0.read(name, range).await
    }

    async fn len(&self, name: &str) -> StoreResult<u64> {
        self.0.len(name).await
    }

    async fn list(&self, prefix: &str) -> StoreResult<Vec<(String, u64)>> {
        self.0.list(prefix).await
    }

    async fn delete(&self, name: &str) -> StoreResult<()> {
        let _doing = Doing::begin("delete");
        self.0.delete(name).await
    }

    async fn create_log(
        &self,
        name: &str,
        bytes: u64,
        recycle: Option<&str>,
    ) -> StoreResult<Box<dyn LogFile>> {
        let _doing = Doing::begin("new log file");
        let log = self.0.create_log(name, bytes, recycle).await?;
        Ok(Box::new(WatchedLog(log)))
    }
}

struct WatchedFile {
    file: Box<dyn FileWriter>,
    _doing: Doing,
}

#[async_trait]
impl FileWriter for WatchedFile {
    async fn write(&mut self, bytes: Bytes) -> StoreResult<()> {
        self.file.write(bytes).await
    }

    async fn finish(self: Box<Self>) -> StoreResult<()> {
        let WatchedFile { file, _doing } = *self;
        file.finish().await
    }
}

struct WatchedLog(Box<dyn LogFile>);

#[async_trait]
impl LogFile for WatchedLog {
    async fn write_at(&mut self, offset: u64, bytes: &[u8]) -> StoreResult<()> {
        let _doing = Doing::begin("log write");
        self.0.write_at(offset, bytes).await
    }

    async fn sync(&mut self) -> StoreResult<()> {
        let _doing = Doing::begin("log sync");
        self.0.sync().await
    }

    async fn cut(self: Box<Self>, bytes: u64) -> StoreResult<()> {
        let _doing = Doing::begin("log cut");
        self.0.cut(bytes).await
    }
}
