//! Tells the answers of queries by hand, and compares.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use datafusion::common::ScalarValue;

use super::value::{Told, Unsure, Value, big, is_like};
use super::{Aggregate, Comparison, Output, Select, Sort, Term, Test};
use crate::rows::State;

/// The values of all columns.
type Row = Vec<Value>;

impl Select {
    /// What is wrong with an answer where the tables held this, or that nothing is; `None` where
    /// it can't be told.
    pub(crate) fn judged(
        &self,
        state: &State,
        batches: &[RecordBatch],
    ) -> Option<Result<(), String>> {
        let mut expected = self.answer(state).ok()?;
        let Ok(mut got) = rows_of(batches) else {
            return Some(Err("it has values of types that it can't have".to_owned()));
        };
        if self.order.is_empty() {
            expected.sort();
            got.sort();
        }
        Some(match expected == got {
            true => Ok(()),
            false => {
                let (expected, got) = (shown(&expected), shown(&got));
                Err(format!("expected by hand\n{expected}but got\n{got}"))
            }
        })
    }

    /// The rows of the answer.
    pub(super) fn answer(&self, state: &State) -> Told<Vec<Row>> {
        let mut rows = Vec::new();
        for row in self.joined(state)? {
            let holds = self.filter.as_ref().map(|filter| filter.holds(&row));
            if holds.transpose()?.unwrap_or(Some(true)) == Some(true) {
                rows.push(row);
            }
        }
        let mut answer = match &self.output {
            Output::Rows { items, distinct } => {
                let made = rows.iter().map(|row| {
                    let values = items.iter().map(|item| item.value(row));
                    values.collect::<Told<Row>>()
                });
                let mut made = made.collect::<Told<Vec<Row>>>()?;
                if *distinct {
                    made.sort();
                    made.dedup();
                }
                made
            }
            Output::Groups {
                by,
                aggregates,
                more_than,
            } => groups(&rows, *by, aggregates, *more_than)?,
        };
        answer.sort_by(|one, other| {
            let mut sorts = self.order.iter().map(|sort| sort.order(one, other));
            let unequal = sorts.find(|order| order.is_ne());
            unequal.unwrap_or(Ordering::Equal)
        });
        if let Some(limit) = self.limit {
            answer = answer.into_iter().skip(self.offset).take(limit).collect();
        }
        Ok(answer)
    }

    /// The rows of one source, with its columns alone.
    fn rows_of_source(&self, state: &State, source: usize) -> Told<Vec<Row>> {
        let (rows, shown) = state.named(&self.sources[source].name).ok_or(Unsure)?;
        let mut places = Vec::new();
        for column in self.columns.iter().filter(|column| column.source == source) {
            let is_it = |at: &&usize| {
                let of = &rows.table.columns[**at];
                of.name == column.name && of.kind == column.kind
            };
            places.push(*shown.iter().find(is_it).ok_or(Unsure)?);
        }
        let values = |cells: &[ScalarValue]| -> Told<Row> {
            places.iter().map(|at| Value::of(&cells[*at])).collect()
        };
        rows.rows.values().map(|row| values(&row.cells)).collect()
    }

    /// The rows of FROM.
    fn joined(&self, state: &State) -> Told<Vec<Row>> {
        let left = self.rows_of_source(state, 0)?;
        let Some([one, other]) = self.on else {
            return Ok(left);
        };
        let right = self.rows_of_source(state, 1)?;
        let before = self
            .columns
            .iter()
            .filter(|column| column.source == 0)
            .count();
        let nothing = vec![Value::Null; self.columns.len() - before];
        let mut found: BTreeMap<&Value, Vec<&Row>> = BTreeMap::new();
        for row in &right {
            let value = &row[other - before];
            if !value.is_null() {
                found.entry(value).or_default().push(row);
            }
        }
        let mut joined = Vec::new();
        for row in &left {
            match found.get(&row[one]) {
                Some(others) => {
                    let both = others.iter().map(|other| [&row[..], &other[..]].concat());
                    joined.extend(both);
                }
                None if self.is_left => joined.push([&row[..], &nothing[..]].concat()),
                None => {}
            }
        }
        Ok(joined)
    }
}

/// Rows of aggregates, behind what they are grouped by.
fn groups(
    rows: &[Row],
    by: Option<usize>,
    aggregates: &[Aggregate],
    more_than: Option<usize>,
) -> Told<Vec<Row>> {
    let mut groups: BTreeMap<Option<&Value>, Vec<&Row>> = BTreeMap::new();
    if by.is_none() {
        groups.insert(None, Vec::new());
    }
    for row in rows {
        let group = by.map(|by| &row[by]);
        groups.entry(group).or_default().push(row);
    }
    let mut answer = Vec::new();
    for (group, rows) in groups {
        if more_than.is_some_and(|bound| rows.len() <= bound) {
            continue;
        }
        let mut row: Row = group.into_iter().cloned().collect();
        for aggregate in aggregates {
            row.push(aggregate.of(&rows)?);
        }
        answer.push(row);
    }
    Ok(answer)
}

