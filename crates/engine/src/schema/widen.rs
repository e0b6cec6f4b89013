//! Which types hold every value of another, exactly: pure.

use arrow::datatypes::DataType;

/// What becomes of a column's stored values under another type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Widening {
    /// They are values of the other type already.
    Same,
    /// Each has an equal value of the other type.
    Cast,
    /// Some have none: why.
    Refused(&'static str),
}

/// What becomes of values of type `from` where `to` is wanted.
pub fn widening(from: &DataType, to: &DataType) -> Widening {
    use DataType as A;
    let exact = |exact: bool, why: &'static str| match exact {
        true => Widening::Cast,
        false => Widening::Refused(why),
    };
    match (from, to) {
        _ if from == to => Widening::Same,
        (from, to) if from.is_integer() && to.is_integer() => exact(
            integer_fits(from, to),
            "it does not hold every such integer",
        ),
        (from, A::Float32 | A::Float64) if from.is_integer() => {
            let bits = if *to == A::Float32 { 24 } else { 53 };
            exact(value_bits(from) <= bits, "it would round large integers")
        }
        (A::Float16, A::Float32 | A::Float64) | (A::Float32, A::Float64) => Widening::Cast,
        (from, A::Decimal128(precision, scale) | A::Decimal256(precision, scale))
            if from.is_integer() =>
        {
            let room = i16::from(*precision) - i16::from(*scale);
            exact(
                digits(from) <= room,
                "it has too few digits before the point",
            )
        }
        (
            A::Decimal128(p, s) | A::Decimal256(p, s),
            A::Decimal128(to_p, to_s) | A::Decimal256(to_p, to_s),
        ) => {
            let room = |p: u8, s: i8| i16::from(p) - i16::from(s);
            let narrows = matches!((from, to), (A::Decimal256(..), A::Decimal128(..)));
            let fits = s <= to_s && room(*p, *s) <= room(*to_p, *to_s) && !narrows;
            exact(fits, "it has fewer digits before or after the point")
        }
        (A::Date32, A::Timestamp(..)) => {
            Widening::Refused("timestamps end with the year 294246, dates do not")
        }
        _ => Widening::Refused("stored values can't be taken over without loss"),
    }
}

/// The bits that a value of an integer type needs beside its sign.
fn value_bits(integer: &DataType) -> u32 {
    let width = integer.primitive_width().unwrap_or(8) as u32 * 8;
    width - u32::from(integer.is_signed_integer())
}

fn integer_fits(from: &DataType, to: &DataType) -> bool {
    let loses_sign = from.is_signed_integer() && !to.is_signed_integer();
    !loses_sign && value_bits(from) <= value_bits(to)
}

/// The decimal digits of the greatest value of an integer type.
fn digits(integer: &DataType) -> i16 {
    match value_bits(integer) {
        0..=7 => 3,
        8 => 3,
        9..=16 => 5,
        17..=32 => 10,
        33..=63 => 19,
        _ => 20,
    }
}
