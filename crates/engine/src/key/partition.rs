//! The partition of a row, from its key's columns: what the key of a partitioned table begins with.
//!
//! ```text
//!   01 | bucket of each hash rule, 2 bytes | number of the range partition, 4 bytes | key columns
//! ```
//!
//! So each partition is one stretch of the key space, sorted by the primary key inside, and runs,
//! merges, filters and point reads need to know nothing of partitions. The bytes are persisted:
//! `docs/formats/key.md` describes them and the hash. Invariant KEY-2: a row's prefix depends on
//! its key and on the rules alone; adding and dropping partitions changes it for no row that is
//! stored.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, FixedSizeBinaryArray};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;
use arrow_row::{RowConverter, SortField};
use lazybase_model::partition::{RangeBounds, RangeRule};
use lazybase_model::table::{ColumnId, Table};
use lazybase_model::{Error, Result};
use twox_hash::XxHash3_64;

use super::{Key, encoding, normalised};
use crate::manifest::KeyRange;

/// The number in the prefix of a row that no known partition holds: such rows are never accepted.
const NOWHERE: u32 = u32::MAX;

/// Some key columns and how they are encoded.
#[derive(Debug)]
struct Columns {
    converter: RowConverter,
    /// Their places in the key.
    places: Vec<usize>,
}

impl Columns {
    fn new(table: &Table, columns: &[ColumnId]) -> Result<Columns> {
        let place = |id: &ColumnId| table.primary.key.iter().position(|key| key == id);
        let places: Option<Vec<usize>> = columns.iter().map(place).collect();
        let places = places.ok_or_else(|| {
            Error::internal(format!(
                "table {:?} is partitioned by a column outside of its key",
                table.name
            ))
        })?;
        let key = table.key_indices();
        let fields = places.iter().map(|place| {
            let column = &table.columns[key[*place]];
            SortField::new(column.data_type.clone())
        });
        let converter = RowConverter::new(fields.collect()).map_err(encoding)?;
        Ok(Columns { converter, places })
    }

    fn encode(&self, key: &[ArrayRef]) -> Result<arrow_row::Rows> {
        let columns: Vec<ArrayRef> = self
            .places
            .iter()
            .map(|place| Arc::clone(&key[*place]))
            .collect();
        self.converter.convert_columns(&columns).map_err(encoding)
    }
}

/// Tells the partition of rows of one table.
#[derive(Debug)]
pub struct Partitioner {
    hash: Vec<(Columns, u16)>,
    range: Option<(Columns, RangeRule)>,
    width: usize,
}

/// Which partitions: the buckets of the hash rules, and the number of the range partition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId {
    /// A bucket for each hash rule.
    pub buckets: Vec<u16>,
    /// The number of the range partition, if there is a range rule.
    pub range: Option<u32>,
}

impl PartitionId {
    /// The encoded keys' first bytes.
    pub fn prefix(&self) -> Vec<u8> {
        let mut bytes = vec![1];
        for bucket in &self.buckets {
            bytes.extend(bucket.to_be_bytes());
        }
        if let Some(number) = self.range {
            bytes.extend(number.to_be_bytes());
        }
        bytes
    }

    /// Where its keys lie.
    pub fn key_range(&self) -> KeyRange {
        let prefix = self.prefix();
        KeyRange {
            high: after_prefix(&prefix),
            low: Some(Key::new(prefix)),
        }
    }
}

/// The least key after all that begin with these bytes; `None` if there is none.
fn after_prefix(prefix: &[u8]) -> Option<Key> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut after = prefix[..=last].to_vec();
    after[last] += 1;
    Some(Key::new(after))
}

impl Partitioner {
    /// The partitioner of a table; `None` where it has no partitions.
    ///
    /// # Errors
    /// `Internal` when a rule names a column outside of the key.
    pub fn of(table: &Table) -> Result<Option<Partitioner>> {
        let Some(rules) = &table.partitioning else {
            return Ok(None);
        };
        let hash = rules
            .hash
            .iter()
            .map(|rule| Ok((Columns::new(table, &rule.columns)?, rule.buckets)));
        let range = rules
            .range
            .as_ref()
            .map(|rule| Ok::<_, Error>((Columns::new(table, &rule.columns)?, rule.clone())));
        Ok(Some(Partitioner {
            hash: hash.collect::<Result<_>>()?,
            range: range.transpose()?,
            width: rules.prefix_bytes(),
        }))
    }

