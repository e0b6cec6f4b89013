//! `lazybase verify`: reads everything again and checks it against checksums and invariants.
//!
//! The engine does the reading; this shows how far it is and what it found. A problem makes the
//! command fail.

use std::path::PathBuf;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use lazybase_cluster::{Outcome, VerifyReport};
use lazybase_model::{Error, Result};
use serde_json::{Value, json};

use crate::cli::{ReportFormat, VerifyArgs};
use crate::failure;
use crate::figures::{bytes, counted};
use crate::open::{self, Missing};
use crate::wall::Stopwatch;

/// Runs the command.
pub(crate) async fn run(db: Option<PathBuf>, args: VerifyArgs) -> Result<()> {
    let database = open::database(db, Missing::Refuse).await?;
    let stopwatch = Stopwatch::start();
    let bar = ProgressBar::new(1_000);
    if let Ok(style) = ProgressStyle::with_template("verifying [{bar:40}] {percent}% {elapsed}") {
        bar.set_style(style.progress_chars("=> "));
    }
    let progress = |share: f64| bar.set_position((share * 1_000.0) as u64);
    let verified = database.instance().verify(&progress).await;
    bar.finish_and_clear();
    let report = open::close(&database, verified).await?;
    show(&report, args.format, stopwatch.elapsed())?;
    match (report.problems.len() + report.healable.len()) as u64 {
        0 => Ok(()),
        n => Err(Error::corrupt(format!("{} found", counted(n, "problem")))
            .with_hint("restore the named files from a backup, or load the data again")),
    }
}

fn show(report: &VerifyReport, format: ReportFormat, took: Duration) -> Result<()> {
    let text = match format {
        ReportFormat::Text => text(report, took),
        ReportFormat::Json => format!(
            "{}\n",
            json!({
                "files": report.files,
                "bytes": report.bytes,
                "rows": report.rows,
                "seconds": took.as_secs_f64(),
                "problems": report.problems,
                "healed": report.healed,
                "healable": report.healable,
                "views": views(report),
            })
        ),
    };
    failure::write_data(&text)
}

/// What came of the views, for programs.
fn views(report: &VerifyReport) -> Vec<Value> {
    let views = report.views.iter().map(|check| {
        json!({
            "view": check.of,
            "through_scu": check.span.last.0,
            "rows": check.rows,
            "outcome": match &check.outcome {
                Outcome::Same => "the same".to_owned(),
                Outcome::NotCompared(why) => format!("not compared: {why}"),
                Outcome::Differs { .. } => "differs".to_owned(),
            },
        })
    });
    views.collect()
}

fn text(report: &VerifyReport, took: Duration) -> String {
    let mut text = String::new();
    for problem in &report.problems {
        text += &format!("problem: {problem}\n");
    }
    for healed in &report.healed {
        text += &format!("healed: {healed}\n");
    }
    for healable in &report.healable {
        text += &format!("can be healed, open the database for longer: {healable}\n");
    }
    for check in &report.views {
        let (view, through) = (&check.of, check.span.last);
        match &check.outcome {
            Outcome::Same => {
                let rows = counted(check.rows, "row");
                text += &format!(
                    "view {view:?} shows the {rows} of its table, through SCU {through}\n"
                );
            }
            Outcome::NotCompared(why) => {
                text += &format!(
                    "view {view:?} was not compared with its table, through SCU {through}: {why}\n"
                );
            }
            // Which is a problem, and told as one.
            Outcome::Differs { .. } => {}
        }
    }
    text += &format!(
        "read {}, {}, {} in {:.1} s: {}\n",
        counted(report.files, "file"),
        bytes(report.bytes),
        counted(report.rows, "stored row"),
        took.as_secs_f64(),
        match (report.problems.len() as u64, report.is_whole()) {
            (0, true) if report.healed.is_empty() => "all of it is whole".to_owned(),
            (0, true) => "all of it is whole now".to_owned(),
            (0, false) => "healing goes on".to_owned(),
            (n, _) => counted(n, "problem"),
        }
    );
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lazybase_cluster::{Outcome, StageCheck, VerifyReport};
    use lazybase_model::{ScuNumber, Span};

    use super::{text, views};

    #[test]
    fn problems_come_first() {
        let mut report = VerifyReport {
            files: 2,
            bytes: 2048,
            rows: 10,
            ..VerifyReport::default()
        };
        let took = Duration::from_millis(1500);
        assert_eq!(
            text(&report, took),
            "read 2 files, 2.0 KiB, 10 stored rows in 1.5 s: all of it is whole\n"
        );
        report.problems.push("segments/a.ext: bad".to_owned());
        assert!(text(&report, took).starts_with("problem: segments/a.ext: bad\nread"));
    }

    #[test]
    fn views_are_told_with_what_came_of_them() {
        let view = |of: &str, rows, outcome| StageCheck {
            of: of.to_owned(),
            stage: "view",
            span: Span::base(ScuNumber(7)),
            rows,
            outcome,
        };
        let unbuilt = Outcome::NotCompared("it is not built yet".to_owned());
        let differs = Outcome::Differs {
            rows: 1,
            told: Vec::new(),
            healed: false,
        };
        let report = VerifyReport {
            views: vec![
                view("by_a", 3, Outcome::Same),
                view("by_b", 0, unbuilt),
                view("by_c", 0, differs),
            ],
            ..VerifyReport::default()
        };
        let told = text(&report, Duration::ZERO);
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(
            lines[..2],
            [
                "view \"by_a\" shows the 3 rows of its table, through SCU 7",
                "view \"by_b\" was not compared with its table, through SCU 7: it is not built yet",
            ]
        );
        assert_eq!(lines.len(), 3, "{told}");
        let outcomes: Vec<_> = views(&report)
            .iter()
            .map(|view| view["outcome"].as_str().unwrap().to_owned())
            .collect();
        let unbuilt = "not compared: it is not built yet";
        assert_eq!(outcomes, ["the same", unbuilt, "differs"]);
    }
}
