//! Changes to the bytes of one extent and back: pure kernels.
//!
//! An extent is one Arrow IPC record batch, compressed as one block: the table's columns, then
//! whichever of `_kind`, `_mask`, `_column_scus` is not the same for all rows; behind it the SCU
//! numbers, packed, if they are not. A header of 16 bytes says which, and holds what is. The bytes:
//! `docs/formats/segment-extent.md`.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch, UInt8Array, UInt64Array};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, UInt8Type, UInt64Type};
use arrow::error::ArrowError;
use arrow::ipc::MetadataVersion;
use arrow::ipc::reader::RecordBatchDecoder;
use arrow::ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use bytes::Bytes;
use lazybase_model::change::StoredKind;
use lazybase_model::{Error, Result};

use super::key_filter;
use super::le::{Front, put_u32, put_u64};
use super::packed;
use super::parquet_format::write::EncodedGroup;
use crate::change_batch::{ChangeBatch, Kinds, Scus, masks};
use crate::ipc::{check_body, check_columns, lz4_raw_bytes_max};
use crate::key::Keys;

/// How an extent is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Codec {
    /// Not at all.
    None,
    /// One LZ4 block.
    #[default]
    Lz4,
    /// One zstd frame of level 1.
    Zstd,
}

impl Codec {
    fn bits(self) -> u8 {
        match self {
            Codec::None => 0,
            Codec::Lz4 => 1,
            Codec::Zstd => 2,
        }
    }
}

const HAS_KINDS: u8 = 1;
const HAS_MASKS: u8 = 2;
/// In extents of versions 1 and 2: later ones have SCU numbers packed.
const HAS_SCUS: u8 = 4;
const HAS_COLUMN_SCUS: u8 = 8;
/// Which hidden columns there are.
const HIDDEN: u8 = HAS_KINDS | HAS_MASKS | HAS_SCUS | HAS_COLUMN_SCUS;
/// How wide `_scu` is: 0 for SCU numbers of 8 bytes, else distances of 1, 2 or 4 bytes from the SCU
/// in the header.
const SCU_WIDTH: u8 = 0x30;
const SCU_WIDTH_SHIFT: u8 = 4;
const FLAGS: u8 = HIDDEN | SCU_WIDTH;

/// The bytes before the compressed block.
pub const EXTENT_HEADER_BYTES: usize = 16;
/// Where the record batch's metadata begins in the uncompressed block; its body is aligned alike.
const BODY_ALIGNMENT: usize = 16;

/// One extent as it is stored, with what the index says about it: enough to copy it to another
/// segment without decoding.
#[derive(Debug, Clone)]
pub struct EncodedExtent {
    /// The least encoded key.
    pub min_key: Bytes,
    /// The greatest encoded key.
    pub max_key: Bytes,
    /// Its stored rows.
    pub rows: u32,
    /// The bytes of its rows before compression.
    pub raw_len: u32,
    /// CRC-32C of `stored`.
    pub crc32c: u32,
    /// The newest SCU of its rows.
    pub newest_scu: u64,
    /// Whether every row is a whole-row upsert.
    pub all_upserts: bool,
    /// The filter over its keys.
    pub filter: Bytes,
    /// The extent's bytes in the file; empty for a Parquet row group.
    pub stored: Bytes,
    /// The row group, if it is one.
    pub(super) group: Option<Arc<EncodedGroup>>,
}

fn arrow_internal(error: ArrowError) -> Error {
    Error::internal(format!("an extent can't be encoded: {error}"))
}

fn arrow_corrupt(error: ArrowError) -> Error {
    Error::corrupt(format!("an extent can't be decoded: {error}"))
}

