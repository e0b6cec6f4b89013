//! The log's files: the one being written, the next one made ready, those to be used again.
//!
//! Reads and writes log files through the environment's store. Invariant LOG-3: a file's first
//! frame is written only when everything before it in the log is durable, and its header says
//! where the file before it ends. Invariant LOG-4: a file whose sync failed is never synced again
//! and never used again; a fresh one is begun, which the store may refuse to make durable, too (the
//! committer's `group` says when). Invariant LOG-5: files are begun in the order of their numbers.
//! Invariant LOG-6: no file goes that was begun after one that holds a batch which the manifest may
//! not have. Invariant LOG-7: a file of which another one's header says that it was being written
//! is there as long as that header is; so if it is not, somebody took it. Invariant LOG-8: each
//! file that may be there is the current one, the next one, closed, or in the pool: what could not
//! be made, too. Invariant LOG-9: a file that was begun goes, under another name or for good, only
//! while no older one is there with frames of the open SCU, so that these tell of a later loss.
//! Invariant LOG-10: the frames of a file say of which SCU a batch stands before it: while the
//! manifest may not have that one, the file before is there (LOG-6), or somebody took it.
//!
//! ```text
//!   U: frames of SCU 5   G: frames of SCU 5   F: begun behind G; no batch of SCU 5 was committed
//!
//!   U and F are there, G is not: G held the commit frames, and somebody took it
//!   F alone is there: U and G held frames of batches that were dropped, and went
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lazybase_model::ScuNumber;
use tokio::sync::{mpsc, oneshot};

use super::frame::{FILE_HEADER_BYTES, FileHeader, LogEnd, ReadyHeader, log_name};
use crate::env::{Env, LogFile, StoreError, StoreResult};

/// How many files that nothing needs are kept to be written again.
const POOL_FILES_MAX: usize = 4;

/// The number of a file on its way out: none is begun under it, and so none of its frames are read.
const LEAVING: u64 = 0;

/// The file that is being written.
pub(super) struct CurrentFile {
    pub(super) header: FileHeader,
    pub(super) header_written: bool,
    pub(super) file: Box<dyn LogFile>,
    pub(super) capacity: u64,
    /// Everything before this offset is durable; the next frame goes here.
    pub(super) end: u64,
    /// The newest SCU that a frame in it may name.
    pub(super) newest_scu: ScuNumber,
    /// The newest SCU of which a batch was acknowledged when the file was taken (LOG-10).
    pub(super) before: ScuNumber,
}

/// What of the log has to stay.
pub(super) struct Needs {
    /// Files with frames that may be read.
    pub(super) files: BTreeSet<u64>,
    /// From here on all stay: each file's header leads to the one before it (LOG-6).
    pub(super) chain_from: Option<u64>,
    /// The SCU that takes the next batch.
    pub(super) open_scu: ScuNumber,
}

impl Needs {
    fn has(&self, number: u64) -> bool {
        let in_chain = self.chain_from.is_some_and(|from| number >= from);
        in_chain || self.files.contains(&number)
    }
}

/// What became of making a file.
struct Made {
    /// It is ready to be written, or why not.
    file: StoreResult<Box<dyn LogFile>>,
    /// Whether a file of its number may be there.
    may_exist: bool,
    /// What became of the file that it was to be made of.
    recycled: Recycled,
}

/// What became of a file that another one was to be made of.
#[derive(Debug, Clone, Copy)]
enum Recycled {
    /// There was none.
    None,
    /// It is the other one now.
    Used(u64),
    /// It is there as before.
    Kept(u64),
    /// Nobody knows.
    Unknown(u64),
}

struct MakeFile {
    number: u64,
    bytes: u64,
    recycle: Option<u64>,
    /// What its header says until it is begun.
    ready: Option<ReadyHeader>,
    made: oneshot::Sender<Made>,
}

/// The next file.
struct Spare {
    number: u64,
    /// The file that it is made of.
    recycled: Option<u64>,
    making: Making,
}

