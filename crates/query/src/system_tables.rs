//! The system tables of the schema `lazybase`: the manifest in rows, as of the statement.
//!
//! Reads the newest manifest; writes nothing. Invariant SYS-1: all rows of one table are of one
//! manifest.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BooleanArray, Float64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, UInt32Array, UInt64Array,
};
use arrow::compute::nullif;
use lazybase_cluster::coordinator::policy::cheap_behind_micros;
use lazybase_cluster::{Instance, TaskStatus, lag};
use lazybase_engine::manifest::{Manifest, Run, RunKind, ScuEntry, SegmentFormat, TableState};
use lazybase_model::{Error, Layout, Result, ScuNumber, Table};

use crate::access::Gate;
use crate::error::from_arrow;
use crate::settings::{Settings, Shown};

mod access;
mod columns;
pub(crate) mod partitions;
mod status;
#[cfg(test)]
mod tests;

/// Their names, in the schema `lazybase`.
pub const NAMES: [&str; 17] = [
    "back_pressure",
    "columns",
    "grants",
    "lag",
    "partitions",
    "pins",
    "producers",
    "roles",
    "runs",
    "scus",
    "segments",
    "settings",
    "table_lag",
    "tables",
    "tasks",
    "troubles",
    "views",
];

/// What tells of all that is stored, whoever may read it: least and greatest keys, errors with
/// values in them, who else reads and writes.
const FOR_SUPERUSERS: [&str; 7] = [
    "pins",
    "producers",
    "runs",
    "scus",
    "segments",
    "tasks",
    "troubles",
];

/// Whether the session may read a system table.
///
/// # Errors
/// `Invalid` (42501) if not.
pub(crate) fn check(name: &str, gate: &Gate) -> Result<()> {
    match is_for_superusers(name) {
        true => gate.superuser(&format!("read lazybase.{name}")),
        false => Ok(()),
    }
}

/// Whether only superusers may read a system table.
pub(crate) fn is_for_superusers(name: &str) -> bool {
    FOR_SUPERUSERS.contains(&name)
}

/// The manifest with the tables and views alone that the session may see.
fn seen<'m>(manifest: &'m Arc<Manifest>, gate: &Gate) -> Cow<'m, Manifest> {
    if gate.rights().superuser {
        return Cow::Borrowed(manifest);
    }
    let mut seen = Manifest::clone(manifest);
    let sees = |state: &Arc<TableState>| gate.sees(&state.table);
    seen.tables.retain(|_, state| sees(state));
    seen.views.retain(|_, state| sees(state));
    seen.plain_views.retain(|_, view| gate.sees(view));
    Cow::Owned(seen)
}

/// The columns of a system table, without what tells how much there is of tables and views of which
/// the session may read some rows or cells only.
fn concealed(columns: Columns, manifest: &Manifest, gate: &Gate) -> Result<Columns> {
    let states = manifest.tables.values().chain(manifest.views.values());
    let base = |table: &Table| table.view_of.and_then(|of| manifest.tables.get(&of));
    let sight = gate.sight();
    let limited = states.filter(|state| {
        let base = base(&state.table);
        sight.is_limited(&state.table) || base.is_some_and(|base| sight.is_limited(&base.table))
    });
    let limited: Vec<&str> = limited.map(|state| state.table.name.as_str()).collect();
    let is_name = |name: &str| matches!(name, "name" | "table_name");
    let named = columns.iter().find(|(name, _)| is_name(name));
    let Some(names) = named.and_then(|(_, names)| names.as_string_opt::<i32>()) else {
        return Ok(columns);
    };
    if limited.is_empty() {
        return Ok(columns);
    }
    let hidden = names
        .iter()
        .map(|name| Some(name.is_some_and(|name| limited.contains(&name))));
    let hidden: BooleanArray = hidden.collect();
    let columns = columns.into_iter().map(|(name, column)| {
        let column = match name {
            "stored_rows" | "rows" | "bytes" | "raw_bytes" | "ranges" | "key_ranges" => {
                nullif(&column, &hidden).map_err(|error| from_arrow(&error))?
            }
            _ => column,
        };
        Ok((name, column))
    });
    columns.collect()
}

