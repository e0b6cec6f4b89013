//! What the command tells of a failure, here of mistakes that are planted: enough to see it again.

use lazybase_engine::env::planted::Planted;
use lazybase_sim::violation::kind_of;

use crate::command::run;

/// What it tells: the seed and its violation; what is violated in the story made small, the events
/// of that, and how it is told again.
struct Told {
    seed: u64,
    violation: String,
    small: String,
    events: Vec<String>,
    again: String,
}

impl Told {
    fn of(fault: Planted, more: &[&str]) -> Told {
        let name = format!("{fault:?}");
        let mut arguments = vec!["--plant", &name, "--seeds", "2000", "--threads", "1"];
        arguments.extend(more);
        let told = run(&arguments);
        assert_eq!(told.status.code(), Some(1));
        let (report, shown) = (text(told.stdout), text(told.stderr));
        assert!(report.contains("\n1 violations\n"), "{report}");
        assert!(shown.contains("made small: Story {"), "{shown}");
        let (seed, violation) = after(&report, "  seed ").split_once(": ").unwrap();
        Told {
            seed: seed.parse().unwrap(),
            violation: violation.to_owned(),
            small: after(&shown, "violated: ").to_owned(),
            events: events(&shown),
            again: after(&shown, "again: lazybase-sim ").to_owned(),
        }
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// How the line goes on that begins like this.
fn after<'a>(text: &'a str, begin: &str) -> &'a str {
    let mut lines = text.lines();
    let found = lines.find_map(|line| line.strip_prefix(begin));
    found.unwrap_or_else(|| panic!("no line begins with {begin:?}: {text}"))
}

/// The lines that say when something happened.
fn events(text: &str) -> Vec<String> {
    let events = text.lines().filter(|line| line.contains(" ms  "));
    events.map(str::to_owned).collect()
}

#[test]
fn a_planted_fault_is_told_with_its_seed_a_small_story_its_events_and_how_to_see_it_again() {
    for fault in [Planted::SyncSkipped, Planted::SortPanics] {
        let told = Told::of(fault, &[]);
        assert_eq!(kind_of(&told.small), kind_of(&told.violation));
        let is_panic = told.violation.starts_with("a panic at ");
        assert_eq!(is_panic, fault == Planted::SortPanics, "{}", told.violation);
        // What is wrong is told among the events, at its moment, after others.
        assert!(told.events.len() > 1, "{:?}", told.events);
        let violation = format!("  violation {}", told.small);
        let mut named = told.events.iter();
        assert!(named.any(|event| event.ends_with(&violation)));
        let begin = format!("--show {} --trim ", told.seed);
        assert!(told.again.starts_with(&begin), "{}", told.again);
        let arguments: Vec<&str> = told.again.split_whitespace().collect();
        let again = run(&arguments);
        assert_eq!(again.status.code(), Some(1));
        let again = text(again.stdout);
        assert_eq!(after(&again, "violated: "), told.small);
        let all = events(&again);
        assert!(all.ends_with(&told.events), "{all:?}");
        // All of its log is told where it is asked for.
        assert_eq!(Told::of(fault, &["--log"]).events, all);
    }
}
