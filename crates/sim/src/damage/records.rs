//! Damage for good of what tells of all else: log files, and files of the manifest, which are
//! damaged or gone as a whole. What another file or a later stage tells too must be opened without
//! it; what nothing else tells must be refused by name.
//!
//! ```text
//!   struck between two lives -> refused by the file's name, and nothing else tells what it told
//!                            |    \-> somebody restores the file: it opens, nothing is missing
//!                            \-> opened: tables that need a damaged log are refused by name, all
//!                                  others are as they should be -> the file is restored
//! ```
//!
//! What is needed is told by the headers of frames and the names of files alone. A power cut is no
//! damage, and what can't be told from one is not struck: more than a bit of what may not have been
//! durable, or the last bytes of a frame that are not zeros. A file that is gone, and that nobody
//! can miss then (`gone.rs`), is brought back before the database is opened.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use bytes::Bytes;
use futures::FutureExt;
use futures::executor::block_on;
use lazybase_cluster::SnapshotRequest;
use lazybase_engine::env::memory::MemoryStore;
use lazybase_engine::env::planted::Chosen;
use lazybase_engine::env::{Env, Store};
use lazybase_engine::manifest::file::FileKind;
use lazybase_engine::manifest::{Manifest, ManifestStore};
use lazybase_engine::read::Snapshot;
use lazybase_model::{Error, ErrorKind, Freshness, TableId};

use super::gone::{
    LogFile, Missed, Teller, log_files, missed, names_edit, newest_of, told_through,
};
use crate::dice::Dice;
use crate::life::{Answer, Life, Run, Trouble};
use crate::marks::Mark;
use crate::reader::{compare_read, ids_of, scan_request};
use crate::store::frames::{Frame, HEADER_BYTES, LogImage};
use crate::store::{Harm, Of};

/// What a disk writes whole or not at all.
const SECTOR_BYTES: u64 = 512;
/// How often a bit is sought whose flip can be told.
const FLIPS_TRIED: u32 = 16;
/// The newest files of the manifest are struck most often: so many of them.
const NEWEST: usize = 4;
/// Of files of the manifest that are taken away, so many of a hundred are the newest one.
const NEWEST_GONE_PERCENT: u64 = 35;

/// Whether a database is opened whose log or manifest is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Opens {
    /// What is damaged is told by others, or nobody needs it.
    Yes,
    /// A log is damaged with what may have been acknowledged.
    Maybe,
    /// An edit is damaged that nothing else tells, or a log is gone that others miss.
    No,
}

/// What has to come of an opening.
#[derive(Debug)]
pub(crate) struct Verdict {
    damaged: Vec<Damaged>,
    was_closed: bool,
    opens: Opens,
}

/// A file of the log or of the manifest that is damaged.
#[derive(Debug)]
struct Damaged {
    name: String,
    of: Of,
    harm: Harm,
    /// What tells of one that is gone, where an opening is refused for it.
    teller: Option<Teller>,
}

impl Damaged {
    fn is_gone(&self) -> bool {
        self.harm == Harm::Gone
    }
}

/// The files of a folder, and those of them that are damaged.
struct Folder {
    files: Vec<(String, u64)>,
    damaged: Vec<(String, Harm)>,
}

impl Folder {
    /// Those that are gone.
    fn gone(&self) -> Vec<String> {
        let gone = self.damaged.iter().filter(|(_, harm)| *harm == Harm::Gone);
        gone.map(|(name, _)| name.clone()).collect()
    }
}

/// The files of a folder, with their lengths: those that are gone, too.
pub(super) fn listed(disk: &MemoryStore, folder: &str) -> Vec<(String, u64)> {
    // A store in memory answers at once.
    let listed = disk.list(folder).now_or_never();
    listed.and_then(Result::ok).unwrap_or_default()
}

/// Damages a file, and says so.
fn strike(run: &Run, name: &str, harm: Harm, of: Of) {
    run.wounds.strike(name, harm, of);
    run.world.meet(match (of, harm, FileKind::of_name(name)) {
        (Of::Log, Harm::Gone, _) => Mark::LogGone,
        (Of::Log, _, _) => Mark::LogStruck,
        (_, Harm::Gone, Some((FileKind::Edit, _))) => Mark::EditGone,
        (_, Harm::Gone, _) => Mark::CheckpointGone,
        (_, _, Some((FileKind::Edit, _))) => Mark::EditStruck,
        _ => Mark::CheckpointStruck,
    });
    if let (Of::Log, Harm::Torn { .. }) = (of, harm) {
        run.world.meet(Mark::LogBytesTorn);
    }
    run.world
        .note("struck", 0, 0, || format!("{name}: {harm:?}"));
}

