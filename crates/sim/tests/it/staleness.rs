//! How stale answers get, by a clock that no slow machine holds up: what a stream and its end do to
//! answers at best effort.

use std::sync::Arc;
use std::time::Duration;

use lazybase_cluster::Settings;
use lazybase_engine::env::Store;
use lazybase_engine::env::memory::MemoryStore;
use lazybase_model::{Freshness, Stage};
use lazybase_sim::dice::Dice;
use lazybase_sim::store::{Rates, SimStore, Wounds};
use lazybase_sim::world::World;

use crate::harness::{Acknowledged, Database, Rows, tell};

/// How long after its last acknowledgement an idle database has everything in the authority.
const IDLE_MAX: Duration = Duration::from_secs(3);
/// How stale a stream gets at best effort.
const STALENESS_MAX: Duration = Duration::from_secs(5);
/// That is a stream of fewer rows than a thousand a second.
const ROWS_PER_SECOND: u64 = 980;
/// For how long it is looked at.
const STREAM: Duration = Duration::from_secs(40);
/// How often its answers are compared.
const COMPARED_EVERY: Duration = Duration::from_secs(2);

/// A database as it is shipped, on a disk that takes its time. Its log files are small: they would
/// be filled with zeros.
async fn open(world: &World, seed: u64) -> Database {
    let rates = Rates {
        slow: 10,
        ..Rates::default()
    };
    let disk = MemoryStore::without_history();
    let (wounds, dice) = (Wounds::default(), Dice::of(seed, 910));
    let store = SimStore::new(world.clone(), disk, wounds, Arc::default(), dice, rates);
    let store: Arc<dyn Store> = Arc::new(store);
    let settings = Settings {
        log_file_bytes: 1 << 20,
        ..Settings::default()
    };
    Database::open(world, &store, &settings).await.unwrap()
}

/// Waits until an answer at best effort holds everything and comes from the authority alone.
async fn comes_to_rest(world: &World, database: &Database, acknowledged: &Acknowledged) {
    let written = world.now();
    loop {
        let cheapest = database.snapshot(Freshness::BestEffort).await;
        let held = database.scan(&cheapest).await;
        let stamp = cheapest.stamp();
        if stamp.batches_left_out == 0 && stamp.sources.stages() == [Stage::Authority] {
            assert_eq!(held, acknowledged.at(acknowledged.newest()));
            return;
        }
        let idle = world.now() - written;
        assert!(idle < IDLE_MAX, "{idle:?} after the last batch: {stamp}");
        world.sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn an_idle_database_has_everything_in_the_authority_three_seconds_after_its_last_batch() {
    for seed in 0..12 {
        tell(seed, |world| async move {
            let mut dice = Dice::of(seed, 911);
            let database = open(&world, seed).await;
            let mut acknowledged = Acknowledged::default();
            for batch in 0..dice.between(1, 60) {
                let pause = Duration::from_millis(dice.below(150));
                world.sleep(pause).await;
                let count = dice.between(1, 50);
                let row = |_| (dice.below(500) as i64, batch as i64);
                let rows: Rows = (0..count).map(row).collect();
                let horizon = database.commit(&rows).await.unwrap();
                acknowledged.add(horizon, rows);
            }
            comes_to_rest(&world, &database, &acknowledged).await;
            database.close_whole().await;
        });
    }
}

/// Rows under keys that rise, or under any.
async fn stream(world: World, seed: u64, rises: bool) {
    let mut dice = Dice::of(seed, 912);
    let database = open(&world, seed).await;
    let mut acknowledged = Acknowledged::default();
    let end = world.now() + STREAM;
    let (mut written, mut compared) = (0, world.now());
    while world.now() < end {
        let micros = dice.between(2_000, 90_000);
        world.sleep(Duration::from_micros(micros)).await;
        // An answer is stalest right before the next batch.
        let cheapest = database.snapshot(Freshness::BestEffort).await;
        let stamp = cheapest.stamp();
        assert!(stamp.staleness <= STALENESS_MAX, "{stamp}");
        if world.now() >= compared + COMPARED_EVERY {
            compared = world.now();
            let held = acknowledged.at(cheapest.horizon());
            assert_eq!(database.scan(&cheapest).await, held);
        }
        let mut rows = Rows::new();
        for _ in 0..micros * ROWS_PER_SECOND / 1_000_000 {
            written += 1;
            let key = match rises {
                true => written,
                false => dice.below(20_000) as i64,
            };
            rows.push((key, written));
        }
        let horizon = database.commit(&rows).await.unwrap();
        acknowledged.add(horizon, rows);
    }
    comes_to_rest(&world, &database, &acknowledged).await;
    database.close_whole().await;
}

#[test]
fn a_stream_below_a_thousand_rows_a_second_is_never_staler_than_five_seconds_at_best_effort() {
    for (seed, rises) in [(1, true), (2, false)] {
        tell(seed, |world| stream(world, seed, rises));
    }
}
