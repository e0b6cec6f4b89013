//! The k-way merge as a state machine that is pulled: it says which source it needs, is given a
//! batch of it, and puts out batches.
//!
//! 1. Sources that have rows stand in an array, ordered by the key of their next row, then by age.
//! 2. If the first two keys are equal, all sources with that key give their change, and the
//!    changes are composed. Otherwise all rows of the first source below the second key are taken
//!    as one stretch, found by galloping.
//! 3. The first source goes to its new place by binary search, or asks for its next batch: no step
//!    is taken while the next key of a source is unknown.
//! 4. Output is gathered when it is large enough. A long stretch is not copied at all.
//!
//! Invariant MERGER-1: outputs rise strictly by key. Invariant MERGER-2: a split pair is never
//! torn between outputs.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use lazybase_model::change::StoredKind;
use lazybase_model::{Error, Result};

use super::compose::{Composer, Entry, push_single};
use super::keys::{BatchKeys, KeyReader, Packer, Prefix, read_long};
use super::{MergeMode, MergeShape, OutputSize};
use crate::change_batch::gather::{Gather, Input};
use crate::change_batch::{ChangeBatch, Kinds};

/// The input has no number in the present output.
const UNKNOWN: u32 = u32::MAX;
/// The part of an output's size from which a stretch is put out without copying.
const UNCOPIED_PART: usize = 4;

/// What a merger wants or gives.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "it is matched at once and never stored"
)]
pub enum Step {
    /// The next batch of this source must be supplied, or its end.
    Need(usize),
    /// The next rows of the result.
    Output(ChangeBatch),
    /// There is nothing more.
    Done,
}

/// Merges sorted sources; see the module's documentation for what they must be.
pub struct Merger {
    core: Box<dyn Machine>,
}

impl fmt::Debug for Merger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Merger").finish_non_exhaustive()
    }
}

impl Merger {
    /// A merger of `sources` sources, older ones first.
    ///
    /// # Errors
    /// `Invalid` when a key column's type has no order.
    pub fn new(
        shape: &MergeShape,
        sources: usize,
        mode: MergeMode,
        size: OutputSize,
    ) -> Result<Merger> {
        let reader = KeyReader::new(&shape.schema, &shape.key, shape.partitioner.as_ref())?;
        let core: Box<dyn Machine> = match reader {
            KeyReader::Narrow(packer) => {
                let read = move |rows: &_| Packer::read::<u64>(&packer, rows);
                Box::new(Core::new(shape, sources, mode, size, Box::new(read)))
            }
            KeyReader::Wide(packer) => {
                let read = move |rows: &_| Packer::read::<u128>(&packer, rows);
                Box::new(Core::new(shape, sources, mode, size, Box::new(read)))
            }
            KeyReader::Long(codec) => {
                let read = move |rows: &_| read_long(&codec, rows);
                Box::new(Core::new(shape, sources, mode, size, Box::new(read)))
            }
        };
        Ok(Merger { core })
    }

    /// Works until there is something to want or to give. [`Step::Need`] is repeated until the
    /// batch is supplied; [`Step::Done`] is for ever.
    ///
    /// # Errors
    /// `Corrupt` when hidden columns can't be decoded; `Internal` when rows can't be gathered.
    pub fn step(&mut self) -> Result<Step> {
        self.core.step()
    }

    /// Gives the next batch of a source that is needed, or `None` at its end.
    ///
    /// # Errors
    /// `Internal` when the source is not needed or the batch is not of the merger's shape.
    pub fn supply(&mut self, source: usize, batch: Option<ChangeBatch>) -> Result<()> {
        self.core.supply(source, batch)
    }
}

/// A merger of one form of keys.
trait Machine: Send {
    fn step(&mut self) -> Result<Step>;
    fn supply(&mut self, source: usize, batch: Option<ChangeBatch>) -> Result<()>;
}

type ReadKeys<P> =
    Box<dyn Fn(&arrow::array::RecordBatch) -> Result<BatchKeys<P>> + Send + Sync + 'static>;

/// The present batch of a source.
struct Source<P> {
    input: Arc<Input>,
    keys: BatchKeys<P>,
    /// The next row.
    at: usize,
    /// The input's number in the present output.
    number: u32,
    /// Whether all rows can be taken as they are, in this mode.
    uniform: bool,
    /// Whether there may be split pairs.
    pairs: bool,
}

