//! Full keys in a WHERE: what lets a point read pass the planner, and an UPDATE or DELETE read
//! nothing.
//!
//! Reads sqlparser's expressions and a table; gives the keys as columns. Invariant KEY-1: the
//! predicate holds for exactly the rows of the keys given; anything else is not recognised.

use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::{filter, take};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};
use lazybase_engine::key::{Key, KeyCodec, Partitioner};
use lazybase_model::{Error, Result, Table};

use crate::cast::{checked_key, place};
use crate::literal::{Literal, to_array};
use crate::parse::folded;
use crate::value::Value;

#[cfg(test)]
mod tests;

/// The most keys that are named one by one; more are left to the planner.
const KEYS_MAX: usize = 4096;

/// The keys that a predicate names, each once, sorted.
#[derive(Debug)]
pub(crate) struct NamedKeys {
    /// The key's columns, in the order of the key.
    pub(crate) columns: Vec<ArrayRef>,
    /// The same, encoded.
    pub(crate) encoded: Vec<Key>,
}

impl NamedKeys {
    /// The keys of which a row can be there now: no partition takes the others.
    pub(crate) fn taken(self, table: &Table) -> Result<NamedKeys> {
        let partitioner = Partitioner::of(table)?;
        let taken = partitioner.map(|partitioner| partitioner.taken(&self.columns));
        let Some(taken) = taken.transpose()?.flatten() else {
            return Ok(self);
        };
        let columns = self.columns.iter().map(|column| filter(column, &taken));
        let encoded = self.encoded.into_iter().zip(taken.values());
        Ok(NamedKeys {
            columns: columns
                .collect::<Result<_, _>>()
                .map_err(|error| Error::internal(error.to_string()))?,
            encoded: encoded
                .filter(|(_, taken)| *taken)
                .map(|(key, _)| key)
                .collect(),
        })
    }
}

/// Keys whose columns are constants or parameters: one constant a key in each column.
#[derive(Debug)]
pub(crate) struct KeyPattern {
    columns: Vec<Vec<Literal>>,
    /// The codec of the table's keys, once it was needed.
    codec: OnceLock<KeyCodec>,
}

impl KeyPattern {
    /// The constants of the one key that is asked for, in the order of the key's columns.
    pub(crate) fn single(&self) -> Option<Vec<Literal>> {
        let one = |column: &Vec<Literal>| match column.as_slice() {
            [literal] => Some(literal.clone()),
            _ => None,
        };
        self.columns.iter().map(one).collect()
    }

    /// The keys, with values for the parameters. `None` leaves the predicate to the planner.
    ///
    /// # Errors
    /// `Invalid` for keys that no row can have.
    pub(crate) fn keys(&self, table: &Table, values: &[Literal]) -> Result<Option<NamedKeys>> {
        let key = table.key_indices();
        let mut arrays = Vec::with_capacity(key.len());
        for (literals, index) in self.columns.iter().zip(&key) {
            let place = place(table, *index, 1);
            let literals: Vec<Literal> = literals.iter().map(|l| l.bound(values)).collect();
            let fits = literals
                .iter()
                .all(|literal| literal.compares_with(place.data_type()));
            match to_array(&literals, &place) {
                // The planner says what is wrong with a constant, or compares it after a cast.
                Ok(array) if fits => arrays.push(checked_key(array, &place)?),
                _ => return Ok(None),
            }
        }
        distinct_by(arrays, self.codec(table)?).map(Some)
    }

    /// The one key that is asked for where a parameter gives it, a whole number is all of a key,
    /// and the value is one: most reads need no arrays for theirs.
    ///
    /// # Errors
    /// `Invalid` when the table's keys have no order.
    pub(crate) fn integer(&self, table: &Table, values: &[Value]) -> Result<Option<Key>> {
        let [column] = self.columns.as_slice() else {
            return Ok(None);
        };
        let [Literal::Parameter(number)] = column.as_slice() else {
            return Ok(None);
        };
        match values.get(number - 1) {
            Some(Value::Int(value)) => Ok(self.codec(table)?.integer(*value)),
            _ => Ok(None),
        }
    }

    fn codec(&self, table: &Table) -> Result<&KeyCodec> {
        if let Some(codec) = self.codec.get() {
            return Ok(codec);
        }
        let codec = KeyCodec::primary(table)?;
        Ok(self.codec.get_or_init(|| codec))
    }
}

/// The keys that a predicate names; `None` leaves it to the planner.
pub(crate) fn named_keys(
    predicate: &Expr,
    table: &Table,
    alias: &str,
) -> Result<Option<NamedKeys>> {
    match key_pattern(predicate, table, alias) {
        Some(pattern) => pattern.keys(table, &[]),
        None => Ok(None),
    }
}

/// The keys, if the predicate is `key = constant` for each column of the key, joined by AND, or
/// IN lists of constants, and nothing else; a parameter counts as a constant.
pub(crate) fn key_pattern(predicate: &Expr, table: &Table, alias: &str) -> Option<KeyPattern> {
    if table.hidden_key {
        return None;
    }
    let key = table.key_indices();
    let mut choices: Vec<Option<Vec<Literal>>> = vec![None; key.len()];
    let mut rows = None;
    if !collect(predicate, table, alias, &key, &mut choices, &mut rows) {
        return None;
    }
    let columns = match (rows, choices.iter().all(Option::is_none)) {
        (Some(columns), true) => columns,
        (None, false) => product(choices.into_iter().collect::<Option<Vec<_>>>()?),
        _ => return None,
    };
    let few = columns.iter().all(|column| column.len() <= KEYS_MAX);
    few.then(|| KeyPattern {
        columns,
        codec: OnceLock::new(),
    })
}

