//! Settings that mean nothing here, with a point in their names: a session keeps them for whoever
//! set them, as applications and tools of PostgreSQL expect it.
//!
//! ```text
//!   SET app.tenant = '7'   ->   current_setting('app.tenant')   '7'
//! ```
//!
//! A value in memory, of bounded size.

use std::collections::BTreeMap;
use std::sync::Arc;

use lazybase_model::{Error, Result};

/// How many bytes the names and values of one session have at most.
const BYTES_MAX: usize = 1 << 20;

/// What the names of settings begin with that do mean something.
const TAKEN: [&str; 2] = [super::PREFIX, "datafusion."];

/// The settings of one session, by name; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Placeholders(Arc<BTreeMap<String, String>>);

impl Placeholders {
    /// The value of one that was set.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Sets one; no value stands for what it is in `defaults`, or that it is not there.
    ///
    /// # Errors
    /// `Invalid` (54000) for more than a session keeps.
    pub(super) fn set(
        &mut self,
        name: &str,
        value: Option<&str>,
        defaults: &Placeholders,
    ) -> Result<()> {
        let Some(value) = value.or_else(|| defaults.get(name)) else {
            if self.0.contains_key(name) {
                Arc::make_mut(&mut self.0).remove(name);
            }
            return Ok(());
        };
        let others = self.0.iter().filter(|(known, _)| *known != name);
        let others: usize = others.map(|(name, value)| name.len() + value.len()).sum();
        if others + name.len() + value.len() > BYTES_MAX {
            return Err(
                Error::invalid("the settings that this session has made are too many")
                    .with_detail(format!(
                        "their names and values have at most {BYTES_MAX} bytes"
                    ))
                    .with_sqlstate("54000"),
            );
        }
        Arc::make_mut(&mut self.0).insert(name.to_owned(), value.to_owned());
        Ok(())
    }
}

/// Whether a setting may have this name: words with points between them.
pub(super) fn may_be(name: &str) -> bool {
    let is_word = |word: &str| {
        word.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && word
                .chars()
                .all(|c| c.is_alphanumeric() || matches!(c, '_' | '$'))
    };
    name.contains('.')
        && name.split('.').all(is_word)
        && !TAKEN.iter().any(|prefix| name.starts_with(prefix))
}
