//! The simulator can fail: it finds each mistake that the database makes on purpose, and the
//! database as it is released can make none of them.

#[cfg(not(feature = "planted-faults"))]
#[test]
fn a_build_makes_no_mistakes_on_purpose_unless_it_is_told_to() {
    use std::process::Command;

    use lazybase_engine::env::planted::{Planted, can_be_planted, is_planted};

    assert!(!can_be_planted());
    assert!(!Planted::ALL.iter().any(|fault| is_planted(*fault)));
    let mut command = Command::new(env!("CARGO_BIN_EXE_lazybase-sim"));
    let refused = command.args(["--plant", "SyncSkipped"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        String::from_utf8(refused.stderr)
            .unwrap()
            .contains("no planted faults")
    );
}

#[cfg(feature = "planted-faults")]
#[test]
fn each_planted_fault_is_found_within_two_thousand_seeds() {
    use lazybase_engine::env::planted::Planted;
    use lazybase_sim::run::run_seed;
    use lazybase_sim::story::Trim;
    use lazybase_sim::sweep::{Plan, cores, sweep};

    let mut missed = Vec::new();
    for fault in Planted::ALL {
        let plan = Plan {
            from: 0,
            seeds: 2000,
            threads: cores(),
            violations_max: 1,
            trim: Trim {
                planted: Some(*fault),
                ..Trim::NOTHING
            },
        };
        let report = sweep(plan, &|_, _| {});
        match report.violations.first() {
            Some((seed, what)) => {
                println!("{}: seed {seed}: {what}", fault.name());
                // It is the fault that was found, and nothing else.
                let without = run_seed(*seed, Trim::NOTHING, false);
                assert_eq!(without.violation, None, "seed {seed} without the fault");
            }
            None => missed.push(fault.name()),
        }
    }
    assert_eq!(missed, Vec::<&str>::new());
}
