//! Tests of `copy::binary`.

use arrow::array::AsArray;
use arrow::array::types::Int32Type;
use arrow::ipc::reader::StreamReader;

use super::*;

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("n", DataType::Int32, true),
        Field::new("d", DataType::Decimal128(10, 2), true),
    ])
}

fn two_rows() -> Vec<u8> {
    let mut bytes = SIGNATURE.to_vec();
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&[0, 2, 0, 0, 0, 4, 0, 0, 1, 2, 0, 0, 0, 10]);
    bytes.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, 2, 0, 7]);
    bytes.extend_from_slice(&[0, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    bytes.extend_from_slice(&[0xff, 0xff]);
    bytes
}

#[test]
fn rows_are_read_however_they_are_cut() {
    for size in [1, 2, 7, 1000] {
        let mut binary = Binary::new(&schema()).unwrap();
        let mut stream = Vec::new();
        for piece in two_rows().chunks(size) {
            stream.extend_from_slice(&binary.push(piece).unwrap());
        }
        stream.extend_from_slice(&binary.finish().unwrap());
        let batches: Vec<RecordBatch> = StreamReader::try_new(stream.as_slice(), None)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let [batch] = batches.as_slice() else {
            panic!("{batches:?}");
        };
        let numbers: Vec<Option<i32>> =
            batch.column(0).as_primitive::<Int32Type>().iter().collect();
        assert_eq!(numbers, [Some(258), None]);
        let texts: Vec<Option<&str>> = batch.column(1).as_string::<i32>().iter().collect();
        assert_eq!(texts, [Some("7.00"), None]);
    }
}

#[test]
fn broken_data_is_refused() {
    let whole = two_rows();
    // Between rows it may end without its mark: behind the head, the first row and the second.
    let (head, row) = (SIGNATURE.len() + 8, 24);
    let between = [head, head + row, head + row + 10];
    for cut in 0..whole.len() - 1 {
        let mut binary = Binary::new(&schema()).unwrap();
        binary.push(&whole[..cut]).unwrap();
        assert_eq!(binary.finish().is_ok(), between.contains(&cut), "{cut}");
    }
    for at in 0..whole.len() {
        let mut twisted = whole.clone();
        twisted[at] ^= 0x55;
        let mut binary = Binary::new(&schema()).unwrap();
        // An error or other values; no panic.
        drop(binary.push(&twisted).and_then(|_| binary.finish()));
    }
}
