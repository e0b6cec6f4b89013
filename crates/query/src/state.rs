//! What a session remembers, as its statements change it: settings and the role that it acts as,
//! which a transaction takes back, and the transaction itself.
//!
//! ```text
//!   SET           holds at once, and stays when the transaction is committed
//!   SET LOCAL     holds at once, and ends with the transaction
//!   set_config    holds for what follows its query, as either of them
//!   ROLLBACK      settings as they were at BEGIN, or at the savepoint
//!   RESET         what the connection began with
//! ```
//!
//! Reads and writes memory only. Invariant STA-1: a transaction ends through [`State::take`] alone,
//! and leaves the settings, and as whom the session acts, as they were before it: a role that only
//! the transaction made has a number that another one may get.

use lazybase_model::{Error, Result};

use crate::session::State;
use crate::transaction::Transaction;

impl State {
    /// Sets a setting; no value stands for what the connection began with.
    ///
    /// # Errors
    /// As [`crate::settings::Settings::set`]; `Invalid` (25001) for the number of a transaction
    /// that has written already.
    pub(crate) fn set(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<()> {
        let numbers = matches!(name, "lazybase.producer" | "lazybase.batch_number");
        let transaction = self.transaction.as_mut();
        if numbers && transaction.as_ref().is_some_and(|open| open.wrote) {
            return Err(number_is_taken());
        }
        self.settings.set(name, value, &self.defaults)?;
        if let Some(transaction) = transaction.filter(|_| !local) {
            transaction.lasting.set(name, value, &self.defaults)?;
        }
        if name == "lazybase.producer" {
            self.producer = None;
        }
        Ok(())
    }

    /// All settings as the connection began with.
    ///
    /// # Errors
    /// `Invalid` (25001) for the number of a transaction that has written already.
    pub(crate) fn reset(&mut self) -> Result<()> {
        let (now, then) = (&self.settings, &self.defaults);
        let same = now.producer == then.producer && now.batch_number == then.batch_number;
        if let Some(transaction) = &mut self.transaction {
            if transaction.wrote && !same {
                return Err(number_is_taken());
            }
            transaction.lasting = self.defaults.clone();
        }
        self.settings = self.defaults.clone();
        self.producer = None;
        Ok(())
    }

    /// Whether what runs now may only read: by its transaction, or outside of one by the session.
    pub(crate) fn is_read_only(&self) -> bool {
        match &self.transaction {
            Some(transaction) => transaction.read_only,
            None => self.settings.read_only,
        }
    }

    /// Opens a transaction.
    pub(crate) fn begin(&mut self, read_only: bool, implicit: bool) {
        self.transaction = Some(Transaction {
            read_only,
            implicit,
            before: self.settings.clone(),
            lasting: self.settings.clone(),
            acted_as: self.identity,
            ..Transaction::default()
        });
    }

    /// Takes the transaction off, if there is one; the settings, and as whom the session acts, are
    /// as they were before it.
    pub(crate) fn take(&mut self) -> Option<Transaction> {
        let transaction = self.transaction.take()?;
        self.settings = transaction.before.clone();
        self.settings.forget_local();
        self.identity = transaction.acted_as;
        Some(transaction)
    }
}

fn number_is_taken() -> Error {
    Error::invalid("the transaction has written: its number can't change any more")
        .with_hint("SET lazybase.batch_number before BEGIN, or before the first write")
        .with_sqlstate("25001")
}
