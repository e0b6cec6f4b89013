//! The simulator can fail: it finds each mistake that the database makes on purpose, and the
//! database as it is released can make none of them.

use std::fs::File;
use std::io::BufReader;
use std::sync::Arc;

use futures::executor::block_on;
use lazybase_cluster::{Instance, Settings};
use lazybase_engine::env::Env;
use lazybase_engine::env::memory::MemoryStore;
use lazybase_engine::env::planted::{Chosen, Planted, can_be_planted, is_marked, is_planted};

#[cfg(not(feature = "planted-faults"))]
#[test]
fn a_build_makes_no_mistakes_on_purpose_unless_it_is_told_to() {
    assert!(!can_be_planted());
    assert!(!Planted::ALL.iter().any(|fault| is_planted(*fault)));
    let refused = crate::command::run(&["--plant", "SyncSkipped"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        String::from_utf8(refused.stderr)
            .unwrap()
            .contains("no planted faults")
    );
}

/// Opens a database in an environment of this choice; whether a mistake is made from then on.
fn makes(chosen: Chosen, fault: Planted) -> bool {
    let store = Arc::new(MemoryStore::without_history());
    let env = Env {
        planted: chosen,
        ..Env::system(store)
    };
    let settings = Settings {
        log_file_bytes: 1 << 20,
        ..Settings::default()
    };
    let instance = block_on(Instance::open(env, settings)).unwrap();
    let is_made = is_planted(fault);
    block_on(instance.close()).unwrap();
    is_made
}

#[test]
fn an_environment_says_which_planted_fault_its_databases_make() {
    let [one, other] = [Planted::TieReversed, Planted::IdShared];
    assert_eq!(makes(Chosen::of(Some(one)), one), can_be_planted());
    assert!(!makes(Chosen::of(Some(other)), one));
    assert_eq!(makes(Chosen::of(Some(other)), other), can_be_planted());
    assert!(!makes(Chosen::NONE, other));
}

/// So it is known which binary can make none.
#[test]
fn a_binary_in_which_faults_can_be_planted_is_marked() {
    let binary = File::open(env!("CARGO_BIN_EXE_lazybase-sim")).unwrap();
    let found = is_marked(BufReader::with_capacity(1 << 20, binary)).unwrap();
    assert_eq!(found, can_be_planted());
}

#[cfg(feature = "planted-faults")]
#[test]
fn each_planted_fault_is_found_within_two_thousand_seeds() {
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
