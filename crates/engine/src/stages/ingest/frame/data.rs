//! The payload of a data frame: changes of one table as one Arrow IPC message.
//!
//! Reads and writes byte slices only. The schema is the table's, known by id and version, so only
//! the record batch message is stored; its body begins at a multiple of sixteen, so that decoding
//! copies nothing. Kinds that are all alike cost one byte, masks that no row has cost nothing, and
//! the hidden key costs nothing until it is read.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, UInt8Type};
use arrow::ipc::reader::RecordBatchDecoder;
use arrow::ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use arrow::ipc::{MetadataVersion, root_as_message};
use bytes::Bytes;
use lazybase_model::change::StoredKind;
use lazybase_model::table::Table;
use lazybase_model::{Error, Result, SchemaVersion, TableId};

use super::super::check::check_kinds;
use super::{EncodedFrame, FRAME_ALIGNMENT, FrameKind, aligned, u32_at, u64_at};
use crate::change_batch::{ChangeBatch, Kinds, Scus, sliced_bytes};
use crate::ipc::{check_body, check_columns};

const FIXED_BYTES: usize = 32;
const KINDS_PRESENT: u8 = 1;
const MASKS_PRESENT: u8 = 2;
const HIDDEN_KEY_OMITTED: u8 = 4;

/// What a data frame says about itself before its rows are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DataHeader {
    pub(crate) table: TableId,
    pub(crate) version: SchemaVersion,
    pub(crate) rows: u64,
    pub(crate) raw_bytes: u64,
    flags: u8,
    kind: u8,
    message_bytes: usize,
}

impl DataHeader {
    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Encodes changes of one table, kept between calls so that buffers are as large as before.
#[derive(Default)]
pub(crate) struct DataEncoder {
    context: IpcWriteContext,
}

impl std::fmt::Debug for DataEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataEncoder").finish_non_exhaustive()
    }
}

impl DataEncoder {
    /// The frame of `changes`, uncompressed.
    ///
    /// # Errors
    /// `Invalid` when a column can't be stored.
    pub(crate) fn encode(
        &mut self,
        table: &Table,
        changes: &ChangeBatch,
        raw_bytes: u64,
    ) -> Result<EncodedFrame> {
        let refused = |error: arrow::error::ArrowError| {
            Error::invalid(format!(
                "a batch for table {:?} can't be stored",
                table.name
            ))
            .with_detail(error.to_string())
        };
        let stored = with_hidden_columns(changes).map_err(refused)?;
        let options = IpcWriteOptions::try_new(FRAME_ALIGNMENT, false, MetadataVersion::V5)
            .map_err(refused)?;
        let (dictionaries, message) = IpcDataGenerator::default()
            .encode(
                &stored,
                &mut DictionaryTracker::new(false),
                &options,
                &mut self.context,
            )
            .map_err(refused)?;
        if !dictionaries.is_empty() {
            return Err(Error::internal("dictionaries are unpacked before ingest"));
        }
        let mut body = message.arrow_data;
        body.resize(aligned(body.len()), 0);
        let head = head_bytes(table, changes, raw_bytes, &message.ipc_message);
        Ok(EncodedFrame::new(FrameKind::Data, head, Bytes::from(body)))
    }
}

fn head_bytes(table: &Table, changes: &ChangeBatch, raw_bytes: u64, message: &[u8]) -> Vec<u8> {
    let omitted = table.hidden_key && changes.data.num_columns() < table.columns.len();
    let (each, kind) = match &changes.kinds {
        Kinds::Uniform(kind) => (false, kind.bits()),
        Kinds::Each(_) => (true, 0),
    };
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    let flags = flag(each, KINDS_PRESENT)
        | flag(changes.masks.is_some(), MASKS_PRESENT)
        | flag(omitted, HIDDEN_KEY_OMITTED);
    let mut head = Vec::with_capacity(aligned(FIXED_BYTES + message.len()));
    head.extend_from_slice(&table.id.0.to_le_bytes());
    head.extend_from_slice(&table.version.0.to_le_bytes());
    head.extend_from_slice(&(changes.rows() as u64).to_le_bytes());
    head.extend_from_slice(&raw_bytes.to_le_bytes());
    head.extend_from_slice(&[flags, kind, 0, 0]);
    head.extend_from_slice(&(message.len() as u32).to_le_bytes());
    head.extend_from_slice(message);
    head.resize(aligned(head.len()), 0);
    head
}

