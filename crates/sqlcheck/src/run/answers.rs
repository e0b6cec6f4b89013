//! Holds answers to what the plain engine says of the version that their stamps name.

use datafusion::prelude::SessionContext;
use lazybase_model::{Error, Horizon};
use lazybase_query::Answer;

use super::{KEPT_MAX, Kept, Run, World, check_error, is_of_rows, timely, wrong};
use crate::compare::Table;
use crate::plain;
use crate::query::{Order, Query};
use crate::rows::State;
use crate::story::Ask;

impl World {
    pub(super) async fn check(
        &mut self,
        query: &Query,
        ask: Ask,
        answer: Result<Answer, Error>,
    ) -> Run {
        let ask = match ask {
            Ask::Pinned if self.pin.is_none() => Ask::Writer,
            Ask::Bound => Ask::Writer,
            other => other,
        };
        let version = match &answer {
            Ok(answer) => self.version_of(ask, answer)?,
            // Both fail whatever the version, but for what rows hold.
            Err(_) => self.newest(),
        };
        let whole = match &query.order {
            Order::Some { whole, .. } => whole,
            _ => &query.sql,
        };
        let expected = self.expected(ask, version, whole).await;
        match (expected, answer) {
            (Ok(expected), Ok(answer)) => {
                self.count(&answer);
                let got = Table::new(&answer.schema, &answer.batches);
                if let Some(difference) = expected.differs(&got, &query.order)
                    && !self.is_planners(ask, version, query, Some(&got)).await
                {
                    let stamp = answer
                        .stamp
                        .map_or(String::new(), |stamp| stamp.to_string());
                    return wrong(format!("{}\n{stamp}\n{difference}", query.sql));
                }
                if ask != Ask::Writer || self.transaction.is_none() {
                    self.keep(query, version, expected);
                }
                Ok(())
            }
            (Err(_), Err(error)) => self.refused(ask, &error).await,
            (Ok(_), Err(error)) if is_of_rows(&error) => {
                self.outcome.tally.of_rows += 1;
                self.refused(ask, &error).await
            }
            (Ok(_), Err(error)) => match self.is_planners(ask, version, query, None).await {
                true => self.refused(ask, &error).await,
                false => wrong(format!("refused: {}: {error:?}", query.sql)),
            },
            (Err((_, true)), Ok(_)) => {
                self.outcome.tally.of_rows += 1;
                Ok(())
            }
            (Err((error, false)), Ok(_)) => wrong(format!(
                "only the plain engine failed: {}: {error}",
                query.sql
            )),
        }
    }

    async fn refused(&mut self, ask: Ask, error: &Error) -> Run {
        match ask {
            Ask::Writer => self.both_refused(error).await,
            Ask::Pinned => {
                self.outcome.tally.refused += 1;
                check_error(error)?;
                self.end_read_only().await
            }
            _ => {
                self.outcome.tally.refused += 1;
                check_error(error)
            }
        }
    }

    fn count(&mut self, answer: &Answer) {
        let tally = &mut self.outcome.tally;
        tally.compared += 1;
        tally.rows += answer.rows;
        if let Some(stamp) = &answer.stamp {
            tally.mixed += u64::from(stamp.sources.stages().len() > 1);
            tally.stale += u64::from(stamp.batches_left_out > 0);
        }
    }

    /// The version that an answer shows; wrong, where it had to show another.
    fn version_of(&mut self, ask: Ask, answer: &Answer) -> Run<usize> {
        let newest = self.newest();
        let Some(stamp) = &answer.stamp else {
            return Ok(newest);
        };
        let version = self.version_at(stamp.horizon);
        let pinned = ask == Ask::Pinned && self.pin.flatten().is_some();
        if self.versions[version].inside && !pinned && !matches!(ask, Ask::Past(_)) {
            return wrong(format!(
                "the answer at {} is inside a transaction",
                stamp.horizon
            ));
        }
        match ask {
            Ask::Writer if self.transaction.is_some() => return Ok(newest),
            Ask::Writer | Ask::Bound | Ask::Steady("") | Ask::Loose(" FRESHNESS 0")
                if version != newest =>
            {
                let horizon = stamp.horizon;
                return wrong(format!(
                    "the answer at {horizon} is version {version}, not {newest}"
                ));
            }
            Ask::Pinned => match self.pin.flatten() {
                Some((pinned, horizon)) if horizon == stamp.horizon => return Ok(pinned),
                Some((_, horizon)) => {
                    return wrong(format!(
                        "the answer at {} is not at {horizon}",
                        stamp.horizon
                    ));
                }
                None => self.pin = Some(Some((version, stamp.horizon))),
            },
            Ask::Steady(_) if stamp.horizon < self.seen => {
                return wrong(format!(
                    "the answer at {} is before {}",
                    stamp.horizon, self.seen
                ));
            }
            Ask::Steady(_) => self.seen = stamp.horizon,
            _ => {}
        }
        Ok(version)
    }

