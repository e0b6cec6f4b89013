//! What a seed stands for: tables, settings, actors, faults, and how each life of the processes
//! ends. All of it is drawn before anything runs.
//!
//! Pure. Each part has dice of its own, so that a story from which something is left out
//! ([`Trim`]) is otherwise the same: that is how failures are made small.

use std::time::Duration;

use lazybase_cluster::{LogCompression, Settings};
use lazybase_engine::env::faults::Operation;
use lazybase_engine::env::memory::Unsynced;
use lazybase_engine::env::planted::Planted;
use lazybase_model::limits;

use crate::dice::Dice;
use crate::schema::{Allowed, Shape, TableDraw, draw_tables};
use crate::store::{CrashPoint, Rates};

/// A run counts only if so many batches and queries were answered in it.
pub const OPERATIONS_MIN: u64 = 200;

/// So many of a thousand stories are rich.
const RICH_PERMILLE: u64 = 10;
/// In so many of a thousand batches fill several frames of the log.
const FRAMES_PERMILLE: u64 = 100;
/// In so many of a thousand files of the log and of the manifest are damaged for good.
const RECORDS_PERMILLE: u64 = 100;
/// So many of a hundred times such a file is gone as a whole.
const GONE_PERCENT: u64 = 40;
/// In so many of a thousand somebody takes numbers of sequences.
const SEQUENCES_PERMILLE: u64 = 100;
/// In so many of a thousand superseded files may take little.
const BOUND_PERMILLE: u64 = 100;

/// What is left out of a story.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trim {
    /// How much there is in it; drawn if not given.
    pub shape: Option<Shape>,
    /// What schemas may hold.
    pub schema: Allowed,
    /// Writers at most.
    pub writers: usize,
    /// Readers at most.
    pub readers: usize,
    /// Whether somebody pauses stages, settles and verifies.
    pub operator: bool,
    /// Whether the store fails.
    pub faults: bool,
    /// Whether files are damaged for good.
    pub strikes: bool,
    /// Whether files of the log and of the manifest are, too.
    pub records: bool,
    /// Whether some of these are gone as a whole.
    pub gone: bool,
    /// Whether the store is slow.
    pub delays: bool,
    /// Whether attempts hang.
    pub hangs: bool,
    /// Whether the machine's clock stands still now and then.
    pub stands: bool,
    /// Whether tables are emptied.
    pub truncates: bool,
    /// Whether range partitions are dropped and added again.
    pub replaces: bool,
    /// Whether tables are.
    pub remakes: bool,
    /// Whether batches fill several frames of the log.
    pub frames: bool,
    /// Whether somebody takes numbers of sequences.
    pub sequences: bool,
    /// Whether superseded files may take little.
    pub bound: bool,
    /// Whether processes crash or are closed before the end.
    pub lives: usize,
    /// Batches and queries.
    pub operations: u64,
    /// A mistake that the database makes; only in builds in which that can be.
    pub planted: Option<Planted>,
}

impl Trim {
    /// Nothing is left out.
    pub const NOTHING: Trim = Trim {
        shape: None,
        schema: Allowed {
            tables: 3,
            views: true,
            later: true,
            partitions: true,
            operators: true,
            ttl: true,
            ids: true,
            alters: true,
        },
        writers: 4,
        readers: 3,
        operator: true,
        faults: true,
        strikes: true,
        records: true,
        gone: true,
        delays: true,
        hangs: true,
        stands: true,
        truncates: true,
        replaces: true,
        remakes: true,
        frames: true,
        sequences: true,
        bound: true,
        lives: 8,
        operations: OPERATIONS_MIN,
        planted: None,
    };
}

/// A writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterDraw {
    /// Whether it numbers its batches.
    pub numbered: bool,
    /// How long it thinks between batches, at most.
    pub think: Duration,
}

/// How often something is done that is no plain batch or query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Actions {
    /// Of a thousand batches of those who don't number them: how many change a definition.
    pub alters: u64,
    /// The same: how many empty a table.
    pub empties: u64,
    /// The same, where there are range partitions: how many replace one.
    pub replaces: u64,
    /// The same: how many drop a table, make it again, and fill it.
    pub remakes: u64,
    /// How long the operator waits between two acts, at most.
    pub operator: Duration,
    /// Whether what is at rest is compared before files are collected too, and all of them are read
    /// back.
    pub looks_twice: bool,
}

