//! The rows of many keys: by a scan where they stand close together, one by one where they don't.

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use futures::TryStreamExt;
use lazybase_model::{Error, Result};

use super::arrow_internal;
use super::own::OwnChanges;
use super::scan::{Form, ScanRequest, key_codec, output_schema};
use super::snapshot::Snapshot;
use crate::key::Key;
use crate::manifest::KeyRange;
use crate::segment::RowLayout;

/// So many keys are looked for together.
const KEYS_TOGETHER: usize = 4096;
/// A scan is taken if it meets at most so many rows for each key.
const SCANNED_PER_KEY: u64 = 64;

impl Snapshot {
    /// The rows of `keys`, which rise strictly, in their order, absent ones left out: the columns
    /// at `columns`, rising, among which the key's are, as they are stored.
    pub(super) async fn rows_of(
        &self,
        layout: &RowLayout,
        keys: &[Key],
        columns: &[usize],
        buffered: &[OwnChanges],
    ) -> Result<RecordBatch> {
        let schema = output_schema(layout, columns, Form::Stored)?;
        let mut found = Vec::new();
        for keys in keys.chunks(KEYS_TOGETHER) {
            found.extend(self.rows_near(layout, keys, columns, buffered).await?);
        }
        concat_batches(&schema, &found).map_err(arrow_internal)
    }

    async fn rows_near(
        &self,
        layout: &RowLayout,
        keys: &[Key],
        columns: &[usize],
        buffered: &[OwnChanges],
    ) -> Result<Vec<RecordBatch>> {
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else {
            return Ok(Vec::new());
        };
        let table = layout.table.id;
        let plan = self
            .plan_stored(&ScanRequest {
                table,
                projection: columns.to_vec(),
                range: KeyRange {
                    low: Some(first.clone()),
                    high: Some(Key::after(last.as_bytes())),
                },
                buffered: buffered.to_vec(),
                batch_rows: 8192,
                parts: 1,
            })
            .await?;
        if plan.estimated_rows > SCANNED_PER_KEY * keys.len() as u64 {
            return Ok(vec![self.get_stored(table, keys, columns, buffered).await?]);
        }
        let codec = key_codec(layout, columns)?
            .ok_or_else(|| Error::internal("rows are looked for without their keys"))?;
        let mut found = Vec::new();
        let mut wanted = keys.iter().peekable();
        for part in plan.parts {
            let mut rows = part.stream();
            while let Some(rows) = rows.try_next().await? {
                let encoded = codec.encode(&rows)?;
                let mut picked: Vec<u32> = Vec::new();
                for row in 0..rows.num_rows() {
                    let key = encoded.row(row);
                    let key = key.as_ref();
                    while wanted.next_if(|wanted| wanted.as_bytes() < key).is_some() {}
                    if wanted.next_if(|wanted| wanted.as_bytes() == key).is_some() {
                        picked.push(row as u32);
                    }
                }
                if !picked.is_empty() {
                    let picked = UInt32Array::from(picked);
                    found.push(take_record_batch(&rows, &picked).map_err(arrow_internal)?);
                }
            }
        }
        Ok(found)
    }
}
