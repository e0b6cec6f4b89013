//! The naive model: a map, and changes applied one by one.

use std::collections::BTreeMap;

use crate::harness::{Change, Row};

/// What a table holds after some batches.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Model(BTreeMap<i64, (Option<i64>, Option<String>)>);

impl Model {
    pub(crate) fn apply(&mut self, changes: &[Change]) {
        for change in changes.iter().cloned() {
            match change {
                Change::Upsert((id, count, note)) => {
                    self.0.insert(id, (count, note));
                }
                Change::Delete(id) => {
                    self.0.remove(&id);
                }
                Change::Update(id, count) => {
                    if let Some(row) = self.0.get_mut(&id) {
                        row.0 = count;
                    }
                }
                Change::UpsertValue(id, count) => {
                    self.0.entry(id).or_default().0 = count;
                }
                Change::InsertIfAbsent((id, count, note)) => {
                    self.0.entry(id).or_insert((count, note));
                }
            }
        }
    }

    pub(crate) fn row(&self, id: i64) -> Option<Row> {
        let (count, note) = self.0.get(&id)?;
        Some((id, *count, note.clone()))
    }

    pub(crate) fn rows(&self) -> Vec<Row> {
        self.0
            .iter()
            .map(|(id, (count, note))| (*id, *count, note.clone()))
            .collect()
    }
}