/// Whether a type is stored trimmed to a slice: view types only at the top, where they are
/// compacted first.
pub(super) fn is_storable(data_type: &DataType, nested: bool) -> bool {
    match data_type {
        DataType::Dictionary(..)
        | DataType::RunEndEncoded(..)
        | DataType::Union(..)
        | DataType::ListView(_)
        | DataType::LargeListView(_) => false,
        DataType::Utf8View | DataType::BinaryView => !nested,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => is_storable(field.data_type(), true),
        DataType::Struct(fields) => fields.iter().all(|f| is_storable(f.data_type(), true)),
        _ => true,
    }
}

fn is_view(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8View | DataType::BinaryView)
}

/// The array with only the bytes that it uses.
fn compacted(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        _ => Arc::clone(array),
    }
}

/// The columns of an extent with these flags: the table's, then what differs from row to row.
fn stored_schema(schema: &SchemaRef, flags: u8) -> SchemaRef {
    if flags & HIDDEN == 0 {
        return Arc::clone(schema);
    }
    let mut fields: Vec<FieldRef> = schema.fields().iter().cloned().collect();
    let optional = [
        (HAS_KINDS, "_kind", DataType::UInt8, false),
        (HAS_MASKS, "_mask", DataType::Binary, true),
        (HAS_SCUS, "_scu", scu_type(flags), false),
        (HAS_COLUMN_SCUS, "_column_scus", DataType::Binary, true),
    ];
    for (flag, name, data_type, nullable) in optional {
        if flags & flag != 0 {
            fields.push(Arc::new(Field::new(name, data_type, nullable)));
        }
    }
    Arc::new(Schema::new(fields))
}

/// The type of the column `_scu`.
fn scu_type(flags: u8) -> DataType {
    match (flags & SCU_WIDTH) >> SCU_WIDTH_SHIFT {
        0 => DataType::UInt64,
        1 => DataType::UInt8,
        2 => DataType::UInt16,
        _ => DataType::UInt32,
    }
}

/// The SCU numbers of a stored column `_scu`; `newest` is the SCU in the header.
fn scus_of(column: &ArrayRef, flags: u8, newest: u64) -> Result<UInt64Array> {
    if flags & SCU_WIDTH == 0 {
        return Ok(column.as_primitive::<UInt64Type>().clone());
    }
    let far = arrow::compute::cast(column, &DataType::UInt64).map_err(arrow_corrupt)?;
    scus_before(newest, far.as_primitive::<UInt64Type>().values())
}

/// The SCU numbers that lie so far before the newest.
fn scus_before(newest: u64, distances: &[u64]) -> Result<UInt64Array> {
    let scus = distances.iter().map(|far| newest.checked_sub(*far));
    let scus: Option<Vec<u64>> = scus.collect();
    let scus = scus.ok_or_else(|| Error::corrupt("a row's SCU lies before the first"))?;
    Ok(UInt64Array::from(scus))
}

/// Encodes extents of one layout, reusing its scratch space.
pub struct ExtentEncoder {
    schema: SchemaRef,
    codec: Codec,
    /// Compressed bytes are kept if they are less than this part of the raw ones.
    worth: (usize, usize),
    schemas: [Option<SchemaRef>; 16],
    has_views: bool,
    options: IpcWriteOptions,
    context: IpcWriteContext,
    raw: Vec<u8>,
    compressed: Vec<u8>,
    zstd: Option<zstd::bulk::Compressor<'static>>,
}

impl std::fmt::Debug for ExtentEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExtentEncoder")
            .field("codec", &self.codec)
            .finish_non_exhaustive()
    }
}

