//! One run: the lives of the processes one after the other, and what came of them.
//!
//! ```text
//!   open (again without faults if that fails) -> learn what is there -> actors -> end of the life
//!     crash: everything in memory is gone, the disk keeps what it must   \
//!     close                                                               > next life
//!     rest: everything comes to rest and is checked                      -> the run's outcome
//! ```

use std::sync::Arc;
use std::time::Duration;

use lazybase_cluster::Instance;
use lazybase_engine::env::Env;
use lazybase_engine::env::memory::{MemoryStore, Unsynced};
use lazybase_engine::env::planted::Chosen;
use lazybase_engine::manifest::Ddl;
use lazybase_model::{Error, Horizon, Result, Table};
use parking_lot::Mutex;

use crate::clock::Clocks;
use crate::damage::records::{Beside, Verdict, compare_read_beside, read_beside_damage};
use crate::dice::Dice;
use crate::life::{Answer, Life, Progress, Run, Tally, Trouble};
use crate::marks::{Mark, Marks};
use crate::model::Model;
use crate::operator::{check_views, operate, rest};
use crate::reader::{Reader, read};
use crate::rows::Known;
use crate::schema::{LEDGER, TableDraw, ledger_spec};
use crate::store::{Past, Rates, SimStore, Wounds};
use crate::story::{End, LifeDraw, OPERATIONS_MIN, Story, Trim};
use crate::taker::{check_sequences, make_sequences, take};
use crate::violation::caught;
use crate::world::{Stopped, World};
use crate::writer::{Writer, write};

/// More polls than any run takes.
const STEPS_MAX: u64 = 3_000_000;

/// A run counts only if batches of so many writers were acknowledged in it.
const WRITERS_MIN: usize = 3;

/// What came of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// What was wrong, if anything.
    pub violation: Option<String>,
    /// What was done.
    pub tally: Tally,
    /// How many writers had a batch acknowledged.
    pub writers: usize,
    /// The marks that were met.
    pub marks: Marks,
    /// The hash of everything that happened.
    pub hash: u64,
    /// How many polls there were.
    pub steps: u64,
    /// Simulated time.
    pub elapsed: Duration,
    /// Everything that happened, where it was recorded.
    pub lines: Vec<String>,
}

impl Outcome {
    /// Whether the run had all that makes it count.
    pub fn counts(&self) -> bool {
        let tally = &self.tally;
        tally.batches + tally.queries >= OPERATIONS_MIN
            && self.writers >= WRITERS_MIN
            && tally.crashes > 0
            && tally.restarts > 0
            && tally.authority_merges > 0
    }
}

/// Those who outlive the processes.
struct Cast {
    run: Arc<Run>,
    writers: Vec<Arc<Mutex<Writer>>>,
    readers: Vec<Arc<Mutex<Reader>>>,
}

/// Runs a seed.
///
/// # Panics
/// Where the database does.
pub fn run_seed(seed: u64, trim: Trim, recording: bool) -> Outcome {
    let world = World::new(seed, recording);
    let cast = Cast::of(&world, Story::of(seed, trim));
    cast.live();
    world.crash();
    outcome(seed, &world, Some(&cast))
}

/// Runs a seed; a panic is a violation like others, and all that happened before it is told.
pub fn run_caught(seed: u64, trim: Trim, recording: bool) -> Outcome {
    let world = World::new(seed, recording);
    let report = |ran: Result<(), String>| ran.unwrap_or_else(|panic| world.violate(panic));
    let mut cast = None;
    report(caught(!recording, || {
        let cast = cast.insert(Cast::of(&world, Story::of(seed, trim)));
        cast.live();
    }));
    // What a panic has left may panic once more as it goes: the first one counts.
    report(caught(!recording, || world.crash()));
    outcome(seed, &world, cast.as_ref())
}

/// What came of a run that has ended; it has no cast if none could be drawn.
fn outcome(seed: u64, world: &World, cast: Option<&Cast>) -> Outcome {
    let mut marks = world.marks();
    let (mut tally, mut writers) = (Tally::default(), 0);
    if let Some(cast) = cast {
        marks.add(cast.run.model.lock().marks());
        tally = *cast.run.tally.lock();
        let floors = cast.writers.iter().map(|writer| writer.lock().floor());
        writers = floors.filter(|floor| *floor > Horizon::ZERO).count();
    }
    Outcome {
        seed,
        violation: world.violation(),
        tally,
        writers,
        marks,
        hash: world.hash(),
        steps: world.steps(),
        elapsed: world.now(),
        lines: world.take_lines(),
    }
}

