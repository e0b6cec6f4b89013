//! Sums that are out of range, with the keys of their rows.

use std::sync::Arc;

use futures::stream::StreamExt;
use lazybase_model::Error;

use super::shown::wanted;
use super::{PartWork, PieceReader, expiry_among, key_codec, read_columns, with_table_key};
use crate::change_batch::Projection;

impl PartWork {
    /// The error of a sum that is out of range, with the key of its row: the step is read again
    /// with the key's columns, where it was read without.
    pub(super) async fn with_key(&self, step: usize, error: Error) -> Error {
        if self.reader.codec.is_some() {
            return error;
        }
        let columns = read_columns(&self.layout, &self.projection, false);
        let again = || {
            let reader = PieceReader {
                codec: key_codec(&self.layout, &columns)?,
                projection: Arc::new(Projection::new(&self.layout.schema, columns.as_slice())?),
                ..self.reader.clone()
            };
            let view = self.view.as_ref().map(|(read, _)| Arc::clone(read));
            let view = view.map(|read| with_table_key(read, &self.layout, &columns));
            let work = Arc::new(PartWork {
                snapshot: self.snapshot.clone(),
                layout: Arc::clone(&self.layout),
                wanted: wanted(&self.layout, reader.columns(), &self.projection)?,
                projection: Arc::clone(&self.projection),
                reader,
                sources: self.sources.clone(),
                memory: self.memory,
                avoids: self.avoids,
                steps: vec![self.steps[step].clone()],
                weights: self.weights.clone(),
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
}