/// How often what tells of all else is damaged for good: files of the log and of the manifest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Records {
    /// How often while the database is used.
    pub running: u32,
    /// Before so many of a hundred openings.
    pub between: u64,
    /// So many of a hundred times a file is gone as a whole.
    pub gone: u64,
    /// Whether a file of the manifest is when everything is at rest.
    pub at_rest: bool,
}

/// A sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceDraw {
    /// Its name.
    pub name: String,
    /// The first number.
    pub start: i64,
    /// From each number to the next; never 0.
    pub increment: i64,
    /// The least number and the greatest.
    pub bounds: (i64, i64),
    /// Whether it begins again where it ends.
    pub cycles: bool,
}

/// The sequences of a story, and who takes their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sequences {
    /// Which there are; mostly none.
    pub drawn: Vec<SequenceDraw>,
    /// How many take numbers.
    pub takers: usize,
    /// Of a thousand times that the first of them takes some: how often it drops the sequence in
    /// their place, and makes it again.
    pub remakes: u64,
}

/// How a life of the processes ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// They crash so many polls later.
    CrashIn(u64),
    /// They crash in the middle of an operation of the store.
    CrashAt(CrashPoint),
    /// The database is closed.
    Close,
    /// Everything comes to rest.
    Rest,
}

/// One life of the processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LifeDraw {
    /// How far the machine's clock jumps before it, in microseconds.
    pub wall_micros: i64,
    /// How far it jumps while it goes on, in microseconds, and so long after it began.
    pub jump_micros: i64,
    /// See [`LifeDraw::jump_micros`].
    pub jump_after: Duration,
    /// How long it stands still, if it does, and so long after the life began. It may stand longer
    /// than the life lasts.
    pub stands: Duration,
    /// See [`LifeDraw::stands`].
    pub stands_after: Duration,
    /// Whether the store fails in it.
    pub faults: bool,
    /// It ends so many answers after its beginning; none while it opens.
    pub answers: u64,
    /// How.
    pub end: End,
    /// What a crash at its end leaves.
    pub unsynced: Unsynced,
}

/// Everything that is decided before the run.
#[derive(Debug, Clone)]
pub struct Story {
    /// The seed.
    pub seed: u64,
    /// How much there is in it.
    pub shape: Shape,
    /// The tables.
    pub tables: Vec<TableDraw>,
    /// How the database runs.
    pub settings: Settings,
    /// Whether many batches are long, and written in pieces.
    pub long_batches: bool,
    /// How often what else is done.
    pub actions: Actions,
    /// Who writes.
    pub writers: Vec<WriterDraw>,
    /// How many read.
    pub readers: usize,
    /// What goes wrong in the store.
    pub rates: Rates,
    /// How many files are damaged for good while the database is used.
    pub strikes: u32,
    /// Whether one is damaged when it comes to rest.
    pub last_strike: bool,
    /// How often files of the log and of the manifest are damaged for good.
    pub records: Records,
    /// The sequences, and who takes their numbers.
    pub sequences: Sequences,
    /// The lives of the processes.
    pub lives: Vec<LifeDraw>,
    /// What is left out.
    pub trim: Trim,
}

impl Story {
    /// The story of a seed.
    pub fn of(seed: u64, trim: Trim) -> Story {
        let mut strikes = Dice::of(seed, 17);
        let struck = trim.strikes && trim.faults;
        let drawn = Shape::of(Dice::of(seed, 19).permille(RICH_PERMILLE));
        let shape = trim.shape.unwrap_or(drawn);
        let mut settings = draw_settings(&mut Dice::of(seed, 11), shape);
        draw_row_groups(&mut Dice::of(seed, 23), &mut settings);
        let long_batches = trim.frames && draw_frames(&mut Dice::of(seed, 64), &mut settings);
        settings.cache_bytes = draw_cache(&mut Dice::of(seed, 24));
        if trim.bound {
            draw_bound(&mut Dice::of(seed, 66), &mut settings);
        }
        let mut rates = draw_rates(&mut Dice::of(seed, 14), trim);
        if trim.hangs {
            draw_hangs(&mut Dice::of(seed, 18), &mut rates, &mut settings);
        }
        let mut lives = draw_lives(
            &mut Dice::of(seed, 15),
            &mut Dice::of(seed, 26),
            shape,
            trim,
        );
        let mut records = Records::default();
        if trim.records && trim.faults {
            records = draw_records(&mut Dice::of(seed, 61), &mut lives, trim);
        }
        Story {
            strikes: *strikes.pick(&[0, 0, 0, 0, 1, 2]) * u32::from(struck),
            last_strike: strikes.percent(12) && struck,
            seed,
            shape,
            tables: draw_tables(seed, shape, trim.schema),
            settings,
            long_batches,
            actions: Actions {
                replaces: *Dice::of(seed, 25).weigh(&[(1, 0), (2, 50)]),
                remakes: *Dice::of(seed, 63).weigh(&[(9, 0), (1, 60)]),
                ..draw_actions(&mut Dice::of(seed, 21), shape)
            },
            writers: draw_writers(&mut Dice::of(seed, 12), trim),
            readers: (Dice::of(seed, 13).between(2, 3) as usize).min(trim.readers),
            rates,
            records,
            sequences: match trim.sequences {
                true => draw_sequences(&mut Dice::of(seed, 65)),
                false => Sequences::default(),
            },
            lives,
            trim,
        }
    }

