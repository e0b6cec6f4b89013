//! A disk whose operations fail and whose files can be damaged while a database is open over it.

use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use futures::future::select;
use lazybase_cluster::{Instance, Settings};
use lazybase_engine::env::Store;
use lazybase_engine::env::faults::{Fault, Faults, FaultyStore, Operation, Rule};
use lazybase_engine::env::memory::MemoryStore;

use crate::damage::{Harm, files, harm_file, wait_for};
use crate::harness::open;

/// Where files are named that are damaged.
const MARKS: &str = "condemned/";

/// The disk.
pub(crate) struct World {
    /// What is on it.
    pub(crate) memory: MemoryStore,
    /// What goes wrong.
    pub(crate) faults: Faults,
    /// What a database sees of it.
    pub(crate) store: Arc<FaultyStore>,
}

impl World {
    pub(crate) fn new() -> World {
        World::over(MemoryStore::without_history())
    }

    pub(crate) fn over(memory: MemoryStore) -> World {
        let faults = Faults::none();
        let store = Arc::new(FaultyStore::over(Arc::new(memory.clone()), faults.clone()));
        World {
            memory,
            faults,
            store,
        }
    }

    pub(crate) fn open(&self, settings: Settings) -> Instance {
        open(Arc::clone(&self.store) as _, settings).unwrap()
    }

    pub(crate) fn harm(&self, file: &str, harm: Harm) {
        harm_file(&self.memory, &self.faults, file, harm);
    }

    /// Files with this part in their names can't be made until the faults are cleared.
    pub(crate) fn refuse_to_make(&self, part: &str) {
        let refused = Fault::Refused { full: false };
        let rule = Rule::every(Operation::Create, refused);
        self.faults.add(rule.named(part));
    }

    /// Whether a damaged file is named on it.
    pub(crate) fn is_marked(&self) -> bool {
        !files(&self.memory, MARKS).is_empty()
    }

    pub(crate) fn wait_until_unmarked(&self, instance: &Instance) {
        wait_for(instance, "the marks to go", |_| !self.is_marked());
    }

    /// `VERIFY TABLE`, given up as soon as a file was found to be wrong.
    pub(crate) fn verify_until_marked(&self, instance: &Instance, table: &str) {
        self.until_marked(instance, instance.verify_table(table, 1.0, &|_| {}));
    }

    /// Does this until a damaged file is named: to its end, it would wait for the file to be made
    /// again, and where that can't be, for a minute.
    pub(crate) fn until_marked(&self, instance: &Instance, work: impl Future + Unpin) {
        block_on(async {
            let found = async {
                while self.memory.list(MARKS).await.unwrap().is_empty() {
                    instance.env().clock.sleep(Duration::from_millis(5)).await;
                }
            };
            select(work, Box::pin(found)).await;
        });
    }
}

/// Nothing is cached, so that every read goes to the store.
pub(crate) fn uncached(settings: Settings) -> Settings {
    Settings {
        cache_bytes: 0,
        ..settings
    }
}