/// The files of the manifest that are there, none that is newer than `through`, in the order of
/// their numbers.
fn manifest_files(run: &Run, disk: &MemoryStore, through: u64) -> Vec<(String, u64)> {
    let mut files = listed(disk, "manifest/");
    files.retain(|(name, bytes)| {
        let known = FileKind::of_name(name);
        let is_old = known.is_some_and(|(_, number)| number <= through);
        *bytes > 0 && is_old && !run.wounds.is_gone(name)
    });
    files.sort_by_key(|(name, _)| FileKind::of_name(name).map(|(_, number)| number));
    files
}

/// One of them, most often one of the newest.
fn draw_file<'f>(dice: &mut Dice, files: &'f [(String, u64)]) -> Option<&'f (String, u64)> {
    let newest = files.len().saturating_sub(NEWEST);
    let from = match dice.percent(60) {
        true => &files[newest..],
        false => files,
    };
    (!from.is_empty()).then(|| dice.pick(from))
}

/// The newest of them, be it an edit or the checkpoint of its number.
fn draw_newest<'f>(dice: &mut Dice, files: &'f [(String, u64)]) -> Option<&'f (String, u64)> {
    let newest = newest_of(files);
    let is_newest = |name: &str| FileKind::of_name(name).is_some_and(|of| of.1 == newest);
    let newest = files.iter().filter(|(name, _)| is_newest(name));
    let newest: Vec<&(String, u64)> = newest.collect();
    (!newest.is_empty()).then(|| *dice.pick(&newest))
}

/// Damages a file of the manifest, none that is newer than `through`; its name.
pub(crate) fn strike_manifest(
    run: &Run,
    disk: &MemoryStore,
    dice: &mut Dice,
    through: u64,
) -> Option<String> {
    let files = manifest_files(run, disk, through);
    if dice.percent(run.story.records.gone) {
        let (name, _) = match dice.percent(NEWEST_GONE_PERCENT) {
            true => draw_newest(dice, &files)?,
            false => draw_file(dice, &files)?,
        };
        strike(run, name, Harm::Gone, Of::Manifest);
        return Some(name.clone());
    }
    let (name, bytes) = draw_file(dice, &files)?;
    let byte = dice.below(*bytes);
    let harm = match dice.percent(70) {
        true => Harm::Flip {
            byte,
            bit: dice.below(8) as u8,
        },
        // It is text: no byte of it is a zero.
        false => Harm::Torn {
            from: byte,
            to: (byte + dice.between(1, SECTOR_BYTES)).min(*bytes),
        },
    };
    strike(run, name, harm, Of::Manifest);
    Some(name.clone())
}

/// Damages a log file, most often with what is not sorted; its name. While the database `runs`, a
/// crash may take what tells: nothing is torn then, and it is seen at the next opening whether one
/// that was taken away is missed.
pub(crate) fn strike_log(
    run: &Run,
    disk: &MemoryStore,
    dice: &mut Dice,
    manifest: &Manifest,
    runs: bool,
) -> Option<String> {
    let sorted = manifest.sorted_through.0;
    let mut files = log_files(disk);
    files.retain(|file| {
        let image = file.begun.as_ref();
        image.is_none_or(|image| !run.wounds.is_gone(&image.name))
    });
    if dice.percent(run.story.records.gone) {
        let sealed = (!runs).then_some(manifest.sealed_through.0);
        let name = draw_gone_log(dice, &files, sealed, sorted)?;
        strike(run, &name, Harm::Gone, Of::Log);
        return Some(name);
    }
    let images: Vec<LogImage> = files.into_iter().filter_map(|file| file.begun).collect();
    let (name, harm) = draw_log_harm(dice, &images, sorted, !runs)?;
    strike(run, &name, harm, Of::Log);
    Some(name)
}

