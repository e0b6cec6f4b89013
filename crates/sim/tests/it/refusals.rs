//! A store that takes no change for a while, since its file system is read-only or its disk full:
//! writers are refused with the reason and lose nothing that was acknowledged, readers go on, and
//! once the store takes changes again so does everybody, without the database being opened anew.
//!
//! ```text
//!   writers, stages   --- refused from some operation on ---   go on
//!   readers           go on                                    go on
//!   an old snapshot   reads what it read
//! ```

use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::DataType;
use futures::future::join_all;
use lazybase_cluster::{Settings, SettleTo, StageName, TableSpec};
use lazybase_engine::env::Store;
use lazybase_engine::env::faults::{Faults, FaultyStore};
use lazybase_engine::env::memory::MemoryStore;
use lazybase_model::error::DISK_FULL;
use lazybase_model::{Column, Error, ErrorKind, Freshness, Stage};
use lazybase_sim::dice::Dice;
use lazybase_sim::world::World;

use crate::harness::{Acknowledged, Database, Rows, tell, wait_until};

/// So many batches are on their way at a time.
const WRITERS: i64 = 3;
/// How often the store turns in a story.
const TURNS: usize = 3;
/// So many batches are refused each time, before it turns back.
const REFUSED_MIN: usize = 8;
/// Until then there are so many rounds of batches at most.
const ROUNDS_MAX: usize = 500;
/// The stages that work behind ingest.
const AFTER_INGEST: [StageName; 3] = [StageName::Sort, StageName::Merge, StageName::Authority];

/// Why the store takes no changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    ReadOnly,
    Full,
}

impl Refusal {
    /// From now on, or from some operation on that comes soon.
    fn begin(self, faults: &Faults, soon: Option<&mut Dice>) {
        match (self, soon) {
            (Refusal::ReadOnly, None) => faults.set_read_only(true),
            (Refusal::ReadOnly, Some(dice)) => faults.read_only_after(dice.below(120)),
            (Refusal::Full, None) => faults.limit_space(0),
            (Refusal::Full, Some(dice)) => faults.limit_space(dice.below(30_000)),
        }
    }

    fn end(self, faults: &Faults) {
        match self {
            Refusal::ReadOnly => faults.set_read_only(false),
            Refusal::Full => faults.lift_space_limit(),
        }
    }

    /// Whether what was refused may have happened all the same. The error tells why it was.
    fn leaves_in_doubt(self, error: &Error) -> bool {
        let is_told = match self {
            Refusal::ReadOnly => error.to_string().contains("the store is read-only"),
            Refusal::Full => error.sqlstate() == DISK_FULL && error.hint().is_some(),
        };
        assert!(is_told, "{self:?}: {error:?}");
        match error.kind() {
            ErrorKind::Unavailable => false,
            // What was written before a sync that is refused is there or not.
            ErrorKind::MaybeHappened if self == Refusal::ReadOnly => true,
            _ => panic!("{self:?}: {error:?}"),
        }
    }
}

/// Those who write, each in keys of its own.
#[derive(Default)]
struct Writers {
    batches: i64,
    acknowledged: Acknowledged,
}

impl Writers {
    /// A row that no other batch has, and two that many have.
    fn batch(&mut self, writer: i64) -> Rows {
        self.batches += 1;
        let number = self.batches;
        let hot = 100 * writer;
        vec![
            (1000 + number, number),
            (hot + number % 7, number),
            (hot + 50 + number % 3, number),
        ]
    }

    /// Each commits a batch, all at the same time; those that were refused.
    async fn write(&mut self, database: &Database) -> Vec<(Error, Rows)> {
        let batches: Vec<Rows> = (0..WRITERS).map(|writer| self.batch(writer)).collect();
        let ended = join_all(batches.iter().map(|rows| database.commit(rows))).await;
        let mut refused = Vec::new();
        for (rows, ended) in batches.into_iter().zip(ended) {
            match ended {
                Ok(horizon) => self.acknowledged.add(horizon, rows),
                Err(error) => refused.push((error, rows)),
            }
        }
        refused
    }

    /// The same where nothing may be refused.
    async fn write_all(&mut self, database: &Database) {
        let refused = self.write(database).await;
        assert!(refused.is_empty(), "{refused:?}");
    }

    async fn check(&self, database: &Database) {
        let ids = [0, 3, 52, 101, 1000 + self.batches, 1_000_000];
        self.acknowledged.check(database, &ids).await;
    }
}

/// A database whose store turns.
struct Scene {
    world: World,
    refusal: Refusal,
    faults: Faults,
    store: Arc<dyn Store>,
    settings: Settings,
}

impl Scene {
    fn new(world: World, refusal: Refusal, settings: Settings) -> Scene {
        let faults = Faults::none();
        let memory = Arc::new(MemoryStore::without_history());
        let store = Arc::new(FaultyStore::over(memory, faults.clone()));
        Scene {
            world,
            refusal,
            faults,
            store,
            settings,
        }
    }

