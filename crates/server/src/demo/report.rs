//! The report: one HTML file that needs nothing else, readable in light and dark.

mod plots;

use lazybase_model::Result;

use super::check::Check;
use super::questions::LEVELS;
use super::stats::{LevelSummary, PipelineSample, SUMMARY_HEADERS, Sample, summary_rows};
use plots::{LEVEL_COLOURS, STAGE_COLOURS, STAGE_NAMES};

/// All that the report shows.
pub(super) struct Report<'a> {
    /// One line about the run.
    pub(super) headline: &'a str,
    /// How to open the database.
    pub(super) command: &'a str,
    pub(super) levels: &'a [LevelSummary],
    pub(super) samples: &'a [Sample],
    pub(super) pipeline: &'a [PipelineSample],
    pub(super) checks: &'a [Check],
    /// What failed while the replay ran.
    pub(super) failures: &'a [String],
}

const STYLE: &str = "\
:root { color-scheme: light dark; --fg: #1c2430; --bg: #fdfdfc; --line: #8884; }
@media (prefers-color-scheme: dark) { :root { --fg: #dfe5ee; --bg: #14181f; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--fg); background: var(--bg);
  max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2.2rem; }
table { border-collapse: collapse; } td, th { padding: .25rem .7rem; text-align: right;
  border-bottom: 1px solid var(--line); }
td:first-child, th:first-child, td:last-child, th:last-child { text-align: left; }
svg { width: 100%; height: auto; color: var(--fg); }
.key span { display: inline-block; width: .8em; height: .8em; margin: 0 .35em 0 1em; }
code { background: var(--line); padding: .1rem .35rem; border-radius: .25rem; }
.failed { color: #d1382c; font-weight: 600; }";

impl Report<'_> {
    /// The whole file.
    pub(super) fn html(&self) -> Result<String> {
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\">\
             <title>LazyBase demo</title><style>{STYLE}</style></head><body>\n\
             <h1>A year of flights, observed</h1><p>{}</p>\n",
            escaped(self.headline)
        );
        page += &self.table();
        page +=
            "<h2>The pipeline over time</h2><p>SCUs in each stage; each ends in the authority.</p>";
        let stages = STAGE_NAMES.iter().copied().zip(STAGE_COLOURS);
        page += &legend(stages.clone());
        page += &plots::pipeline(self.pipeline)?;
        page += "<h2>Staleness over time, by stage</h2><p>How old an answer would be that reads \
                 nothing before this stage.</p>";
        page += &legend(stages.take(3));
        page += &plots::stage_staleness(self.pipeline)?;
        let levels = || {
            let names = LEVELS.iter().map(ToString::to_string);
            names.zip(LEVEL_COLOURS)
        };
        page += "<h2>Staleness over time, by freshness asked</h2><p>Each dot is an answer.</p>";
        page += &legend(levels());
        page += &plots::answer_staleness(self.samples)?;
        page += "<h2>Latency against freshness</h2><p>Each dot is an answer; the bar is the \
                 median. Fresher to the right.</p>";
        page += &legend(levels());
        page += &plots::latency(self.samples)?;
        page += &self.checks();
        page += &format!(
            "<h2>Look around</h2><p><code>{}</code></p></body></html>\n",
            escaped(self.command)
        );
        Ok(page)
    }

    fn table(&self) -> String {
        let cells = |tag: &str, cells: &[String]| -> String {
            let cells = cells
                .iter()
                .map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell)));
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        };
        let headers = SUMMARY_HEADERS.map(str::to_owned);
        let rows = summary_rows(self.levels);
        let rows: String = rows.iter().map(|row| cells("td", row)).collect();
        format!("<table>{}{rows}</table>\n", cells("th", &headers))
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
        format!(
            "<h2>Checks against the source files</h2><ul>{}{}</ul>\n",
            self.checks.iter().map(line).collect::<String>(),
            self.failures.iter().map(failure).collect::<String>(),
        )
    }
}

fn legend<N: AsRef<str>>(entries: impl Iterator<Item = (N, (u8, u8, u8))>) -> String {
    let entry = |(name, (red, green, blue)): (N, (u8, u8, u8))| {
        format!(
            "<span style=\"background: rgb({red} {green} {blue})\"></span>{}",
            escaped(name.as_ref())
        )
    };
    format!(
        "<p class=\"key\">{}</p>",
        entries.map(entry).collect::<String>()
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests;