impl Cast {
    fn of(world: &World, story: Story) -> Cast {
        world.limit_steps(STEPS_MAX);
        world.note("story", story.seed, 0, || format!("{story:#?}"));
        let writers = story.writers.iter().enumerate();
        let writers = writers.map(|(at, draw)| Writer::new(story.seed, at, draw.clone()));
        let readers = (0..story.readers).map(|at| Reader::new(story.seed, at));
        Cast {
            writers: writers.map(|writer| Arc::new(Mutex::new(writer))).collect(),
            readers: readers.map(|reader| Arc::new(Mutex::new(reader))).collect(),
            run: Arc::new(Run {
                world: world.clone(),
                model: Mutex::new(Model::new(story.tables.clone())),
                clocks: Mutex::new(Clocks::default()),
                strikes: Mutex::new(story.strikes),
                wounds: Wounds::default(),
                record_strikes: Mutex::new(story.records.running),
                closed: Mutex::default(),
                past: Arc::new(Past::default()),
                made: Mutex::default(),
                shown: Mutex::default(),
                gone: Mutex::default(),
                names: Mutex::default(),
                sequences: Mutex::default(),
                tally: Mutex::default(),
                story,
            }),
        }
    }

    /// All lives, the last one first come to rest.
    fn live(&self) {
        let mut disk = MemoryStore::without_history();
        let lives = self.run.story.lives.clone();
        for (number, draw) in lives.into_iter().enumerate() {
            let world = &self.run.world;
            world.move_wall(draw.wall_micros);
            match draw.wall_micros {
                0 => {}
                back if back < 0 => world.meet(Mark::WallBack),
                _ => world.meet(Mark::WallForward),
            }
            let mut dice = Dice::of(self.run.story.seed, 600 + number as u64);
            if number > 0 && dice.percent(self.run.story.records.between) {
                self.run.strike_between(&disk, &mut dice);
            }
            let mut faults = draw.faults;
            loop {
                let stopped = self.live_once(number as u32, draw, faults, &mut disk);
                match stopped {
                    Stopped::Done if world.violation().is_some() => return,
                    Stopped::Violated => return,
                    Stopped::Done => break,
                    Stopped::Crashed => {
                        disk = self.crash(draw, &disk);
                        // The last life goes on until all is at rest.
                        if draw.end != End::Rest {
                            break;
                        }
                        faults = false;
                    }
                    Stopped::Stuck | Stopped::Endless => {
                        let tasks = world.tasks();
                        world.violate(format!("nothing goes on ({stopped:?}): {tasks:?}"));
                        return;
                    }
                }
            }
            world.crash();
        }
    }

    fn crash(&self, draw: LifeDraw, disk: &MemoryStore) -> MemoryStore {
        let world = &self.run.world;
        world.note("crash", 0, 0, || format!("{:?}", draw.unsynced));
        world.crash();
        self.run.tally.lock().crashes += 1;
        world.meet(match draw.unsynced {
            Unsynced::Nothing => Mark::CrashNothing,
            Unsynced::Everything => Mark::CrashEverything,
            Unsynced::Prefix(_) => Mark::CrashPrefix,
            Unsynced::Scattered(_) => Mark::CrashScattered,
        });
        disk.after_crash(draw.unsynced)
    }

