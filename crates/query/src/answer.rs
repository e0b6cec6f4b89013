//! Answers: rows with the stamp that says as of when they are true.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::stream::{self, BoxStream, Stream, StreamExt};
use lazybase_engine::read::Snapshot;
use lazybase_model::{Result, SchemaVersion, Stamp, TableId, Token};

use tracing::Span;

use crate::error::from_datafusion;
use crate::kept_row::KeptRow;
use crate::notice::Notice;
use crate::observe::Watch;
use crate::origins::Origin;
use crate::scan::of_its_size;
use crate::session::Shared;

/// What one statement answered.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The columns of the rows.
    pub schema: SchemaRef,
    /// The rows.
    pub batches: Vec<RecordBatch>,
    /// What was done, as PostgreSQL says it: `SELECT 3`, `INSERT 0 2`.
    pub tag: String,
    /// Rows returned, or written.
    pub rows: u64,
    /// As of when the rows are true; `None` where nothing stored was read.
    pub stamp: Option<Stamp>,
    /// The acknowledgement of what was written.
    pub token: Option<Token>,
    /// What the user should know beside the answer.
    pub notices: Vec<Notice>,
    /// Whether the statement is one that returns rows, be there any or not.
    pub returns_rows: bool,
}

/// The definitions of tables that the columns of an answer follow from: where they are the same,
/// so are the columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Definitions(pub(crate) Vec<(TableId, SchemaVersion)>);

/// The columns of a statement's rows.
#[derive(Debug, Clone)]
pub struct Columns {
    /// Their names and types.
    pub schema: SchemaRef,
    /// What they follow from.
    pub definitions: Definitions,
    /// Where they come from; those that it ends before come from nowhere.
    pub origins: Vec<Origin>,
}

/// What one statement answers, batch by batch.
pub struct AnswerStream {
    schema: SchemaRef,
    /// The only row, before any batch.
    kept: Option<KeptRow>,
    batches: BoxStream<'static, Result<RecordBatch>>,
    tag: Tag,
    rows: u64,
    definitions: Definitions,
    origins: Arc<[Origin]>,
    snapshot: Option<Snapshot>,
    stamp: Option<Stamp>,
    token: Option<Token>,
    notices: Vec<Notice>,
    session: Option<Arc<Shared>>,
    /// It reads rows by full keys, past the planner.
    point: bool,
    watch: Option<Watch>,
}

/// How a tag is made once the rows are counted.
#[derive(Debug)]
enum Tag {
    /// As it stands.
    Done(String),
    /// The word, then the rows that were returned.
    Rows(&'static str),
    /// As it stands, of so many rows that were written: rows tell of them.
    Returned(String, u64),
}

impl AnswerStream {
    fn new(
        schema: SchemaRef,
        batches: BoxStream<'static, Result<RecordBatch>>,
        tag: Tag,
    ) -> AnswerStream {
        AnswerStream {
            schema,
            kept: None,
            batches,
            tag,
            rows: 0,
            definitions: Definitions::default(),
            origins: Arc::default(),
            snapshot: None,
            stamp: None,
            token: None,
            notices: Vec::new(),
            session: None,
            point: false,
            watch: None,
        }
    }

    /// Rows of a query over a snapshot.
    pub(crate) fn rows(
        schema: SchemaRef,
        batches: BoxStream<'static, Result<RecordBatch>>,
        snapshot: Option<Snapshot>,
        session: Arc<Shared>,
    ) -> AnswerStream {
        AnswerStream {
            snapshot,
            session: Some(session),
            ..AnswerStream::new(schema, batches, Tag::Rows("SELECT"))
        }
    }

    /// The row of a query over a snapshot that is kept by itself.
    pub(crate) fn kept_row(
        schema: SchemaRef,
        row: KeptRow,
        snapshot: Snapshot,
        session: Arc<Shared>,
    ) -> AnswerStream {
        AnswerStream {
            kept: Some(row),
            ..AnswerStream::rows(schema, stream::empty().boxed(), Some(snapshot), session)
        }
    }

    /// Rows that are there already, such as those of SHOW.
    pub(crate) fn of_batch(word: &'static str, batch: RecordBatch) -> AnswerStream {
        let batches = stream::iter([Ok(batch.clone())]).boxed();
        AnswerStream::new(batch.schema(), batches, Tag::Rows(word))
    }

    /// An answer without rows.
    pub(crate) fn done(tag: impl Into<String>, rows: u64) -> AnswerStream {
        let (schema, none) = (Arc::new(Schema::empty()), stream::empty().boxed());
        AnswerStream {
            rows,
            ..AnswerStream::new(schema, none, Tag::Done(tag.into()))
        }
    }

    /// Rows that tell of `written` rows, and take the memory `held` until they are taken.
    pub(crate) fn returned(
        schema: SchemaRef,
        rows: Vec<RecordBatch>,
        held: MemoryReservation,
        tag: String,
        written: u64,
    ) -> AnswerStream {
        let rows = stream::iter(rows).map(move |rows| {
            let _held = &held;
            Ok(rows)
        });
        AnswerStream::new(schema, rows.boxed(), Tag::Returned(tag, written))
    }

    /// It reads rows by full keys, past the planner.
    pub(crate) fn of_keys(mut self) -> AnswerStream {
        self.point = true;
        self
    }

    /// The watch sees it to its end.
    pub(crate) fn with_watch(mut self, mut watch: Watch) -> AnswerStream {
        if self.point {
            watch.is_point();
        }
        match self.tag {
            Tag::Done(_) => watch.end(self.stamp.as_ref()),
            Tag::Rows(_) | Tag::Returned(..) => self.watch = Some(watch),
        }
        self
    }

