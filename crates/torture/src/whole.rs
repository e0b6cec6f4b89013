//! Whole rows of all tables and views, of one cut: read as they are, counted and compared by the
//! client, so that nothing hangs on what the server makes of them.

use std::collections::{BTreeMap, BTreeSet};

use tokio_postgres::{Client, Error, SimpleQueryMessage};

use crate::history::{Final, Reached, Register};
use crate::readers::{LOOK, reached};
use crate::tables::{ADDED, CELL_COLUMNS, Rows, Slot, note_of};

#[cfg(test)]
mod tests;

/// The rows that a query gave, with the names of their columns.
#[derive(Debug, Clone, Default)]
struct Fetched {
    names: Vec<String>,
    rows: Vec<Vec<Option<String>>>,
}

/// A cut.
#[derive(Debug)]
pub(crate) struct Whole {
    /// The numbers in `registers`, of those that were asked for.
    pub(crate) numbers: Final,
    pub(crate) reached: BTreeMap<Register, Reached>,
    pub(crate) rows: Rows,
}

/// Reads all tables in one transaction, of `registers` the rows with numbers above `from`; the
/// clause says as of when. The inner error tells what contradicts itself.
pub(crate) async fn whole(
    client: &Client,
    from: u64,
    clause: &str,
) -> Result<Result<Whole, String>, Error> {
    let text = format!(
        "BEGIN READ ONLY;
         SELECT register, number, note FROM registers WHERE number > {from}{clause};
         SELECT register, number FROM registers_by_number WHERE number > {from};
         SELECT register, side, value FROM pairs;
         SELECT register, n FROM totals;
         SELECT * FROM slots;
         SELECT * FROM slots_by_side;
         SELECT * FROM cells;
         SELECT * FROM cells_by_w1;
         COMMIT"
    );
    let fetched = fetched(&client.simple_query(&text).await?);
    Ok(Whole::of(from, &fetched))
}

/// What queries gave, one after the other.
fn fetched(messages: &[SimpleQueryMessage]) -> Vec<Fetched> {
    let mut all: Vec<Fetched> = Vec::new();
    for message in messages {
        if let SimpleQueryMessage::RowDescription(columns) = message {
            let names = columns.iter().map(|column| column.name().to_owned());
            all.push(Fetched {
                names: names.collect(),
                rows: Vec::new(),
            });
        } else if let (SimpleQueryMessage::Row(row), Some(fetched)) = (message, all.last_mut()) {
            let cells = (0..row.len()).map(|at| row.get(at).map(str::to_owned));
            fetched.rows.push(cells.collect());
        }
    }
    all
}

/// Everything that is there, without any bound; also what contradicts itself in it.
pub(crate) async fn last(client: &Client) -> Result<(Final, Vec<String>), Error> {
    client.batch_execute("SET lazybase.freshness = '0'").await?;
    let whole = match whole(client, 0, "").await? {
        Ok(whole) => whole,
        Err(what) => return Ok((Final::new(), vec![what])),
    };
    let greatest = |register: Register| {
        let numbers = whole.numbers.get(&register);
        let greatest = numbers.and_then(|numbers| numbers.last().copied());
        greatest.unwrap_or_default()
    };
    let mut wrong = whole
        .rows
        .differences(&Rows::due(0, &whole.numbers, greatest));
    // What the server counts, held to what was counted here.
    match reached(&client.simple_query(LOOK).await?) {
        Ok(counted) if counted == whole.reached => {}
        Ok(counted) => wrong.push(format!(
            "{counted:?} is counted, {:?} is there",
            whole.reached
        )),
        Err(what) => wrong.push(what),
    }
    Ok((whole.numbers, wrong))
}

impl Fetched {
    fn place(&self, name: &str) -> Result<usize, String> {
        let place = self.names.iter().position(|known| known == name);
        place.ok_or_else(|| format!("no column {name:?} among {:?}", self.names))
    }

