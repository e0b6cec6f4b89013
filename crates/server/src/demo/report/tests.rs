//! Tests of `demo::report`.

use std::collections::BTreeSet;

use lazybase_model::SourceCounts;
use regex::Regex;

use super::super::check::Check;
use super::super::questions::Question;
use super::super::stats::{PipelineSample, Sample, summarise};
use super::{Report, STYLE};

fn report(samples: &[Sample], pipeline: &[PipelineSample]) -> String {
    let checks = [
        Check::new("sums", true, ""),
        Check::new("counts", false, "1 < 2"),
    ];
    Report {
        headline: "a & b",
        setup: "c > d",
        command: "lazybase --db d sql",
        levels: &summarise(samples),
        samples,
        pipeline,
        checks: &checks,
        failures: &[],
    }
    .html()
    .unwrap()
}

#[test]
fn the_report_stands_alone() {
    let sample = |at: u64| Sample {
        at_us: at * 10_000,
        question: Question::Cut,
        level: (at % 4) as usize,
        latency_us: 500 + at,
        staleness_us: at * 100,
        left_out: 0,
        sources: SourceCounts::default(),
    };
    let samples: Vec<Sample> = (0..500).map(sample).collect();
    let pipeline: Vec<PipelineSample> = (0..50)
        .map(|at| PipelineSample {
            at_us: at * 100_000,
            changes: at,
            open_batches: 1,
            scus: [1, 2, 3, at],
            staleness_us: [at, at * 2, at * 3],
        })
        .collect();
    let page = report(&samples, &pipeline);
    assert_eq!(page.matches("<svg ").count(), 4 + 4 + 2);
    assert!(page.contains("1 of 2 checks passed") && page.contains("1 check failed"));
    assert_eq!(
        page.matches("role=\"img\" aria-label=\"").count(),
        4 + 4 + 2
    );
    assert!(page.contains("prefers-color-scheme: dark"));
    assert!(page.contains("a &amp; b") && page.contains("1 &lt; 2"));
    // Whatever is drawn has the page's colours, else it would be lost in the dark.
    let painted = Regex::new("(?:fill|stroke)=\"#[0-9A-F]{6}\"").unwrap();
    let drawn = page.split_once("</style>").unwrap().1;
    let colours: BTreeSet<&str> = painted
        .find_iter(drawn)
        .map(|found| found.as_str())
        .collect();
    assert!(colours.len() >= 10, "{colours:?}");
    for colour in colours {
        assert!(STYLE.contains(&format!("svg [{colour}] {{")), "{colour}");
    }
    for outside in ["<script", "href=", "src=", "url(", "@import", "NaN"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn a_run_without_answers_has_a_report_too() {
    let page = report(&[], &[]);
    assert!(page.contains("</html>") && !page.contains("NaN") && !page.contains("inf"));
}
