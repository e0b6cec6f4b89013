//! EXPLAIN: the horizon that was chosen, how each table is reached, its sources by stage with what
//! was pruned, then DataFusion's plan; a line a row.
//!
//! ```text
//!   horizon 40+3, complete (asked 0)
//!   scan of t: a range of the key, 2 sources
//!     sorted     run r7 of SCUs 41..=41: 1 of 1 extents, 2.1 KiB in 1 segment
//!     authority  run r5 of SCUs 1..=40: 3 of 120 extents, 1.2 MiB in 1 segment
//!   plan
//!     FilterExec: n@2 = 1, projection=[v@1]
//!       LazyScanExec: table=t, ...
//! ```
//!
//! Reads what a query reads when it is planned (and, with ANALYZE, when it runs).

use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::Statement;
use futures::stream::StreamExt;
use lazybase_engine::key::Key;
use lazybase_engine::manifest::KeyRange;
use lazybase_engine::read::{ScanRequest, Snapshot, SourceDescription};
use lazybase_model::{Error, Result, Stamp};

use crate::answer::AnswerStream;
use crate::catalog::definition_in;
use crate::clauses::Clauses;
use crate::error::from_arrow;
use crate::id_keys::own;
use crate::labels::Sight;
use crate::parse::{convert, unsupported};
use crate::pg_catalog::types::mark;
use crate::planner::repeated_names;
use crate::point::PointRead;
use crate::read;
use crate::session::{Shared, ours};
use crate::table::ScanNote;

mod json;

/// The line above the planner's own.
const PLAN: &str = "plan";

/// How much of the planner's work is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// The plan that runs.
    Plan,
    /// The same with the columns that each of its nodes gives.
    Columns,
    /// Each plan on the way to it.
    Steps,
}

impl Detail {
    /// What stands above a plan that the planner gives as this kind; none where it is left out.
    fn title(self, kind: &str) -> Option<&str> {
        match (self, kind) {
            (Detail::Steps, kind) => Some(kind),
            (_, "Plan with Metrics")
            | (Detail::Plan, "physical_plan")
            | (Detail::Columns, "physical_plan_with_schema") => Some(PLAN),
            // Beside the first ANALYZE gives these alone.
            (Detail::Columns, "Plan with Full Metrics" | "Output Rows" | "Duration") => Some(kind),
            _ => None,
        }
    }
}

/// Answers EXPLAIN.
pub(crate) async fn explain(
    session: &Arc<Shared>,
    mut statement: Statement,
    clauses: &Clauses,
    sql: &str,
) -> Result<AnswerStream> {
    let Statement::Explain {
        statement: inner,
        analyze,
        verbose,
        format,
        options,
        ..
    } = &mut statement
    else {
        return Err(Error::internal("the statement was seen to be EXPLAIN"));
    };
    let Statement::Query(query) = &**inner else {
        return Err(unsupported("EXPLAIN is for queries")
            .with_detail("writes by key read nothing; others run the query of their WHERE"));
    };
    let analyze = *analyze;
    // The only option that is left is the one for steps.
    let detail = match (options.take(), *verbose) {
        (Some(_), _) => Detail::Steps,
        (None, true) => Detail::Columns,
        (None, false) => Detail::Plan,
    };
    *verbose = detail != Detail::Plan;
    // The planner has formats of its own, and gives lines without one.
    let in_json = format.take().is_some();
    let query = convert::reading(query.clone())?;
    if let Some(point) = read::recognise(session, &query, clauses)? {
        let sight = read::check_point(session, &point)?;
        return explain_point(session, point, &sight, clauses, (analyze, in_json)).await;
    }
    let opened = read::open(session, statement, clauses, sql).await?;
    let mut plan: Vec<RecordBatch> = Vec::new();
    let mut rows = ours(opened.rows, sql);
    while let Some(batch) = rows.next().await {
        plan.push(batch?);
    }
    let mut lines: Vec<String> = Vec::new();
    let stamp = opened.snapshot.as_ref().map(|snapshot| snapshot.stamp());
    lines.extend(stamp.as_ref().map(|stamp| horizon(stamp, analyze)));
    for note in opened.notes.lock().iter() {
        lines.extend(describe(note));
    }
    for batch in &plan {
        lines.extend(plan_lines(batch, detail));
    }
    Ok(told(lines, in_json)?.with_stamp(stamp))
}

/// Whether an EXPLAIN asks for JSON, the only other form that there is.
pub(crate) fn is_in_json(statement: &Statement) -> bool {
    matches!(statement, Statement::Explain { format, .. } if format.is_some())
}

/// The columns of the answer: a line a row, or all of it as JSON.
pub(crate) fn columns(in_json: bool) -> SchemaRef {
    let column = match in_json {
        true => Field::new("QUERY PLAN", DataType::Utf8, false).with_metadata(mark("json")),
        false => Field::new("plan", DataType::Utf8, false),
    };
    Arc::new(Schema::new(vec![column]))
}