/// The data columns, with kinds and masks behind them where rows differ.
fn with_hidden_columns(changes: &ChangeBatch) -> Result<RecordBatch, arrow::error::ArrowError> {
    let kinds = match &changes.kinds {
        Kinds::Uniform(_) => None,
        Kinds::Each(kinds) => Some(Arc::new(kinds.clone()) as ArrayRef),
    };
    if kinds.is_none() && changes.masks.is_none() {
        return Ok(changes.data.clone());
    }
    let hidden = (kinds.is_some(), changes.masks.is_some());
    let schema = with_hidden_fields(changes.data.schema_ref(), hidden);
    let masks = changes.masks.as_ref();
    let masks = masks.map(|masks| Arc::new(masks.clone()) as ArrayRef);
    let columns = changes.data.columns().iter().cloned();
    let columns = columns.chain(kinds).chain(masks).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(changes.rows()));
    RecordBatch::try_new_with_options(schema, columns, &options)
}

static KINDS_FIELD: LazyLock<FieldRef> =
    LazyLock::new(|| Arc::new(Field::new("_kinds", DataType::UInt8, false)));
static MASKS_FIELD: LazyLock<FieldRef> =
    LazyLock::new(|| Arc::new(Field::new("_masks", DataType::Binary, true)));

/// The columns with kinds and masks behind them, as there are any.
fn with_hidden_fields(data: &SchemaRef, (kinds, masks): (bool, bool)) -> SchemaRef {
    if !kinds && !masks {
        return Arc::clone(data);
    }
    let kinds = kinds.then(|| Arc::clone(&KINDS_FIELD));
    let masks = masks.then(|| Arc::clone(&MASKS_FIELD));
    let fields = data.fields().iter().cloned().chain(kinds).chain(masks);
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The columns of batches that were written under one definition of a table: they are small and
/// many, and are read under schemas that are made once.
#[derive(Debug)]
pub(crate) struct BatchSchemas {
    /// As the log holds them.
    stored: SchemaRef,
    /// The same where the hidden key is left out.
    keyless: SchemaRef,
    /// With the hidden key in every row.
    pub(crate) whole: SchemaRef,
}

impl BatchSchemas {
    /// Of a definition.
    pub(crate) fn of(table: &Table) -> BatchSchemas {
        let stored = |columns: usize| Arc::new(Schema::new(stored_fields(table, columns)));
        let hidden = usize::from(table.hidden_key);
        BatchSchemas {
            stored: stored(table.columns.len()),
            keyless: stored(table.columns.len() - hidden),
            whole: change_schema(table),
        }
    }

    /// The columns of a frame's rows, without kinds and masks.
    fn of_frame(&self, header: &DataHeader) -> &SchemaRef {
        match header.has(HIDDEN_KEY_OMITTED) {
            true => &self.keyless,
            false => &self.stored,
        }
    }
}

/// The columns of a table's changes: all nullable but the key.
pub(crate) fn change_schema(table: &Table) -> SchemaRef {
    let field = |column: &lazybase_model::table::Column| {
        let nullable = !table.primary.key.contains(&column.id);
        Field::new(&column.name, column.stored_type(), nullable)
    };
    Arc::new(Schema::new(
        table.columns.iter().map(field).collect::<Vec<_>>(),
    ))
}

/// The first `columns` of a table's changes as ingest stores them: the hidden key may be left out
/// of a row.
pub(crate) fn stored_fields(table: &Table, columns: usize) -> Vec<Arc<Field>> {
    let field = |column: &lazybase_model::table::Column| {
        let nullable = table.hidden_key || !table.primary.key.contains(&column.id);
        Arc::new(Field::new(&column.name, column.stored_type(), nullable))
    };
    table.columns.iter().take(columns).map(field).collect()
}

/// Reads the first bytes of a verified data payload.
///
/// # Errors
/// `Corrupt` when it is too short.
pub(crate) fn decode_data_header(payload: &[u8]) -> Result<DataHeader> {
    let malformed = || Error::corrupt("a data frame is malformed");
    if payload.len() < FIXED_BYTES {
        return Err(malformed());
    }
    let header = DataHeader {
        table: TableId(u32_at(payload, 0)),
        version: SchemaVersion(u32_at(payload, 4)),
        rows: u64_at(payload, 8),
        raw_bytes: u64_at(payload, 16),
        flags: payload[24],
        kind: payload[25],
        message_bytes: u32_at(payload, 28) as usize,
    };
    match payload.len() < aligned(FIXED_BYTES + header.message_bytes) {
        true => Err(malformed()),
        false => Ok(header),
    }
}

/// Decodes a verified data payload of `table`; rows carry SCU `scu`. The hidden key, where it was
/// left out, is still missing.
///
/// # Errors
/// `Corrupt` when the payload is not of this table and version, or is no change batch.
pub(crate) fn decode_data(
    payload: &Bytes,
    table: &Table,
    schemas: &BatchSchemas,
    scu: u64,
) -> Result<ChangeBatch> {
    let header = decode_data_header(payload)?;
    let body = payload.slice(aligned(FIXED_BYTES + header.message_bytes)..);
    decode_parts((payload, &body), table, schemas, scu)
}

/// The same where the body lies by itself.
///
/// # Errors
/// As above.
pub(crate) fn decode_parts(
    (head, body): (&[u8], &Bytes),
    table: &Table,
    schemas: &BatchSchemas,
    scu: u64,
) -> Result<ChangeBatch> {
    let header = decode_data_header(head)?;
    if header.table != table.id || header.version != table.version {
        return Err(Error::corrupt(format!(
            "a data frame is of table {} version {}, not of {:?} ({} version {})",
            header.table, header.version.0, table.name, table.id, table.version.0
        )));
    }
    let batch = decode_message(head, body, &header, schemas).map_err(|error| {
        Error::corrupt(format!(
            "a data frame of table {:?} is malformed",
            table.name
        ))
        .with_detail(error.to_string())
    })?;
    if batch.num_rows() as u64 != header.rows {
        return Err(Error::corrupt(format!(
            "a data frame of table {:?} has {} rows, not {}",
            table.name,
            batch.num_rows(),
            header.rows
        )));
    }
    let changes = without_hidden_columns(batch, &header, schemas, scu)?;
    check_kinds(&changes.kinds, changes.masks.as_ref()).map_err(|error| {
        Error::corrupt(format!(
            "a data frame of table {:?} is no batch of changes",
            table.name
        ))
        .with_detail(error.to_string())
    })?;
    Ok(changes)
}

fn decode_message(
    head: &[u8],
    body: &Bytes,
    header: &DataHeader,
    schemas: &BatchSchemas,
) -> Result<RecordBatch, arrow::error::ArrowError> {
    let malformed = |what: &str| arrow::error::ArrowError::IpcError(what.to_owned());
    let message = root_as_message(&head[FIXED_BYTES..FIXED_BYTES + header.message_bytes])
        .map_err(|error| malformed(&error.to_string()))?;
    let batch = message
        .header_as_record_batch()
        .ok_or_else(|| malformed("the message is no record batch"))?;
    let hidden = (header.has(KINDS_PRESENT), header.has(MASKS_PRESENT));
    let schema = with_hidden_fields(schemas.of_frame(header), hidden);
    check_body(&batch, body.len())?;
    check_columns(&batch, &schema)?;
    let body = Buffer::from(body.clone());
    let dictionaries = HashMap::new();
    let version = MetadataVersion::V5;
    RecordBatchDecoder::try_new(&body, batch, schema, &dictionaries, &version)?.read_record_batch()
}

fn without_hidden_columns(
    batch: RecordBatch,
    header: &DataHeader,
    schemas: &BatchSchemas,
    scu: u64,
) -> Result<ChangeBatch> {
    let (mut data, mut kinds, mut masks) = (batch, None, None);
    if header.has(KINDS_PRESENT) || header.has(MASKS_PRESENT) {
        let (_, mut columns, rows) = data.into_parts();
        if header.has(MASKS_PRESENT) {
            masks = columns.pop().map(|last| last.as_binary::<i32>().clone());
        }
        if header.has(KINDS_PRESENT) {
            let last = columns.pop();
            kinds = last.map(|last| last.as_primitive::<UInt8Type>().clone());
        }
        let schema = Arc::clone(schemas.of_frame(header));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        data = RecordBatch::try_new_with_options(schema, columns, &options)
            .map_err(|error| Error::corrupt(error.to_string()))?;
    }
    let kinds = match kinds {
        Some(kinds) => Kinds::Each(kinds),
        None => Kinds::Uniform(
            StoredKind::try_from(header.kind).map_err(|error| Error::corrupt(error.to_string()))?,
        ),
    };
    Ok(ChangeBatch {
        data,
        kinds,
        masks,
        scus: Scus::Uniform(scu),
        column_scus: None,
    })
}

/// The uncompressed bytes of a batch's rows, without what their buffers hold besides.
pub(crate) fn raw_bytes(changes: &ChangeBatch) -> Result<u64> {
    let mut bytes = 0;
    for column in changes.data.columns() {
        bytes += sliced_bytes(column).map_err(|error| Error::invalid(error.to_string()))?;
    }
    if let Kinds::Each(kinds) = &changes.kinds {
        bytes += kinds.len();
    }
    Ok(bytes as u64)
}
