//! Damage for good of what tells of all else: log files, and files of the manifest. What another
//! file or a later stage tells too must be opened without it; what nothing else tells must be
//! refused by name.
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
//! durable, or the last bytes of a frame that are not zeros.

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

/// Whether a database is opened whose log or manifest is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opens {
    /// What is damaged is told by others, or nobody needs it.
    Yes,
    /// A log is damaged with what may have been acknowledged.
    Maybe,
    /// An edit is damaged that nothing else tells.
    No,
}

/// What has to come of an opening.
#[derive(Debug)]
pub(crate) struct Verdict {
    damaged: Vec<(String, Of)>,
    was_closed: bool,
    opens: Opens,
}

/// The files of a folder, with their lengths.
fn listed(disk: &MemoryStore, folder: &str) -> Vec<(String, u64)> {
    // A store in memory answers at once.
    let listed = disk.list(folder).now_or_never();
    listed.and_then(Result::ok).unwrap_or_default()
}

/// The log files that were begun.
fn log_images(disk: &MemoryStore) -> Vec<LogImage> {
    let image = |(name, length): (String, u64)| {
        let bytes = disk.read_now(&name, 0..length).ok()?;
        LogImage::of(&name, &bytes)
    };
    listed(disk, "log/").into_iter().filter_map(image).collect()
}

/// Damages a file, and says so.
fn strike(run: &Run, name: &str, harm: Harm, of: Of) {
    run.wounds.strike(name, harm, of);
    run.world.meet(match of {
        Of::Log => Mark::LogStruck,
        _ => match FileKind::of_name(name) {
            Some((FileKind::Edit, _)) => Mark::EditStruck,
            _ => Mark::CheckpointStruck,
        },
    });
    if let (Of::Log, Harm::Torn { .. }) = (of, harm) {
        run.world.meet(Mark::LogBytesTorn);
    }
    run.world
        .note("struck", 0, 0, || format!("{name}: {harm:?}"));
}

