//! Segments: immutable files of sorted rows, made of extents that are read or skipped whole
//! (section 3.8 of the paper).
//!
//! Two formats behind one reader: extents of whole rows for what is rewritten soon, and tuned
//! Parquet for the authority. The index of either part is small and held in memory: least and
//! greatest key, rows, place and checksums of each extent, and a filter over the keys.
//!
//! ```text
//!   ChangeBatch --cut--> encode --> SegmentWriter --> segments/{name}.ext | .parquet
//!                                                          |
//!   ChangeBatch <------ decode <-- Segment (index) <-------+     SegmentCache keeps both
//! ```
//!
//! Invariant SEG-1: no byte is acted on before its checksum was verified after its load from the
//! store. Invariant SEG-2: extents of a segment are in key order and disjoint, except that a key's
//! rows never straddle two extents.

use std::sync::{Arc, OnceLock};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use lazybase_model::table::{Column, Table};
use lazybase_model::{Error, Result, SchemaVersion};

use crate::key::KeyCodec;
use crate::stages::ingest::BatchSchemas;
use crate::stages::merge::{Operators, operators_of};

mod alone;
pub mod cache;
mod cut;
mod describe;
pub mod encode;
pub mod extent_format;
pub mod extent_index;
pub mod key_filter;
mod le;
mod packed;
pub mod parquet_format;
pub mod reader;
mod row_page;
pub mod verify;
pub mod writer;

#[cfg(test)]
mod tests;

pub use alone::verify_alone;
pub use cache::{CacheUsage, DecodedExtent, FoundRows, Lent, ReadCounters, SegmentCache};
pub use describe::{describe_extents, describe_parquet};
pub use encode::{Codec, EncodedExtent};
pub use extent_index::{ExtentIndex, ExtentInfo};
pub use key_filter::key_hash;
pub use reader::{Part, Segment};
pub use row_page::{Cell, PackedRow};
pub use verify::verify_segment;
pub use writer::{SegmentWriter, WriteOptions};

/// Whether every stage can keep a column: extents, and the authority's Parquet, which comes later
/// and must not fail then.
///
/// # Errors
/// `Invalid` (0A000) for types that one of the formats lacks.
pub fn check_storable(column: &Column) -> Result<()> {
    let stored = column.stored_type();
    let field = Arc::new(Field::new(&column.name, stored, column.nullable));
    let lacks = match encode::is_storable(field.data_type(), false) {
        true => parquet_format::refused(&field),
        false => Some("values of it are cast when they come in".to_owned()),
    };
    match lacks {
        None => Ok(()),
        Some(why) => Err(Error::invalid(format!(
            "column {:?}: type {} can't be stored",
            column.name, column.data_type
        ))
        .with_detail(why)
        .with_sqlstate("0A000")),
    }
}

/// What is needed to read or write rows of one view: its schema and key.
#[derive(Debug)]
pub struct RowLayout {
    /// The table, for messages and settings.
    pub table: Arc<Table>,
    /// The columns as stored: the table's, all nullable but the key, sums in 128 bits.
    pub schema: SchemaRef,
    /// The columns as the table declares them: what readers are given.
    pub declared: SchemaRef,
    /// The view's key.
    pub codec: KeyCodec,
    /// The table's earlier definitions, under which log frames that are read may be written.
    pub older: Vec<Arc<Table>>,
    /// The columns' merge operators.
    pub operators: Operators,
    /// The columns of the table's batches, once somebody has read one.
    batches: OnceLock<BatchSchemas>,
    /// What files say of their rows, once somebody has asked.
    described: OnceLock<Vec<u8>>,
}

impl RowLayout {
    /// The layout of a table's primary view: all its columns, all nullable but the key's. Of a
    /// secondary view, the sort columns are nullable where the table's are.
    ///
    /// # Errors
    /// `Invalid` when a key column's type has no order.
    pub fn primary(table: &Arc<Table>) -> Result<RowLayout> {
        RowLayout::after(table, Vec::new())
    }

    /// The same, of a table that had these definitions before.
    ///
    /// # Errors
    /// As [`RowLayout::primary`].
    pub fn after(table: &Arc<Table>, older: Vec<Arc<Table>>) -> Result<RowLayout> {
        let codec = KeyCodec::primary(table)?;
        let field = |(at, column): (usize, &lazybase_model::table::Column)| {
            let in_key = codec.indices().contains(&at);
            let nullable = !in_key || column.nullable;
            Field::new(&column.name, column.stored_type(), nullable)
        };
        let fields: Vec<Field> = table.columns.iter().enumerate().map(field).collect();
        Ok(RowLayout {
            table: Arc::clone(table),
            schema: Arc::new(Schema::new(fields)),
            declared: table.arrow_schema(),
            operators: operators_of(table.columns.iter().map(|column| column.merge)),
            codec,
            older,
            batches: OnceLock::new(),
            described: OnceLock::new(),
        })
    }

    /// The columns of batches that were written under the table's definition.
    pub(crate) fn batch_schemas(&self) -> &BatchSchemas {
        self.batches.get_or_init(|| BatchSchemas::of(&self.table))
    }

    /// The table's definition of a version.
    ///
    /// # Errors
    /// `Corrupt` when it is not known: rows of it can't be read.
    pub fn definition(&self, version: SchemaVersion) -> Result<&Arc<Table>> {
        let mut known = std::iter::once(&self.table).chain(&self.older);
        known.find(|table| table.version == version).ok_or_else(|| {
            let name = &self.table.name;
            Error::corrupt(format!("table {name:?} had no version {}", version.0))
        })
    }

    /// The type of the column at `index`.
    fn data_type(&self, index: usize) -> &DataType {
        self.schema.field(index).data_type()
    }
}
