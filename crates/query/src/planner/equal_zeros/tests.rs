//! Numbers as they are in keys, and rows that are in their order already.

use arrow::array::Float64Array;
use arrow::compute::SortOptions;
use arrow::datatypes::{Field, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    EquivalenceProperties, PhysicalExpr, PhysicalSortExpr, ScalarFunctionExpr,
};

use super::*;

#[test]
fn zero_and_nan_have_one_spelling() {
    let given = vec![-0.0, 0.0, -f64::NAN, f64::NAN, -1.5];
    let given: ArrayRef = Arc::new(Float64Array::from(given));
    let spelt = in_keys(&given);
    let spelt = spelt.as_primitive::<Float64Type>().values().iter();
    let spelt: Vec<u64> = spelt.map(|number| number.to_bits()).collect();
    let expected = [0.0, 0.0, f64::NAN, f64::NAN, -1.5].map(f64::to_bits);
    assert_eq!(spelt, expected);
}

#[test]
fn nan_loses_its_sign_and_zero_keeps_it() {
    let given = vec![-0.0, 0.0, -f64::NAN, f64::NAN, f64::NEG_INFINITY];
    let given: ArrayRef = Arc::new(Float64Array::from(given));
    let spelt = one_nan(&given);
    let spelt = spelt.as_primitive::<Float64Type>().values().iter();
    let spelt: Vec<u64> = spelt.map(|number| number.to_bits()).collect();
    let expected = [-0.0, 0.0, f64::NAN, f64::NAN, f64::NEG_INFINITY].map(f64::to_bits);
    assert_eq!(spelt, expected);
}

#[test]
fn rows_in_the_order_of_a_key_need_no_sort() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("x", DataType::Float64, false),
        Field::new("k", DataType::Int64, false),
    ]));
    let column =
        |at: usize| -> Arc<dyn PhysicalExpr> { Arc::new(Column::new(schema.field(at).name(), at)) };
    let by =
        |expr: Arc<dyn PhysicalExpr>| PhysicalSortExpr::new(expr, SortOptions::new(false, false));
    let key = [by(column(0)), by(column(1))];
    let rows = EquivalenceProperties::new_with_orderings(Arc::clone(&schema), [key]);
    let x = ScalarFunctionExpr::try_new(
        Arc::new(ScalarUDF::from(AsInKeys::new())),
        vec![column(0)],
        &schema,
        Arc::new(ConfigOptions::default()),
    );
    let wanted = [by(Arc::new(x.unwrap())), by(column(1))];
    assert!(rows.ordering_satisfy(wanted).unwrap());
}
