//! What a writer does to a row, drawn: whole rows, some columns of them, or none.
//!
//! Pure.

use crate::dice::Dice;
use crate::model::{Cell, Change, OnRow, Row};
use crate::rows::key_of;
use crate::schema::{Kind, TableDraw, code_of};

/// A change of a row of a table.
pub(crate) fn draw_change(dice: &mut Dice, table: &TableDraw, now_micros: i64) -> Change {
    let row = draw_row(dice, table, now_micros);
    let key = key_of(table, &row);
    let whole = |on_absent| Change {
        key,
        on_row: OnRow::Replace,
        on_absent,
    };
    let what = match table.ttl {
        Some(_) => dice.below(55),
        None => dice.below(100),
    };
    match what {
        0..40 => whole(Some(row)),
        40..55 => whole(None),
        55..68 => Change {
            key,
            on_row: OnRow::Keep(draw_sets(dice, table, now_micros)),
            on_absent: None,
        },
        68..76 => {
            let sets = draw_sets(dice, table, now_micros);
            let mut cells = row.to_vec();
            for (column, cell, _) in &sets {
                cells[*column] = *cell;
            }
            Change {
                key,
                on_row: OnRow::Keep(sets),
                on_absent: Some(cells.into()),
            }
        }
        76..82 => Change {
            key,
            on_row: OnRow::Keep(Vec::new()),
            on_absent: Some(row),
        },
        82..94 => {
            let columns = (table.keys..table.columns.len()).filter(|at| table.owned != Some(*at));
            let sets = columns.map(|at| (at, row[at], table.columns[at].merge.is_some()));
            Change {
                key,
                on_row: OnRow::Keep(sets.collect()),
                on_absent: Some(row),
            }
        }
        _ => Change {
            key,
            on_row: OnRow::Keep(draw_sets(dice, table, now_micros)),
            on_absent: Some(row),
        },
    }
}

/// Some columns with new values, now and then combined where the column has an operator.
fn draw_sets(dice: &mut Dice, table: &TableDraw, now_micros: i64) -> Vec<(usize, Cell, bool)> {
    let mut sets = Vec::new();
    for at in table.keys..table.columns.len() {
        if dice.percent(50) && table.owned != Some(at) {
            let combine = table.columns[at].merge.is_some() && dice.percent(60);
            sets.push((at, draw_cell(dice, table, at, now_micros), combine));
        }
    }
    sets
}

fn draw_row(dice: &mut Dice, table: &TableDraw, now_micros: i64) -> Row {
    let columns = 0..table.columns.len();
    let cells = columns.map(|at| draw_cell(dice, table, at, now_micros));
    let mut cells: Vec<Cell> = cells.collect();
    if let Some(id) = table.owned {
        cells[id] = Some(code_of(key_of(table, &cells)));
    }
    cells.into()
}

fn draw_cell(dice: &mut Dice, table: &TableDraw, at: usize, now_micros: i64) -> Cell {
    if at < table.keys {
        return Some(match table.columns[at].kind {
            id @ Kind::Id { .. } => id.natural_key(dice),
            _ => dice.below(table.key_values[at] as u64) as i64,
        });
    }
    match table.ttl {
        Some((column, micros)) if column == at && !dice.percent(10) => {
            let span = micros as i64 + 1_000_000;
            Some(now_micros - span + dice.below(2 * span as u64) as i64)
        }
        _ => table.columns[at].kind.value(dice),
    }
}