/// A log file that is taken away, most often one with what is not sorted. Where nobody writes, and
/// all SCUs up to `sealed` are sealed, it is one of which it is certain what comes of that: more
/// often than by chance one that the next file tells of.
fn draw_gone_log(
    dice: &mut Dice,
    files: &[LogFile],
    sealed: Option<u64>,
    sorted: u64,
) -> Option<String> {
    let told = |image: &LogImage| match sealed {
        Some(sealed) => missed(files, &image.name, sealed),
        None => Missed::Maybe,
    };
    let all = files.iter().filter_map(|file| file.begun.as_ref());
    let all = all.map(|image| (image, told(image)));
    let all: Vec<(&LogImage, Missed)> = all.filter(|(_, of)| *of != Missed::Untold).collect();
    let by_next = Missed::By(Teller::Next);
    let next = all.iter().filter(|(_, of)| *of == by_next);
    let next: Vec<_> = next.copied().collect();
    let is_unsorted = |image: &LogImage| image.frames.iter().any(|frame| frame.scu > sorted);
    let unsorted = all.iter().filter(|(image, _)| is_unsorted(image));
    let unsorted: Vec<_> = unsorted.copied().collect();
    let from = if !next.is_empty() && dice.percent(60) {
        &next
    } else if !unsorted.is_empty() && dice.percent(75) {
        &unsorted
    } else {
        &all
    };
    (!from.is_empty()).then(|| dice.pick(from).0.name.clone())
}

fn draw_log_harm(
    dice: &mut Dice,
    images: &[LogImage],
    sorted_through: u64,
    tears: bool,
) -> Option<(String, Harm)> {
    let all = images
        .iter()
        .flat_map(|image| image.frames.iter().map(move |frame| (image, frame)));
    let all: Vec<(&LogImage, &Frame)> = all.collect();
    let unsorted = all.iter().filter(|(_, frame)| frame.scu > sorted_through);
    let unsorted: Vec<(&LogImage, &Frame)> = unsorted.copied().collect();
    let from = match !unsorted.is_empty() && dice.percent(75) {
        true => &unsorted,
        false => &all,
    };
    if from.is_empty() {
        return None;
    }
    let (image, frame) = *dice.pick(from);
    let harm = match dice.below(10) {
        0 => Some(Harm::Flip {
            byte: dice.below(HEADER_BYTES as u64),
            bit: dice.below(8) as u8,
        }),
        1..4 if tears => draw_torn(dice, images, image, frame),
        _ => None,
    };
    let harm = harm.or_else(|| draw_flip(dice, image, frame))?;
    Some((image.name.clone(), harm))
}

/// A bit of a frame whose flip does not look as if its bytes had never been written.
fn draw_flip(dice: &mut Dice, image: &LogImage, frame: &Frame) -> Option<Harm> {
    for _ in 0..FLIPS_TRIED {
        let byte = frame.from + dice.below(frame.to - frame.from);
        let bit = dice.below(8) as u8;
        let harm = Harm::Flip { byte, bit };
        let bytes = Bytes::copy_from_slice(image.bytes_of(frame));
        let bytes = harm.done_to(&(frame.from..frame.to), bytes);
        let sector = byte / SECTOR_BYTES * SECTOR_BYTES;
        let place = |at: u64| (at.clamp(frame.from, frame.to) - frame.from) as usize;
        let is_written = |bytes: &[u8]| bytes.iter().any(|byte| *byte != 0);
        let around = &bytes[place(sector)..place(sector + SECTOR_BYTES)];
        if is_written(&bytes[place(byte)..]) && is_written(around) {
            return Some(harm);
        }
    }
    None
}

/// Bytes of a frame of which others tell that it was durable.
fn draw_torn(
    dice: &mut Dice,
    images: &[LogImage],
    image: &LogImage,
    frame: &Frame,
) -> Option<Harm> {
    let from = frame.from + dice.below(frame.to - frame.from);
    let to = (from + dice.between(8, SECTOR_BYTES)).min(frame.to);
    let mut behind = image.frames.iter().filter(|other| other.from >= frame.to);
    let mut next = images
        .iter()
        .filter(|other| other.previous.0 == image.number);
    let is_durable = behind.any(|other| other.durable >= frame.to)
        || next.any(|other| other.previous.1 >= frame.to);
    let mut torn = image.bytes[from as usize..to as usize].iter();
    let changes = torn.any(|byte| *byte != 0);
    (is_durable && changes).then_some(Harm::Torn { from, to })
}

