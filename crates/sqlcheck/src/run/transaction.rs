//! The writer's transaction.

use lazybase_model::Error;

use super::{Run, Violation, World, check_error, fine, timely, token};
use crate::rows::State;
use crate::story::Step;

/// The writer's transaction.
#[derive(Clone)]
pub(super) struct Transaction {
    /// What it sees.
    pub(super) state: State,
    /// What others see where it begins, as what it did to tables leaves that.
    pub(super) stored: State,
    /// Whether that takes rows away: then it has a boundary of its own.
    pub(super) empties: bool,
    /// Whether names mean something else after it.
    pub(super) changes_names: bool,
    /// Whether it changes tables: an error of a statement then leaves what came before.
    defines: bool,
    saved: Option<Box<Transaction>>,
}

impl World {
    /// What stands before a statement that is told.
    pub(super) fn margin(&self) -> &'static str {
        match self.transaction {
            Some(_) => "  ",
            None => "",
        }
    }

    /// Before a statement of a transaction that changes tables: what comes after it counts on
    /// them.
    pub(super) async fn guard(&mut self) -> Run {
        if self.transaction.as_ref().is_none_or(|open| !open.defines) {
            return Ok(());
        }
        self.say("  SAVEPOINT before");
        fine(timely(self.writer.execute("SAVEPOINT before")).await?)
    }

    /// An error ends the writer's transaction, or what came after its savepoint.
    pub(super) async fn both_refused(&mut self, error: &Error) -> Run {
        self.outcome.tally.refused += 1;
        check_error(error)?;
        let sql = match &self.transaction {
            None => return Ok(()),
            Some(open) if open.defines => "ROLLBACK TO before",
            Some(_) => {
                self.transaction = None;
                "ROLLBACK"
            }
        };
        self.say(format!("  {sql}"));
        fine(timely(self.writer.execute(sql)).await?)
    }

    pub(super) async fn transaction(&mut self, step: &Step) -> Run {
        let open = self.transaction.as_ref();
        if matches!(step, Step::Commit) && open.is_some_and(|open| open.changes_names) {
            self.end_read_only().await?;
        }
        let (sql, now) = match (step, &mut self.transaction) {
            (Step::Begin { .. }, None) => ("BEGIN", None),
            (Step::Savepoint, Some(open)) => {
                open.saved = None;
                open.saved = Some(Box::new(open.clone()));
                ("SAVEPOINT s", None)
            }
            (Step::RollbackTo, Some(open)) => match open.saved.clone() {
                Some(saved) => {
                    let again = saved.clone();
                    *open = *saved;
                    open.saved = Some(again);
                    ("ROLLBACK TO s", None)
                }
                None => return Ok(()),
            },
            (Step::Commit, Some(_)) => ("COMMIT", self.transaction.take()),
            (Step::Rollback, Some(_)) => {
                self.transaction = None;
                ("ROLLBACK", None)
            }
            _ => return Ok(()),
        };
        self.say(sql);
        let answers = timely(self.writer.execute(sql)).await?;
        let answers = answers.map_err(|error| Violation(format!("{error:?}")))?;
        if let Step::Begin { defines } = step {
            self.transaction = Some(Transaction {
                state: self.state(),
                stored: self.state(),
                empties: false,
                changes_names: false,
                defines: *defines,
                saved: None,
            });
        }
        if let Some(mut done) = now {
            let token = token(&answers);
            if let Some(horizon) = token {
                done.state.commit(self.scu_at(horizon));
            }
            if token.is_some() && done.empties {
                self.add_version(done.stored, None);
                self.versions.last_mut().expect("it was added").inside = true;
            }
            self.add_version(done.state, token);
        }
        self.learn().await
    }
}
