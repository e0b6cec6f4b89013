//! Heavy statements: so many run at a time, and the others stand in line, so that short ones don't
//! share the processors with all that anybody asks for.
//!
//! ```text
//!   plan -> weight -> light   runs at once, whatever stands in line
//!                  -> heavy   rows: the first poll stands in line
//!                               line -> a place -> it runs, on threads of its own where there are
//!                                    -> refused (53400): too many wait
//!   a place goes back   with the rows, at their end or before
//!                       to the next, where somebody waits and nobody has taken rows for IDLE
//! ```
//!
//! Keeps memory only. Invariant HVY-1: nobody waits for one who waits: what waits for its client,
//! for a snapshot or for a lock of another session keeps no place from others.

use std::sync::Arc;

use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use lazybase_engine::env::Clock;
use tokio::runtime::Handle;

use crate::activity::Activity;
use crate::session::Shared;

mod line;
mod rows;
mod weight;

pub(crate) use line::Line;
use rows::{Begin, HeavyRows, apart};
pub(crate) use weight::is_heavy;

/// What a statement needs to stand in line.
pub(crate) struct Seat {
    line: Arc<Line>,
    clock: Arc<dyn Clock>,
    /// The number of its session.
    session: u64,
    /// Where others see that it waits.
    activity: Option<Arc<Activity>>,
    /// Where heavy statements run; `None` for where they are polled.
    threads: Option<Handle>,
}

impl Shared {
    /// What a statement of the session needs to stand in line, if it is a heavy one.
    pub(crate) fn seat(&self) -> Seat {
        Seat {
            line: Arc::clone(self.database.line()),
            clock: Arc::clone(&self.instance().env().clock),
            session: self.locks.session(),
            activity: self.activity(),
            threads: self.database.heavy_threads().cloned(),
        }
    }
}

impl Seat {
    /// The rows of a heavy plan: it stands in line once somebody wants them.
    pub(crate) fn rows(
        self,
        plan: Arc<dyn ExecutionPlan>,
        task: Arc<TaskContext>,
    ) -> SendableRecordBatchStream {
        let schema = plan.schema();
        let begin: Begin = match self.threads.clone() {
            Some(threads) => Box::new(move || Ok(apart(plan, task, &threads))),
            None => Box::new(move || execute_stream(plan, task)),
        };
        let rows = HeavyRows::new(begin, self);
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }
}
