//! Recovery: what the log says after a crash.
//!
//! Reads log files and the manifest's SCU entries; writes at most one small log file. Invariant
//! REC-1: every acknowledged batch is back, whole, once, at its SCU and position; every other
//! batch is back whole or not at all. Invariant REC-2: nothing is published before it is durable,
//! whatever the operating system still held in memory when the process died.
//!
//! 1. The headers of the log's files form a chain: each says where the file before it ends. What
//!    lies behind that end, and files that the chain leaves out, never count. Every byte before an
//!    end was durable when the next file began: a bad frame there is damage.
//! 2. In the last file the end is not written anywhere. Each frame says how much of the file was
//!    durable before it: a bad frame before that point is damage; so is one that a single flipped
//!    bit explains. Any other bad frame is where a crash cut the last group short, and the log ends
//!    there.
//! 3. Batches whose commit frames stand in SCUs after the manifest's last are sealed under their
//!    own numbers, but for a batch that came with DDL and is not in the manifest: the power went
//!    before its transaction was committed, or the transaction was given up. Those of the last
//!    group, which may not be on the disk yet, are copied to a fresh file first; that file's
//!    header, written when the copies are durable, ends the old one.
//!
//! 4. What is gone as a whole shows in what is left: a file that was made ready says which one was
//!    being written then, each frame of which SCU a batch stands before its file, and each commit
//!    frame names the newest manifest that was durable.
//!
//! The fact behind 2, against a simpler rule ("a bad frame with a good one after it is damage"): a
//! group is several pages, and a crash of the machine may keep the later ones and lose the earlier.

mod keep;
mod relocate;
mod scan;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lazybase_model::{Error, Result, ScuNumber, TableId};

use super::SET_ASIDE;
use super::Sealed;
use super::accepted::{UnsortedScu, accept_commit};
use super::files::LogStart;
use super::frame::commit::Commit;
use super::frame::{
    FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FileHeader, FrameHeader, FrameKind, FramePlace,
    HeaderState, LOG_FOLDER, LogEnd, ReadyHeader, at, damaged, log_name, log_number, read_again,
    read_frame,
};
use crate::env::planted::{Planted, is_planted};
use crate::env::{Env, Store, StoreError};
use crate::manifest::file::FileKind;
use crate::manifest::state::{Manifest, ProducerMark, ScuEntry};
use scan::{FileScan, scan_file};

pub use keep::{KeptFrames, NumberedBatch, keep_whole_frames, newest_table, numbered_batches};

/// What recovery found.
#[derive(Debug)]
pub struct Recovered {
    /// SCUs that the manifest does not have yet, in order: sealed now, under their own numbers.
    pub sealed: Vec<Sealed>,
    /// Where the log goes on.
    pub log: LogStart,
}

/// A batch whose commit frame counts.
#[derive(Debug)]
pub(super) struct FoundCommit {
    pub(super) scu: ScuNumber,
    pub(super) batch: u64,
    pub(super) place: FramePlace,
    pub(super) commit: Commit,
}

/// Reads the log behind the manifest's last sealed SCU.
///
/// # Errors
/// `Corrupt`, naming file and offset, when acknowledged batches are damaged or missing.
pub async fn recover(env: &Env, manifest: &Manifest) -> Result<Recovered> {
    let listed = list_log(&*env.store).await?;
    let (scans, mut commits) = read_log(&*env.store, manifest, &listed).await?;
    let mut claims = BTreeMap::new();
    let mut begun = BTreeSet::new();
    for file in &listed {
        let ready = ready_header(&*env.store, *file).await;
        claims.extend(ready.map(|ready| (file.0, ready.begun)));
        if ready.is_none() && may_be_begun(&*env.store, *file).await {
            begun.insert(file.0);
        }
    }
    let mut log = LogStart {
        next_number: next_number(&*env.store, manifest, &listed).await?,
        previous: scans.last().map(FileScan::durable_end),
        files: listed,
        claims,
        begun,
    };
    let sealed_through = manifest.sealed_through;
    relocate::relocate(env, &mut log, &mut commits, sealed_through).await?;
    Ok(Recovered {
        sealed: seal_found(manifest, commits),
        log,
    })
}

