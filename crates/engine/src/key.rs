//! Keys: the columns a view is sorted by, encoded so that comparing bytes compares keys.
//!
//! The encoding is that of `arrow-row`, over normalised cells: negative zero is zero and every NaN
//! is the one positive quiet NaN, so that equal values have equal keys. It is persisted (extent
//! indexes, manifests): `docs/formats/key.md` describes it and a golden test pins its bytes.

use std::fmt;
use std::sync::Arc;

pub use partition::{PartitionId, Partitioner, combinations};

use numbers::NumberKeys;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type, SchemaRef};
use arrow_row::{RowConverter, Rows, SortField};
use lazybase_model::table::Table;
use lazybase_model::{Error, Result};
use serde::{Deserialize, Serialize};

mod numbers;
mod partition;
#[cfg(test)]
mod tests;

/// An encoded key: bytes whose order is the order of keys. Written as hexadecimal digits where
/// formats are text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<[u8]>);

impl Key {
    /// A key of these encoded bytes.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Key {
        Key(bytes.into())
    }

    /// The least key after these encoded bytes.
    pub fn after(bytes: &[u8]) -> Key {
        Key::new([bytes, &[0]].concat())
    }

    /// The encoded bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Serialize for Key {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{self:?}"))
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let digits = String::deserialize(deserializer)?;
        if digits.len() % 2 != 0 || !digits.is_ascii() {
            return Err(D::Error::custom(
                "a key is an even number of hexadecimal digits",
            ));
        }
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16);
        let bytes: Result<Vec<u8>, _> = (0..digits.len()).step_by(2).map(byte).collect();
        bytes.map(Key::new).map_err(D::Error::custom)
    }
}

/// Whether values of a type have an order, so that they can be a key. A month is no number of days:
/// intervals have none.
pub fn has_order(data_type: &DataType) -> bool {
    !data_type.is_nested() && !matches!(data_type, DataType::Interval(_))
}

/// The encoded keys of a batch's rows, in the order of its rows.
pub type Keys = Rows;

/// Encodes and decodes the keys of one view.
#[derive(Debug)]
pub struct KeyCodec {
    converter: RowConverter,
    indices: Vec<usize>,
    types: Vec<DataType>,
    partitioner: Option<Arc<Partitioner>>,
}

impl KeyCodec {
    /// The codec of a table's primary key.
    ///
    /// # Errors
    /// `Invalid` when a key column's type has no order (lists, structs, maps, intervals).
    pub fn primary(table: &Table) -> Result<KeyCodec> {
        let partitioner = Partitioner::of(table)?.map(Arc::new);
        let column = |index: usize| {
            let column = &table.columns[index];
            (column.name.as_str(), column.data_type.clone())
        };
        KeyCodec::of(column, table.key_indices(), partitioner)
    }

    /// The codec of the key made of the columns `indices` of `schema`, most significant first.
    ///
    /// # Errors
    /// `Invalid` when a key column's type has no order.
    pub fn new(schema: &SchemaRef, indices: Vec<usize>) -> Result<KeyCodec> {
        KeyCodec::partitioned(schema, indices, None)
    }

    /// The same, of keys that begin with their partition.
    ///
    /// # Errors
    /// As [`KeyCodec::new`].
    pub fn partitioned(
        schema: &SchemaRef,
        indices: Vec<usize>,
        partitioner: Option<Arc<Partitioner>>,
    ) -> Result<KeyCodec> {
        let column = |index: usize| {
            let field = schema.field(index);
            (field.name().as_str(), field.data_type().clone())
        };
        KeyCodec::of(column, indices, partitioner)
    }

    /// The codec of columns of which `column` tells the name and the type.
    fn of<'c>(
        column: impl Fn(usize) -> (&'c str, DataType),
        indices: Vec<usize>,
        partitioner: Option<Arc<Partitioner>>,
    ) -> Result<KeyCodec> {
        let types: Vec<DataType> = indices.iter().map(|index| column(*index).1).collect();
        if let Some(at) = types.iter().position(|data_type| !has_order(data_type)) {
            let (name, _) = column(indices[at]);
            return Err(
                Error::invalid(format!("column {name:?} can't be part of a key"))
                    .with_detail(format!("values of type {} have no order", types[at]))
                    .with_hint("keys are made of anything but lists, structs and intervals")
                    .with_sqlstate("42P16"),
            );
        }
        let prefix = partitioner
            .as_ref()
            .map(|partitioner| partitioner.data_type());
        let fields = prefix
            .into_iter()
            .chain(types.iter().cloned())
            .map(SortField::new)
            .collect();
        let converter = RowConverter::new(fields).map_err(encoding)?;
        Ok(KeyCodec {
            converter,
            indices,
            types,
            partitioner,
        })
    }

    /// What tells the partition of a row, where the table has partitions.
    pub fn partitioner(&self) -> Option<&Arc<Partitioner>> {
        self.partitioner.as_ref()
    }

