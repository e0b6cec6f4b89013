//! Tests of `shell::meta`.

use std::time::Duration;

use lazybase_model::Freshness;

use super::{Meta, parse, set_freshness};
use crate::cli::Format;

#[test]
fn commands_are_read() {
    let within = |seconds| Freshness::Within(Duration::from_secs(seconds));
    for (text, expected) in [
        ("\\d", Meta::Tables),
        ("\\dt;", Meta::Tables),
        ("\\d Flights", Meta::Describe("flights".to_owned())),
        ("\\d \"Fl\"\"x\"", Meta::Describe("Fl\"x".to_owned())),
        ("\\timing", Meta::Timing(None)),
        ("\\timing off", Meta::Timing(Some(false))),
        ("\\format CSV", Meta::Format(Format::Csv)),
        ("\\freshness", Meta::ShowFreshness),
        ("\\freshness 10s", Meta::SetFreshness(within(10))),
        (
            "\\freshness best effort",
            Meta::SetFreshness(Freshness::BestEffort),
        ),
        ("\\q", Meta::Quit),
        ("\\?", Meta::Help),
    ] {
        assert_eq!(parse(text).unwrap(), expected, "{text}");
    }
    for text in ["\\x", "\\format pdf", "\\freshness soon", "\\timing maybe"] {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn freshness_is_set_as_sql() {
    assert_eq!(
        set_freshness(Freshness::BestEffort),
        "SET lazybase.freshness = 'best effort'"
    );
}
