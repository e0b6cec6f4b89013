//! Each kind of fault, once.

use std::sync::Arc;

use bytes::Bytes;
use futures::executor::block_on;

use super::{Fault, Faults, FaultyStore, Operation, Rule};
use crate::env::memory::MemoryStore;
use crate::env::{Store, StoreError, StoreResult};

struct World {
    inner: MemoryStore,
    store: FaultyStore,
    faults: Faults,
}

fn world() -> World {
    let inner = MemoryStore::new();
    let faults = Faults::none();
    let store = FaultyStore::over(Arc::new(inner.clone()), faults.clone());
    World {
        inner,
        store,
        faults,
    }
}

impl World {
    fn put(&self, name: &str) -> StoreResult<()> {
        block_on(
            self.store
                .put_if_absent(name, Bytes::from_static(b"0123456789")),
        )
    }

    fn read(&self, name: &str) -> StoreResult<Bytes> {
        block_on(self.store.read(name, 0..10))
    }

    fn has(&self, name: &str) -> bool {
        block_on(self.inner.len(name)).is_ok()
    }

    fn write_file(&self, name: &str, bytes: usize) -> StoreResult<()> {
        block_on(async {
            let mut writer = self.store.create(name).await?;
            writer.write(Bytes::from(vec![0; bytes])).await?;
            writer.finish().await
        })
    }
}

const REFUSED: Fault = Fault::Refused { full: false };

fn is_not_done<T>(result: StoreResult<T>, expected_full: bool) -> bool {
    matches!(result, Err(StoreError::DefinitelyNot { full, .. }) if full == expected_full)
}

fn is_in_doubt<T>(result: StoreResult<T>) -> bool {
    matches!(result, Err(StoreError::Maybe { .. }))
}

fn is_read_error<T>(result: StoreResult<T>) -> bool {
    matches!(result, Err(StoreError::Read { .. }))
}

#[test]
fn without_faults_it_conforms() {
    block_on(crate::env::conformance::check(&world().store));
}

#[test]
fn the_nth_fails_once() {
    let world = world();
    world
        .faults
        .add(Rule::nth(Operation::Put, 2, REFUSED).named("a"));
    world.put("a1").unwrap();
    world.put("b").unwrap();
    assert!(is_not_done(world.put("a2"), false));
    assert!(!world.has("a2"));
    world.put("a2").unwrap();
    assert_eq!(world.faults.count(Operation::Put), 4);
}

#[test]
fn it_happens_and_fails_or_does_not() {
    let world = world();
    world
        .faults
        .add(Rule::nth(Operation::Put, 1, Fault::HappensAnyway));
    world.faults.add(Rule::nth(Operation::Put, 2, Fault::Lost));
    assert!(is_in_doubt(world.put("a")));
    assert!(is_in_doubt(world.put("b")));
    assert!(world.has("a") && !world.has("b"));
}

#[test]
fn each_operation_can_be_refused() {
    use Operation::{Create, CreateLog, Delete, Finish, Len, List, LogSync, LogWrite, Read, Write};
    let world = world();
    world.put("a").unwrap();
    let mut log = block_on(world.store.create_log("1.log", 8, None)).unwrap();
    let operations = [
        Create, CreateLog, Delete, Finish, Len, List, LogSync, LogWrite, Read,
    ];
    for operation in operations.into_iter().chain([Write]) {
        world.faults.clear();
        world
            .faults
            .add(Rule::every(operation, Fault::Refused { full: true }));
        let store = &world.store;
        match operation {
            Create | Write | Finish => assert!(is_not_done(world.write_file("b", 1), true)),
            CreateLog => assert!(is_not_done(
                block_on(store.create_log("2.log", 1, None)),
                true
            )),
            Delete => assert!(is_not_done(block_on(store.delete("a")), true)),
            Len => assert!(is_read_error(block_on(store.len("a")))),
            List => assert!(is_read_error(block_on(store.list("")))),
            Read => assert!(is_read_error(world.read("a"))),
            LogWrite => assert!(is_not_done(block_on(log.write_at(0, b"x")), true)),
            _ => assert!(is_in_doubt(block_on(log.sync()))),
        }
    }
    world.faults.clear();
    assert!(!world.has("b") && !world.has("2.log") && world.has("a"));
    block_on(log.sync()).unwrap();
}