impl ExtentEncoder {
    /// An encoder of rows with the columns `schema`.
    ///
    /// # Errors
    /// `Internal` when a column's type is one that is cast away when changes are accepted.
    pub fn new(schema: &SchemaRef, codec: Codec) -> Result<ExtentEncoder> {
        let strange = schema
            .fields()
            .iter()
            .find(|f| !is_storable(f.data_type(), false));
        if let Some(field) = strange {
            return Err(Error::internal(format!(
                "column {:?} of type {} can't be stored",
                field.name(),
                field.data_type()
            )));
        }
        let sixteen = |field: &FieldRef| field.data_type().primitive_width() == Some(16);
        let alignment = if schema.fields().iter().any(sixteen) {
            16
        } else {
            8
        };
        let options = IpcWriteOptions::try_new(alignment, false, MetadataVersion::V5);
        let zstd = match codec {
            Codec::Zstd => Some(zstd::bulk::Compressor::new(1).map_err(zstd_error)?),
            _ => None,
        };
        Ok(ExtentEncoder {
            schema: Arc::clone(schema),
            codec,
            worth: (1, 1),
            schemas: std::array::from_fn(|_| None),
            has_views: schema.fields().iter().any(|f| is_view(f.data_type())),
            options: options.map_err(arrow_internal)?,
            context: IpcWriteContext::default(),
            raw: Vec::new(),
            compressed: Vec::new(),
            zstd,
        })
    }

    /// The rows `first..first + rows.rows()` of a batch as an extent; `keys` are the keys of all
    /// rows of that batch, of which `rows` is the slice.
    ///
    /// # Errors
    /// `Internal` when the rows are not of the encoder's schema, or break an invariant of
    /// [`ChangeBatch`].
    pub fn encode(
        &mut self,
        rows: &ChangeBatch,
        keys: &Keys,
        first: usize,
    ) -> Result<EncodedExtent> {
        let count = rows.rows();
        let (stored, raw_len) = self.encode_rows(rows)?;
        let key = |row: usize| keys.row(row).data();
        let hashes: Vec<u64> = (first..first + count)
            .map(|row| key_filter::key_hash(key(row)))
            .collect();
        Ok(EncodedExtent {
            min_key: Bytes::copy_from_slice(key(first)),
            max_key: Bytes::copy_from_slice(key(first + count - 1)),
            rows: count as u32,
            raw_len,
            crc32c: crc32c::crc32c(&stored),
            newest_scu: newest_scu(rows),
            all_upserts: rows.all_upserts(),
            filter: key_filter::build(&hashes).into(),
            stored,
            group: None,
        })
    }

    /// The stored bytes of an extent of these rows, and their length before compression.
    ///
    /// # Errors
    /// As [`ExtentEncoder::encode`].
    pub fn encode_rows(&mut self, rows: &ChangeBatch) -> Result<(Bytes, u32)> {
        check_rows(rows, self.schema.fields().len(), Error::internal)?;
        let (flags, kind, batch) = self.record_batch(rows)?;
        let mut tracker = DictionaryTracker::new(true);
        let (_, data) = IpcDataGenerator::default()
            .encode(&batch, &mut tracker, &self.options, &mut self.context)
            .map_err(arrow_internal)?;
        let raw = &mut self.raw;
        raw.clear();
        put_u32(raw, data.ipc_message.len() as u32);
        raw.extend_from_slice(&data.ipc_message);
        raw.resize(raw.len().next_multiple_of(BODY_ALIGNMENT), 0);
        raw.extend_from_slice(&data.arrow_data);
        let (packing, scu) = match uniform_scu(&rows.scus) {
            Ok(scu) => (0, scu),
            Err(scus) => packed::pack(scus.values(), raw),
        };
        let raw_len = u32::try_from(raw.len())
            .map_err(|_| Error::invalid("rows of one extent take more than 4 GiB"))?;
        let (codec, block) = self.compress()?;
        let mut out = Vec::with_capacity(EXTENT_HEADER_BYTES + block.len());
        out.extend_from_slice(&[codec.bits(), flags, kind.bits(), packing]);
        put_u32(&mut out, raw_len);
        put_u64(&mut out, scu);
        out.extend_from_slice(block);
        Ok((out.into(), raw_len))
    }

