//! `lazybase status --url`: a page about a running server, drawn again every second.
//!
//! Reads the system tables over the wire, and nothing else: whatever it shows, SQL shows too.
//! Invariant PAGE-1: however the page is left, the terminal is as it was before.

use std::io::{self, BufRead, IsTerminal, Write};

use arrow::datatypes::DataType;
use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::queue;
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use lazybase_model::Result;
use serde_json::{Map, Value, json};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::{ReportFormat, StatusArgs};
use crate::failure;
use crate::figures::{bytes, micros, thousands};
use crate::render::{cell_texts, print_rows};
use crate::wall;
use crate::wire::{DENIED, Wire};

/// How often the page is drawn.
const EVERY: std::time::Duration = std::time::Duration::from_secs(1);

/// What leaves the page: beside a letter Ctrl-C and Ctrl-D, of which a terminal that tells all keys
/// makes no signals.
const LEAVES: [u8; 4] = [b'q', b'Q', 0x03, 0x04];

/// A part of the page.
struct Section {
    /// Its name for programs.
    key: &'static str,
    /// What stands in its place where there are no rows.
    empty: &'static str,
    sql: &'static str,
}

/// Sizes are called `size`, times `behind` or `age`: so they are written as such.
const SECTIONS: [Section; 6] = [
    // What may need somebody stands first: a small screen has no room for the rest.
    Section {
        key: "waiting",
        empty: "writers are not held back",
        sql: "SELECT who, why FROM lazybase.back_pressure LIMIT 10",
    },
    Section {
        key: "stages",
        empty: "no stages",
        sql: "SELECT s.stage, s.scus, s.runs, s.rows, s.size FROM (
                SELECT 1 AS at, stage, count(*) AS scus, 0 AS runs, sum(rows) AS rows,
                    sum(bytes) AS size
                FROM lazybase.scus WHERE stage <> 'sorted' GROUP BY stage
                UNION ALL
                SELECT CASE stage WHEN 'sorted' THEN 2 WHEN 'merged' THEN 3 ELSE 4 END, stage,
                    max(last_scu) + 1 - min(first_scu), count(*), sum(rows), sum(bytes)
                FROM lazybase.runs WHERE NOT superseded GROUP BY stage) AS s
            ORDER BY s.at, s.stage",
    },
    Section {
        key: "lag",
        empty: "nothing is behind",
        sql: "SELECT stage, through_scu AS through, scus_behind AS scus, seconds_behind AS behind
            FROM lazybase.lag",
    },
    Section {
        key: "tables",
        empty: "no tables",
        sql: "SELECT t.name AS \"table\", t.stored_rows AS rows, t.bytes AS size, l.stage AS
                slowest, l.seconds_behind AS behind
            FROM lazybase.tables AS t JOIN lazybase.table_lag AS l ON l.table_name = t.name
            WHERE l.stage = 'authority' ORDER BY behind DESC, t.bytes DESC LIMIT 20",
    },
    Section {
        key: "tasks",
        empty: "no task runs",
        sql: "SELECT stage, table_name AS \"table\", first_scu, last_scu, bytes AS size
            FROM lazybase.tasks WHERE state = 'running' ORDER BY task",
    },
    Section {
        key: "snapshots",
        empty: "no snapshot is held",
        sql: "SELECT owner, horizon, age_seconds AS age, held_bytes AS size FROM lazybase.pins
            ORDER BY age_seconds DESC LIMIT 5",
    },
];

/// What went wrong last, below the rest.
const TROUBLES: Section = Section {
    key: "troubles",
    empty: "nothing went wrong",
    sql: "SELECT last_seen, times, message FROM lazybase.troubles ORDER BY last_seen DESC LIMIT 5",
};

/// A section's columns and cells.
struct Shown {
    headers: Vec<String>,
    numeric: Vec<bool>,
    rows: Vec<Vec<Option<String>>>,
}

/// Runs the command.
pub(crate) async fn run(url: &str, args: &StatusArgs) -> Result<()> {
    let wire = Wire::connect(url).await?;
    if args.format == ReportFormat::Json {
        return failure::write_data(&format!("{}\n", json(&wire).await?));
    }
    if args.once || !io::stdout().is_terminal() {
        return failure::write_data(&text(&wire).await?);
    }
    let failed = |error: io::Error| failure::io("terminal", &error);
    let mut ends = signal(SignalKind::terminate()).map_err(failed)?;
    let mut screen = Screen::open()?;
    let hears = screen.hears;
    // A server that does not answer keeps nobody from leaving.
    tokio::select! {
        ended = draw_again(&wire, &mut screen) => ended,
        left = until_left(hears) => left,
        _ = tokio::signal::ctrl_c() => Ok(()),
        _ = ends.recv() => Ok(()),
    }
}

/// Draws the page for as long as it can be had.
async fn draw_again(wire: &Wire, screen: &mut Screen) -> Result<()> {
    let key = match screen.hears {
        true => "q",
        false => "Ctrl-C",
    };
    loop {
        let page = text(wire).await?;
        screen.draw(&format!("{}    {key} leaves\n\n{page}", wire.place()))?;
        wall::sleep(EVERY).await;
    }
}

/// Ends once somebody presses a key that leaves; never, where no keys are heard.
async fn until_left(hears: bool) -> Result<()> {
    match hears {
        true => wall::waited_for(|| read_keys(io::stdin().lock())).await,
        false => std::future::pending().await,
    }
}

