//! libFuzzer over what users send: over the target that `LAZYBASE_FUZZ_TARGET` names. `fuzz/run`
//! builds and starts it, for the allocator that counts is compiled for nobody else.
#![no_main]
#![allow(
    unsafe_code,
    reason = "libFuzzer calls what it tests by a name of the linker"
)]
#![allow(clippy::disallowed_methods, reason = "nothing is simulated here")]

use std::env;
use std::panic;
use std::process::abort;
use std::sync::{LazyLock, Mutex};
use std::thread;

use lazybase_query::fuzz::{STACK_BYTES, Target, memory};

#[global_allocator]
static COUNTED: memory::Counted = memory::Counted;

/// Every target of every crate.
static TARGETS: [&[(&str, Target)]; 4] = [
    &lazybase_query::fuzz::TARGETS,
    &lazybase_pg::fuzz::TARGETS,
    &lazybase_flight::fuzz::TARGETS,
    &lazybase_server::fuzz::TARGETS,
];

static CHOSEN: LazyLock<Target> = LazyLock::new(chosen);

/// What the last panic said.
static LAST_WORDS: Mutex<String> = Mutex::new(String::new());

/// The target of this process. From here on libFuzzer, which ends it at any panic, hears of none
/// that is caught: what libraries trip over in files and messages is an error of the statement.
fn chosen() -> Target {
    let name = env::var("LAZYBASE_FUZZ_TARGET").unwrap_or_default();
    let mut all = TARGETS.iter().copied().flatten();
    let Some((_, target)) = all.find(|(known, _)| *known == name) else {
        eprintln!("LAZYBASE_FUZZ_TARGET names no target: {name:?}");
        abort();
    };
    panic::set_hook(Box::new(|told| {
        if let Ok(mut words) = LAST_WORDS.lock() {
            *words = told.to_string();
        }
    }));
    *target
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let target = *CHOSEN;
    // Planning recurses, deeper where nothing is optimised than the first thread has room for.
    let done = thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK_BYTES);
        let started = thread.spawn_scoped(scope, || memory::bounded(bytes, target));
        started.expect("a thread can be started").join()
    });
    if done.is_err() {
        let words = LAST_WORDS.lock().map(|words| words.clone());
        eprintln!("{}", words.unwrap_or_default());
        abort();
    }
});
