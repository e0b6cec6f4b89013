//! KEYS-1: numbers order rows as encoded keys do.

use std::sync::Arc;

use arrow::array::{
    BooleanArray, FixedSizeBinaryArray, Float32Array, Float64Array, Int64Array, StringArray,
};
use arrow::datatypes::{Field, Schema, TimeUnit};
use proptest::prelude::*;

use super::*;

const EDGES: [i64; 9] = [0, 1, -1, 2, -2, 127, -128, 255, 256];

fn any_number() -> impl Strategy<Value = i64> {
    prop_oneof![any::<i64>(), prop::sample::select(EDGES.to_vec())]
}

fn float(number: i64) -> f64 {
    let odd = [0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::MIN];
    match usize::try_from(number) {
        Ok(at) if at < odd.len() => odd[at],
        _ => f64::from_bits(number as u64),
    }
}

/// A column of one of many types, which all numbers fit.
fn column(form: u8, numbers: &[i64]) -> ArrayRef {
    let ints = Int64Array::from(numbers.to_vec());
    let low = |bits: i64| {
        numbers
            .iter()
            .map(move |number| number.rem_euclid(1 << bits))
    };
    let cast = |values: Int64Array, to: &DataType| arrow::compute::cast(&values, to).unwrap();
    let bytes = |width: usize| {
        let values = numbers
            .iter()
            .map(|number| number.to_le_bytes()[..width].to_vec());
        Arc::new(FixedSizeBinaryArray::try_from_iter(values).unwrap())
    };
    let short = || Int64Array::from_iter_values(low(8).map(|number| number - 128));
    match form {
        0 => Arc::new(ints),
        1 => cast(short(), &DataType::Int8),
        2 => cast(short(), &DataType::Int16),
        3 => cast(short(), &DataType::Date32),
        4 => cast(
            ints,
            &DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        ),
        5 => cast(short(), &DataType::Decimal128(20, 2)),
        6 => cast(Int64Array::from_iter_values(low(8)), &DataType::UInt8),
        7 => cast(Int64Array::from_iter_values(low(16)), &DataType::UInt16),
        8 => cast(Int64Array::from_iter_values(low(32)), &DataType::UInt32),
        9 => cast(Int64Array::from_iter_values(low(40)), &DataType::UInt64),
        10 => Arc::new(Float64Array::from_iter_values(
            numbers.iter().map(|n| float(*n)),
        )),
        11 => {
            let values = numbers.iter().map(|number| float(*number) as f32);
            Arc::new(Float32Array::from_iter_values(values))
        }
        12 => bytes(3),
        13 => bytes(8),
        14 => Arc::new(BooleanArray::from_iter(
            numbers.iter().map(|n| Some(n % 2 == 0)),
        )),
        _ => {
            let texts = numbers.iter().map(|number| match number % 3 {
                0 => format!("{number:030}"),
                1 => "a".repeat(number.rem_euclid(40) as usize),
                _ => "\0".repeat(number.rem_euclid(40) as usize),
            });
            Arc::new(StringArray::from_iter_values(texts))
        }
    }
}

fn agrees<P: Prefix>(keys: &BatchKeys<P>, encoded: &Keys) {
    for a in 0..encoded.num_rows() {
        for b in 0..encoded.num_rows() {
            let expected = encoded.row(a).cmp(&encoded.row(b));
            assert_eq!(keys.compare(a, keys, b), expected, "rows {a} and {b}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn numbers_order_as_encoded_keys_do(
        forms in prop::collection::vec(0u8..16, 1..4),
        numbers in prop::collection::vec(any_number(), 3 * 12),
        offset in 0usize..4,
    ) {
        let columns = forms.iter().zip(numbers.chunks(12));
        let columns: Vec<ArrayRef> = columns.map(|(form, part)| column(*form, part)).collect();
        let fields = columns.iter().enumerate();
        let field = |(at, c): (usize, &ArrayRef)| {
            Field::new(format!("k{at}"), c.data_type().clone(), false)
        };
        let fields = fields.map(field);
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let rows = RecordBatch::try_new(schema.clone(), columns).unwrap();
        let rows = rows.slice(offset, rows.num_rows() - offset);
        let key: Vec<usize> = (0..forms.len()).rev().collect();
        let encoded = KeyCodec::new(&schema, key.clone()).unwrap().encode(&rows).unwrap();
        match KeyReader::new(&schema, &key, None).unwrap() {
            KeyReader::Narrow(packer) => agrees(&packer.read::<u64>(&rows).unwrap(), &encoded),
            KeyReader::Wide(packer) => agrees(&packer.read::<u128>(&rows).unwrap(), &encoded),
            KeyReader::Long(codec) => agrees(&read_long(&codec, &rows).unwrap(), &encoded),
        }
    }

    #[test]
    fn galloping_finds_the_first_that_is_not_below(
        mut numbers in prop::collection::btree_set(0u64..500, 1..200),
        bound in 0u64..500,
        from in 0usize..200,
    ) {
        numbers.insert(bound);
        if bound % 2 == 0 {
            numbers.remove(&bound);
        }
        let prefixes: Vec<u64> = numbers.into_iter().collect();
        let from = from.min(prefixes.len());
        let expected = (from..prefixes.len()).find(|at| prefixes[*at] >= bound);
        let expected = expected.unwrap_or(prefixes.len());
        let keys = BatchKeys { prefixes, encoded: None };
        let bound = BatchKeys { prefixes: vec![bound], encoded: None };
        prop_assert_eq!(keys.gallop(from, &bound, 0), expected);
    }
}
