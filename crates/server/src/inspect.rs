//! `lazybase inspect`: the manifest in words, or any file of a database.
//!
//! A file is described by the engine's own readers, checksums included; no database is opened
//! for it, so that a damaged or busy one can be looked into.

use std::path::{Path, PathBuf};

use arrow::temporal_conversions::timestamp_us_to_datetime;
use lazybase_engine::describe::{describe_file, manifest_line};
use lazybase_engine::manifest::file::{self, Content, FileKind};
use lazybase_engine::manifest::{Manifest, RangeState, Run, SegmentMeta, TableState};
use lazybase_model::{Error, Result, Table};
use serde::Serialize;

use crate::cli::InspectArgs;
use crate::failure;
use crate::figures::{bytes, counted};
use crate::open::{self, Missing};
use crate::pipeline::Boundaries;
use crate::render::sql_type;
use crate::status::format_name;

mod access;
mod edits;

/// Runs the command.
pub(crate) async fn run(db: Option<PathBuf>, args: InspectArgs) -> Result<()> {
    let text = match &args.file {
        Some(file) => file_text(db, file, &args).await?,
        None => {
            let database = open::database(db, Missing::Refuse).await?;
            let manifest = database.instance().manifest();
            let text = match args.json {
                true => json_text(&manifest),
                false => Ok(manifest_text(&manifest, args.all)),
            };
            open::close(&database, text).await?
        }
    };
    failure::write_data(&text)
}

/// A file by its path, or by its name inside the database's folder.
async fn file_text(db: Option<PathBuf>, file: &Path, args: &InspectArgs) -> Result<String> {
    let inside = db.map(|folder| folder.join(file));
    let path = match inside {
        Some(inside) if !file.exists() => inside,
        _ => file.to_owned(),
    };
    if path.is_dir() {
        return Err(is_a_folder(&path));
    }
    let content = std::fs::read(&path).map_err(|error| failure::io(path.display(), &error))?;
    let name = path.file_name().map(|name| name.to_string_lossy());
    let name = name.unwrap_or_default();
    let size = bytes(content.len() as u64);
    let within = |error: Error| error.within(path.display());
    let text = match of_manifest(&name, &content, args).map_err(within)? {
        Some(json) if args.json => return Ok(json),
        Some(text) => text,
        None if args.json => return Err(within(no_json())),
        None => describe_file(&name, &content.into())
            .await
            .map_err(within)?,
    };
    Ok(format!("{}, {size}\n{}\n", path.display(), text.trim_end()))
}

/// What a file of the manifest says, as the options want it; `None` of other files.
fn of_manifest(name: &str, bytes: &[u8], args: &InspectArgs) -> Result<Option<String>> {
    let name = format!("{}{name}", file::FOLDER);
    if FileKind::of_name(&name).is_none() {
        return Ok(None);
    }
    let (header, content) = file::decode(&name, bytes)?;
    let line = manifest_line(&header, &content);
    let text = match &content {
        Content::Edit(edit) if args.json => json_text(edit)?,
        Content::Checkpoint(manifest) if args.json => json_text(manifest)?,
        Content::Edit(edit) => line + &edits::edit_text(edit),
        Content::Checkpoint(manifest) => line + &manifest_text(manifest, args.all),
    };
    Ok(Some(text))
}

fn json_text(value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value);
    let text = text.map_err(|error| Error::internal(error.to_string()))?;
    Ok(text + "\n")
}

fn no_json() -> Error {
    Error::invalid("only what the manifest says can be shown as JSON")
        .with_hint("leave --json out, or name a file .edit or .checkpoint, or none")
}

/// A moment in microseconds since 1970.
fn moment(micros: i64) -> String {
    match timestamp_us_to_datetime(micros) {
        Some(moment) => format!("{moment} UTC"),
        None => format!("{micros} us since 1970"),
    }
}

/// What is said of a folder where a file was to be named.
fn is_a_folder(path: &Path) -> Error {
    let error = Error::invalid(format!("{} is a folder", path.display())).with_detail(
        "inspect shows a file of a database; without a FILE, the manifest of the one that --db \
         names",
    );
    match path.join("manifest").is_dir() {
        true => error.with_hint(format!("lazybase --db {} inspect", path.display())),
        false => error.with_hint("name a file of a database's folder manifest, segments or log"),
    }
}

