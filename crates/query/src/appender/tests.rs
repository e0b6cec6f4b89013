//! Tests of `appender`.

use arrow::datatypes::TimeUnit;

use super::*;

#[test]
fn what_can_lose_nothing_is_cast() {
    use DataType as A;
    for (given, wanted) in [
        (A::Int64, A::Int32),
        (A::Utf8View, A::Utf8),
        (A::LargeUtf8, types::UUID),
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