/// Reads keys up to one that leaves, or to the end: then the terminal is gone.
fn read_keys(keys: impl BufRead) {
    for key in keys.bytes() {
        if key.is_ok_and(|key| !LEAVES.contains(&key)) {
            continue;
        }
        return;
    }
}

/// The page.
pub(crate) async fn text(wire: &Wire) -> Result<String> {
    let mut text = String::new();
    for section in SECTIONS.iter().chain([&TROUBLES]) {
        let shown = match allowed(read(wire, section).await)? {
            Ok(shown) => shown,
            Err(denied) => {
                text += &format!("{}: {}\n\n", section.key, denied.message());
                continue;
            }
        };
        if shown.rows.is_empty() {
            text += &format!("{}\n\n", section.empty);
            continue;
        }
        let headers: Vec<&str> = shown.headers.iter().map(String::as_str).collect();
        let rows: Vec<Vec<String>> = shown.rows.iter().map(|row| in_words(&shown, row)).collect();
        text += &format!("{}\n", print_rows(&headers, &shown.numeric, &rows));
    }
    Ok(text)
}

async fn json(wire: &Wire) -> Result<Value> {
    let mut page = Map::new();
    for section in SECTIONS.iter().chain([&TROUBLES]) {
        let Ok(shown) = allowed(read(wire, section).await)? else {
            page.insert(section.key.to_owned(), Value::Null);
            continue;
        };
        let row = |row: &Vec<Option<String>>| -> Value {
            let cells = shown.headers.iter().zip(row).enumerate();
            let cell = |(at, (name, cell)): (usize, (&String, &Option<String>))| {
                let number = cell.as_ref().filter(|_| shown.numeric[at]);
                let number = number.and_then(|cell| serde_json::from_str(cell).ok());
                (name.clone(), number.unwrap_or_else(|| json!(cell)))
            };
            Value::Object(cells.map(cell).collect())
        };
        let rows: Vec<Value> = shown.rows.iter().map(row).collect();
        page.insert(section.key.to_owned(), Value::Array(rows));
    }
    Ok(Value::Object(page))
}

/// What was read, or the error that says that the role may not: the other sections go on.
fn allowed<T>(read: Result<T>) -> Result<Result<T>> {
    match read {
        Err(error) if error.sqlstate() == DENIED => Ok(Err(error)),
        read => read.map(Ok),
    }
}

async fn read(wire: &Wire, section: &Section) -> Result<Shown> {
    let (schema, batches) = wire.collect(section.sql).await?;
    let fields = schema.fields().iter();
    let is_number = |of: &DataType| of.is_numeric();
    let mut shown = Shown {
        headers: fields.clone().map(|field| field.name().clone()).collect(),
        numeric: fields.map(|field| is_number(field.data_type())).collect(),
        rows: Vec::new(),
    };
    for batch in batches {
        let columns: Result<Vec<_>> = batch.columns().iter().map(cell_texts).collect();
        let columns = columns?;
        for row in 0..batch.num_rows() {
            let cells = columns.iter().map(|column| column[row].clone());
            shown.rows.push(cells.collect());
        }
    }
    Ok(shown)
}

/// A row as people read it.
fn in_words(shown: &Shown, row: &[Option<String>]) -> Vec<String> {
    let cells = shown.headers.iter().zip(&shown.numeric).zip(row);
    cells
        .map(|((header, numeric), cell)| {
            let Some(cell) = cell else {
                return String::new();
            };
            let number: Option<f64> = cell.parse().ok().filter(|_| *numeric);
            match (header.as_str(), number) {
                ("size", Some(number)) => bytes(number as u64),
                ("behind" | "age", Some(number)) => micros((number * 1e6) as u64),
                (_, Some(number)) if number.fract() == 0.0 => thousands(number as u64),
                _ => cell.clone(),
            }
        })
        .collect()
}

/// A screen of its own, which gives back what was there.
struct Screen {
    /// Whether the terminal tells every key as it is pressed, and shows none.
    hears: bool,
}

impl Screen {
    fn open() -> Result<Screen> {
        let screen = Screen {
            hears: io::stdin().is_terminal() && enable_raw_mode().is_ok(),
        };
        let mut out = io::stdout();
        let opened = queue!(out, EnterAlternateScreen, Hide).and_then(|()| out.flush());
        opened.map_err(|error| failure::io("terminal", &error))?;
        Ok(screen)
    }

    /// Draws as much of a page as there is room for.
    fn draw(&mut self, page: &str) -> Result<()> {
        let (width, height) = size().unwrap_or((80, 24));
        let mut out = io::stdout().lock();
        let mut draw = || -> io::Result<()> {
            queue!(out, BeginSynchronizedUpdate, MoveTo(0, 0))?;
            for line in page.lines().take(usize::from(height).saturating_sub(1)) {
                let line: String = line.chars().take(usize::from(width)).collect();
                write!(out, "{line}")?;
                queue!(out, Clear(ClearType::UntilNewLine))?;
                write!(out, "\r\n")?;
            }
            queue!(out, Clear(ClearType::FromCursorDown), EndSynchronizedUpdate)?;
            out.flush()
        };
        draw().map_err(|error| failure::io("terminal", &error))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let mut out = io::stdout();
        // A terminal that is gone needs nothing back.
        drop(queue!(out, Show, LeaveAlternateScreen).and_then(|()| out.flush()));
        if self.hears {
            drop(disable_raw_mode());
        }
    }
}
