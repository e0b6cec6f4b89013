//! The base against applying changes one by one is tested with the merge; here its contract.

use arrow::datatypes::DataType;

use super::*;
use crate::stages::merge::Step;
use crate::stages::merge::tests::scalar::shape;

#[test]
fn the_base_is_the_oldest_source() {
    let shape = shape(&[DataType::Utf8], &[]);
    let mut merger = base_merger(&shape, 1, OutputSize::default()).unwrap();
    for source in 0..2 {
        assert!(matches!(merger.step().unwrap(), Step::Need(at) if at == source));
        merger.supply(source, None).unwrap();
    }
    assert!(matches!(merger.step().unwrap(), Step::Done));
}
