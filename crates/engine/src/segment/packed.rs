//! The SCU numbers of an extent's rows where they differ: how far each lies before the newest, in
//! as few bits as the farthest takes. Each row has its number, or each run of rows of one SCU and
//! each row a bit more, whichever is shorter.
//!
//! Pure. Where the SCUs of neighbours have nothing to do with each other, no encoding takes fewer
//! bits than the number of SCUs has. The bytes: `docs/formats/segment-extent.md`.

use lazybase_model::{Error, Result};

use super::le::Front;

/// In the byte that says how numbers are packed: there is one a run. The other bits are the width
/// of a number.
const IN_RUNS: u8 = 0x80;

/// Appends the SCU numbers of rows, which are not all the same. Gives the byte that says how they
/// are packed, which is not 0, and the newest of them.
pub(super) fn pack(scus: &[u64], out: &mut Vec<u8>) -> (u8, u64) {
    let newest = scus.iter().copied().max().unwrap_or(0);
    let oldest = scus.iter().copied().min().unwrap_or(0);
    let bits = u64::BITS - (newest - oldest).leading_zeros();
    let begins = |row: &usize| *row == 0 || scus[*row] != scus[*row - 1];
    let runs = (0..scus.len()).filter(begins).count();
    if scus.len() + runs * bits as usize >= scus.len() * bits as usize {
        put_bits(scus.iter().map(|scu| newest - scu), bits, out);
        return (bits as u8, newest);
    }
    put_bits((0..scus.len()).map(|row| u64::from(begins(&row))), 1, out);
    let firsts = (0..scus.len()).filter(begins);
    put_bits(firsts.map(|row| newest - scus[row]), bits, out);
    (bits as u8 | IN_RUNS, newest)
}

/// How far the SCU of each of `rows` rows lies before the newest; `how` says how that is packed.
///
/// # Errors
/// `Corrupt` when the bytes are not those of so many rows.
pub(super) fn unpack(how: u8, rows: usize, packed: &[u8]) -> Result<Vec<u64>> {
    let bits = u32::from(how & !IN_RUNS);
    if !(1..=u64::BITS).contains(&bits) {
        return Err(Error::corrupt(format!("SCUs are packed in {bits} bits")));
    }
    let mut front = Front(packed);
    let distances = match how & IN_RUNS != 0 {
        false => take_bits(&mut front, rows, bits)?,
        true => {
            let begins = take_bits(&mut front, rows, 1)?;
            let runs = begins.iter().sum::<u64>() as usize;
            let firsts = take_bits(&mut front, runs, bits)?;
            spread(&begins, firsts)
                .ok_or_else(|| Error::corrupt("rows come before the first run of an SCU"))?
        }
    };
    match front.0.is_empty() {
        true => Ok(distances),
        false => Err(Error::corrupt("SCUs are packed for more rows")),
    }
}

/// The numbers of runs as those of rows; `begins` is 1 where a row begins a run. `None` when the
/// first row begins none.
fn spread(begins: &[u64], firsts: Vec<u64>) -> Option<Vec<u64>> {
    let mut firsts = firsts.into_iter();
    let mut current = None;
    let of_row = |begins: &u64| {
        if *begins == 1 {
            current = firsts.next();
        }
        current
    };
    begins.iter().map(of_row).collect()
}

/// Appends numbers of so many bits, the least significant bits first, up to a whole byte.
fn put_bits(numbers: impl Iterator<Item = u64>, bits: u32, out: &mut Vec<u8>) {
    let (mut held, mut count) = (0u128, 0);
    for number in numbers {
        held |= u128::from(number) << count;
        count += bits;
        if count >= u64::BITS {
            out.extend_from_slice(&(held as u64).to_le_bytes());
            held >>= u64::BITS;
            count -= u64::BITS;
        }
    }
    out.extend_from_slice(&held.to_le_bytes()[..count.div_ceil(8) as usize]);
}

/// Takes so many numbers of 1 to 64 bits, and what is left of their last byte.
fn take_bits(front: &mut Front<'_>, count: usize, bits: u32) -> Result<Vec<u64>> {
    let length = count.saturating_mul(bits as usize).div_ceil(8);
    let mut words = front.take(length)?.chunks(8).map(|bytes| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    });
    let (mut held, mut held_bits) = (0u128, 0);
    let number = |_| {
        if held_bits < bits {
            held |= u128::from(words.next().unwrap_or(0)) << held_bits;
            held_bits += u64::BITS;
        }
        let number = held as u64 & (u64::MAX >> (u64::BITS - bits));
        held >>= bits;
        held_bits -= bits;
        number
    };
    Ok((0..count).map(number).collect())
}

#[cfg(test)]
mod tests;
