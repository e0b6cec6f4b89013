//! What happens to tables in a story, in transactions and outside of them.

use std::sync::Arc;

use super::{Ask, Push, Step, Teller};
use crate::change::Change;
use crate::define::Define;
use crate::filter::Filter;
use crate::kind::{Kind, PATHS};
use crate::schema::{Schema, Table, View};

impl Teller {
    /// Changes of tables, with changes of rows and queries between: mostly a transaction.
    pub(super) fn definitions(&mut self) {
        let in_transaction = !self.dice.one_in(3);
        let before = self.now.clone();
        let mut saved: Option<Schema> = None;
        if in_transaction {
            self.steps.push(Step::Begin { defines: true });
        }
        for _ in 0..1 + self.dice.roll(4) {
            match (self.dice.roll(8), &saved) {
                (0, _) if in_transaction => {
                    saved = Some(self.now.clone());
                    self.steps.push(Step::Savepoint);
                }
                (1, Some(then)) => {
                    self.now = then.clone();
                    self.steps.push(Step::RollbackTo);
                }
                (2 | 3, _) => self.change(PATHS.0),
                _ => self.definition(in_transaction.then_some(&before)),
            }
            for _ in 0..self.dice.roll(3) {
                self.query(Some(Ask::Writer));
            }
            if self.dice.one_in(6) {
                let push = [Push::Seal, Push::Sort, Push::Authority][self.dice.roll(3)];
                self.steps.push(Step::Push(push));
            }
        }
        if !in_transaction {
            return;
        }
        if !self.dice.one_in(3) {
            self.steps.push(Step::Commit);
            return self.ask_again();
        }
        self.steps.push(Step::Rollback);
        // What was undone is asked for: it must be as it was, or not there.
        let undone = std::mem::replace(&mut self.now, before).seen();
        for _ in 0..self.dice.roll(3) {
            self.query_over(&undone, Ask::Writer);
        }
    }

    /// One of them; `found` are the tables that a transaction has not made itself.
    fn definition(&mut self, found: Option<&Schema>) {
        match self.dice.roll(16) {
            0 => self.comment(),
            1 | 2 => self.create(),
            3 => self.copy(),
            4 | 5 => self.rename(),
            6 => self.swap(),
            7 => self.drop_table(),
            8 => self.make_again(),
            9 => self.add_key(found),
            10 => self.create_temporary(),
            _ => self.partition(),
        }
    }

    /// A table that rows are written to.
    fn written(&mut self) -> Option<Arc<Table>> {
        let tables = self.now.seen().tables.into_iter();
        let written: Vec<Arc<Table>> = tables.filter(|of| !of.owner).collect();
        self.dice.choose(&written).cloned()
    }

    fn number(&mut self) -> usize {
        self.numbers += 1;
        self.numbers - 1
    }

    /// A new table, with rows, and perhaps a view that it may get later.
    fn create(&mut self) {
        let number = self.number();
        let with_files = self.now.tables.iter().any(|of| of.owner);
        let table = Arc::new(Table::draw(&mut self.dice, number, with_files));
        self.begin_table(Define::Create(Arc::clone(&table)), table);
    }

    /// A temporary table: in its session it stands before another one, or a view, whose name it
    /// has.
    fn create_temporary(&mut self) {
        let number = self.number();
        let seen = self.now.seen();
        let tables = seen
            .tables
            .iter()
            .filter(|of| !of.owner && !of.is_temporary);
        let tables = tables.map(|of| &of.name);
        let names: Vec<&String> = tables.chain(seen.views.iter().map(|of| &of.name)).collect();
        let name = self
            .dice
            .choose(&names)
            .filter(|_| number.is_multiple_of(2));
        let name = name.map_or_else(|| format!("t{number}"), |name| (*name).clone());
        let table = Table::draw(&mut self.dice, number, false).temporary(name);
        let table = Arc::new(table);
        self.begin_table(Define::Create(Arc::clone(&table)), table);
    }

    fn begin_table(&mut self, define: Define, table: Arc<Table>) {
        self.now.put(Arc::clone(&table));
        self.define(define);
        let rows = Change::rows(&mut self.dice, &self.now, Arc::clone(&table), PATHS.0);
        self.steps.push(Step::Change(rows));
        if table.is_temporary {
            return;
        }
        let name = format!("v{}", self.all.views.len());
        let view = View::draw(&mut self.dice, name, &table);
        self.all.views.extend(view.map(Arc::new));
    }

    /// A table with the rows of another one.
    fn copy(&mut self) {
        let Some(of) = self.written() else {
            return;
        };
        let (number, with_key) = (self.number(), !self.dice.one_in(3));
        match of.copied(number, with_key).map(Arc::new) {
            Some(table) => {
                let define = Define::Copy {
                    table: Arc::clone(&table),
                    of: of.id,
                };
                self.begin_table(define, table);
            }
            None => self.create(),
        }
    }

    fn rename(&mut self) {
        if let Some(table) = self.written() {
            let name = format!("t{}", self.number());
            self.rename_to(&table, name);
        }
    }