/// A read of full keys: nothing is planned for it. Of the sources in which the keys may lie, newest
/// first, those are read whose filters know the key, up to the first that says all of its row.
async fn explain_point(
    session: &Arc<Shared>,
    point: PointRead,
    sight: &Sight,
    clauses: &Clauses,
    (analyze, in_json): (bool, bool),
) -> Result<AnswerStream> {
    let reads = format!(
        "read of {} by key: {}, past the planner",
        point.table.name,
        counted(point.keys.len(), "key")
    );
    if !analyze {
        let tables = Some(vec![point.table.id]);
        let snapshot = session.snapshot(clauses, tables).await?;
        let mut lines = vec![reads];
        if sight.is_limited(&point.table) {
            snapshot.conceal_sources();
        } else if definition_in(&snapshot, &point.table)?.version == point.table.version {
            lines.extend(sources_of_keys(session, &snapshot, &point).await?);
        }
        let stamp = snapshot.stamp();
        lines.insert(0, horizon(&stamp, false));
        return Ok(told(lines, in_json)?.with_stamp(Some(stamp)));
    }
    let answer = read::point_read(session, point, clauses).await?;
    let answer = answer.ok_or_else(|| {
        Error::conflict("the table was changed while its plan was told").with_sqlstate("40001")
    })?;
    let answer = answer.collect().await?;
    let mut lines: Vec<String> = Vec::new();
    lines.extend(answer.stamp.as_ref().map(|stamp| horizon(stamp, true)));
    lines.push(reads);
    lines.push(format!("  {}", counted(answer.rows as usize, "row")));
    Ok(told(lines, in_json)?.with_stamp(answer.stamp))
}

/// A line for each source in which the keys of a read may lie.
async fn sources_of_keys(
    session: &Shared,
    snapshot: &Snapshot,
    point: &PointRead,
) -> Result<Vec<String>> {
    let mut buffered = Box::pin(own::buffered(session, snapshot)).await?;
    let request = ScanRequest {
        table: point.table.id,
        projection: point.table.key_indices(),
        range: KeyRange::default(),
        buffered: buffered.remove(&point.table.id).unwrap_or_default(),
        batch_rows: 1,
        parts: 1,
    };
    let of_key = |key: &Key| KeyRange {
        low: Some(key.clone()),
        high: Some(Key::after(key.as_bytes())),
    };
    let ranges: Vec<KeyRange> = point.keys.iter().map(of_key).collect();
    let plan = snapshot.plan_scan_of(request, &ranges).await?;
    Ok(plan.sources.iter().rev().map(source).collect())
}

/// The lines as an answer.
fn told(lines: Vec<String>, in_json: bool) -> Result<AnswerStream> {
    let rows = match in_json {
        true => vec![json::of_lines(&lines)],
        false => lines,
    };
    let rows = Arc::new(StringArray::from(rows));
    let batch = RecordBatch::try_new(columns(in_json), vec![rows]);
    let batch = batch.map_err(|error| from_arrow(&error))?;
    Ok(AnswerStream::of_batch("EXPLAIN", batch))
}

/// The horizon; as of when the answer is true, and what was read, belong to it only where the query
/// ran.
fn horizon(stamp: &Stamp, ran: bool) -> String {
    let text = stamp.to_string();
    match (ran, text.split_once(')')) {
        (false, Some((chosen, _))) => format!("{chosen})"),
        _ => text,
    }
}

/// The lines of the plans that DataFusion gives.
fn plan_lines(batch: &RecordBatch, detail: Detail) -> Vec<String> {
    let (kinds, plans) = (batch.column(0), batch.column(1));
    let (Some(kinds), Some(plans)) = (kinds.as_string_opt::<i32>(), plans.as_string_opt::<i32>())
    else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    for (kind, plan) in kinds.iter().zip(plans) {
        let (kind, plan) = (kind.unwrap_or_default(), plan.unwrap_or_default());
        let Some(title) = detail.title(kind) else {
            continue;
        };
        lines.push(title.to_owned());
        let plan = repeated_names::unmarked_text(plan);
        lines.extend(plan.lines().map(|line| format!("  {line}")));
    }
    lines
}

/// A scan in words: how rows are reached, then a line for each source.
fn describe(note: &ScanNote) -> Vec<String> {
    let sources = match note.sources.len() {
        0 => String::new(),
        count => format!(", {}", counted(count, "source")),
    };
    let mut lines = vec![format!("scan of {}: {}{sources}", note.table, note.access)];
    lines.extend(note.sources.iter().map(source));
    lines
}

fn source(source: &SourceDescription) -> String {
    let SourceDescription {
        stage,
        name,
        segments,
        extents,
        extents_pruned,
        bytes,
    } = source;
    let all = extents + extents_pruned;
    let read = match segments {
        0 => String::new(),
        count => format!(
            ": {extents} of {} in {}",
            counted(all, "extent"),
            counted(*count, "segment")
        ),
    };
    format!("  {:<9}  {name}{read}, {bytes} bytes", stage.name())
}

/// A number of things, in words.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}
