//! The line that shows how far a statement has come that takes long: SETTLE.
//!
//! Writes to standard error where that is a terminal, and nothing anywhere else.

use std::sync::{Arc, Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressStyle};

const SHAPE: &str = "settling [{bar:40}] {percent}% {elapsed}";
const STEPS: u64 = 1000;

/// A bar that appears when there is something to show. Clones are the same bar.
#[derive(Debug, Clone, Default)]
pub(super) struct WaitBar(Arc<Mutex<Option<ProgressBar>>>);

impl WaitBar {
    /// So much is done, from 0 to 1.
    pub(super) fn show(&self, share: f64) {
        let mut bar = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bar = bar.get_or_insert_with(|| {
            // It draws itself only where standard error is a terminal.
            let bar = ProgressBar::new(STEPS);
            match ProgressStyle::with_template(SHAPE) {
                Ok(style) => bar.with_style(style.progress_chars("=> ")),
                Err(_) => bar,
            }
        });
        bar.set_position((share.clamp(0.0, 1.0) * STEPS as f64) as u64);
    }

    /// Takes the bar away.
    pub(super) fn clear(&self) {
        let mut bar = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = bar.take() {
            bar.finish_and_clear();
        }
    }
}
