//! Tests of `failure`.

use lazybase_model::Error;

use super::text;

#[test]
fn an_error_has_a_line_for_each_part() {
    let error = Error::invalid("no such column");
    assert_eq!(text(&error), "error: no such column\n");
    let error = error.with_detail("table t").with_hint("use x");
    assert_eq!(
        text(&error),
        "error: no such column\ndetail: table t\nhint: use x\n"
    );
}