/// The rows of a system table, if there is one of that name.
pub(crate) fn rows(
    name: &str,
    instance: &Instance,
    settings: &Settings,
    gate: &Gate,
) -> Result<Option<RecordBatch>> {
    let columns = match name {
        "settings" => settings_columns(&settings.all()),
        "columns" => columns::rows(&seen(&instance.manifest(), gate)),
        "grants" => access::grants(&instance.manifest(), gate),
        "roles" => access::roles(gate.access()),
        "lag" => {
            let stages = lag::of_stages(&instance.manifest(), instance.now_micros());
            status::lag(&stages, false)
        }
        "table_lag" => {
            let tables = lag::of_tables(&seen(&instance.manifest(), gate), instance.now_micros());
            status::lag(&tables, true)
        }
        "partitions" => partitions::rows(&seen(&instance.manifest(), gate))?,
        "producers" => producers(&instance.manifest()),
        "runs" => runs(&instance.manifest()),
        "scus" => scus(&instance.manifest()),
        "segments" => segments(&instance.manifest()),
        "tables" => tables(&seen(&instance.manifest(), gate), instance.now_micros())?,
        "tasks" => tasks(instance),
        "back_pressure" => status::back_pressure(&instance.status()),
        "pins" => status::pins(&instance.pins()),
        "views" => crate::views::columns(&seen(&instance.manifest(), gate)),
        "troubles" => status::troubles(&instance.status()),
        _ => return Ok(None),
    };
    let columns = concealed(columns, &instance.manifest(), gate)?;
    RecordBatch::try_from_iter_with_nullable(
        columns
            .into_iter()
            .map(|(name, column)| (name, column, true)),
    )
    .map(Some)
    .map_err(|error| Error::internal(error.to_string()))
}