/// Whether damage of the log may be of what is not in a sealed SCU.
fn is_needed(images: &[LogImage], name: &str, harm: Harm, sealed_through: u64) -> bool {
    let (from, to) = match harm {
        Harm::Flip { byte, .. } => (byte, byte + 1),
        Harm::Torn { from, to } => (from, to),
        Harm::Cut(_) | Harm::Gone => return true,
    };
    // A crash may have left another file than the one that was damaged.
    let Some(image) = images.iter().find(|image| image.name == name) else {
        return true;
    };
    let is_open = |frame: &&Frame| frame.scu > sealed_through;
    if from < HEADER_BYTES as u64 {
        return image.frames.is_empty() || image.frames.iter().any(|frame| is_open(&frame));
    }
    let frames = images.iter().flat_map(|image| &image.frames);
    let committed = frames.filter(is_open).filter(|frame| frame.commits);
    let committed: BTreeSet<u64> = committed.map(|frame| frame.batch).collect();
    let met = image.frames.iter();
    let met: Vec<&Frame> = met.filter(|f| f.from < to && from < f.to).collect();
    let needed = |frame: &&Frame| is_open(frame) || committed.contains(&frame.batch);
    // Whose a frame was without a header can't be told where none is behind it, nor from an open
    // SCU's.
    let is_torn = matches!(harm, Harm::Torn { .. });
    let is_last = image.frames.iter().all(|frame| frame.from < to);
    let mut behind = image.frames.iter().filter(|frame| frame.to > from);
    let is_in_doubt = is_torn && (is_last || behind.any(|frame| is_open(&frame)));
    met.is_empty() || is_in_doubt || met.iter().any(needed)
}

impl Run {
    /// Damages a file of the log or of the manifest of a database that nobody has open.
    pub(crate) fn strike_between(&self, disk: &MemoryStore, dice: &mut Dice) {
        match (dice.percent(55), self.manifest_on(disk)) {
            (true, Some(manifest)) => drop(strike_log(self, disk, dice, &manifest, false)),
            (true, None) => {}
            (false, _) => drop(strike_manifest(self, disk, dice, u64::MAX)),
        }
    }

    /// The manifest as the disk would tell it without damage.
    fn manifest_on(&self, disk: &MemoryStore) -> Option<Arc<Manifest>> {
        let env = Env {
            clock: Arc::new(self.world.clone()),
            random: Arc::new(self.world.clone()),
            store: Arc::new(disk.clone()),
            spawner: Arc::new(self.world.clone()),
            planted: Chosen::of(self.story.trim.planted),
        };
        // A store in memory answers at once.
        let found = block_on(ManifestStore::open_read_only(&env));
        Some(found.ok()?.current())
    }

    fn sealed_on(&self, disk: &MemoryStore) -> u64 {
        let manifest = self.manifest_on(disk);
        manifest.map_or(0, |manifest| manifest.sealed_through.0)
    }

    fn folder(&self, disk: &MemoryStore, folder: &str, of: Of) -> Folder {
        let files = listed(disk, folder);
        let mut damaged = self.wounds.of(of);
        damaged.retain(|(name, _)| files.iter().any(|(file, _)| file == name));
        Folder { files, damaged }
    }

    /// Brings back the files that are gone, and that nobody can miss: without them all is as a
    /// crash may have left it.
    fn bring_back_untold(&self, disk: &MemoryStore, was_closed: bool) {
        let log = self.folder(disk, "log/", Of::Log);
        let manifest = self.folder(disk, "manifest/", Of::Manifest);
        let mut untold = log.gone();
        if self.is_log_missed(disk, &log, was_closed) {
            untold.clear();
        }
        let gone = manifest.gone();
        if !gone.is_empty() && !is_edit_missed(disk, &manifest, &log, was_closed) {
            untold.extend(gone);
        }
        for name in untold {
            self.wounds.restore(&name, self.world.now());
            self.world.note("brought back", 0, 0, || name.clone());
        }
    }

    /// Whether it is certain what an opening does that lacks the files of the log which are gone.
    fn is_log_missed(&self, disk: &MemoryStore, log: &Folder, was_closed: bool) -> bool {
        let [(name, Harm::Gone)] = &log.damaged[..] else {
            return false;
        };
        match missed(&log_files(disk), name, self.sealed_on(disk)) {
            Missed::No => true,
            // What was closed has to be opened.
            Missed::Maybe | Missed::By(_) => !was_closed,
            Missed::Untold => false,
        }
    }

