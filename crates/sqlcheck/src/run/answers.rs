//! Holds answers to what the plain engine says of the version that their stamps name.

use lazybase_model::{Error, Horizon};
use lazybase_query::Answer;
use lazybase_query::plain::PlainTables;

use super::{KEPT_MAX, Kept, Run, World, check_error, known, timely, wrong};
use crate::by_hand::Select;
use crate::compare::{Class, Table};
use crate::hidden;
use crate::plain::{self, Plain};
use crate::plant::Plant;
use crate::query::Query;
use crate::rows::State;
use crate::story::Ask;

impl World {
    pub(super) async fn check(
        &mut self,
        query: &Query,
        ask: Ask,
        answer: Result<Answer, Error>,
    ) -> Run {
        let answer = self.heard(answer);
        let ask = match ask {
            Ask::Bound | Ask::Prepared => Ask::Writer,
            other => other,
        };
        let version = match &answer {
            Ok(answer) => self.version_of(ask, answer)?,
            // Both fail whatever the version, but for what rows hold.
            Err(_) => self.newest(),
        };
        let asked = query.asked(|| self.state_of(ask, version)).into_owned();
        let expected = self.expected(ask, version, &asked).await;
        let expected = expected.map(|expected| self.told(expected));
        match (expected, answer) {
            (Ok(expected), Ok(answer)) => {
                self.count(&answer);
                self.outcome.tally.hidden += u64::from(hidden::are_named(&query.sql));
                let got = Table::new(&answer.schema, &answer.batches);
                if let Some(difference) = expected.differs(&got, &query.order) {
                    let stamp = answer.stamp.as_ref().map(ToString::to_string);
                    let what =
                        format!("{}\n{}\n{difference}", query.sql, stamp.unwrap_or_default());
                    let state = self.state_of(ask, version);
                    self.is_planners(&state, query, Ok(&got), what).await?;
                }
                if let Some(select) = &query.by_hand {
                    let state = self.state_of(ask, version);
                    self.judge_by_hand(select, &state, &answer)?;
                }
                // What is of the writer alone can't be asked by others.
                let is_own = self.transaction.is_some() || !self.state().temporary.is_empty();
                if ask != Ask::Writer || !is_own {
                    self.keep(query, version, expected);
                }
                Ok(())
            }
            (Err(plain), Err(error)) if Class::of(&plain) == Class::of(&error) => {
                self.refused(ask, &error).await
            }
            (Err(plain), Err(error)) => wrong(format!(
                "refused: {}: {error:?}, not for {plain:?}",
                query.sql
            )),
            (Ok(_), Err(error)) if Class::of(&error) == Class::Rows => {
                let today = self.versions[self.newest()].state.clone();
                let is_old = ask != Ask::Writer && self.has_failed(query, &today).await;
                if !is_old {
                    self.excuse(&query.sql, &error)?;
                }
                self.refused(ask, &error).await
            }
            (Ok(_), Err(error)) if known::refusal(&error.to_string()).is_some() => {
                self.outcome.tally.planner += 1;
                self.refused(ask, &error).await
            }
            (Ok(_), Err(error)) => {
                let what = format!("refused: {}: {error:?}", query.sql);
                let state = self.state_of(ask, version);
                self.is_planners(&state, query, Err(Class::of(&error)), what)
                    .await?;
                self.refused(ask, &error).await
            }
            (Err(error), Ok(_)) => self.only_plain_failed(query, &error),
        }
    }

    /// An answer, with the mistake that is planted.
    pub(super) fn heard(&self, answer: Result<Answer, Error>) -> Result<Answer, Error> {
        match self.plant {
            Some(plant) => plant.heard(answer),
            None => answer,
        }
    }

    /// An expected answer, with the mistake that is planted.
    pub(super) fn told(&self, mut expected: Table) -> Table {
        if self.has(Plant::BothSides) {
            expected.clear();
        }
        expected
    }

    /// Holds an answer to what is told by hand.
    pub(super) fn judge_by_hand(&mut self, select: &Select, state: &State, answer: &Answer) -> Run {
        match select.judged(state, &answer.batches) {
            None => Ok(()),
            Some(Ok(())) => {
                self.outcome.tally.by_hand += 1;
                Ok(())
            }
            Some(Err(what)) => {
                let stamp = answer.stamp.as_ref().map(ToString::to_string);
                let stamp = stamp.unwrap_or_default();
                wrong(format!("{}\n{stamp}\n{what}", select.sql()))
            }
        }
    }