    /// Whether superseded files may take so little that what the retention or a snapshot keeps may
    /// go before its time.
    pub fn is_bounded(&self) -> bool {
        self.settings.superseded_bytes_max < limits::SUPERSEDED_BYTES_MAX
    }
}

fn draw_writers(dice: &mut Dice, trim: Trim) -> Vec<WriterDraw> {
    let count = dice.between(3, 4) as usize;
    let writers = (0..count).map(|at| WriterDraw {
        numbered: at == 0 || dice.percent(60) && at + 1 < count,
        think: Duration::from_micros(*dice.pick(&[500, 3_000, 3_000, 12_000])),
    });
    let writers: Vec<WriterDraw> = writers.collect();
    writers.into_iter().take(trim.writers.max(1)).collect()
}

fn draw_settings(dice: &mut Dice, shape: Shape) -> Settings {
    let settings = match shape {
        Shape::Plain => draw_plain_settings(dice),
        Shape::Rich => draw_rich_settings(dice),
    };
    Settings {
        batch_bytes_max: 1 << 20,
        ..settings
    }
}

/// The stages are left in peace: several dozen batches fall into an SCU, files hold much, and what
/// is unsorted is kept in memory. Now and then one of them is as in a rich story.
fn draw_plain_settings(dice: &mut Dice) -> Settings {
    let mut kib = |sizes: &[(u64, u64)]| *dice.weigh(sizes) << 10;
    Settings {
        seal_bytes: kib(&[(1, 2), (1, 6), (58, 64)]),
        sort_memory: kib(&[(1, 1), (1, 4), (58, 64)]),
        unsorted_memory: kib(&[(1, 0), (2, 8), (2, 64), (55, 1024)]),
        unsorted_bytes_max: kib(&[(1, 8), (1, 32), (58, 1024)]),
        merge_task_bytes: kib(&[(1, 4), (1, 16), (58, 256)]),
        range_split_bytes: kib(&[(1, 2), (1, 8), (58, 256)]),
        log_file_bytes: kib(&[(2, 8), (2, 16), (16, 32)]),
        seal_age: Duration::from_millis(*dice.weigh(&[(1, 8), (1, 20), (4, 60), (34, 300)])),
        retention: Duration::from_millis(*dice.pick(&[0, 200, 1_000, 2_500])),
        merge_fan_in: dice.between(2, 8) as usize,
        workers: dice.between(1, 3) as usize,
        log_compression: *dice.pick(&[LogCompression::None, LogCompression::Lz4]),
        ..Settings::default()
    }
}

fn draw_rich_settings(dice: &mut Dice) -> Settings {
    let kib = |dice: &mut Dice, sizes: &[u64]| *dice.pick(sizes) << 10;
    Settings {
        seal_age: Duration::from_millis(*dice.pick(&[8, 20, 60, 150])),
        seal_bytes: kib(dice, &[2, 6, 16, 64]),
        retention: Duration::from_millis(*dice.pick(&[0, 200, 1_000, 2_500])),
        sort_memory: kib(dice, &[1, 4, 64]),
        unsorted_memory: kib(dice, &[0, 8, 256]),
        unsorted_bytes_max: kib(dice, &[8, 32, 1024]),
        merge_task_bytes: kib(dice, &[4, 16, 256]),
        merge_fan_in: dice.between(2, 8) as usize,
        range_split_bytes: kib(dice, &[2, 8, 256]),
        log_file_bytes: kib(dice, &[8, 16, 64]),
        workers: dice.between(1, 3) as usize,
        log_compression: *dice.pick(&[LogCompression::None, LogCompression::Lz4]),
        ..Settings::default()
    }
}

