//! The document, the dashboard and the alert rules name metrics that are there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::list::{Kind, METRICS, Metric};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap()
}

/// The metrics as the table of a document.
fn document() -> String {
    let mut text = "\n| metric | kind | labels | means |\n| --- | --- | --- | --- |\n".to_owned();
    for Metric {
        name,
        kind,
        labels,
        help,
        ..
    } in METRICS
    {
        let kind = match kind {
            Kind::Counter | Kind::FloatCounter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        text += &format!("| `{name}` | {kind} | {} | {help} |\n", labels.join(", "));
    }
    text + "\n"
}

/// `LAZYBASE_REWRITE_DOCS=1` writes the metrics into the document anew.
#[test]
fn the_document_lists_the_metrics() {
    let path = "docs/user/monitoring.md";
    let text = read(path);
    let (begin, end) = ("<!-- metrics -->\n", "<!-- end of metrics -->");
    let (before, rest) = text.split_once(begin).unwrap();
    let (listed, after) = rest.split_once(end).unwrap();
    if std::env::var_os("LAZYBASE_REWRITE_DOCS").is_some() {
        let text = format!("{before}{begin}{}{end}{after}", document());
        crate::wall::write_file(&repository().join(path), text.as_bytes()).unwrap();
        return;
    }
    assert_eq!(listed, document(), "LAZYBASE_REWRITE_DOCS=1 writes it anew");
}

#[test]
fn names_are_once_and_labels_are_short() {
    let names: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), METRICS.len());
    for metric in METRICS {
        assert!(metric.labels.len() <= 2, "{metric:?}");
        assert_eq!(metric.kind == Kind::Histogram, !metric.buckets.is_empty());
    }
}

/// Every name in a text that looks like one of ours.
fn named(text: &str) -> BTreeSet<String> {
    let inside = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !inside(c));
    let ours = |word: &&str| word.starts_with("lazybase_") || word.starts_with("process_");
    words.filter(ours).map(str::to_owned).collect()
}

/// Whether a name is a metric, or a series of one.
fn is_known(name: &str) -> bool {
    METRICS.iter().any(|metric| {
        let series = name.strip_prefix(metric.name);
        match metric.kind {
            Kind::Histogram => matches!(series, Some("_bucket" | "_sum" | "_count")),
            _ => series == Some(""),
        }
    })
}

#[test]
fn the_dashboard_and_the_rules_ask_for_metrics_that_are_there() {
    let dashboard = read("packaging/grafana/lazybase.json");
    let parsed: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    let panels = parsed["panels"].as_array().unwrap();
    let mut asked = 0;
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        if panel["type"] == "row" {
            continue;
        }
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            let names = named(expression);
            assert!(!names.is_empty(), "{expression}");
            for name in &names {
                assert!(is_known(name), "{name} in {expression}");
            }
            asked += names.len();
        }
    }
    assert!(asked > 20, "{asked}");
    let rules = read("packaging/prometheus/alerts.yml");
    let expressions = rules
        .lines()
        .filter(|line| line.trim_start().starts_with("expr:"));
    let names: BTreeSet<String> = expressions.flat_map(named).collect();
    assert!(names.len() > 6, "{names:?}");
    for name in names {
        assert!(is_known(&name), "{name}");
    }
}
