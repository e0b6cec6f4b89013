//! Rows that are in the order of keys already.

use arrow::compute::SortOptions;
use arrow::datatypes::{Field, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    EquivalenceProperties, PhysicalExpr, PhysicalSortExpr, ScalarFunctionExpr,
};

use super::*;

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
        Arc::new(ScalarUDF::from(OneSpelling::in_keys())),
        vec![column(0)],
        &schema,
        Arc::new(ConfigOptions::default()),
    );
    let wanted = [by(Arc::new(x.unwrap())), by(column(1))];
    assert!(rows.ordering_satisfy(wanted).unwrap());
}
