//! What the coordinator's loop hears.

use lazybase_engine::manifest::ProducerMark;
use lazybase_engine::stages::ingest::Acknowledgement;
use lazybase_model::{Error, Result, ScuNumber, ViewId};
use tokio::sync::oneshot;

use super::ddl::DdlRequest;
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
        reply: oneshot::Sender<Result<(u64, Option<ProducerMark>)>>,
    },
    /// Until this SCU is that far, do its work before all other.
    Hurry {
        through: ScuNumber,
        to_authority: bool,
    },
    /// Start no new attempts of a stage, or start them again.
    Pause {
        stage: StageName,
        paused: bool,
        reply: oneshot::Sender<()>,
    },
    /// A file that the error names is whole, but holds wrong rows: make it again.
    Condemn { error: Error },
    /// A secondary view shows wrong rows: build it again.
    RebuildView { view: ViewId },
    /// Stop: no new attempts; the loop ends when the running ones have.
    Stop { reply: oneshot::Sender<()> },
}
