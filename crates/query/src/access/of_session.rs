//! What a session's role means for it: its gate, what only owners and superusers may do, and the
//! settings that it begins with.

use lazybase_model::Result;
use lazybase_model::access::{Access, RoleId};

use super::Gate;
use crate::parse::{CopyPlace, Statement};
use crate::session::{Shared, State};

impl Shared {
    /// What the session may do now.
    pub(crate) fn gate_now(&self) -> Gate {
        self.at_gate(Gate::clone)
    }

    /// Looks at what the session may do now, while nothing of it changes: `look` asks nothing of
    /// the session.
    pub(crate) fn at_gate<T>(&self, look: impl FnOnce(&Gate) -> T) -> T {
        let access = self.visible().access();
        let mut state = self.state.lock();
        let State {
            identity,
            settings,
            gate,
            ..
        } = &mut *state;
        let (role, narrowed) = (identity.current, settings.authorizations.as_ref());
        let known = gate.take();
        let known = known.filter(|gate| gate.is_of(&access, role, narrowed));
        let now = known.unwrap_or_else(|| Gate::new(access, role, narrowed));
        look(gate.insert(now))
    }

    /// Whether the session may do what is not about the rows of a table: those are asked for where
    /// they are read and written.
    pub(crate) fn check_may(&self, statement: &Statement) -> Result<()> {
        let gate = self.gate_now();
        match statement {
            Statement::Settle { table: None, .. } => gate.superuser("settle all tables"),
            Statement::Settle {
                table: Some(table), ..
            } => gate.own(&*self.table(table)?),
            Statement::VerifyTable { table, .. } => {
                let table = self.table(table)?;
                gate.own(&table)?;
                gate.see_all(&table, "verify")
            }
            Statement::Backup { .. } => gate.superuser("make backups"),
            Statement::Pause(_) | Statement::Resume(_) => gate.superuser("pause and resume stages"),
            Statement::CopyTo { file, .. } | Statement::CopyFrom { file, .. } => {
                match &file.place {
                    CopyPlace::File(_) => gate
                        .superuser("read and write files of the server")
                        .map_err(|error| error.with_hint("COPY from STDIN and to STDOUT")),
                    CopyPlace::Input | CopyPlace::Output => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}

/// The settings that a session begins with: the database's, then the role's.
pub(crate) fn begun(access: &Access, role: Option<RoleId>) -> Vec<(String, String)> {
    let of_role = role.and_then(|role| access.roles.get(&role));
    let of_role = of_role.map(|role| &role.settings);
    let mut begun = access.settings.clone();
    begun.extend(of_role.cloned().unwrap_or_default());
    begun.into_iter().collect()
}
