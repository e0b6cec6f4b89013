//! Makes a failing story small: leaves out one thing after the other as long as it still fails in
//! the same way.

use crate::run::{Outcome, run_caught};
use crate::schema::Shape;
use crate::story::Trim;
use crate::violation::kind_of;

/// The most runs that one story is shrunk with.
const RUNS_MAX: usize = 80;

/// The smallest story found that has a violation of the same kind, with everything that happened in
/// it.
pub fn shrink(seed: u64, whole: Trim, violation: &str) -> (Trim, Outcome) {
    let run = |trim| run_caught(seed, trim, false).violation;
    let trim = smallest(whole, &kind_of(violation), run);
    (trim, run_caught(seed, trim, true))
}

/// The smallest story found that has a violation of this kind, where `run` tells violations.
fn smallest(whole: Trim, kind: &str, mut run: impl FnMut(Trim) -> Option<String>) -> Trim {
    let mut trim = whole;
    let mut runs = 0;
    let mut fails = |trim: &Trim| {
        runs += 1;
        runs <= RUNS_MAX && run(*trim).is_some_and(|violation| kind_of(&violation) == kind)
    };
    loop {
        let smaller = smaller(&trim).into_iter().find(|smaller| fails(smaller));
        match smaller {
            Some(smaller) => trim = smaller,
            None => return trim,
        }
    }
}

/// Stories from which one thing more is left out, the largest things first.
fn smaller(trim: &Trim) -> Vec<Trim> {
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut Trim)| {
        let mut changed = *trim;
        change(&mut changed);
        if changed != *trim {
            all.push(changed);
        }
    };
    with(&|trim| trim.operations /= 2);
    with(&|trim| trim.shape = Some(Shape::Plain));
    with(&|trim| trim.faults = false);
    with(&|trim| trim.strikes = false);
    with(&|trim| trim.records = false);
    with(&|trim| trim.gone = false);
    with(&|trim| trim.hangs = false);
    with(&|trim| trim.stands = false);
    with(&|trim| trim.operator = false);
    with(&|trim| trim.lives = 1);
    with(&|trim| trim.lives = trim.lives.min(4).saturating_sub(1).max(1));
    with(&|trim| trim.truncates = false);
    with(&|trim| trim.replaces = false);
    with(&|trim| trim.remakes = false);
    with(&|trim| trim.frames = false);
    with(&|trim| trim.sequences = false);
    with(&|trim| trim.bound = false);
    with(&|trim| trim.schema.later = false);
    with(&|trim| trim.delays = false);
    with(&|trim| trim.readers = trim.readers.saturating_sub(1));
    with(&|trim| trim.writers = trim.writers.saturating_sub(1).max(1));
    with(&|trim| trim.schema.views = false);
    with(&|trim| trim.schema.partitions = false);
    with(&|trim| trim.schema.operators = false);
    with(&|trim| trim.schema.ttl = false);
    with(&|trim| trim.schema.ids = false);
    with(&|trim| trim.schema.alters = false);
    with(&|trim| trim.schema.tables = trim.schema.tables.saturating_sub(1).max(1));
    with(&|trim| trim.operations = trim.operations * 3 / 4);
    all
}

#[cfg(test)]
mod tests;
