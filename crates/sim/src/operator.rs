//! The operator: pauses stages, seals, settles, verifies, looks at the status; and at the end lets
//! everything come to rest, and checks that it does.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Either, select};
use lazybase_cluster::{
    DamageState, DamageStatus, SettleTo, SnapshotRequest, StageName, VerifyReport,
};
use lazybase_engine::env::Store;
use lazybase_engine::manifest::RunKind;
use lazybase_engine::manifest::collect::files_of;
use lazybase_model::{ErrorKind, Freshness};

use crate::dice::Dice;
use crate::life::{Answer, Life, Trouble};
use crate::marks::Mark;
use crate::reader::compare_all;

/// What can be paused.
const STAGES: [StageName; 4] = [
    StageName::Ingest,
    StageName::Sort,
    StageName::Merge,
    StageName::Authority,
];
/// How long everything may take to come to rest.
const REST_MAX: Duration = Duration::from_secs(300);
/// How long unneeded files may stay after that, beyond the retention.
const COLLECTED_WITHIN: Duration = Duration::from_secs(20);
/// Log files that may stay though nothing needs them: the one that is written, the next one, and
/// those that are kept to be written again.
const LOG_FILES_KEPT: usize = 7;

/// Operates until the life is over.
pub(crate) async fn operate(life: Arc<Life>) {
    let mut dice = Dice::of(life.run.story.seed, 300 + u64::from(life.number));
    while !life.is_over() {
        let pause = Duration::from_millis(dice.between(2, 60));
        life.world().sleep(pause).await;
        let answer = act(&life, &mut dice).await;
        life.report(answer);
        look(&life);
    }
    for stage in STAGES {
        let answer = resume(&life, stage).await;
        life.report(answer);
    }
}

async fn act(life: &Life, dice: &mut Dice) -> Answer<()> {
    let since = life.world().now();
    let failed = |what: &str, error| life.judge(what, since, error);
    match dice.below(10) {
        0..4 => {
            let stage = *dice.pick(&STAGES);
            let pause = life.instance.pause(stage).await;
            pause.map_err(|error| failed("a pause", error))?;
            life.world().meet(Mark::Paused);
            life.world()
                .note("paused", stage as u64, 0, || stage.name().to_owned());
            if dice.percent(40) {
                refused_settle(life, stage).await?;
            }
            let held = Duration::from_millis(dice.between(5, 250));
            life.world().sleep(held).await;
            look(life);
            resume(life, stage).await
        }
        4..6 => {
            let sealed = life.instance.seal().await;
            life.world().meet(Mark::Sealed);
            sealed.map(drop).map_err(|error| failed("a seal", error))
        }
        6..9 => {
            let to = match dice.percent(60) {
                true => SettleTo::Sorted,
                false => SettleTo::Authority,
            };
            settle(life, to, Duration::from_millis(dice.between(20, 600))).await
        }
        _ => {
            let report = verify(life).await;
            let report = report.map_err(|error| failed("a verification", error))?;
            life.world().meet(Mark::Verified);
            let faulty = life.store.failed_since(Duration::ZERO);
            match report.problems.is_empty() || faulty {
                true => Ok(()),
                false => Err(Trouble::Wrong(format!(
                    "a verification found {:?}",
                    report.problems
                ))),
            }
        }
    }
}

/// Notes what the status shows.
fn look(life: &Life) {
    let status = life.instance.status();
    if status.throttle.is_some() || !status.waiting.is_empty() {
        life.world().meet(Mark::Throttled);
    }
    let manifest = life.instance.manifest();
    if manifest
        .tables
        .values()
        .any(|table| table.ranges.len() > 1 && table.table.partitioning.is_none())
    {
        life.world().meet(Mark::Split);
    }
    let bases = manifest.runs.values();
    let merged = bases.filter(|run| run.kind == RunKind::Base && !run.segments.is_empty());
    let merged = merged.count() as u64;
    let mut tally = life.run.tally.lock();
    tally.authority_merges = tally.authority_merges.max(merged);
}

async fn resume(life: &Life, stage: StageName) -> Answer<()> {
    let since = life.world().now();
    let resumed = life.instance.resume(stage).await;
    resumed.map_err(|error| life.judge("resuming", since, error))
}

/// What needs a paused stage is refused at once.
async fn refused_settle(life: &Life, stage: StageName) -> Answer<()> {
    let needs = matches!(stage, StageName::Sort | StageName::Authority);
    if !needs {
        return Ok(());
    }
    match settling(life, SettleTo::Authority).await {
        Err(error) if error.kind() == ErrorKind::Unavailable => {
            life.world().meet(Mark::SettleRefused);
            Ok(())
        }
        Err(error) => Err(Trouble::Wrong(format!(
            "settling with a paused stage: {error:?}"
        ))),
        Ok(()) => Err(Trouble::Wrong(format!(
            "settling does not wait for {}, which is paused",
            stage.name()
        ))),
    }
}

/// Waits for a while until everything has come that far.
async fn settle(life: &Life, to: SettleTo, patience: Duration) -> Answer<()> {
    let since = life.world().now();
    let leaving = life.world().sleep(patience);
    futures::pin_mut!(leaving);
    match select(settling(life, to), leaving).await {
        Either::Right(_) => Ok(()),
        Either::Left((Ok(()), _)) => {
            life.world().meet(match to {
                SettleTo::Sorted => Mark::SettledSorted,
                SettleTo::Authority => Mark::SettledAuthority,
            });
            Ok(())
        }
        Either::Left((Err(error), _)) => Err(life.judge("settling", since, error)),
    }
}

/// Lets everything come to rest: all data in the authority, every answer right, no file that
/// nothing needs.
pub(crate) fn rest(life: &Life) -> BoxFuture<'_, Answer<()>> {
    Box::pin(come_to_rest(life))
}

