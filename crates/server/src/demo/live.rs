//! The live view: a progress bar, the pipeline, and each freshness with what it costs; plain lines
//! every few seconds where standard error is no terminal.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::questions::LEVELS;
use super::shared::Shared;
use super::stats::{PipelineSample, Sample};
use crate::figures::{micros, per_second, quantile, thousands};

const PLAIN_EVERY: Duration = Duration::from_secs(5);
/// The answers that a line speaks of: the newest ones.
const RECENT: usize = 64;
/// The width of the pipeline's bar.
const WIDTH: usize = 48;
const STAGES: [(&str, char); 4] = [
    ("authority", '█'),
    ("merged", '▓'),
    ("sorted", '▒'),
    ("unsorted", '░'),
];

/// Where the demo shows how it goes.
pub(super) enum View {
    /// Lines that are drawn over.
    Terminal(Box<Lines>),
    /// Lines that stay, a few.
    Plain {
        /// When the last one was written.
        last: Duration,
    },
}

/// The lines of a terminal.
pub(super) struct Lines {
    bars: MultiProgress,
    progress: ProgressBar,
    pipeline: ProgressBar,
    levels: Vec<ProgressBar>,
}

impl View {
    /// Fits standard error.
    pub(super) fn new(total: u64) -> View {
        match io::stderr().is_terminal() {
            true => View::Terminal(Box::new(Lines::new(total))),
            false => View::Plain {
                last: Duration::ZERO,
            },
        }
    }

    /// Shows a moment.
    pub(super) fn show(&mut self, sample: &PipelineSample, shared: &Shared) {
        match self {
            View::Terminal(lines) => lines.show(sample, shared),
            View::Plain { last } => {
                let now = shared.start.elapsed();
                if now >= *last + PLAIN_EVERY {
                    *last = now;
                    say(&plain_line(sample, shared));
                }
            }
        }
    }

    /// Says something beside the view.
    pub(super) fn note(&self, text: &str) {
        match self {
            // A view that is gone has nothing to keep whole.
            View::Terminal(lines) => drop(lines.bars.println(text)),
            View::Plain { .. } => say(text),
        }
    }

    /// Takes the view away.
    pub(super) fn end(&self) {
        if let View::Terminal(lines) = self {
            drop(lines.bars.clear());
        }
    }
}

/// Writes a line to standard error; nobody can be told if that fails.
pub(super) fn say(text: &str) {
    drop(writeln!(io::stderr().lock(), "{text}"));
}

impl Lines {
    fn new(total: u64) -> Lines {
        let bars = MultiProgress::new();
        let progress = bars.add(ProgressBar::new(total));
        let shape = "{msg:>12} [{bar:48}] {human_pos}/{human_len} changes {elapsed}";
        if let Ok(style) = ProgressStyle::with_template(shape) {
            progress.set_style(style.progress_chars("=> "));
        }
        let line = || {
            let bar = bars.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("{msg}") {
                bar.set_style(style);
            }
            bar
        };
        let pipeline = line();
        let levels = LEVELS.iter().map(|_| line()).collect();
        Lines {
            progress,
            pipeline,
            levels,
            bars,
        }
    }

    fn show(&self, sample: &PipelineSample, shared: &Shared) {
        self.progress.set_position(sample.changes);
        self.progress
            .set_message(date(shared.moment.load(Ordering::Relaxed)));
        self.pipeline.set_message(format!(
            "{:>12} [{}] {}",
            "SCUs",
            stage_bar(sample.scus),
            stage_text(sample)
        ));
        let samples = shared.samples();
        for (level, bar) in self.levels.iter().enumerate() {
            let asked = format!("asked {}", LEVELS[level]);
            bar.set_message(format!("{asked:>17}  {}", level_text(level, &samples)));
        }
    }
}

fn plain_line(sample: &PipelineSample, shared: &Shared) -> String {
    let samples = shared.samples();
    let levels: Vec<String> = LEVELS
        .iter()
        .enumerate()
        .map(|(level, asked)| format!("[{asked}] {}", level_text(level, &samples)))
        .collect();
    format!(
        "{:>5.1} s  {}  {} of {} changes, {}/s; SCUs {}; {}",
        shared.start.elapsed().as_secs_f64(),
        date(shared.moment.load(Ordering::Relaxed)),
        thousands(sample.changes),
        thousands(shared.total),
        thousands(per_second(sample.changes, shared.start.elapsed()) as u64),
        stage_text(sample),
        levels.join("; "),
    )
}

/// The newest answers of one freshness.
fn level_text(level: usize, samples: &[Sample]) -> String {
    let newest: Vec<&Sample> = samples
        .iter()
        .rev()
        .take(RECENT * LEVELS.len())
        .filter(|sample| sample.level == level)
        .collect();
    let Some(last) = newest.first() else {
        return "no answer so far".to_owned();
    };
    let mut latencies: Vec<u64> = newest.iter().map(|sample| sample.latency_us).collect();
    let stages: Vec<&str> = last
        .sources
        .stages()
        .iter()
        .map(|stage| stage.name())
        .collect();
    format!(
        "stale by {:>8}, answered in {:>8}, read {}",
        micros(last.staleness_us),
        micros(quantile(&mut latencies, 0.5)),
        stages.join("+"),
    )
}

fn stage_text(sample: &PipelineSample) -> String {
    let [ingested, sorted, merged, authority] = sample.scus;
    format!(
        "{authority} authority, {merged} merged, {sorted} sorted, {ingested} unsorted, \
         {} open",
        crate::figures::counted(sample.open_batches, "batch"),
    )
}

/// The stages as one bar, oldest SCUs left; a stage that holds anything shows.
fn stage_bar(scus: [u64; 4]) -> String {
    let [ingested, sorted, merged, authority] = scus;
    let counts = [authority, merged, sorted, ingested];
    let total: u64 = counts.iter().sum();
    let mut bar = String::new();
    let mut cells = 0;
    for (at, (count, (_, mark))) in counts.into_iter().zip(STAGES).enumerate().rev() {
        let share = (count * WIDTH as u64).checked_div(total).unwrap_or(0) as usize;
        let wanted = match (at, count) {
            (0, _) if total > 0 => WIDTH - cells,
            (_, 0) => 0,
            _ => share.max(1),
        };
        cells += wanted;
        bar.insert_str(0, &mark.to_string().repeat(wanted));
    }
    bar.push_str(&" ".repeat(WIDTH.saturating_sub(cells)));
    bar
}

/// The day of an instant in seconds since 1970.
fn date(second: i64) -> String {
    let days = second.div_euclid(86_400);
    // Counted from 0000-03-01, so that the leap day is the last of its year.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::{WIDTH, date, stage_bar};

    #[test]
    fn every_stage_that_holds_something_shows() {
        let bar = stage_bar([1, 2, 0, 1_000]);
        assert_eq!(bar.chars().count(), WIDTH);
        assert!(
            bar.ends_with("▒░") && bar.starts_with('█') && !bar.contains('▓'),
            "{bar}"
        );
        assert_eq!(stage_bar([0; 4]), " ".repeat(WIDTH));
    }

    #[test]
    fn days_have_dates() {
        for (second, text) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (951_782_400, "2000-02-29"),
            (1_388_534_399, "2013-12-31"),
        ] {
            assert_eq!(date(second), text);
        }
    }
}