    pub(crate) fn with_token(mut self, token: Option<Token>) -> AnswerStream {
        self.token = token;
        self
    }

    pub(crate) fn with_stamp(mut self, stamp: Option<Stamp>) -> AnswerStream {
        self.stamp = stamp;
        self
    }

    pub(crate) fn with_notices(
        mut self,
        notices: impl IntoIterator<Item = Notice>,
    ) -> AnswerStream {
        self.notices.extend(notices);
        self
    }

    /// Without the notices that the session's client does not want to hear.
    pub(crate) fn heard_by(mut self, session: &Shared) -> AnswerStream {
        if !self.notices.is_empty() {
            let level = session.state.lock().settings.min_messages;
            self.notices.retain(|notice| notice.severity.is_told(level));
        }
        self
    }

    pub(crate) fn with_definitions(mut self, definitions: Definitions) -> AnswerStream {
        self.definitions = definitions;
        self
    }

    pub(crate) fn with_origins(mut self, origins: impl Into<Arc<[Origin]>>) -> AnswerStream {
        self.origins = origins.into();
        self
    }

    /// Where the columns of the rows come from; those that it ends before come from nowhere.
    pub fn origins(&self) -> &[Origin] {
        &self.origins
    }

    /// What the columns of the rows follow from.
    pub fn definitions(&self) -> &Definitions {
        &self.definitions
    }

    /// The columns of the rows.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// As of when the rows are true: known once the stream has ended; `None` where nothing stored
    /// was read.
    pub fn stamp(&self) -> Option<&Stamp> {
        self.stamp.as_ref()
    }

    /// The acknowledgement of what was written.
    pub fn token(&self) -> Option<Token> {
        self.token
    }

    /// What the user should know beside the answer.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// Whether the statement is one that returns rows, be there any or not.
    pub fn returns_rows(&self) -> bool {
        !matches!(self.tag, Tag::Done(_))
    }

    /// Whether its rows tell of rows that were written before: what goes wrong with them now leaves
    /// those as they are.
    pub fn has_written(&self) -> bool {
        matches!(self.tag, Tag::Returned(..))
    }

    /// Rows written: none by a query.
    pub(crate) fn written(&self) -> u64 {
        match self.tag {
            Tag::Done(_) => self.rows,
            Tag::Rows(_) => 0,
            Tag::Returned(_, written) => written,
        }
    }

    /// Rows returned so far, or written.
    pub fn row_count(&self) -> u64 {
        self.rows
    }

    /// What was done, as PostgreSQL says it; for a query, with the rows returned so far.
    pub fn tag(&self) -> String {
        self.tag_of(self.rows)
    }

    /// The same for a piece of so many rows.
    pub fn tag_of(&self, rows: u64) -> String {
        match &self.tag {
            Tag::Done(tag) | Tag::Returned(tag, _) => tag.clone(),
            Tag::Rows(word) => format!("{word} {rows}"),
        }
    }

    /// The only row, where it is kept by itself and nothing was taken before: for callers that need
    /// no batch of it. It counts as taken, and the stream as ended.
    pub fn take_kept_row(&mut self) -> Option<KeptRow> {
        let row = self.kept.take()?;
        self.note_rows(1);
        self.end();
        Some(row)
    }

    fn note_rows(&mut self, rows: usize) {
        self.rows += rows as u64;
        if let Some(watch) = &mut self.watch {
            watch.more(rows);
        }
    }

    /// All of it.
    ///
    /// # Errors
    /// The first that the statement meets.
    pub async fn collect(mut self) -> Result<Answer> {
        let mut batches = Vec::new();
        // Rows that are gathered are held as what a query sorts is.
        let held = self
            .session
            .as_ref()
            .map(|session| session.reserve("the answer"));
        while let Some(batch) = self.next().await {
            let mut batch = batch?;
            if self.point {
                batch = of_its_size(batch).map_err(|error| from_datafusion(&error, ""))?;
            }
            if let Some(held) = &held {
                held.try_grow(get_record_batch_memory_size(&batch))
                    .map_err(|error| from_datafusion(&error, ""))?;
            }
            if batch.num_rows() > 0 {
                batches.push(batch);
            }
        }
        Ok(Answer {
            tag: self.tag(),
            returns_rows: self.returns_rows(),
            schema: self.schema,
            batches,
            rows: self.rows,
            stamp: self.stamp,
            token: self.token,
            notices: self.notices,
        })
    }

    /// Notes the end, once.
    fn end(&mut self) {
        if let Some(snapshot) = self.snapshot.take() {
            self.stamp = Some(snapshot.stamp());
        }
        if let Some(watch) = self.watch.take() {
            watch.end(self.stamp.as_ref());
        }
        if let (Some(session), Some(stamp)) = (self.session.take(), &self.stamp) {
            session.note_stamp(stamp.clone());
        }
    }
}

impl Stream for AnswerStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let span = self.watch.as_ref().map(Watch::span);
        let entered = span.as_ref().map(Span::enter);
        let polled = match self.kept.take() {
            Some(row) => Poll::Ready(Some(row.batch(&self.schema))),
            None => self.batches.poll_next_unpin(cx),
        };
        drop(entered);
        match &polled {
            Poll::Ready(Some(Ok(batch))) => self.note_rows(batch.num_rows()),
            Poll::Ready(Some(Err(error))) => {
                if let Some(watch) = self.watch.take() {
                    watch.fail(error);
                }
                if let Some(session) = self.session.take() {
                    session.fail_transaction();
                }
                self.snapshot = None;
                self.batches = stream::empty().boxed();
            }
            Poll::Ready(None) => self.end(),
            Poll::Pending => {}
        }
        polled
    }
}
