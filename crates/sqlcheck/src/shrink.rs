//! Makes a story that fails small: steps are left out, ever fewer at a time, as long as it fails.

use crate::run::{Outcome, Violation};
use crate::story::Story;
use crate::sweep::Teller;

/// How often a story is told again at most.
const TRIES_MAX: usize = 300;

/// The smallest story found that fails, and how it ended.
pub(crate) fn shrink(teller: &Teller, story: &Story) -> (Story, Outcome) {
    let mut small = story.clone();
    let mut outcome = teller.tell(&small);
    let Some(first) = outcome.violation.as_ref().map(kind) else {
        return (small, outcome);
    };
    let mut tries = 0;
    let mut length = small.steps.len().div_ceil(2);
    while length > 0 && tries < TRIES_MAX {
        let mut from = 0;
        let mut left_out = false;
        while from < small.steps.len() && tries < TRIES_MAX {
            let mut less = small.clone();
            let to = (from + length).min(less.steps.len());
            less.steps.drain(from..to);
            tries += 1;
            let tried = teller.tell(&less);
            match tried
                .violation
                .as_ref()
                .is_some_and(|what| kind(what) == first)
            {
                true => {
                    (small, outcome) = (less, tried);
                    left_out = true;
                }
                false => from = to,
            }
        }
        if !left_out || length > 1 {
            length /= 2;
        }
    }
    (small, outcome)
}

/// What fails, without what differs from one telling to the next.
fn kind(violation: &Violation) -> String {
    let text = &violation.0;
    let short = [
        "only the plain engine",
        "refused",
        "the answer at",
        "a panic",
        "nothing came",
        "done, and not refused",
        "another session",
        "what is not there",
        "a row was taken",
        "told of",
        "failed alone",
        "not restored",
        "restored",
    ];
    let found = short.into_iter().find(|begin| text.starts_with(begin));
    found.unwrap_or("rows").to_owned()
}
