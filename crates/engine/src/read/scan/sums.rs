//! Stored columns as a part of a scan shows them; sums that are out of range, with their keys.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use futures::stream::StreamExt;
use lazybase_model::{Error, Result};

use super::{PartWork, PieceReader, expiry_among, key_codec, positions, read_columns};
use crate::read::declared::declared_column;

impl PartWork {
    /// The error of a sum that is out of range, with the key of its row: the step is read again
    /// with the key's columns, where it was read without.
    pub(super) async fn with_key(&self, step: usize, error: Error) -> Error {
        if self.reader.codec.is_some() {
            return error;
        }
        let wanted = self.wanted.iter().map(|at| self.reader.columns[*at]);
        let wanted: Vec<usize> = wanted.collect();
        let columns = read_columns(&self.layout, &wanted, false);
        let again = || {
            let reader = PieceReader {
                codec: key_codec(&self.layout, &columns)?,
                columns: columns.clone().into(),
                ..self.reader.clone()
            };
            let work = Arc::new(PartWork {
                snapshot: self.snapshot.clone(),
                layout: Arc::clone(&self.layout),
                wanted: positions(&reader.columns, &wanted)?,
                reader,
                sources: self.sources.clone(),
                memory: self.memory,
                avoids: self.avoids,
                steps: vec![self.steps[step].clone()],
                schema: Arc::clone(&self.schema),
                batch_rows: self.batch_rows,
                expiry: expiry_among(&self.snapshot, &self.layout, &columns)?,
                view: None,
            });
            work.read(0)
        };
        let Ok(mut rows) = again() else {
            return error;
        };
        loop {
            match rows.next().await {
                Some(Ok(_)) => {}
                Some(Err(named)) if named.sqlstate() == error.sqlstate() => return named,
                Some(Err(_)) | None => return error,
            }
        }
    }

    /// The columns at `wanted` of rows with the columns `columns`, under the table's own schema.
    pub(super) fn declared(
        &self,
        rows: &RecordBatch,
        columns: &[usize],
        wanted: &[usize],
    ) -> Result<RecordBatch> {
        let key = self.reader.codec.as_ref().map(|codec| codec.indices());
        let declared = |at: &usize| {
            declared_column(
                &self.layout.table,
                columns[*at],
                rows.column(*at),
                rows,
                key,
            )
        };
        let values = wanted.iter().map(declared).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), values, &options)
            .map_err(|error| Error::corrupt(format!("stored rows break the schema: {error}")))
    }
}