struct Core<P> {
    mode: MergeMode,
    size: OutputSize,
    width: usize,
    read_keys: ReadKeys<P>,
    sources: Vec<Option<Source<P>>>,
    /// Sources that have rows: the prefix of the next key, and the source; in the order of rule 1.
    order: Vec<(P, u32)>,
    needs: Vec<usize>,
    out: Gather,
    ready: VecDeque<ChangeBatch>,
    composer: Composer,
    entries: Vec<Entry>,
}

impl<P: Prefix> Machine for Core<P> {
    fn step(&mut self) -> Result<Step> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Step::Output(batch));
            }
            if self.is_full() {
                self.flush()?;
                continue;
            }
            if let Some(source) = self.needs.last() {
                return Ok(Step::Need(*source));
            }
            if self.order.is_empty() {
                self.flush()?;
                return Ok(self.ready.pop_front().map_or(Step::Done, Step::Output));
            }
            self.advance()?;
        }
    }

    fn supply(&mut self, source: usize, batch: Option<ChangeBatch>) -> Result<()> {
        if self.needs.last() != Some(&source) {
            return Err(Error::internal(format!(
                "source {source} was not asked for a batch"
            )));
        }
        let Some(batch) = batch else {
            self.needs.pop();
            return Ok(());
        };
        if batch.data.num_columns() != self.width {
            return Err(Error::internal("a source has other columns than its merge"));
        }
        if batch.rows() == 0 {
            return Ok(());
        }
        let keys = (self.read_keys)(&batch.data)?;
        self.needs.pop();
        let head = keys.prefixes[0];
        let pairs = match &batch.kinds {
            Kinds::Uniform(kind) => kind.is_split(),
            Kinds::Each(kinds) => kinds
                .values()
                .iter()
                .any(|kind| kind & StoredKind::SPLIT_BIT != 0),
        };
        self.sources[source] = Some(Source {
            uniform: !self.mode.makes_rows() || batch.all_upserts(),
            input: Input::new(batch),
            keys,
            at: 0,
            number: UNKNOWN,
            pairs,
        });
        self.order.insert(0, (head, source as u32));
        self.settle_first();
        Ok(())
    }
}

impl<P: Prefix> Core<P> {
    fn new(
        shape: &MergeShape,
        sources: usize,
        mode: MergeMode,
        size: OutputSize,
        read_keys: ReadKeys<P>,
    ) -> Core<P> {
        let width = shape.schema.fields().len();
        Core {
            mode,
            size,
            width,
            read_keys,
            sources: (0..sources).map(|_| None).collect(),
            order: Vec::with_capacity(sources),
            needs: (0..sources).rev().collect(),
            out: Gather::combining(shape.schema.clone(), mode, Arc::clone(&shape.operators)),
            ready: VecDeque::new(),
            composer: Composer::new(mode, shape),
            entries: Vec::new(),
        }
    }

    fn is_full(&self) -> bool {
        self.out.rows() >= self.size.rows || self.out.bytes() >= self.size.bytes
    }

    fn flush(&mut self) -> Result<()> {
        if self.out.rows() > 0 {
            self.ready.push_back(self.out.finish()?);
            self.sources
                .iter_mut()
                .flatten()
                .for_each(|source| source.number = UNKNOWN);
        }
        Ok(())
    }

    /// Takes rows until the output is full or a source's next key is unknown.
    fn advance(&mut self) -> Result<()> {
        while self.needs.is_empty() && self.ready.is_empty() && !self.is_full() {
            match self.order[..] {
                [] => return Ok(()),
                [first] => self.take_stretch(first.1, None)?,
                [first, second, ..] if first.0 < second.0 => {
                    self.take_stretch(first.1, Some(second.1))?;
                }
                [first, second, ..] => match self.same_key(first.1, second.1) {
                    true => self.take_key()?,
                    false => self.take_stretch(first.1, Some(second.1))?,
                },
            }
        }
        Ok(())
    }

    fn source(&self, source: u32) -> &Source<P> {
        self.sources[source as usize]
            .as_ref()
            .expect("a source in the order has a batch")
    }

    fn same_key(&self, a: u32, b: u32) -> bool {
        let (a, b) = (self.source(a), self.source(b));
        a.keys.compare(a.at, &b.keys, b.at).is_eq()
    }

    /// Takes the rows of the first source below the key of the second, or all of its batch.
    fn take_stretch(&mut self, first: u32, second: Option<u32>) -> Result<()> {
        let source = self.source(first);
        let end = match second.map(|second| self.source(second)) {
            None => source.keys.prefixes.len(),
            Some(bound) => source.keys.gallop(source.at + 1, &bound.keys, bound.at),
        };
        let most = (self.size.bytes / source.input.row_bytes).clamp(1, self.size.rows);
        let end = end.min(source.at + most);
        let end = match source.pairs && source.input.batch.kind(end - 1).is_split() {
            false => end,
            true => end + 1,
        };
        let rows = source.at..end;
        if source.uniform && self.is_long(source, rows.len()) {
            self.put_out(first, rows)?;
        } else {
            self.push_rows(first, rows);
        }
        self.moved(first, end);
        self.settle_first();
        Ok(())
    }

