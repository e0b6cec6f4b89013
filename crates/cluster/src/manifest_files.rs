//! Files of the manifest that are damaged, though others tell what they said: named in the status
//! and in the log, and replaced. They are met soon after an opening, which waits for none of this.

use lazybase_engine::manifest::Tended;
use lazybase_engine::manifest::file::FOLDER;
use lazybase_model::Error;

use crate::shared::{DamageState, DamageStatus, Shared, TaskBoard};

/// What is said of each of them.
const TOLD: &str = "other files of the manifest tell the same: nothing is lost";

/// Whether a file is one of the manifest's.
pub(crate) fn is_of_manifest(file: &str) -> bool {
    file.starts_with(FOLDER)
}

impl Shared {
    /// Looks once, soon after the opening, at the files of the manifest that it had no need of, and
    /// has those replaced that are damaged.
    pub(crate) async fn tend_manifest(&self) {
        let mut told = self.tending.lock().await;
        let tended = self.manifests.tend().await;
        let met = self.tasks.lock().note_tended(&tended);
        // What goes on being refused is said once.
        let refused = tended.refused.filter(|error| error.message() != *told);
        for error in met.iter().chain(&refused) {
            self.report_trouble(error);
        }
        if let Some(error) = refused {
            *told = error.message().to_owned();
        }
    }
}

impl TaskBoard {
    /// Brings the damaged files of the manifest up to date; those that nobody was told of.
    fn note_tended(&mut self, tended: &Tended) -> Vec<Error> {
        let mut met = Vec::new();
        for error in &tended.damaged {
            let file = error.file().unwrap_or(FOLDER);
            if self.damage.contains_key(file) {
                continue;
            }
            let status = DamageStatus {
                place: "manifest".to_owned(),
                what: error.message().to_owned(),
                state: DamageState::Healing,
                table: None,
            };
            self.damage.insert(file.to_owned(), status);
            met.push(error.clone().with_detail(TOLD));
        }
        if tended.refused.is_some() {
            return met;
        }
        for (file, status) in &mut self.damage {
            if is_of_manifest(file) && status.state == DamageState::Healing {
                status.state = DamageState::Healed;
                self.replaced.push(format!("{} ({TOLD})", status.what));
            }
        }
        met
    }
}