/// The stored rows of the batches that the log holds behind the manifest's last sealed SCU. Writes
/// nothing.
///
/// # Errors
/// As [`recover`].
pub async fn examine(
    store: &dyn Store,
    manifest: &Manifest,
) -> Result<BTreeMap<(ScuNumber, TableId), u64>> {
    let listed = list_log(store).await?;
    let (_, commits) = read_log(store, manifest, &listed).await?;
    let mut rows = BTreeMap::new();
    for found in &commits {
        for part in &found.commit.parts {
            *rows.entry((found.scu, part.table)).or_default() += part.rows;
        }
    }
    Ok(rows)
}

/// The files of the log, and the batches behind the manifest's last sealed SCU.
async fn read_log(
    store: &dyn Store,
    manifest: &Manifest,
    listed: &[(u64, u64)],
) -> Result<(Vec<FileScan>, Vec<FoundCommit>)> {
    let misses = !is_planted(Planted::MissingIsEmpty);
    if misses {
        check_begun(store, listed).await?;
    }
    let chain = read_chain(store, manifest, listed).await?;
    let mut scans = Vec::new();
    for file in &chain.files {
        scans.push(scan_file(store, manifest, file).await?);
    }
    check_manifest(manifest, &scans)?;
    let mut commits = Vec::new();
    for scan in &mut scans {
        commits.append(&mut scan.commits);
    }
    if let Some(gap) = chain.gap.filter(|_| misses) {
        let before = scans.first().and_then(|scan| scan.before);
        check_gap(store, manifest, listed, gap, (before, commits.first())).await?;
    }
    check_order(manifest, &commits)?;
    check_ddl_batch(manifest, &scans, &commits)?;
    check_definitions(manifest, &commits)?;
    check_parts(store, manifest, &scans, &commits).await?;
    Ok((scans, commits))
}

/// Numbers and lengths of all log files.
async fn list_log(store: &dyn Store) -> Result<Vec<(u64, u64)>> {
    let listed = store.list(LOG_FOLDER).await?;
    let file = |(name, bytes): &(String, u64)| log_number(name).map(|number| (number, *bytes));
    Ok(listed.iter().filter_map(file).collect())
}

/// Above the number of every log file that there is, that was set aside, or that an SCU names.
async fn next_number(store: &dyn Store, manifest: &Manifest, listed: &[(u64, u64)]) -> Result<u64> {
    let mut newest = listed.last().map_or(0, |(number, _)| *number);
    for (name, _) in store.list(SET_ASIDE).await? {
        let name = name.trim_start_matches(SET_ASIDE).trim_end_matches(".kept");
        newest = newest.max(log_number(name).unwrap_or(0));
    }
    for entry in manifest.scus.values() {
        let pieces = entry.log.iter().map(|piece| &piece.file);
        for name in pieces.chain(&entry.files) {
            newest = newest.max(log_number(name).unwrap_or(0));
        }
    }
    Ok(newest + 1)
}

/// The header of a file that is ready and not begun, if it has one that can be read.
async fn ready_header(store: &dyn Store, (number, bytes): (u64, u64)) -> Option<ReadyHeader> {
    if bytes < FILE_HEADER_BYTES {
        return None;
    }
    let first = store.read(&log_name(number), 0..FILE_HEADER_BYTES).await;
    ReadyHeader::decode(&first.ok()?, number)
}

/// Whether a file may have a header that is its own: none that is known to be absent.
async fn may_be_begun(store: &dyn Store, (number, bytes): (u64, u64)) -> bool {
    if bytes < FILE_HEADER_BYTES {
        return true;
    }
    match store.read(&log_name(number), 0..FILE_HEADER_BYTES).await {
        Ok(first) => FileHeader::decode(&first, number) != HeaderState::Absent,
        Err(_) => true,
    }
}

