//! PostgreSQL's numeric: digits to the base of ten thousand, a weight, a sign, a scale; no I/O.

use lazybase_model::{Error, Result};

/// The sign of numbers below zero, and what is no number.
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xc000;

/// A number in parts.
struct Numeric {
    digits: Vec<u16>,
    /// The place of the first digit: 0 is that of the units.
    weight: i16,
    sign: u16,
    scale: u16,
}

fn read(bytes: &[u8]) -> Result<Numeric> {
    let wrong = || Error::invalid("the server sent a number that can't be read");
    let words: Vec<u16> = bytes
        .chunks_exact(2)
        .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
        .collect();
    let [count, weight, sign, scale, digits @ ..] = words.as_slice() else {
        return Err(wrong());
    };
    if digits.len() != usize::from(*count) || digits.iter().any(|digit| *digit > 9_999) {
        return Err(wrong());
    }
    Ok(Numeric {
        digits: digits.to_vec(),
        weight: *weight as i16,
        sign: *sign,
        scale: *scale,
    })
}

/// The number as people write it.
pub(super) fn text(bytes: &[u8]) -> Result<String> {
    let number = read(bytes)?;
    if number.sign == NAN {
        return Ok("NaN".to_owned());
    }
    let digit = |place: i32| {
        let at = usize::try_from(i32::from(number.weight) - place).ok();
        at.and_then(|at| number.digits.get(at))
            .copied()
            .unwrap_or(0)
    };
    let mut whole = String::new();
    for place in (0..=i32::from(number.weight)).rev() {
        whole += &format!("{:04}", digit(place));
    }
    let whole = whole.trim_start_matches('0');
    let mut fraction = String::new();
    let scale = usize::from(number.scale);
    let mut place = -1;
    while fraction.len() < scale {
        fraction += &format!("{:04}", digit(place));
        place -= 1;
    }
    fraction.truncate(scale);
    let sign = if number.sign == NEGATIVE { "-" } else { "" };
    let whole = if whole.is_empty() { "0" } else { whole };
    Ok(match fraction.is_empty() {
        true => format!("{sign}{whole}"),
        false => format!("{sign}{whole}.{fraction}"),
    })
}

/// The number times ten to the power of `scale`.
pub(super) fn scaled(bytes: &[u8], scale: i8) -> Result<i128> {
    let text = text(bytes)?;
    let wrong = || Error::invalid(format!("the number {text} does not fit into its column"));
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let places = usize::try_from(scale).unwrap_or(0);
    let (kept, cut) = fraction.split_at(fraction.len().min(places));
    if cut.contains(|c| c != '0') {
        return Err(wrong());
    }
    let digits = format!("{whole}{kept:0<places$}");
    let number: i128 = digits.parse().map_err(|_| wrong())?;
    let down = 10_i128.checked_pow(u32::from(scale.min(0).unsigned_abs()));
    let down = down.ok_or_else(wrong)?;
    match number % down {
        0 => Ok(number / down),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::{scaled, text};

    fn bytes(words: &[u16]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn numbers_are_read() {
        for (words, shown, at_two) in [
            (&[0, 0, 0, 2][..], "0.00", 0),
            (&[2, 0, 0, 2, 12, 3400], "12.34", 1234),
            (&[2, 1, 0x4000, 0, 1, 5], "-10005", -1_000_500),
            (&[1, 0xffff, 0, 4, 5], "0.0005", i128::MAX),
            (&[1, 0xffff, 0, 2, 500], "0.05", 5),
            (&[1, 2, 0, 0, 7], "700000000", 70_000_000_000),
            (&[1, 0xffff, 0x4000, 1, 5000], "-0.5", -50),
        ] {
            assert_eq!(text(&bytes(words)).unwrap(), shown);
            let scaled = scaled(&bytes(words), 2);
            match at_two {
                i128::MAX => assert!(scaled.is_err(), "{shown}"),
                number => assert_eq!(scaled.unwrap(), number, "{shown}"),
            }
        }
        assert_eq!(text(&bytes(&[0, 0, 0xc000, 0])).unwrap(), "NaN");
        assert!(text(&bytes(&[2, 0, 0, 0, 1])).is_err());
        assert!(text(&[1]).is_err());
    }
}
