//! Segments in words, from their bytes alone: what can be said without the manifest.

use bytes::Bytes;
use lazybase_model::{Error, Result};
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::extent_format;

/// An extent file: its columns, and each extent's keys, rows and place. The index is read as it
/// stands.
///
/// # Errors
/// `Corrupt` when the bytes are not an extent file.
pub fn describe_extents(name: &str, bytes: &Bytes) -> Result<String> {
    let (rows_of, index, _) =
        extent_format::open_alone(bytes).map_err(|error| error.within(name))?;
    let rows_of = String::from_utf8_lossy(&rows_of);
    let mut text = format!("extent segment, {} bytes\nrows of {rows_of}\n", bytes.len());
    for (at, extent) in index.iter().enumerate() {
        text += &format!(
            "extent {at}: {} rows, {} bytes stored of {} at {}, keys {} to {}{}\n",
            extent.rows,
            extent.stored_len,
            extent.raw_len,
            extent.offset,
            hexadecimal(extent.min_key),
            hexadecimal(extent.max_key),
            if extent.all_upserts {
                ""
            } else {
                ", with other changes than whole rows"
            },
        );
    }
    Ok(text)
}

/// A Parquet segment: its schema and row groups.
///
/// # Errors
/// `Corrupt` when the bytes are not a Parquet file.
pub fn describe_parquet(name: &str, bytes: &Bytes) -> Result<String> {
    let not_parquet = |error| Error::corrupt(format!("{name}: {error}"));
    let reader = SerializedFileReader::new(bytes.clone()).map_err(not_parquet)?;
    let metadata = reader.metadata();
    let mut text = format!(
        "Parquet segment, {} bytes, {} rows in {} row groups\n",
        bytes.len(),
        metadata.file_metadata().num_rows(),
        metadata.num_row_groups()
    );
    for column in metadata.file_metadata().schema_descr().columns() {
        text += &format!("column {}: {}\n", column.path(), column.physical_type());
    }
    for (at, group) in metadata.row_groups().iter().enumerate() {
        text += &format!(
            "row group {at}: {} rows, {} bytes stored of {}\n",
            group.num_rows(),
            group.compressed_size(),
            group.total_byte_size()
        );
    }
    Ok(text)
}

fn hexadecimal(key: &[u8]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}
