//! What stands in files of whoever runs a server or loads data, and what comes over HTTP, as
//! functions over bytes: for fuzzing, and for the corpus that tests read. No bytes make one of them
//! panic, hang, or take memory that they do not pay for.
//!
//! Reads its argument alone; Parquet goes through a nameless temporary file. Nothing else calls it.

use std::path::Path;

use lazybase_model::Result;
use lazybase_query::fuzz::Target;

use crate::config::{Config, OPTIONS, printed};
use crate::pages::fuzz::read_requests;
use crate::source::fuzz::{read_parquet, read_text};

#[cfg(test)]
mod tests;

/// Every target with its name, as the corpus and `fuzz/run` have it.
pub const TARGETS: [(&str, Target); 4] = [
    ("config", read_config),
    ("load", read_text),
    ("load-parquet", read_parquet),
    ("http", read_requests),
];

/// A configuration in TOML: what is printed of one that is read can be read, and says the same.
pub fn read_config(bytes: &[u8]) {
    let Ok(config) = of_file(&String::from_utf8_lossy(bytes)) else {
        return;
    };
    let text = printed(&config);
    let again = match of_file(&text) {
        Ok(again) => again,
        Err(error) => panic!("{error} in what is printed: {text}"),
    };
    for option in OPTIONS.iter().filter(|option| !option.is_time()) {
        let (given, told) = (option.show(&config), option.show(&again));
        assert_eq!(given, told, "{} is printed as it is", option.key);
    }
}

fn of_file(text: &str) -> Result<Config> {
    Config::of(None, &|_| None, Some((Path::new("a.toml"), text)))
}