    /// The rows as one record batch, with its flags and the kind that is uniform.
    fn record_batch(&mut self, rows: &ChangeBatch) -> Result<(u8, StoredKind, RecordBatch)> {
        let mut columns: Vec<ArrayRef> = match self.has_views {
            true => rows.data.columns().iter().map(compacted).collect(),
            false => rows.data.columns().to_vec(),
        };
        let mut flags = 0;
        let mut add = |flag: u8, column: ArrayRef| {
            flags |= flag;
            columns.push(column);
        };
        let kind = match uniform_kind(&rows.kinds) {
            Ok(kind) => kind,
            Err(kinds) => {
                add(HAS_KINDS, Arc::new(kinds.clone()));
                StoredKind::DELETE
            }
        };
        if let Some(masks) = present(&rows.masks) {
            add(HAS_MASKS, Arc::new(masks.clone()));
        }
        if let Some(column_scus) = present(&rows.column_scus) {
            add(HAS_COLUMN_SCUS, Arc::new(column_scus.clone()));
        }
        let schema = self.schemas[usize::from(flags)]
            .get_or_insert_with(|| stored_schema(&self.schema, flags));
        let batch = RecordBatch::try_new(Arc::clone(schema), columns).map_err(arrow_internal)?;
        Ok((flags, kind, batch))
    }

    /// The encoder takes raw bytes unless compression saves at least a third: for rows that are
    /// read by key, a whole extent for one row.
    pub(super) fn for_reads_by_key(self) -> ExtentEncoder {
        ExtentEncoder {
            worth: (2, 3),
            ..self
        }
    }

    /// The raw bytes compressed, if that makes them short enough.
    fn compress(&mut self) -> Result<(Codec, &[u8])> {
        let length = match self.codec {
            Codec::None => return Ok((Codec::None, &self.raw)),
            Codec::Lz4 => {
                let bound = lz4_flex::block::get_maximum_output_size(self.raw.len());
                self.compressed.resize(bound.max(self.compressed.len()), 0);
                lz4_flex::block::compress_into(&self.raw, &mut self.compressed)
                    .map_err(|error| Error::internal(format!("LZ4: {error}")))?
            }
            Codec::Zstd => {
                let bound = zstd::zstd_safe::compress_bound(self.raw.len());
                self.compressed.resize(bound.max(self.compressed.len()), 0);
                let compressor = self.zstd.as_mut().expect("made with a zstd encoder");
                compressor
                    .compress_to_buffer(&self.raw, &mut self.compressed[..])
                    .map_err(zstd_error)?
            }
        };
        let (part, of) = self.worth;
        match of * length < part * self.raw.len() {
            true => Ok((self.codec, &self.compressed[..length])),
            false => Ok((Codec::None, &self.raw)),
        }
    }
}

fn zstd_error(error: std::io::Error) -> Error {
    Error::internal(format!("zstd: {error}"))
}

/// The kind of all rows, or one a row where they differ.
fn uniform_kind(kinds: &Kinds) -> Result<StoredKind, &UInt8Array> {
    match kinds {
        Kinds::Uniform(kind) => Ok(*kind),
        Kinds::Each(kinds) => {
            let values = kinds.values();
            match values.iter().all(|kind| *kind == values[0]) {
                true => Ok(StoredKind::from_checked(values[0])),
                false => Err(kinds),
            }
        }
    }
}

fn uniform_scu(scus: &Scus) -> Result<u64, &UInt64Array> {
    match scus {
        Scus::Uniform(scu) => Ok(*scu),
        Scus::Each(scus) => {
            let values = scus.values();
            match values.iter().all(|scu| *scu == values[0]) {
                true => Ok(values[0]),
                false => Err(scus),
            }
        }
    }
}

fn present(column: &Option<BinaryArray>) -> Option<&BinaryArray> {
    column.as_ref().filter(|c| c.null_count() < c.len())
}

/// The newest SCU of any row.
pub(super) fn newest_scu(rows: &ChangeBatch) -> u64 {
    match &rows.scus {
        Scus::Uniform(scu) => *scu,
        Scus::Each(scus) => scus.values().iter().copied().max().unwrap_or(0),
    }
}

