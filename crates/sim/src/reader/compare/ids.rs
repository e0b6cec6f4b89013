//! IDs in answers: the model knows natural keys alone, and learns from answers which number each of
//! them has. A key map is read like any table, and must hold the keys that were mentioned up to
//! the horizon: all of them, and no other.

use std::collections::BTreeSet;

use lazybase_engine::change_batch::ChangeBatch;
use lazybase_model::id_key::NO_ID;
use lazybase_model::{Horizon, Stage};

use super::super::scan_request;
use super::{Comparing, Shown};
use crate::life::Answer;
use crate::marks::Mark;
use crate::model::{Cell, Change, OnRow};
use crate::rows::{decode, encode, key_of};
use crate::schema::code_of;

impl Comparing<'_> {
    /// Reads the key map of the table, if it has one.
    pub(super) async fn map(&self) -> Answer<()> {
        match self.draw().owned {
            Some(_) => self.read_map(self.expected.table).await,
            None => Ok(()),
        }
    }

    /// Whether an answer holds what is written down nowhere yet.
    fn is_early(&self) -> bool {
        let stages = self.snapshot.stamp().sources.stages();
        stages.contains(&Stage::Open) || stages.contains(&Stage::Ingested)
    }

    /// Learns all numbers of an owner's keys at the horizon.
    async fn read_map(&self, owner: usize) -> Answer<()> {
        let life = self.life;
        let Some(map) = &life.maps[owner] else {
            return Err(format!("table {owner} has no key map").into());
        };
        let draw = &life.run.story.tables[owner];
        let columns: Vec<Shown> = map.version.columns().take(draw.keys + 1).collect();
        let request = scan_request(map.table.id, (0..columns.len()).collect());
        let plan = self.snapshot.plan_scan(request).await;
        let plan = plan.map_err(|error| self.failed("planning a key map's scan", error))?;
        let batches = life.rows(&plan).await;
        let batches = batches.map_err(|error| self.failed("a key map's scan", error))?;
        let mut rows = Vec::new();
        for batch in &batches {
            decode(&columns, batch, &mut rows)?;
        }
        let horizon: Horizon = self.expected.horizon;
        let mut shown = BTreeSet::new();
        for row in &rows {
            let code = code_of(key_of(draw, row));
            let id = row[draw.keys].unwrap_or_default();
            let early = self.is_early();
            life.run.names.lock().learn(owner, code, id, early)?;
            if !shown.insert(code) {
                return Err(format!("the key map of {:?} holds {code} twice", draw.name).into());
            }
        }
        let mut model = life.run.model.lock();
        let count = model.count_to(horizon);
        let known = model.held_after(count, owner).known;
        life.world().meet(Mark::ReadMap);
        match shown == *known {
            true => Ok(()),
            false => Err(format!(
                "the key map of {:?} at {horizon} lacks {:?} and has {:?} besides",
                draw.name,
                known.difference(&shown).collect::<Vec<_>>(),
                shown.difference(&known).collect::<Vec<_>>(),
            )
            .into()),
        }
    }

    /// Puts the keys in place of the numbers that stand for them.
    pub(super) async fn name_rows(&self, columns: &[Shown], rows: &mut [Vec<Cell>]) -> Answer<()> {
        let ids = columns.iter().enumerate();
        let ids = ids.filter_map(|(at, (from, kind))| Some((at, *from, kind.owner()?)));
        let ids: Vec<(usize, usize, usize)> = ids.collect();
        if ids.is_empty() {
            return Ok(());
        }
        self.learn_own(columns, rows)?;
        let (early, settled) = (self.is_early(), self.is_settled());
        for (at, _, owner) in ids {
            let mut asked = false;
            for row in rows.iter_mut() {
                let Some(id) = row[at] else {
                    continue;
                };
                let mut code = self.life.run.names.lock().code(owner, id)?;
                if code.is_none() && !std::mem::replace(&mut asked, true) {
                    self.read_map(owner).await?;
                    code = self.life.run.names.lock().code(owner, id)?;
                }
                let code = code.ok_or_else(|| {
                    format!("an answer shows number {id} of table {owner}, which is no key's")
                })?;
                row[at] = Some(code);
                if early {
                    self.life.world().meet(Mark::IdEarly);
                }
                if settled && self.life.run.names.lock().was_early(owner, id) {
                    self.life.world().meet(Mark::IdKept);
                }
            }
        }
        Ok(())
    }

    /// Whether all that an answer holds is in the authority.
    fn is_settled(&self) -> bool {
        self.snapshot.stamp().sources.stages() == [Stage::Authority]
    }

    /// Rows of an owner tell which number their key has.
    fn learn_own(&self, columns: &[Shown], rows: &[Vec<Cell>]) -> Result<(), String> {
        let draw = self.draw();
        let place = |at: usize| columns.iter().position(|(from, _)| *from == at);
        let Some(id) = draw.owned.and_then(place) else {
            return Ok(());
        };
        let keys: Option<Vec<usize>> = (0..draw.keys).map(place).collect();
        let Some(keys) = keys else {
            return Ok(());
        };
        let early = self.is_early();
        for row in rows {
            let key: Vec<Cell> = keys.iter().map(|at| row[*at]).collect();
            let code = code_of(key_of(draw, &key));
            let id = row[id].ok_or("a row of an owner has no ID")?;
            let mut names = self.life.run.names.lock();
            names.learn(self.expected.table, code, id, early)?;
        }
        Ok(())
    }

    /// The owners and keys that changes name, which have numbers at the horizon.
    fn named(&self, change: &Change) -> Vec<(usize, i64)> {
        let columns = self.known().version.columns();
        let ids = columns.filter_map(|(at, kind)| Some((at, kind.owner()?)));
        let mut named = Vec::new();
        for (at, owner) in ids {
            let in_key = (at < self.draw().keys).then(|| change.key[at.min(1)]);
            let in_row = change.on_absent.as_ref().and_then(|row| row[at]);
            let set = match &change.on_row {
                OnRow::Replace => None,
                OnRow::Keep(sets) => {
                    let set = sets.iter().find(|(column, ..)| *column == at);
                    set.and_then(|(_, cell, _)| *cell)
                }
            };
            let codes = [in_key, in_row, set].into_iter().flatten();
            named.extend(codes.map(|code| (owner, code)));
        }
        named
    }

    /// Whether a key has a number at the horizon.
    fn is_known(&self, owner: usize, code: i64) -> bool {
        let mut model = self.life.run.model.lock();
        let count = model.count_to(self.expected.horizon);
        model.held_after(count, owner).known.contains(&code)
    }

    /// Makes sure that the numbers of all keys in changes are known that have one at the horizon.
    pub(super) async fn learn_numbers(&self, changes: &[Change]) -> Answer<()> {
        for (owner, code) in changes.iter().flat_map(|change| self.named(change)) {
            let number = self.life.run.names.lock().id(owner, code);
            if number.is_none() && self.is_known(owner, code) {
                self.read_map(owner).await?;
            }
        }
        Ok(())
    }

    /// Whether all keys that a change names have numbers at the horizon.
    pub(super) fn has_numbers(&self, change: &Change) -> bool {
        let mut named = self.named(change).into_iter();
        named.all(|(owner, code)| self.is_known(owner, code))
    }

    /// Changes with the numbers of their keys; those that have none get one that is no key's.
    pub(super) fn with_numbers(&self, changes: &[Change]) -> Result<ChangeBatch, String> {
        let names = self.life.run.names.lock();
        encode(self.draw(), self.known(), changes, |owner, code| {
            names.id(owner, code).unwrap_or(NO_ID)
        })
    }
}
