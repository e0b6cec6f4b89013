//! What a session may do with sequences.
//!
//! | privilege | lets                                                      |
//! | --------- | --------------------------------------------------------- |
//! | USAGE     | `nextval`, `currval`, `lastval`, and defaults that number |
//! | SELECT    | `currval`, `lastval`, and read it as a table              |
//! | UPDATE    | `nextval`, `setval`                                       |
//!
//! An identity column takes its numbers for whoever may insert: it asks nobody. Whoever owns a
//! sequence may do everything with it, and alone changes and drops it. Pure.

use lazybase_model::access::Privilege;
use lazybase_model::{Error, Result, Sequence};

use super::{Gate, denied, of_dropped_role};

impl Gate {
    pub(crate) fn owns_sequence(&self, sequence: &Sequence) -> bool {
        self.access.owns_sequence(&self.rights, sequence)
    }

    /// Whether a sequence is the session's own: one of a column is whose the table is.
    pub(crate) fn own_sequence(&self, sequence: &Sequence) -> Result<()> {
        match self.owns_sequence(sequence) {
            true => Ok(()),
            false => Err(denied(format!("you must own sequence {:?}", sequence.name))
                .with_hint("the owner of its table, its own, or a superuser may do this")),
        }
    }

    /// Whether the session may do anything at all with a sequence.
    pub(crate) fn sees_sequence(&self, sequence: &Sequence) -> bool {
        self.may_use(sequence, &Privilege::OF_SEQUENCES)
    }

    /// Whether numbers of a sequence may be taken.
    pub(crate) fn take_numbers(&self, sequence: &Sequence) -> Result<()> {
        self.use_sequence(sequence, &[Privilege::USAGE, Privilege::Update])
    }

    /// Whether the number may be told that the session took last of a sequence, or where it stands.
    pub(crate) fn tell_number(&self, sequence: &Sequence) -> Result<()> {
        self.use_sequence(sequence, &[Privilege::USAGE, Privilege::Select])
    }

    /// Whether a sequence may be set to a number.
    pub(crate) fn set_number(&self, sequence: &Sequence) -> Result<()> {
        self.use_sequence(sequence, &[Privilege::Update])
    }

    /// Whether a sequence may be read as a table of one row.
    pub(crate) fn read_sequence(&self, sequence: &Sequence) -> Result<()> {
        self.use_sequence(sequence, &[Privilege::Select])
    }

    fn may_use(&self, sequence: &Sequence, any_of: &[Privilege]) -> bool {
        let mut any_of = any_of.iter();
        any_of.any(|privilege| self.access.may_use(&self.rights, *privilege, sequence))
    }

    fn use_sequence(&self, sequence: &Sequence, any_of: &[Privilege]) -> Result<()> {
        match self.may_use(sequence, any_of) {
            true => Ok(()),
            false => Err(self.denied_use(sequence, any_of)),
        }
    }

    fn denied_use(&self, sequence: &Sequence, any_of: &[Privilege]) -> Error {
        let name = &sequence.name;
        let error = denied(format!("permission denied for sequence {name:?}"));
        if self.is_of_nobody() {
            return of_dropped_role(error);
        }
        let names = any_of.iter().map(|privilege| privilege.name_on_sequence());
        let names: Vec<&str> = names.collect();
        error
            .with_detail(format!("{} on it is needed", names.join(" or ")))
            .with_hint("its owner or a superuser can GRANT it ON SEQUENCE")
    }
}
