//! Tests of `failure`.

use std::io;

use arrow::error::ArrowError;
use lazybase_model::{Error, ErrorKind};
use parquet::errors::ParquetError;

use super::{arrow, parquet, text};

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

#[test]
fn what_libraries_say_of_a_file_is_the_fact_alone() {
    let csv = ArrowError::CsvError("no UTF-8".to_owned());
    assert_eq!(arrow("columns", &csv).message(), "columns: no UTF-8");
    let small = ParquetError::EOF("too small".to_owned());
    assert_eq!(parquet("a file", &small).message(), "a file: too small");
    let gone = ParquetError::from(io::Error::from(io::ErrorKind::NotFound));
    assert_eq!(parquet("a file", &gone).kind(), ErrorKind::NotFound);
}
