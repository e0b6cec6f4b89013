//! Aligned tables: widths come from the first rows, later rows follow them, so that a result of
//! any length passes in bounded memory. Where they are wider than the terminal, each row becomes
//! lines of its own.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use lazybase_model::Result;
use unicode_width::UnicodeWidthStr;

use super::cells::cell_texts;
use crate::failure;
use crate::figures::counted;

/// The rows that are looked at before the widths are fixed.
const SAMPLE_ROWS: usize = 1_000;

/// The one column of EXPLAIN.
const PLAN_HEADERS: [&str; 1] = ["plan"];

/// How a table is dressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TableStyle {
    /// Dim what is no data: for terminals.
    pub(crate) colour: bool,
    /// The columns of the terminal: wider tables are written row by row.
    pub(crate) width: Option<usize>,
    /// Write row by row, however narrow the table is.
    pub(crate) records: bool,
}

type Cells = Vec<Option<String>>;

/// Writes rows as an aligned table with a count below.
pub(crate) struct TableWriter<W: Write> {
    out: W,
    style: TableStyle,
    headers: Vec<String>,
    right: Vec<bool>,
    /// Rows that wait for the widths.
    waiting: Vec<Cells>,
    layout: Option<Layout>,
    /// All rows so far.
    rows: u64,
    /// Those that were written.
    written: u64,
}

/// How rows stand, decided once.
enum Layout {
    /// Below each other, in columns of these widths.
    Columns(Vec<usize>),
    /// Each as lines of its own, the names before the values.
    Records {
        /// The width of the names.
        names: usize,
    },
}

impl<W: Write> TableWriter<W> {
    /// A table with the columns of `schema`.
    pub(crate) fn new(schema: SchemaRef, style: TableStyle, out: W) -> Self {
        let fields = schema.fields();
        TableWriter {
            out,
            style,
            headers: fields.iter().map(|f| shown(f.name())).collect(),
            right: fields.iter().map(|f| f.data_type().is_numeric()).collect(),
            waiting: Vec::new(),
            layout: None,
            rows: 0,
            written: 0,
        }
    }

