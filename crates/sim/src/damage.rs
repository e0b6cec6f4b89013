//! What becomes of files that were damaged for good: nothing may be given up as lost whose rows an
//! earlier stage holds, or held when the database knew of the damage.
//!
//! ```text
//!   struck --met--> suspected, healing --> healed
//!                      | held: promised      \--> lost: wrong if it is held, or was promised
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use lazybase_cluster::{DamageState, DamageStatus};
use lazybase_model::{Error, ViewId};

use crate::life::Life;
use crate::store::Of;

mod gone;
mod held;
pub(crate) mod records;

/// Files that can't be lost any more, by name.
pub(crate) type Promises = BTreeMap<String, Promise>;

/// Why a file can't be lost any more: the database knew of its damage when its rows were held.
#[derive(Debug)]
pub(crate) struct Promise {
    at: Duration,
    /// By what.
    holder: String,
    /// How many files had been damaged for good by then.
    wounds: usize,
}

/// What the status says of damaged files.
type Damage = BTreeMap<String, DamageStatus>;

impl Life {
    /// Whether the database gives up nothing that can be made again.
    pub(crate) fn check_damage(&self) -> Result<(), String> {
        if self.run.wounds.is_empty() {
            return Ok(());
        }
        let damage = self.instance.status().damage;
        let is_calm = self.is_calm(&damage);
        for (file, status) in &damage {
            if self.run.wounds.are_named(file) {
                self.check_file(file, status, &damage, is_calm)?;
            }
        }
        Ok(())
    }

    /// Whether the log of each SCU is kept until what was sorted of it is merged, as long as the
    /// retention lasts: nothing else holds the same rows. One that could not be read is of no use,
    /// and a clock that goes back does not bring one back: the first life alone is looked at, on a
    /// disk that did not fail in it.
    pub(crate) fn check_logs(&self) -> Result<(), String> {
        let has_failed = !self.run.wounds.is_empty() || self.store.failed_since(Duration::ZERO);
        if self.number > 0 || has_failed {
            return Ok(());
        }
        match held::unlogged(&self.instance.manifest(), self.past_begins()) {
            None => Ok(()),
            Some(scu) => Err(format!(
                "no log is kept of SCU {scu}, of which rows are sorted and not merged"
            )),
        }
    }

    fn check_file(
        &self,
        file: &str,
        status: &DamageStatus,
        damage: &Damage,
        is_calm: bool,
    ) -> Result<(), String> {
        let holder = self.holder(file, damage);
        let mut promises = self.promises.lock();
        match (status.state, holder) {
            (DamageState::Suspected | DamageState::Healing, Some(holder)) => {
                let promise = Promise {
                    at: self.world().now(),
                    holder,
                    wounds: self.run.wounds.count(),
                };
                promises.entry(file.to_owned()).or_insert(promise);
                Ok(())
            }
            (DamageState::Lost, Some(holder)) if is_calm => Err(format!(
                "{file} is given up, though {holder} holds the same rows: {status:?}"
            )),
            (DamageState::Lost, _) if is_calm => match promises.get(file) {
                Some(promise) if self.is_kept(promise) => Err(format!(
                    "{file} is given up, though {} held the same rows when its damage was known: \
                     {status:?}",
                    promise.holder
                )),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Whether nothing else can have been damaged since a promise was made.
    fn is_kept(&self, promise: &Promise) -> bool {
        promise.wounds == self.run.wounds.count() && !self.run.past.flipped_since(promise.at)
    }

    /// Whether no file is suspected but for those that were damaged for good.
    fn is_calm(&self, damage: &Damage) -> bool {
        let mut others = damage
            .iter()
            .filter(|(file, _)| !self.run.wounds.are_named(file));
        self.is_quiet() && others.all(|(_, status)| status.state == DamageState::Healed)
    }

    /// What holds the rows of a file, as the newest manifest shows it plainly.
    fn holder(&self, file: &str, damage: &Damage) -> Option<String> {
        let is_whole = |file: &str| {
            let state = damage.get(file).map(|status| status.state);
            !self.run.wounds.are_named(file)
                && state.is_none_or(|state| state == DamageState::Healed)
        };
        held::holder(&self.instance.manifest(), file, &is_whole)
    }

    /// What holds the rows of files that an error names. Where several files were ever damaged, one
    /// may have been made again since the snapshot was taken that met the error.
    pub(crate) fn holder_of(&self, wounds: &[(String, Of)]) -> Option<String> {
        let damage = self.instance.status().damage;
        let [(file, Of::View(_))] = wounds else {
            return None;
        };
        let is_plain = self.run.wounds.count() == 1 && self.is_calm(&damage);
        self.holder(file, &damage).filter(|_| is_plain)
    }

    /// Whether a table's rows can't be told without the files that an error names.
    pub(crate) fn needs(&self, table: usize, error: &Error) -> bool {
        let wounds = self.run.wounds.named(&format!("{error:?}"));
        let needed = self.needed(table);
        let is_needed = |of: &Of| match of {
            Of::View(view) => needed.contains(view),
            // Rows of any table are in the log.
            Of::Log => true,
            Of::Manifest => false,
        };
        wounds.iter().any(|(_, of)| is_needed(of))
    }

    /// Whether a file that a table's rows need was ever damaged for good.
    pub(crate) fn is_struck(&self, table: usize) -> bool {
        let needed = self.needed(table);
        let views = self.run.wounds.views();
        self.run.wounds.has_log() || views.iter().any(|view| needed.contains(view))
    }

    /// The views whose files tell a table's rows.
    fn needed(&self, table: usize) -> Vec<ViewId> {
        let draw = &self.run.story.tables[table];
        let has_ids = draw
            .columns
            .iter()
            .any(|column| column.kind.owner().is_some());
        let known = self.known(table).table;
        let own = [known.primary.id];
        let manifest = self.instance.manifest();
        let views = manifest.views_of(known.id);
        let views = views.map(|state| state.table.primary.id);
        // Numbers are given out in the order of all SCUs.
        let maps = self.maps.iter().flatten().filter(|_| has_ids);
        let maps = maps.map(|map| map.table.primary.id);
        own.into_iter().chain(views).chain(maps).collect()
    }
}