    /// The positions of the key's columns in the table's schema, most significant first.
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }

    /// The types of the key's columns, most significant first.
    pub fn types(&self) -> &[DataType] {
        &self.types
    }

    /// Whether encoded keys all have one short length (at most 16 bytes), and which: then the
    /// first 16 bytes decide every comparison.
    pub fn fixed_length(&self) -> Option<usize> {
        let lengths: Option<Vec<usize>> = self
            .types
            .iter()
            .map(|t| t.primitive_width().map(|width| width + 1))
            .collect();
        let prefix = self.partitioner.as_ref().map_or(0, |p| p.prefix_bytes());
        lengths
            .map(|lengths| lengths.iter().sum::<usize>() + prefix)
            .filter(|length| *length <= 16)
    }

    /// The keys of rows whose columns stand as in the table's schema.
    ///
    /// # Errors
    /// `Internal` when the columns are not of the codec's types.
    pub fn encode(&self, rows: &RecordBatch) -> Result<Keys> {
        let columns: Vec<ArrayRef> = self
            .indices
            .iter()
            .map(|index| rows.column(*index).clone())
            .collect();
        self.encode_columns(&columns)
    }

    /// The keys of rows to be looked at one by one; `None` where they are made of more than whole
    /// numbers.
    pub(crate) fn numbers(&self, rows: &RecordBatch) -> Option<NumberKeys> {
        if self.partitioner.is_some() {
            return None;
        }
        let columns = self.indices.iter().zip(&self.types);
        let columns = columns.map(|(index, data_type)| {
            let column = rows.columns().get(*index)?;
            (column.data_type() == data_type).then_some(column)
        });
        NumberKeys::of(&columns.collect::<Option<Vec<&ArrayRef>>>()?)
    }

    /// The keys made of `columns`, which stand in the order of the key.
    ///
    /// # Errors
    /// `Internal` when the columns are not of the codec's types.
    pub fn encode_columns(&self, columns: &[ArrayRef]) -> Result<Keys> {
        let mut columns: Vec<ArrayRef> = columns.iter().map(normalised).collect();
        if let Some(partitioner) = &self.partitioner {
            columns.insert(0, partitioner.prefixes(&columns)?);
        }
        self.converter.convert_columns(&columns).map_err(encoding)
    }

    /// The key that a whole number is, without arrays: what [`KeyCodec::encode_columns`] makes of
    /// it. `None` where more belongs to a key, or the column has no such number.
    pub fn integer(&self, value: i64) -> Option<Key> {
        let ([data_type], None) = (self.types.as_slice(), &self.partitioner) else {
            return None;
        };
        // A byte that says that there is a value; then the most significant byte first, its
        // highest bit turned where there are negative numbers.
        macro_rules! encoded {
            ($kind:ty, $turned:expr) => {{
                let value = <$kind>::try_from(value).ok()? ^ $turned;
                let mut bytes = [1; 1 + size_of::<$kind>()];
                bytes[1..].copy_from_slice(&value.to_be_bytes());
                Key::new(bytes.as_slice())
            }};
        }
        Some(match data_type {
            DataType::Int8 => encoded!(i8, i8::MIN),
            DataType::Int16 => encoded!(i16, i16::MIN),
            DataType::Int32 => encoded!(i32, i32::MIN),
            DataType::Int64 => encoded!(i64, i64::MIN),
            DataType::UInt8 => encoded!(u8, 0),
            DataType::UInt16 => encoded!(u16, 0),
            DataType::UInt32 => encoded!(u32, 0),
            DataType::UInt64 => encoded!(u64, 0),
            _ => return None,
        })
    }

    /// The key columns of encoded keys, in the order of the key.
    ///
    /// # Errors
    /// `Corrupt` when the bytes are not keys of this codec.
    pub fn decode<'k>(&self, keys: impl IntoIterator<Item = &'k Key>) -> Result<Vec<ArrayRef>> {
        self.decode_bytes(keys.into_iter().map(Key::as_bytes))
    }

    /// As [`KeyCodec::decode`], of the bytes of keys.
    ///
    /// # Errors
    /// As [`KeyCodec::decode`].
    pub fn decode_bytes<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]>,
    ) -> Result<Vec<ArrayRef>> {
        let parser = self.converter.parser();
        let rows: Vec<_> = keys.into_iter().map(|key| parser.parse(key)).collect();
        let mut columns = self
            .converter
            .convert_rows(rows)
            .map_err(|error| Error::corrupt(format!("a key can't be decoded: {error}")))?;
        if self.partitioner.is_some() {
            columns.remove(0);
        }
        Ok(columns)
    }
}

fn encoding(error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("a key can't be encoded: {error}"))
}

/// The column with one spelling for each value: no negative zero, one NaN.
pub(crate) fn normalised(column: &ArrayRef) -> ArrayRef {
    macro_rules! floats {
        ($kind:ty, $zero:expr, $nan:expr) => {{
            let values = column.as_primitive::<$kind>();
            Arc::new(values.unary::<_, $kind>(|value| match value {
                value if value == $zero => $zero,
                value if value.is_nan() => $nan,
                value => value,
            }))
        }};
    }
    match column.data_type() {
        DataType::Float16 => {
            let zero = <Float16Type as arrow::datatypes::ArrowPrimitiveType>::Native::ZERO;
            floats!(
                Float16Type,
                zero,
                arrow::datatypes::ArrowNativeTypeOp::div_wrapping(zero, zero)
            )
        }
        DataType::Float32 => floats!(Float32Type, 0.0, f32::NAN),
        DataType::Float64 => floats!(Float64Type, 0.0, f64::NAN),
        _ => Arc::clone(column),
    }
}
