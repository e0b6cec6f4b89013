//! Batches of Arrow's stream format, a message at a time. Its lengths are what the sender says:
//! what is held grows with the bytes that have come, and not with what they promise.

use std::io::{BufRead, Read};

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::root_as_message;

use super::input::Input;

/// What stands before the length of a message.
const CONTINUES: [u8; 4] = [0xff; 4];
/// The end of a stream: a message without a length.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// A stream whose schema was read.
pub(super) struct ArrowStream {
    input: Input,
    schema: SchemaRef,
    decoder: StreamDecoder,
    /// What the decoder has not seen yet.
    message: Buffer,
    /// No message follows.
    over: bool,
}

impl ArrowStream {
    /// Reads the schema, which is the first message.
    pub(super) fn begin(mut input: Input) -> Result<ArrowStream, ArrowError> {
        let nothing = || ArrowError::IpcError("there is no schema".to_owned());
        let bytes = next_message(&mut input)?.ok_or_else(nothing)?;
        let message = root_as_message(&bytes.all[bytes.head..]).map_err(broken)?;
        let schema = fb_to_schema(message.header_as_schema().ok_or_else(nothing)?);
        Ok(ArrowStream {
            input,
            schema: schema.into(),
            decoder: StreamDecoder::new(),
            message: bytes.all.into(),
            over: false,
        })
    }

    /// The columns of all batches.
    pub(super) fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    /// What stands behind the last batch.
    pub(super) fn input(&mut self) -> &mut Input {
        &mut self.input
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        loop {
            // A message without a body is done with once the next one has come.
            if let Some(batch) = self.decoder.decode(&mut self.message)? {
                return Ok(Some(batch));
            }
            if self.over {
                return Ok(None);
            }
            self.message = match next_message(&mut self.input)? {
                Some(message) => message.all.into(),
                None => {
                    self.over = true;
                    Buffer::from(END.as_slice())
                }
            };
        }
    }
}

impl Iterator for ArrowStream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.next_batch();
        if batch.is_err() {
            self.over = true;
            self.message = Buffer::default();
        }
        batch.transpose()
    }
}

/// A message with its body, and where it begins behind its length.
struct Message {
    all: Vec<u8>,
    head: usize,
}

/// Reads a message; none at the end of the stream.
fn next_message(input: &mut Input) -> Result<Option<Message>, ArrowError> {
    if input.fill_buf()?.is_empty() {
        return Ok(None);
    }
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let mut all = length.to_vec();
    if length == CONTINUES {
        input.read_exact(&mut length)?;
        all.extend(length);
    }
    let length = u32::from_le_bytes(length);
    if length == 0 {
        return Ok(None);
    }
    let head = all.len();
    read_into(&mut all, input, u64::from(length))?;
    let body = root_as_message(&all[head..]).map_err(broken)?.bodyLength();
    let body = u64::try_from(body).map_err(broken)?;
    read_into(&mut all, input, body)?;
    Ok(Some(Message { all, head }))
}

/// Reads so many bytes: room is made for those that come.
fn read_into(all: &mut Vec<u8>, input: &mut Input, bytes: u64) -> Result<(), ArrowError> {
    let read = input.by_ref().take(bytes).read_to_end(all)?;
    match read as u64 == bytes {
        true => Ok(()),
        false => Err(ArrowError::IpcError("a message is cut off".to_owned())),
    }
}

fn broken(error: impl std::fmt::Display) -> ArrowError {
    ArrowError::IpcError(format!("a message can't be read: {error}"))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::sync::Arc;

    use arrow::array::Int32Array;
    use arrow::ipc::writer::StreamWriter;

    use super::*;

    fn written(rows: &[i32]) -> Vec<u8> {
        let column = Arc::new(Int32Array::from(rows.to_vec())) as _;
        let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
        let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        for _ in 0..3 {
            writer.write(&batch).unwrap();
        }
        writer.into_inner().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<usize, ArrowError> {
        let stream = ArrowStream::begin(Box::new(Cursor::new(bytes.to_vec())))?;
        stream.map(|batch| Ok(batch?.num_rows())).sum()
    }

    #[test]
    fn all_batches_come_with_and_without_an_end() {
        for rows in [&[][..], &[1], &[1, 2, 3]] {
            let bytes = written(rows);
            assert_eq!(read(&bytes).unwrap(), 3 * rows.len());
            assert_eq!(
                read(&bytes[..bytes.len() - END.len()]).unwrap(),
                3 * rows.len()
            );
        }
    }

    #[test]
    fn what_is_cut_off_is_an_error() {
        let bytes = written(&[1, 2, 3]);
        let end = bytes.len() - END.len();
        let cuts = (1..end).filter(|cut| read(&bytes[..*cut]).is_ok()).count();
        // Between messages nothing tells that more should follow.
        assert_eq!(cuts, 3);
    }

    /// Two gigabytes, and a body of nine exabytes.
    #[test]
    fn no_room_is_made_for_what_is_only_promised() {
        let long = [&CONTINUES[..], &i32::MAX.to_le_bytes(), &[0; 20]].concat();
        assert!(read(&long).unwrap_err().to_string().contains("cut off"));

        let bytes = written(&[1, 2, 3]);
        let mut input: Input = Box::new(Cursor::new(bytes.clone()));
        let schema = next_message(&mut input).unwrap().unwrap();
        let first = next_message(&mut input).unwrap().unwrap();
        let body = root_as_message(&first.all[first.head..]).unwrap();
        let body = body.bodyLength().to_le_bytes();
        let mut refused = 0;
        for at in 0..first.all.len() - body.len() {
            if first.all[at..].starts_with(&body) {
                let mut bytes = bytes.clone();
                let at = schema.all.len() + at;
                bytes[at..at + body.len()].copy_from_slice(&i64::MAX.to_le_bytes());
                refused += usize::from(read(&bytes).is_err());
            }
        }
        assert!(refused > 0);
    }
}