/// How far the next file has come.
enum Making {
    /// It is being made.
    Asked(oneshot::Receiver<Made>),
    /// What became of it, which is noted.
    Noted(StoreResult<Box<dyn LogFile>>),
}

/// The log's files.
pub(super) struct LogFiles {
    env: Env,
    file_bytes: u64,
    next_number: u64,
    previous: Option<LogEnd>,
    pub(super) current: Option<CurrentFile>,
    /// The next file.
    spare: Option<Spare>,
    /// Files that were made ready, and the one that each says was being written then.
    claims: BTreeMap<u64, u64>,
    /// Of those, the ones that were deleted, or made into others: a power cut may bring them back,
    /// until the next file is durable.
    going: BTreeSet<u64>,
    maker: mpsc::UnboundedSender<MakeFile>,
    /// Closed files by number, with their bytes.
    closed: BTreeMap<u64, u64>,
    /// Files that may be written again.
    pool: BTreeSet<u64>,
    /// Files whose headers later ones may name.
    begun: BTreeSet<u64>,
    /// The SCU that takes the next batch, or one before it.
    open_scu: ScuNumber,
    /// Files that may be there with frames of the open SCU: the newest SCU of any frame in each.
    stamped: BTreeMap<u64, ScuNumber>,
    /// Files whose sync or write failed, or that may not be there: they are not used again (LOG-4).
    failed: BTreeSet<u64>,
    /// Whether the store failed to remove a file when files were collected last.
    pub(super) was_refused: bool,
    /// Whether the file before may hold frames behind its end that count until another file's
    /// header is durable.
    pub(super) end_in_doubt: bool,
}

/// Where a new writer goes on.
#[derive(Debug, Clone, Default)]
pub struct LogStart {
    /// The least number that no log file has had.
    pub(crate) next_number: u64,
    /// The end of the log so far.
    pub(crate) previous: Option<LogEnd>,
    /// All log files there are, with their bytes.
    pub(crate) files: Vec<(u64, u64)>,
    /// Files that are ready and not begun, and the one that each says was being written then.
    pub(crate) claims: BTreeMap<u64, u64>,
    /// Files that were begun, as far as is known: later headers may name them.
    pub(crate) begun: BTreeSet<u64>,
}

impl LogFiles {
    /// Goes on after `start`.
    pub(super) async fn open(
        env: &Env,
        file_bytes: u64,
        start: LogStart,
        needs: &Needs,
    ) -> LogFiles {
        // What was written before the SCU that is open now, or behind one that was reserved.
        let newest_scu = needs.open_scu.next();
        let numbers = start.files.iter().map(|(number, _)| *number);
        let stamped = numbers.filter(|number| *number != LEAVING);
        let stamped = stamped.map(|number| (number, newest_scu)).collect();
        let (maker, requests) = mpsc::unbounded_channel();
        env.spawner
            .spawn("lazybase-log", Box::pin(make_files(env.clone(), requests)));
        let mut files = LogFiles {
            env: env.clone(),
            file_bytes,
            next_number: start.next_number,
            previous: start.previous,
            current: None,
            spare: None,
            claims: start.claims,
            going: BTreeSet::new(),
            maker,
            closed: start.files.into_iter().collect(),
            pool: BTreeSet::new(),
            begun: start.begun,
            open_scu: needs.open_scu,
            stamped,
            failed: BTreeSet::new(),
            was_refused: false,
            end_in_doubt: false,
        };
        files.collect(needs).await;
        files.prepare_spare();
        files
    }

