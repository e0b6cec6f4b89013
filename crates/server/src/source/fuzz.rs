//! Files of `lazybase load`, as functions over bytes. See `crate::fuzz`.

use std::io::Cursor;

use super::chunk::Chunks;
use super::{FileFormat, Source, TextOptions, stored_schema};

/// The pieces of a file that are read: a few bytes of Parquet can stand for very many rows.
const PIECES_MAX: usize = 16;
/// The bytes of a chunk: few, so that short inputs are cut too.
const CHUNK_BYTES: usize = 16;

/// A text: as CSV and as lines of JSON, for a table that is made of it and for one that is there.
/// Its chunks are the whole text.
pub(crate) fn read_text(bytes: &[u8]) {
    for format in [FileFormat::Csv, FileFormat::Jsonl] {
        for known in [false, true] {
            read(bytes, format, known);
        }
    }
    for quotes in [false, true] {
        let mut chunks = Chunks::new(bytes, quotes, CHUNK_BYTES);
        let mut taken = Vec::new();
        while let Ok(Some(chunk)) = chunks.next() {
            assert!(!chunk.is_empty(), "the end is no chunk");
            taken.extend(chunk);
        }
        assert!(taken == bytes, "chunks lose nothing");
    }
}

/// A Parquet file.
pub(crate) fn read_parquet(bytes: &[u8]) {
    read(bytes, FileFormat::Parquet, false);
}

/// Reads a file to its end, to what is no part of one, or for long enough: each mark says what was
/// read before it. Gives the rows.
pub(super) fn read(bytes: &[u8], format: FileFormat, known: bool) -> u64 {
    let options = TextOptions::new(b',', Some("NA"));
    let stream = Box::new(Cursor::new(bytes.to_vec()));
    let Ok(mut source) = Source::of_stream(stream, format, &options, known) else {
        return 0;
    };
    // The columns of the table that would be made.
    let _ = stored_schema(source.schema(), None);
    let columns = source.schema().fields().len();
    let (mut rows, mut taken) = (0, 0);
    for _ in 0..PIECES_MAX {
        let Ok(Some(piece)) = source.next_piece() else {
            break;
        };
        for batch in &piece.batches {
            assert_eq!(batch.num_columns(), columns, "rows have the file's columns");
            rows += batch.num_rows() as u64;
        }
        let mark = piece.mark;
        assert_eq!(mark.rows, rows, "a mark counts the rows before it");
        let rest = taken..=bytes.len() as u64;
        assert!(rest.contains(&mark.bytes), "{} of {rest:?}", mark.bytes);
        taken = mark.bytes;
    }
    rows
}