    /// What has to come of an opening; nothing where neither log nor manifest is damaged.
    pub(crate) fn verdict(&self, disk: &MemoryStore) -> Option<Verdict> {
        let was_closed = std::mem::take(&mut *self.closed.lock());
        self.bring_back_untold(disk, was_closed);
        let log = self.folder(disk, "log/", Of::Log);
        let manifest = self.folder(disk, "manifest/", Of::Manifest);
        if log.damaged.is_empty() && manifest.damaged.is_empty() {
            return None;
        }
        let through = told_through(&manifest.files, &manifest.damaged);
        let is_told = through == Some(newest_of(&manifest.files));
        let is_twice = was_closed && manifest.damaged.len() == 1;
        let mut opens = match is_twice || is_told {
            true => Opens::Yes,
            false => Opens::No,
        };
        let mut damaged = match opens == Opens::Yes && !was_closed {
            true => self.judge_log(disk, log.damaged, &mut opens),
            false => named(log.damaged, Of::Log, None),
        };
        // The files that are left tell all but the newest edit.
        let is_newest = !is_told && through.is_some();
        let teller = is_newest.then_some(Teller::Batch);
        damaged.extend(named(manifest.damaged, Of::Manifest, teller));
        Some(Verdict {
            damaged,
            was_closed,
            opens,
        })
    }

    /// What has to come of an opening beside damaged log files, where the manifest can be read.
    fn judge_log(
        &self,
        disk: &MemoryStore,
        damaged: Vec<(String, Harm)>,
        opens: &mut Opens,
    ) -> Vec<Damaged> {
        if damaged.is_empty() {
            return Vec::new();
        }
        let (files, sealed) = (log_files(disk), self.sealed_on(disk));
        let images = files.iter().filter_map(|file| file.begun.clone());
        let images: Vec<LogImage> = images.collect();
        let judge = |(name, harm): (String, Harm)| {
            let missed = match harm {
                Harm::Gone => missed(&files, &name, sealed),
                _ if is_needed(&images, &name, harm, sealed) => Missed::Maybe,
                _ => Missed::No,
            };
            *opens = (*opens).max(match missed {
                Missed::No => Opens::Yes,
                Missed::By(_) => Opens::No,
                Missed::Maybe | Missed::Untold => Opens::Maybe,
            });
            Damaged {
                name,
                of: Of::Log,
                harm,
                teller: match missed {
                    Missed::By(teller) => Some(teller),
                    Missed::No | Missed::Maybe | Missed::Untold => None,
                },
            }
        };
        damaged.into_iter().map(judge).collect()
    }

    /// The database was opened.
    ///
    /// # Errors
    /// What is wrong with that.
    pub(crate) fn opened(&self, verdict: &Verdict) -> Result<(), String> {
        let Verdict {
            damaged,
            was_closed,
            opens,
        } = verdict;
        if *opens == Opens::No {
            return Err(format!(
                "the database is opened, though nothing tells what {damaged:?} told"
            ));
        }
        for damaged in damaged {
            self.world.meet(match (damaged.of, damaged.is_gone()) {
                (Of::Log, false) => Mark::OpenedBesideLog,
                (Of::Log, true) => Mark::OpenedWithoutLog,
                (_, false) => Mark::OpenedBesideManifest,
                (_, true) => Mark::OpenedWithoutManifest,
            });
        }
        if *was_closed {
            self.world.meet(Mark::OpenedTwiceTold);
        }
        Ok(())
    }

    /// The database was not opened: whether a damaged file is why. Then somebody restores it.
    ///
    /// # Errors
    /// What is wrong with that.
    pub(crate) fn refused(&self, verdict: &Verdict, error: &Error) -> Result<bool, String> {
        let text = format!("{error:?}");
        let mut damaged = verdict.damaged.iter();
        let named = damaged.find(|damaged| text.contains(damaged.name.as_str()));
        let Some(damaged) = named.filter(|_| error.kind() == ErrorKind::Corrupt) else {
            return Ok(false);
        };
        let name = &damaged.name;
        let needs = match damaged.of {
            Of::Log => verdict.opens != Opens::Yes,
            _ => verdict.opens == Opens::No,
        };
        if !needs {
            return Err(format!(
                "the database is not opened for {name}, which it does not need: {error:?}"
            ));
        }
        let is_gone = damaged.is_gone();
        self.world.meet(match (damaged.of, damaged.teller) {
            (Of::Log, Some(Teller::Next)) => Mark::GoneToldByNext,
            (Of::Log, Some(_)) => Mark::GoneToldByReady,
            (Of::Log, None) => Mark::OpenWithoutLog,
            (_, Some(_)) if is_gone => Mark::GoneToldByBatch,
            (_, None) if is_gone => Mark::GoneInMiddle,
            (_, _) => Mark::OpenWithoutEdit,
        });
        self.wounds.restore(name, self.world.now());
        Ok(true)
    }
}