    /// How many bytes of an encoded key come before its columns.
    pub fn prefix_bytes(&self) -> usize {
        1 + self.width
    }

    /// Whether a range of keys lies in one partition for sure.
    pub fn holds_all_of(&self, range: &KeyRange) -> bool {
        let low = range.low.as_ref().map(Key::as_bytes);
        let Some(prefix) = low.and_then(|low| low.get(..self.prefix_bytes())) else {
            return false;
        };
        match (&range.high, after_prefix(prefix)) {
            (Some(high), Some(after)) => *high <= after,
            (None, after) => after.is_none(),
            (Some(_), None) => true,
        }
    }

    /// The type of the prefix as a column.
    pub(crate) fn data_type(&self) -> DataType {
        DataType::FixedSizeBinary(self.width as i32)
    }

    /// The prefixes of keys, whose columns stand in the order of the key, in normal form.
    pub(super) fn prefixes(&self, key: &[ArrayRef]) -> Result<ArrayRef> {
        let rows = key.first().map_or(0, |column| column.len());
        let mut bytes = vec![0; rows * self.width];
        let mut at = 0;
        for (columns, buckets) in &self.hash {
            let encoded = columns.encode(key)?;
            for (row, encoded) in encoded.iter().enumerate() {
                let bucket = bucket_of(encoded.as_ref(), *buckets).to_be_bytes();
                bytes[row * self.width + at..][..2].copy_from_slice(&bucket);
            }
            at += 2;
        }
        if let Some((columns, rule)) = &self.range {
            let encoded = columns.encode(key)?;
            for (row, encoded) in encoded.iter().enumerate() {
                let found = rule.find(encoded.as_ref());
                let number = found.map_or(NOWHERE, |partition| partition.number);
                bytes[row * self.width + at..][..4].copy_from_slice(&number.to_be_bytes());
            }
        }
        let values = Buffer::from_vec(bytes);
        FixedSizeBinaryArray::try_new(self.width as i32, values, None)
            .map(|prefixes| Arc::new(prefixes) as ArrayRef)
            .map_err(encoding)
    }

    /// The prefixes of keys, whose columns stand in the order of the key.
    ///
    /// # Errors
    /// `Internal` when the columns are not of the key's types.
    pub(crate) fn prefix_column(&self, key: &[ArrayRef]) -> Result<ArrayRef> {
        let key: Vec<ArrayRef> = key.iter().map(normalised).collect();
        self.prefixes(&key)
    }

    /// The first key that no range partition takes, if there is one: its row.
    ///
    /// # Errors
    /// `Internal` when the columns are not of the key's types.
    pub fn first_outside(&self, key: &[ArrayRef]) -> Result<Option<usize>> {
        let taken = self.taken(key)?;
        Ok(taken.and_then(|taken| taken.values().iter().position(|is_taken| !is_taken)))
    }

    /// Which keys a range partition takes; `None` where all are taken.
    ///
    /// # Errors
    /// `Internal` when the columns are not of the key's types.
    pub fn taken(&self, key: &[ArrayRef]) -> Result<Option<BooleanArray>> {
        let Some((columns, rule)) = &self.range else {
            return Ok(None);
        };
        let key: Vec<ArrayRef> = key.iter().map(normalised).collect();
        let encoded = columns.encode(&key)?;
        let taken = encoded.iter().map(|encoded| {
            let found = rule.find(encoded.as_ref());
            Some(found.is_some_and(|partition| !partition.dropped))
        });
        let taken: BooleanArray = taken.collect();
        Ok((taken.true_count() < taken.len()).then_some(taken))
    }

    /// The values of the range rule's columns, encoded as its bounds are; the columns stand in the
    /// order of the rule.
    ///
    /// # Errors
    /// `Internal` when there is no such rule, or the columns are of other types.
    pub fn encode_range(&self, columns: &[ArrayRef]) -> Result<Vec<Vec<u8>>> {
        let (of_rule, _) = self.range_rule()?;
        let columns: Vec<ArrayRef> = columns.iter().map(normalised).collect();
        let rows = of_rule.converter.convert_columns(&columns);
        let rows = rows.map_err(encoding)?;
        Ok(rows.iter().map(|row| row.as_ref().to_vec()).collect())
    }

