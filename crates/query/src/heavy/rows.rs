//! The rows of a heavy statement, which has a place in the line while somebody takes them.
//!
//! Whoever takes rows polls until there are some, or drops the stream: then it is at work, and else
//! idle. The time limit and the cancelling of a statement, which drop it, hold while it waits too.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use arrow::array::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::future::BoxFuture;
use futures::stream::{Stream, StreamExt};
use lazybase_model::Error;
use tokio::runtime::Handle;

use super::Seat;
use super::line::{Asked, IDLE, Ticket};
use crate::activity::ShownWait;
use crate::error::into_datafusion;
use crate::observe;

/// Begins to run a plan.
pub(super) type Begin = Box<dyn FnOnce() -> Result<SendableRecordBatchStream> + Send>;

/// The rows of a plan that runs on other threads, one batch ahead of who takes them. It ends when
/// they are dropped.
pub(super) fn apart(
    plan: Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
    threads: &Handle,
) -> SendableRecordBatchStream {
    let mut builder = RecordBatchReceiverStreamBuilder::new(plan.schema(), 1);
    let taker = builder.tx();
    let run = async move {
        let mut rows = execute_stream(plan, task)?;
        while let Some(batch) = rows.next().await {
            let has_failed = batch.is_err();
            if taker.send(batch).await.is_err() || has_failed {
                break;
            }
        }
        Ok::<(), DataFusionError>(())
    };
    builder.spawn_on(run, threads);
    builder.build()
}

/// How far a statement has come.
enum Work {
    NotBegun(Begin),
    Runs(SendableRecordBatchStream),
    Over,
}

/// The rows.
pub(super) struct HeavyRows {
    // Dropped before the place is given back.
    work: Work,
    stand: Stand,
}

impl HeavyRows {
    pub(super) fn new(begin: Begin, seat: Seat) -> HeavyRows {
        HeavyRows {
            work: Work::NotBegun(begin),
            stand: Stand {
                seat,
                ticket: None,
                wait: None,
            },
        }
    }

    fn poll_rows(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        let mut rows = match mem::replace(&mut self.work, Work::Over) {
            Work::NotBegun(begin) => match begin() {
                Ok(rows) => rows,
                Err(error) => return Poll::Ready(Some(Err(error))),
            },
            Work::Runs(rows) => rows,
            Work::Over => return Poll::Ready(None),
        };
        let polled = rows.poll_next_unpin(context);
        self.work = Work::Runs(rows);
        polled
    }

    fn end(&mut self) {
        self.work = Work::Over;
        self.stand.leave();
    }
}

impl Stream for HeavyRows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let has_begun = match &this.work {
            Work::NotBegun(_) => false,
            Work::Runs(_) => true,
            Work::Over => return Poll::Ready(None),
        };
        let placed = ready!(this.stand.poll_place(has_begun, context));
        let polled = match placed {
            Ok(()) => this.poll_rows(context),
            Err(error) => Poll::Ready(Some(Err(error))),
        };
        match &polled {
            Poll::Ready(Some(Ok(_))) => this.stand.rests(),
            Poll::Ready(_) => this.end(),
            Poll::Pending => {}
        }
        polled
    }
}

/// Where a statement stands, until this is dropped.
struct Stand {
    seat: Seat,
    /// Once it has come.
    ticket: Option<Ticket>,
    /// While it waits.
    wait: Option<Wait>,
}

/// A statement that waits, which others see.
struct Wait {
    since: Duration,
    _shown: Option<ShownWait>,
    again: BoxFuture<'static, ()>,
}

impl Stand {
    fn now(&self) -> Duration {
        self.seat.clock.monotonic()
    }

    /// Ready once it has a place.
    fn poll_place(&mut self, has_begun: bool, context: &mut Context<'_>) -> Poll<Result<()>> {
        let ticket = match self.ticket {
            Some(ticket) => ticket,
            None => *self.ticket.insert(self.seat.line.ticket()),
        };
        loop {
            let (line, session, now) = (&self.seat.line, self.seat.session, self.now());
            match line.ask(ticket, session, has_begun, context.waker(), now) {
                Asked::Placed => {
                    if let Some(wait) = self.wait.take() {
                        observe::heavy_waited(now.saturating_sub(wait.since));
                    }
                    return Poll::Ready(Ok(()));
                }
                Asked::Refused { placed, waiting } => {
                    observe::heavy_refused();
                    return Poll::Ready(Err(refused(placed, waiting)));
                }
                Asked::Waits => {}
            }
            let seat = &self.seat;
            let wait = self.wait.get_or_insert_with(|| Wait {
                since: now,
                _shown: seat.activity.as_ref().map(ShownWait::new),
                again: pause(seat),
            });
            ready!(wait.again.as_mut().poll(context));
            wait.again = pause(seat);
        }
    }

    fn rests(&self) {
        if let Some(ticket) = self.ticket {
            self.seat.line.rests(ticket, self.now());
        }
    }

    fn leave(&mut self) {
        self.wait = None;
        if let Some(ticket) = self.ticket.take() {
            self.seat.line.leave(ticket, self.now());
        }
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Until it is worth asking again.
fn pause(seat: &Seat) -> BoxFuture<'static, ()> {
    let clock = Arc::clone(&seat.clock);
    Box::pin(async move { clock.sleep(IDLE).await })
}

fn refused(placed: usize, waiting: usize) -> DataFusionError {
    let error = Error::unavailable("too many heavy statements wait for their turn")
        .with_detail(format!("{placed} run, and {waiting} wait"))
        .with_hint(
            "try again later, read less (a range of the key, a LIMIT), or raise heavy_waiting, or \
             heavy_statements, where the database is opened",
        )
        .with_sqlstate("53400");
    into_datafusion(error)
}