/// Invariants CB-1 and CB-2, valid kinds, and lengths that agree; `wrong` makes the error.
pub(super) fn check_rows(
    rows: &ChangeBatch,
    columns: usize,
    wrong: fn(String) -> Error,
) -> Result<()> {
    let count = rows.rows();
    let optional = [&rows.masks, &rows.column_scus];
    let lengths = optional.into_iter().flatten().all(|c| c.len() == count)
        && !matches!(&rows.kinds, Kinds::Each(k) if k.len() != count || k.null_count() > 0)
        && !matches!(&rows.scus, Scus::Each(s) if s.len() != count || s.null_count() > 0);
    if count == 0 || !lengths {
        return Err(wrong(format!(
            "{count} rows, and hidden columns of another length"
        )));
    }
    let masked = |kind: StoredKind| kind.keeps_row() && !kind.is_split();
    if let Kinds::Uniform(kind) = &rows.kinds
        && !masked(*kind)
        && !kind.is_split()
        && present(&rows.masks).is_none()
    {
        return Ok(());
    }
    let mut after_split = false;
    for row in 0..count {
        let byte = match &rows.kinds {
            Kinds::Uniform(kind) => kind.bits(),
            Kinds::Each(kinds) => kinds.value(row),
        };
        let kind = StoredKind::try_from(byte).map_err(|error| wrong(error.to_string()))?;
        let mask = rows.masks.as_ref().filter(|masks| masks.is_valid(row));
        if mask.is_some() != masked(kind) {
            return Err(wrong(format!(
                "row {row} of kind {byte}: mask and kind disagree"
            )));
        }
        if mask.is_some_and(|masks| !masks::fits(masks.value(row), columns)) {
            return Err(wrong(format!("row {row}: a mask of another length")));
        }
        if after_split && kind != StoredKind::UPDATE {
            return Err(wrong(format!("row {row}: a split pair is torn")));
        }
        after_split = kind.is_split();
    }
    match after_split {
        true => Err(wrong("the last row is half a split pair".to_owned())),
        false => Ok(()),
    }
}

/// Decodes an extent whose checksum was verified. With a `projection`, only those columns, in its
/// order, are decoded; masks and column SCUs still speak of all columns of the table.
///
/// # Errors
/// `Corrupt` when the bytes are not an extent of this schema.
pub fn decode_extent(
    stored: &[u8],
    schema: &SchemaRef,
    projection: Option<&[usize]>,
) -> Result<ChangeBatch> {
    let mut front = Front(stored);
    let head = front.take(4)?;
    let (codec, flags, kind, packing) = (head[0], head[1], head[2], head[3]);
    let raw_len = front.length()?;
    let scu = front.u64()?;
    if flags & !FLAGS != 0 {
        return Err(Error::corrupt(format!(
            "unknown flags {flags:#04x} of an extent"
        )));
    }
    let kind = StoredKind::try_from(kind).map_err(|error| Error::corrupt(error.to_string()))?;
    let raw = decompress(codec, front.0, raw_len)?;
    let (rows, behind) = decode_record_batch(&raw, schema, flags, projection)?;
    let width = projection.map_or(schema.fields().len(), <[usize]>::len);
    let mut rows = from_record_batch(rows, width, flags, kind, scu)?;
    if packing != 0 {
        let distances = packed::unpack(packing, rows.rows(), &behind)?;
        rows.scus = Scus::Each(scus_before(scu, &distances)?);
    }
    check_rows(&rows, schema.fields().len(), Error::corrupt)?;
    Ok(rows)
}