/// A file of which a part can't be read.
fn unreadable(name: &str, error: StoreError) -> Error {
    Error::from(error).with_file(name)
}

/// Checks that the file is there, and as long as it was made, which was being written when the
/// newest one was made ready (LOG-7).
async fn check_begun(store: &dyn Store, listed: &[(u64, u64)]) -> Result<()> {
    let mut newest = listed.last().copied();
    while let Some(file) = newest {
        let Some(ready) = ready_header(store, file).await else {
            return Ok(());
        };
        let name = log_name(ready.begun);
        let because = format!(
            "{} was made ready while it was being written",
            log_name(file.0)
        );
        newest = listed
            .iter()
            .find(|(number, _)| *number == ready.begun)
            .copied();
        match newest {
            None => {
                return Err(damaged(&name, 0, "the file is missing").with_detail(because));
            }
            Some((_, bytes)) if bytes < ready.begun_bytes => {
                let what = "the file is shorter than it was";
                return Err(damaged(&name, bytes, what).with_detail(because));
            }
            // Each step goes to a lower number.
            Some((begun, _)) if begun >= file.0 => return Ok(()),
            Some(_) => {}
        }
    }
    Ok(())
}

/// Checks that the manifest is not older than one that a batch was written under.
fn check_manifest(manifest: &Manifest, scans: &[FileScan]) -> Result<()> {
    let newest = scans.iter().max_by_key(|scan| scan.manifest);
    match newest.filter(|scan| scan.manifest > manifest.number) {
        None => Ok(()),
        Some(scan) => {
            let missing = FileKind::Edit.file_name(scan.manifest);
            Err(Error::corrupt(format!("{missing}: the file is missing"))
                .with_file(&missing)
                .with_detail(format!(
                    "{} holds a batch that was written after it; the manifest's files end with \
                     number {}",
                    log_name(scan.header.number),
                    manifest.number
                ))
                .with_hint("restore the file, or a backup"))
        }
    }
}

/// A file of the chain that may hold batches of SCUs after the manifest's last.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChainFile {
    pub(super) header: FileHeader,
    pub(super) bytes: u64,
    /// Where the file ends, if the next one's header says so.
    pub(super) end: Option<u64>,
}

/// The files whose batches may count, the oldest first.
struct Chain {
    files: Vec<ChainFile>,
    gap: Option<Gap>,
}

/// Before the chain's oldest file one is named that is not there as it was: it is gone because
/// nothing of it was needed any more, or it is lost.
#[derive(Debug, Clone, Copy)]
struct Gap {
    number: u64,
    named_by: u64,
    what: &'static str,
}

/// Walks the chain of headers back from the newest, as far as SCUs are not in the manifest.
async fn read_chain(
    store: &dyn Store,
    manifest: &Manifest,
    listed: &[(u64, u64)],
) -> Result<Chain> {
    let mut files: Vec<ChainFile> = Vec::new();
    let mut expected: Option<LogEnd> = None;
    let mut what = "the file is missing";
    for (number, bytes) in listed.iter().rev() {
        if expected.is_some_and(|expected| *number > expected.number) {
            continue;
        }
        if expected.is_some_and(|expected| *number < expected.number) {
            break;
        }
        let header = read_header(store, manifest, (*number, *bytes), expected.is_some()).await?;
        let Some(header) = header else {
            match expected {
                None => continue,
                Some(_) => {
                    what = "the file has no header";
                    break;
                }
            }
        };
        if expected.is_some_and(|expected| expected.identity != header.identity) {
            what = "the file is another one than was written";
            break;
        }
        files.push(ChainFile {
            header,
            bytes: *bytes,
            end: expected.map(|expected| expected.end),
        });
        expected = header.previous;
        let first = first_frame(store, &header, *bytes).await?;
        if first.is_some_and(|first| first.scu <= manifest.sealed_through) {
            expected = None;
        }
        if expected.is_none() {
            break;
        }
    }
    let gap = expected.zip(files.last()).map(|(expected, file)| Gap {
        number: expected.number,
        named_by: file.header.number,
        what,
    });
    files.reverse();
    Ok(Chain { files, gap })
}

