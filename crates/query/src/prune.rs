//! Predicates on leading columns of the key as bounds on the encoded key.
//!
//! Reads DataFusion's filters; gives a [`KeyRange`], or the keys themselves where few are named.
//! Invariant PRU-1: no row that the filters let pass lies outside; rows inside are tested again
//! by DataFusion. Predicates on other columns are never used here: a newest version that fails
//! must still hide the older one that passes (trap 1 of the design, section 5).

use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};
use lazybase_engine::key::{Key, KeyCodec, Partitioner};
use lazybase_engine::manifest::KeyRange;
use lazybase_model::{Result, Table};

use crate::hex::from_uuid;
use crate::types::UUID;

mod partitions;
#[cfg(test)]
mod tests;

pub(crate) use partitions::PartitionAccess;
use partitions::columns_of;

/// The most keys that are read one by one.
const POINTS_MAX: usize = 1024;

/// How a scan reaches its rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Access {
    /// By a stretch of the key space.
    Range(KeyRange),
    /// By full keys, sorted.
    Keys(Vec<Key>),
    /// By stretches of some partitions.
    Partitions(PartitionAccess),
    /// There are none.
    Nothing,
}

/// What the filters say about one column.
#[derive(Debug, Default, Clone)]
struct Bounds {
    /// Any of these; `None` says nothing.
    any_of: Option<Vec<ScalarValue>>,
    low: Option<(ScalarValue, bool)>,
    high: Option<(ScalarValue, bool)>,
}

/// Whether a filter says something about a leading column of the key.
pub(crate) fn is_useful(filter: &Expr, table: &Table) -> bool {
    let mut bounds = vec![Bounds::default(); table.key_indices().len()];
    note(filter, table, &mut bounds);
    bounds
        .iter()
        .any(|b| b.any_of.is_some() || b.low.is_some() || b.high.is_some())
}

/// The way to the rows that filters, joined by AND, can let pass.
pub(crate) fn access(table: &Table, filters: &[Expr]) -> Result<Access> {
    let key = table.key_indices();
    let mut bounds = vec![Bounds::default(); key.len()];
    for filter in filters {
        note(filter, table, &mut bounds);
    }
    let mut choices = bounds.iter().filter_map(|bound| bound.any_of.as_ref());
    if choices.any(Vec::is_empty) {
        return Ok(Access::Nothing);
    }
    match Partitioner::of(table)? {
        Some(partitioner) => partitions::access(table, &partitioner, &bounds),
        None => plain(table, &key, &bounds),
    }
}

/// The way to rows by some columns, encoded without a partition: bounds for each of them.
fn plain(table: &Table, key: &[usize], bounds: &[Bounds]) -> Result<Access> {
    let mut prefixes: Vec<Vec<ScalarValue>> = vec![Vec::new()];
    for (at, bound) in bounds.iter().enumerate() {
        let Some(choices) = &bound.any_of else {
            return ranged(table, &key[..=at], &prefixes, Some(bound));
        };
        if choices.is_empty() {
            return Ok(Access::Nothing);
        }
        match longer(&prefixes, choices) {
            Some(longer) => prefixes = longer,
            None => return ranged(table, &key[..at], &prefixes, None),
        }
    }
    let mut keys = encode(table, key, &prefixes)?;
    keys.sort();
    keys.dedup();
    Ok(Access::Keys(keys))
}

/// All combinations of the values of columns of which each may have a few; `None` where one may
/// have any, or they are too many.
fn product(bounds: &[Bounds]) -> Option<Vec<Vec<ScalarValue>>> {
    let mut rows = vec![Vec::new()];
    for bound in bounds {
        rows = longer(&rows, bound.any_of.as_ref()?)?;
    }
    Some(rows)
}

/// Each row with each choice behind it; `None` where that gives too many.
fn longer(rows: &[Vec<ScalarValue>], choices: &[ScalarValue]) -> Option<Vec<Vec<ScalarValue>>> {
    if rows.len().saturating_mul(choices.len()) > POINTS_MAX {
        return None;
    }
    let with = |row: &Vec<ScalarValue>| {
        let row = row.clone();
        choices.iter().map(move |choice| {
            let mut longer = row.clone();
            longer.push(choice.clone());
            longer
        })
    };
    Some(rows.iter().flat_map(with).collect())
}

/// The stretch from the least to the greatest prefix; with one prefix, and bounds on the column
/// after it, narrowed by them.
fn ranged(
    table: &Table,
    columns: &[usize],
    prefixes: &[Vec<ScalarValue>],
    bound: Option<&Bounds>,
) -> Result<Access> {
    let width = prefixes[0].len();
    let (mut low, mut high) = (None, None);
    if width > 0 {
        let keys = encode(table, &columns[..width], prefixes)?;
        low = keys.iter().min().cloned();
        high = keys.iter().max().and_then(successor);
    }
    if let (Some(bound), [prefix]) = (bound, prefixes) {
        let beyond = |value: &ScalarValue| -> Result<Key> {
            let mut longer = prefix.clone();
            longer.push(value.clone());
            Ok(encode(table, columns, &[longer])?.swap_remove(0))
        };
        if let Some((value, inclusive)) = &bound.low {
            let key = beyond(value)?;
            low = match inclusive {
                true => Some(key),
                false => match successor(&key) {
                    Some(after) => Some(after),
                    None => return Ok(Access::Nothing),
                },
            };
        }
        if let Some((value, inclusive)) = &bound.high {
            let key = beyond(value)?;
            high = match inclusive {
                true => successor(&key),
                false => Some(key),
            };
        }
    }
    match (&low, &high) {
        (Some(low), Some(high)) if low >= high => Ok(Access::Nothing),
        _ => Ok(Access::Range(KeyRange { low, high })),
    }
}

