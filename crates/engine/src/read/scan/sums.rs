//! Stored columns as a part of a scan shows them; sums that are out of range, with their keys.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use futures::stream::StreamExt;
use lazybase_model::{Error, Result};

use super::{
    Form, PartWork, PieceReader, expiry_among, key_codec, positions, read_columns, with_table_key,
};
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
            let view = self.view.as_ref().map(|(read, _)| Arc::clone(read));
            let view = view.map(|read| with_table_key(read, &self.layout, &columns));
            let work = Arc::new(PartWork {
                snapshot: self.snapshot.clone(),
                layout: Arc::clone(&self.layout),
                wanted: positions(&reader.columns, &wanted)?,
                reader,
                sources: self.sources.clone(),
                memory: self.memory,
                avoids: self.avoids,
                steps: vec![self.steps[step].clone()],
                form: self.form,
                schema: Arc::clone(&self.schema),
                batch_rows: self.batch_rows,
                expiry: expiry_among(&self.snapshot, &self.layout, &columns)?,
                view: view.transpose()?,
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

    /// The columns at `wanted` of rows with the columns `columns`, in the form that is asked for.
    /// The rows of a view are told by its table and the table's key.
    pub(super) fn shown(
        &self,
        rows: &RecordBatch,
        columns: &[usize],
        wanted: &[usize],
    ) -> Result<RecordBatch> {
        let (table, key) = match &self.view {
            Some((read, table_key)) => (&read.table.table, table_key),
            None => (&self.layout.table, &self.reader.codec),
        };
        let key = key.as_ref().map(|codec| codec.indices());
        let shown = |at: &usize| {
            let (values, column) = (rows.column(*at), &self.layout.table.columns[columns[*at]]);
            match self.form {
                Form::Stored => Ok(Arc::clone(values)),
                Form::Declared => declared_column(&table.name, column, values, rows, key),
            }
        };
        let values = wanted.iter().map(shown).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), values, &options)
            .map_err(|error| Error::corrupt(format!("stored rows break the schema: {error}")))
    }
}
