//! Whether a secondary view shows what its table holds: both are read in full at one horizon.

use arrow::array::RecordBatch;
use arrow_row::{RowConverter, SortField};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use lazybase_model::{Result, TableId};

use super::arrow_internal;
use super::scan::{Form, ScanRequest};
use super::snapshot::Snapshot;
use crate::segment::{RowLayout, key_hash};

/// Rows in any order: how many, and the sum of what each hashes to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Sum {
    rows: u64,
    hashes: u64,
}

/// What comparing a view with its table showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViewCheck {
    /// The view shows what its table holds.
    Same {
        /// How many rows.
        rows: u64,
    },
    /// It does not.
    Differs {
        /// In how many rows at least.
        rows: u64,
        /// How, in words.
        told: String,
    },
    /// The view can't be read by itself here, and its table answers: why.
    Unread(&'static str),
}

impl Snapshot {
    /// Compares what a view shows with what its table holds.
    ///
    /// # Errors
    /// As a scan.
    pub async fn check_view(&self, view: TableId) -> Result<ViewCheck> {
        let of = self.view(view).and_then(|state| state.table.view_of);
        let (Some(state), Some(of)) = (self.view(view), of) else {
            return Ok(ViewCheck::Unread(self.why_unread(view)));
        };
        let layout = self.inner.reader.layout(&state.table)?;
        let request = ScanRequest {
            table: view,
            projection: (0..layout.table.columns.len()).collect(),
            range: Default::default(),
            buffered: Vec::new(),
            batch_rows: 8192,
            parts: 1,
        };
        let Some(plan) = self.plan_view_in(&request, Form::Stored).await? else {
            return Ok(ViewCheck::Unread(self.why_unread(view)));
        };
        let shown = stream::iter(plan.parts)
            .flat_map(|part| part.stream())
            .boxed();
        let shown = sum(&layout, shown).await?;
        let held = sum(&layout, self.all_entries(&layout, of).await?).await?;
        if shown == held {
            return Ok(ViewCheck::Same { rows: held.rows });
        }
        Ok(ViewCheck::Differs {
            rows: held.rows.abs_diff(shown.rows).max(1),
            told: format!(
                "view {:?} does not show what its table holds: {} rows there, {} here",
                layout.table.name, held.rows, shown.rows
            ),
        })
    }
}

async fn sum(layout: &RowLayout, mut rows: BoxStream<'static, Result<RecordBatch>>) -> Result<Sum> {
    let fields = layout.schema.fields().iter();
    let fields = fields.map(|field| SortField::new(field.data_type().clone()));
    let converter = RowConverter::new(fields.collect()).map_err(arrow_internal)?;
    let mut sum = Sum::default();
    while let Some(rows) = rows.try_next().await? {
        let encoded = converter
            .convert_columns(rows.columns())
            .map_err(arrow_internal)?;
        sum.rows += rows.num_rows() as u64;
        for row in encoded.iter() {
            sum.hashes = sum.hashes.wrapping_add(key_hash(row.as_ref()));
        }
    }
    Ok(sum)
}