    /// Writes some rows, or keeps them until the widths are known.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut columns = Vec::with_capacity(batch.num_columns());
        for column in batch.columns() {
            columns.push(cell_texts(column)?.into_iter());
        }
        for _ in 0..batch.num_rows() {
            let row = columns.iter_mut().map(|cells| cells.next().flatten());
            self.waiting.push(row.collect());
        }
        self.rows += batch.num_rows() as u64;
        if self.layout.is_some() || self.waiting.len() >= SAMPLE_ROWS {
            self.put_waiting()?;
        }
        Ok(())
    }

    /// Writes the rows that wait and the count.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.put_waiting()?;
        let count = format!("({})", counted(self.rows, "row"));
        self.put(&format!("{}\n", self.dim(&count)))?;
        self.out.flush().map_err(|error| failure::stdout(&error))
    }

    fn put(&mut self, text: &str) -> Result<()> {
        let written = self.out.write_all(text.as_bytes());
        written.map_err(|error| failure::stdout(&error))
    }

    fn dim(&self, text: &str) -> String {
        match self.style.colour {
            true => format!("\u{1b}[2m{text}\u{1b}[0m"),
            false => text.to_owned(),
        }
    }

    fn put_waiting(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.waiting);
        let layout = match self.layout.take() {
            Some(layout) => layout,
            None => self.begin(&rows)?,
        };
        let mut text = String::new();
        for row in &rows {
            self.written += 1;
            match &layout {
                Layout::Columns(widths) => self.lay_out(row, widths, &mut text),
                Layout::Records { names } => self.spell_out(row, *names, &mut text),
            }
        }
        self.layout = Some(layout);
        self.put(&text)
    }

    /// Decides how rows stand, by the first ones.
    fn begin(&mut self, rows: &[Cells]) -> Result<Layout> {
        let widths = fit(&self.headers, rows);
        // A blank on each side of a column, and a rule between two.
        let width: usize = widths.iter().map(|width| width + 3).sum();
        let too_wide = self.style.width.is_some_and(|most| width > most + 1);
        // A plan's lines are read below each other, however wide they are.
        let is_plan = self.headers == PLAN_HEADERS;
        if self.style.records || (too_wide && !is_plan) {
            let names = self.headers.iter().map(|header| header.width()).max();
            return Ok(Layout::Records {
                names: names.unwrap_or(0),
            });
        }
        self.put_header(&widths)?;
        Ok(Layout::Columns(widths))
    }

    fn spell_out(&self, row: &Cells, names: usize, text: &mut String) {
        *text += &self.dim(&format!("-- row {}", self.written));
        text.push('\n');
        for (header, cell) in self.headers.iter().zip(row) {
            let gap = " ".repeat(names - header.width());
            let value = match cell.as_deref() {
                None => self.dim("NULL"),
                // Lines of a text stay lines, below each other.
                Some(cell) if cell.contains('\n') => cell
                    .trim_end()
                    .split('\n')
                    .map(shown)
                    .collect::<Vec<_>>()
                    .join(&format!("\n{} | ", " ".repeat(names + 1))),
                Some(_) => cell_text(cell.as_deref()),
            };
            *text += &format!(" {header}{gap} | {value}\n");
        }
    }

    fn put_header(&mut self, widths: &[usize]) -> Result<()> {
        let centred: Vec<String> = self
            .headers
            .iter()
            .zip(widths)
            .map(|(header, width)| {
                let free = width - header.width();
                let left = free / 2;
                format!(" {}{header}{} ", " ".repeat(left), " ".repeat(free - left))
            })
            .collect();
        let rule: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
        let text = format!(
            "{}\n{}\n",
            centred.join("|").trim_end(),
            self.dim(&rule.join("+"))
        );
        self.put(&text)
    }

    fn lay_out(&self, row: &Cells, widths: &[usize], text: &mut String) {
        let last = row.len().saturating_sub(1);
        for (at, cell) in row.iter().enumerate() {
            text.push_str(if at == 0 { " " } else { " | " });
            let plain = cell_text(cell.as_deref());
            let padding = " ".repeat(widths[at].saturating_sub(plain.width()));
            let dressed = match cell {
                None => self.dim(&plain),
                Some(_) => plain,
            };
            match (self.right[at], at == last) {
                (true, _) => *text += &format!("{padding}{dressed}"),
                (false, true) => *text += &dressed,
                (false, false) => *text += &format!("{dressed}{padding}"),
            }
        }
        text.push('\n');
    }
}

fn fit(headers: &[String], rows: &[Cells]) -> Vec<usize> {
    let mut widths: Vec<usize> = headers.iter().map(|header| header.width()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell_text(cell.as_deref()).width());
        }
    }
    widths
}

/// A value that can't break the table, and can't be taken for NULL.
fn cell_text(cell: Option<&str>) -> String {
    match cell {
        None => "NULL".to_owned(),
        Some("NULL") => "\"NULL\"".to_owned(),
        Some(text) => shown(text),
    }
}

fn shown(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    text.chars()
        .flat_map(|c| {
            let escaped: Vec<char> = match c.is_control() {
                true => c.escape_default().collect(),
                false => vec![c],
            };
            escaped
        })
        .collect()
}

/// Prints rows of text under their headers, columns aligned, no count: for reports. `right` says
/// which columns hold numbers.
pub(crate) fn print_rows(headers: &[&str], right: &[bool], rows: &[Vec<String>]) -> String {
    let headers: Vec<String> = headers.iter().map(|&header| header.to_owned()).collect();
    let cells: Vec<Cells> = rows
        .iter()
        .map(|row| row.iter().cloned().map(Some).collect())
        .collect();
    let widths = fit(&headers, &cells);
    let line = |row: &[String]| {
        let padded = row
            .iter()
            .zip(&widths)
            .zip(right)
            .map(|((cell, width), right)| {
                let padding = " ".repeat(width.saturating_sub(cell.width()));
                match right {
                    true => format!("{padding}{cell}"),
                    false => format!("{cell}{padding}"),
                }
            });
        let padded: Vec<String> = padded.collect();
        format!("{}\n", padded.join("  ").trim_end())
    };
    let mut text = line(&headers);
    let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    text += &line(&rules);
    rows.iter().for_each(|row| text += &line(row));
    text
}
