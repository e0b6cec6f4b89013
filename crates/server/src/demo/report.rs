//! The report: one HTML file that needs nothing else, readable in light and dark, on a desk and on
//! a phone. It answers in this order: what did freshness cost, what was read for it, was it kept,
//! and how did the data move meanwhile.

mod plots;

use lazybase_model::{Result, Stage};

use super::check::Check;
use super::questions::{LEVELS, Question};
use super::stats::{LevelSummary, PipelineSample, STAGES, Sample, price};
use crate::figures::{bytes, counted, micros, thousands};

/// All that the report shows.
pub(super) struct Report<'a> {
    /// A line about the run.
    pub(super) headline: &'a str,
    /// How it was set up.
    pub(super) setup: &'a str,
    /// How to open the database.
    pub(super) command: &'a str,
    pub(super) levels: &'a [LevelSummary],
    pub(super) samples: &'a [Sample],
    pub(super) pipeline: &'a [PipelineSample],
    pub(super) checks: &'a [Check],
    /// What failed while the replay ran.
    pub(super) failures: &'a [String],
}

const STYLE: &str = include_str!("report/style.css");

const LEAD: &str = "Batches of observations become cheaper to read stage by stage: they are \
    acknowledged into an <b>open</b> unit (SCU), sealed (<b>ingested</b>), <b>sorted</b>, \
    <b>merged</b>, and folded into the <b>authority</b>. A query says how fresh its answer must \
    be; the fresher, the earlier the stages that it has to read. Stale or not, each answer is one \
    consistent cut of the whole database.";

const BOUNDS: &str = "Best effort takes the newest horizon that sorted data answers from few runs. \
    A bound takes the cheapest horizon that keeps it, which may be older, and cheaper.";

const NOTHING_MERGED: &str = " No answer met merged data: beside an authority as small as this, \
    sorted runs are folded into it at once.";

