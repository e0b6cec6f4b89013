//! Readers that take their rows long after they have asked, whatever became of the tables
//! meanwhile.

use lazybase_query::{AnswerStream, Session};

use super::{Run, Version, Violation, World, check_error, timely, wrong};
use crate::compare::{Class, Table};
use crate::hidden;
use crate::plain;
use crate::query::Query;
use crate::rows::State;

/// A query that was begun.
pub(super) struct Slow {
    query: Query,
    rows: AnswerStream,
    /// Whether it asked for all that was acknowledged.
    is_fresh: bool,
    /// What names meant then.
    today: State,
    /// How many versions there were.
    versions: usize,
    /// Kept as long as the rows are.
    _session: Session,
}

impl World {
    pub(super) async fn begin_slow(&mut self, query: &Query, clause: &str) -> Run {
        self.end_slow().await?;
        let newest = self.versions.last();
        let newest = newest.filter(|_| self.transaction.is_none());
        let Some(today) = newest.map(|version| version.state.clone()) else {
            return Ok(());
        };
        if self.lacks(&query.sql, false) {
            return Ok(());
        }
        let sql = format!("{}{clause}", query.sql);
        self.say(format!("{sql} -- slowly"));
        let session = self.database.session();
        let begun = timely(session.query(&sql)).await?;
        match begun {
            Ok(rows) => {
                self.slow = Some(Slow {
                    query: query.clone(),
                    rows,
                    is_fresh: clause.is_empty(),
                    today,
                    versions: self.versions.len(),
                    _session: session,
                });
                Ok(())
            }
            // Whether it may be refused is looked at where others ask.
            Err(error) => check_error(&error),
        }
    }

    pub(super) async fn end_slow(&mut self) -> Run {
        let Some(slow) = self.slow.take() else {
            return Ok(());
        };
        let query = slow.query;
        self.say(format!("-- the rows of: {}", query.sql));
        let taken = timely(slow.rows.collect()).await?;
        let answer = match self.heard(taken) {
            Ok(answer) => answer,
            Err(error) if Class::of(&error) == Class::Rows => {
                if !self.has_failed(&query, &slow.today).await {
                    self.excuse(&query.sql, &error)?;
                }
                return check_error(&error);
            }
            Err(error) => return wrong(format!("refused later: {}: {error:?}", query.sql)),
        };
        let Some(stamp) = answer.stamp.clone() else {
            return wrong("the answer has no stamp");
        };
        let before = |version: &Version| version.horizon <= stamp.horizon;
        let version = self.versions[..slow.versions].iter().rposition(before);
        let version = version.unwrap_or(0);
        let is_stale = slow.is_fresh && version + 1 != slow.versions;
        if is_stale || self.versions[version].inside {
            return wrong(format!(
                "the answer at {} is version {version}",
                stamp.horizon
            ));
        }
        let state = self.versions[version].state.under(&slow.today);
        let asked = query.asked(|| state.clone());
        let tables = self.plain.tables(&state, &self.known, &asked);
        let tables = tables.map_err(|error| Violation(format!("{error:?}")))?;
        let sql = plain::spelt(&asked, &self.known.numbers);
        let expected = match plain::answer(&tables, &sql).await {
            Ok(expected) => self.told(expected),
            Err(error) => return self.only_plain_failed(&query, &error),
        };
        self.count(&answer);
        self.outcome.tally.slow += 1;
        self.outcome.tally.hidden += u64::from(hidden::are_named(&query.sql));
        let got = Table::new(&answer.schema, &answer.batches);
        if let Some(difference) = expected.differs(&got, &query.order) {
            let what = format!("{}, read later\n{stamp}\n{difference}", query.sql);
            return self.is_planners(&state, &query, Ok(&got), what).await;
        }
        match &query.by_hand {
            Some(select) => self.judge_by_hand(select, &state, &answer),
            None => Ok(()),
        }
    }
}
