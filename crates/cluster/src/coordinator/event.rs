//! What the coordinator's loop hears.

use std::collections::BTreeMap;
use std::sync::Weak;

use lazybase_engine::manifest::ProducerMark;
use lazybase_engine::stages::ingest::Acknowledgement;
use lazybase_model::access::RoleId;
use lazybase_model::sequence::Counter;
use lazybase_model::{Error, Result, ScuNumber, SequenceId, ViewId};
use tokio::sync::oneshot;

use super::ddl::DdlRequest;
use crate::sequences::Reserved;
use crate::task::{Report, StageName};

/// One thing that happened.
pub(crate) enum Event {
    /// A worker finished an attempt.
    Reported(Report),
    /// Somebody asks for something.
    Asked(Command),
}

/// What others ask of the coordinator.
pub(crate) enum Command {
    /// Change the catalogue, and commit a batch with it.
    Ddl {
        request: Box<DdlRequest>,
        reply: oneshot::Sender<Result<Option<Acknowledgement>>>,
    },
    /// Fence older sessions of a producer's name.
    OpenProducer {
        name: String,
        role: Option<RoleId>,
        reply: oneshot::Sender<Result<(u64, Option<ProducerMark>)>>,
    },
    /// Reserve the next numbers of a sequence, at most so many.
    ReserveNumbers {
        sequence: SequenceId,
        count: u64,
        reply: oneshot::Sender<Result<Reserved>>,
    },
    /// Have a sequence go on from elsewhere.
    SetSequence {
        sequence: SequenceId,
        counter: Counter,
        reply: oneshot::Sender<Result<()>>,
    },
    /// Until the authority reaches this SCU, or nobody holds the other end any more, do that work
    /// before all other.
    Hurry {
        through: ScuNumber,
        waiting: Weak<()>,
    },
    /// Start no new attempts of a stage, or start them again.
    Pause {
        stage: StageName,
        paused: bool,
        reply: oneshot::Sender<()>,
    },
    /// Seal the open SCU by age and size no more, or let it be sealed again: beside what operators
    /// pause.
    HoldSealing {
        hold: bool,
        reply: oneshot::Sender<()>,
    },
    /// Files that these errors name are whole, but hold wrong rows: make them again, and all that
    /// was made of them. The answer names those files too.
    Condemn {
        errors: Vec<Error>,
        reply: oneshot::Sender<BTreeMap<String, Error>>,
    },
    /// A secondary view shows wrong rows: build it again. The answer is the number of the manifest
    /// from which on it holds nothing of what it held; none where there is no such view any more.
    RebuildView {
        view: ViewId,
        reply: oneshot::Sender<Result<Option<u64>>>,
    },
    /// Stop: no new attempts; the loop ends when the running ones have.
    Stop { reply: oneshot::Sender<()> },
}