/// These files, as they are damaged.
fn named(damaged: Vec<(String, Harm)>, of: Of, teller: Option<Teller>) -> Vec<Damaged> {
    let named = |(name, harm)| Damaged {
        name,
        of,
        harm,
        teller,
    };
    damaged.into_iter().map(named).collect()
}

/// Whether it is certain what an opening does that lacks the files of the manifest which are gone.
fn is_edit_missed(disk: &MemoryStore, manifest: &Folder, log: &Folder, was_closed: bool) -> bool {
    let Folder { files, damaged } = manifest;
    let newest = newest_of(files);
    let is_alone = damaged.len() == 1;
    match told_through(files, damaged) {
        Some(through) if through == newest => true,
        // What was closed has to be opened.
        _ if was_closed && is_alone => true,
        // The newest edit is gone, and what tells of it may be damaged, too.
        Some(_) => is_alone && log.damaged.is_empty() && names_edit(&log_files(disk), newest),
        // Of a checkpoint the error would not know the name.
        None => {
            let mut kinds = damaged.iter().map(|(name, _)| FileKind::of_name(name));
            is_alone && kinds.all(|of| matches!(of, Some((FileKind::Edit, _))))
        }
    }
}

/// What was read beside a damaged log.
#[derive(Default)]
pub(crate) struct Beside {
    read: Vec<Read>,
    /// Whether any table was refused.
    is_any_lost: bool,
    /// Whether a log file was gone as a whole.
    is_gone: bool,
}

/// What was read of a table.
struct Read {
    table: usize,
    since: Duration,
    snapshot: Snapshot,
    rows: Vec<RecordBatch>,
}

/// What a database shows whose log is damaged: each table is as it was, or refused by name for
/// SCUs whose log it needs. Then the log is restored, and must give its rows back.
pub(crate) async fn read_beside_damage(life: &Life) -> Answer<Beside> {
    let logs = life.run.wounds.of(Of::Log);
    if logs.is_empty() {
        return Ok(Beside::default());
    }
    let manifest = life.instance.manifest();
    let needed = needed_of(&manifest, &logs);
    let mut beside = Beside {
        is_gone: logs.iter().any(|(_, harm)| *harm == Harm::Gone),
        ..Beside::default()
    };
    for table in 0..life.run.story.tables.len() {
        let since = life.world().now();
        match read_one(life, table).await {
            Ok((snapshot, rows)) => beside.read.push(Read {
                table,
                since,
                snapshot,
                rows,
            }),
            Err(error) => {
                life.world()
                    .note("lost", table as u64, 0, || error.to_string());
                if !names_segment(life, &error) {
                    check_refusal(life, table, &needed, &error)?;
                    beside.is_any_lost = true;
                }
            }
        }
    }
    let now = life.world().now();
    for (name, _) in &logs {
        life.run.wounds.restore(name, now);
    }
    let report = life.instance.verify(&|_| {}).await;
    let report = report.map_err(|error| format!("a verification of restored files: {error:?}"))?;
    let mut left = report.problems.iter().chain(&report.healable);
    let of_log = |line: &&String| {
        let is_of_log = |(name, _): &(String, Harm)| line.contains(name.as_str());
        line.contains("lost/") || logs.iter().any(is_of_log)
    };
    if let Some(line) = left.find(of_log) {
        return Err(format!("a log was restored, and is still said to be damaged: {line}").into());
    }
    if beside.is_any_lost {
        life.world().meet(Mark::LogLost);
    }
    Ok(beside)
}