    /// From an opening to the end of what it opened.
    fn live_once(
        &self,
        number: u32,
        draw: LifeDraw,
        faults: bool,
        disk: &mut MemoryStore,
    ) -> Stopped {
        let world = &self.run.world;
        let rates = match faults {
            true => self.run.story.rates,
            false => Rates {
                slow: self.run.story.rates.slow,
                attempt_hung: self.run.story.rates.attempt_hung,
                attempt_hung_ms: self.run.story.rates.attempt_hung_ms,
                ..Rates::default()
            },
        };
        let dice = Dice::of(self.run.story.seed, 500 + u64::from(number));
        let wounds = self.run.wounds.clone();
        let past = Arc::clone(&self.run.past);
        let store = SimStore::new(world.clone(), disk.clone(), wounds, past, dice, rates);
        if self.run.story.long_batches {
            store.watch_frames();
        }
        let log = store.clone();
        if number > 0 {
            self.run.tally.lock().restarts += 1;
        }
        let began_at = self.run.operations();
        let mut ordered = false;
        if draw.answers == 0 {
            // The end comes during recovery, or soon after.
            ordered = true;
            match draw.end {
                End::CrashIn(polls) => world.crash_in(polls),
                End::CrashAt(point) => store.crash_at(Some(point)),
                End::Close | End::Rest => {}
            }
        }
        let opened = Arc::new(Mutex::new(false));
        let life = Opening {
            run: Arc::clone(&self.run),
            number,
            draw,
            store,
            progress: Progress { began_at, ordered },
            opened: Arc::clone(&opened),
        };
        let living = live(life, self.writers.clone(), self.readers.clone());
        let stopped = world.run(living);
        if stopped == Stopped::Crashed && !*opened.lock() {
            world.meet(Mark::CrashInOpen);
        }
        if log.has_open_batches() {
            world.meet(Mark::FramesDropped);
        }
        stopped
    }
}

/// A life's faults end after so long: while each operation may fail, work of hundreds of operations
/// has no chance to end, however often it is tried, and nobody promised that it would.
const FAULTS_LAST: Duration = Duration::from_secs(60);

/// What runs in one life.
async fn live(
    opening: Opening,
    writers: Vec<Arc<Mutex<Writer>>>,
    readers: Vec<Arc<Mutex<Reader>>>,
) {
    let world = opening.run.world.clone();
    let Some(life) = opening.open().await else {
        return;
    };
    let mut tasks: Vec<u32> = Vec::new();
    for (at, writer) in writers.iter().enumerate() {
        let writing = write(Arc::clone(&life), Arc::clone(writer));
        tasks.push(world.start(&format!("writer-{at}"), Box::pin(writing)));
    }
    for (at, reader) in readers.into_iter().enumerate() {
        let writer = Arc::clone(&writers[at % writers.len()]);
        let reading = read(Arc::clone(&life), reader, writer);
        tasks.push(world.start(&format!("reader-{at}"), Box::pin(reading)));
    }
    for at in 0..life.run.story.sequences.takers {
        let taking = take(Arc::clone(&life), at);
        tasks.push(world.start(&format!("taker-{at}"), Box::pin(taking)));
    }
    if life.run.story.trim.operator {
        tasks.push(world.start("operator", Box::pin(operate(Arc::clone(&life)))));
    }
    let store = life.store.clone();
    let clock = world.clone();
    let relief = async move {
        clock.sleep(FAULTS_LAST).await;
        store.set_faults(false);
    };
    world.start("relief", Box::pin(relief));
    if life.draw.jump_micros != 0 {
        world.start("clock", Box::pin(jump(world.clone(), life.draw)));
    }
    if !life.draw.stands.is_zero() {
        world.start("clock", Box::pin(stand(world.clone(), life.draw)));
    }
    while tasks.iter().any(|task| world.is_alive(*task)) {
        world.sleep(Duration::from_millis(2)).await;
    }
    end(&life).await;
}

/// Somebody sets the machine's clock.
async fn jump(world: World, draw: LifeDraw) {
    world.sleep(draw.jump_after).await;
    world.move_wall(draw.jump_micros);
    world.meet(match draw.jump_micros < 0 {
        true => Mark::JumpedBack,
        false => Mark::JumpedForward,
    });
}

/// The machine's clock stands still. Who asks how much time has passed is told, as ever.
async fn stand(world: World, draw: LifeDraw) {
    world.sleep(draw.stands_after).await;
    world.stand_wall(draw.stands);
    world.meet(Mark::StoodStill);
}

/// A life that begins.
struct Opening {
    run: Arc<Run>,
    number: u32,
    draw: LifeDraw,
    store: SimStore,
    progress: Progress,
    opened: Arc<Mutex<bool>>,
}