    /// The columns of an encoded value of the range rule.
    ///
    /// # Errors
    /// `Corrupt` when the bytes are none.
    pub fn decode_range(&self, value: &[u8]) -> Result<Vec<ArrayRef>> {
        let (columns, _) = self.range_rule()?;
        let parser = columns.converter.parser();
        columns
            .converter
            .convert_rows([parser.parse(value)])
            .map_err(|error| Error::corrupt(format!("a bound can't be decoded: {error}")))
    }

    fn range_rule(&self) -> Result<&(Columns, RangeRule)> {
        let missing = || Error::internal("the table has no range partitions");
        self.range.as_ref().ok_or_else(missing)
    }

    /// The bucket that a hash rule gives to values of its columns, which stand in its order.
    ///
    /// # Errors
    /// `Internal` when the columns are of other types.
    pub fn buckets(&self, rule: usize, columns: &[ArrayRef]) -> Result<Vec<u16>> {
        let (of_rule, buckets) = &self.hash[rule];
        let columns: Vec<ArrayRef> = columns.iter().map(normalised).collect();
        let rows = of_rule.converter.convert_columns(&columns);
        let rows = rows.map_err(encoding)?;
        Ok(rows
            .iter()
            .map(|row| bucket_of(row.as_ref(), *buckets))
            .collect())
    }

    /// Whether no row of the partition of an encoded key can be there.
    pub fn is_nowhere(&self, key: &[u8]) -> bool {
        let prefix = key.get(..self.prefix_bytes());
        self.range.is_some() && prefix.is_some_and(|of| of.ends_with(&NOWHERE.to_be_bytes()))
    }

    /// The range rule's partitions, by bounds, dropped ones included.
    pub fn range_partitions(&self) -> Option<impl Iterator<Item = (u32, bool, &RangeBounds)>> {
        let (_, rule) = self.range.as_ref()?;
        let partitions = rule.partitions.iter();
        Some(partitions.map(|of| (of.number, of.dropped, &of.bounds)))
    }

    /// All combinations of buckets, rising; one without buckets where there is no hash rule.
    pub fn bucket_combinations(&self) -> Vec<Vec<u16>> {
        let all: Vec<Vec<u16>> = self.hash.iter().map(|(_, n)| (0..*n).collect()).collect();
        combinations(&all)
    }

    /// Every partition that is known, dropped ones included, by key.
    pub fn partitions(&self) -> Vec<PartitionId> {
        let numbers: Vec<Option<u32>> = match &self.range {
            None => vec![None],
            Some((_, rule)) => {
                let numbers = rule.partitions.iter().map(|of| of.number);
                let mut numbers: Vec<u32> = numbers.collect();
                numbers.sort_unstable();
                numbers.into_iter().map(Some).collect()
            }
        };
        let buckets = self.bucket_combinations();
        let of_buckets = |buckets: Vec<u16>| {
            let id = move |range: &Option<u32>| PartitionId {
                buckets: buckets.clone(),
                range: *range,
            };
            numbers.iter().map(id).collect::<Vec<_>>()
        };
        buckets.into_iter().flat_map(of_buckets).collect()
    }

    /// Where the key space is cut so that each range lies in one partition: the beginnings of all
    /// partitions but the first.
    pub fn cuts(&self) -> Vec<Key> {
        let partitions = self.partitions().into_iter().skip(1);
        partitions.map(|id| Key::new(id.prefix())).collect()
    }
}

/// The products of choices, one of each list, in order.
pub fn combinations(choices: &[Vec<u16>]) -> Vec<Vec<u16>> {
    let mut all = vec![Vec::new()];
    for of_one in choices {
        let longer = |buckets: Vec<u16>| {
            let with = move |bucket: &u16| [buckets.as_slice(), &[*bucket]].concat();
            of_one.iter().map(with).collect::<Vec<_>>()
        };
        all = all.into_iter().flat_map(longer).collect();
    }
    all
}

/// The bucket of an encoded value: XXH3-64 without a seed, its upper half scaled to the buckets.
fn bucket_of(encoded: &[u8], buckets: u16) -> u16 {
    let hash = XxHash3_64::oneshot(encoded) >> 32;
    ((hash * u64::from(buckets)) >> 32) as u16
}

#[cfg(test)]
mod tests;
