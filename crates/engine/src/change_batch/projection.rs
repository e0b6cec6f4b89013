//! Batches seen through some of their columns: what that needs to know is made once, and not for
//! each batch.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use lazybase_model::Result;

use super::gather::gathering;
use super::{ChangeBatch, masks, project_column_scus, project_masks};
use crate::key::KeyCodec;
use crate::manifest::KeyRange;

/// Some columns of batches.
#[derive(Debug, Clone)]
pub struct Projection {
    columns: Arc<[usize]>,
    /// What batches have, and what is left of it.
    whole: SchemaRef,
    schema: SchemaRef,
    /// What [`masks::project`] needs to know of the columns.
    kept: Vec<u8>,
    is_whole: bool,
}

impl Projection {
    /// The columns `columns` of batches of a schema.
    ///
    /// # Errors
    /// `Internal` for a column that is not there.
    pub fn new(whole: &SchemaRef, columns: impl Into<Arc<[usize]>>) -> Result<Projection> {
        let columns = columns.into();
        let width = whole.fields().len();
        let is_whole = columns.iter().copied().eq(0..width);
        let schema = match is_whole {
            true => Arc::clone(whole),
            false => Arc::new(whole.project(&columns).map_err(gathering)?),
        };
        Ok(Projection {
            kept: masks::kept_of(&columns, width),
            columns,
            whole: Arc::clone(whole),
            schema,
            is_whole,
        })
    }

    /// The columns, as positions in the schema of whole batches.
    pub fn columns(&self) -> &Arc<[usize]> {
        &self.columns
    }

    /// The schema of what comes out.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The changes as seen through the columns: masks and column SCUs follow the new positions. Row
    /// SCUs stay those of whole rows; a mask gets the bit for what lies outside (see [`masks`]), so
    /// that composing projected changes still gives the right row SCUs.
    ///
    /// # Errors
    /// `Internal` for a column that the batch does not have; `Corrupt` for undecodable column SCUs.
    pub fn of(&self, batch: &ChangeBatch) -> Result<ChangeBatch> {
        if !self.knows(&batch.data) {
            let theirs = batch.data.schema_ref();
            return Projection::new(theirs, Arc::clone(&self.columns))?.of(batch);
        }
        if self.is_whole {
            return Ok(batch.clone());
        }
        let (columns, width) = (&self.columns, self.whole.fields().len());
        let masks = batch.masks.as_ref().map(|all| {
            let project = |mask: &[u8]| masks::project(mask, columns, width, &self.kept);
            project_masks(all, project)
        });
        let column_scus = batch.column_scus.as_ref();
        let column_scus = column_scus.map(|all| project_column_scus(all, columns, width));
        Ok(ChangeBatch {
            data: self.data(&batch.data)?,
            kinds: batch.kinds.clone(),
            masks,
            scus: batch.scus.clone(),
            column_scus: column_scus.transpose()?.flatten(),
        })
    }

    /// The changes of the keys in `range`, as [`Projection::of`] shows them: masks and column SCUs
    /// of the others are left alone. `codec` tells the keys by the columns that are shown; the rows
    /// are sorted by key.
    ///
    /// # Errors
    /// As [`Projection::of`]; `Internal` when the columns are not of the codec's types.
    pub fn clipped(
        &self,
        batch: &ChangeBatch,
        codec: &KeyCodec,
        range: &KeyRange,
    ) -> Result<ChangeBatch> {
        let cells = match self.knows(&batch.data) {
            true => self.data(&batch.data)?,
            false => batch.data.project(&self.columns).map_err(gathering)?,
        };
        let rows = ChangeBatch::upserts(cells, 0).rows_in(codec, range)?;
        self.of(&batch.slice(rows.start, rows.len()))
    }

    /// Whether a batch has the schema that was named. Most share it, or at least its fields: that
    /// is told by their addresses.
    fn knows(&self, data: &RecordBatch) -> bool {
        let theirs = data.schema_ref();
        Arc::ptr_eq(theirs, &self.whole) || theirs.fields() == self.whole.fields()
    }

    fn data(&self, data: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.columns.iter().map(|at| Arc::clone(data.column(*at)));
        let columns: Vec<ArrayRef> = columns.collect();
        let options = RecordBatchOptions::new().with_row_count(Some(data.num_rows()));
        let schema = Arc::clone(&self.schema);
        RecordBatch::try_new_with_options(schema, columns, &options).map_err(gathering)
    }
}
