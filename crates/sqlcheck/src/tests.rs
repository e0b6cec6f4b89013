//! A short share of the stories, and what must hold of the harness itself.

use std::time::Duration;

use clap::ValueEnum;

use crate::dice::Dice;
use crate::kind::Kind;
use crate::plant::Plant;
use crate::ranges::Ranges;
use crate::run::Violation;
use crate::story::Story;
use crate::sweep::{Plan, Teller, sweep, with_stack};

/// The stories that each run of the tests tells; `LAZYBASE_SQL_STATEMENTS` asks for more.
#[test]
fn random_sql_has_the_answers_of_plain_tables() {
    let statements = std::env::var("LAZYBASE_SQL_STATEMENTS").ok();
    let plan = Plan {
        from: 0,
        statements: statements.map_or(1_500, |count| count.parse().unwrap()),
        time_max: Duration::from_secs(3600),
        threads: 2,
        plant: None,
    };
    let report = sweep(plan, |_| {}).unwrap();
    let shown: Vec<String> = report
        .violations
        .iter()
        .map(|(seed, what)| format!("seed {seed}: {}", what.0))
        .collect();
    assert!(report.violations.is_empty(), "{}", shown.join("\n"));
    assert_eq!(report.shortfalls(&plan), Vec::<String>::new());
}

/// So many stories are told at most until a mistake is found.
const STORIES_PLANTED: u64 = 20;

/// What the first story says that a mistake is found in.
fn found(plant: Plant) -> Option<String> {
    let teller = Teller::new(Some(plant)).unwrap();
    let told = |seed| with_stack(|| teller.tell(&Story::draw(seed))).unwrap();
    let mut violations = (0..STORIES_PLANTED).filter_map(|seed| told(seed).violation);
    violations.next().map(|Violation(what)| what)
}

/// The harness can fail: each mistake that is made on purpose is found, and for what it is.
#[test]
fn planted_mistakes_are_found() {
    for plant in Plant::value_variants() {
        let what = found(*plant).unwrap_or_else(|| panic!("{plant:?} is not found"));
        let says = match plant {
            Plant::LostRow | Plant::RowTwice | Plant::OtherOrder | Plant::WrongCell => "but got",
            Plant::Failure => "failed alone",
            Plant::BothSides => "expected by hand",
            Plant::WrongCount => "told of",
            Plant::WrongScu => "WHERE _scu =",
            Plant::WrongTime => "_time",
        };
        assert!(what.contains(says), "{plant:?}: {what}");
    }
}

/// A report that says less than was asked for does not pass.
#[test]
fn a_sweep_without_time_falls_short() {
    let plan = Plan {
        from: 0,
        statements: 1_000_000,
        time_max: Duration::ZERO,
        threads: 1,
        plant: None,
    };
    let report = sweep(plan, |_| {}).unwrap();
    assert!(report.shortfalls(&plan)[0].contains("not 1000000"));
}

#[test]
fn a_seed_is_one_story() {
    let story = |seed| format!("{:?}", Story::draw(seed).steps);
    assert_eq!(story(7), story(7));
    assert_ne!(story(7), story(8));
}

/// What a few stories do, so that a draw that never comes is missed.
#[test]
fn stories_have_all_that_can_be_drawn() {
    let mut missing = vec![
        "Partition {",
        "Comment {",
        "Define(Create(",
        "Copy {",
        "Rename(",
        "Drop {",
        "Key {",
        "is_temporary: true",
        "BeginSlow(",
        "Prepared)",
        "Restore(",
        "Arrow(",
        "RollbackTo",
        "_scu",
        "_time(",
        "by_hand: Some(",
    ];
    for seed in 0..60 {
        let told = format!("{:?}", Story::draw(seed).steps);
        missing.retain(|what| !told.contains(what));
    }
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn each_value_lies_in_one_range_partition() {
    let mut dice = Dice::new(3);
    for kind in Kind::ALL {
        let Some(ranges) = Ranges::draw(&mut dice, 0, kind) else {
            assert_eq!(kind, Kind::List);
            continue;
        };
        for _ in 0..50 {
            let value = kind.cell(&mut dice, true, 0).value;
            assert!(ranges.part_of(&value) < ranges.count(), "{value:?}");
        }
    }
}

#[test]
fn dice_stay_in_their_bounds() {
    let mut dice = Dice::new(1);
    for sides in 1..50 {
        assert!(dice.roll(sides) < sides);
        let number = dice.between(-3, sides as i64);
        assert!((-3..=sides as i64).contains(&number));
    }
    assert_eq!(dice.roll(0), 0);
}
