//! What is told of a failure: panics as violations, and of which kind a violation is.
//!
//! Reads nothing but the texts; writes nothing but what the process prints of a panic.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

/// What the violation of a panic begins with where its place is known.
const PANIC_AT: &str = "a panic at ";

/// So many words tell at least what is wrong; what stands behind a colon after them are details.
const WORDS_MIN: usize = 3;

/// What stands before the kind of an error of the database, where it is told in full.
const ERROR: &str = "Parts { kind: ";

thread_local! {
    /// Where this thread panicked last.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
    /// Whether its panics are printed as they come.
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// From now on panics of this process are told with their places, and printed as they come only
/// where somebody wants to see all of a run.
pub fn note_panics() {
    let print = take_hook();
    set_hook(Box::new(move |panic| {
        let place = panic.location().map(ToString::to_string);
        // Nobody asks a thread that is ending.
        let _ = PLACE.try_with(|last| last.replace(place));
        if !IS_QUIET.try_with(Cell::get).unwrap_or(false) {
            print(panic);
        }
    }));
}

/// Runs something; what is to be told if it panics.
pub(crate) fn caught(is_quiet: bool, run: impl FnOnce()) -> Result<(), String> {
    IS_QUIET.set(is_quiet);
    let ran = catch_unwind(AssertUnwindSafe(run));
    IS_QUIET.set(false);
    ran.map_err(|panic| told(&*panic))
}

fn told(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    let text = text.unwrap_or("without a message");
    match PLACE.take() {
        Some(place) => format!("{PANIC_AT}{place}: {text}"),
        None => format!("a panic: {text}"),
    }
}

/// The kind of a violation: its words up to the details, without the numbers and names of one run,
/// and the kind of the error that it tells of; of a panic, where it was.
pub fn kind_of(violation: &str) -> String {
    if let Some(panic) = violation.strip_prefix(PANIC_AT) {
        let place = panic.split(": ").next().unwrap_or(panic);
        return format!("{PANIC_AT}{place}");
    }
    // Names stand in quotes.
    let unquoted: Vec<&str> = violation.split('"').step_by(2).collect();
    let unquoted = unquoted.join(" ");
    let mut words = Vec::new();
    for word in unquoted.split_whitespace() {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        let is_word = bare.chars().all(|c| c.is_alphabetic() || "'-".contains(c));
        if is_word && !bare.is_empty() {
            words.push(bare);
        }
        if word.ends_with(':') && words.len() >= WORDS_MIN {
            break;
        }
    }
    let error = violation.split(ERROR).nth(1);
    let error = error.and_then(|error| error.split(',').next());
    words.extend(error);
    words.join(" ")
}

#[cfg(test)]
mod tests;
