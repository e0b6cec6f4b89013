//! The readers: each asks every question at every freshness in turn, times the answer, and checks
//! what must hold of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lazybase_model::{Freshness, Result};
use lazybase_query::{Answer, Database, Session};

use super::questions::{AckLog, LEVELS, Question, check_cut};
use super::shared::Shared;
use super::stats::Sample;
use crate::figures::micros;
use crate::render::cell_texts;
use crate::wall::{self, Stopwatch};

/// A reader rests as long as its query took, but at least this long: the pipeline has its cores.
const REST: Duration = Duration::from_millis(20);
/// How much the clocks of demo and database may differ within one query.
const CLOCK_SLACK_US: u64 = 100_000;

/// One reader.
pub(super) struct Reader {
    pub(super) database: Database,
    pub(super) flights: Arc<FlightKeys>,
    pub(super) shared: Arc<Shared>,
    /// Tells readers apart.
    pub(super) number: usize,
}

/// One session for each freshness: a session never goes back behind what it has seen, so that
/// one for all would read everything as fresh as the freshest.
struct Level {
    at: usize,
    asked: Freshness,
    session: Session,
    /// The changes of the newest cut it has seen.
    seen: u64,
}

impl Reader {
    /// Asks until the replay is over.
    pub(super) async fn run(self) -> Result<()> {
        let mut levels: Vec<Level> = LEVELS
            .into_iter()
            .enumerate()
            .map(|(at, asked)| Level {
                at,
                asked,
                session: self.database.session(),
                seen: 0,
            })
            .collect();
        let mut draw = self.number as u64;
        while self.shared.changes.load(Ordering::Acquire) == 0 && self.shared.running() {
            wall::sleep(REST).await;
        }
        while self.shared.running() {
            for question in Question::ALL {
                draw = next_draw(draw);
                let key = self.flights.condition(draw, &self.shared);
                for level in &mut levels {
                    if !self.shared.running() {
                        return Ok(());
                    }
                    let took = self.ask(question, level, &key).await?;
                    wall::sleep(took.max(REST)).await;
                }
            }
        }
        Ok(())
    }

    async fn ask(&self, question: Question, level: &mut Level, key: &str) -> Result<Duration> {
        let sql = question.sql(level.asked, key);
        let asked_at = self.shared.start.micros();
        let stopwatch = Stopwatch::start();
        let answers = level.session.execute(&sql).await?;
        let took = stopwatch.elapsed();
        let latency = crate::figures::as_micros(took);
        let Some(answer) = answers.into_iter().next_back() else {
            self.shared.fail(format!("no answer to {sql}"));
            return Ok(took);
        };
        if question == Question::Cut {
            self.check_cut(level, &answer, asked_at)?;
        }
        match answer.stamp.clone().or_else(|| level.session.last_stamp()) {
            None => self
                .shared
                .fail(format!("an answer without a stamp: {sql}")),
            Some(stamp) => {
                let at = self.shared.start.micros();
                let sample = Sample::new(at, question, level.at, latency, &stamp);
                self.check_staleness(level.asked, &sample);
                self.shared.samples().push(sample);
            }
        }
        Ok(took)
    }

    /// One consistent cut, with all that the freshness demands, never older than the last.
    fn check_cut(&self, level: &mut Level, answer: &Answer, asked_at: u64) -> Result<()> {
        let Some(cut) = check_cut(&answer.batches)? else {
            let level = level.asked;
            if AckLog::required(&self.shared.acks(), level, asked_at) > 0 {
                self.shared.fail(format!("an empty answer at {level}"));
            }
            return Ok(());
        };
        if let Some(torn) = cut.torn {
            self.shared
                .fail(format!("no consistent cut at {}: {torn}", level.asked));
        }
        let required = self.shared.acks().required(level.asked, asked_at);
        if cut.changes < required {
            self.shared.fail(format!(
                "asked {}: {required} changes had to be there, {} were",
                level.asked, cut.changes
            ));
        }
        if cut.changes < level.seen {
            self.shared.fail(format!(
                "asked {}: a session went back from {} changes to {}",
                level.asked, level.seen, cut.changes
            ));
        }
        level.seen = level.seen.max(cut.changes);
        Ok(())
    }

    fn check_staleness(&self, asked: Freshness, sample: &Sample) {
        let Freshness::Within(bound) = asked else {
            return;
        };
        let allowed = crate::figures::as_micros(bound) + sample.latency_us + CLOCK_SLACK_US;
        if sample.staleness_us > allowed {
            self.shared.fail(format!(
                "asked {asked}: the answer was stale by {}",
                micros(sample.staleness_us)
            ));
        }
    }
}

/// The keys of all flights, as conditions.
pub(super) struct FlightKeys {
    columns: Vec<(&'static str, Vec<Option<String>>)>,
}

impl FlightKeys {
    /// From a batch with the key's columns.
    pub(super) fn of(rows: &arrow::array::RecordBatch) -> Result<FlightKeys> {
        let mut columns = Vec::new();
        for name in ["day", "carrier", "flight", "origin"] {
            if let Some(column) = rows.column_by_name(name) {
                columns.push((name, cell_texts(column)?));
            }
        }
        Ok(FlightKeys { columns })
    }

    /// Names one of the flights that came onto the board.
    fn condition(&self, draw: u64, shared: &Shared) -> String {
        let known = shared.scheduled.load(Ordering::Relaxed) + 1;
        let row = usize::try_from(draw % known).unwrap_or(0);
        let parts: Vec<String> = self
            .columns
            .iter()
            .map(|(name, texts)| {
                let text = texts.get(row).cloned().flatten().unwrap_or_default();
                match *name {
                    "flight" => format!("flight = {text}"),
                    "day" => format!("day = DATE '{text}'"),
                    name => format!("{name} = '{text}'"),
                }
            })
            .collect();
        parts.join(" AND ")
    }
}

/// Spreads numbers evenly enough to pick flights (the finaliser of SplitMix64).
fn next_draw(draw: u64) -> u64 {
    let mut mixed = draw.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Date32Array, Int32Array, RecordBatch, StringArray};

    use super::FlightKeys;
    use crate::demo::shared::Shared;

    #[test]
    fn a_flight_is_named_by_its_key() {
        let day: ArrayRef = Arc::new(Date32Array::from(vec![15_706]));
        let carrier: ArrayRef = Arc::new(StringArray::from(vec!["UA"]));
        let flight: ArrayRef = Arc::new(Int32Array::from(vec![1545]));
        let origin: ArrayRef = Arc::new(StringArray::from(vec!["EWR"]));
        let columns = [
            ("day", day),
            ("carrier", carrier),
            ("flight", flight),
            ("origin", origin),
        ];
        let keys = FlightKeys::of(&RecordBatch::try_from_iter(columns).unwrap()).unwrap();
        let condition = keys.condition(77, &Shared::new(1));
        let expected =
            "day = DATE '2013-01-01' AND carrier = 'UA' AND flight = 1545 AND origin = 'EWR'";
        assert_eq!(condition, expected);
    }
}
