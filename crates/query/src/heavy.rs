//! Heavy statements: so many run at a time, and the others stand in line, so that short ones don't
//! share the processors with all that anybody asks for.
//!
//! ```text
//!   plan -> weight -> short   runs at once, where it is polled
//!                  -> light   the same, on threads for such ones where it is polled by others
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

use datafusion::error::Result;
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
use weight::Weight;

/// What a statement needs to run where its weight says, and to stand in line.
pub(crate) struct Seat {
    line: Arc<Line>,
    clock: Arc<dyn Clock>,
    /// The number of its session.
    session: u64,
    /// Where others see that it waits.
    activity: Option<Arc<Activity>>,
    /// Where heavy statements run; `None` for where they are polled.
    heavy: Option<Handle>,
    /// Where those run that are neither heavy nor short.
    light: Option<Handle>,
}

impl Shared {
    /// What a statement of the session needs to run where its weight says.
    pub(crate) fn seat(&self) -> Seat {
        Seat {
            line: Arc::clone(self.database.line()),
            clock: Arc::clone(&self.instance().env().clock),
            session: self.locks.session(),
            activity: self.activity(),
            heavy: self.database.heavy_threads().cloned(),
            light: self.database.light_threads().cloned(),
        }
    }
}

impl Seat {
    /// The rows of a plan.
    ///
    /// # Errors
    /// Those of its beginning, where it begins at once.
    pub(crate) fn rows(
        self,
        plan: Arc<dyn ExecutionPlan>,
        task: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let is_elsewhere = |threads: &&Handle| {
            let here = Handle::try_current();
            here.is_ok_and(|here| here.id() != threads.id())
        };
        match Weight::of(&plan) {
            Weight::Heavy => Ok(self.in_line(plan, task)),
            Weight::Light => match self.light.as_ref().filter(is_elsewhere) {
                Some(threads) => Ok(apart(plan, task, threads)),
                None => execute_stream(plan, task),
            },
            Weight::Short => execute_stream(plan, task),
        }
    }

    /// The rows of a heavy plan: it stands in line once somebody wants them.
    fn in_line(
        self,
        plan: Arc<dyn ExecutionPlan>,
        task: Arc<TaskContext>,
    ) -> SendableRecordBatchStream {
        let schema = plan.schema();
        let begin: Begin = match self.heavy.clone() {
            Some(threads) => Box::new(move || Ok(apart(plan, task, &threads))),
            None => Box::new(move || execute_stream(plan, task)),
        };
        let rows = HeavyRows::new(begin, self);
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }
}