    fn is_long(&self, source: &Source<P>, rows: usize) -> bool {
        rows * UNCOPIED_PART >= self.size.rows
            || rows * source.input.row_bytes * UNCOPIED_PART >= self.size.bytes && rows > 1
    }

    /// Puts rows out without copying, after what was gathered before them.
    fn put_out(&mut self, source: u32, rows: Range<usize>) -> Result<()> {
        self.flush()?;
        let batch = &self.source(source).input.batch;
        let batch = self.out.view(batch, rows.start, rows.len());
        self.ready.push_back(batch);
        Ok(())
    }

    fn push_rows(&mut self, from: u32, rows: Range<usize>) {
        let source = self.sources[from as usize]
            .as_mut()
            .expect("a source in the order has a batch");
        if source.uniform {
            let number = numbered(source, &mut self.out);
            self.out.push(number, rows.start, rows.len());
            return;
        }
        let mut row = rows.start;
        while row < rows.end {
            let kind = source.input.batch.kind(row);
            if kind.makes_row() {
                let input = numbered(source, &mut self.out);
                let row = row as u32;
                push_single(&mut self.out, self.mode, Entry { input, row });
            }
            row += 1 + usize::from(kind.is_split());
        }
    }

    /// Composes the changes of the first key, which several sources have.
    fn take_key(&mut self) -> Result<()> {
        let first = self.order[0];
        let same = |(prefix, source): &&(P, u32)| {
            *prefix == first.0 && (*source == first.1 || self.same_key(first.1, *source))
        };
        let count = self.order.iter().take_while(same).count();
        let newest = self.source(self.order[count - 1].1);
        let newest_kind = newest.input.batch.kind(newest.at);
        self.entries.clear();
        let skipped = match newest_kind.is_total() {
            true => count - 1,
            false => 0,
        };
        if newest_kind != StoredKind::DELETE || !self.mode.makes_rows() {
            for at in skipped..count {
                let source = self.sources[self.order[at].1 as usize]
                    .as_mut()
                    .expect("a source in the order has a batch");
                self.entries.push(Entry {
                    input: numbered(source, &mut self.out),
                    row: source.at as u32,
                });
            }
            self.composer.compose(&mut self.out, &self.entries)?;
        }
        // From the last of them on, so that those before keep their places while one moves.
        for at in (0..count).rev() {
            let id = self.order[at].1;
            let source = self.source(id);
            let pair = source.pairs && source.input.batch.kind(source.at).is_split();
            let next = source.at + 1 + usize::from(pair);
            self.moved_at(at, id, next);
        }
        Ok(())
    }

    fn moved(&mut self, source: u32, at: usize) {
        let id = source as usize;
        let present = self.sources[id]
            .as_mut()
            .expect("a source in the order has a batch");
        present.at = at;
        match present.keys.prefixes.get(at) {
            Some(prefix) => self.order[0].0 = *prefix,
            None => {
                self.sources[id] = None;
                self.needs.push(id);
                self.order.remove(0);
            }
        }
    }

    /// As [`Core::moved`], for a source that stands at `place` in the order, and puts it right.
    fn moved_at(&mut self, place: usize, source: u32, at: usize) {
        self.order[..=place].rotate_right(1);
        self.moved(source, at);
        self.settle_first();
    }

    /// Rule 3: moves the first in the order behind those that come before it.
    #[inline]
    fn settle_first(&mut self) {
        let [first, rest @ ..] = &self.order[..] else {
            return;
        };
        let before = |other: &(P, u32)| match other.0.cmp(&first.0) {
            std::cmp::Ordering::Equal => {
                let (a, b) = (self.source(other.1), self.source(first.1));
                let by_key = a.keys.compare(a.at, &b.keys, b.at);
                by_key.then(other.1.cmp(&first.1)).is_lt()
            }
            by_prefix => by_prefix.is_lt(),
        };
        let place = rest.partition_point(before);
        self.order[..=place].rotate_left(1);
    }
}

/// The number of the source's batch in the present output.
fn numbered<P>(source: &mut Source<P>, out: &mut Gather) -> u32 {
    if source.number == UNKNOWN {
        source.number = out.input(&source.input);
    }
    source.number
}
