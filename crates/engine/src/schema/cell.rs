//! One cell as bytes: the value of a column in rows that are older than the column.

use std::io::Cursor;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use lazybase_model::{CellBytes, Error, Result};

/// The only value of an array; `None` for NULL.
///
/// # Errors
/// `Internal` when there is another number of values, or Arrow has no stream form for the type.
pub fn encode_cell(value: &ArrayRef) -> Result<Option<CellBytes>> {
    if value.len() != 1 {
        let message = format!("{} values where one cell is kept", value.len());
        return Err(Error::internal(message));
    }
    if value.is_null(0) {
        return Ok(None);
    }
    let write = || -> Result<Vec<u8>, ArrowError> {
        let field = Field::new("", value.data_type().clone(), true);
        let schema = Arc::new(Schema::new(vec![field]));
        let cell = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(value)])?;
        let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
        writer.write(&cell)?;
        writer.into_inner()
    };
    let bytes = write().map_err(|error| Error::internal(format!("a cell: {error}")))?;
    Ok(Some(CellBytes(bytes)))
}

/// The value as an array of one.
///
/// # Errors
/// `Corrupt` when the bytes are no cell of that type.
pub fn decode_cell(cell: Option<&CellBytes>, data_type: &DataType) -> Result<ArrayRef> {
    let Some(CellBytes(bytes)) = cell else {
        return Ok(new_null_array(data_type, 1));
    };
    let wrong = |what: String| Error::corrupt(format!("a column's value for older rows: {what}"));
    let mut reader = StreamReader::try_new(Cursor::new(bytes), None)
        .map_err(|error| wrong(error.to_string()))?;
    let rows = reader.next().transpose();
    let rows = rows.map_err(|error| wrong(error.to_string()))?;
    match rows {
        Some(rows)
            if rows.num_rows() == 1
                && rows.num_columns() == 1
                && rows.column(0).data_type() == data_type =>
        {
            Ok(Arc::clone(rows.column(0)))
        }
        _ => Err(wrong(format!("not one cell of type {data_type}"))),
    }
}