fn decompress(codec: u8, block: &[u8], raw_len: usize) -> Result<Buffer> {
    let plausible = match codec {
        0 => block.len() == raw_len,
        1 => raw_len <= lz4_raw_bytes_max(block.len()),
        _ => zstd::zstd_safe::get_frame_content_size(block)
            .is_ok_and(|size| size.is_none_or(|size| size == raw_len as u64)),
    };
    if !plausible {
        return Err(Error::corrupt(
            "an extent's length is not that of its block",
        ));
    }
    // Into memory that nothing was written to before.
    let raw = match codec {
        0 => block.to_vec(),
        1 => lz4_flex::block::decompress(block, raw_len)
            .map_err(|error| Error::corrupt(format!("an extent's LZ4 block: {error}")))?,
        2 => zstd::bulk::decompress(block, raw_len)
            .map_err(|error| Error::corrupt(format!("an extent's zstd frame: {error}")))?,
        _ => return Err(Error::corrupt(format!("codec {codec} of an extent"))),
    };
    match raw.len() == raw_len {
        true => Ok(Buffer::from_vec(raw)),
        false => Err(Error::corrupt(
            "an extent's rows are shorter than its header says",
        )),
    }
}

/// The record batch of an extent, and the bytes behind it.
fn decode_record_batch(
    raw: &Buffer,
    schema: &SchemaRef,
    flags: u8,
    projection: Option<&[usize]>,
) -> Result<(RecordBatch, Buffer)> {
    let mut front = Front(raw);
    let length = front.length()?;
    let metadata = front.take(length)?;
    let rest = raw.slice((4 + length).next_multiple_of(BODY_ALIGNMENT).min(raw.len()));
    let message = arrow::ipc::root_as_message(metadata)
        .map_err(|error| Error::corrupt(format!("an extent's metadata: {error}")))?;
    let body_bytes = usize::try_from(message.bodyLength()).ok();
    let body_bytes = body_bytes
        .filter(|bytes| *bytes <= rest.len())
        .ok_or_else(|| Error::corrupt("an extent ends within its record batch"))?;
    let (body, behind) = (
        rest.slice_with_length(0, body_bytes),
        rest.slice(body_bytes),
    );
    let batch = message
        .header_as_record_batch()
        .ok_or_else(|| Error::corrupt("an extent's metadata is of no record batch"))?;
    let stored = stored_schema(schema, flags);
    check_body(&batch, body.len())
        .and_then(|()| check_columns(&batch, &stored))
        .map_err(arrow_corrupt)?;
    let width = schema.fields().len();
    let system = width..width + (flags & HIDDEN).count_ones() as usize;
    let wanted: Option<Vec<usize>> =
        projection.map(|columns| columns.iter().copied().chain(system).collect());
    let dictionaries = HashMap::new();
    RecordBatchDecoder::try_new(&body, batch, stored, &dictionaries, &message.version())
        .and_then(|decoder| {
            decoder
                .with_projection(wanted.as_deref())
                .read_record_batch()
        })
        .map(|rows| (rows, behind))
        .map_err(arrow_corrupt)
}

/// Splits the record batch of an extent into data and hidden columns.
fn from_record_batch(
    rows: RecordBatch,
    width: usize,
    flags: u8,
    kind: StoredKind,
    scu: u64,
) -> Result<ChangeBatch> {
    if flags & HIDDEN == 0 {
        return Ok(ChangeBatch {
            kinds: Kinds::Uniform(kind),
            ..ChangeBatch::upserts(rows, scu)
        });
    }
    let data_columns: Vec<usize> = (0..width).collect();
    let data = rows.project(&data_columns).map_err(arrow_corrupt)?;
    let mut hidden = rows.columns()[width..].iter();
    let mut next = |flag: u8| match flags & flag != 0 {
        true => hidden.next(),
        false => None,
    };
    Ok(ChangeBatch {
        data,
        kinds: match next(HAS_KINDS) {
            Some(kinds) => Kinds::Each(kinds.as_primitive::<UInt8Type>().clone()),
            None => Kinds::Uniform(kind),
        },
        masks: next(HAS_MASKS).map(|masks| masks.as_binary::<i32>().clone()),
        scus: match next(HAS_SCUS) {
            Some(scus) => Scus::Each(scus_of(scus, flags, scu)?),
            None => Scus::Uniform(scu),
        },
        column_scus: next(HAS_COLUMN_SCUS).map(|scus| scus.as_binary::<i32>().clone()),
    })
}
