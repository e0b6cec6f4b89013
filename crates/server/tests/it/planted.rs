//! What is released makes no mistake on purpose: nothing of what a simulation plants is in it.

use std::fs::File;
use std::io::BufReader;

use lazybase_engine::env::planted::is_marked;

/// Where faults can be planted the mark is there: the simulator's tests look for it in its binary.
#[test]
fn no_fault_can_be_planted_in_the_binary() {
    let binary = File::open(env!("CARGO_BIN_EXE_lazybase")).unwrap();
    assert!(!is_marked(BufReader::with_capacity(1 << 20, binary)).unwrap());
}
