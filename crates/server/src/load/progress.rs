//! The bar of a load: bytes of the files taken, rows, and rate.

use std::cell::Cell;

use indicatif::{ProgressBar, ProgressStyle};

use crate::figures::counted;

/// Fits a terminal of 80 columns: a line that wraps can't be drawn over.
const SHAPE: &str =
    "{percent:>3} % [{bar:20}] {msg}, {bytes} at {binary_bytes_per_sec}, {eta} left";

/// Shows itself in a terminal only.
pub(super) struct Progress {
    bar: ProgressBar,
    rows: Cell<u64>,
}

impl Progress {
    /// For files of so many bytes.
    pub(super) fn new(total_bytes: u64) -> Progress {
        let bar = ProgressBar::new(total_bytes);
        if let Ok(style) = ProgressStyle::with_template(SHAPE) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(counted(0, "row"));
        bar.tick();
        Progress {
            bar,
            rows: Cell::new(0),
        }
    }

    /// So many more bytes were taken, and rows of them.
    pub(super) fn add(&self, bytes: u64, rows: u64) {
        self.rows.set(self.rows.get() + rows);
        self.bar.set_message(counted(self.rows.get(), "row"));
        self.bar.inc(bytes);
    }

    /// Lets something else be written to the terminal.
    pub(super) fn suspend(&self, write: impl FnOnce()) {
        self.bar.suspend(write);
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
