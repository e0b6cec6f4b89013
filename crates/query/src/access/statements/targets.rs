//! What GRANT and REVOKE come to on each table, view and sequence that they name, if the session
//! may say so. Privileges on sequences are kept as those on tables are.

use lazybase_model::access::{Object, Privilege};
use lazybase_model::{Error, Result, Table};

use super::{Asked, Given, whole};
use crate::access::gate::denied;
use crate::parse::roles::Listed;
use crate::visible::SeenSequence;

/// Who grants.
const GRANTORS: &str = "its owner and superusers grant, and who has all of it WITH GRANT OPTION";

impl Asked {
    /// What a statement gives, or takes, on the tables, views and sequences of these names.
    pub(super) fn on_tables(
        &self,
        names: &[String],
        privileges: &Listed,
        passes: bool,
    ) -> Result<Given> {
        let mut given = Given::new();
        for name in names {
            let on = match self.visible.relation(name) {
                None => self.on_sequence_as_table(name, privileges, passes)?,
                Some(_) => None,
            };
            given.extend(match on {
                Some(on) => on,
                None => {
                    let table = self.table(name)?;
                    self.on_table(&table, privileges, passes)?
                }
            });
        }
        Ok(given)
    }

    /// What a statement gives, or takes, on all tables and views.
    pub(super) fn on_all_tables(&self, privileges: &Listed, passes: bool) -> Result<Given> {
        let mut given = Given::new();
        for table in self.visible.relations() {
            given.extend(self.on_table(&table, privileges, passes)?);
        }
        Ok(given)
    }

    /// What a statement grants on a table, or takes, if the session may: an owner all of it, others
    /// what they have with a grant option, and only to pass it on.
    fn on_table(&self, table: &Table, privileges: &Listed, passes: bool) -> Result<Given> {
        let given = of_table(table, privileges)?;
        let rights = self.gate.rights();
        let may = |privilege: &Privilege| {
            self.gate.owns(table.id)
                || (passes && self.access.may_pass(rights, *privilege, table.id))
        };
        match given.iter().flat_map(|(_, all)| all).all(may) {
            true => Ok(given),
            false => {
                let what = format!("permission denied for {:?}", table.name);
                Err(denied(what).with_detail(GRANTORS))
            }
        }
    }

    /// What a statement gives, or takes, on the sequences of these names.
    pub(super) fn on_sequences(
        &self,
        names: &[String],
        privileges: &Listed,
        passes: bool,
    ) -> Result<Given> {
        let mut given = Given::new();
        for name in names {
            let seen = self.visible.require_sequence(name)?;
            given.extend(self.on_sequence(&seen, privileges, passes)?);
        }
        Ok(given)
    }

    /// What a statement gives, or takes, on all sequences but those of temporary tables.
    pub(super) fn on_all_sequences(&self, privileges: &Listed, passes: bool) -> Result<Given> {
        let mut given = Given::new();
        for seen in self.visible.sequences() {
            if !seen.is_temporary {
                given.extend(self.on_sequence(&seen, privileges, passes)?);
            }
        }
        Ok(given)
    }

    /// What a statement gives, or takes, on a sequence that it names as if it were a table; nothing
    /// where there is none of that name.
    ///
    /// # Errors
    /// `Invalid` (0LP01) for privileges that sequences have not, though tables have them.
    fn on_sequence_as_table(
        &self,
        name: &str,
        privileges: &Listed,
        passes: bool,
    ) -> Result<Option<Given>> {
        let Some(seen) = self.visible.sequence_named(name) else {
            return Ok(None);
        };
        for (privilege, columns) in privileges {
            let is_of_both = |privilege: &Privilege| {
                *privilege != Privilege::USAGE && Privilege::OF_SEQUENCES.contains(privilege)
            };
            if !columns.is_empty() || privilege.as_ref().is_some_and(|one| !is_of_both(one)) {
                let what = format!("{name:?} is a sequence");
                return Err(Error::invalid(what)
                    .with_hint("GRANT USAGE, SELECT, UPDATE or ALL ON SEQUENCE")
                    .with_sqlstate("0LP01"));
            }
        }
        self.on_sequence(&seen, privileges, passes).map(Some)
    }

    /// As on a table: its owner may give all of it, others what they have with a grant option, and
    /// only to pass it on.
    fn on_sequence(&self, seen: &SeenSequence, privileges: &Listed, passes: bool) -> Result<Given> {
        let (sequence, rights) = (&seen.sequence, self.gate.rights());
        let on = Object::Table(sequence.id.as_object());
        let given = whole(on, &Privilege::OF_SEQUENCES, privileges);
        let may = |privilege: &Privilege| match passes {
            true => self.access.may_pass_use(rights, *privilege, sequence),
            false => self.access.owns_sequence(rights, sequence),
        };
        match given.iter().flat_map(|(_, all)| all).all(may) {
            true => Ok(given),
            false => {
                let what = format!("permission denied for sequence {:?}", sequence.name);
                Err(denied(what).with_detail(GRANTORS))
            }
        }
    }
}

/// What is listed, on a table and on columns of it.
fn of_table(table: &Table, listed: &Listed) -> Result<Given> {
    let on_all = |listed: &&(Option<Privilege>, Vec<String>)| listed.1.is_empty();
    let all: Listed = listed.iter().filter(on_all).cloned().collect();
    let mut given = match all.is_empty() {
        true => Vec::new(),
        false => whole(Object::Table(table.id), &Privilege::OF_TABLES, &all),
    };
    for (privilege, columns) in listed {
        for column in columns {
            let at = crate::dml::insert::column(table, column)?;
            let on = Object::Column(table.id, table.columns[at].id);
            let privileges = match privilege {
                Some(privilege) => [*privilege].into(),
                None => Privilege::OF_COLUMNS.into(),
            };
            given.push((on, privileges));
        }
    }
    Ok(given)
}