impl Opening {
    /// Opens the database and learns what is there; nothing if the run is over.
    async fn open(self) -> Option<Arc<Life>> {
        let verdict = self.run.verdict(self.store.disk());
        if verdict.is_some() {
            // What comes of damage is told from what comes of faults.
            self.store.set_faults(false);
        }
        let since = self.run.world.now();
        let made = match self.try_open().await {
            Ok(made) => made,
            Err(error) if self.is_for_damage(verdict.as_ref(), &error) => {
                self.give_up().await;
                return None;
            }
            Err(error) if self.store.failed_since(since) => {
                let world = &self.run.world;
                world.note("not opened", 0, 0, || error.to_string());
                world.meet(Mark::OpenRefused);
                self.give_up().await;
                return None;
            }
            Err(error) => {
                let what = format!("the database can't be opened: {error:?}");
                self.run.world.violate(what);
                return None;
            }
        };
        *self.opened.lock() = true;
        if let Some(Err(what)) = verdict.as_ref().map(|verdict| self.run.opened(verdict)) {
            self.run.world.violate(what);
            return None;
        }
        self.learn(made, verdict.is_some()).await
    }

    /// Whether the database is not opened for the sake of a file that is damaged for good.
    fn is_for_damage(&self, verdict: Option<&Verdict>, error: &Error) -> bool {
        let world = &self.run.world;
        match verdict.map(|verdict| self.run.refused(verdict, error)) {
            None | Some(Ok(false)) => false,
            Some(Ok(true)) => {
                world.note("not opened", 1, 0, || error.to_string());
                true
            }
            Some(Err(what)) => {
                world.violate(what);
                true
            }
        }
    }

    /// What half opened the database is gone with the process.
    async fn give_up(&self) {
        self.run.world.crash_now();
        std::future::pending::<()>().await;
    }

    /// Learns what is there; before that, what is beside damage.
    async fn learn(self, made: Made, is_damaged: bool) -> Option<Arc<Life>> {
        let Made {
            instance,
            ledger,
            tables,
            maps,
        } = made;
        let manifest = instance.manifest();
        if manifest.last_remapped > manifest.sorted_through {
            self.run.world.meet(Mark::RemappedAgain);
        }
        let clock = self.read_clock(&instance);
        let ahead_micros = match clock {
            Ok(ahead) => ahead,
            Err(what) => {
                self.run.world.violate(what);
                return None;
            }
        };
        let life = Arc::new(Life {
            run: self.run,
            number: self.number,
            draw: self.draw,
            store: self.store,
            instance,
            ahead_micros,
            ledger,
            tables: Mutex::new(tables),
            maps,
            progress: Mutex::new(self.progress),
            rest: Mutex::default(),
            promises: Mutex::default(),
        });
        let beside = match is_damaged {
            true => certainly(&life, read_beside_damage(&life).await)?,
            false => Beside::default(),
        };
        let world = life.world().clone();
        loop {
            let learnt = life.learn().await;
            if life.report(learnt).is_some() {
                break;
            }
            if world.violation().is_some() {
                return None;
            }
            world.sleep(Duration::from_millis(5)).await;
        }
        settle_unheard(&life);
        certainly(&life, check_views(&life).map_err(Trouble::Wrong))?;
        certainly(&life, check_sequences(&life).map_err(Trouble::Wrong))?;
        if is_damaged {
            certainly(&life, compare_read_beside(&life, &beside).await)?;
            life.store.set_faults(true);
        }
        Some(life)
    }

    /// How far the database's clock is ahead of simulated time, in microseconds.
    fn read_clock(&self, instance: &Instance) -> Result<i64, String> {
        let world = &self.run.world;
        let acknowledged = self.run.model.lock().last_acknowledged();
        let (said, wall) = (instance.now_micros(), world.wall_ahead());
        if world.wall_stands() {
            world.meet(Mark::StoodInOpen);
        }
        let mut clocks = self.run.clocks.lock();
        clocks.opened(world.now(), said, wall, acknowledged)
    }