    /// The values of some columns, all of them numbers, row by row.
    fn numbers<const N: usize>(&self, names: [&str; N]) -> Result<Vec<[i64; N]>, String> {
        let places = names.iter().map(|name| self.place(name));
        let places: Vec<usize> = places.collect::<Result<_, _>>()?;
        let mut all = Vec::with_capacity(self.rows.len());
        for row in &self.rows {
            let mut values = [0; N];
            for (value, place) in values.iter_mut().zip(&places) {
                let cell = row[*place].as_deref();
                let number = cell.and_then(|cell| cell.parse().ok());
                *value = number.ok_or_else(|| format!("{cell:?} is no number, in {row:?}"))?;
            }
            all.push(values);
        }
        Ok(all)
    }
}

/// Rows of which none is there twice.
fn distinct<const N: usize>(what: &str, rows: Vec<[i64; N]>) -> Result<BTreeSet<[i64; N]>, String> {
    let mut seen = BTreeSet::new();
    for row in rows {
        if !seen.insert(row) {
            return Err(format!("{what} has {row:?} twice"));
        }
    }
    Ok(seen)
}

/// The rows of a table, which its view must show too.
fn shown_alike<const N: usize>(
    names: [&str; N],
    (name, table): (&str, &Fetched),
    (view_name, view): (&str, &Fetched),
) -> Result<BTreeSet<[i64; N]>, String> {
    let rows = distinct(name, table.numbers(names)?)?;
    let shown = distinct(view_name, view.numbers(names)?)?;
    let (lost, more): (Vec<_>, Vec<_>) = (
        rows.difference(&shown).collect(),
        shown.difference(&rows).collect(),
    );
    match lost.is_empty() && more.is_empty() {
        true => Ok(rows),
        false => Err(format!(
            "{view_name} lacks {lost:?} of {name}, and has {more:?}"
        )),
    }
}

impl Whole {
    fn of(from: u64, fetched: &[Fetched]) -> Result<Whole, String> {
        let [
            registers,
            by_number,
            pairs,
            totals,
            slots,
            by_side,
            cells,
            by_w1,
        ] = fetched
        else {
            return Err(format!("{} queries have an answer, not 8", fetched.len()));
        };
        let names = ["register", "number"];
        let numbers = shown_alike(
            names,
            ("registers", registers),
            ("registers_by_number", by_number),
        )?;
        notes(registers)?;
        let numbers = by_register(&numbers);
        let reached = whole_batches(pairs, totals)?;
        agree(from, &numbers, &reached)?;
        let names = ["register", "slot", "number", "side"];
        let slot_rows = shown_alike(names, ("slots", slots), ("slots_by_side", by_side))?;
        let cell_rows = shown_alike(CELL_COLUMNS, ("cells", cells), ("cells_by_w1", by_w1))?;
        let rows = Rows {
            from,
            counted: counted(&numbers),
            slots: by_slot(&slot_rows)?,
            added: added(slots)?,
            cells: by_cell(&cell_rows)?,
        };
        Ok(Whole {
            numbers,
            reached,
            rows,
        })
    }
}

fn notes(registers: &Fetched) -> Result<(), String> {
    let note = registers.place("note")?;
    for (row, [number]) in registers.rows.iter().zip(registers.numbers(["number"])?) {
        if row[note].as_deref() != Some(note_of(number as u64).as_str()) {
            return Err(format!("{row:?} has another note than was written"));
        }
    }
    Ok(())
}

fn by_register(numbers: &BTreeSet<[i64; 2]>) -> Final {
    let mut found = Final::new();
    for [register, number] in numbers {
        let numbers = found.entry(*register as Register).or_default();
        numbers.insert(*number as u64);
    }
    found
}