    fn rename_to(&mut self, table: &Table, name: String) {
        let renamed = Arc::new(table.renamed(name));
        self.now.put(Arc::clone(&renamed));
        self.define(Define::Rename(renamed));
    }

    /// Two tables take each other's names.
    fn swap(&mut self) {
        let (Some(one), Some(other)) = (self.written(), self.written()) else {
            return;
        };
        if one.id == other.id || one.is_temporary || other.is_temporary {
            return self.rename();
        }
        let aside = format!("t{}", self.number());
        self.rename_to(&one, aside);
        self.rename_to(&other, one.name.clone());
        self.rename_to(&one, other.name.clone());
    }

    /// A table without a key is given one, mostly once no NULL is in the way.
    fn add_key(&mut self, found: Option<&Schema>) {
        let may = |of: &&Arc<Table>| {
            let is_own = found.is_none_or(|found| !found.has(of.id));
            of.key.is_empty() && !of.owner && is_own
        };
        let seen = self.now.seen().tables;
        let may: Vec<Arc<Table>> = seen.iter().filter(may).cloned().collect();
        let of = match self.dice.choose(&may).cloned() {
            Some(table) => table,
            None => {
                let number = self.number();
                let table = Arc::new(Table::with_keys(&mut self.dice, number, false, 0));
                self.begin_table(Define::Create(Arc::clone(&table)), Arc::clone(&table));
                table
            }
        };
        let mut key: Vec<usize> = (0..of.columns.len()).collect();
        key.retain(|at| of.columns[*at].kind != Kind::List);
        self.dice.shuffle(&mut key);
        key.truncate(2 + self.dice.roll(3));
        if key.is_empty() {
            return;
        }
        let nullable = key.iter().filter(|at| of.may_be_null(**at));
        let nulls = nullable.map(|at| format!("{} IS NULL", of.columns[*at].name));
        let nulls: Vec<String> = nulls.collect();
        if !nulls.is_empty() && !self.dice.one_in(4) {
            self.steps.push(Step::Change(Change::Delete {
                table: Arc::clone(&of),
                filter: Filter::of(nulls.join(" OR ")),
            }));
        }
        let table = Arc::new(of.keyed(self.number(), key));
        self.now.remove(of.id);
        let define = Define::Key {
            table: Arc::clone(&table),
            of: of.id,
        };
        self.begin_table(define, table);
    }

    /// One of the tables ends that were made later than those that the story begins with.
    fn drop_table(&mut self) {
        let begun = self.all.tables.len();
        let seen = self.now.seen().tables.into_iter();
        let later: Vec<Arc<Table>> = seen.filter(|of| of.id >= begun).collect();
        match self.dice.choose(&later).cloned() {
            Some(table) => {
                self.now.remove(table.id);
                self.define(Define::Drop { table: table.id });
            }
            None => self.create(),
        }
    }

    /// A table ends, and another one like it takes its name.
    fn make_again(&mut self) {
        let Some(table) = self.written() else {
            return;
        };
        self.now.remove(table.id);
        self.define(Define::Drop { table: table.id });
        let again = Arc::new(table.made_again(self.number()));
        self.begin_table(Define::Create(Arc::clone(&again)), again);
    }

    fn define(&mut self, define: Define) {
        self.defined += 1;
        self.steps.push(Step::Define(define));
    }

    /// A definition that says the same of rows.
    fn comment(&mut self) {
        let seen = self.now.seen().tables;
        if let Some(table) = self.dice.choose(&seen) {
            self.define(Define::Comment {
                table: table.id,
                number: self.defined,
            });
        }
    }

    /// A range partition ends, or begins again; mostly with rows after it.
    fn partition(&mut self) {
        let tables = self.now.seen().tables.into_iter();
        let ranged: Vec<Arc<Table>> = tables.filter(|of| of.ranges.is_some()).collect();
        let Some(table) = self.dice.choose(&ranged).cloned() else {
            return self.comment();
        };
        let count = table.ranges.as_ref().map_or(0, |ranges| ranges.count());
        let is_ended = |part: &usize| self.now.ended.contains(&(table.id, *part));
        let (ended, taking): (Vec<usize>, Vec<usize>) = (0..count).partition(is_ended);
        let begins = taking.len() < 2 || !ended.is_empty() && self.dice.one_in(2);
        let among = if begins { &ended } else { &taking };
        if let Some(part) = self.dice.choose(among).copied() {
            self.turn(&table, part, begins);
            // What is thrown away is often filled anew at once.
            if !begins && self.dice.one_in(2) {
                self.turn(&table, part, true);
            }
        }
        if self.dice.one_in(2) {
            let rows = Change::rows(&mut self.dice, &self.now, table, PATHS.0);
            self.steps.push(Step::Change(rows));
        }
    }

    fn turn(&mut self, table: &Table, part: usize, adds: bool) {
        let place = (table.id, part);
        match adds {
            true => self.now.ended.remove(&place),
            false => self.now.ended.insert(place),
        };
        self.define(Define::Partition {
            table: table.id,
            part,
            adds,
        });
    }
}
