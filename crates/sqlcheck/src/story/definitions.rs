//! What happens to tables in a story, in transactions and outside of them.

use std::sync::Arc;

use super::{Ask, Push, Step, Teller};
use crate::change::Change;
use crate::define::Define;
use crate::kind::PATHS;
use crate::schema::{Schema, Table};

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
                _ => self.definition(),
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
        let end = match self.dice.one_in(3) {
            true => {
                self.now = before;
                Step::Rollback
            }
            false => Step::Commit,
        };
        self.steps.push(end);
    }

    fn definition(&mut self) {
        match self.dice.roll(8) {
            0 => self.comment(),
            _ => self.partition(),
        }
    }

    fn define(&mut self, define: Define) {
        self.defined += 1;
        self.steps.push(Step::Define(define));
    }

    /// A definition that says the same of rows.
    fn comment(&mut self) {
        if let Some(table) = self.dice.choose(&self.now.tables).cloned() {
            self.define(Define::Comment {
                table: table.id,
                number: self.defined,
            });
        }
    }

    /// A range partition ends, or begins again; mostly with rows after it.
    fn partition(&mut self) {
        let tables = self.now.tables.iter();
        let ranged: Vec<Arc<Table>> = tables.filter(|of| of.ranges.is_some()).cloned().collect();
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
