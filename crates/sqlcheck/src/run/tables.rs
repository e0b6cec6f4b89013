//! Changes of tables: what a story begins with, and what happens to it later.

use std::sync::Arc;

use lazybase_model::Error;

use super::{Done, Run, Violation, World, timely, token, wrong};
use crate::change::Change;
use crate::compare::Class;
use crate::define::Define;
use crate::rows::State;
use crate::schema::View;

/// What a name is refused with that means nothing.
const NO_TABLE: &str = "42P01";
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

    /// Makes a view, if its table is there.
    pub(super) async fn view(&mut self, view: &Arc<View>) -> Run {
        let state = self.state();
        let table = state.seen(view.table.id);
        let table = table.filter(|_| self.transaction.is_none() && !state.has(&view.name));
        let Some(table) = table else {
            return Ok(());
        };
        let sql = view.create(&table.table.name);
        let view = Arc::clone(view);
        let made = |state: &mut State| drop(state.views.insert(view.name.clone(), view));
        self.make(&sql, made).await
    }

    /// Drops a view, if it is what its name means.
    pub(super) async fn drop_view(&mut self, view: &View) -> Run {
        let state = self.state();
        let is_seen = !state.temporary.contains_key(&view.name);
        if !is_seen || !state.views.contains_key(&view.name) {
            return Ok(());
        }
        let sql = format!("DROP MATERIALIZED VIEW {}", view.name);
        let dropped = |state: &mut State| drop(state.views.remove(&view.name));
        self.make(&sql, dropped).await
    }

    /// Changes a table that is there.
    pub(super) async fn define(&mut self, define: &Define) -> Run {
        let mut state = self.state();
        let found = self.versions.last().filter(|_| self.transaction.is_some());
        if found.is_some_and(|found| !define.may_be_inside(&found.state)) {
            return Ok(());
        }
        let Some(sql) = define.sql(&state) else {
            return Ok(());
        };
        if define.changes_names() && self.transaction.is_none() {
            self.end_read_only().await?;
        }
        self.guard().await?;
        self.say(format!("{}{sql}", self.margin()));
        self.outcome.tally.defined += 1;
        let refused = define.refused(&state);
        let answers = match timely(self.writer.execute(&sql)).await? {
            Ok(answers) if refused.is_empty() => answers,
            Ok(_) => return wrong(format!("done, and not refused for {refused:?}: {sql}")),
            Err(error) if refused.contains(&error.sqlstate()) => {
                self.both_refused(&error).await?;
                return self.define_without_rows(define, &state).await;
            }
            Err(error) => return wrong(format!("refused: {error:?}")),
        };
        let (empties, Done { token, rows }) = (define.empties(&state), Done::of(&answers));
        let counted = define.counted(&state);
        if rows != counted {
            return wrong(format!("told of {rows} rows, not of {counted}: {sql}"));
        }
        define.apply(&mut state, Some(self.mark_of(token)));
        match &mut self.transaction {
            Some(open) => {
                open.state = state;
                open.empties |= empties;
                open.changes_names |= define.changes_names();
                define.apply(&mut open.stored, None);
            }
            None => {
                self.add_version(state, token);
                self.learn_times().await?;
            }
        }
        match define {
            Define::Create(table) if table.is_temporary => self.is_hidden(&table.name).await,
            _ => Ok(()),
        }
    }

    /// A temporary table is none to others.
    async fn is_hidden(&mut self, name: &str) -> Run {
        if self.state().is_stored(name) {
            return Ok(());
        }
        let sql = format!("SELECT * FROM {name}");
        match timely(self.loose.execute(&sql)).await? {
            Err(error) if error.sqlstate() == NO_TABLE => Ok(()),
            other => wrong(format!("another session asks {sql}: {other:?}")),
        }
    }

    /// Changes a table once no rows are in the way any more.
    async fn define_without_rows(&mut self, define: &Define, state: &State) -> Run {
        let Some(table) = define.in_the_way(state).cloned() else {
            return Ok(());
        };
        self.change(&Change::Truncate { table }).await?;
        Box::pin(self.define(define)).await
    }

    /// Whether a statement names a table or a view that is not there to its session: one that was
    /// left out of the story, or undone.
    pub(super) fn lacks(&self, sql: &str, by_writer: bool) -> bool {
        let state = self.state();
        let mut words = sql.split(|at: char| !at.is_ascii_alphanumeric() && at != '_');
        words.any(|word| {
            let number = word
                .strip_prefix(['t', 'v'])
                .filter(|rest| !rest.is_empty());
            let is_name = number.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
            is_name
                && match by_writer {
                    true => !state.has(word),
                    false => !state.is_stored(word),
                }
        })
    }

    /// A query of what is not there: it is refused, and says why.
    pub(super) async fn absent(&mut self, sql: &str) -> Run {
        self.say(format!("{sql} -- of what is not there"));
        match timely(self.writer.execute(sql)).await? {
            Err(error) if error.sqlstate() == NO_TABLE => {
                self.outcome.tally.absent += 1;
                Ok(())
            }
            Err(error) => wrong(format!("refused: {sql}: {error:?}, not for {NO_TABLE}")),
            Ok(_) => wrong(format!("what is not there was read: {sql}")),
        }
    }

    /// What became of a statement with a row that no partition takes.
    pub(super) async fn no_place<T>(&mut self, sql: &str, done: Result<T, Error>) -> Run {
        match done {
            Err(error) if error.sqlstate() == OUT_OF_PARTITIONS => self.both_refused(&error).await,
            Err(error) if Class::of(&error) == Class::Rows => {
                self.excuse(sql, &error)?;
                self.both_refused(&error).await
            }
            Err(error) => wrong(format!("refused: {error:?}")),
            Ok(_) => wrong(format!("a row was taken that no partition takes: {sql}")),
        }
    }
}
