//! `lazybase repair`: what of a closed database is whole, what was healed, what is lost.
//!
//! The cluster's repair does the looking; healing is that of every opening. Exit status: 0 when all
//! is whole at the end, 3 when a dry run met what can be healed, 4 when something is lost, 1 when
//! the command itself failed.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use lazybase_cluster::{
    Damage, Examination, Instance, SetAside, examine, finish_set_aside, set_aside,
};
use lazybase_engine::env::Env;
use lazybase_engine::env::local::LocalStore;
use lazybase_model::{Error, Result};
use serde_json::{Value, json};

use crate::cli::{RepairArgs, ReportFormat};
use crate::failure;
use crate::figures::{bytes, counted};
use crate::{open, wall};

/// A dry run met damage that opening the database heals.
const HEALABLE: u8 = 3;
/// Something is lost.
const LOST: u8 = 4;
/// The SQLSTATE of a folder that somebody has.
const IN_USE: &str = "55006";
/// How often a folder is tried that this process had, and how long it waits in between.
const FREE_TRIES_MAX: u32 = 500;
/// See `FREE_TRIES_MAX`.
const FREE_EVERY: Duration = Duration::from_millis(10);

/// Runs the command.
pub(crate) async fn run(db: Option<PathBuf>, args: RepairArgs) -> Result<ExitCode> {
    let folder = open::folder(db)?;
    // Whoever has it at the start is another process; later it may be this one.
    drop(LocalStore::open_to_look(&folder)?);
    let own = async || once_free(|| LocalStore::open(&folder)).await;
    let look = async || examine(&once_free(|| LocalStore::open_to_look(&folder)).await?).await;
    let mut aside = SetAside::default();
    let mut before = look().await?;
    if !args.dry_run && !before.pending.is_empty() {
        finish_set_aside(&own().await?).await?;
        before = look().await?;
    }
    if args.set_aside && before.closed.is_some() {
        aside = set_aside(&own().await?).await?;
        before = look().await?;
        before.healable.retain(|damage| !aside.is_given_up(damage));
    }
    let (mut healed, mut given_up) = (Vec::new(), Vec::new());
    let mut after = before.clone();
    if !args.dry_run && before.closed.is_none() {
        let instance =
            Instance::open_healing(own().await?, open::settings(), &before.errors).await?;
        let verified = instance.verify(&|_| {}).await;
        let closed = instance.close().await;
        drop(instance);
        verified.and(closed)?;
        after = look().await?;
        let left =
            |damage: &&Damage| !after.healable.contains(damage) && !after.lost.contains(damage);
        healed = before.healable.iter().filter(left).cloned().collect();
        given_up = before.given_up_by(&after);
    }
    let gone = Gone { aside, given_up };
    let text = match args.format {
        ReportFormat::Text => text(&gone, &healed, &after),
        ReportFormat::Json => format!("{}\n", report(&gone, &healed, &after)),
    };
    failure::write_data(&text)?;
    let lost = after.closed.is_some() || !after.lost.is_empty() || gone.is_something();
    let is_healed = after.healable.is_empty() && after.pending.is_empty();
    Ok(match (lost, is_healed) {
        (true, _) => ExitCode::from(LOST),
        (false, false) => ExitCode::from(HEALABLE),
        (false, true) => ExitCode::SUCCESS,
    })
}

/// Takes a folder that this process had a moment ago: a thread that worked for it may hold it
/// until it has ended.
async fn once_free(take: impl Fn() -> Result<LocalStore>) -> Result<Env> {
    for _ in 0..FREE_TRIES_MAX {
        match take() {
            Err(error) if error.sqlstate() == IN_USE => wall::sleep(FREE_EVERY).await,
            taken => return taken.map(|store| Env::system(Arc::new(store))),
        }
    }
    take().map(|store| Env::system(Arc::new(store)))
}

/// What the database does without from now on.
struct Gone {
    /// What kept it from opening.
    aside: SetAside,
    /// What nothing held, and only horizons of the past needed: they can't be asked for any more.
    given_up: Vec<Damage>,
}

impl Gone {
    fn is_something(&self) -> bool {
        self.aside.is_something() || !self.given_up.is_empty()
    }

    /// What is lost, with what was found so.
    fn lost<'g>(&'g self, found: &'g Examination) -> impl Iterator<Item = &'g Damage> {
        let gone = self.aside.lost.iter().chain(&self.given_up);
        gone.chain(&found.lost)
    }
}

/// Damage in one line: table, SCUs, keys, file.
fn line(damage: &Damage) -> String {
    let mut place = Vec::new();
    place.extend(
        damage
            .table
            .as_ref()
            .map(|table| format!("table {table:?}")),
    );
    place.extend(damage.scus.as_ref().map(|scus| format!("SCUs {scus}")));
    let keys = damage.keys.as_ref();
    place.extend(keys.map(|(least, greatest)| format!("keys {least} to {greatest}")));
    if damage.table.is_some() && !damage.current {
        place.push("of the past only".to_owned());
    }
    match place.is_empty() {
        true => damage.what.clone(),
        false => format!("{}: {}", place.join(", "), damage.what),
    }
}

fn text(gone: &Gone, healed: &[Damage], found: &Examination) -> String {
    let aside = &gone.aside;
    let mut text = String::new();
    for why in &aside.why {
        text += &format!("did not open: {why}\n");
    }
    for file in &aside.files {
        text += &format!("set aside: {file}\n");
    }
    for file in &found.pending {
        text += &format!(
            "not in its place yet: {file}, of which setting aside made a copy before it was \
             broken off; opening the database puts it there\n"
        );
    }
    if let Some(error) = &found.closed {
        text += &format!("does not open: {}\n", error.fact());
    }
    for damage in healed {
        text += &format!("healed: {}\n", line(damage));
    }
    for damage in &found.healable {
        text += &format!("can be healed: {}\n", line(damage));
    }
    for damage in gone.lost(found) {
        text += &format!("lost: {}\n", line(damage));
    }
    text += &format!(
        "read {}, {}: {}\n",
        counted(found.files, "file"),
        bytes(found.bytes),
        match (&found.closed, found.is_whole(), gone.is_something()) {
            (Some(_), ..) if !found.pending.is_empty() => {
                "more can't be told until that is in its place: open it, or repair it without \
                 --dry-run"
            }
            // No file is at fault, as where a newer version wrote them.
            (Some(error), ..) if error.file().is_none() => {
                error.hint().unwrap_or("more can't be told until it opens")
            }
            (Some(_), ..) => {
                "more can't be told until it opens: restore the file, or a backup; or give up \
                 what it said with --set-aside"
            }
            (None, true, false) => "all of it is whole",
            (None, true, true) => "all that is left is whole",
            (None, false, _) => "the rest is whole",
        }
    );
    text
}

fn report(gone: &Gone, healed: &[Damage], found: &Examination) -> Value {
    let of = |damage: &Damage| {
        json!({
            "file": damage.file,
            "table": damage.table,
            "first_scu": damage.scus.map(|scus| scus.first.0),
            "last_scu": damage.scus.map(|scus| scus.last.0),
            "keys": damage.keys,
            "current": damage.current,
            "what": damage.what,
        })
    };
    let all = |damages: &[Damage]| damages.iter().map(of).collect::<Vec<_>>();
    json!({
        "files": found.files,
        "bytes": found.bytes,
        "closed": found.closed.as_ref().map(Error::fact),
        "pending": found.pending,
        "did_not_open": gone.aside.why,
        "set_aside": gone.aside.files,
        "healed": all(healed),
        "healable": all(&found.healable),
        "lost": gone.lost(found).map(of).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests;