/// The tables that need damaged logs: with rows in SCUs that are not sorted.
fn needed_of(manifest: &Manifest, logs: &[(String, Harm)]) -> BTreeSet<TableId> {
    let is_damaged = |file: &String| logs.iter().any(|(name, _)| name == file);
    let unsorted = manifest.scus.range(manifest.sorted_through.next()..);
    let damaged = unsorted.filter(|(_, entry)| {
        let pieces = entry.log.iter().map(|piece| &piece.file);
        pieces.chain(&entry.files).any(is_damaged)
    });
    let tables = damaged.flat_map(|(_, entry)| entry.tables.keys());
    tables.copied().collect()
}

async fn read_one(life: &Life, table: usize) -> Result<(Snapshot, Vec<RecordBatch>), Error> {
    let known = life.known(table);
    let request = SnapshotRequest {
        freshness: Freshness::ZERO,
        tables: Some(ids_of(life, &[table])),
        owner: "beside damage".to_owned(),
        ..SnapshotRequest::default()
    };
    let snapshot = life.instance.snapshot(request).await?;
    let all = (0..known.version.columns().len()).collect();
    let plan = snapshot
        .plan_scan(scan_request(known.table.id, all))
        .await?;
    let rows = life.rows(&plan).await?;
    Ok((snapshot, rows))
}

/// Whether an error names a file of rows that was damaged for good, besides.
fn names_segment(life: &Life, error: &Error) -> bool {
    let named = life.run.wounds.named(&format!("{error:?}"));
    named.iter().any(|(_, of)| matches!(of, Of::View(_)))
}

/// A table is refused for the log of SCUs that it has rows in, and the error says all that. Tables
/// with ID keys wait for all of the log: nothing else tells which number a key has.
fn check_refusal(
    life: &Life,
    table: usize,
    needed: &BTreeSet<TableId>,
    error: &Error,
) -> Result<(), String> {
    let draw = &life.run.story.tables[table];
    let has_ids = draw
        .columns
        .iter()
        .any(|column| column.kind.owner().is_some());
    let needs = has_ids || needed.contains(&life.known(table).table.id);
    let text = format!("{} {}", error.message(), error.detail().unwrap_or_default());
    let names_place = text.contains(&format!("{:?}", draw.name)) && text.contains("SCU");
    let is_named = error.kind() == ErrorKind::Corrupt
        && life.run.wounds.are_named_now(&text)
        && (has_ids || names_place);
    match needs && is_named {
        true => Ok(()),
        false => Err(format!(
            "table {:?} is refused beside a damaged log, which it needs: {needs}; the error \
             names what is lost: {is_named}: {error:?}",
            draw.name
        )),
    }
}

/// What was read beside the damage is right. The log was restored, and all batches are known.
pub(crate) async fn compare_read_beside(life: &Life, beside: &Beside) -> Answer<()> {
    for read in &beside.read {
        let Read {
            table,
            since,
            snapshot,
            rows,
        } = read;
        life.know(snapshot).await?;
        compare_read(life, snapshot, *table, rows, *since).await?;
    }
    if beside.is_any_lost {
        life.world().meet(Mark::LogRestored);
    }
    if beside.is_any_lost && beside.is_gone {
        life.world().meet(Mark::GoneLogBack);
    }
    Ok(())
}

/// The damaged files of the manifest that are still on the disk, and those that are gone and that
/// others don't stand for.
pub(crate) fn unreplaced(life: &Life) -> Vec<String> {
    let known = life.instance.manifest().number;
    let disk = life.store.disk();
    let Folder { files, damaged } = life.run.folder(disk, "manifest/", Of::Manifest);
    let is_told = told_through(&files, &damaged) >= Some(known);
    let left = damaged.into_iter();
    let left = left.filter(|(_, harm)| *harm != Harm::Gone || !is_told);
    left.map(|(name, _)| name).collect()
}

/// A verification has damaged files of the manifest replaced: what they say is in memory.
///
/// # Errors
/// The files that are left.
pub(crate) fn check_replaced(life: &Life, before: &[String]) -> Result<(), Trouble> {
    let left = unreplaced(life);
    if left.is_empty() && !before.is_empty() {
        let mut gone = before.iter().filter(|name| life.run.wounds.is_gone(name));
        life.world().meet(match gone.next() {
            Some(_) => Mark::GoneReplaced,
            None => Mark::ManifestReplaced,
        });
    }
    match left.is_empty() {
        true => Ok(()),
        false => Err(Trouble::Wrong(format!(
            "{left:?} are damaged, and not replaced by a verification"
        ))),
    }
}

#[cfg(test)]
mod tests;
