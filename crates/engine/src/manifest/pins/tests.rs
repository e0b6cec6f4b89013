//! Pins that are held, renewed and lost, on a clock that is moved by hand.

use lazybase_model::ScuNumber;

use super::*;
use crate::env::Env;
use crate::manifest::testing::Story;

fn world() -> (crate::env::manual::TestEnv, Pins, Arc<Manifest>) {
    let world = Env::test(1);
    let pins = Pins::new(Arc::clone(&world.env.clock), Duration::from_secs(60));
    (world, pins, Arc::new(Story::new().manifest))
}

#[test]
fn a_pin_holds_its_manifest_until_it_is_dropped() {
    let (world, pins, manifest) = world();
    let first = pins.pin("query 1", || Arc::clone(&manifest));
    world.clock.advance(Duration::from_secs(5));
    let second = pins.pin("query 2", || Arc::clone(&manifest));
    second.set_horizon(Horizon::end_of(ScuNumber(4)));
    assert_eq!(pins.manifests().len(), 1);
    let listed = pins.list();
    assert_eq!(listed[0].owner, "query 1");
    assert_eq!(
        (listed[0].age.as_secs(), listed[0].remaining.as_secs()),
        (5, 55)
    );
    assert_eq!(listed[1].horizon.scu, ScuNumber(4));
    assert_eq!(pins.oldest().unwrap().owner, "query 1");
    drop(first);
    assert_eq!(pins.oldest().unwrap().owner, "query 2");
    drop(second);
    assert!(pins.manifests().is_empty() && pins.oldest().is_none());
}

#[test]
fn a_reader_that_lives_renews_and_one_that_sleeps_loses_its_pin() {
    let (world, pins, manifest) = world();
    let pin = pins.pin("slow", || Arc::clone(&manifest));
    for _ in 0..5 {
        world.clock.advance(Duration::from_secs(50));
        pin.check().unwrap();
    }
    assert_eq!(pins.manifests().len(), 1);
    world.clock.advance(Duration::from_secs(61));
    assert!(pins.oldest().is_none());
    assert_eq!(pin.check().unwrap_err().kind(), ErrorKind::SnapshotTooOld);
    assert!(pins.manifests().is_empty());
    assert_eq!(pin.check().unwrap_err().kind(), ErrorKind::SnapshotTooOld);
}

#[test]
fn a_pin_that_keeps_too_much_is_ended_and_what_the_stages_read_is_not() {
    let (world, pins, manifest) = world();
    let mut story = Story::new();
    story.create_table("t");
    let newer = Arc::new(story.manifest);
    let old = pins.pin("old", || Arc::clone(&manifest));
    world.clock.advance(Duration::from_secs(20));
    let same = pins.pin("same", || Arc::clone(&manifest));
    let young = pins.pin("young", || Arc::clone(&newer));
    let sort = pins.pin_for_work("sort", || Arc::clone(&newer));
    world.clock.advance(Duration::from_secs(5));
    let held: Vec<_> = pins
        .held()
        .into_iter()
        .map(|held| (held.manifest.number, held.age.as_secs(), held.may_end))
        .collect();
    let (first, second) = (manifest.number, newer.number);
    assert_eq!(held, [(first, 5, true), (second, 5, false)]);
    // One that has come since somebody looked is spared.
    assert_eq!(pins.end(second, Duration::from_secs(6)), [""; 0]);
    assert_eq!(pins.end(first, Duration::from_secs(5)), ["old", "same"]);
    for ended in [&old, &same] {
        let error = ended.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SnapshotTooOld);
        assert!(error.detail().unwrap().contains("superseded_bytes_max"));
    }
    assert_eq!(pins.manifests().len(), 1);
    // Of those of one manifest each for itself.
    assert_eq!(pins.end(second, Duration::ZERO), ["young"]);
    assert!(young.check().is_err());
    sort.check().unwrap();
    assert_eq!(pins.oldest().unwrap().owner, "sort");
}

#[test]
fn a_pin_that_a_collector_took_stays_lost() {
    let deadline = Deadline(AtomicU64::new(10));
    assert!(!deadline.expire(10));
    assert!(deadline.renew(10, 20));
    assert!(deadline.expire(21));
    assert!(!deadline.renew(5, 30));
    let deadline = Deadline(AtomicU64::new(30));
    deadline.end();
    assert!(deadline.expire(0) && deadline.is_ended());
    assert!(!deadline.renew(0, 40) && !deadline.renew(1, 40));
    // A second reader thread that renewed first is no loss.
    let deadline = Deadline(AtomicU64::new(30));
    assert!(deadline.renew(12, 22));
}