/// Damages a file of the manifest, none that is newer than `through`; its name.
pub(crate) fn strike_manifest(
    run: &Run,
    disk: &MemoryStore,
    dice: &mut Dice,
    through: u64,
) -> Option<String> {
    let mut files = listed(disk, "manifest/");
    files.retain(|(name, bytes)| {
        let known = FileKind::of_name(name);
        *bytes > 0 && known.is_some_and(|(_, number)| number <= through)
    });
    files.sort_by_key(|(name, _)| FileKind::of_name(name).map(|(_, number)| number));
    let newest = files.len().saturating_sub(NEWEST);
    let from = match dice.percent(60) {
        true => &files[newest..],
        false => &files[..],
    };
    if from.is_empty() {
        return None;
    }
    let (name, bytes) = dice.pick(from);
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

/// Damages a log file, most often with what is not sorted; its name. Nothing is torn while a crash
/// may take what tells that it was durable.
pub(crate) fn strike_log(
    run: &Run,
    disk: &MemoryStore,
    dice: &mut Dice,
    sorted_through: u64,
    tears: bool,
) -> Option<String> {
    let images = log_images(disk);
    let (name, harm) = draw_log_harm(dice, &images, sorted_through, tears)?;
    strike(run, &name, harm, Of::Log);
    Some(name)
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

/// Whether the files of the manifest that are whole tell all that there is: its newest checkpoint,
/// or the first edit, and all edits from there to the newest file.
fn is_told(files: &[(String, u64)], damaged: &[(String, Harm)]) -> bool {
    let is_whole = |name: &str| damaged.iter().all(|(other, _)| other != name);
    let (mut newest, mut checkpoint) = (0, 0);
    let mut edits = BTreeSet::new();
    for (name, _) in files {
        let Some((kind, number)) = FileKind::of_name(name) else {
            continue;
        };
        newest = newest.max(number);
        match (kind, is_whole(name)) {
            (FileKind::Edit, true) => {
                edits.insert(number);
            }
            (FileKind::Checkpoint, true) => checkpoint = checkpoint.max(number),
            (_, false) => {}
        }
    }
    (checkpoint + 1..=newest).all(|number| edits.contains(&number))
}

impl Run {
    /// Damages a file of the log or of the manifest of a database that nobody has open.
    pub(crate) fn strike_between(&self, disk: &MemoryStore, dice: &mut Dice) {
        match dice.percent(55) {
            true => {
                let manifest = self.manifest_on(disk);
                let sorted = manifest.map_or(0, |manifest| manifest.sorted_through.0);
                strike_log(self, disk, dice, sorted, true);
            }
            false => drop(strike_manifest(self, disk, dice, u64::MAX)),
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

    /// What has to come of an opening; nothing where neither log nor manifest is damaged.
    pub(crate) fn verdict(&self, disk: &MemoryStore) -> Option<Verdict> {
        let was_closed = std::mem::take(&mut *self.closed.lock());
        let there = |folder: &str, of: Of| {
            let files = listed(disk, folder);
            let mut damaged = self.wounds.of(of);
            damaged.retain(|(name, _)| files.iter().any(|(file, _)| file == name));
            (files, damaged)
        };
        let (_, logs) = there("log/", Of::Log);
        let (files, manifest) = there("manifest/", Of::Manifest);
        if logs.is_empty() && manifest.is_empty() {
            return None;
        }
        let is_twice = was_closed && manifest.len() == 1;
        let mut opens = match is_twice || is_told(&files, &manifest) {
            true => Opens::Yes,
            false => Opens::No,
        };
        if opens == Opens::Yes && !logs.is_empty() && !was_closed {
            let images = log_images(disk);
            let sealed = self.manifest_on(disk);
            let sealed = sealed.map_or(0, |manifest| manifest.sealed_through.0);
            let mut logs = logs.iter();
            if logs.any(|(name, harm)| is_needed(&images, name, *harm, sealed)) {
                opens = Opens::Maybe;
            }
        }
        let of = |damaged: Vec<(String, Harm)>, of| {
            let named = damaged.into_iter().map(move |(name, _)| (name, of));
            named.collect::<Vec<_>>()
        };
        let mut damaged = of(logs, Of::Log);
        damaged.extend(of(manifest, Of::Manifest));
        Some(Verdict {
            damaged,
            was_closed,
            opens,
        })
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
        for (_, of) in damaged {
            self.world.meet(match of {
                Of::Log => Mark::OpenedBesideLog,
                _ => Mark::OpenedBesideManifest,
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
        let named = damaged.find(|(name, _)| text.contains(name.as_str()));
        let Some((name, of)) = named.filter(|_| error.kind() == ErrorKind::Corrupt) else {
            return Ok(false);
        };
        let needs = match of {
            Of::Log => verdict.opens != Opens::Yes,
            _ => verdict.opens == Opens::No,
        };
        if !needs {
            return Err(format!(
                "the database is not opened for {name}, which it does not need: {error:?}"
            ));
        }
        self.world.meet(match of {
            Of::Log => Mark::OpenWithoutLog,
            _ => Mark::OpenWithoutEdit,
        });
        self.wounds.restore(name, self.world.now());
        Ok(true)
    }
}

/// What was read beside a damaged log.
#[derive(Default)]
pub(crate) struct Beside {
    read: Vec<Read>,
    /// Whether any table was refused.
    is_any_lost: bool,
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
    let mut beside = Beside::default();
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
    Ok(())
}

/// The damaged files of the manifest that are still on the disk.
pub(crate) fn unreplaced(life: &Life) -> Vec<String> {
    let files = listed(life.store.disk(), "manifest/");
    let damaged = life.run.wounds.of(Of::Manifest).into_iter();
    let there = damaged.filter(|(name, _)| files.iter().any(|(file, _)| file == name));
    there.map(|(name, _)| name).collect()
}

/// A verification has damaged files of the manifest replaced: what they say is in memory.
///
/// # Errors
/// The files that are left.
pub(crate) fn check_replaced(life: &Life, before: &[String]) -> Result<(), Trouble> {
    let left = unreplaced(life);
    if left.is_empty() && !before.is_empty() {
        life.world().meet(Mark::ManifestReplaced);
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
