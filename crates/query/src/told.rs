//! What only the session can tell of its settings: as whom it acts, what was answered last, and
//! where it is served.
//!
//! Values as a statement finds them; no I/O.

use std::sync::Arc;
use std::time::Duration;

use lazybase_model::access::Access;
use lazybase_model::{Freshness, Stamp, Token};

use crate::access::{Identity, name_of};
use crate::activity::Places;
use crate::database::Database;
use crate::session::State;

/// A session as it is when a statement begins.
#[derive(Debug)]
pub(crate) struct Told {
    access: Arc<Access>,
    identity: Identity,
    pub(crate) in_transaction: bool,
    reads_only: bool,
    retention: Duration,
    stamp: Option<Stamp>,
    token: Option<Token>,
    /// Of the server; where none is, nobody connects.
    places: Option<Places>,
}

impl Told {
    pub(crate) fn of(state: &State, database: &Database) -> Told {
        let instance = database.instance();
        Told {
            access: Arc::clone(&instance.manifest().access),
            identity: state.identity,
            in_transaction: state.transaction.is_some(),
            reads_only: state.is_read_only(),
            retention: instance.settings().retention,
            stamp: state.last_stamp.clone(),
            token: state.last_token,
            places: database.activities().places(),
        }
    }

    /// The value of a setting, where it is one of these.
    pub(crate) fn value(&self, name: &str) -> Option<String> {
        let on_off = |value: bool| if value { "on" } else { "off" }.to_owned();
        let Identity { session, current } = self.identity;
        Some(match name {
            "is_superuser" => on_off(self.access.rights_of(current).superuser),
            "role" if session == current => "none".to_owned(),
            "role" => name_of(&self.access, current),
            "session_authorization" => name_of(&self.access, session),
            "transaction_read_only" => on_off(self.reads_only),
            "max_connections" => self.places?.all.to_string(),
            "superuser_reserved_connections" => self.places?.of_superusers.to_string(),
            "lazybase.retention" => Freshness::Within(self.retention).to_string(),
            "lazybase.last_answer" => {
                let stamp = self.stamp.as_ref().map(ToString::to_string);
                stamp.unwrap_or_default()
            }
            "lazybase.last_token" => {
                let token = self.token.map(|token| token.to_string());
                token.unwrap_or_default()
            }
            _ => return None,
        })
    }
}
