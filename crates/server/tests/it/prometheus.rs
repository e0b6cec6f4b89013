//! Reads Prometheus' text format as strictly as it is written.

use std::collections::{BTreeMap, BTreeSet};

/// All series of one metric.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) kind: String,
    pub(crate) samples: Vec<Sample>,
}

/// One line.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

/// The metrics of a text. Panics at whatever Prometheus would refuse, and at a metric without
/// HELP, of another unit than its name says, or twice there.
pub(crate) fn parse(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut helped = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut current = String::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(help.len() > 3 && helped.insert(name.to_owned()), "{line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(helped.contains(name), "{name} has no HELP");
            check_name(name, kind);
            current = name.to_owned();
            let kind = kind.to_owned();
            let samples = Vec::new();
            let before = families.insert(current.clone(), Family { kind, samples });
            assert!(before.is_none(), "{name} is there twice");
        } else {
            let sample = sample(line);
            assert!(seen.insert(series(line)), "twice: {line}");
            let family = families.get_mut(&current).unwrap();
            let end = sample.name.strip_prefix(&current).unwrap();
            match family.kind.as_str() {
                "histogram" => assert!(matches!(end, "_bucket" | "_sum" | "_count"), "{line}"),
                _ => assert_eq!(end, "", "{line}"),
            }
            if family.kind == "counter" {
                assert!(sample.value >= 0.0, "{line}");
            }
            family.samples.push(sample);
        }
    }
    families
}

fn check_name(name: &str, kind: &str) {
    let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    assert!(name.chars().all(letters), "{name}");
    match kind {
        "counter" => assert!(name.ends_with("_total"), "{name}"),
        "gauge" => assert!(!name.ends_with("_total"), "{name}"),
        "histogram" => assert!(
            name.ends_with("_seconds") || name.ends_with("_bytes"),
            "{name}"
        ),
        _ => panic!("{name} is a {kind}"),
    }
    for wrong in ["_ms", "_millis", "_micros", "_kb", "_mib"] {
        assert!(!name.contains(wrong), "{name}");
    }
}

fn series(line: &str) -> String {
    line.rsplit_once(' ').unwrap().0.to_owned()
}

fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let value = match value {
        "+Inf" | "inf" => f64::INFINITY,
        value => value.parse().unwrap_or_else(|_| panic!("{line}")),
    };
    let Some((name, rest)) = series.split_once('{') else {
        let (name, labels) = (series.to_owned(), BTreeMap::new());
        return Sample {
            name,
            labels,
            value,
        };
    };
    let mut labels = BTreeMap::new();
    let mut rest = rest.strip_suffix('}').unwrap();
    while !rest.is_empty() {
        let (label, after) = rest.split_once("=\"").unwrap();
        // Names of tables may hold anything but what these tests don't need.
        let (value, after) = after.split_once('"').unwrap();
        assert!(
            labels.insert(label.to_owned(), value.to_owned()).is_none(),
            "{line}"
        );
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    Sample {
        name: name.to_owned(),
        labels,
        value,
    }
}
