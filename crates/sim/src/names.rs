//! What answers said of natural keys and their numbers: each key has one number, for ever, and each
//! number belongs to one key. Nothing else is known of numbers here, not how they are given out.
//!
//! Outlives the processes: what was read before a crash holds after it.

use std::collections::{BTreeMap, BTreeSet};

use lazybase_model::id_key::NO_ID;

/// The numbers of all natural keys that any answer showed.
#[derive(Debug, Default)]
pub(crate) struct Names {
    owners: BTreeMap<usize, OfOwner>,
}

/// Those of one owner.
#[derive(Debug, Default)]
struct OfOwner {
    codes: BTreeMap<i64, i64>,
    ids: BTreeMap<i64, i64>,
    /// Numbers that were read before anything had written them down.
    early: BTreeSet<i64>,
}

impl Names {
    /// An answer showed that a key has a number; `early` if that was not written down then.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn learn(
        &mut self,
        owner: usize,
        code: i64,
        id: i64,
        early: bool,
    ) -> Result<(), String> {
        check(owner, id)?;
        let of_owner = self.owners.entry(owner).or_default();
        let known = *of_owner.ids.entry(code).or_insert(id);
        if known != id {
            return Err(format!(
                "key {code} of table {owner} has number {id}, and had {known} before"
            ));
        }
        let known = *of_owner.codes.entry(id).or_insert(code);
        if known != code {
            return Err(format!(
                "number {id} of table {owner} stands for key {code}, and stood for {known}"
            ));
        }
        if early {
            of_owner.early.insert(id);
        }
        Ok(())
    }

    /// The key that a number stands for.
    ///
    /// # Errors
    /// What is wrong with the number.
    pub(crate) fn code(&self, owner: usize, id: i64) -> Result<Option<i64>, String> {
        check(owner, id)?;
        let of_owner = self.owners.get(&owner);
        Ok(of_owner.and_then(|of_owner| of_owner.codes.get(&id).copied()))
    }

    /// The number of a key.
    pub(crate) fn id(&self, owner: usize, code: i64) -> Option<i64> {
        self.owners.get(&owner)?.ids.get(&code).copied()
    }

    /// Whether a number was read before it was written down.
    pub(crate) fn was_early(&self, owner: usize, id: i64) -> bool {
        let of_owner = self.owners.get(&owner);
        of_owner.is_some_and(|of_owner| of_owner.early.contains(&id))
    }
}

/// No answer shows what only stands for a number.
fn check(owner: usize, id: i64) -> Result<(), String> {
    match id {
        NO_ID | 0 => Err(format!(
            "an answer shows {id} as a number of table {owner}, which is none"
        )),
        id if id < 0 => Err(format!(
            "an answer shows the temporary ID {id} of table {owner}"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
