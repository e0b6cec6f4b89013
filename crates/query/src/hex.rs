//! Bytes as hexadecimal digits, and UUIDs in their one spelling; pure.

use std::fmt::Write;

/// Appends two digits for each byte.
pub fn put_hex(bytes: &[u8], out: &mut impl Write) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        let pair = [byte >> 4, byte & 15].map(|digit| char::from(DIGITS[usize::from(digit)]));
        for digit in pair {
            out.write_char(digit).expect("memory can be written to");
        }
    }
}

/// The bytes that digits of either case spell; `None` for what is no pairs of digits.
pub fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let pairs = digits.as_bytes().chunks_exact(2);
    pairs
        .map(|pair| Some(value(pair[0])? << 4 | value(pair[1])?))
        .collect()
}

/// Appends the one spelling that SQL shows of a UUID.
pub fn put_uuid(bytes: &[u8], out: &mut impl Write) {
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.write_char('-').expect("memory can be written to");
        }
        put_hex(std::slice::from_ref(byte), out);
    }
}

/// The bytes of a UUID's text, hyphens or not.
pub fn from_uuid(text: &str) -> Option<Vec<u8>> {
    let text = text.trim().trim_start_matches('{').trim_end_matches('}');
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    from_hex(&digits).filter(|bytes| bytes.len() == 16)
}