    async fn try_open(&self) -> Result<Made> {
        let world = &self.run.world;
        let (now, wall) = (world.now(), world.wall_ahead());
        self.run.clocks.lock().begin(now, wall);
        let story = &self.run.story;
        let env = Env {
            clock: Arc::new(world.clone()),
            random: Arc::new(world.clone()),
            store: Arc::new(self.store.clone()),
            spawner: Arc::new(world.clone()),
            planted: Chosen::of(story.trim.planted),
        };
        let instance = Instance::open(env, story.settings.clone()).await?;
        world.note("opened", u64::from(self.number), 0, String::new);
        instance.create_table(ledger_spec(), true).await?;
        let ledger = Known::ledger(instance.table(LEDGER)?).map_err(Error::internal)?;
        let mut tables = Vec::<Known>::new();
        for draw in story.tables.clone() {
            let id_of = |owner: usize| {
                let owner = &tables.get(owner)?.table;
                owner.columns[owner.owned_id()?.0].id_key
            };
            let spec = draw.spec(id_of);
            instance.create_table(spec, true).await?;
            if draw.cut.is_some() {
                world.meet(Mark::Partitioned);
            }
            if draw.columns.iter().any(|column| column.merge.is_some()) {
                world.meet(Mark::Combined);
            }
            let table = instance.table(&draw.name)?;
            let table = Known::of(table, &draw).map_err(Error::internal)?;
            for view in draw.views.clone() {
                if instance.manifest().view_named(&view.name).is_none() {
                    let view = instance.define_view(&table.table, &view.spec())?;
                    let view = view.as_ref().clone();
                    instance
                        .commit(vec![Ddl::CreateView { view }], None)
                        .await?;
                }
            }
            tables.push(table);
        }
        make_sequences(&self.run, &instance).await?;
        let maps = tables.iter().zip(&story.tables);
        let maps = maps.map(|(table, draw)| map_of(&instance, &table.table, draw));
        Ok(Made {
            maps: maps.collect::<Result<_>>()?,
            instance,
            ledger,
            tables,
        })
    }
}

/// After the ledger was learnt: what became of the batches that nobody heard of.
fn settle_unheard(life: &Life) {
    let world = life.world();
    let mut model = life.run.model.lock();
    model.settle_unheard(|number, batch| {
        let doubt = matches!(batch.fate, crate::model::Fate::InDoubt { .. });
        let there = batch.place.is_some();
        world.note("after the restart", number as u64, u64::from(there), || {
            format!("batch {number} is {}", if there { "there" } else { "gone" })
        });
        world.meet(match (doubt, there) {
            (true, true) => Mark::DoubtSurvived,
            (true, false) => Mark::DoubtLost,
            (false, true) => Mark::UnheardSurvived,
            (false, false) => Mark::UnheardLost,
        });
    });
}

/// What nothing excuses: an error is a violation.
fn certainly<T>(life: &Life, answer: Answer<T>) -> Option<T> {
    let answer = answer.map_err(|trouble| match trouble {
        Trouble::Excused(error) => Trouble::Wrong(format!("beside damage: {error:?}")),
        wrong => wrong,
    });
    life.report(answer)
}

/// An open database and its tables.
struct Made {
    instance: Instance,
    ledger: Known,
    tables: Vec<Known>,
    maps: Vec<Option<Known>>,
}

/// The key map of a table that owns an ID.
fn map_of(instance: &Instance, table: &Table, draw: &TableDraw) -> Result<Option<Known>> {
    let Some((_, map)) = table.owned_id() else {
        return Ok(None);
    };
    let manifest = instance.manifest();
    let map = manifest.tables.get(&map);
    let map = map.ok_or_else(|| Error::internal("the key map of an owner is gone"))?;
    let known = Known::of(Arc::clone(&map.table), draw).map_err(Error::internal)?;
    Ok(Some(known))
}

/// Ends a life whose actors have ended.
async fn end(life: &Arc<Life>) {
    let world = life.world();
    match life.draw.end {
        End::Rest => {
            let rested = rest(life).await;
            // What was lost is behind it: nothing is left that an error could be excused by.
            life.report(rested.map_err(|trouble| match trouble {
                Trouble::Excused(error) => Trouble::Wrong(format!("at rest: {error:?}")),
                wrong => wrong,
            }));
            close(life).await;
        }
        End::Close => {
            life.store.set_faults(false);
            close(life).await;
            *life.run.closed.lock() = !life.store.failed_since(Duration::ZERO);
            world.meet(Mark::Closed);
        }
        // The operation in which it should have come did not come.
        End::CrashIn(_) | End::CrashAt(_) => {
            world.crash_now();
            std::future::pending::<()>().await;
        }
    }
}

async fn close(life: &Life) {
    let silent = life.instance.status().silent;
    if silent.came_back < silent.given_up {
        life.world().meet(Mark::ZombieLeft);
    }
    if let Err(error) = life.instance.close().await {
        let what = format!("the database can't be closed: {error:?}");
        life.world().violate(what);
    }
}

#[cfg(test)]
mod tests;
