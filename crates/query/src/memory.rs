//! The memory of queries: one pool for all that run, and for each of them a share of it that what
//! can't be spilt may take.
//!
//! ```text
//!   all queries   what sorts and groups gets its fair part, and spills past it
//!     one query   what can't be spilt, as the built side of a join: half of all, then it fails
//! ```
//!
//! Keeps numbers only. Invariant MEM-1: what one query holds without being able to spill it leaves
//! half of the memory to the others.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, TrackConsumersPool,
    UnboundedMemoryPool,
};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionState;

/// So many of those that hold most are named where there is no more.
const NAMED: NonZeroUsize = NonZeroUsize::new(3).expect("it is not zero");

/// How sorts call what they merge.
const SORT_MERGE: &str = "ExternalSorterMerge";

/// The pool of all queries of a database.
pub(crate) fn of_all(bytes: u64) -> Arc<dyn MemoryPool> {
    match usize::try_from(bytes).unwrap_or(usize::MAX) {
        usize::MAX => Arc::new(UnboundedMemoryPool::default()),
        bytes => Arc::new(TrackConsumersPool::new(FairSpillPool::new(bytes), NAMED)),
    }
}

/// What a query needs to run, with a share of the memory that is its own.
pub(crate) fn task_of_one(state: &SessionState) -> Arc<TaskContext> {
    let shared = state.runtime_env();
    let MemoryLimit::Finite(bytes) = shared.memory_pool.memory_limit() else {
        return state.task_ctx();
    };
    let mut own = RuntimeEnv::clone(shared);
    own.memory_pool = Arc::new(OfOne {
        shared: Arc::clone(&shared.memory_pool),
        firm_max: bytes / 2,
        firm: AtomicUsize::new(0),
    });
    Arc::new(TaskContext::from(state).with_runtime(Arc::new(own)))
}

/// Whether a consumer holds what its query can't spill. What a sort merges in memory was its own to
/// spill a moment before, and is written or handed on right after.
fn is_firm(consumer: &MemoryConsumer) -> bool {
    !consumer.can_spill() && !consumer.name().starts_with(SORT_MERGE)
}

/// The pool as one query sees it.
#[derive(Debug)]
struct OfOne {
    shared: Arc<dyn MemoryPool>,
    /// The most that it may hold without being able to spill it.
    firm_max: usize,
    firm: AtomicUsize,
}

impl fmt::Display for OfOne {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of one query: {}", self.shared)
    }
}

impl MemoryPool for OfOne {
    fn name(&self) -> &str {
        "of_one_query"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.shared.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.shared.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        if is_firm(reservation.consumer()) {
            self.firm.fetch_add(additional, Ordering::Relaxed);
        }
        self.shared.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        if is_firm(reservation.consumer()) {
            self.firm.fetch_sub(shrink, Ordering::Relaxed);
        }
        self.shared.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if !is_firm(reservation.consumer()) {
            return self.shared.try_grow(reservation, additional);
        }
        let before = self.firm.fetch_add(additional, Ordering::Relaxed);
        let grown = match before.saturating_add(additional) > self.firm_max {
            true => Err(DataFusionError::ResourcesExhausted(format!(
                "{} holds {before} bytes that can't be spilt and wants {additional} more; one \
                 query may hold {} of them",
                reservation.consumer().name(),
                self.firm_max
            ))),
            false => self.shared.try_grow(reservation, additional),
        };
        if grown.is_err() {
            self.firm.fetch_sub(additional, Ordering::Relaxed);
        }
        grown
    }

    fn reserved(&self) -> usize {
        self.shared.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.shared.memory_limit()
    }
}
