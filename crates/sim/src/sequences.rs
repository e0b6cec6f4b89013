//! What is known of sequences: which one has each name, and which numbers it gave out. It outlives
//! the processes: no number comes again, whatever crashed, and none before one that was given out.
//!
//! ```text
//!   none, or one --proposed--> that, or another one in its place
//!                                 |--acknowledged, or seen--> the other one: it begins anew
//!                                 \--refused, or not there at the next opening--> as before
//! ```
//!
//! Pure. Nothing is known of how numbers are reserved.

use std::collections::{BTreeMap, BTreeSet};

use lazybase_model::SequenceId;

use crate::marks::Mark;
use crate::story::SequenceDraw;

/// The sequences of a story, by their places in it.
#[derive(Debug, Default)]
pub(crate) struct Sequences(BTreeMap<usize, OfName>);

/// What is known of a name.
#[derive(Debug, Default)]
struct OfName {
    /// The sequence that has it.
    current: Option<SequenceId>,
    /// One that may have taken its place.
    proposed: Option<SequenceId>,
    /// What each that ever had it gave out.
    given: BTreeMap<SequenceId, Given>,
}

/// What a sequence gave out.
#[derive(Debug, Default)]
struct Given {
    /// The numbers that somebody heard of; of one that begins again, none are kept.
    numbers: BTreeSet<i64>,
    /// The last of them, and the life in which it was given out.
    last: Option<(i64, u32)>,
    /// How often numbers were asked for.
    asked: u64,
}

/// Somebody waits for numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    place: usize,
    /// The sequence.
    pub(crate) id: SequenceId,
    /// How many.
    pub(crate) wanted: usize,
    /// The last number that had been given out when they were asked for, and in which life.
    behind: Option<(i64, u32)>,
    life: u32,
}

impl Sequences {
    /// Whether a sequence of this name was ever there.
    pub(crate) fn is_known(&self, place: usize) -> bool {
        self.0.get(&place).is_some_and(|of| of.current.is_some())
    }

    /// Somebody sees which sequence has a name.
    ///
    /// # Errors
    /// What is wrong with that.
    pub(crate) fn see(&mut self, place: usize, seen: Option<SequenceId>) -> Result<(), String> {
        let of = self.0.entry(place).or_default();
        if seen.is_some() && seen == of.proposed {
            of.current = of.proposed.take();
        }
        match seen == of.current {
            true => Ok(()),
            false => Err(format!(
                "sequence {place} is {seen:?}, and should be {:?}, or {:?} if that was made",
                of.current, of.proposed
            )),
        }
    }

    /// The database was opened: what was in doubt is none any more.
    ///
    /// # Errors
    /// As [`Sequences::see`].
    pub(crate) fn opened(&mut self, place: usize, seen: Option<SequenceId>) -> Result<(), String> {
        self.see(place, seen)?;
        self.0.entry(place).or_default().proposed = None;
        Ok(())
    }

    /// From now on another sequence may have the name.
    pub(crate) fn propose(&mut self, place: usize, id: SequenceId) {
        self.0.entry(place).or_default().proposed = Some(id);
    }

    /// Whether it is not known which sequence has the name.
    pub(crate) fn is_in_doubt(&self, place: usize) -> bool {
        let of = self.0.get(&place);
        of.is_some_and(|of| of.proposed.is_some())
    }

    /// The other sequence has it. Somebody may have seen that before.
    ///
    /// # Errors
    /// What is wrong with that.
    pub(crate) fn made(&mut self, place: usize, id: SequenceId) -> Result<(), String> {
        self.see(place, Some(id))
    }

    /// The other sequence will never have it.
    ///
    /// # Errors
    /// What is wrong with that.
    pub(crate) fn refused(&mut self, place: usize, id: SequenceId) -> Result<(), String> {
        let of = self.0.entry(place).or_default();
        of.proposed = None;
        match of.current == Some(id) {
            true => Err(format!(
                "sequence {place} was refused for certain as {id}, and is there"
            )),
            false => Ok(()),
        }
    }