impl Aggregate {
    fn of(self, rows: &[&Row]) -> Told<Value> {
        let at = match self {
            Aggregate::Rows => return big(rows.len() as i128),
            Aggregate::Count(at)
            | Aggregate::CountDistinct(at)
            | Aggregate::Sum(at)
            | Aggregate::Least(at)
            | Aggregate::Greatest(at) => at,
        };
        let mut values: Vec<&Value> = rows.iter().map(|row| &row[at]).collect();
        values.retain(|value| !value.is_null());
        values.sort();
        let none = Value::Null;
        match self {
            Aggregate::Rows | Aggregate::Count(_) => big(values.len() as i128),
            Aggregate::CountDistinct(_) => {
                values.dedup();
                big(values.len() as i128)
            }
            Aggregate::Least(_) => Ok(values.first().map_or(none, |value| (*value).clone())),
            Aggregate::Greatest(_) => Ok(values.last().map_or(none, |value| (*value).clone())),
            Aggregate::Sum(_) if values.is_empty() => Ok(none),
            Aggregate::Sum(_) => {
                let numbers = values.iter().map(|value| match value {
                    Value::Number(tenths) => Ok(tenths / 10),
                    _ => Err(Unsure),
                });
                big(numbers.sum::<Told<i128>>()?)
            }
        }
    }
}

impl Term {
    fn value(&self, row: &[Value]) -> Told<Value> {
        match self {
            Term::Column(at) => Ok(row[*at].clone()),
            Term::Constant(constant) => Ok(constant.value.clone()),
            Term::Made(one, operator, other) => one.value(row)?.made(*operator, &other.value(row)?),
        }
    }
}

impl Test {
    /// Whether it holds for a row; NULL where nobody knows.
    fn holds(&self, row: &[Value]) -> Told<Option<bool>> {
        Ok(match self {
            Test::Compared(one, how, other) => one.value(row)?.compared(*how, &other.value(row)?),
            Test::Between(of, [low, high]) => {
                let value = of.value(row)?;
                let above = value.compared(Comparison::AtLeast, &low.value(row)?);
                both(above, value.compared(Comparison::AtMost, &high.value(row)?))
            }
            Test::In(of, items) => {
                let value = of.value(row)?;
                let mut found = Some(false);
                for item in items {
                    let equal = value.compared(Comparison::Equal, &item.value(row)?);
                    found = either(found, equal);
                }
                found
            }
            Test::IsNull(of) => Some(of.value(row)?.is_null()),
            Test::Like(of, pattern) => match of.value(row)? {
                Value::Null => None,
                Value::Text(text) => {
                    let (text, pattern): (Vec<char>, Vec<char>) =
                        (text.chars().collect(), pattern.chars().collect());
                    Some(is_like(&text, &pattern))
                }
                _ => return Err(Unsure),
            },
            Test::Column(at) => match &row[*at] {
                Value::Null => None,
                Value::Truth(truth) => Some(*truth),
                _ => return Err(Unsure),
            },
            Test::And(one, other) => both(one.holds(row)?, other.holds(row)?),
            Test::Or(one, other) => either(one.holds(row)?, other.holds(row)?),
            Test::Not(inner) => inner.holds(row)?.map(|holds| !holds),
            Test::Is(inner, what) => Some(inner.holds(row)? == *what),
        })
    }
}

/// AND.
fn both(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (one, other) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

/// OR.
fn either(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    let none = both(one.map(|one| !one), other.map(|other| !other));
    none.map(|none| !none)
}

impl Sort {
    fn order(&self, one: &[Value], other: &[Value]) -> Ordering {
        let (one, other) = (&one[self.at], &other[self.at]);
        // NULLs are larger than all else, unless it is said where they stand.
        let nulls_first = self.nulls_first.unwrap_or(self.falls);
        match (one.is_null(), other.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if nulls_first => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, true) if nulls_first => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) if self.falls => other.cmp(one),
            (false, false) => one.cmp(other),
        }
    }
}

/// The rows of an answer.
fn rows_of(batches: &[RecordBatch]) -> Told<Vec<Row>> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| {
                let cell = ScalarValue::try_from_array(column, row);
                Value::of(&cell.map_err(|_| Unsure)?)
            });
            rows.push(cells.collect::<Told<Row>>()?);
        }
    }
    Ok(rows)
}

/// More rows are not shown.
const ROWS_SHOWN: usize = 60;

fn shown(rows: &[Row]) -> String {
    let lines = rows.iter().take(ROWS_SHOWN);
    let lines: String = lines.map(|row| format!("{row:?}\n")).collect();
    format!("{lines}({} rows, numbers in tenths)\n", rows.len())
}
