//! The simple protocol: a text of statements, done one after the other.
//!
//! Several statements in one text are one transaction, as with PostgreSQL: up to its end, or to a
//! COMMIT among them, after which another one begins. BEGIN among them makes it the client's own.
//! A statement that can't stand in a transaction ends it first.

use std::sync::Arc;

use lazybase_model::{Error, Result};
use lazybase_query::{Placed, TransactionStatus, split_script};
use pgwire::messages::response::EmptyQueryResponse;

use crate::connection::{Connection, Outcome};
use crate::input::Gone;
use crate::types;
use crate::words::{self, Kind};

impl Connection {
    /// Does the statements of a text, and says that it is ready.
    pub(crate) async fn simple(&mut self, text: &str) -> Result<(), Gone> {
        self.begin_statement();
        match split_script(text, 1) {
            Err(error) => self.fail(&error, text),
            Ok(statements) if statements.is_empty() => self.wire.put(EmptyQueryResponse::new()),
            Ok(statements) => self.each(text, &statements).await?,
        }
        if let Err(error) = self.end_implicit().await? {
            self.fail(&error, "");
        }
        if self.session.transaction_status() == TransactionStatus::None {
            self.portals.clear();
            self.end_cursors(false);
        }
        self.ready();
        Ok(())
    }

    async fn each(&mut self, text: &str, statements: &[Placed]) -> Result<(), Gone> {
        for (at, placed) in statements.iter().enumerate() {
            let sql = placed.text.as_str();
            self.begin_statement();
            let is_last = at + 1 == statements.len();
            if !is_last && words::kind(sql).joins() {
                self.session.begin_implicit();
            }
            let mut done = self.statement(sql).await?;
            // What the client takes for done must have been kept.
            if done.is_ok() && is_last {
                done = match self.end_implicit().await? {
                    Ok(()) => done,
                    Err(error) => Err(error),
                };
            }
            match done {
                Ok(tag) => self.complete(&tag),
                Err(error) => {
                    self.fail(&error.behind(placed.start()), text);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Does one statement; gives its tag.
    async fn statement(&mut self, sql: &str) -> Outcome<String> {
        let kind = words::kind(sql);
        if kind.stands_alone()
            && let Err(error) = self.end_implicit().await?
        {
            return Ok(Err(error));
        }
        match kind {
            Kind::Connection | Kind::Discard => return self.connection_statement(kind, sql).await,
            Kind::Cursor => return self.cursor_statement(sql).await,
            Kind::Copy => {
                if let Some(done) = self.copy(sql).await? {
                    return Ok(done);
                }
            }
            _ => {}
        }
        let session = Arc::clone(&self.session);
        let mut answer = match self.watched(kind, session.query(sql)).await? {
            Ok(answer) => answer,
            Err(error) => return Ok(Err(error)),
        };
        if answer.returns_rows() {
            match types::description(&answer.schema(), answer.origins(), &[]) {
                Ok(description) => self.wire.put(description),
                Err(error) => return Ok(Err(self.unsent(&answer, error))),
            }
        }
        loop {
            match self.next_rows(&mut answer).await? {
                Ok(Some(rows)) => {
                    for row in 0..rows.count {
                        rows.put_row(row, &mut self.wire.out);
                        self.flush_full().await?;
                    }
                }
                Ok(None) => break,
                Err(error) => return Ok(Err(error)),
            }
        }
        self.end_with(kind, Some(&answer));
        self.note(&answer);
        Ok(Ok(answer.tag()))
    }

    /// Does what concerns the connection itself; gives its tag.
    pub(crate) async fn connection_statement(&mut self, kind: Kind, sql: &str) -> Outcome<String> {
        if kind == Kind::Discard {
            if let Err(error) = self.end_implicit().await? {
                return Ok(Err(error));
            }
            if self.session.in_transaction() {
                let error = Error::invalid("DISCARD can't run inside a transaction");
                return Ok(Err(error.with_sqlstate("25001")));
            }
            let what = words::first(sql, 2).pop().unwrap_or_default();
            if matches!(what.as_str(), "ALL" | "TEMP" | "TEMPORARY")
                && let Err(error) = self.session.drop_temporary().await
            {
                return Ok(Err(error));
            }
        }
        match words::first(sql, 1).pop().as_deref() {
            Some("DEALLOCATE") => self.deallocate(sql).await,
            _ => Ok(self.connection_words(sql)),
        }
    }

    /// Does DEALLOCATE; gives its tag.
    async fn deallocate(&mut self, sql: &str) -> Outcome<String> {
        let session = Arc::clone(&self.session);
        let done = self.watched(Kind::Connection, session.query(sql));
        let done = done.await?;
        self.statements
            .retain(|name, _| name.is_empty() || session.keeps_statement(name));
        Ok(done.map(|answer| answer.tag()))
    }

    fn connection_words(&mut self, sql: &str) -> Result<String> {
        let sql = sql.trim_end_matches(|c: char| c == ';' || c.is_whitespace());
        let words = words::first(sql, 4);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["DISCARD", "ALL"] => {
                self.statements.clear();
                self.session.forget_statements();
                self.session.forget_numbers();
                self.portals.clear();
                self.cursors.clear();
                self.session.unlock_all();
                self.session.reset_role();
                self.session.reset_settings()?;
                self.report();
                Ok("DISCARD ALL".to_owned())
            }
            ["DISCARD", "SEQUENCES"] => {
                self.session.forget_numbers();
                Ok("DISCARD SEQUENCES".to_owned())
            }
            ["DISCARD", what @ ("PLANS" | "TEMP" | "TEMPORARY")] => Ok(format!("DISCARD {what}")),
            ["UNLISTEN", ..] => Ok("UNLISTEN".to_owned()),
            ["LISTEN", ..] => Err(Error::invalid("LISTEN is not supported")
                .with_detail("sessions send each other no notifications")
                .with_hint("ask again for what has changed")
                .with_sqlstate("0A000")),
            _ => Err(
                Error::invalid(format!("{} is not supported", words.join(" ")))
                    .with_sqlstate("0A000"),
            ),
        }
    }
}
