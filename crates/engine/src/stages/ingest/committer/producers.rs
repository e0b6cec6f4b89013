//! Producers that number their batches: marks, epochs, and what to make of a number.
//!
//! Pure. Invariant PRO-1: a number counts once. It is taken when its batch is durable, never
//! before, and a batch that was refused takes none.

use std::collections::{BTreeMap, BTreeSet};

use lazybase_model::{Error, Horizon, Result};

use super::super::ProducerSession;
use super::super::frame::commit::ProducerStamp;
use crate::env::planted::{Planted, is_planted};
use crate::manifest::state::ProducerMark;

/// The SQLSTATE of a producer's session that a newer one has taken over from.
const FENCED: &str = "57L01";

/// What to make of a numbered batch.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Commit it.
    New,
    /// It is there already, at or before this horizon.
    Duplicate(Horizon),
    /// It is an error.
    Refused(Error),
}

/// The marks of all producers.
#[derive(Debug)]
pub(super) struct Producers {
    marks: BTreeMap<String, ProducerMark>,
    /// Those whose mark moved in the open SCU.
    moved: BTreeSet<String>,
}

impl Producers {
    pub(super) fn new(marks: BTreeMap<String, ProducerMark>) -> Producers {
        Producers {
            marks,
            moved: BTreeSet::new(),
        }
    }

    /// Opens a session, and fences older ones.
    pub(super) fn open(&mut self, name: String, epoch: u64) -> Result<ProducerSession> {
        let mark = self.marks.entry(name.clone()).or_insert(ProducerMark {
            number: 0,
            content_hash: 0,
            scu: lazybase_model::ScuNumber::ZERO,
            batches: 0,
            epoch: 0,
        });
        if epoch <= mark.epoch {
            return Err(fenced(&name, mark.epoch));
        }
        mark.epoch = epoch;
        Ok(ProducerSession {
            mark: (mark.number > 0).then(|| mark.clone()),
            name,
            epoch,
        })
    }

    pub(super) fn judge(&self, stamp: &ProducerStamp) -> Verdict {
        let Some(mark) = self.marks.get(&stamp.name) else {
            return Verdict::Refused(
                Error::invalid(format!("producer {:?} has no session", stamp.name))
                    .with_hint("open a session first"),
            );
        };
        if stamp.epoch != mark.epoch {
            return Verdict::Refused(fenced(&stamp.name, mark.epoch));
        }
        if stamp.number > mark.number {
            return Verdict::New;
        }
        if stamp.number == mark.number && stamp.number > 0 {
            return match stamp.content_hash == mark.content_hash {
                true => Verdict::Duplicate(Horizon::inside(mark.scu, mark.batches)),
                false => Verdict::Refused(
                    Error::invalid(format!(
                        "producer {:?} gave number {} to two different batches",
                        stamp.name, stamp.number
                    ))
                    .with_hint(
                        "the first one counts; sent again after its table was changed, a batch is \
                     another one",
                    ),
                ),
            };
        }
        Verdict::Refused(
            Error::invalid(format!(
                "producer {:?} is at number {}: {} is not higher",
                stamp.name, mark.number, stamp.number
            ))
            .with_hint("open a new session: it tells the number of the last batch that counts"),
        )
    }

    /// A numbered batch is durable.
    pub(super) fn advance(&mut self, stamp: ProducerStamp, at: Horizon) {
        self.moved.insert(stamp.name.clone());
        self.marks.insert(
            stamp.name,
            ProducerMark {
                number: stamp.number,
                content_hash: stamp.content_hash,
                scu: at.scu,
                batches: at.batches.0,
                epoch: stamp.epoch,
            },
        );
    }

    /// The marks that moved in the SCU that is being sealed.
    pub(super) fn take_moved(&mut self) -> BTreeMap<String, ProducerMark> {
        let moved = std::mem::take(&mut self.moved);
        if is_planted(Planted::MarksForgotten) {
            return BTreeMap::new();
        }
        let mark = |name: String| self.marks.get(&name).map(|mark| (name, mark.clone()));
        moved.into_iter().filter_map(mark).collect()
    }
}

fn fenced(name: &str, epoch: u64) -> Error {
    Error::conflict(format!("a newer session of producer {name:?} was opened"))
        .with_detail(format!("its epoch is {epoch}"))
        .with_hint(
            "only the newest session of a producer may write; naming the producer again takes it \
             over",
        )
        .with_sqlstate(FENCED)
}