/// Checks that nothing is missing before the chain. Its oldest file says of which SCU a batch
/// stands `before` it: one that is not in the manifest is missing (LOG-10). Where it does not say,
/// batches that the chain holds would not begin with the first of an SCU, and a file before it
/// would hold frames of one that is not in the manifest: of batches that were dropped none are left
/// when a file after them goes (LOG-9).
async fn check_gap(
    store: &dyn Store,
    manifest: &Manifest,
    listed: &[(u64, u64)],
    gap: Gap,
    (before, first): (Option<ScuNumber>, Option<&FoundCommit>),
) -> Result<()> {
    let next = manifest.sealed_through.next();
    let missed = match (before, first) {
        (Some(before), _) => before >= next,
        (None, Some(found)) => found.scu != next || found.commit.position != 1,
        (None, None) => {
            let mut missed = false;
            for (number, bytes) in listed.iter().filter(|(number, _)| *number < gap.number) {
                let name = log_name(*number);
                let content = store.read(&name, 0..*bytes).await;
                let content = content.map_err(|error| unreadable(&name, error))?;
                missed |= scan::any_life(&content, *number).newest_scu >= next;
            }
            missed
        }
    };
    match missed {
        false => Ok(()),
        true => {
            let because = format!("{} begins where it ended", log_name(gap.named_by));
            Err(damaged(&log_name(gap.number), 0, gap.what).with_detail(because))
        }
    }
}

/// A file's header; `None` for a file that was made ready and never written, or whose first write
/// a crash cut short. `named` says that a later file's header names it.
async fn read_header(
    store: &dyn Store,
    manifest: &Manifest,
    (number, bytes): (u64, u64),
    named: bool,
) -> Result<Option<FileHeader>> {
    let name = log_name(number);
    if bytes < FILE_HEADER_BYTES {
        return Ok(None);
    }
    let first = store.read(&name, 0..FILE_HEADER_BYTES).await;
    let first = first.map_err(|error| unreadable(&name, error))?;
    match FileHeader::decode(&first, number) {
        HeaderState::Valid(header) => Ok(Some(header)),
        HeaderState::Absent => Ok(None),
        HeaderState::Newer(version) => Err(Error::corrupt(format!(
            "{name} has format version {version}: it was written by a newer version"
        ))
        .with_hint("open the database with that version")),
        HeaderState::Damaged => {
            let content = store.read(&name, 0..bytes).await;
            let content = content.map_err(|error| unreadable(&name, error))?;
            let lost = scan::any_life(&content, number);
            let needed = lost.newest_scu > manifest.sealed_through;
            let durable = named || lost.synced || FileHeader::is_one_bit_off(&first, number);
            match needed && durable {
                true => Err(damaged(&name, 0, "the file's header is damaged")),
                false => Ok(None),
            }
        }
    }
}

async fn first_frame(
    store: &dyn Store,
    header: &FileHeader,
    bytes: u64,
) -> Result<Option<FrameHeader>> {
    let end = FILE_HEADER_BYTES + FRAME_HEADER_BYTES as u64;
    if bytes < end {
        return Ok(None);
    }
    let name = log_name(header.number);
    let read = store.read(&name, FILE_HEADER_BYTES..end).await;
    let read = read.map_err(|error| unreadable(&name, error))?;
    let first = FrameHeader::decode(&read, header.number, FILE_HEADER_BYTES);
    Ok(first.filter(|first| first.identity == header.identity))
}