/// Mostly so little is kept of what was read that a file is read again, and may be found damaged;
/// now and then all of it is.
fn draw_cache(dice: &mut Dice) -> u64 {
    *dice.weigh(&[(1, 0), (5, 16 << 10), (2, 16 << 20)])
}

/// In some stories a table's rows fill several row groups, and merges into the authority go through
/// them one by one.
fn draw_row_groups(dice: &mut Dice, settings: &mut Settings) {
    if dice.percent(20) {
        settings.write_options.group_rows = *dice.pick(&[4, 4, 8]);
        settings.write_options.group_bytes = 64;
        settings.sparse_part = *dice.pick(&[1, 2]);
    }
}

/// In some stories frames are so small that batches fill several; what fills one leaves memory
/// before the batch is committed. Whether this is one.
fn draw_frames(dice: &mut Dice, settings: &mut Settings) -> bool {
    if !dice.permille(FRAMES_PERMILLE) {
        return false;
    }
    settings.frame_bytes = *dice.pick(&[64, 200, 600]);
    settings.log_queue_bytes = *dice.weigh(&[(2, 2 << 10), (1, 8 << 10), (1, 1 << 20)]);
    settings.log_file_bytes = *dice.pick(&[8 << 10, 16 << 10]);
    settings.unsorted_memory = *dice.pick(&[0, 4 << 10, 64 << 10]);
    settings.seal_age = settings.seal_age.min(Duration::from_millis(60));
    true
}

/// In some stories superseded files may take nothing, or what a few merges leave; the retention
/// would keep much, and SCUs are so short that there is much to keep.
fn draw_bound(dice: &mut Dice, settings: &mut Settings) {
    if !dice.permille(BOUND_PERMILLE) {
        return;
    }
    settings.superseded_bytes_max = *dice.pick(&[0, 8 << 10, 32 << 10]);
    settings.retention = Duration::from_millis(*dice.pick(&[1_000, 2_500, 2_500]));
    settings.seal_age = settings.seal_age.min(Duration::from_millis(60));
}

/// What changes definitions and stops the stages is dear: many plain stories have none of it.
fn draw_actions(dice: &mut Dice, shape: Shape) -> Actions {
    match shape {
        Shape::Rich => Actions {
            alters: 50,
            empties: 12,
            replaces: 0,
            remakes: 0,
            operator: Duration::from_millis(60),
            looks_twice: true,
        },
        Shape::Plain => Actions {
            alters: *dice.weigh(&[(6, 0), (3, 20), (1, 60)]),
            empties: *dice.weigh(&[(6, 0), (4, 12)]),
            replaces: 0,
            remakes: 0,
            operator: Duration::from_millis(*dice.weigh(&[(1, 60), (3, 200), (6, 600)])),
            looks_twice: dice.percent(25),
        },
    }
}

fn draw_rates(dice: &mut Dice, trim: Trim) -> Rates {
    let level = *dice.pick(&[0, 0, 1, 1, 1, 4]);
    let mut rate = |most: u64| level * dice.below(most + 1);
    let rates = Rates {
        refused: rate(6),
        happened: rate(5),
        lost: rate(4),
        torn: rate(8),
        sync_failed: rate(10),
        read_failed: rate(5),
        flipped: rate(5),
        full: rate(3),
        slow: rate(8),
        hung: rate(1),
        ..Rates::default()
    };
    let slow = dice.between(2, 20);
    let (slow, hung) = match trim.delays {
        true => (rates.slow.max(slow), rates.hung),
        false => (0, 0),
    };
    match trim.faults {
        true => Rates { slow, ..rates },
        false => Rates {
            slow,
            hung,
            ..Rates::default()
        },
    }
}

/// In some stories attempts hang, and are given up soon.
fn draw_hangs(dice: &mut Dice, rates: &mut Rates, settings: &mut Settings) {
    rates.attempt_hung = *dice.pick(&[0, 0, 3, 12, 30]);
    if rates.attempt_hung > 0 {
        rates.attempt_hung_ms = *dice.pick(&[2_000, 6_000, 6_000]);
        settings.attempt_silence = Duration::from_millis(*dice.pick(&[80, 300, 1_000]));
    }
}

