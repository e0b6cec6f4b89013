//! What is damaged for good of the log and of the manifest while the database is used, and how it
//! is made good: files of the manifest are replaced, as what they say is in memory; what a log
//! holds is sorted, or somebody restores the file.

use std::time::Duration;

use lazybase_cluster::VerifyReport;
use lazybase_model::Error;

use super::verify;
use crate::damage::records::{check_replaced, strike_log, strike_manifest, unreplaced};
use crate::dice::Dice;
use crate::life::{Answer, Life, Trouble};
use crate::marks::Mark;

/// Damages a file of the log or of the manifest.
pub(super) async fn strike(life: &Life, dice: &mut Dice) -> Answer<()> {
    match dice.percent(60) {
        true => strike_the_log(life, dice).await,
        false => strike_the_manifest(life, dice).await,
    }
}

/// What the status and verifications say while the store can fail proves nothing.
fn is_faultless(life: &Life) -> bool {
    !life.store.failed_since(Duration::ZERO)
}

async fn verified(life: &Life) -> Answer<VerifyReport> {
    let since = life.world().now();
    let failed = |error: Error| life.judge("a verification beside damage", since, error);
    verify(life).await.map_err(failed)
}

/// Most often the file is replaced at once; else the next opening meets it, or the verification at
/// rest does.
async fn strike_the_manifest(life: &Life, dice: &mut Dice) -> Answer<()> {
    // An edit whose fate is not known yet is read back, and has no other copy.
    let through = life.instance.manifest().number;
    let struck = strike_manifest(&life.run, life.store.disk(), dice, through);
    if struck.is_none() || dice.percent(50) {
        return Ok(());
    }
    let before = unreplaced(life);
    verified(life).await?;
    match is_faultless(life) {
        true => check_replaced(life, &before),
        false => Ok(()),
    }
}

/// For a while a log is damaged, while everybody goes on. Then it is restored.
async fn strike_the_log(life: &Life, dice: &mut Dice) -> Answer<()> {
    let manifest = life.instance.manifest();
    let Some(file) = strike_log(&life.run, life.store.disk(), dice, &manifest, true) else {
        return Ok(());
    };
    let held = Duration::from_millis(dice.between(1, 60));
    life.world().sleep(held).await;
    let looks = dice.percent(50);
    let healed = match looks {
        true => verified(life).await.map(|report| report.healed),
        false => Ok(Vec::new()),
    };
    life.run.wounds.restore(&file, life.world().now());
    if healed?.iter().any(|line| line.contains(&file)) {
        life.world().meet(Mark::LogHealed);
    }
    let report = verified(life).await?;
    let mut left = report.problems.iter().chain(&report.healable);
    let left = left.find(|line| !life.run.wounds.are_named_now(line));
    match left.filter(|_| is_faultless(life)) {
        None => Ok(()),
        Some(line) => Err(Trouble::Wrong(format!(
            "{file} was restored, and a verification says: {line}"
        ))),
    }
}

/// At rest each damaged file of the manifest is replaced by a verification; now and then one is
/// damaged for that.
pub(super) async fn replaced(life: &Life) -> Answer<()> {
    if life.run.story.records.at_rest {
        let dice = &mut Dice::of(life.run.story.seed, 403);
        strike_manifest(&life.run, life.store.disk(), dice, u64::MAX);
    }
    let before = unreplaced(life);
    if before.is_empty() {
        return Ok(());
    }
    verified(life).await?;
    check_replaced(life, &before)
}