    /// What is wrong where LazyBase has an answer, and the plain engine has none.
    pub(super) fn only_plain_failed(&mut self, query: &Query, error: &Error) -> Run {
        if Class::of(error) == Class::Rows {
            return self.excuse(&query.sql, error);
        }
        // What it was asked in other words, it planned wrongly by itself.
        if known::mistake(&error.to_string()).is_some() {
            self.outcome.tally.planner += 1;
            return Ok(());
        }
        wrong(format!(
            "only the plain engine failed: {}: {error}",
            query.sql
        ))
    }

    /// Whether the plain engine fails for what rows hold in any version, under the names of today:
    /// of an answer that fails nobody knows which one it would have shown.
    pub(super) async fn has_failed(&self, query: &Query, today: &State) -> bool {
        let named = || State::default().under(today);
        let sql = plain::spelt(&query.asked(named), &self.known.numbers);
        for version in self.versions.iter().rev() {
            let state = version.state.under(today);
            let Ok(tables) = self.plain.tables(&state, &self.known, &sql) else {
                continue;
            };
            let answered = plain::answer(&tables, &sql).await;
            if answered.is_err_and(|error| Class::of(&error) == Class::Rows) {
                return true;
            }
        }
        false
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

    pub(super) fn count(&mut self, answer: &Answer) {
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
            return wrong("the answer has no stamp");
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

    /// What the plain engine says, or its error.
    async fn expected(&mut self, ask: Ask, version: usize, sql: &str) -> Result<Table, Error> {
        let spelt = plain::spelt(sql, &self.known.numbers);
        let own = self.state();
        let is_own = self.transaction.is_some() || !own.temporary.is_empty();
        if ask == Ask::Writer && is_own {
            let tables = self.plain.tables(&own, &self.known, sql)?;
            return plain::answer(&tables, &spelt).await;
        }
        let tables = self.tables(version, sql)?;
        plain::answer(&tables, &spelt).await
    }

    /// What is wrong (`what`), unless the plain engine answers or fails like this too, where it
    /// works on as many partitions, and the planner is known to make this mistake.
    pub(super) async fn is_planners(
        &mut self,
        state: &State,
        query: &Query,
        got: Result<&Table, Class>,
        what: String,
    ) -> Run {
        let sql = plain::spelt(&query.asked(|| state.clone()), &self.known.numbers);
        let Ok(wide) = Plain::wide(self.width.0, self.width.1) else {
            return wrong(what);
        };
        for cut in [1, self.width.0] {
            let Ok(tables) = wide.tables_cut(state, &self.known, &sql, cut) else {
                break;
            };
            let answered = plain::answer(&tables, &sql).await;
            let same = match (&answered, got) {
                (Ok(expected), Ok(got)) => expected.differs(got, &query.order).is_none(),
                (Err(error), Err(class)) => Class::of(error) == class,
                _ => false,
            };
            if same {
                let plan = match answered {
                    Ok(_) => tables.explain(&sql).await.unwrap_or_default(),
                    Err(error) => error.to_string(),
                };
                if known::mistake(&plan).is_none() {
                    return wrong(format!("the planner's, and not known: {what}\n{plan}"));
                }
                self.outcome.tally.planner += 1;
                return Ok(());
            }
        }
        let plan = match self.plain.tables(state, &self.known, &sql) {
            Ok(tables) => tables.explain(&sql).await.unwrap_or_default(),
            Err(_) => String::new(),
        };
        wrong(format!("{what}\nexpected by the plan\n{plan}"))
    }

    /// What whoever asks is to see.
    fn state_of(&self, ask: Ask, version: usize) -> State {
        match ask {
            Ask::Writer => self.state(),
            _ => self.state_with_today(version),
        }
    }

    /// What a version holds, with the tables and views of today.
    fn state_with_today(&self, version: usize) -> State {
        let today = &self.versions[self.newest()].state;
        self.versions[version].state.under(today)
    }

    /// The plain engine over a version, with the tables and views of today, for a query.
    fn tables(&mut self, version: usize, sql: &str) -> lazybase_model::Result<PlainTables> {
        let names = self.versions[self.newest()].state.names();
        let place = usize::from(hidden::are_named(sql));
        if let Some((with, tables)) = &self.versions[version].tables[place]
            && *with == names
        {
            return Ok(tables.clone());
        }
        let state = self.state_with_today(version);
        let tables = self.plain.tables(&state, &self.known, sql)?;
        self.versions[version].tables[place] = Some((names, tables.clone()));
        Ok(tables)
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
            let answer = answer.map(|mut answers| answers.remove(0));
            let answer = match self.heard(answer) {
                Ok(answer) => answer,
                // A view may have gone since.
                Err(error) if error.sqlstate() == "42P01" => continue,
                Err(error) if Class::of(&error) == Class::Rows => {
                    self.excuse(&sql, &error)?;
                    continue;
                }
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