    async fn open(&self) -> Database {
        let opened = Database::open(&self.world, &self.store, &self.settings).await;
        opened.unwrap()
    }

    /// Writes until many batches were refused; those that may have happened.
    async fn until_refused(&self, database: &Database, writers: &mut Writers) -> Vec<Rows> {
        let mut in_doubt: Vec<Rows> = Vec::new();
        let mut refused = 0;
        for _ in 0..ROUNDS_MAX {
            let told = writers.write(database).await;
            refused += told.len();
            let is_in_doubt = |(error, _): &(Error, Rows)| self.refusal.leaves_in_doubt(error);
            let told: Vec<Rows> = told
                .into_iter()
                .filter(is_in_doubt)
                .map(|(_, rows)| rows)
                .collect();
            assert!(
                told.is_empty() || in_doubt.is_empty(),
                "batches are in doubt that came after some"
            );
            in_doubt.extend(told);
            writers.check(database).await;
            if refused >= REFUSED_MIN {
                return in_doubt;
            }
            self.world.sleep(Duration::from_millis(20)).await;
        }
        panic!("{refused} batches were refused, no more");
    }

    /// Closes the database while the store takes no changes, and opens it once it does: what was in
    /// doubt is there whole, or not at all.
    async fn reopened(
        &self,
        database: Database,
        writers: &mut Writers,
        in_doubt: &[Rows],
    ) -> Database {
        // The last seal may find no place: then all stays as after a crash.
        let _ = database.instance.close().await;
        drop(database);
        if self.refusal == Refusal::ReadOnly {
            let opened = Database::open(&self.world, &self.store, &self.settings).await;
            let refused = opened.err().expect("opening writes an edit");
            assert!(!self.refusal.leaves_in_doubt(&refused), "{refused:?}");
        }
        self.refusal.end(&self.faults);
        let database = self.open().await;
        let snapshot = database.snapshot(Freshness::ZERO).await;
        let found = database.scan(&snapshot).await;
        let sure = writers.acknowledged.at(snapshot.horizon());
        let mut possible = (0..1_usize << in_doubt.len()).map(|which| {
            let mut held = sure.clone();
            for (at, rows) in in_doubt.iter().enumerate() {
                let is_there = which & (1 << at) != 0;
                held.extend(rows.iter().copied().filter(|_| is_there));
            }
            held
        });
        assert!(
            possible.any(|held| held == found),
            "{found:?}, not {sure:?}"
        );
        drop(snapshot);
        // What was in doubt is known from here on, and no answer ends before.
        database.settle().await;
        let snapshot = database.snapshot(Freshness::ZERO).await;
        writers.acknowledged = Acknowledged::default();
        let rows = found.into_iter().collect();
        writers.acknowledged.add(snapshot.horizon(), rows);
        database
    }

    /// Everything is in the authority and whole, and there once more when the database is opened
    /// again.
    async fn rest(&self, database: Database, writers: &Writers) {
        database.settle().await;
        writers.check(&database).await;
        let cheapest = database.snapshot(Freshness::BestEffort).await;
        database.scan(&cheapest).await;
        let stamp = cheapest.stamp();
        assert_eq!(stamp.batches_left_out, 0, "{stamp}");
        assert_eq!(stamp.sources.stages(), [Stage::Authority], "{stamp}");
        drop(cheapest);
        database.close_whole().await;
        drop(database);
        let database = self.open().await;
        writers.check(&database).await;
        database.close_whole().await;
    }
}

/// Small sizes: log files, runs and ranges come up after a few batches.
fn draw_settings(dice: &mut Dice) -> Settings {
    Settings {
        seal_age: Duration::from_millis(*dice.pick(&[10, 60, 300])),
        retention: Duration::from_millis(*dice.pick(&[0, 200, 2_000])),
        sort_memory: 4 << 10,
        unsorted_memory: *dice.pick(&[0, 8 << 10, 1 << 20]),
        cache_bytes: *dice.pick(&[0, 16 << 10]),
        merge_fan_in: *dice.pick(&[2, 8]),
        range_split_bytes: *dice.pick(&[4 << 10, 256 << 10]),
        log_file_bytes: 8 << 10,
        workers: *dice.pick(&[1, 3]),
        ..Settings::default()
    }
}