    /// The bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        let current = self.current.as_ref().map_or(0, |current| current.capacity);
        let unused = self.pool.len() as u64 + u64::from(self.spare.is_some());
        current + self.closed.values().sum::<u64>() + unused * self.file_bytes
    }

    /// Whether `bytes` more fit behind `pending` in the current file.
    pub(super) fn has_room(&self, pending: u64, bytes: u64) -> bool {
        self.current
            .as_ref()
            .is_some_and(|current| current.end + pending + bytes <= current.capacity)
    }

    /// Closes the current file, all of which is durable, and begins one with room for `bytes`;
    /// `before` is the newest SCU of which a batch was acknowledged.
    pub(super) async fn rotate(&mut self, bytes: u64, before: ScuNumber) -> StoreResult<()> {
        let needed = FILE_HEADER_BYTES + bytes;
        let capacity = match needed <= self.file_bytes {
            true => self.file_bytes,
            false => needed.next_multiple_of(4096),
        };
        let next = match needed <= self.file_bytes {
            true => self.next_file().await?,
            false => {
                self.set_spare_aside().await;
                self.make(capacity).await?
            }
        };
        self.close_current();
        let (number, file) = next;
        self.current = Some(CurrentFile {
            header: FileHeader {
                number,
                identity: self.env.random.next_u64().max(1),
                previous: self.previous,
                durable: FILE_HEADER_BYTES,
            },
            header_written: false,
            file,
            capacity,
            end: FILE_HEADER_BYTES,
            newest_scu: ScuNumber::ZERO,
            before,
        });
        self.prepare_spare();
        Ok(())
    }

    /// The current file's header is durable.
    pub(super) fn note_begun(&mut self) {
        if let Some(current) = &mut self.current {
            current.header_written = true;
            self.claims.remove(&current.header.number);
        }
        self.end_in_doubt = false;
    }

    /// Gives the current file up after a failure: what is not durable in it does not count once
    /// another file's header is.
    pub(super) fn abandon(&mut self) {
        if let Some(current) = &self.current {
            self.failed.insert(current.header.number);
            self.end_in_doubt = true;
        }
        self.close_current();
    }

    /// Waits until nothing writes to the log's folder any more; `in_manifest` says that no batch
    /// stands in the log alone. Then the manifest tells what the files hold: the next one says
    /// nothing of the one before it any more, and that one is cut behind its last frame. Where this
    /// fails all stays as after a crash. Of the files that nothing needs the next one alone stays:
    /// the next opening writes it.
    pub(super) async fn close(mut self, in_manifest: bool) {
        let spare = self.take_spare().await;
        if !in_manifest {
            return;
        }
        self.bound_pool(0).await;
        if let Some((number, mut file)) = spare
            && self.claims.contains_key(&number)
        {
            let no_header = [0; FILE_HEADER_BYTES as usize];
            if file.write_at(0, &no_header).await.is_err() || file.sync().await.is_err() {
                return;
            }
            self.claims.remove(&number);
        }
        if let Some(current) = self.current.take()
            && current.header_written
            && !self.is_claimed(current.header.number)
        {
            // A file that keeps its length is one that takes more room than it needs.
            let _ = current.file.cut(current.end).await;
        }
    }

    /// Whether a header may be there that says that the file is, at its full length (LOG-7).
    fn is_claimed(&self, number: u64) -> bool {
        self.claims.values().any(|claimed| *claimed == number)
    }

    fn close_current(&mut self) {
        let Some(current) = self.current.take() else {
            return;
        };
        let header = current.header;
        self.closed.insert(header.number, current.capacity);
        if current.newest_scu > ScuNumber::ZERO {
            self.stamped.insert(header.number, current.newest_scu);
        }
        if current.header_written {
            self.begun.insert(header.number);
            self.previous = Some(LogEnd {
                number: header.number,
                identity: header.identity,
                end: current.end,
            });
        }
    }

    /// Has the next file made beside the writing of this one.
    fn prepare_spare(&mut self) {
        if self.spare.is_some() {
            return;
        }
        let (made, receiver) = oneshot::channel();
        let number = self.take_number();
        let ready = self.current.as_ref().map(|current| ReadyHeader {
            number,
            begun: current.header.number,
            begun_bytes: current.capacity,
        });
        let request = MakeFile {
            number,
            bytes: self.file_bytes,
            recycle: self.take_pooled(),
            ready,
            made,
        };
        let recycled = request.recycle;
        if self.maker.send(request).is_ok() {
            // It may be there from now on.
            self.claims.extend(ready.map(|ready| (number, ready.begun)));
            self.spare = Some(Spare {
                number,
                recycled,
                making: Making::Asked(receiver),
            });
        } else {
            self.pool.extend(recycled);
        }
    }

    async fn next_file(&mut self) -> StoreResult<(u64, Box<dyn LogFile>)> {
        if let Some(made) = self.take_spare().await {
            return Ok(made);
        }
        self.make(self.file_bytes).await
    }

    /// The file that was made ready, if it was.
    async fn take_spare(&mut self) -> Option<(u64, Box<dyn LogFile>)> {
        let Spare {
            number,
            recycled,
            making,
        } = self.spare.take()?;
        let file = match making {
            Making::Noted(file) => file,
            Making::Asked(made) => {
                let made = made.await.unwrap_or_else(|_| Made {
                    file: Err(StoreError::Maybe {
                        name: log_name(number),
                        reason: "it was being made when the maker ended".to_owned(),
                    }),
                    may_exist: true,
                    recycled: recycled.map_or(Recycled::None, Recycled::Unknown),
                });
                self.note_made(number, self.file_bytes, made)
            }
        };
        file.ok().map(|file| (number, file))
    }

    /// Notes what became of the next file, if that is known: the one that it was made of keeps no
    /// others any more.
    fn note_spare(&mut self) {
        let Some(Spare { number, making, .. }) = &mut self.spare else {
            return;
        };
        let Making::Asked(asked) = making else {
            return;
        };
        let (number, made) = (*number, asked.try_recv());
        if let Ok(made) = made {
            let file = self.note_made(number, self.file_bytes, made);
            self.spare = Some(Spare {
                number,
                recycled: None,
                making: Making::Noted(file),
            });
        }
    }

    /// Where a file that was to be made is, and the one that it was to be made of (LOG-8).
    fn note_made(&mut self, number: u64, bytes: u64, made: Made) -> StoreResult<Box<dyn LogFile>> {
        match made.recycled {
            Recycled::None => {}
            Recycled::Used(old) => drop(self.going.insert(old)),
            Recycled::Kept(old) => drop(self.pool.insert(old)),
            Recycled::Unknown(old) => self.distrust(old, self.file_bytes),
        }
        match (&made.file, made.may_exist) {
            (Ok(_), _) => self.forget_gone(),
            // Its header may be there, and with it what that says.
            (Err(_), true) => self.distrust(number, bytes),
            (Err(_), false) => drop(self.claims.remove(&number)),
        }
        made.file
    }

    /// A file that may be there goes with the next collection.
    fn distrust(&mut self, number: u64, bytes: u64) {
        self.failed.insert(number);
        self.closed.insert(number, bytes);
    }

    /// Gives up the file that was made ready, because one with a higher number is begun first:
    /// recovery takes the highest number that was begun for the log's end (LOG-5).
    async fn set_spare_aside(&mut self) {
        if let Some((number, _)) = self.take_spare().await {
            self.closed.insert(number, self.file_bytes);
        }
    }

    async fn make(&mut self, bytes: u64) -> StoreResult<(u64, Box<dyn LogFile>)> {
        let number = self.take_number();
        let recycle = match bytes == self.file_bytes {
            true => self.take_pooled(),
            false => None,
        };
        let made = make_file(&self.env, number, bytes, recycle, None).await;
        let file = self.note_made(number, bytes, made)?;
        Ok((number, file))
    }

    /// A file has become durable: what was deleted before it, and what it was made of, stays away.
    fn forget_gone(&mut self) {
        for number in std::mem::take(&mut self.going) {
            self.claims.remove(&number);
            self.begun.remove(&number);
            self.stamped.remove(&number);
        }
    }

    fn take_number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }

    /// Whether a file may go now, as far as others are concerned (LOG-9).
    fn may_go(&self, number: u64) -> bool {
        let mut older = self.stamped.range(..number);
        !self.begun.contains(&number) || older.all(|(_, newest)| *newest < self.open_scu)
    }

    /// Whether more files wait to be written again than are kept for that: those of a dropped batch
    /// behind frames of the open SCU go when that is sealed.
    pub(super) fn are_held_back(&self) -> bool {
        self.pool.len() > POOL_FILES_MAX
    }

    /// The oldest file of the pool that may get another name.
    fn take_pooled(&mut self) -> Option<u64> {
        let mut pooled = self.pool.iter().copied();
        let oldest = pooled.find(|number| self.may_go(*number))?;
        self.pool.remove(&oldest);
        Some(oldest)
    }

    /// Keeps closed files that are not needed for later, or removes them, the oldest first.
    pub(super) async fn collect(&mut self, needs: &Needs) {
        let open_scu = needs.open_scu;
        self.open_scu = open_scu;
        self.was_refused = false;
        self.note_spare();
        self.stamped.retain(|_, newest| *newest >= open_scu);
        let closed = self.closed.iter().map(|(number, bytes)| (*number, *bytes));
        let unneeded: BTreeMap<u64, u64> =
            closed.filter(|(number, _)| !needs.has(*number)).collect();
        self.remove_claims(&unneeded).await;
        let mut unusable = Vec::new();
        for (number, bytes) in unneeded {
            if !self.closed.contains_key(&number) || self.is_claimed(number) {
                continue;
            }
            let usable = bytes == self.file_bytes && !self.failed.contains(&number);
            if usable && number != LEAVING {
                self.closed.remove(&number);
                self.pool.insert(number);
                continue;
            }
            // One that was cut takes little room: it waits until those before it are used again.
            if bytes >= self.file_bytes {
                self.empty_pool_before(number).await;
            }
            unusable.push((number, bytes));
        }
        // Those of both kinds wait for each other. What is left is tried again the next time.
        self.bound_pool(POOL_FILES_MAX).await;
        while self.remove_unusable(&mut unusable).await {
            self.bound_pool(POOL_FILES_MAX).await;
        }
    }

    /// Removes files that can't be written again, the oldest first; whether any of them went.
    async fn remove_unusable(&mut self, unusable: &mut Vec<(u64, u64)>) -> bool {
        let mut some_went = false;
        for (number, bytes) in std::mem::take(unusable) {
            if self.remove(number, bytes).await {
                self.closed.remove(&number);
                some_went = true;
            } else {
                unusable.push((number, bytes));
            }
        }
        some_went
    }

    /// Removes files that were made ready and keep one that is to go, and so all after it: the
    /// newest first, for one that was taken and never begun is itself kept by the next (LOG-7).
    async fn remove_claims(&mut self, unneeded: &BTreeMap<u64, u64>) {
        let free = |ready: &u64| self.pool.contains(ready) || unneeded.contains_key(ready);
        let keeps = |begun: &u64| unneeded.contains_key(begun) && self.stamped.contains_key(begun);
        let claims = self.claims.iter().rev();
        let in_the_way = claims.filter(|&(ready, begun)| free(ready) && keeps(begun));
        let in_the_way: Vec<u64> = in_the_way.map(|(ready, _)| *ready).collect();
        let file_bytes = self.file_bytes;
        for ready in in_the_way {
            if !self.is_claimed(ready) && self.remove(ready, file_bytes).await {
                self.closed.remove(&ready);
                self.pool.remove(&ready);
            }
        }
    }

    /// Removes files of the pool that hold frames of the open SCU and have to go before `number`.
    async fn empty_pool_before(&mut self, number: u64) {
        let file_bytes = self.file_bytes;
        loop {
            let mut older = self.pool.range(..number).copied();
            let Some(oldest) = older.find(|older| self.stamped.contains_key(older)) else {
                return;
            };
            if !self.remove(oldest, file_bytes).await {
                return;
            }
            self.pool.remove(&oldest);
        }
    }

    /// Removes the oldest files of a pool that has more than `files_max`.
    async fn bound_pool(&mut self, files_max: usize) {
        let file_bytes = self.file_bytes;
        while self.pool.len() > files_max {
            let mut pooled = self.pool.iter().copied();
            let Some(oldest) = pooled.find(|number| self.may_go(*number)) else {
                return;
            };
            if !self.remove(oldest, file_bytes).await {
                return;
            }
            self.pool.remove(&oldest);
        }
    }

    /// Removes a file that nothing needs, if it may go now; whether it is gone.
    async fn remove(&mut self, number: u64, bytes: u64) -> bool {
        if !self.may_go(number) {
            return false;
        }
        let store = Arc::clone(&self.env.store);
        let (name, leaving) = (log_name(number), log_name(LEAVING));
        let stamped = |number: &u64| self.stamped.contains_key(number);
        let is_awaited = stamped(&number) || self.claims.get(&number).is_some_and(stamped);
        if !is_awaited {
            let removed = store.delete(&name).await.is_ok();
            match removed {
                true => drop(self.going.insert(number)),
                false => self.was_refused = true,
            }
            return removed;
        }
        // A power cut may take a removal back, and none that came after it. A new name is durable
        // at once: what others wait for is gone for good, and they may follow.
        if store.delete(&leaving).await.is_err() {
            self.was_refused = true;
            return false;
        }
        let renamed = store.create_log(&leaving, bytes, Some(&name)).await;
        let durable = match renamed {
            // It has left already, and may come back until another new name is durable.
            Err(StoreError::NotFound(_)) => {
                store.create_log(&leaving, FILE_HEADER_BYTES, None).await
            }
            renamed => renamed,
        };
        match durable {
            Ok(file) => {
                drop(file);
                self.going.insert(number);
                self.forget_gone();
                // Else the next one that leaves takes its name, or the next opening removes it.
                let _ = store.delete(&leaving).await;
                true
            }
            Err(_) => {
                self.was_refused = true;
                false
            }
        }
    }
}

