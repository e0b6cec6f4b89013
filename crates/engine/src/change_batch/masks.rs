//! Masks and column SCUs, the two hidden values that have one entry a column (section 3.2 of the
//! paper). Reads and writes bytes; keeps the spelling that `ChangeBatch` documents.
//!
//! A mask is a string of bits, least significant bit of the first byte first. Bits beyond its end
//! are clear. In a projected batch the bit after the last column says that the change sets a
//! column outside the projection.
//!
//! # The bits of what is combined
//!
//! A column whose bit is set is set by the change, or combined with what is there by the column's
//! merge operator: then the bit as far behind the one for what lies outside is set too. For `n`
//! columns, bit `c` says that the change does not leave column `c`, bit `n` that it touches another
//! column, and bit `n + 1 + c` that it combines column `c`. Masks that combine nothing end before
//! those bits, and are the same as those of tables without operators.
//!
//! # The bit for what lies outside
//!
//! A row's own SCU is the newest among *all* its cells. A reader that wants two columns must learn
//! that a change touched a third, or the row would look older than it is. So a projection to `n`
//! columns gathers all other bits of a mask into bit `n`. Nothing but "does it set anything" ever
//! looks at that bit; unions carry it along.

use lazybase_model::{Error, Result};

/// A mask with these columns' bits set, for a table of `width` columns.
pub fn mask_of(columns: impl IntoIterator<Item = usize>, width: usize) -> Vec<u8> {
    let mut mask = vec![0; width.div_ceil(8)];
    columns
        .into_iter()
        .for_each(|column| set_bit(&mut mask, column));
    mask
}

/// As [`mask_of`], with the columns `combined`, which are among `columns`, combined and not set.
pub fn mask_combining(columns: &[usize], combined: &[usize], width: usize) -> Vec<u8> {
    let mut mask = mask_of(columns.iter().copied(), width);
    for column in combined {
        set_bit(&mut mask, width + 1 + column);
    }
    fit(&mut mask, width);
    mask
}

/// Whether a mask over `width` columns combines any.
pub(crate) fn combines(mask: &[u8], width: usize) -> bool {
    (width + 1) / 8 < mask.len() && bits(mask).any(|bit| bit > width)
}

/// Whether a mask over `width` columns combines `column`.
pub fn combines_column(mask: &[u8], column: usize, width: usize) -> bool {
    has_bit(mask, width + 1 + column)
}

/// Whether a mask over all `width` columns of a table has one of its two lengths.
pub(crate) fn fits(mask: &[u8], width: usize) -> bool {
    mask.len() == width.div_ceil(8) || mask.len() == (2 * width + 1).div_ceil(8)
}

/// Gives a mask the length that its bits need: none for what is combined where nothing is.
pub(crate) fn fit(mask: &mut Vec<u8>, width: usize) {
    let length = match combines(mask, width) {
        true => (2 * width + 1).div_ceil(8),
        false if has_bit(mask, width) => width / 8 + 1,
        false => width.div_ceil(8),
    };
    mask.resize(length, 0);
}

/// Whether a mask has the bit of `column`.
pub fn has_bit(mask: &[u8], column: usize) -> bool {
    mask.get(column / 8)
        .is_some_and(|byte| byte >> (column % 8) & 1 == 1)
}

/// Sets the bit of `column`, growing the mask where needed.
pub fn set_bit(mask: &mut Vec<u8>, column: usize) {
    if mask.len() <= column / 8 {
        mask.resize(column / 8 + 1, 0);
    }
    mask[column / 8] |= 1 << (column % 8);
}

/// Clears the bit of `column`.
pub(crate) fn clear_bit(mask: &mut [u8], column: usize) {
    if let Some(byte) = mask.get_mut(column / 8) {
        *byte &= !(1 << (column % 8));
    }
}

/// The set bits of a mask, rising.
pub fn bits(mask: &[u8]) -> impl Iterator<Item = usize> + '_ {
    mask.iter().enumerate().flat_map(|(at, &byte)| {
        let mut rest = byte;
        std::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some(at * 8 + bit)
        })
    })
}

/// Whether a mask has any bit: whether its change does anything to a row.
pub fn any_bit(mask: &[u8]) -> bool {
    mask.iter().any(|byte| *byte != 0)
}

/// Adds the bits of `other` to `mask`.
pub(crate) fn union(mask: &mut Vec<u8>, other: &[u8]) {
    if mask.len() < other.len() {
        mask.resize(other.len(), 0);
    }
    mask.iter_mut()
        .zip(other)
        .for_each(|(to, from)| *to |= from);
}

/// The mask of the columns `columns` of `width` alone, and the bit for what lies outside. `kept`
/// has the bits of these columns, and all that say what is combined.
pub(crate) fn project(mask: &[u8], columns: &[usize], width: usize, kept: &[u8]) -> Vec<u8> {
    let chosen = columns.iter().enumerate();
    let inside = chosen.clone().filter(|(_, column)| has_bit(mask, **column));
    let mut projected = mask_of(inside.map(|(at, _)| at), columns.len());
    let outside = kept.iter().chain(std::iter::repeat(&0));
    if mask
        .iter()
        .zip(outside)
        .any(|(bits, kept)| bits & !kept != 0)
    {
        set_bit(&mut projected, columns.len());
    }
    if combines(mask, width) {
        let combined = chosen.filter(|(_, column)| combines_column(mask, **column, width));
        combined.for_each(|(at, _)| set_bit(&mut projected, columns.len() + 1 + at));
        fit(&mut projected, columns.len());
    }
    projected
}

/// What [`project`] needs to know of `columns`.
pub(crate) fn kept_of(columns: &[usize], width: usize) -> Vec<u8> {
    let combined = width + 1..2 * width + 1;
    mask_of(columns.iter().copied().chain(combined), width)
}

/// Appends one LEB128 number for each distance.
pub fn encode_distances(distances: &[u64], bytes: &mut Vec<u8>) {
    for &distance in distances {
        let mut rest = distance;
        while rest >= 0x80 {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
    }
}

/// Appends the distances of `width` columns; columns that the bytes lack have the row's SCU.
///
/// # Errors
/// `Corrupt` when the bytes are not LEB128 numbers of 64 bits.
pub fn decode_distances(bytes: &[u8], width: usize, distances: &mut Vec<u64>) -> Result<()> {
    let start = distances.len();
    let (mut value, mut shift) = (0u64, 0u32);
    for &byte in bytes {
        if shift > 63 || (shift == 63 && byte & 0x7e != 0) {
            return Err(Error::corrupt("a column's SCU is longer than 64 bits"));
        }
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            distances.push(value);
            (value, shift) = (0, 0);
        }
    }
    if shift != 0 || distances.len() - start > width {
        return Err(Error::corrupt("a row's column SCUs don't fit its columns"));
    }
    distances.resize(start + width, 0);
    Ok(())
}