/// Takes an AND of conditions apart; false if one of them is not understood.
fn collect(
    predicate: &Expr,
    table: &Table,
    alias: &str,
    key: &[usize],
    choices: &mut [Option<Vec<Literal>>],
    rows: &mut Option<Vec<Vec<Literal>>>,
) -> bool {
    match predicate {
        Expr::Nested(inner) => collect(inner, table, alias, key, choices, rows),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } => {
            collect(left, table, alias, key, choices, rows)
                && collect(right, table, alias, key, choices, rows)
        }
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Eq,
            right,
        } => {
            let (column, constant) = match Literal::or_parameter(right) {
                Some(literal) => (left, literal),
                None => match Literal::or_parameter(left) {
                    Some(literal) => (right, literal),
                    None => return false,
                },
            };
            choose(column, vec![constant], table, alias, key, choices)
        }
        Expr::InList {
            expr,
            list,
            negated: false,
        } => match expr.as_ref() {
            Expr::Tuple(columns) => {
                rows.is_none()
                    && tuples(columns, list, table, alias, key)
                        .map(|columns| *rows = Some(columns))
                        .is_some()
            }
            column => match list
                .iter()
                .map(Literal::or_parameter)
                .collect::<Option<Vec<_>>>()
            {
                Some(literals) => choose(column, literals, table, alias, key, choices),
                None => false,
            },
        },
        _ => false,
    }
}

/// The place in the key of the column that an expression names.
fn key_place(column: &Expr, table: &Table, alias: &str, key: &[usize]) -> Option<usize> {
    let name = match column {
        Expr::Identifier(name) => folded(name),
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [qualifier, name] if folded(qualifier) == alias => folded(name),
            _ => return None,
        },
        _ => return None,
    };
    let index = table.column_index(&name)?;
    key.iter().position(|place| *place == index)
}

fn choose(
    column: &Expr,
    literals: Vec<Literal>,
    table: &Table,
    alias: &str,
    key: &[usize],
    choices: &mut [Option<Vec<Literal>>],
) -> bool {
    match key_place(column, table, alias, key) {
        // A column named twice would need its choices intersected: rare, left to the planner.
        Some(place) if choices[place].is_none() => {
            choices[place] = Some(literals);
            true
        }
        _ => false,
    }
}

/// `(a, b) IN ((1, 2), (3, 4))` as columns in the order of the key.
fn tuples(
    columns: &[Expr],
    list: &[Expr],
    table: &Table,
    alias: &str,
    key: &[usize],
) -> Option<Vec<Vec<Literal>>> {
    let places: Vec<usize> = columns
        .iter()
        .map(|column| key_place(column, table, alias, key))
        .collect::<Option<_>>()?;
    let covered = (0..key.len()).all(|place| places.contains(&place));
    if !covered || places.len() != key.len() {
        return None;
    }
    let mut chosen = vec![Vec::with_capacity(list.len()); key.len()];
    for row in list {
        let Expr::Tuple(values) = row else {
            return None;
        };
        if values.len() != places.len() {
            return None;
        }
        for (value, place) in values.iter().zip(&places) {
            chosen[*place].push(Literal::or_parameter(value)?);
        }
    }
    Some(chosen)
}

/// All combinations, as columns; empty columns past the limit's first excess.
fn product(choices: Vec<Vec<Literal>>) -> Vec<Vec<Literal>> {
    let mut rows: Vec<Vec<Literal>> = vec![Vec::new()];
    for column in &choices {
        if rows.len().saturating_mul(column.len()) > KEYS_MAX {
            // Longer than the limit: the caller leaves such predicates to the planner.
            return vec![vec![Literal::Null; KEYS_MAX + 1]];
        }
        rows = rows
            .iter()
            .flat_map(|row| {
                column.iter().map(|literal| {
                    let mut longer = row.clone();
                    longer.push(literal.clone());
                    longer
                })
            })
            .collect();
    }
    (0..choices.len())
        .map(|at| rows.iter().map(|row| row[at].clone()).collect())
        .collect()
}

/// Sorts keys and drops repeated ones.
pub(crate) fn distinct(columns: Vec<ArrayRef>, table: &Table) -> Result<NamedKeys> {
    distinct_by(columns, &KeyCodec::primary(table)?)
}

fn distinct_by(columns: Vec<ArrayRef>, codec: &KeyCodec) -> Result<NamedKeys> {
    let encoded = codec.encode_columns(&columns)?;
    // No row can have a key that no partition takes.
    let partitioner = codec.partitioner();
    let may_be = |row: &u32| {
        let key = encoded.row(*row as usize);
        partitioner.is_none_or(|partitioner| !partitioner.is_nowhere(key.as_ref()))
    };
    if encoded.num_rows() == 1 && may_be(&0) {
        return Ok(NamedKeys {
            encoded: vec![Key::new(encoded.row(0).as_ref())],
            columns,
        });
    }
    let mut order: Vec<u32> = (0..encoded.num_rows() as u32).filter(may_be).collect();
    order.sort_by(|a, b| encoded.row(*a as usize).cmp(&encoded.row(*b as usize)));
    order.dedup_by(|a, b| encoded.row(*a as usize) == encoded.row(*b as usize));
    let keys = order
        .iter()
        .map(|row| Key::new(encoded.row(*row as usize).as_ref()))
        .collect();
    let order = UInt32Array::from(order);
    let columns = columns
        .iter()
        .map(|column| take(column, &order, None))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Error::internal(error.to_string()))?;
    debug_assert!(columns.iter().all(|column| column.len() == order.len()));
    Ok(NamedKeys {
        columns: columns.iter().map(Arc::clone).collect(),
        encoded: keys,
    })
}
