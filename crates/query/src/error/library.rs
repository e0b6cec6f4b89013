//! What Arrow and Parquet say of data that a user gave, without the words for programmers that
//! their messages begin with; no I/O. A beginning that is not known stays, so that the wording of
//! another version costs polish and never an error.

use arrow::error::ArrowError;
use parquet::errors::ParquetError;

use super::first_line;

/// Which kind of error it is, as the libraries tell one another: one may stand within another.
const KINDS: [&str; 20] = [
    "Arrow error: ",
    "Arrow: ",
    "Arithmetic overflow: ",
    "Avro error: ",
    "C Data interface error: ",
    "Cast error: ",
    "Compute error: ",
    "Csv error: ",
    "EOF: ",
    "External error: ",
    "External: ",
    "Invalid argument error: ",
    "Io error: ",
    "Ipc error: ",
    "Json error: ",
    "Memory error: ",
    "Parquet argument error: ",
    "Parquet error: ",
    "Parser error: ",
    "Schema error: ",
];

/// What Arrow said, in one line.
pub fn arrow_fact(error: &ArrowError) -> String {
    match error {
        ArrowError::NotYetImplemented(what) => unsupported(what),
        _ => fact(&error.to_string()),
    }
}

/// What Parquet said, in one line.
pub fn parquet_fact(error: &ParquetError) -> String {
    match error {
        ParquetError::NYI(what) => unsupported(what),
        _ => fact(&error.to_string()),
    }
}

fn unsupported(what: &str) -> String {
    first_line(&format!("not supported: {what}"))
}

fn fact(message: &str) -> String {
    let mut rest = message.trim_start();
    while let Some(inner) = KINDS.iter().find_map(|kind| rest.strip_prefix(kind)) {
        rest = inner.trim_start();
    }
    first_line(rest)
}

#[cfg(test)]
mod tests {
    use arrow::error::ArrowError;
    use parquet::errors::ParquetError;

    use super::{arrow_fact, parquet_fact};

    #[test]
    fn the_fact_stands_alone() {
        let parser = ArrowError::ParseError("no number: x".to_owned());
        assert_eq!(arrow_fact(&parser), "no number: x");
        let nested = ParquetError::from(ArrowError::from(ParquetError::EOF("too short".into())));
        assert_eq!(parquet_fact(&nested), "too short");
        let several = ArrowError::CsvError("unequal lengths.\nat 7".to_owned());
        assert_eq!(arrow_fact(&several), "unequal lengths");
        assert_eq!(
            arrow_fact(&ArrowError::DivideByZero),
            "Divide by zero error"
        );
        let unsupported = ParquetError::NYI("page type 9".to_owned());
        assert_eq!(parquet_fact(&unsupported), "not supported: page type 9");
        let word = ArrowError::JsonError("Error: external".to_owned());
        assert_eq!(arrow_fact(&word), "Error: external");
    }
}
