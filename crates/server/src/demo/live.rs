//! The live view: a progress bar, a tape with a cell for each SCU in the colour of its stage, and
//! each freshness with what it costs; plain lines every few seconds where standard error is no
//! terminal.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use lazybase_model::SourceCounts;
use lazybase_model::moment::civil;

use super::questions::{LEVELS, Question};
use super::shared::Shared;
use super::stats::{PipelineSample, Sample};
use crate::figures::{micros, quantile, thousands};

const PLAIN_EVERY: Duration = Duration::from_secs(5);
/// The answers that a line speaks of: the newest ones.
const RECENT: usize = 64;
/// The cells of the pipeline's tape: one for each SCU, the newest ones.
const TAPE: usize = 60;
/// The width of the bar that compares latencies.
const BAR: u64 = 12;
/// Stages from the oldest SCUs on, with their marks and colours: marks alone tell them apart too.
const STAGES: [(&str, char, &str); 5] = [
    ("authority", '█', "34"),
    ("merged", '▓', "36"),
    ("sorted", '▒', "33"),
    ("ingested", '░', "31"),
    ("open", '○', "35"),
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
    tape: ProgressBar,
    counts: ProgressBar,
    levels: Vec<ProgressBar>,
    /// Lines that say the same all the time: a line whose handle is gone is not drawn.
    fixed: [ProgressBar; 3],
    colour: bool,
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
        let shape = "{msg}  {bar:30}  {human_pos} of {human_len} changes  {elapsed}";
        if let Ok(style) = ProgressStyle::with_template(shape) {
            progress.set_style(style.progress_chars("━━─"));
        }
        // Lines are cut where the terminal ends: what wraps can't be drawn over.
        let line = |text: &str| {
            let bar = bars.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
                bar.set_style(style);
            }
            bar.set_message(text.to_owned());
            bar
        };
        let above = line("");
        let tape = line("");
        let counts = line("");
        let below = line("");
        let bar = BAR as usize;
        let headers = line(&format!(
            "{:<12} {:>8}  {:>8}  {:<bar$}  read",
            "asked", "stale by", "answered", "in"
        ));
        let levels = LEVELS.iter().map(|_| line("")).collect();
        Lines {
            progress,
            tape,
            counts,
            levels,
            fixed: [above, below, headers],
            bars,
            colour: std::env::var_os("NO_COLOR").is_none(),
        }
    }

    fn show(&self, sample: &PipelineSample, shared: &Shared) {
        self.fixed.iter().for_each(ProgressBar::tick);
        self.progress.set_position(sample.changes);
        self.progress
            .set_message(date(shared.moment.load(Ordering::Relaxed)));
        let counts = counts(sample);
        self.tape
            .set_message(format!("SCUs {}", self.tape_text(counts)));
        self.counts.set_message(self.legend(counts));
        let recent = recent(&shared.samples());
        let dearest = recent.iter().flatten().map(|recent| recent.latency_us);
        let dearest = dearest.max().unwrap_or(0);
        for ((asked, recent), bar) in LEVELS.iter().zip(recent).zip(&self.levels) {
            let told = recent.map_or("no answer so far".to_owned(), |recent| recent.line(dearest));
            bar.set_message(format!("{:<12} {told}", asked.to_string()));
        }
    }

    fn tape_text(&self, counts: [u64; 5]) -> String {
        let (cells, older) = tape(counts);
        let cells = cells.chunk_by(|a, b| a == b).map(|same| {
            let (_, mark, colour) = STAGES[same[0]];
            self.coloured(colour, &mark.to_string().repeat(same.len()))
        });
        let cells: String = cells.collect();
        if older { format!("…{cells}") } else { cells }
    }

    fn legend(&self, counts: [u64; 5]) -> String {
        let entry = |(count, (name, mark, colour)): (u64, (&str, char, &str))| {
            let mark = self.coloured(colour, &mark.to_string());
            format!("{mark} {count} {name}")
        };
        let entries = counts.into_iter().zip(STAGES).map(entry);
        format!("     {}", entries.collect::<Vec<_>>().join("  "))
    }

    fn coloured(&self, colour: &str, text: &str) -> String {
        match self.colour {
            true => format!("\u{1b}[{colour}m{text}\u{1b}[0m"),
            false => text.to_owned(),
        }
    }
}