    /// What the plain engine says; or its error, and whether that may come of the rows alone.
    async fn expected(
        &mut self,
        ask: Ask,
        version: usize,
        sql: &str,
    ) -> Result<Table, (String, bool)> {
        let told = |error: datafusion::error::DataFusionError| {
            let of_rows = plain::is_of_rows(&error);
            (error.to_string(), of_rows)
        };
        let sql = plain::with_numbers(sql, &self.numbers);
        if let (Ask::Writer, Some(transaction)) = (ask, &self.transaction) {
            let context = self.plain.context(&transaction.state, &self.numbers);
            let context = context.map_err(told)?;
            return plain::answer(&context, &sql).await.map_err(told);
        }
        let context = self.context(version).map_err(told)?;
        plain::answer(&context, &sql).await.map_err(told)
    }

    /// Whether the plain engine gives this answer, or fails, where it works on as many partitions.
    async fn is_planners(
        &mut self,
        ask: Ask,
        version: usize,
        query: &Query,
        got: Option<&Table>,
    ) -> bool {
        let state = match (ask, &self.transaction) {
            (Ask::Writer, Some(transaction)) => transaction.state.clone(),
            _ => self.state_with_today(version),
        };
        let whole = match &query.order {
            Order::Some { whole, .. } => whole,
            _ => &query.sql,
        };
        let sql = plain::with_numbers(whole, &self.numbers);
        let wide = self.plain.wide(self.width.0, self.width.1);
        for cut in [1, self.width.0] {
            let Ok(context) = wide.context_cut(&state, &self.numbers, cut) else {
                return false;
            };
            let same = match (plain::answer(&context, &sql).await, got) {
                (Ok(expected), Some(got)) => expected.differs(got, &query.order).is_none(),
                (Err(_), None) => true,
                _ => false,
            };
            if same {
                self.outcome.tally.planner += 1;
                return true;
            }
        }
        false
    }

    /// What a version holds, with the tables and views of today.
    fn state_with_today(&self, version: usize) -> State {
        let today = &self.versions[self.newest()].state;
        let mut state = self.versions[version].state.clone();
        state.views = today.views.clone();
        for rows in today.tables.values() {
            if !state.tables.contains_key(&rows.table.name) {
                state.create(&rows.table);
            }
        }
        state
    }

    /// The plain engine over a version, with the tables and views of today.
    fn context(&mut self, version: usize) -> datafusion::error::Result<SessionContext> {
        let today = &self.versions[self.newest()].state;
        let views: Vec<String> = today.views.keys().cloned().collect();
        if let Some((with, context)) = &self.versions[version].context
            && *with == views
        {
            return Ok(context.clone());
        }
        let state = self.state_with_today(version);
        let context = self.plain.context(&state, &self.numbers)?;
        self.versions[version].context = Some((views, context.clone()));
        Ok(context)
    }

    fn keep(&mut self, query: &Query, version: usize, expected: Table) {
        self.kept.push_back(Kept {
            query: query.clone(),
            version,
            expected,
        });
        if self.kept.len() > KEPT_MAX {
            self.kept.pop_front();
        }
    }

    /// Asks queries of late again: as of then, where an SCU ended there.
    pub(super) async fn again(&mut self) -> Run {
        for at in 0..self.kept.len() {
            let (version, mut sql) = (self.kept[at].version, self.kept[at].query.sql.clone());
            if version != self.newest() {
                match self.scu_of(version) {
                    Some(scu) => sql += &format!(" AS OF SCU {scu}"),
                    None => continue,
                }
            }
            self.say(format!("{sql} -- again"));
            let answer = timely(self.loose.execute(&sql)).await?;
            let answer = match answer {
                Ok(mut answers) => answers.remove(0),
                // A view may have gone since.
                Err(error) if error.sqlstate() == "42P01" => continue,
                Err(error) if is_of_rows(&error) => continue,
                Err(error) => return wrong(format!("refused now: {sql}: {error:?}")),
            };
            self.count(&answer);
            self.outcome.tally.again += 1;
            let got = Table::new(&answer.schema, &answer.batches);
            let kept = &self.kept[at];
            if let Some(difference) = kept.expected.differs(&got, &kept.query.order) {
                let stamp = answer
                    .stamp
                    .map_or(String::new(), |stamp| stamp.to_string());
                return wrong(format!("{sql}\n{stamp}\n{difference}"));
            }
        }
        Ok(())
    }

    /// The sealed SCU at whose end the tables held a version.
    fn scu_of(&self, version: usize) -> Option<u64> {
        let scu = self.versions[version].horizon.scu;
        let sealed = self.database.instance().manifest().sealed_through;
        let ends_there = self.version_at(Horizon::end_of(scu)) == version;
        (scu <= sealed && ends_there).then_some(scu.0)
    }
}
