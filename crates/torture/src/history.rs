//! What clients sent, heard and saw, and whether it can be true. Pure, and knows nothing of
//! LazyBase: a promise is checked against clocks and answers of the clients alone.
//!
//! Each writer appends its numbers 1, 2, 3... to a register, one batch a number, one at a time. So
//! an answer is told by how far it has come in each register; the promises say what such answers
//! may look like:
//!
//! | promise | check |
//! | --- | --- |
//! | durability | what was acknowledged is there at the end |
//! | atomicity | what was refused is not there; an answer shows all of a batch or nothing |
//! | consistent prefix | of any two answers one holds the other |
//! | order | an answer holds what was acknowledged before what it holds was sent |
//! | freshness | what was acknowledged before the bound is in the answer |
//! | monotonic reads | in a session answers never go back |
//! | read your writes | an answer after a token holds the token's batch |
//! | nothing invented | an answer holds nothing that was not sent yet, or is not there at the end |
//! | right rows | whole rows are those that the batches of the answer make (`tables.rs`) |
//! | no needless conflict | a batch is refused for a change of its table only while there is one |
//! | stamps | the answer of a later horizon holds that of an earlier one; at one they are equal |

use std::collections::{BTreeMap, BTreeSet};

use crate::tables::{Rows, changes_table};

#[cfg(test)]
mod tests;

/// Microseconds of the clients' one clock.
pub(crate) type Micros = u64;
/// A register, named after its writer.
pub(crate) type Register = u32;
/// The last whole SCU of a horizon, and the batches behind it.
pub(crate) type Horizon = (u64, u64);

/// What a writer knows of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It was acknowledged then.
    Acknowledged(Micros),
    /// It was refused: it is not there.
    Refused,
    /// The connection broke, or the server could not tell.
    Unknown,
}

/// A batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Write {
    pub(crate) register: Register,
    pub(crate) number: u64,
    pub(crate) sent: Micros,
    pub(crate) fate: Fate,
}

/// How far an answer has come in a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reached {
    /// The greatest number that it shows; 0 if none.
    pub(crate) greatest: u64,
    /// How many it shows.
    pub(crate) count: u64,
}

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// Answers of one session came one after the other.
    pub(crate) session: u64,
    pub(crate) began: Micros,
    pub(crate) ended: Micros,
    /// How old it may be; none for best effort.
    pub(crate) bound: Option<Micros>,
    /// The batch whose token the query gave.
    pub(crate) after: Option<(Register, u64)>,
    /// The horizon that its stamp names.
    pub(crate) at: Option<Horizon>,
    pub(crate) reached: BTreeMap<Register, Reached>,
    /// The rows themselves, where they were read.
    pub(crate) rows: Option<Rows>,
}

impl Answer {
    fn reached(&self, register: Register) -> Reached {
        self.reached.get(&register).copied().unwrap_or_default()
    }

    fn holds(&self, register: Register, number: u64) -> bool {
        number <= self.reached(register).greatest
    }
}

/// Everything that happened.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// By register, in the order of their numbers; a batch that was sent again stands once, with
    /// the time at which it was sent first.
    pub(crate) writes: BTreeMap<Register, Vec<Write>>,
    pub(crate) answers: Vec<Answer>,
    /// When batches were sent, and when they were heard to be refused, because their table had been
    /// changed meanwhile.
    pub(crate) conflicts: Vec<(Micros, Micros)>,
}

/// What the registers hold at the end.
pub(crate) type Final = BTreeMap<Register, BTreeSet<u64>>;

impl History {
    /// Notes a batch, or what became of one that is sent again.
    pub(crate) fn note(&mut self, write: Write) {
        let writes = self.writes.entry(write.register).or_default();
        match writes.last_mut() {
            Some(last) if last.number == write.number => last.fate = write.fate,
            _ => writes.push(write),
        }
    }

    /// The greatest number that any register sent.
    pub(crate) fn newest(&self) -> u64 {
        let newest = self.writes.values().filter_map(|writes| writes.last());
        newest.map(|write| write.number).max().unwrap_or_default()
    }

    /// What can't be true, in words.
    pub(crate) fn violations(&self, last: &Final) -> Vec<String> {
        let mut found = self.lost_or_invented(last);
        for (at, answer) in self.answers.iter().enumerate() {
            let told = |what: String| format!("answer {at} ({answer:?}): {what}");
            found.extend(self.of_one_answer(answer, last).into_iter().map(told));
        }
        found.extend(self.going_back());
        found.extend(self.side_by_side());
        found.extend(self.stamped());
        found.extend(self.needless_conflicts());
        found
    }

    /// What is not there that must be, or is there and must not, once all writers are silent.
    pub(crate) fn lost_or_invented(&self, last: &Final) -> Vec<String> {
        let mut found = Vec::new();
        let nothing = BTreeSet::new();
        for (register, writes) in &self.writes {
            let there = last.get(register).unwrap_or(&nothing);
            for write in writes {
                let is_there = there.contains(&write.number);
                match write.fate {
                    Fate::Acknowledged(_) if !is_there => {
                        found.push(format!("acknowledged and lost: {write:?}"));
                    }
                    Fate::Refused if is_there => {
                        found.push(format!("refused, and there all the same: {write:?}"));
                    }
                    _ => {}
                }
            }
            let sent: BTreeSet<u64> = writes.iter().map(|write| write.number).collect();
            let invented: Vec<_> = there.difference(&sent).collect();
            if !invented.is_empty() {
                found.push(format!(
                    "register {register} holds {invented:?}, never sent"
                ));
            }
        }
        found
    }

