//! Tests of `shell::meta`.

use std::time::Duration;

use lazybase_model::Freshness;

use super::{Meta, parse, plain_word, set_freshness};
use crate::cli::Format;

#[test]
fn commands_are_read() {
    let within = |seconds| Freshness::Within(Duration::from_secs(seconds));
    let describe = |table: &str, all| Meta::Describe {
        table: table.to_owned(),
        all,
    };
    for (text, expected) in [
        ("\\d", Meta::Tables { all: false }),
        ("\\dt;", Meta::Tables { all: false }),
        ("\\d+", Meta::Tables { all: true }),
        ("\\d Flights", describe("flights", false)),
        ("\\d \"Fl\"\"x\"", describe("Fl\"x", false)),
        ("\\d+ Flights;", describe("flights", true)),
        ("\\dt+ Flights", describe("flights", true)),
        (
            "\\d LazyBase.lag",
            Meta::DescribeSystem("\"lazybase\".\"lag\"".to_owned()),
        ),
        ("\\d \"lazybase.lag\"", describe("lazybase.lag", false)),
        ("\\dv", Meta::Views),
        ("\\l", Meta::Databases),
        ("\\x", Meta::Records(None)),
        ("\\x on", Meta::Records(Some(true))),
        ("\\x auto", Meta::Records(Some(false))),
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
    for text in [
        "\\nonsense",
        "\\x maybe",
        "\\dv flights",
        "\\format pdf",
        "\\freshness soon",
        "\\timing maybe",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn words_that_people_try_are_commands() {
    assert_eq!(plain_word(" Exit; "), Some("\\q"));
    assert_eq!(plain_word("help"), Some("\\?"));
    assert_eq!(plain_word("help me"), None);
}

#[test]
fn freshness_is_set_as_sql() {
    assert_eq!(
        set_freshness(Freshness::BestEffort),
        "SET lazybase.freshness = 'best effort'"
    );
}