impl Report<'_> {
    /// The whole file.
    pub(super) fn html(&self) -> Result<String> {
        Ok([
            format!(
                "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
                 <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
                 <title>LazyBase demo: the price of freshness</title>\n<style>\n{STYLE}</style>\
                 </head><body>\n<h1>The price of freshness</h1>\n"
            ),
            self.intro(),
            self.price(),
            self.read(),
            self.latencies()?,
            self.stalenesses()?,
            self.pipeline()?,
            self.checks(),
            format!(
                "<h2>Look around</h2><p>The database is still there: \
                 <code>{}</code></p>\n</body></html>\n",
                escaped(self.command)
            ),
        ]
        .concat())
    }

    fn intro(&self) -> String {
        let wrong = self.checks.iter().filter(|check| !check.passed).count() + self.failures.len();
        let verdict = match wrong {
            0 => "<b class=\"passed\">All checks passed.</b>".to_owned(),
            wrong => format!(
                "<b class=\"failed\">{} failed, see below.</b>",
                counted(wrong as u64, "check")
            ),
        };
        format!(
            "<p>A year of flights out of New York, replayed as an operations desk would see it, \
             while readers asked four questions at four freshness levels in turn. {}. {verdict}</p>\
             \n<p class=\"small\">{LEAD}</p>\n",
            escaped(&self.headline.replace('\n', " ")),
        )
    }

    fn price(&self) -> String {
        let dearest = self.levels.iter().map(|level| level.latency_median_us);
        let dearest = dearest.max().unwrap_or(0).max(1);
        let row = |level: &LevelSummary| {
            let share = level.latency_median_us as f64 * 100.0 / dearest as f64;
            format!(
                "<tr><th>{}</th><td class=\"bar\"><span style=\"width:{share:.1}%\"></span></td>\
                 <td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                escaped(&level.asked),
                micros(level.latency_median_us),
                micros(level.latency_p99_us),
                micros(level.staleness_median_us),
                micros(level.staleness_max_us),
            )
        };
        let sentence = price(self.levels).unwrap_or_default();
        format!(
            "<p class=\"price\">{}</p>\n<div class=\"wide\"><table class=\"cost\"><tr>\
             <th>freshness asked</th><th class=\"bar\"></th><th>latency, median</th>\
             <th>99 of 100 within</th><th>stale by, median</th><th>at most</th></tr>\n{}\
             </table></div>\n<p class=\"small\">{BOUNDS}</p>\n",
            escaped(&sentence.replace('\n', " ")),
            self.levels.iter().map(row).collect::<String>(),
        )
    }

    fn read(&self) -> String {
        let row = |level: &LevelSummary| {
            let shares = STAGES.map(|stage| {
                let percent = level.percent(stage);
                let strength = percent as f64 / 100.0 * 0.75;
                let text = if percent == 0 {
                    "–"
                } else {
                    &format!("{percent} %")
                };
                format!(
                    "<td style=\"background:rgb(var(--{})/{strength:.2})\">{text}</td>",
                    stage.name()
                )
            });
            format!(
                "<tr><th>{}</th>{}<td>{}</td><td>{}</td><td>{}</td></tr>\n",
                escaped(&level.asked),
                shares.concat(),
                thousands(level.sources_median),
                bytes(level.bytes_mean),
                thousands(level.left_out_median),
            )
        };
        let merged = |level: &LevelSummary| level.percent(Stage::Merged) > 0;
        let merged = self.levels.iter().any(merged);
        let stages = STAGES.map(|stage| format!("<th>{}</th>", stage.name()));
        format!(
            "<h2>What was read for it</h2><p>The share of answers that read each stage. Open and \
             ingested data is unsorted: reading it is what freshness costs.</p>\n\
             <div class=\"wide\"><table class=\"read\"><tr><th>freshness asked</th>{}\
             <th>sources opened</th><th>fetched</th><th>batches left out</th></tr>\n\
             {}</table></div>\n\
             <p class=\"small\">Medians; bytes fetched are a mean, and data in memory costs none.\
             {}</p>\n",
            stages.concat(),
            self.levels.iter().map(row).collect::<String>(),
            if merged { "" } else { NOTHING_MERGED },
        )
    }

    fn latencies(&self) -> Result<String> {
        let decades = plots::latency_decades(self.samples);
        let card = |question: Question| {
            let plot = plots::latency(self.samples, question, &decades)?;
            Ok(card(question.title(), &plot))
        };
        let cards: Result<String> = Question::ALL.into_iter().map(card).collect();
        Ok(format!(
            "<h2>Question by question</h2><p>Each dot is an answer, each bar the median. Fresher \
             to the right; each line of the grid is ten times the one below.</p>\n\
             <div class=\"cards\">{}</div>\n",
            cards?,
        ))
    }

    fn stalenesses(&self) -> Result<String> {
        let card = |level: usize| {
            let plot = plots::staleness(self.samples, level)?;
            Ok(card(&format!("Asked {}", LEVELS[level]), &plot))
        };
        let cards: Result<String> = (0..LEVELS.len()).map(card).collect();
        Ok(format!(
            "<h2>Was the bound kept?</h2><p>How stale each answer was. What was asked is a bound: \
             fresher data is taken where it costs about the same.</p>\n\
             <div class=\"cards\">{}</div>\n",
            cards?,
        ))
    }

    fn pipeline(&self) -> Result<String> {
        let stages = STAGES.map(Stage::name);
        Ok(format!(
            "<h2>How the data moved</h2>\n<div class=\"cards\">{}{}</div>\n",
            card(
                "SCUs in each stage",
                &(legend(&stages) + &plots::pipeline(self.pipeline)?)
            ),
            card(
                "How stale each stage is",
                &(legend(&stages[2..]) + &plots::stage_staleness(self.pipeline)?)
            ),
        ))
    }

    fn checks(&self) -> String {
        let line = |check: &Check| match check.passed {
            true => format!("<li>{}: as in the files</li>", escaped(&check.name)),
            false => format!(
                "<li class=\"failed\">{}: {}</li>",
                escaped(&check.name),
                escaped(&check.found)
            ),
        };
        let failure = |text: &String| format!("<li class=\"failed\">{}</li>", escaped(text));
        let passed = self.checks.iter().filter(|check| check.passed).count();
        let open = match passed == self.checks.len() && self.failures.is_empty() {
            true => "",
            false => " open",
        };
        format!(
            "<h2>Is it true?</h2><p>While data streamed in, one question in four compared all \
             tables with a tally that each batch carries, so that a torn answer would have been \
             found; all answers had to keep their bound. In the end sums over the database were \
             compared with sums taken straight from the source files.</p>\n\
             <details{open}><summary>{passed} of {} passed</summary><ul>{}{}</ul></details>\n\
             <p class=\"small\">{}</p>\n",
            counted(self.checks.len() as u64, "check"),
            self.checks.iter().map(line).collect::<String>(),
            self.failures.iter().map(failure).collect::<String>(),
            escaped(self.setup),
        )
    }
}

fn card(title: &str, content: &str) -> String {
    format!(
        "<figure><figcaption>{}</figcaption>{content}</figure>\n",
        escaped(title)
    )
}

fn legend(names: &[&str]) -> String {
    let entry =
        |name: &&str| format!("<span><i style=\"background:rgb(var(--{name}))\"></i>{name}</span>");
    let entries: String = names.iter().map(entry).collect();
    format!("<div class=\"key\">{entries}</div>")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests;
