//! Carries out the shell's own commands.

use std::sync::Arc;

use lazybase_engine::manifest::Manifest;
use lazybase_model::{Column, ColumnDefault, Layout, Result, Table};

use super::meta::{self, Meta};
use super::{Here, Next, Shell, Target};
use crate::failure;
use crate::figures::{bytes, counted, thousands};
use crate::names::quoted;
use crate::render::{print_rows, sql_type};
use crate::status::TableFigures;

impl Shell {
    pub(super) async fn run_command(&mut self, line: &str) -> Result<Next> {
        match meta::parse(line)? {
            Meta::Quit => return Ok(Next::Quit),
            Meta::Help => failure::write_data(meta::HELP)?,
            Meta::Status => match &self.target {
                Target::Here(here) => {
                    failure::write_data(&crate::status::text(here.database.instance()))?
                }
                Target::There(wire) => {
                    failure::write_data(&crate::status::page::text(wire).await?)?
                }
            },
            Meta::Tables | Meta::Describe(_) if self.target.here().is_err() => {
                self.tables_there(line).await?;
            }
            Meta::Tables => {
                let Here { database, session } = self.target.here()?;
                let manifest = database.instance().manifest();
                failure::write_data(&list_tables(&manifest, &session.tables()))?;
            }
            Meta::Describe(name) => {
                let Here { database, session } = self.target.here()?;
                let table = session.table(&name);
                let table = table.map_err(|error| error.with_hint("\\d lists the tables"))?;
                failure::write_data(&describe(&database.instance().manifest(), &table))?;
            }
            Meta::Timing(choice) => {
                self.timing = choice.unwrap_or(!self.timing);
                self.remark(match self.timing {
                    true => "timing is on",
                    false => "timing is off",
                });
            }
            Meta::Records(choice) => {
                self.records = choice.unwrap_or(!self.records);
                self.remark(match self.records {
                    true => "each row is written as lines of its own",
                    false => "only rows that are too wide are written as lines of their own",
                });
            }
            Meta::Format(format) => {
                self.format = format;
                self.remark(&format!("results are written as {}", format.name()));
            }
            Meta::ShowFreshness => self.run_sql("SHOW lazybase.freshness").await?,
            Meta::SetFreshness(bound) => {
                self.set(&meta::set_freshness(bound)).await?;
                self.remark(&format!("queries ask {bound} when they name no freshness"));
            }
        }
        Ok(Next::Continue)
    }
}

impl Shell {
    /// `\d` of a server: as statements that say the same.
    async fn tables_there(&mut self, line: &str) -> Result<()> {
        let quiet = std::mem::replace(&mut self.quiet, true);
        let done = match meta::parse(line)? {
            Meta::Describe(name) => {
                let described = self.run_sql(&format!("DESCRIBE {}", quoted(&name))).await;
                described.map_err(|error| error.with_hint("\\d lists the tables"))
            }
            _ => self.run_sql(TABLES_THERE).await,
        };
        self.quiet = quiet;
        done
    }
}

/// The tables of a server.
const TABLES_THERE: &str = "SELECT name AS \"table\", coalesce(key, '(hidden)') AS key, \
    stored_rows AS \"stored rows\", bytes FROM lazybase.tables ORDER BY name";

/// The tables that the session sees, with what their runs hold.
fn list_tables(manifest: &Manifest, tables: &[Arc<Table>]) -> String {
    if tables.is_empty() {
        return "no tables\n".to_owned();
    }
    let row = |table: &Arc<Table>| {
        let state = manifest.tables.get(&table.id);
        let figures = state.map(|state| TableFigures::of(manifest, state));
        let figures = figures.unwrap_or_default();
        vec![
            table.name.clone(),
            key_text(table),
            thousands(figures.rows),
            bytes(figures.bytes),
        ]
    };
    let rows: Vec<Vec<String>> = tables.iter().map(row).collect();
    let headers = ["table", "key", "stored rows", "size"];
    print_rows(&headers, &[false, false, true, true], &rows)
}

fn key_text(table: &Table) -> String {
    if table.hidden_key {
        return "(hidden)".to_owned();
    }
    let names = table.key_indices();
    let names: Vec<&str> = names
        .iter()
        .map(|&at| table.columns[at].name.as_str())
        .collect();
    names.join(", ")
}

/// How the column is combined, where it is.
fn merge_text(column: &Column) -> String {
    let operator = column.merge.map(|operator| operator.word().to_lowercase());
    operator.map_or_else(String::new, |word| format!(" merge {word}"))
}

/// A table's columns, key, layout and size.
fn describe(manifest: &Manifest, table: &Table) -> String {
    let rows: Vec<Vec<String>> = table.columns[..table.visible_columns()]
        .iter()
        .map(|column| {
            let default = match &column.default {
                ColumnDefault::Null => String::new(),
                ColumnDefault::Expression(text) => text.clone(),
            };
            vec![
                column.name.clone(),
                match column.characters_max {
                    Some(characters) => format!("varchar({characters})"),
                    None => sql_type(&column.data_type),
                } + &merge_text(column),
                if column.nullable { "" } else { "not null" }.to_owned(),
                default,
                column.comment.clone().unwrap_or_default(),
            ]
        })
        .collect();
    let headers = ["column", "type", "null", "default", "comment"];
    let mut text = format!("table {}\n", table.name);
    if let Some(comment) = &table.comment {
        text += &format!("{comment}\n");
    }
    text += &print_rows(&headers, &[false; 5], &rows);
    text += &format!("primary key: {}\n", key_text(table));
    if table.layout == Layout::Point {
        text += "layout: point\n";
    }
    if let Some(state) = manifest.tables.get(&table.id) {
        let figures = TableFigures::of(manifest, state);
        text += &format!(
            "{} in {}, {}\n",
            counted(figures.rows, "stored row"),
            counted(figures.runs, "run"),
            bytes(figures.bytes)
        );
    }
    text
}