/// All that a manifest says, table by table.
fn manifest_text(manifest: &Manifest, all: bool) -> String {
    let reached = Boundaries::of(manifest);
    let mut text = format!(
        "database {}, manifest {}, epoch {}\n\
         SCUs sealed up to {}, sorted up to {}, merged up to {}, in the authority up to {}\n",
        manifest.database,
        manifest.number,
        manifest.epoch,
        reached.ingested,
        reached.sorted,
        reached.merged,
        reached.authority,
    );
    for entry in manifest.scus.values() {
        let is_sorted = entry.scu <= manifest.sorted_through;
        let state = match (is_sorted, entry.files.join(", ")) {
            // As of what took rows away: there is no batch, and no log.
            (true, files) if files.is_empty() => "sorted".to_owned(),
            (true, files) => format!("sorted, its log is kept: {files}"),
            (false, files) => format!("unsorted: {files}"),
        };
        let line = format!(
            "SCU {}: {}, {}, {}, {state}\n",
            entry.scu,
            counted(u64::from(entry.batches), "batch"),
            counted(entry.rows, "row"),
            bytes(entry.raw_bytes),
        );
        text.push_str(&line);
    }
    for state in manifest.tables.values() {
        text.push_str(&table_text(manifest, state, all));
        let views = manifest.views.values();
        for view in views.filter(|view| view.table.view_of == Some(state.table.id)) {
            text.push_str(&table_text(manifest, view, all));
        }
    }
    for view in manifest.plain_views.values() {
        let (name, id, query) = (&view.name, view.id, edits::query(view));
        text.push_str(&format!("\nview {name} ({id}): {query}\n"));
    }
    for (name, mark) in &manifest.producers {
        let line = format!(
            "producer {name}: last batch {} in SCU {}, epoch {}\n",
            mark.number, mark.scu, mark.epoch
        );
        text.push_str(&line);
    }
    text
}

fn table_text(manifest: &Manifest, state: &TableState, all: bool) -> String {
    let table = &state.table;
    let of = table.view_of.and_then(|of| manifest.tables.get(&of));
    let what = match of {
        Some(of) => format!(
            "materialized view {} of table {}",
            table.name, of.table.name
        ),
        None => format!("table {}", table.name),
    };
    let mut text = format!(
        "\n{what} ({}, primary view {}), from SCU {} on\n  columns {}\n",
        table.id,
        table.primary.id,
        state.created_after.next(),
        columns_text(table),
    );
    for (at, range) in state.ranges.iter().enumerate() {
        let bounds = range_text(range);
        text.push_str(&format!(
            "  range {} of {}{bounds}\n",
            at + 1,
            state.ranges.len()
        ));
        let (mut kept, mut kept_bytes) = (0, 0);
        for entry in &range.runs {
            let Some(run) = manifest.runs.get(&entry.id) else {
                continue;
            };
            if all || entry.is_current() {
                text.push_str(&run_text(run, entry.is_current()));
            } else {
                kept += 1;
                kept_bytes += run.bytes();
            }
        }
        if kept > 0 {
            text.push_str(&format!(
                "    and {} that are superseded, {}, kept for readers of the past (--all \
                 shows them)\n",
                counted(kept, "run"),
                bytes(kept_bytes)
            ));
        }
    }
    text
}

fn columns_text(table: &Table) -> String {
    let key = table.key_indices();
    let columns = table.columns.iter().enumerate().map(|(at, column)| {
        let mut text = format!("{} {}", column.name, sql_type(&column.data_type));
        if key.contains(&at) {
            text.push_str(" key");
        } else if !column.nullable {
            text.push_str(" not null");
        }
        if let Some(operator) = column.merge {
            text.push_str(&format!(" merge {}", operator.word().to_lowercase()));
        }
        text
    });
    columns.collect::<Vec<_>>().join(", ")
}

fn range_text(range: &RangeState) -> String {
    let mut text = String::new();
    if let Some(low) = &range.range.low {
        text.push_str(&format!(", from {low:?}"));
    }
    if let Some(high) = &range.range.high {
        text.push_str(&format!(", before {high:?}"));
    }
    text
}

fn span_text(first: u64, last: u64) -> String {
    match last {
        last if last < first => "of no SCU".to_owned(),
        last if last == first => format!("SCU {last}"),
        last => format!("SCUs {first} to {last}"),
    }
}

fn run_text(run: &Run, current: bool) -> String {
    let kind = match run.kind {
        lazybase_engine::manifest::RunKind::Sorted => "sorted",
        lazybase_engine::manifest::RunKind::Merged => "merged",
        lazybase_engine::manifest::RunKind::Base => "base",
    };
    let kept = if current { "" } else { ", superseded" };
    let mut text = format!(
        "    run {}: {kind}, {}, {}, {}{kept}\n",
        run.id.0,
        span_text(run.span.first.0, run.span.last.0),
        counted(run.rows(), "stored row"),
        bytes(run.bytes()),
    );
    for segment in &run.segments {
        text.push_str(&segment_text(segment));
    }
    text
}

fn segment_text(segment: &SegmentMeta) -> String {
    format!(
        "      {}: {}, {}, {}\n",
        segment.file,
        format_name(segment.format),
        counted(segment.rows, "stored row"),
        bytes(segment.bytes),
    )
}
