//! The demo on a few days of the year: it passes its own checks, and leaves what it says.

use crate::run::{Place, alone, text};

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