/// Checks that no batch is missing between the manifest's last SCU and the end of the log.
fn check_order(manifest: &Manifest, commits: &[FoundCommit]) -> Result<()> {
    let mut scu = manifest.sealed_through;
    let mut position = 0;
    for found in commits {
        if found.scu == scu.next() && found.commit.position == 1 {
            scu = found.scu;
            position = 0;
        }
        position += 1;
        if found.scu != scu || found.commit.position != position {
            let what = format!(
                "batch {} of SCU {} where batch {position} of SCU {scu} is expected: a part of \
                 the log is missing",
                found.commit.position, found.scu
            );
            return Err(damaged(&found.place.file_name(), found.place.offset, &what));
        }
    }
    Ok(())
}

/// Checks that the batch is there that the newest transaction with DDL committed.
fn check_ddl_batch(manifest: &Manifest, scans: &[FileScan], commits: &[FoundCommit]) -> Result<()> {
    let next = manifest.sealed_through.next();
    match manifest.ddl_batch.filter(|batch| batch.scu == next) {
        Some(batch)
            if commits.first().and_then(|found| found.commit.ddl_batch) != Some(batch.number) =>
        {
            // It is not known where it stood: the log ends there.
            let newest = scans.last();
            let file = newest.map_or(LOG_FOLDER.to_owned(), |scan| log_name(scan.header.number));
            Err(Error::corrupt(format!(
                "{file}: the log does not hold the first batch of SCU {next}, which a transaction \
                 committed"
            ))
            .with_file(file)
            .with_hint("`lazybase repair --dry-run` says what is whole and what is lost"))
        }
        _ => Ok(()),
    }
}

/// Checks that no batch was written under a definition of its table that the manifest does not
/// have: its edit is gone, and another definition may get the version that it had.
fn check_definitions(manifest: &Manifest, commits: &[FoundCommit]) -> Result<()> {
    for found in commits {
        for part in &found.commit.parts {
            let state = manifest.tables.get(&part.table);
            let Some(state) = state.filter(|state| part.version > state.table.version) else {
                continue;
            };
            let (name, place) = (&state.table.name, found.place);
            let what = format!(
                "a batch was written under version {} of table {name:?}, which the manifest does \
                 not have",
                part.version.0
            );
            return Err(damaged(&place.file_name(), place.offset, &what));
        }
    }
    Ok(())
}

/// Checks that every data frame that a batch names is there, whole.
async fn check_parts(
    store: &dyn Store,
    manifest: &Manifest,
    scans: &[FileScan],
    commits: &[FoundCommit],
) -> Result<()> {
    let scanned: BTreeMap<u64, &FileScan> = scans
        .iter()
        .map(|scan| (scan.header.identity, scan))
        .collect();
    for found in commits {
        for part in &found.commit.parts {
            let place = part.place;
            let good = match scanned.get(&place.identity) {
                Some(scan) => scan.data.get(&place.offset) == Some(&place.length),
                None => false,
            };
            if good {
                continue;
            }
            let context = |error: Error| {
                let table = manifest.table_name(part.table);
                error.within(format!("SCU {}, table {table:?}", found.scu))
            };
            let (header, _) = read_frame(store, place).await.map_err(context)?;
            if header.kind != FrameKind::Data || header.batch != found.batch {
                let name = place.file_name();
                let error = damaged(&name, place.offset, "the frame is of another batch");
                return Err(context(error));
            }
        }
    }
    Ok(())
}