    fn of_one_answer(&self, answer: &Answer, last: &Final) -> Vec<String> {
        let mut found = Vec::new();
        if let Some((register, number)) = answer.after
            && !answer.holds(register, number)
        {
            found.push(format!(
                "{number} of register {register} is missing, whose token it was given"
            ));
        }
        for (register, writes) in &self.writes {
            let reached = answer.reached(*register);
            let there = last
                .get(register)
                .map_or(0, |there| there.range(..=reached.greatest).count());
            if there as u64 != reached.count {
                found.push(format!(
                    "register {register} has {} numbers, at the end {there} up to the same one",
                    reached.count
                ));
            }
            let newest = writes
                .iter()
                .rev()
                .find(|write| write.number <= reached.greatest);
            if let Some(newest) = newest.filter(|newest| newest.sent > answer.ended) {
                found.push(format!("it holds what was sent later: {newest:?}"));
            }
            if let Some(bound) = answer.bound {
                let due = acknowledged_before(writes, answer.began.saturating_sub(bound));
                if let Some(due) = due.filter(|due| !answer.holds(*register, due.number)) {
                    found.push(format!("it is too stale: {due:?} is missing"));
                }
            }
            if let Some(newest) = newest {
                found.extend(self.before(newest, answer));
            }
        }
        if let Some(rows) = &answer.rows {
            let reached = |register| answer.reached(register).greatest;
            found.extend(rows.differences(&Rows::due(rows.from, last, reached)));
        }
        found
    }

    /// What was acknowledged before a batch was sent, and is missing where that batch is.
    fn before(&self, held: &Write, answer: &Answer) -> Option<String> {
        self.writes.iter().find_map(|(register, writes)| {
            let earlier = acknowledged_before(writes, held.sent)?;
            (!answer.holds(*register, earlier.number)).then(|| {
                format!("it holds {held:?} without {earlier:?}, which was acknowledged before")
            })
        })
    }

    fn going_back(&self) -> Vec<String> {
        let mut newest: BTreeMap<u64, &Answer> = BTreeMap::new();
        let mut found = Vec::new();
        for answer in &self.answers {
            if let Some(before) = newest.insert(answer.session, answer)
                && !is_within(before, answer)
            {
                found.push(format!("a session went back from {before:?} to {answer:?}"));
            }
        }
        found
    }

    /// Answers by how much they hold: each must hold the one before.
    fn side_by_side(&self) -> Vec<String> {
        let mut answers: Vec<&Answer> = self.answers.iter().collect();
        let held = |answer: &&Answer| -> u64 {
            answer.reached.values().map(|reached| reached.count).sum()
        };
        answers.sort_by_key(held);
        let pairs = answers.windows(2);
        let apart = pairs.filter(|pair| !is_within(pair[0], pair[1]));
        apart
            .map(|pair| format!("no order has both {:?} and {:?}", pair[0], pair[1]))
            .collect()
    }
}

impl History {
    /// Batches that were refused for a change of their table, while nobody changed one.
    fn needless_conflicts(&self) -> Vec<String> {
        let changes = self.writes.values().flat_map(|writes| changes_in(writes));
        let changes: Vec<(Micros, Micros)> = changes.collect();
        let is_needless = |(sent, heard): &&(Micros, Micros)| {
            let overlaps = |(began, ended): &(Micros, Micros)| began <= heard && sent <= ended;
            !changes.iter().any(overlaps)
        };
        let needless = self.conflicts.iter().filter(is_needless);
        needless
            .map(|(sent, heard)| {
                format!("a batch of {sent} was refused at {heard} for a change that nobody made")
            })
            .collect()
    }

    /// Answers by the horizons of their stamps.
    fn stamped(&self) -> Vec<String> {
        let answers = self.answers.iter();
        let mut stamped: Vec<(Horizon, &Answer)> = answers
            .filter_map(|answer| Some((answer.at?, answer)))
            .collect();
        stamped.sort_by_key(|(at, _)| *at);
        let pairs = stamped.windows(2);
        let apart = pairs.filter(|pair| {
            let ((at, one), (later, other)) = (pair[0], pair[1]);
            !is_within(one, other) || (at == later && !is_within(other, one))
        });
        apart
            .map(|pair| format!("stamps order {:?} before {:?}", pair[0], pair[1]))
            .collect()
    }
}

/// The last batch of a register that was acknowledged before a moment.
fn acknowledged_before(writes: &[Write], moment: Micros) -> Option<&Write> {
    let before = |write: &&Write| matches!(write.fate, Fate::Acknowledged(at) if at < moment);
    // A writer sends one batch after the other: acknowledgements rise with numbers.
    let end = writes.partition_point(|write| write.sent < moment);
    writes[..end].iter().rev().find(before)
}

/// From when to when a register's batches changed a table, as far as is known: of one whose end
/// nobody heard, until its writer sent the next.
fn changes_in(writes: &[Write]) -> Vec<(Micros, Micros)> {
    let all = writes.iter().enumerate();
    let changes = all.filter(|(_, write)| changes_table(write.register, write.number));
    let spans = changes.map(|(at, write)| {
        let next = writes.get(at + 1).map_or(Micros::MAX, |next| next.sent);
        match write.fate {
            Fate::Acknowledged(ended) => (write.sent, ended),
            Fate::Refused | Fate::Unknown => (write.sent, next),
        }
    });
    spans.collect()
}

fn is_within(one: &Answer, other: &Answer) -> bool {
    one.reached.iter().all(|(register, reached)| {
        let more = other.reached(*register);
        reached.greatest <= more.greatest && reached.count <= more.count
    })
}
