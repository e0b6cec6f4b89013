//! A world in memory: a store of byte vectors that tests may damage, and counted random numbers.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::env::planted::Chosen;
use crate::env::{
    ActorHandle, Clock, Env, FileWriter, LogFile, Random, Spawner, Store, StoreError, StoreResult,
};

type Files = Arc<Mutex<BTreeMap<String, Bytes>>>;

#[derive(Debug, Clone, Default)]
pub(super) struct MemoryStore {
    pub(super) files: Files,
}

impl MemoryStore {
    pub(super) fn env(&self) -> Env {
        Env {
            clock: Arc::new(Still),
            random: Arc::new(Counted::default()),
            store: Arc::new(self.clone()),
            spawner: Arc::new(Still),
            planted: Chosen::NONE,
        }
    }

    pub(super) fn bytes(&self, name: &str) -> Vec<u8> {
        self.files.lock()[name].to_vec()
    }

    pub(super) fn set(&self, name: &str, bytes: Vec<u8>) {
        self.files.lock().insert(name.to_owned(), bytes.into());
    }
}

#[derive(Debug, Default)]
struct Counted(AtomicU64);

impl Random for Counted {
    fn next_u64(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

struct Still;

#[async_trait]
impl Clock for Still {
    fn wall_micros(&self) -> i64 {
        0
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    async fn sleep(&self, _: Duration) {}
}

impl Spawner for Still {
    fn spawn(&self, _: &str, _: BoxFuture<'static, ()>) -> Box<dyn ActorHandle> {
        panic!("segments spawn nothing")
    }
}

struct MemoryFile {
    name: String,
    bytes: Vec<u8>,
    files: Files,
}

#[async_trait]
impl FileWriter for MemoryFile {
    async fn write(&mut self, bytes: Bytes) -> StoreResult<()> {
        self.bytes.extend_from_slice(&bytes);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> StoreResult<()> {
        self.files.lock().insert(self.name, self.bytes.into());
        Ok(())
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn put_if_absent(&self, name: &str, bytes: Bytes) -> StoreResult<()> {
        self.files.lock().insert(name.to_owned(), bytes);
        Ok(())
    }

    async fn create(&self, name: &str) -> StoreResult<Box<dyn FileWriter>> {
        Ok(Box::new(MemoryFile {
            name: name.to_owned(),
            bytes: Vec::new(),
            files: Arc::clone(&self.files),
        }))
    }

    async fn read(&self, name: &str, range: Range<u64>) -> StoreResult<Bytes> {
        let files = self.files.lock();
        let missing = || StoreError::NotFound(name.to_owned());
        let bytes = files.get(name).ok_or_else(missing)?;
        let range = range.start as usize..range.end as usize;
        match range.end <= bytes.len() {
            true => Ok(bytes.slice(range)),
            false => Err(StoreError::Read {
                name: name.to_owned(),
                reason: "the file is shorter".to_owned(),
            }),
        }
    }

    async fn len(&self, name: &str) -> StoreResult<u64> {
        let files = self.files.lock();
        let missing = || StoreError::NotFound(name.to_owned());
        Ok(files.get(name).ok_or_else(missing)?.len() as u64)
    }

    async fn list(&self, prefix: &str) -> StoreResult<Vec<(String, u64)>> {
        let files = self.files.lock();
        let of_prefix = files.iter().filter(|(name, _)| name.starts_with(prefix));
        Ok(of_prefix
            .map(|(name, bytes)| (name.clone(), bytes.len() as u64))
            .collect())
    }

    async fn delete(&self, name: &str) -> StoreResult<()> {
        self.files.lock().remove(name);
        Ok(())
    }

    async fn create_log(&self, _: &str, _: u64, _: Option<&str>) -> StoreResult<Box<dyn LogFile>> {
        panic!("segments write no log")
    }
}