/// The SCUs that these batches make.
fn seal_found(manifest: &Manifest, commits: Vec<FoundCommit>) -> Vec<Sealed> {
    let newest = manifest.times.values().next_back();
    let mut batches_before = newest.map_or(0, |time| time.batches_through);
    let mut last_ack = newest.map_or(i64::MIN, |time| time.last_ack_micros);
    let mut marks = manifest.producers.clone();
    let mut sealed = Vec::new();
    let mut commits = commits.into_iter().peekable();
    while let Some(first) = commits.peek() {
        let scu = first.scu;
        let mut producers = BTreeMap::new();
        let mut batches = Vec::new();
        while let Some(found) = commits.next_if(|found| found.scu == scu) {
            last_ack = last_ack.max(found.commit.ack_micros);
            if let Some(stamp) = &found.commit.producer {
                let known = marks.get(&stamp.name).map_or(0, |mark| mark.epoch);
                let mark = ProducerMark {
                    number: stamp.number,
                    content_hash: stamp.content_hash,
                    scu,
                    batches: found.commit.position,
                    epoch: stamp.epoch.max(known),
                };
                marks.insert(stamp.name.clone(), mark.clone());
                producers.insert(stamp.name.clone(), mark);
            }
            let none = std::iter::empty();
            batches.push(accept_commit(found.commit, found.place, last_ack, none));
        }
        let unsorted = UnsortedScu::open(scu);
        unsorted.publish(batches);
        unsorted.seal();
        let time = unsorted.time(batches_before);
        batches_before = time.batches_through;
        sealed.push(Sealed {
            entry: unsorted.entry(),
            time,
            producers,
            unsorted: Arc::new(unsorted),
        });
    }
    sealed
}

/// The batches of an SCU that the manifest has sealed and not sorted.
///
/// # Errors
/// `Corrupt`, naming file and offset, when its commit frames are damaged or missing.
pub async fn open_sealed(store: &dyn Store, entry: &ScuEntry) -> Result<Arc<UnsortedScu>> {
    let within = |error: Error| error.within(format!("SCU {}", entry.scu));
    let mut batches = Vec::new();
    let mut seen = BTreeSet::new();
    for piece in &entry.log {
        let number = log_number(&piece.file)
            .ok_or_else(|| Error::corrupt(format!("{:?} is no name of a log file", piece.file)))?;
        let mut offset = piece.start;
        while offset < piece.end {
            let header = header_at(store, number, piece.identity, offset)
                .await
                .map_err(within)?;
            let place = FramePlace {
                file: number,
                identity: piece.identity,
                offset,
                length: header.frame_length(),
            };
            offset = place.end();
            if header.kind != FrameKind::Commit || header.scu != entry.scu {
                continue;
            }
            let (header, payload) = read_frame(store, place).await.map_err(within)?;
            let commit = Commit::decode(&payload)
                .map_err(|error| within(at(error, &piece.file, place.offset)))?;
            if commit.ddl_batch.is_some() && commit.ddl_batch != entry.ddl_batch {
                continue;
            }
            if !seen.insert(header.batch) || commit.position as usize != seen.len() {
                let error = damaged(&piece.file, place.offset, "a batch stands out of order");
                return Err(within(error));
            }
            let ack_micros = commit.ack_micros;
            batches.push(accept_commit(commit, place, ack_micros, std::iter::empty()));
        }
    }
    if batches.len() != entry.batches as usize {
        let error = Error::corrupt(format!(
            "the log holds {} of its {} batches",
            batches.len(),
            entry.batches
        ));
        let file = entry.log.first().map_or("", |piece| piece.file.as_str());
        return Err(within(error.with_file(file)));
    }
    let unsorted = UnsortedScu::open(entry.scu);
    unsorted.publish(batches);
    unsorted.seal();
    Ok(Arc::new(unsorted))
}

async fn header_at(
    store: &dyn Store,
    number: u64,
    identity: u64,
    offset: u64,
) -> Result<FrameHeader> {
    let name = log_name(number);
    let end = offset + FRAME_HEADER_BYTES as u64;
    let bytes = match read_again(store, &name, offset..end).await {
        Ok(bytes) => bytes,
        Err(error) => return Err(damaged(&name, offset, &error.reason())),
    };
    FrameHeader::decode(&bytes, number, offset)
        .filter(|header| header.identity == identity)
        .ok_or_else(|| damaged(&name, offset, "there is no good frame header"))
}