#[test]
fn half_of_a_log_write() {
    let world = world();
    let mut log = block_on(world.store.create_log("1.log", 4, None)).unwrap();
    world
        .faults
        .add(Rule::nth(Operation::LogWrite, 1, Fault::Torn));
    assert!(is_in_doubt(block_on(log.write_at(0, b"abcd"))));
    assert_eq!(block_on(world.inner.read("1.log", 0..4)).unwrap(), "ab\0\0");
}

#[test]
fn damaged_and_truncated_files() {
    let world = world();
    world.put("a").unwrap();
    world.put("b").unwrap();
    world.faults.flip_bit("a", 8 * 3 + 1);
    assert_eq!(world.read("a").unwrap(), "0121456789");
    assert_eq!(block_on(world.store.read("a", 3..4)).unwrap(), "1");
    assert_eq!(block_on(world.store.read("a", 4..6)).unwrap(), "45");
    assert_eq!(world.read("b").unwrap(), "0123456789");

    world.faults.clear();
    assert_eq!(world.read("a").unwrap(), "0123456789");
    world.faults.truncate("a", 7);
    assert!(matches!(world.read("a"), Err(StoreError::TooShort { .. })));
    assert_eq!(block_on(world.store.read("a", 0..7)).unwrap(), "0123456");
    assert_eq!(block_on(world.store.len("a")).unwrap(), 7);
    let files = block_on(world.store.list("")).unwrap();
    assert_eq!(files, [("a".to_owned(), 7), ("b".to_owned(), 10)]);
}

#[test]
fn a_full_disk_until_space_is_given() {
    let world = world();
    world.faults.limit_space(25);
    world.put("a").unwrap();
    assert!(world.put("a").is_err());
    world.put("b").unwrap();
    assert!(is_not_done(world.put("c"), true));
    assert!(is_not_done(world.write_file("c", 6), true));
    world.write_file("d", 5).unwrap();
    assert!(is_not_done(
        block_on(world.store.create_log("1.log", 8, None)),
        true
    ));
    world.faults.give_space(10);
    world.put("c").unwrap();
    world.faults.lift_space_limit();
    block_on(world.store.create_log("1.log", 8, None)).unwrap();
}

#[test]
fn read_only() {
    let world = world();
    world.put("a").unwrap();
    world.faults.set_read_only(true);
    assert!(is_not_done(world.put("b"), false));
    assert!(is_not_done(block_on(world.store.delete("a")), false));
    assert_eq!(world.read("a").unwrap(), "0123456789");
    world.faults.set_read_only(false);
    world.put("b").unwrap();
    world.faults.read_only_after(1);
    assert_eq!(world.read("a").unwrap(), "0123456789");
    world.put("c").unwrap();
    assert!(is_not_done(world.put("d"), false));
    assert!(is_not_done(block_on(world.store.delete("a")), false));
    world.faults.set_read_only(false);
    world.put("d").unwrap();
}

#[test]
fn after_a_crash_nothing_works() {
    let world = world();
    world.faults.crash_after(2);
    world.put("a").unwrap();
    world.read("a").unwrap();
    let mut log = block_on(world.store.create_log("1.log", 8, None)).unwrap();
    assert!(!world.faults.is_crashed());
    assert!(is_not_done(block_on(log.write_at(0, b"x")), false));
    assert!(world.faults.is_crashed());
    assert!(is_in_doubt(block_on(log.sync())));
    assert!(is_read_error(world.read("a")));
    world.faults.clear();
    world.faults.crash();
    assert!(is_not_done(world.put("b"), false));
    assert_eq!(world.inner.operations(), 2);
}