fn draw_lives(dice: &mut Dice, stands: &mut Dice, shape: Shape, trim: Trim) -> Vec<LifeDraw> {
    let count = match shape {
        Shape::Plain => *dice.weigh(&[(7, 2), (2, 3), (1, 4)]),
        Shape::Rich => dice.between(2, 4),
    };
    let crashing = dice.below(count - 1);
    let mut lives: Vec<LifeDraw> = (0..count)
        .map(|number| {
            let end = match number {
                last if last + 1 == count => End::Rest,
                sure if sure == crashing => draw_crash(dice),
                _ if dice.percent(30) => End::Close,
                _ => draw_crash(dice),
            };
            let most = 2 * trim.operations / count;
            LifeDraw {
                wall_micros: *dice.pick(&[0, 0, 0, -3_600_000_000, -2_000_000, 1_500_000]),
                faults: dice.percent(70),
                // Now and then nothing is answered before the end: that is a crash while opening.
                answers: match dice.percent(15) {
                    true => 0,
                    false => dice.between(1, most.max(2)),
                },
                end,
                unsynced: draw_unsynced(dice),
                jump_micros: *dice.pick(&[0, 0, -3_600_000_000, -500_000, 700_000, 90_000_000]),
                jump_after: Duration::from_millis(dice.between(1, 3_000)),
                stands: Duration::ZERO,
                stands_after: Duration::ZERO,
            }
        })
        .collect();
    if trim.stands {
        lives.iter_mut().for_each(|life| draw_stand(stands, life));
    }
    if trim.lives < lives.len() {
        let last = lives.pop();
        lives.truncate(trim.lives.saturating_sub(1));
        lives.extend(last);
    }
    lives
}

/// In some stories files of the log and of the manifest are damaged; in many of these the database
/// is closed once, for what a closed database tells it tells twice.
fn draw_records(dice: &mut Dice, lives: &mut Vec<LifeDraw>, trim: Trim) -> Records {
    if !dice.permille(RECORDS_PERMILLE) {
        return Records::default();
    }
    let closes = dice.percent(60);
    let closed = LifeDraw {
        wall_micros: 0,
        jump_micros: 0,
        stands: Duration::ZERO,
        faults: dice.percent(40),
        answers: dice.between(1, 80),
        end: End::Close,
        ..lives[0]
    };
    if closes && lives.len() < trim.lives {
        lives.insert(0, closed);
    }
    Records {
        running: *dice.pick(&[0, 1, 1, 2]),
        between: 75,
        gone: if trim.gone { GONE_PERCENT } else { 0 },
        at_rest: dice.percent(40),
    }
}

/// In some stories somebody takes numbers of sequences.
fn draw_sequences(dice: &mut Dice) -> Sequences {
    if !dice.permille(SEQUENCES_PERMILLE) {
        return Sequences::default();
    }
    let rising = (1, i64::MAX);
    let falling = (i64::MIN, -1);
    let count = dice.between(1, 2);
    let draw = |number: u64| {
        let (start, increment, bounds, cycles) = *dice.weigh(&[
            (3, (1, 1, rising, false)),
            (2, (10, 3, rising, false)),
            (1, (-1, -2, falling, false)),
            (1, (1, 1, (1, 60), true)),
        ]);
        SequenceDraw {
            name: format!("s{number}"),
            start,
            increment,
            bounds,
            cycles,
        }
    };
    Sequences {
        drawn: (0..count).map(draw).collect(),
        takers: dice.between(1, 2) as usize,
        remakes: *dice.pick(&[0, 40]),
    }
}

/// In some lives the machine's clock stands still for a while.
fn draw_stand(dice: &mut Dice, life: &mut LifeDraw) {
    let millis = *dice.weigh(&[(6, 0), (1, 50), (1, 2_000), (1, 60_000)]);
    life.stands = Duration::from_millis(millis);
    life.stands_after = Duration::from_millis(dice.between(1, 1_500));
}

fn draw_unsynced(dice: &mut Dice) -> Unsynced {
    match dice.below(4) {
        0 => Unsynced::Nothing,
        1 => Unsynced::Everything,
        2 => Unsynced::Prefix(dice.bits()),
        _ => Unsynced::Scattered(dice.bits()),
    }
}

fn draw_crash(dice: &mut Dice) -> End {
    if dice.percent(40) {
        return End::CrashIn(dice.below(600));
    }
    let operations = [
        Operation::Put,
        Operation::Put,
        Operation::Finish,
        Operation::LogWrite,
        Operation::LogSync,
        Operation::LogSync,
        Operation::CreateLog,
        Operation::Delete,
    ];
    End::CrashAt(CrashPoint {
        operation: *dice.pick(&operations),
        after: dice.below(3),
        happens: dice.percent(50),
    })
}
