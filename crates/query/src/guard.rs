//! Libraries that panic over damaged bytes: Arrow's and Parquet's readers of schemas do, whatever
//! stands in a file. A panic of theirs becomes an error of whoever reads the file.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What `read` gives; or the words of its panic. For readers that are thrown away with what they
/// had read when they panic.
///
/// # Errors
/// What the panic said.
pub fn unpanicked<T>(read: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(read)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        text.unwrap_or("its reader panics").to_owned()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, RecordBatch};
    use arrow::datatypes::{DataType, Field, Schema};
    use bytes::Bytes;
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};

    use super::unpanicked;

    /// A file whose footer says in Arrow's words what makes Arrow's reader panic.
    fn of_a_damaged_schema() -> Bytes {
        let schema = Schema::new(vec![Field::new("a", DataType::Int32, false)]);
        let column = Arc::new(Int32Array::from(vec![1]));
        let batch = RecordBatch::try_new(Arc::new(schema), vec![column]).unwrap();
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        // In base 64, so another character changes one of the schema's bytes: every character is
        // tried until the reader panics.
        let name = b"ARROW:schema";
        let at = file.windows(name.len()).position(|part| part == name);
        let at = at.unwrap() + name.len();
        for place in at..file.len() - 8 {
            for other in *b"ACEIQgkJ" {
                let mut damaged = file.clone();
                damaged[place] = other;
                let damaged = Bytes::from(damaged);
                let read = || ArrowReaderMetadata::load(&damaged, ArrowReaderOptions::new());
                if unpanicked(read).is_err() {
                    return damaged;
                }
            }
        }
        panic!("nothing that was tried makes the reader panic");
    }

    #[test]
    fn a_footer_that_makes_the_reader_panic_is_an_error() {
        let file = of_a_damaged_schema();
        let read = unpanicked(|| ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()));
        assert!(read.is_err());
        assert_eq!(unpanicked(|| 1), Ok(1));
    }
}
