//! A step of a scan on its way: where its rows meet damage it goes on with what is left, behind the
//! rows that it has given.

use std::sync::Arc;

use arrow::array::RecordBatch;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use lazybase_model::Result;

use super::PartWork;
use crate::read::declared::OUT_OF_RANGE;

pub(super) type RowStream = BoxStream<'static, Result<RecordBatch>>;

/// A step that is being read.
pub(super) struct Reading {
    work: Arc<PartWork>,
    step: usize,
    rows: RowStream,
    /// How many rows it has given.
    given: usize,
    /// Whether its rows come from other sources than planned: those see to damage themselves.
    instead: bool,
}

impl Reading {
    /// A step whose rows come from the sources that were planned.
    pub(super) fn new(work: Arc<PartWork>, step: usize, rows: RowStream) -> Reading {
        Reading {
            work,
            step,
            rows,
            given: 0,
            instead: false,
        }
    }

    /// Its rows.
    pub(super) fn stream(self) -> RowStream {
        stream::try_unfold(self, Reading::next).boxed()
    }

    async fn next(mut self) -> Result<Option<(RecordBatch, Reading)>> {
        loop {
            match self.rows.next().await {
                None => return Ok(None),
                Some(Ok(rows)) => {
                    self.given += rows.num_rows();
                    return Ok(Some((rows, self)));
                }
                Some(Err(error)) if self.instead => return Err(error),
                Some(Err(error)) if error.sqlstate() == OUT_OF_RANGE => {
                    return Err(self.work.with_key(self.step, error).await);
                }
                Some(Err(error)) => {
                    let rows = self.work.read_instead(self.step, error).await?;
                    self.rows = skip_rows(rows, self.given);
                    self.instead = true;
                }
            }
        }
    }
}

/// The rows of a stream after the first `count`.
fn skip_rows(rows: RowStream, count: usize) -> RowStream {
    if count == 0 {
        return rows;
    }
    let mut left = count;
    rows.map_ok(move |rows| {
        let skipped = left.min(rows.num_rows());
        left -= skipped;
        rows.slice(skipped, rows.num_rows() - skipped)
    })
    .try_filter(|rows| futures::future::ready(rows.num_rows() > 0))
    .boxed()
}
