//! EXPLAIN: the horizon that was chosen, the sources by stage, what was pruned, then DataFusion's
//! plan.
//!
//! Reads what a query reads when it is planned (and, with ANALYZE, when it runs).

use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::sql::sqlparser::ast::Statement;
use futures::stream::StreamExt;
use lazybase_engine::read::SourceDescription;
use lazybase_model::Result;

use crate::answer::AnswerStream;
use crate::clauses::Clauses;
use crate::parse::unsupported;
use crate::read;
use crate::session::{Shared, ours};
use crate::table::ScanNote;

/// Answers EXPLAIN.
pub(crate) async fn explain(
    session: &Arc<Shared>,
    statement: Statement,
    clauses: &Clauses,
    sql: &str,
) -> Result<AnswerStream> {
    match &statement {
        Statement::Explain { statement, .. } if matches!(**statement, Statement::Query(_)) => {}
        _ => {
            return Err(unsupported("EXPLAIN is for queries")
                .with_detail("writes by key read nothing; others run the query of their WHERE"));
        }
    }
    let opened = read::open(session, statement, clauses, sql).await?;
    let schema = Arc::new(Schema::new(vec![
        Field::new("plan_type", DataType::Utf8, false),
        Field::new("plan", DataType::Utf8, false),
    ]));
    let mut plan: Vec<RecordBatch> = Vec::new();
    let mut rows = ours(opened.rows, sql);
    while let Some(batch) = rows.next().await {
        plan.push(batch?);
    }
    let mut lines: Vec<(String, String)> = Vec::new();
    let stamp = opened.snapshot.as_ref().map(|snapshot| snapshot.stamp());
    if let Some(stamp) = &stamp {
        lines.push(("horizon".to_owned(), stamp.to_string()));
    }
    for note in opened.notes.lock().iter() {
        lines.push((format!("scan of {}", note.table), describe(note)));
    }
    let head = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![
            Arc::new(StringArray::from_iter_values(
                lines.iter().map(|(kind, _)| kind),
            )),
            Arc::new(StringArray::from_iter_values(
                lines.iter().map(|(_, text)| text),
            )),
        ],
    )
    .map_err(|error| crate::error::from_arrow(&error))?;
    let batches = std::iter::once(head).chain(plan).map(|batch| {
        batch
            .with_schema(Arc::clone(&schema))
            .map_err(|error| crate::error::from_arrow(&error))
    });
    let batches: Vec<Result<RecordBatch>> = batches.collect();
    let rows = futures::stream::iter(batches).boxed();
    Ok(AnswerStream::rows(
        schema,
        rows,
        opened.snapshot,
        Arc::clone(session),
    ))
}

/// A scan in words: how rows are reached, then a line for each source.
fn describe(note: &ScanNote) -> String {
    let mut lines = vec![note.access.clone()];
    lines.extend(note.sources.iter().map(source));
    lines.join("\n")
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
    format!(
        "  {stage}: {name}, {segments} segments, {extents} extents, {extents_pruned} pruned, \
         {bytes} bytes"
    )
}