fn encode(table: &Table, columns: &[usize], rows: &[Vec<ScalarValue>]) -> Result<Vec<Key>> {
    let codec = KeyCodec::new(&table.arrow_schema(), columns.to_vec())?;
    let arrays = columns_of(rows, columns.len())?;
    let keys = codec.encode_columns(&arrays)?;
    Ok((0..rows.len())
        .map(|row| Key::new(keys.row(row).as_ref()))
        .collect())
}

/// The least key after all keys that begin with these bytes; `None` if there is none.
fn successor(key: &Key) -> Option<Key> {
    let bytes = key.as_bytes();
    let last = bytes.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut after = bytes[..=last].to_vec();
    after[last] += 1;
    Some(Key::new(after))
}

/// Notes what one filter says about columns of the key.
fn note(filter: &Expr, table: &Table, bounds: &mut [Bounds]) {
    match filter {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::And,
            right,
        }) => {
            note(left, table, bounds);
            note(right, table, bounds);
        }
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Or,
            right,
        }) => note_either(left, right, table, bounds),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            if let Some((at, value)) = column_and_value(left, right, table) {
                compare(&mut bounds[at], *op, value);
            } else if let (Some((at, value)), Some(op)) =
                (column_and_value(right, left, table), op.swap())
            {
                compare(&mut bounds[at], op, value);
            }
        }
        Expr::Between(Between {
            expr,
            negated: false,
            low,
            high,
        }) => {
            if let Some((at, value)) = column_and_value(expr, low, table) {
                compare(&mut bounds[at], Operator::GtEq, value);
            }
            if let Some((at, value)) = column_and_value(expr, high, table) {
                compare(&mut bounds[at], Operator::LtEq, value);
            }
        }
        Expr::InList(InList {
            expr,
            list,
            negated: false,
        }) => {
            let values: Option<Vec<(usize, ScalarValue)>> = list
                .iter()
                .map(|value| column_and_value(expr, value, table))
                .collect();
            if let Some(values) = values
                && let Some((at, _)) = values.first()
            {
                let at = *at;
                any_of(
                    &mut bounds[at],
                    values.into_iter().map(|(_, value)| value).collect(),
                );
            }
        }
        _ => {}
    }
}

/// Notes the values that either of two filters leaves a column: the planner makes a few equalities
/// of a short IN list.
fn note_either(left: &Expr, right: &Expr, table: &Table, bounds: &mut [Bounds]) {
    let of_side = |side: &Expr| {
        let mut of_side = vec![Bounds::default(); bounds.len()];
        note(side, table, &mut of_side);
        of_side
    };
    let sides = of_side(left).into_iter().zip(of_side(right));
    let choices = sides.map(|(left, right)| {
        let mut choices = left.any_of?;
        choices.extend(right.any_of?);
        Some(choices)
    });
    for (at, choices) in choices.collect::<Vec<_>>().into_iter().enumerate() {
        if let Some(choices) = choices {
            any_of(&mut bounds[at], choices);
        }
    }
}

fn compare(bounds: &mut Bounds, op: Operator, value: ScalarValue) {
    // The planner tells negative zero from zero, keys do not: their bounds stay inclusive.
    let wide = value.data_type().is_floating();
    match op {
        Operator::Eq => any_of(bounds, vec![value]),
        Operator::Gt | Operator::GtEq => {
            let bound = (value, wide || op == Operator::GtEq);
            if bounds.low.as_ref().is_none_or(|(low, _)| bound.0 > *low) {
                bounds.low = Some(bound);
            }
        }
        Operator::Lt | Operator::LtEq => {
            let bound = (value, wide || op == Operator::LtEq);
            if bounds.high.as_ref().is_none_or(|(high, _)| bound.0 < *high) {
                bounds.high = Some(bound);
            }
        }
        _ => {}
    }
}

fn any_of(bounds: &mut Bounds, values: Vec<ScalarValue>) {
    bounds.any_of = Some(match bounds.any_of.take() {
        None => values,
        Some(earlier) => earlier.into_iter().filter(|v| values.contains(v)).collect(),
    });
}

/// The place in the key of a plain column, and a constant as a value of its type, if the
/// constant is one exactly.
fn column_and_value(column: &Expr, value: &Expr, table: &Table) -> Option<(usize, ScalarValue)> {
    let (Expr::Column(column), Expr::Literal(value, _)) = (column, value) else {
        return None;
    };
    let index = table.column_index(&column.name)?;
    let at = table
        .key_indices()
        .iter()
        .position(|place| *place == index)?;
    exactly(value, &table.columns[index].data_type).map(|value| (at, value))
}

fn exactly(value: &ScalarValue, data_type: &arrow::datatypes::DataType) -> Option<ScalarValue> {
    if value.is_null() {
        return None;
    }
    if *data_type == UUID {
        let (ScalarValue::Utf8(Some(text))
        | ScalarValue::Utf8View(Some(text))
        | ScalarValue::LargeUtf8(Some(text))) = value
        else {
            return None;
        };
        return from_uuid(text).map(|bytes| ScalarValue::FixedSizeBinary(16, Some(bytes)));
    }
    if value.data_type() == *data_type {
        return Some(value.clone());
    }
    let cast = value.cast_to(data_type).ok()?;
    let back = cast.cast_to(&value.data_type()).ok()?;
    (back == *value && !cast.is_null()).then_some(cast)
}
