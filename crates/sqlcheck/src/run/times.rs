//! Asks for the time of each SCU as soon as it has set rows: from then on it stays.

use std::collections::BTreeMap;

use datafusion::common::ScalarValue;
use lazybase_query::Answer;

use super::{Run, Violation, World, timely, wrong};
use crate::hidden;
use crate::plant::Plant;
use crate::rows::{Mark, Rows, State};
use crate::story::{Step, Story};

/// Whether anything in a story names hidden columns.
pub(super) fn are_looked_at(story: &Story) -> bool {
    story.steps.iter().any(|step| match step {
        Step::Query(query, _) | Step::BeginSlow(query, _) => hidden::are_named(&query.sql),
        Step::Change(change) => hidden::are_named(&change.sql()),
        _ => false,
    })
}

/// In microseconds.
const SECOND: i64 = 1_000_000;

/// Some rows that an SCU was the last to change.
struct Changed {
    table: String,
    /// Whether it is a temporary one.
    is_own: bool,
    rows: i64,
}

impl World {
    /// Learns the times of SCUs that have none, of the rows that they have changed last.
    pub(super) async fn learn_times(&mut self) -> Run {
        if !self.looks || self.transaction.is_some() {
            return Ok(());
        }
        for (scu, changed) in self.without_time(&self.state()) {
            let sql = format!(
                "SELECT count(*), min(_time), max(_time), \
                 count(*) FILTER (WHERE _time > now() - INTERVAL '1 hour' \
                 AND _time < now() + INTERVAL '1 minute') \
                 FROM {} WHERE _scu = {scu} FRESHNESS 0",
                changed.table
            );
            let session = match changed.is_own {
                true => &self.writer,
                false => &self.loose,
            };
            let answer = timely(session.execute(&sql)).await?;
            self.say(&sql);
            let answer = match answer {
                Ok(mut answers) => answers.remove(0),
                Err(error) => return wrong(format!("{sql}: {error:?}")),
            };
            self.count(&answer);
            self.outcome.tally.times += 1;
            let told = || {
                let cells = cells_of(&answer);
                Violation(format!("{sql}: {cells:?}, of {} rows", changed.rows))
            };
            let time = time_of(&cells_of(&answer), changed.rows).ok_or_else(told)?;
            let time = time + i64::from(self.has(Plant::WrongTime)) * SECOND;
            let known = &mut self.known.times;
            let (before, after) = (known.range(..scu).next_back(), known.range(scu..).next());
            let rises = before.is_none_or(|(_, before)| *before <= time)
                && after.is_none_or(|(_, after)| time <= *after);
            if !rises {
                return wrong(format!(
                    "SCU {scu} is of {time}, beside {before:?}, {after:?}"
                ));
            }
            known.insert(scu, time);
        }
        Ok(())
    }

    /// SCUs whose times nobody has asked for, each with what it has changed of one table.
    fn without_time(&self, state: &State) -> BTreeMap<u64, Changed> {
        let mut found: BTreeMap<u64, Changed> = BTreeMap::new();
        for rows in state.tables.values().chain(state.temporary.values()) {
            for (scu, count) in self.new_in(rows) {
                found.entry(scu).or_insert_with(|| Changed {
                    table: rows.table.name.clone(),
                    is_own: rows.table.is_temporary,
                    rows: count,
                });
            }
        }
        found
    }

    /// How many rows of a table each of them has changed last.
    fn new_in(&self, rows: &Rows) -> BTreeMap<u64, i64> {
        let mut found = BTreeMap::new();
        for row in rows.rows.values() {
            if let Mark::Scu(scu) = row.mark()
                && !self.known.times.contains_key(&scu)
            {
                *found.entry(scu).or_default() += 1;
            }
        }
        found
    }
}

/// The cells of an answer's one row.
fn cells_of(answer: &Answer) -> Vec<ScalarValue> {
    let columns = answer.batches.iter().flat_map(|batch| batch.columns());
    let cells = columns.map(|column| ScalarValue::try_from_array(column, 0));
    cells.filter_map(Result::ok).collect()
}

/// The time of an SCU that has so many rows: one of today, in whole milliseconds.
fn time_of(cells: &[ScalarValue], rows: i64) -> Option<i64> {
    let [all, first, last, recent] = cells else {
        return None;
    };
    let is_whole = *all == ScalarValue::from(rows) && recent == all && first == last;
    match first {
        ScalarValue::TimestampMicrosecond(Some(time), _) if time % 1000 == 0 => {
            Some(*time).filter(|_| is_whole)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::ScalarValue;

    use super::time_of;

    fn cells(all: i64, times: [Option<i64>; 2], recent: i64) -> Vec<ScalarValue> {
        let time = |at| ScalarValue::TimestampMicrosecond(at, Some("+00:00".into()));
        let [first, last] = times.map(time);
        vec![all.into(), first, last, recent.into()]
    }

    #[test]
    fn an_scu_has_one_time() {
        let time = |all, first, last, recent| time_of(&cells(all, [first, last], recent), 3);
        assert_eq!(time(3, Some(7_000), Some(7_000), 3), Some(7_000));
        assert_eq!(time(2, Some(7_000), Some(7_000), 2), None);
        assert_eq!(time(3, Some(7_000), Some(8_000), 3), None);
        assert_eq!(time(3, Some(7_500), Some(7_500), 3), None);
        assert_eq!(time(3, Some(7_000), Some(7_000), 0), None);
        assert_eq!(time(3, None, None, 3), None);
    }
}