type Columns = Vec<(&'static str, ArrayRef)>;

fn texts<T: Into<String>>(values: impl Iterator<Item = Option<T>>) -> ArrayRef {
    Arc::new(
        values
            .map(|value| value.map(Into::into))
            .collect::<StringArray>(),
    )
}

fn seconds(micros: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    let seconds = micros.map(|micros| micros.map(|micros| micros as f64 / 1e6));
    Arc::new(seconds.collect::<Float64Array>())
}

fn counts(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

fn moments(values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(
        values
            .collect::<TimestampMicrosecondArray>()
            .with_timezone("+00:00"),
    )
}

fn settings_columns(settings: &[Shown]) -> Columns {
    vec![
        (
            "name",
            texts(settings.iter().map(|shown| Some(shown.name.clone()))),
        ),
        (
            "value",
            texts(settings.iter().map(|shown| Some(shown.value.clone()))),
        ),
        (
            "description",
            texts(settings.iter().map(|shown| Some(shown.description.clone()))),
        ),
    ]
}

fn producers(manifest: &Manifest) -> Columns {
    let marks = || manifest.producers.values();
    vec![
        (
            "name",
            texts(manifest.producers.keys().map(|name| Some(name.clone()))),
        ),
        ("number", counts(marks().map(|mark| mark.number))),
        ("epoch", counts(marks().map(|mark| mark.epoch))),
        ("scu", counts(marks().map(|mark| mark.scu.0))),
    ]
}

fn run_kind(kind: RunKind) -> &'static str {
    match kind {
        RunKind::Sorted => "sorted",
        RunKind::Merged => "merged",
        RunKind::Base => "authority",
    }
}

fn table_of(manifest: &Manifest, run: &Run) -> Option<String> {
    manifest
        .table_of_view(run.view)
        .map(|state| state.table.name.clone())
}

fn runs(manifest: &Manifest) -> Columns {
    let runs = || manifest.runs.values();
    let current = manifest.current_runs();
    vec![
        ("run", counts(runs().map(|run| run.id.0))),
        (
            "table_name",
            texts(runs().map(|run| table_of(manifest, run))),
        ),
        ("stage", texts(runs().map(|run| Some(run_kind(run.kind))))),
        ("first_scu", counts(runs().map(|run| run.span.first.0))),
        ("last_scu", counts(runs().map(|run| run.span.last.0))),
        (
            "segments",
            counts(runs().map(|run| run.segments.len() as u64)),
        ),
        ("rows", counts(runs().map(|run| run.rows()))),
        ("bytes", counts(runs().map(|run| run.bytes()))),
        ("superseded", {
            let superseded = runs().map(|run| Some(!current.contains(&run.id)));
            Arc::new(superseded.collect::<BooleanArray>()) as ArrayRef
        }),
    ]
}

/// The tasks that run, the last ones that ended, and what went wrong in the background.
fn tasks(instance: &Instance) -> Columns {
    let manifest = instance.manifest();
    let status = instance.status();
    let running = status
        .running
        .iter()
        .map(|task| (task, "running", None, None));
    let finished = status.finished.iter().map(|done| {
        let state = if done.error.is_some() {
            "failed"
        } else {
            "finished"
        };
        (
            &done.task,
            state,
            Some(done.elapsed_micros),
            done.error.clone(),
        )
    });
    let all: Vec<_> = running.chain(finished).collect();
    vec![
        ("task", counts(all.iter().map(|(task, ..)| task.id.0))),
        (
            "state",
            texts(all.iter().map(|(_, state, ..)| Some(*state))),
        ),
        (
            "stage",
            texts(all.iter().map(|(task, ..)| Some(task.stage.name()))),
        ),
        ("table_name", {
            let name = |task: &TaskStatus| task.table.map(|table| manifest.table_name(table));
            texts(all.iter().map(|(task, ..)| name(task)))
        }),
        (
            "first_scu",
            counts(all.iter().map(|(task, ..)| task.span.first.0)),
        ),
        (
            "last_scu",
            counts(all.iter().map(|(task, ..)| task.span.last.0)),
        ),
        ("bytes", counts(all.iter().map(|(task, ..)| task.bytes))),
        (
            "started",
            moments(all.iter().map(|(task, ..)| Some(task.started_micros))),
        ),
        ("elapsed_ms", {
            let elapsed = all
                .iter()
                .map(|(_, _, micros, _)| micros.map(|us| us as f64 / 1e3));
            Arc::new(elapsed.collect::<Float64Array>()) as ArrayRef
        }),
        (
            "error",
            texts(all.iter().map(|(_, _, _, error)| error.clone())),
        ),
    ]
}

fn scus(manifest: &Manifest) -> Columns {
    let scus = || manifest.scus.values();
    let remapped = manifest.remapped_through();
    let stage = |entry: &ScuEntry| {
        if entry.scu <= manifest.sorted_through {
            "sorted"
        } else if entry.scu <= remapped && manifest.holds_keys(entry) {
            "remapped"
        } else {
            "ingested"
        }
    };
    let time = |scu: ScuNumber| manifest.times.get(&scu);
    vec![
        ("scu", counts(scus().map(|entry| entry.scu.0))),
        ("stage", texts(scus().map(|entry| Some(stage(entry))))),
        ("batches", {
            let batches = scus().map(|entry| entry.batches);
            Arc::new(UInt32Array::from_iter_values(batches)) as ArrayRef
        }),
        ("rows", counts(scus().map(|entry| entry.rows))),
        ("bytes", counts(scus().map(|entry| entry.raw_bytes))),
        (
            "tables",
            counts(scus().map(|entry| entry.tables.len() as u64)),
        ),
        (
            "first_acknowledged",
            moments(scus().map(|e| time(e.scu).map(|t| t.first_ack_micros))),
        ),
        (
            "last_acknowledged",
            moments(scus().map(|e| time(e.scu).map(|t| t.last_ack_micros))),
        ),
    ]
}

fn segments(manifest: &Manifest) -> Columns {
    let segments: Vec<_> = manifest
        .runs
        .values()
        .flat_map(|run| run.segments.iter().map(move |segment| (run, segment)))
        .collect();
    let format = |format| match format {
        SegmentFormat::Extent => "extent",
        SegmentFormat::Parquet => "parquet",
    };
    vec![
        (
            "file",
            texts(
                segments
                    .iter()
                    .map(|(_, segment)| Some(segment.file.clone())),
            ),
        ),
        ("run", counts(segments.iter().map(|(run, _)| run.id.0))),
        (
            "table_name",
            texts(segments.iter().map(|(run, _)| table_of(manifest, run))),
        ),
        (
            "format",
            texts(
                segments
                    .iter()
                    .map(|(_, segment)| Some(format(segment.format))),
            ),
        ),
        (
            "rows",
            counts(segments.iter().map(|(_, segment)| segment.rows)),
        ),
        (
            "bytes",
            counts(segments.iter().map(|(_, segment)| segment.bytes)),
        ),
        (
            "raw_bytes",
            counts(segments.iter().map(|(_, segment)| segment.raw_bytes)),
        ),
        (
            "newest_scu",
            counts(segments.iter().map(|(_, segment)| segment.newest_scu.0)),
        ),
    ]
}

/// When the rows of a table end.
fn time_to_live(table: &Table) -> Option<String> {
    let column = &table.columns[table.ttl_index()?].name;
    let micros = table.ttl?.micros;
    let units = [
        (86_400_000_000, "days"),
        (3_600_000_000, "hours"),
        (60_000_000, "minutes"),
        (1_000_000, "s"),
        (1_000, "ms"),
    ];
    let (unit, name) = units
        .into_iter()
        .find(|(unit, _)| micros.is_multiple_of(*unit))?;
    Some(format!("{column} + {} {name}", micros / unit))
}

fn tables(manifest: &Manifest, now_micros: i64) -> Result<Columns> {
    let tables = || manifest.tables.values();
    let key = |state: &lazybase_engine::manifest::TableState| match state.table.hidden_key {
        true => None,
        false => {
            let names = state.table.key_indices().into_iter();
            let names: Vec<&str> = names
                .map(|at| state.table.columns[at].name.as_str())
                .collect();
            Some(names.join(", "))
        }
    };
    let live = manifest.current_runs();
    let current = |state: &lazybase_engine::manifest::TableState, size: fn(&Run) -> u64| -> u64 {
        let runs = manifest.runs.values();
        runs.filter(|run| run.view == state.table.primary.id && live.contains(&run.id))
            .map(|run| size(run))
            .sum()
    };
    Ok(vec![
        (
            "name",
            texts(tables().map(|state| Some(state.table.name.clone()))),
        ),
        ("key", texts(tables().map(|state| key(state)))),
        (
            "columns",
            counts(tables().map(|state| state.table.visible_columns() as u64)),
        ),
        ("layout", {
            let layouts = tables().map(|state| match state.table.layout {
                Layout::Scan => Some("scan"),
                Layout::Point => Some("point"),
            });
            texts(layouts)
        }),
        (
            "ranges",
            counts(tables().map(|state| state.ranges.len() as u64)),
        ),
        (
            "stored_rows",
            counts(tables().map(|state| current(state, Run::rows))),
        ),
        (
            "bytes",
            counts(tables().map(|state| current(state, Run::bytes))),
        ),
        (
            "ttl",
            texts(tables().map(|state| time_to_live(&state.table))),
        ),
        (
            "freshness_target_s",
            seconds(tables().map(|state| state.table.freshness_target_micros)),
        ),
        (
            "freshness_s",
            seconds(tables().map(|state| Some(cheap_behind_micros(manifest, state, now_micros)))),
        ),
        ("partitioning", {
            let words = tables().map(|state| partitions::definition(&state.table));
            texts(words.collect::<Result<Vec<_>>>()?.into_iter())
        }),
        (
            "comment",
            texts(tables().map(|state| state.table.comment.clone())),
        ),
    ])
}