async fn come_to_rest(life: &Life) -> Answer<()> {
    life.store.set_faults(false);
    let since = life.world().now();
    for stage in STAGES {
        resume(life, stage).await?;
    }
    let leaving = life.world().sleep(REST_MAX);
    futures::pin_mut!(leaving);
    found_again(life).await;
    match select(settling(life, SettleTo::Authority), leaving).await {
        Either::Right(_) => {
            let status = life.instance.status();
            return Err(Trouble::Wrong(format!(
                "nothing comes to rest: sealed {}, sorted {}, authority {}, running {:?}, \
                 troubles {:?}, damage {:?}",
                status.sealed_through,
                status.sorted_through,
                status.authority_through,
                status.running,
                status.troubles,
                status.damage,
            )));
        }
        Either::Left((Err(error), _)) => {
            return Err(Trouble::Wrong(format!("nothing comes to rest: {error:?}")));
        }
        Either::Left((Ok(()), _)) => life.world().meet(Mark::SettledAuthority),
    }
    look(life);
    life.world().note("at rest", 0, 0, || {
        format!("after {:?}", life.world().now() - since)
    });
    let damage = life.instance.status().damage;
    let lost = |damage: &DamageStatus| damage.state == DamageState::Lost && damage.table.is_some();
    if let Some((file, lost)) = damage.iter().find(|(_, damage)| lost(damage)) {
        return Err(Trouble::Wrong(format!(
            "{file} is taken for lost: {lost:?}"
        )));
    }
    answers(life).await?;
    files(life).await?;
    answers(life).await?;
    match verify(life).await {
        Ok(report) if report.is_whole() => Ok(()),
        other => Err(Trouble::Wrong(format!(
            "the database at rest is not whole: {other:?}"
        ))),
    }
}

fn verify(life: &Life) -> BoxFuture<'_, lazybase_model::Result<VerifyReport>> {
    Box::pin(life.instance.verify(&|_| {}))
}

fn settling(life: &Life, to: SettleTo) -> BoxFuture<'_, lazybase_model::Result<()>> {
    Box::pin(life.instance.settle(None, to, &|_| {}))
}

/// What the disk could not read for a while was taken for lost: it is looked at again after a
/// while.
async fn found_again(life: &Life) {
    let deadline = life.world().now() + REST_MAX;
    let lost = || {
        let damage = life.instance.status().damage;
        damage
            .values()
            .any(|damage| damage.state == DamageState::Lost)
    };
    while lost() && life.world().now() < deadline {
        life.world().meet(Mark::LostForAWhile);
        life.world().sleep(Duration::from_secs(1)).await;
    }
}

/// Best effort is the whole truth now.
async fn answers(life: &Life) -> Answer<()> {
    let request = SnapshotRequest {
        freshness: Freshness::BestEffort,
        ..SnapshotRequest::default()
    };
    let snapshot = life.instance.snapshot(request).await;
    let snapshot =
        snapshot.map_err(|error| Trouble::Wrong(format!("no answer at rest: {error:?}")))?;
    life.know(&snapshot).await?;
    let placed = life.run.model.lock().placed();
    let held = life.run.model.lock().count_to(snapshot.horizon());
    if held != placed || snapshot.stamp().batches_left_out > 0 {
        return Err(Trouble::Wrong(format!(
            "best effort at rest is at {}, with {held} batches of {placed}",
            snapshot.horizon()
        )));
    }
    let mut dice = Dice::of(life.run.story.seed, 400);
    compare_all(life, &mut dice, &snapshot).await?;
    life.note_stages(&snapshot);
    Ok(())
}

/// Files that nothing names are gone, in the end.
async fn files(life: &Life) -> Answer<()> {
    let retention = life.run.story.settings.retention;
    let deadline = life.world().now() + retention + COLLECTED_WITHIN;
    let removed = life.store.deletes();
    loop {
        let unneeded = unneeded(life).await?;
        if unneeded.is_empty() {
            break;
        }
        if life.world().now() > deadline {
            let status = life.instance.status();
            return Err(Trouble::Wrong(format!(
                "nothing needs {unneeded:?}, but they stay: pins {:?}, troubles {:?}",
                life.instance.pins(),
                status.troubles
            )));
        }
        life.world().sleep(Duration::from_millis(200)).await;
    }
    if life.store.deletes() > removed {
        life.world().meet(Mark::Collected);
    }
    Ok(())
}

/// The files that a database at rest does not need.
async fn unneeded(life: &Life) -> Answer<Vec<String>> {
    let failed = |error| Trouble::Wrong(format!("the store can't be listed: {error}"));
    let manifest = life.instance.manifest();
    let current = manifest.current_runs();
    let older = manifest.runs.keys().filter(|run| !current.contains(run));
    let mut unneeded: Vec<String> = older.map(|run| format!("run {run}")).collect();
    unneeded.extend(
        manifest
            .scus
            .keys()
            .map(|scu| format!("the log of SCU {scu}")),
    );
    let named: BTreeSet<&str> = files_of(&manifest).collect();
    let segments = life.store.list("segments/").await.map_err(failed)?;
    let loose = segments
        .into_iter()
        .filter(|(name, _)| !named.contains(name.as_str()));
    unneeded.extend(loose.map(|(name, _)| name));
    let logs = life.store.list("log/").await.map_err(failed)?;
    // What could not be removed, or was made in doubt, stays until the log goes on.
    let faulty = life.store.failed_since(Duration::ZERO);
    if logs.len() > LOG_FILES_KEPT && !faulty {
        unneeded.extend(logs.into_iter().map(|(name, _)| name));
    }
    Ok(unneeded)
}
