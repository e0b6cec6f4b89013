//! Who may do what, for sessions: whose session it is, the gate that every read and write passes,
//! and the statements that change roles and grants.
//!
//! ```text
//!   connection -> authenticate -> Session of a role -> Identity: whose it is, as whom it acts
//!   statement  -> Gate of the moment: newest manifest, the transaction's own changes
//!                 reads    LazyTable::scan, point reads, system tables
//!                 writes   Sink: rows and tables
//! ```
//!
//! Embedded use, and `lazybase sql` on a folder, is whoever owns the folder, and may do everything.

use lazybase_model::access::{Access, RoleId};

pub(crate) mod attempts;
pub(crate) mod authenticate;
pub(crate) mod gate;
pub(crate) mod of_session;
pub(crate) mod scram;
pub(crate) mod statements;

pub(crate) use gate::Gate;

use crate::parse::CATALOG;

/// Whose session it is, and as whom it acts; `None` is whoever owns the folder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) session: Option<RoleId>,
    pub(crate) current: Option<RoleId>,
}

impl Identity {
    pub(crate) fn of(role: Option<RoleId>) -> Identity {
        Identity {
            session: role,
            current: role,
        }
    }
}

/// The name of a role, as SQL shows it.
pub(crate) fn name_of(access: &Access, role: Option<RoleId>) -> String {
    match role {
        None => CATALOG.to_owned(),
        Some(id) => match access.roles.get(&id) {
            Some(role) => role.name.clone(),
            None => format!("dropped role {}", id.0),
        },
    }
}