/// The store turns a few times, each time at some operation; how many batches ended in doubt.
async fn turning(world: World, refusal: Refusal, mut dice: Dice) -> usize {
    let settings = draw_settings(&mut dice);
    let scene = Scene::new(world, refusal, settings);
    let mut database = scene.open().await;
    let mut writers = Writers::default();
    let mut in_doubt = 0;
    for turn in 0..TURNS {
        for _ in 0..dice.between(4, 40) {
            writers.write_all(&database).await;
            let pause = Duration::from_millis(dice.below(40));
            scene.world.sleep(pause).await;
        }
        let old = database.snapshot(Freshness::ZERO).await;
        let seen = database.scan(&old).await;
        refusal.begin(&scene.faults, Some(&mut dice));
        let doubtful = scene.until_refused(&database, &mut writers).await;
        in_doubt += doubtful.len();
        // The stages run into it, too, again and again.
        scene.world.sleep(Duration::from_secs(2)).await;
        writers.check(&database).await;
        assert_eq!(database.scan(&old).await, seen);
        drop(old);
        if turn + 1 == TURNS && dice.percent(50) {
            database = scene.reopened(database, &mut writers, &doubtful).await;
        } else {
            refusal.end(&scene.faults);
        }
        // Those who write go on at once, and what was in doubt can't come back any more.
        writers.write_all(&database).await;
        writers.check(&database).await;
    }
    scene.rest(database, &writers).await;
    in_doubt
}

#[test]
fn a_store_that_turns_read_only_at_any_moment_loses_nothing_and_serves_readers() {
    let mut in_doubt = 0;
    for seed in 0..16 {
        let dice = Dice::of(seed, 900);
        in_doubt += tell(seed, |world| turning(world, Refusal::ReadOnly, dice));
    }
    assert!(in_doubt > 0, "no batch was on its way");
}

#[test]
fn a_disk_that_is_full_at_any_moment_loses_nothing_and_serves_readers() {
    for seed in 0..16 {
        let dice = Dice::of(seed, 901);
        let in_doubt = tell(seed, |world| turning(world, Refusal::Full, dice));
        assert_eq!(in_doubt, 0);
    }
}

/// One stage meets the refusal, or the manifest if none is named, while the others stand.
async fn meeting(world: World, refusal: Refusal, stage: Option<StageName>) {
    let settings = Settings {
        seal_age: Duration::from_secs(3600),
        retention: Duration::ZERO,
        cache_bytes: 0,
        merge_fan_in: 2,
        log_file_bytes: 64 << 10,
        ..Settings::default()
    };
    let scene = Scene::new(world, refusal, settings);
    let database = scene.open().await;
    let mut writers = Writers::default();
    for stage in AFTER_INGEST {
        database.instance.pause(stage).await.unwrap();
    }
    // Few runs go to the authority at once; of more than three times the fan-in some are joined
    // before.
    let scus = match stage {
        Some(StageName::Merge) => 8,
        _ => 4,
    };
    for _ in 0..scus {
        writers.write_all(&database).await;
        let sealed = database.instance.seal().await.unwrap();
        // Whoever asked hears of it before the manifest does; no stage is to wait for that.
        let is_known = || database.instance.manifest().sealed_through == sealed;
        wait_until(&scene.world, "a seal", is_known).await;
    }
    if matches!(stage, Some(StageName::Merge | StageName::Authority)) {
        database.instance.resume(StageName::Sort).await.unwrap();
        let progress = |_: f64| {};
        let sorted = database.instance.settle(None, SettleTo::Sorted, &progress);
        sorted.await.unwrap();
    }
    if stage.is_none() {
        writers.write_all(&database).await;
    }
    refusal.begin(&scene.faults, None);
    let place = match stage {
        Some(stage) => {
            database.instance.resume(stage).await.unwrap();
            format!("{} of SCUs", stage.name())
        }
        None => {
            database.instance.seal().await.unwrap();
            "manifest/".to_owned()
        }
    };
    let is_told = || {
        let troubles = database.instance.status().troubles;
        troubles.iter().any(|told| told.message.contains(&place))
    };
    wait_until(&scene.world, &place, is_told).await;
    writers.check(&database).await;
    // A change of the catalogue needs an edit, of which none is taken.
    let spec = TableSpec::new("more", vec![Column::new("id", DataType::Int64)], &["id"]);
    let made = database.instance.create_table(spec, false).await;
    assert!(!refusal.leaves_in_doubt(&made.unwrap_err()));
    let refused = writers.write(&database).await;
    // On a full disk there is room in log files that were made before.
    assert!(refusal == Refusal::Full || refused.len() as i64 == WRITERS);
    assert!(
        !refused
            .iter()
            .any(|(error, _)| refusal.leaves_in_doubt(error))
    );
    writers.check(&database).await;
    refusal.end(&scene.faults);
    for stage in AFTER_INGEST {
        database.instance.resume(stage).await.unwrap();
    }
    writers.write_all(&database).await;
    scene.rest(database, &writers).await;
}

#[test]
fn each_stage_goes_on_once_the_store_takes_changes_again() {
    for refusal in [Refusal::ReadOnly, Refusal::Full] {
        for stage in AFTER_INGEST.into_iter().map(Some).chain([None]) {
            println!("{refusal:?}, {stage:?}");
            tell(7, |world| meeting(world, refusal, stage));
        }
    }
}