fn plain_line(sample: &PipelineSample, shared: &Shared) -> String {
    let counts = counts(sample).into_iter().zip(STAGES);
    let counts = counts
        .filter(|(count, _)| *count > 0)
        .map(|(count, (name, ..))| format!("{count} {name}"));
    let recent = recent(&shared.samples()).into_iter().zip(LEVELS);
    let latencies = recent.filter_map(|(recent, asked)| {
        let latency = micros(recent?.latency_us);
        Some(format!("{asked}: {latency}"))
    });
    format!(
        "{:>5.1} s  {}  {:>9} changes ({} %)  SCUs: {}  latency by freshness: {}",
        shared.start.elapsed().as_secs_f64(),
        date(shared.moment.load(Ordering::Relaxed)),
        thousands(sample.changes),
        (sample.changes * 100)
            .checked_div(shared.total)
            .unwrap_or(100),
        counts.collect::<Vec<_>>().join(", "),
        latencies.collect::<Vec<_>>().join(", "),
    )
}

/// The newest answers of one freshness, summed up.
struct Recent {
    staleness_us: u64,
    latency_us: u64,
    stages: String,
}

impl Recent {
    /// What it says, its latency drawn beside the dearest one.
    fn line(&self, dearest_us: u64) -> String {
        let cells = (self.latency_us * BAR).div_ceil(dearest_us.max(1)).min(BAR);
        format!(
            "{:>8}  {:>8}  {:<width$}  {}",
            micros(self.staleness_us),
            micros(self.latency_us),
            "▇".repeat(cells as usize),
            self.stages,
            width = BAR as usize,
        )
    }
}

/// Of each freshness: medians of the newest answers, and what the newest ones read, one to each
/// question.
fn recent(samples: &[Sample]) -> Vec<Option<Recent>> {
    let of_level = |level: usize| {
        let newest = samples.iter().rev().take(RECENT * LEVELS.len());
        let newest: Vec<&Sample> = newest.filter(|sample| sample.level == level).collect();
        let collect = |value: fn(&Sample) -> u64| -> Vec<u64> {
            newest.iter().map(|sample| value(sample)).collect()
        };
        newest.first()?;
        let mut sources = SourceCounts::default();
        let newest_of_each = newest.iter().take(Question::ALL.len());
        newest_of_each.for_each(|sample| sources.add(&sample.sources));
        let stages = sources.stages();
        let stages: Vec<&str> = stages.iter().map(|stage| stage.name()).collect();
        Some(Recent {
            staleness_us: quantile(&mut collect(|sample| sample.staleness_us), 0.5),
            latency_us: quantile(&mut collect(|sample| sample.latency_us), 0.5),
            stages: stages.join("+"),
        })
    };
    (0..LEVELS.len()).map(of_level).collect()
}

/// SCUs in each of [`STAGES`].
fn counts(sample: &PipelineSample) -> [u64; 5] {
    let [ingested, sorted, merged, authority] = sample.scus;
    let open = u64::from(sample.open_batches > 0);
    [authority, merged, sorted, ingested, open]
}

/// The stage of each of the newest SCUs, oldest first, and whether there are older ones.
fn tape(counts: [u64; 5]) -> (Vec<usize>, bool) {
    let stages = counts.into_iter().enumerate().rev();
    let newest_first = stages.flat_map(|(stage, count)| (0..count).map(move |_| stage));
    let mut cells: Vec<usize> = newest_first.take(TAPE).collect();
    cells.reverse();
    (cells, counts.iter().sum::<u64>() > TAPE as u64)
}

/// The day of an instant in seconds since 1970.
fn date(second: i64) -> String {
    let (year, month, day) = civil(second.div_euclid(86_400));
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::{BAR, Recent, TAPE, date, tape};

    #[test]
    fn each_scu_has_its_cell() {
        let (cells, older) = tape([2, 0, 1, 0, 1]);
        assert_eq!((cells, older), (vec![0, 0, 2, 4], false));
        let (cells, older) = tape([1_000, 2, 0, 1, 1]);
        assert_eq!(cells.len(), TAPE);
        assert!(cells.ends_with(&[0, 1, 1, 3, 4]) && older);
        assert_eq!(tape([0; 5]), (Vec::new(), false));
    }

    #[test]
    fn latencies_are_drawn_beside_the_dearest() {
        let recent = |latency_us| Recent {
            staleness_us: 0,
            latency_us,
            stages: "authority".to_owned(),
        };
        let cells = |latency_us| recent(latency_us).line(1_000).matches('▇').count() as u64;
        assert_eq!([0, 1, 500, 1_000].map(cells), [0, 1, BAR / 2, BAR]);
        let widest = recent(1_000).line(1_000).chars().count();
        assert!(widest + "best effort  ".len() <= 80, "{widest}");
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
