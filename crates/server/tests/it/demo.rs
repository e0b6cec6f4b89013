//! The demo on a few days of the year: it passes its own checks, and leaves what it says.

use crate::run::{Place, Said, alone, text};
use crate::server::Server;

#[test]
fn a_few_days_pass_all_checks() {
    let place = Place::new();
    let folder = place.path("db");
    let args = [
        "demo",
        "--days",
        "10",
        "--rate",
        "10000",
        "--json",
        "--dir",
        text(&folder),
    ];
    let said = alone(&args);
    assert!(said.ok, "{}{}", said.out, said.err);
    assert!(said.out.contains("\"passed\":true"), "{}", said.out);
    let report = std::fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(report.contains("<svg ") && report.contains("All checks passed"));
    assert_eq!(place.rows("SELECT count(*) FROM airlines"), "16\n");
    let said = alone(&["demo", "--scu-age", "0", "--dir", text(&folder)]);
    assert!(!said.ok && said.err.contains("--scu-age"), "{}", said.err);
    let said = alone(&["demo", "--scu-age", "1e300", "--dir", text(&folder)]);
    let fact = "--scu-age 1e300 is no number of seconds";
    assert!(!said.ok && said.err.contains(fact), "{}", said.err);
    let said = alone(&[
        "demo",
        "--days",
        "1",
        "--rate",
        "max",
        "--dir",
        text(&folder),
    ]);
    assert!(said.ok, "{}{}", said.out, said.err);
    for told in [
        "What freshness cost",
        "What was read",
        "all passed",
        "report: ",
    ] {
        assert!(said.out.contains(told), "{told}: {}", said.out);
    }
    for line in said
        .out
        .lines()
        .filter(|line| !line.contains(text(&folder)))
    {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn what_somebody_uses_or_has_added_to_is_not_replaced() {
    let place = Place::new();
    let folder = place.path("db");
    let demo = || -> Said {
        let args = ["demo", "--days", "1", "--rate", "max", "--dir"];
        alone(&[&args[..], &[text(&folder)]].concat())
    };
    let first = demo();
    assert!(first.ok, "{}", first.err);
    let server = Server::start(&place, &[]);
    let refused = demo();
    assert!(!refused.ok && refused.err.contains("in use by process"));
    let address = format!("serves postgresql://{}/lazybase", server.pg);
    assert!(refused.err.contains(&address), "{}", refused.err);
    server.rows("CREATE TABLE mine AS SELECT carrier FROM airlines");
    server.stop();
    let refused = demo();
    assert!(!refused.ok, "{}", refused.out);
    for told in ["\"mine\"", "hint: give --dir another folder"] {
        assert!(refused.err.contains(told), "{told}: {}", refused.err);
    }
    assert_eq!(place.rows("SELECT count(*) FROM mine"), "16\n");
    place.ok(&["sql", "-c", "DROP TABLE mine"]);
    let again = demo();
    assert!(again.ok, "{}", again.err);
    assert_eq!(place.rows("SELECT count(*) FROM airlines"), "16\n");
}