    /// Somebody asks for numbers of a sequence.
    pub(crate) fn ask(&mut self, place: usize, id: SequenceId, wanted: usize, life: u32) -> Asked {
        let of = self.0.entry(place).or_default();
        let given = of.given.entry(id).or_default();
        given.asked += 1;
        Asked {
            place,
            id,
            wanted,
            behind: given.last,
            life,
        }
    }

    /// Whether a sequence that numbers were asked of may be gone.
    pub(crate) fn may_be_gone(&self, asked: &Asked) -> bool {
        let of = self.0.get(&asked.place);
        of.is_none_or(|of| of.current != Some(asked.id) || of.proposed.is_some())
    }

    /// Somebody hears of numbers; what they are examples of.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn answer(
        &mut self,
        draw: &SequenceDraw,
        asked: &Asked,
        numbers: &[i64],
    ) -> Result<Vec<Mark>, String> {
        let of = self.0.entry(asked.place).or_default();
        let is_other = of.given.len() > 1;
        let given = of.given.entry(asked.id).or_default();
        let wrong = |what: String| {
            let Asked { id, wanted, .. } = asked;
            format!("{wanted} numbers of sequence {id}, {draw:?}, are {numbers:?}: {what}")
        };
        let ([first, ..], [.., last]) = (numbers, numbers) else {
            return Err(wrong("none was given out".to_owned()));
        };
        if numbers.len() != asked.wanted {
            return Err(wrong(format!("these are {}", numbers.len())));
        }
        if let Some(number) = numbers.iter().find(|number| !is_of(draw, **number)) {
            return Err(wrong(format!("{number} is none of them")));
        }
        let mut met = vec![Mark::NumbersTaken];
        let behind = asked.behind.map(|(number, _)| number);
        if draw.cycles {
            let mut before = behind.unwrap_or(draw.start);
            let begins = |number: &&i64| **number < std::mem::replace(&mut before, **number);
            met.extend(numbers.iter().find(begins).map(|_| Mark::NumbersAgain));
        } else {
            given.take(draw, behind, numbers).map_err(wrong)?;
        }
        // Nobody else has asked for any yet.
        if given.asked == 1 && *first != draw.start {
            return Err(wrong(format!("it begins with {}", draw.start)));
        }
        if given.asked == 1 && is_other {
            met.push(Mark::SequenceRemade);
        }
        if let Some((number, _)) = given.last.filter(|(_, life)| *life < asked.life) {
            met.push(Mark::NumbersGoOn);
            let is_next = number.checked_add(draw.increment) == Some(*first);
            met.extend((!is_next).then_some(Mark::NumbersSkipped));
        }
        let is_later = |(number, _): (i64, u32)| draw.cycles || comes_after(draw, *last, number);
        if given.last.is_none_or(is_later) {
            given.last = Some((*last, asked.life));
        }
        Ok(met)
    }
}

impl Given {
    /// Takes down numbers, each of which has to come after the one before it, and all behind what
    /// was given out before they were asked for.
    fn take(
        &mut self,
        draw: &SequenceDraw,
        behind: Option<i64>,
        numbers: &[i64],
    ) -> Result<(), String> {
        let mut before = behind;
        for number in numbers {
            if let Some(before) = before.filter(|before| !comes_after(draw, *number, *before)) {
                return Err(format!("{number} comes after {before}"));
            }
            if !self.numbers.insert(*number) {
                return Err(format!("{number} was given out before"));
            }
            before = Some(*number);
        }
        Ok(())
    }
}

/// Whether a number comes after another one, of a sequence that does not begin again.
fn comes_after(draw: &SequenceDraw, number: i64, before: i64) -> bool {
    match draw.increment > 0 {
        true => number > before,
        false => number < before,
    }
}

/// Whether a sequence can give a number out.
fn is_of(draw: &SequenceDraw, number: i64) -> bool {
    let (least, greatest) = draw.bounds;
    let steps = i128::from(number) - i128::from(draw.start);
    let is_behind = draw.cycles || number == draw.start || comes_after(draw, number, draw.start);
    let is_step = steps % i128::from(draw.increment) == 0;
    (least..=greatest).contains(&number) && is_step && is_behind
}

#[cfg(test)]
mod tests;
