//! As whom and with which settings a session acts.

use std::time::Duration;

use lazybase_cluster::BatchNumber;
use lazybase_model::Result;

use super::Session;
use crate::access::{Identity, name_of};
use crate::appender::Appender;
use crate::notice::Severity;
use crate::text_form::IntervalStyle;

impl Session {
    /// The value of a setting, as SHOW gives it.
    ///
    /// # Errors
    /// `NotFound` (42704) for an unknown name.
    pub fn setting(&self, name: &str) -> Result<String> {
        self.shared.state.lock().settings.show(name)
    }

    /// How long a statement of the session may take over the wire.
    pub fn statement_timeout(&self) -> Option<Duration> {
        limit(self.shared.state.lock().settings.statement_timeout_ms)
    }

    /// How long the session's client may leave a transaction idle.
    pub fn idle_in_transaction_timeout(&self) -> Option<Duration> {
        limit(self.shared.state.lock().settings.idle_in_transaction_ms)
    }

    /// Whether the session's client is told stamps and tokens.
    pub fn wants_notices(&self) -> bool {
        self.shared.state.lock().settings.notices
    }

    /// Whether the session's client is told notices of a severity, by `client_min_messages`.
    pub fn is_told(&self, severity: Severity) -> bool {
        severity.is_told(self.shared.state.lock().settings.min_messages)
    }

    /// Whether the session's client calls itself this.
    pub fn is_called(&self, application_name: &str) -> bool {
        self.shared.state.lock().settings.application_name == application_name
    }

    /// Whether this role has connected, or whoever owns the folder, who is called `lazybase`;
    /// whoever the session acts as now.
    pub fn is_of(&self, role: &str) -> bool {
        let connected = self.shared.state.lock().identity.session;
        name_of(&self.shared.visible().access(), connected) == role
    }

    /// How intervals are written that the session's client is sent as text.
    pub fn interval_style(&self) -> IntervalStyle {
        self.shared.state.lock().settings.interval_style
    }

    /// Whether the session's transactions only read, unless they say otherwise.
    pub fn reads_only(&self) -> bool {
        self.shared.state.lock().settings.read_only
    }

    /// Sets a setting, as SET does.
    ///
    /// # Errors
    /// `NotFound` (42704) for an unknown name, `Invalid` (22023) for a value that is not one.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        let mut state = self.shared.state.lock();
        state.set(&name.to_lowercase(), Some(value), false)
    }

    /// What a client should know of the settings of its role and the database that its session did
    /// not begin with, because they can't be set any more.
    pub fn unfollowed_settings(&self) -> Vec<String> {
        self.shared.state.lock().unfollowed.clone()
    }

    /// The settings as they are now are what RESET goes back to from here on.
    pub fn keep_settings(&self) {
        let mut state = self.shared.state.lock();
        state.defaults = state.settings.clone();
    }

    /// All settings back to what they began with, as RESET ALL does.
    ///
    /// # Errors
    /// `Invalid` (25001) for the number of a transaction that has written.
    pub fn reset_settings(&self) -> Result<()> {
        self.shared.state.lock().reset()
    }

    /// Opens a transaction for statements that a client sends together, unless there is one:
    /// BEGIN makes it the client's own, and without that it has no savepoints.
    pub fn begin_implicit(&self) {
        let mut state = self.shared.state.lock();
        if state.transaction.is_none() {
            let read_only = state.settings.read_only;
            state.begin(read_only, true);
        }
    }

    /// Whether the open transaction is one of [`Session::begin_implicit`].
    pub fn is_implicit(&self) -> bool {
        let state = self.shared.state.lock();
        state.transaction.as_ref().is_some_and(|open| open.implicit)
    }

    /// The session acts as the role that it began as, as RESET ROLE does.
    pub fn reset_role(&self) {
        let mut state = self.shared.state.lock();
        state.identity = Identity::of(state.identity.session);
    }

    /// Whether the role that the session acts as is a superuser.
    pub fn is_superuser(&self) -> bool {
        self.shared.at_gate(|gate| gate.rights().superuser)
    }

    /// The name of the role that the session acts as, and whether it is a superuser.
    pub fn acts_as(&self) -> (String, bool) {
        let gate = self.shared.gate_now();
        let current = self.shared.state.lock().identity.current;
        (name_of(gate.access(), current), gate.rights().superuser)
    }

    /// Appends Arrow batches to tables that the session may write, as one atomic batch.
    pub fn appender(&self, number: Option<BatchNumber>) -> Appender {
        Appender::new(
            self.shared.database.clone(),
            Some(self.shared.clone()),
            number,
        )
    }
}

/// A limit of so many milliseconds, where 0 is none.
fn limit(millis: u32) -> Option<Duration> {
    (millis > 0).then(|| Duration::from_millis(millis.into()))
}