async fn make_file(
    env: &Env,
    number: u64,
    bytes: u64,
    recycle: Option<u64>,
    ready: Option<ReadyHeader>,
) -> Made {
    let mut made = create_file(env, number, bytes, recycle).await;
    if let (Ok(file), Some(ready)) = (&mut made.file, ready) {
        let durable = match file.write_at(0, &ready.encode()).await {
            Ok(()) => file.sync().await,
            refused => refused,
        };
        if let Err(error) = durable {
            made.file = Err(error);
        }
    }
    made
}

async fn create_file(env: &Env, number: u64, bytes: u64, recycle: Option<u64>) -> Made {
    let name = log_name(number);
    let mut recycled = Recycled::None;
    if let Some(old) = recycle {
        let old_name = log_name(old);
        let renamed = env.store.create_log(&name, bytes, Some(&old_name));
        recycled = match renamed.await {
            Ok(file) => {
                return Made {
                    file: Ok(file),
                    may_exist: true,
                    recycled: Recycled::Used(old),
                };
            }
            Err(error) if !is_certain(&error) => {
                return Made {
                    file: Err(error),
                    may_exist: true,
                    recycled: Recycled::Unknown(old),
                };
            }
            // It left before, which was in doubt.
            Err(StoreError::NotFound(_)) => Recycled::Used(old),
            Err(_) => Recycled::Kept(old),
        };
    }
    let file = env.store.create_log(&name, bytes, None).await;
    let may_exist = file.as_ref().err().is_none_or(|error| !is_certain(error));
    Made {
        file,
        may_exist,
        recycled,
    }
}

/// Whether a file that could not be made is certainly not there.
fn is_certain(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::DefinitelyNot { .. } | StoreError::NotFound(_)
    )
}

/// Makes log files one after the other, so that a writer seldom waits for one.
async fn make_files(env: Env, mut requests: mpsc::UnboundedReceiver<MakeFile>) {
    while let Some(request) = requests.recv().await {
        let MakeFile {
            number,
            bytes,
            recycle,
            ready,
            made,
        } = request;
        // The receiver is gone when the log was closed meanwhile: the file stays, empty, and the
        // next opening takes it.
        let _ = made.send(make_file(&env, number, bytes, recycle, ready).await);
    }
}
