//! Carries out the shell's own commands.

use std::sync::Arc;

use lazybase_engine::manifest::{Manifest, TableState};
use lazybase_model::{Column, Layout, Result, Table};
use lazybase_query::Session;

use super::meta::{self, Meta};
use super::{Here, Next, Shell, Target};
use crate::failure;
use crate::figures::{bytes, counted, thousands};
use crate::names::quoted;
use crate::render::{cell_texts, print_rows, sql_type};
use crate::status::TableFigures;

impl Shell {
    pub(super) async fn run_command(&mut self, line: &str) -> Result<Next> {
        match meta::parse(line)? {
            asked @ (Meta::Tables { .. }
            | Meta::Describe { .. }
            | Meta::Views
            | Meta::Databases) => match &self.target {
                Target::Here(here) => failure::write_data(&told(here, &asked).await?)?,
                Target::There(_) => self.told_there(&asked).await?,
            },
            Meta::DescribeSystem(name) => self.run_sql(&format!("DESCRIBE {name}")).await?,
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
    /// What a server has, as statements say it.
    async fn told_there(&mut self, asked: &Meta) -> Result<()> {
        let quiet = std::mem::replace(&mut self.quiet, true);
        let told = self.run_sql(&statements(asked)).await;
        self.quiet = quiet;
        match asked {
            Meta::Describe { .. } => told.map_err(|error| error.with_hint(LISTED)),
            _ => told,
        }
    }
}

/// Where the names of tables are found.
const LISTED: &str = "\\d lists the tables";

/// The name of the one database that there is, as clients give it.
const DATABASE: &str = "lazybase";

/// The statements that tell of a server's tables.
fn statements(asked: &Meta) -> String {
    match asked {
        Meta::Describe { table, all: false } => format!("DESCRIBE {}", quoted(table)),
        Meta::Describe { table, all: true } => format!(
            "DESCRIBE {name}; SELECT column_name, codec, encoding FROM lazybase.columns \
             WHERE table_name = '{text}' ORDER BY \"position\"; SHOW CREATE TABLE {name}",
            name = quoted(table),
            text = table.replace('\'', "''")
        ),
        Meta::Views => format!(
            "SELECT name AS \"view\", table_name AS \"table\", key, \
             stored_rows AS \"stored rows\", bytes FROM lazybase.views ORDER BY name; {PLAIN_VIEWS}"
        ),
        Meta::Databases => "SELECT current_database() AS \"database\", \
            (SELECT count(*) FROM lazybase.tables) AS tables, \
            (SELECT count(*) FROM lazybase.views) + \
            (SELECT count(*) FROM pg_catalog.pg_views) AS views, \
            (SELECT coalesce(sum(bytes), 0) FROM (SELECT bytes FROM lazybase.tables UNION ALL \
            SELECT bytes FROM lazybase.views) AS held) AS bytes"
            .to_owned(),
        other => {
            let comment = match other {
                Meta::Tables { all: true } => ", comment",
                _ => "",
            };
            format!(
                "SELECT name AS \"table\", coalesce(key, '(hidden)') AS key, \
                 stored_rows AS \"stored rows\", bytes{comment} FROM lazybase.tables ORDER BY name"
            )
        }
    }
}

/// What the database of this process has.
async fn told(here: &Here, asked: &Meta) -> Result<String> {
    let Here { database, session } = here;
    let manifest = database.instance().manifest();
    Ok(match asked {
        Meta::Describe { table, all } => {
            if let Some(view) = session.view(table) {
                let made = definitions(session, "VIEW", table);
                return Ok(describe_view(&view) + &made.await?);
            }
            let found = session.table(table);
            let found = found.map_err(|error| error.with_hint(LISTED))?;
            let mut text = describe(session, &manifest, &found, *all);
            text += &unsorted_text(database.instance().unsorted_rows(found.id));
            if *all {
                text += &definitions(session, "TABLE", table).await?;
            }
            text
        }
        Meta::Views => list_views(&manifest) + &list_plain_views(session).await?,
        Meta::Databases => list_databases(&manifest, &session.tables()),
        other => {
            let all = *other == Meta::Tables { all: true };
            let tables = session.tables();
            let unsorted = tables.iter();
            let unsorted = unsorted.map(|table| database.instance().unsorted_rows(table.id));
            list_tables(&manifest, &tables, all) + &unsorted_text(unsorted.sum())
        }
    })
}

/// What stored rows leave out; nothing where there is nothing.
fn unsorted_text(rows: u64) -> String {
    match rows {
        0 => String::new(),
        rows => format!(
            "{} not sorted yet, beside the stored rows\n",
            counted(rows, "row")
        ),
    }
}

/// The tables that the session sees, with what their runs hold; all that is known has comments.
fn list_tables(manifest: &Manifest, tables: &[Arc<Table>], all: bool) -> String {
    if tables.is_empty() {
        return "no tables\n".to_owned();
    }
    let row = |table: &Arc<Table>| {
        let state = manifest.tables.get(&table.id);
        let figures = state.map(|state| TableFigures::of(manifest, state));
        let figures = figures.unwrap_or_default();
        let mut row = vec![
            table.name.clone(),
            key_text(table),
            thousands(figures.rows),
            bytes(figures.bytes),
        ];
        if all {
            row.push(table.comment.clone().unwrap_or_default());
        }
        row
    };
    let rows: Vec<Vec<String>> = tables.iter().map(row).collect();
    let columns = if all { 5 } else { 4 };
    let headers = ["table", "key", "stored rows", "size", "comment"];
    let right = [false, false, true, true, false];
    print_rows(&headers[..columns], &right[..columns], &rows)
}

/// The materialized views, with what their runs hold.
fn list_views(manifest: &Manifest) -> String {
    if manifest.views.is_empty() {
        return "no materialized views\n".to_owned();
    }
    let row = |state: &Arc<TableState>| {
        let view = &state.table;
        let of = view.view_of.and_then(|of| manifest.tables.get(&of));
        let key = view.key_indices().into_iter();
        let key = key.filter(|at| *at < view.visible_columns());
        let key: Vec<&str> = key.map(|at| view.columns[at].name.as_str()).collect();
        let figures = TableFigures::of(manifest, state);
        vec![
            view.name.clone(),
            of.map_or_else(String::new, |of| of.table.name.clone()),
            key.join(", "),
            thousands(figures.rows),
            bytes(figures.bytes),
        ]
    };
    let mut rows: Vec<Vec<String>> = manifest.views.values().map(row).collect();
    rows.sort();
    let headers = ["view", "table", "key", "stored rows", "size"];
    print_rows(&headers, &[false, false, false, true, true], &rows)
}

/// The one database, with what it holds.
fn list_databases(manifest: &Manifest, tables: &[Arc<Table>]) -> String {
    let states = manifest.tables.values().chain(manifest.views.values());
    let size = states.map(|state| TableFigures::of(manifest, state).bytes);
    let row = vec![
        DATABASE.to_owned(),
        thousands(tables.len() as u64),
        thousands((manifest.views.len() + manifest.plain_views.len()) as u64),
        bytes(size.sum()),
    ];
    let headers = ["database", "tables", "views", "size"];
    print_rows(&headers, &[false, true, true, true], &[row])
}

/// The column of SHOW CREATE TABLE that has statements; the one before has names.
const DEFINITION: usize = 1;

/// The query of the plain views.
const PLAIN_VIEWS: &str = "SELECT viewname AS \"view\", definition AS query \
     FROM pg_catalog.pg_views ORDER BY viewname";

/// The plain views, with their queries; nothing where there is none.
async fn list_plain_views(session: &Session) -> Result<String> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for answer in session.execute(PLAIN_VIEWS).await? {
        for batch in &answer.batches {
            let names = cell_texts(batch.column(0))?.into_iter();
            let queries = cell_texts(batch.column(1))?.into_iter();
            rows.extend(names.zip(queries).map(|(name, query)| {
                let query = query.unwrap_or_default();
                let query: Vec<&str> = query.split_whitespace().collect();
                vec![name.unwrap_or_default(), query.join(" ")]
            }));
        }
    }
    match rows.is_empty() {
        true => Ok(String::new()),
        false => Ok(print_rows(&["view", "query"], &[false, false], &rows)),
    }
}

/// A view's columns.
fn describe_view(view: &Table) -> String {
    let columns = view.columns[..view.visible_columns()].iter();
    let rows = columns.map(|column| {
        let data_type = match column.json {
            true => "json".to_owned(),
            false => sql_type(&column.data_type),
        };
        let comment = column.comment.clone().unwrap_or_default();
        vec![column.name.clone(), data_type, comment]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let kind = match view.view_of {
        Some(_) => "materialized view",
        None => "view",
    };
    let mut text = format!("{kind} {}\n", view.name);
    if let Some(comment) = &view.comment {
        text += &format!("{comment}\n");
    }
    text + &print_rows(&["column", "type", "comment"], &[false; 3], &rows)
}

/// The statements that make a table and its views again, or a view.
async fn definitions(session: &Session, kind: &str, name: &str) -> Result<String> {
    let mut text = "made by:\n".to_owned();
    let sql = format!("SHOW CREATE {kind} {}", quoted(name));
    for answer in session.execute(&sql).await? {
        for batch in &answer.batches {
            let definitions = cell_texts(batch.column(DEFINITION))?;
            let definitions = definitions.into_iter().flatten();
            definitions.for_each(|made| text += &format!("  {made};\n"));
        }
    }
    Ok(text)
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

/// How the authority's files keep a column: its codec and its encoding.
fn storage_text(table: &Table, column: &Column) -> [String; 2] {
    let said = |said: Option<String>| match (table.layout, said) {
        (Layout::Point, _) => "by extent".to_owned(),
        (Layout::Scan, said) => said.unwrap_or_else(|| "auto".to_owned()),
    };
    let encoding = column.storage.encoding;
    [
        said(column.storage.codec.map(|codec| codec.to_string())),
        said(encoding.map(|encoding| encoding.name().to_owned())),
    ]
}

/// A table's columns, key, layout and size; all that is known has how columns are stored.
fn describe(session: &Session, manifest: &Manifest, table: &Table, all: bool) -> String {
    let rows: Vec<Vec<String>> = table.columns[..table.visible_columns()]
        .iter()
        .map(|column| {
            let mut row = vec![
                column.name.clone(),
                match column.characters_max {
                    Some(characters) => format!("varchar({characters})"),
                    None if column.json => "json".to_owned(),
                    None => sql_type(&column.data_type),
                } + &merge_text(column),
                if column.nullable { "" } else { "not null" }.to_owned(),
                session.default_of(column).unwrap_or_default(),
                column.comment.clone().unwrap_or_default(),
            ];
            if all {
                row.extend(storage_text(table, column));
            }
            row
        })
        .collect();
    let headers = [
        "column", "type", "null", "default", "comment", "codec", "encoding",
    ];
    let columns = if all { 7 } else { 5 };
    let mut text = format!("table {}\n", table.name);
    if let Some(comment) = &table.comment {
        text += &format!("{comment}\n");
    }
    text += &print_rows(&headers[..columns], &[false; 7][..columns], &rows);
    text += &format!("primary key: {}\n", key_text(table));
    if table.layout == Layout::Point {
        text += "layout: point\n";
    }
    if let Some(state) = manifest.tables.get(&table.id) {
        let figures = TableFigures::of(manifest, state);
        if all {
            text += &format!("{}\n", counted(figures.ranges, "key range"));
        }
        text += &format!(
            "{} in {}, {}\n",
            counted(figures.rows, "stored row"),
            counted(figures.runs, "run"),
            bytes(figures.bytes)
        );
    }
    text
}