/// How far batches have come, each as a whole.
fn whole_batches(pairs: &Fetched, totals: &Fetched) -> Result<BTreeMap<Register, Reached>, String> {
    let side = pairs.place("side")?;
    let mut sides = BTreeMap::new();
    for (row, [register, value]) in pairs.rows.iter().zip(pairs.numbers(["register", "value"])?) {
        let side = row[side].as_deref().unwrap_or_default();
        if sides.insert((register, side), value).is_some() {
            return Err(format!("pairs has {register}, {side:?} twice"));
        }
    }
    let counts = distinct("totals", totals.numbers(["register", "n"])?)?;
    if sides.len() != 2 * counts.len() {
        return Err(format!("pairs has {sides:?}, totals {counts:?}"));
    }
    let mut found = BTreeMap::new();
    for [register, count] in counts {
        let [a, b] = ["a", "b"].map(|side| sides.get(&(register, side)).copied());
        let (Some(greatest), Some(0)) = (a, a.zip(b).map(|(a, b)| a + b)) else {
            return Err(format!("register {register} has the sides {a:?} and {b:?}"));
        };
        let (greatest, count) = (greatest as u64, count as u64);
        let reached = Reached { greatest, count };
        if found.insert(register as Register, reached).is_some() {
            return Err(format!("totals has register {register} twice"));
        }
    }
    Ok(found)
}

/// Whether the rows of `registers` end where the other tables say; and where all of them were
/// read, are as many.
fn agree(from: u64, numbers: &Final, reached: &BTreeMap<Register, Reached>) -> Result<(), String> {
    let registers: BTreeSet<&Register> = numbers.keys().chain(reached.keys()).collect();
    for register in registers {
        let said = reached.get(register).copied().unwrap_or_default();
        let read = numbers.get(register);
        let greatest = read.and_then(|numbers| numbers.last().copied());
        let count = read.map_or(0, |numbers| numbers.len() as u64);
        let ends = greatest.unwrap_or_default() == said.greatest
            || (greatest.is_none() && said.greatest <= from);
        if !ends || (from == 0 && count != said.count) {
            return Err(format!(
                "register {register} has {count} rows up to {greatest:?}, and says {said:?}"
            ));
        }
    }
    Ok(())
}

fn counted(numbers: &Final) -> BTreeMap<Register, (u64, u64)> {
    let all = numbers.iter();
    let counted = all.map(|(register, numbers)| {
        let count = numbers.len() as u64;
        (*register, (count, numbers.iter().sum::<u64>()))
    });
    counted.collect()
}

fn by_slot(rows: &BTreeSet<[i64; 4]>) -> Result<BTreeMap<(Register, u64), Slot>, String> {
    let mut found = BTreeMap::new();
    for [register, slot, number, side] in rows {
        let (number, side) = (*number as u64, *side as u64);
        let key = (*register as Register, *slot as u64);
        if found.insert(key, Slot { number, side }).is_some() {
            return Err(format!("slots has {key:?} twice"));
        }
    }
    Ok(found)
}

/// The columns that were added to `slots`, each with its default in all rows.
fn added(slots: &Fetched) -> Result<BTreeSet<u64>, String> {
    let mut found = BTreeSet::new();
    for name in &slots.names {
        let known = ["register", "slot", "number", "side"].contains(&name.as_str());
        match name.strip_prefix(ADDED).map(str::parse::<u64>) {
            Some(Ok(number)) => {
                let values = slots.numbers([name.as_str()])?;
                let other = values.iter().find(|[value]| *value as u64 != number);
                if let Some([other]) = other {
                    return Err(format!("{name} is {other}, not its default"));
                }
                found.insert(number);
            }
            _ if known => {}
            _ => return Err(format!("slots has a column {name:?}")),
        }
    }
    Ok(found)
}

fn by_cell(rows: &BTreeSet<[i64; 6]>) -> Result<BTreeMap<(u64, Register), u64>, String> {
    let mut found = BTreeMap::new();
    for [cell, numbers @ ..] in rows {
        for (register, number) in (1..).zip(numbers) {
            let key = (*cell as u64, register);
            if found.insert(key, *number as u64).is_some() {
                return Err(format!("cells has {cell} twice"));
            }
        }
    }
    Ok(found)
}
