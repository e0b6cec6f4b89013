//! Tests of `types`.

use datafusion::sql::sqlparser::dialect::{GenericDialect, PostgreSqlDialect};
use datafusion::sql::sqlparser::parser::Parser;

use super::*;

fn parse(text: &str) -> Result<DataType> {
    let postgres = PostgreSqlDialect {};
    let parsed = Parser::new(&postgres)
        .try_with_sql(text)
        .unwrap()
        .parse_data_type();
    let parsed = parsed.unwrap_or_else(|_| {
        let generic = GenericDialect {};
        Parser::new(&generic)
            .try_with_sql(text)
            .unwrap()
            .parse_data_type()
            .unwrap()
    });
    from_sql(&parsed)
}

#[test]
fn types_are_read_and_named() {
    for (text, name_expected) in [
        ("bool", "BOOLEAN"),
        ("smallint", "SMALLINT"),
        ("int", "INT"),
        ("integer", "INT"),
        ("int8", "BIGINT"),
        ("bigint", "BIGINT"),
        ("real", "REAL"),
        ("double precision", "DOUBLE PRECISION"),
        ("float(53)", "DOUBLE PRECISION"),
        ("numeric", "DECIMAL(38, 10)"),
        ("decimal(12, 2)", "DECIMAL(12, 2)"),
        ("decimal(60, 2)", "DECIMAL(60, 2)"),
        ("text", "TEXT"),
        ("varchar", "TEXT"),
        ("bytea", "BYTEA"),
        ("uuid", "UUID"),
        ("date", "DATE"),
        ("time", "TIME"),
        ("timestamp", "TIMESTAMP"),
        ("timestamptz", "TIMESTAMP WITH TIME ZONE"),
        ("timestamp with time zone", "TIMESTAMP WITH TIME ZONE"),
        ("json", "TEXT"),
        ("int[]", "INT[]"),
        ("text[][]", "TEXT[][]"),
        ("time(0)", "TIME(0)"),
        ("time(9)", "TIME(9)"),
        ("timestamp(6)", "TIMESTAMP"),
        ("timestamp(3)", "TIMESTAMP(3)"),
        ("timestamp(9) with time zone", "TIMESTAMP(9) WITH TIME ZONE"),
        ("interval", "INTERVAL"),
    ] {
        assert_eq!(name(&parse(text).unwrap()), name_expected, "{text}");
    }
}

#[test]
fn lengths_that_nothing_keeps_are_refused() {
    for (text, kept) in [
        ("varchar(20)", "TEXT"),
        ("char(2)", "TEXT"),
        ("character varying(5)", "TEXT"),
        ("varbinary(16)", "BYTEA"),
        ("varchar(3)[]", "TEXT"),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.sqlstate(), "0A000", "{text}");
        assert_eq!(
            error.hint(),
            Some(format!("write {kept}").as_str()),
            "{text}"
        );
    }
    for refused in ["timestamp(2)", "time(7)", "uuid[]"] {
        let error = parse(refused).unwrap_err();
        assert_eq!(error.sqlstate(), "0A000", "{refused}");
        assert!(error.hint().is_some(), "{refused}");
    }
}

#[test]
fn columns_of_texts_say_what_they_take() {
    let column = |text: &str| {
        let dialect = PostgreSqlDialect {};
        let mut parser = Parser::new(&dialect).try_with_sql(text).unwrap();
        let parsed = parser.parse_data_type().unwrap();
        let (data_type, characters_max) = of_column(&parsed)?;
        Ok::<String, Error>(column_name(&Column {
            characters_max,
            json: is_json(&parsed),
            ..Column::new("c", data_type)
        }))
    };
    for (text, named) in [
        ("varchar(20)", "VARCHAR(20)"),
        ("character varying(1)", "VARCHAR(1)"),
        ("varchar", "TEXT"),
        ("char(2)", "VARCHAR(2)"),
        ("int", "INT"),
        ("json", "JSON"),
    ] {
        assert_eq!(column(text).unwrap(), named);
    }
    for (text, sqlstate) in [
        ("varchar(0)", "22023"),
        ("varchar(99999999)", "22023"),
        ("char(2)[]", "0A000"),
        ("varchar(2)[]", "0A000"),
    ] {
        assert_eq!(column(text).unwrap_err().sqlstate(), sqlstate, "{text}");
    }
}

#[test]
fn unknown_types_hint_at_known_ones() {
    for text in [
        "interval year to month",
        "jsonb",
        "money",
        "serial",
        "decimal(90, 2)",
        "decimal(4, 8)",
    ] {
        assert!(parse(text).unwrap_err().hint().is_some(), "{text}");
    }
}

#[test]
fn what_a_query_gives_is_kept_whole() {
    let nanos = |zone: &str| DataType::Timestamp(TimeUnit::Nanosecond, Some(zone.into()));
    let list = |item| DataType::List(Arc::new(Field::new_list_field(item, true)));
    let pair = |key| {
        let fields = [
            Field::new("k", key, true),
            Field::new("v", DataType::Int64, true),
        ];
        DataType::Struct(fields.into_iter().collect())
    };
    let map = |entry| {
        let entries = Field::new("entries", entry, false);
        DataType::Map(Arc::new(entries), false)
    };
    let number = |data_type| Box::new(data_type);
    for (given, kept) in [
        (nanos("Europe/Berlin"), nanos(UTC)),
        (
            DataType::Time64(TimeUnit::Nanosecond),
            DataType::Time64(TimeUnit::Nanosecond),
        ),
        (
            DataType::Dictionary(number(DataType::Int32), number(DataType::Utf8View)),
            DataType::Utf8,
        ),
        (DataType::Duration(TimeUnit::Second), INTERVAL),
        (DataType::Float16, DataType::Float32),
        (DataType::FixedSizeBinary(3), DataType::Binary),
        (
            DataType::FixedSizeList(Arc::new(Field::new("e", DataType::Float16, false)), 2),
            list(DataType::Float32),
        ),
        (map(pair(DataType::LargeUtf8)), list(pair(DataType::Utf8))),
    ] {
        assert_eq!(storable(&given).unwrap(), kept, "{given}");
    }
    assert!(storable(&list(DataType::Struct(Fields::empty()))).is_err());
}

#[test]
fn what_can_lose_nothing_is_cast() {
    use DataType as A;
    for (given, wanted) in [
        (A::Int64, A::Int32),
        (A::Utf8View, A::Utf8),
        (A::LargeUtf8, UUID),
        (A::Utf8, INTERVAL),
        (A::Duration(TimeUnit::Second), INTERVAL),
        (A::Null, A::Int32),
        (A::Float32, A::Float64),
        (A::Int64, A::Decimal128(20, 2)),
        (A::Decimal128(10, 2), A::Decimal128(12, 4)),
        (
            A::Timestamp(TimeUnit::Second, None),
            A::Timestamp(TimeUnit::Microsecond, None),
        ),
        (
            A::Dictionary(Box::new(A::Int32), Box::new(A::Utf8)),
            A::Utf8,
        ),
    ] {
        assert!(is_lossless(&given, &wanted), "{given} {wanted}");
    }
    for (given, wanted) in [
        (A::Float64, A::Int64),
        (A::Float64, A::Float32),
        (A::Int64, A::Float64),
        (A::Utf8, A::Int32),
        (A::Decimal128(10, 4), A::Decimal128(10, 2)),
    ] {
        assert!(!is_lossless(&given, &wanted), "{given} {wanted}");
    }
}
