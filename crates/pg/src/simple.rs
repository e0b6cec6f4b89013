//! The simple protocol: a text of statements, done one after the other.
//!
//! Several statements in one text are one transaction, as with PostgreSQL, unless one of them
//! speaks of transactions itself or can't stand in one.

use std::sync::Arc;

use lazybase_model::{Error, Result};
use lazybase_query::{TransactionStatus, split_statements};
use pgwire::messages::response::EmptyQueryResponse;

use crate::connection::{Connection, Outcome};
use crate::input::Gone;
use crate::types;
use crate::words::{self, Kind};

impl Connection {
    /// Does the statements of a text, and says that it is ready.
    pub(crate) async fn simple(&mut self, text: &str) -> Result<(), Gone> {
        self.begin_statement();
        match split_statements(text) {
            Err(error) => self.fail(&error, text, 0),
            Ok(statements) if statements.is_empty() => self.wire.put(EmptyQueryResponse::new()),
            Ok(statements) => self.each(text, &statements).await?,
        }
        if let Err(error) = self.end_implicit().await? {
            self.fail(&error, "", 0);
        }
        self.ready();
        Ok(())
    }

    async fn each(&mut self, text: &str, statements: &[String]) -> Result<(), Gone> {
        let stands_alone = |sql: &String| {
            let kind = words::kind(sql);
            matches!(
                kind,
                Kind::Begin | Kind::Transaction | Kind::Alone | Kind::Connection
            )
        };
        let outside = self.session.transaction_status() == TransactionStatus::None;
        if statements.len() > 1
            && outside
            && !statements.iter().any(stands_alone)
            && let Err(error) = self.begin_implicit().await?
        {
            self.fail(&error, "", 0);
            return Ok(());
        }
        let mut from = 0;
        for (at, sql) in statements.iter().enumerate() {
            from += text[from..].find(sql.as_str()).unwrap_or(0);
            self.begin_statement();
            let mut done = self.statement(sql).await?;
            // What the client takes for done must have been kept.
            if done.is_ok() && at + 1 == statements.len() {
                done = match self.end_implicit().await? {
                    Ok(()) => done,
                    Err(error) => Err(error),
                };
            }
            match done {
                Ok(tag) => self.complete(&tag),
                Err(error) => {
                    let before = text[..from].chars().count();
                    self.fail(&error, sql, before);
                    return Ok(());
                }
            }
            from += sql.len();
        }
        Ok(())
    }

    /// Does one statement; gives its tag.
    async fn statement(&mut self, sql: &str) -> Outcome<String> {
        let kind = words::kind(sql);
        match kind {
            Kind::Connection => return Ok(self.connection_words(sql)),
            Kind::Copy => {
                if let Some(done) = self.copy(sql).await? {
                    return Ok(done);
                }
            }
            _ => {}
        }
        let session = Arc::clone(&self.session);
        let mut answer = match self.watched(kind, Box::pin(session.query(sql))).await? {
            Ok(answer) => answer,
            Err(error) => return Ok(Err(error)),
        };
        if answer.returns_rows() {
            self.wire.put(types::description(&answer.schema(), &[]));
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
        self.note(&answer);
        Ok(Ok(answer.tag()))
    }

    /// Does what concerns the connection itself; gives its tag.
    pub(crate) fn connection_words(&mut self, sql: &str) -> Result<String> {
        let words = words::first(sql, 4);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["DISCARD", "ALL"] => {
                self.statements.clear();
                self.portals.clear();
                self.reset()?;
                Ok("DISCARD ALL".to_owned())
            }
            [
                "DISCARD",
                what @ ("PLANS" | "SEQUENCES" | "TEMP" | "TEMPORARY"),
            ] => Ok(format!("DISCARD {what}")),
            ["DEALLOCATE", "ALL"] | ["DEALLOCATE", "PREPARE", "ALL"] => {
                self.statements.clear();
                Ok("DEALLOCATE ALL".to_owned())
            }
            ["DEALLOCATE", "PREPARE", _] | ["DEALLOCATE", _] => {
                let name = sql.split_whitespace().next_back().unwrap_or_default();
                let name = match name
                    .strip_prefix('"')
                    .and_then(|name| name.strip_suffix('"'))
                {
                    Some(quoted) => quoted.to_owned(),
                    None => name.to_lowercase(),
                };
                match self.statements.remove(&name) {
                    Some(_) => Ok("DEALLOCATE".to_owned()),
                    None => Err(Error::not_found(format!("there is no statement {name:?}"))
                        .with_sqlstate("26000")),
                }
            }
            ["CLOSE", "ALL"] => {
                self.portals.clear();
                Ok("CLOSE CURSOR ALL".to_owned())
            }
            ["UNLISTEN", ..] => Ok("UNLISTEN".to_owned()),
            _ => Err(
                Error::invalid(format!("{} is not supported", words.join(" ")))
                    .with_sqlstate("0A000"),
            ),
        }
    }

    /// The session's settings as they were when the connection began.
    fn reset(&mut self) -> Result<()> {
        self.session.reset_settings();
        self.session.set("lazybase.copy_format", "text")?;
        self.report();
        Ok(())
    }
}
