//! Changes of tables: what a story begins with, and what happens to it later.

use lazybase_model::Error;
use lazybase_query::Answer;

use super::{Run, Violation, World, timely, token, wrong};
use crate::compare::Class;
use crate::define::Define;
use crate::rows::State;

/// What a row is refused with that no partition takes.
const OUT_OF_PARTITIONS: &str = "23514";

impl World {
    /// Runs a statement that makes or drops a table or a view.
    pub(super) async fn make(&mut self, sql: &str, change: impl FnOnce(&mut State)) -> Run {
        self.say(sql);
        let answers = timely(self.writer.execute(sql)).await?;
        let answers = answers.map_err(|error| Violation(format!("{error:?}")))?;
        let mut state = self.state();
        change(&mut state);
        self.add_version(state, token(&answers));
        Ok(())
    }

    /// Changes a table that is there.
    pub(super) async fn define(&mut self, define: &Define) -> Run {
        let mut state = self.state();
        let Some(sql) = define.sql(&state) else {
            return Ok(());
        };
        self.guard().await?;
        self.say(format!("{}{sql}", self.margin()));
        self.outcome.tally.defined += 1;
        let answers = match timely(self.writer.execute(&sql)).await? {
            Ok(answers) => answers,
            Err(error) => return wrong(format!("refused: {error:?}")),
        };
        let empties = define.empties(&state);
        define.apply(&mut state);
        match &mut self.transaction {
            Some(open) => {
                open.state = state;
                open.empties |= empties;
                define.apply(&mut open.stored);
            }
            None => self.add_version(state, token(&answers)),
        }
        Ok(())
    }

    /// What became of a statement with a row that no partition takes.
    pub(super) async fn no_place(&mut self, sql: &str, done: Result<Vec<Answer>, Error>) -> Run {
        match done {
            Err(error)
                if error.sqlstate() == OUT_OF_PARTITIONS || Class::of(&error) == Class::Rows =>
            {
                self.both_refused(&error).await
            }
            Err(error) => wrong(format!("refused: {error:?}")),
            Ok(_) => wrong(format!("a row was taken that no partition takes: {sql}")),
        }
    }
}
