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
use lazybase_engine::manifest::collect::files_of;
use lazybase_engine::manifest::{Manifest, RunKind};
use lazybase_model::{Error, ErrorKind, Freshness, ViewId};

use crate::dice::Dice;
use crate::life::{Answer, Life, Trouble};
use crate::marks::Mark;
use crate::reader::{compare_all, compare_one, ids_of};
use crate::store::{Harm, Of};
use crate::taker::take_at_rest;

mod records;
mod views;

pub(crate) use views::check_views;

/// What can be paused.
const STAGES: [StageName; 5] = [
    StageName::Ingest,
    StageName::Remap,
    StageName::Sort,
    StageName::Merge,
    StageName::Authority,
];
/// How long everything may take to come to rest.
const REST_MAX: Duration = Duration::from_secs(300);
/// How long unneeded files may stay after that, beyond the retention.
const COLLECTED_WITHIN: Duration = Duration::from_secs(20);
/// How often it is looked whether they are gone.
const COLLECTED_LOOK: Duration = Duration::from_millis(500);
/// How long the coordinator may take to hear of what was suspected.
const ECHO_HEARD: Duration = Duration::from_secs(1);
/// Log files that may stay though nothing needs them: the one that is written, the next one, those
/// that are kept to be written again, and one on its way out.
const LOG_FILES_KEPT: usize = 7;
/// Log files that a restart may add to them, until the log goes on in a new file: the one that was
/// written, and the one that was ready and tells of it.
const LOG_FILES_OF_RESTART: usize = 2;
/// Log files that may be added by one that was not made or written: it, and the one that it tells
/// of. Each time that the log goes on in a new file some of them go, but a row of files that were
/// taken and never begun, each of which tells of the one before, goes one by one.
const LOG_FILES_OF_FAULT: usize = 2;

/// Operates until the life is over.
pub(crate) async fn operate(life: Arc<Life>) {
    let seed = life.run.story.seed;
    let mut dice = Dice::of(seed, 300 + u64::from(life.number));
    let mut rare = Dice::of(seed, 350 + u64::from(life.number));
    while !life.is_over() {
        let most = life.run.story.actions.operator.as_millis() as u64;
        let pause = Duration::from_millis(dice.between(2, most));
        life.world().sleep(pause).await;
        let answer = act(&life, &mut dice).await;
        life.report(answer);
        look(&life);
        let strikes = dice.permille(60) && *life.run.strikes.lock() > 0;
        if strikes && strike(&life, &mut dice, false) {
            *life.run.strikes.lock() -= 1;
        }
        let strikes = *life.run.record_strikes.lock() > 0 && rare.percent(30);
        if strikes && !life.is_over() {
            *life.run.record_strikes.lock() -= 1;
            let answer = records::strike(&life, &mut rare).await;
            life.report(answer);
        }
        if views::come_and_go(&life) && rare.percent(50) && !life.is_over() {
            let answer = views::make_or_drop(&life, &mut rare).await;
            life.report(answer);
        }
    }
    for stage in STAGES {
        let answer = resume(&life, stage).await;
        life.report(answer);
    }
}

/// Damages a segment of the newest manifest for good; those of key maps, without which nothing goes
/// on, only at the end. False if there is none.
fn strike(life: &Life, dice: &mut Dice, with_maps: bool) -> bool {
    let manifest = life.instance.manifest();
    let current = manifest.current_runs();
    let kept: Vec<ViewId> = [life.ledger.table.primary.id]
        .into_iter()
        .chain(maps_of(life).filter(|_| !with_maps))
        .collect();
    let runs = manifest.runs.values();
    let runs = runs.filter(|run| current.contains(&run.id) && !kept.contains(&run.view));
    let segments = runs.flat_map(|run| run.segments.iter().map(move |segment| (run.view, segment)));
    let segments: Vec<_> = segments.collect();
    if segments.is_empty() {
        return false;
    }
    let (view, segment) = dice.pick(&segments);
    let harm = match dice.below(4) {
        0 => Harm::Gone,
        1 => Harm::Cut(dice.below(segment.bytes)),
        _ => Harm::Flip {
            byte: dice.below(segment.bytes),
            bit: dice.below(8) as u8,
        },
    };
    let of = Of::View(*view);
    life.run.wounds.strike(&segment.file, harm, of);
    life.world().meet(Mark::Struck);
    life.world().note("struck", segment.bytes, 0, || {
        format!("{}: {harm:?}", segment.file)
    });
    true
}

/// The views of key maps.
fn maps_of(life: &Life) -> impl Iterator<Item = ViewId> + '_ {
    let maps = life.maps.iter().flatten();
    maps.map(|map| map.table.primary.id)
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
            if stage == StageName::Remap && life.maps.iter().any(Option::is_some) {
                life.world().meet(Mark::RemapPaused);
            }
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
            let mut problems = report.problems.iter();
            match faulty || problems.all(|problem| life.run.wounds.are_named(problem)) {
                true => Ok(()),
                false => Err(Trouble::Wrong(format!(
                    "a verification found {:?}",
                    report.problems
                ))),
            }
        }
    }
}

/// Notes what the status shows, and that nothing is damaged by itself, or given up or let go too
/// early.
fn look(life: &Life) {
    let status = life.instance.status();
    let ingest = &status.ingest;
    if ingest.throttled.is_some() || (ingest.held.is_none() && !ingest.waiting.is_empty()) {
        life.world().meet(Mark::Throttled);
    }
    let is_whole = life.run.wounds.is_empty() && !life.store.failed_since(Duration::ZERO);
    if let Some((file, damage)) = status.damage.first_key_value().filter(|_| is_whole) {
        let what = format!("{file} is taken for damaged on a whole disk: {damage:?}");
        life.world().violate(what);
    }
    if let Err(what) = life.check_damage().and_then(|()| life.check_logs()) {
        life.world().violate(what);
    }
    let silent = status.silent;
    let authority = status.work.get(StageName::Authority.name());
    let sparse = authority.map(|work| work.sparse).unwrap_or_default();
    let met = [
        (silent.given_up, Mark::AttemptGivenUp),
        (silent.came_back, Mark::ZombieRefused),
        (silent.came_first, Mark::ZombieFirst),
        (sparse.copied, Mark::GroupCopied),
        (sparse.patched, Mark::GroupPatched),
        (sparse.merged, Mark::GroupMerged),
    ];
    for (_, mark) in met.iter().filter(|(times, _)| *times > 0) {
        life.world().meet(*mark);
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
    look_at_maps(life, &manifest);
    let mut tally = life.run.tally.lock();
    tally.authority_merges = tally.authority_merges.max(merged);
}

/// Notes whether what could not be read was of a key map.
fn look_at_maps(life: &Life, manifest: &Manifest) {
    let suspect = life.store.take_suspects();
    if suspect.is_empty() {
        return;
    }
    let maps: Vec<ViewId> = maps_of(life).collect();
    let runs = manifest.runs.values();
    let segments = runs.filter(|run| maps.contains(&run.view));
    let segments = segments.flat_map(|run| &run.segments);
    for segment in segments {
        for (_, flipped) in suspect.iter().filter(|(file, _)| *file == segment.file) {
            life.world().meet(match flipped {
                true => Mark::MapFlipped,
                false => Mark::MapReadFailed,
            });
        }
    }
}

async fn resume(life: &Life, stage: StageName) -> Answer<()> {
    let since = life.world().now();
    let resumed = life.instance.resume(stage).await;
    resumed.map_err(|error| life.judge("resuming", since, error))
}

/// What needs a paused stage is refused at once.
async fn refused_settle(life: &Life, stage: StageName) -> Answer<()> {
    let needed = [StageName::Remap, StageName::Sort, StageName::Authority];
    let needs = needed.contains(&stage);
    if !needs {
        return Ok(());
    }
    let since = life.world().now();
    match settling(life, SettleTo::Authority).await {
        Err(error) if error.kind() == ErrorKind::Unavailable => {
            life.world().meet(Mark::SettleRefused);
            Ok(())
        }
        Err(error) if life.run.wounds.are_named(&format!("{error:?}")) => {
            Err(life.judge("settling with a paused stage", since, error))
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
    life.begin_rest();
    check_views(life)?;
    let since = life.world().now();
    for stage in STAGES {
        resume(life, stage).await?;
    }
    if life.run.story.last_strike && strike(life, &mut Dice::of(life.run.story.seed, 401), true) {
        let found = verify(life).await;
        found.map_err(|error| format!("a verification at rest failed: {error:?}"))?;
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
        Either::Left((Err(error), _)) if is_lost_for_good(life, &error) => {
            return what_is_left(life).await;
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
    let mut any_lost = false;
    for (file, lost) in damage.iter().filter(|(_, damage)| lost(damage)) {
        if !life.run.wounds.are_named_now(file) {
            let what = format!("{file} is taken for lost: {lost:?}");
            return Err(Trouble::Wrong(what));
        }
        any_lost = true;
    }
    if any_lost {
        return what_is_left(life).await;
    }
    let struck = |(file, damage): (&String, &DamageStatus)| {
        let is_segment = life.run.wounds.named(file);
        let is_segment = is_segment.iter().any(|(_, of)| matches!(of, Of::View(_)));
        damage.state == DamageState::Healed && is_segment
    };
    if damage.iter().any(struck) {
        life.world().meet(Mark::HealedForGood);
    }
    records::replaced(life).await?;
    take_at_rest(life).await?;
    match compared(life).await {
        // Nobody had met the damage before.
        Err(Trouble::Excused(error)) => {
            life.world().note("lost", 0, 1, || error.to_string());
            what_is_left(life).await
        }
        compared => compared,
    }
}

/// Every answer, and what is left on the disk.
async fn compared(life: &Life) -> Answer<()> {
    let looks_twice = life.run.story.actions.looks_twice;
    if looks_twice {
        answers(life).await?;
    }
    files(life).await?;
    answers(life).await?;
    if !looks_twice {
        return Ok(());
    }
    whole_or_named(life).await
}

/// Everything is read back. A page that no answer needs, as that of a hidden column, may have been
/// damaged before anybody met it while its rows were still held by anything else: it is told by
/// name.
async fn whole_or_named(life: &Life) -> Answer<()> {
    let named = |what: &String| life.run.wounds.are_named_now(what);
    match verify(life).await {
        Ok(report) if report.healable.is_empty() && report.problems.iter().all(named) => Ok(()),
        other => Err(Trouble::Wrong(format!(
            "the database at rest is not whole: {other:?}"
        ))),
    }
}

/// Whether something keeps all from coming to rest that nothing could have made again.
fn is_lost_for_good(life: &Life, error: &Error) -> bool {
    let damage = life.instance.status().damage;
    let lost = |(file, damage): (&String, &DamageStatus)| {
        damage.state == DamageState::Lost && life.run.wounds.are_named_now(file)
    };
    error.kind() == ErrorKind::Corrupt && damage.iter().any(lost)
}

/// What is not lost is answered as ever, and what is, is refused by name.
async fn what_is_left(life: &Life) -> Answer<()> {
    life.check_damage()?;
    let mut dice = Dice::of(life.run.story.seed, 402);
    for table in 0..life.maps.len() {
        let mut left = what_is_left_of(life, &mut dice, table).await;
        while is_echo(life, &left) {
            let_echo_end(life).await;
            left = what_is_left_of(life, &mut dice, table).await;
        }
        match left {
            Ok(()) => {}
            Err(Trouble::Excused(error)) if !life.needs(table, &error) => {
                let name = &life.run.story.tables[table].name;
                let what =
                    format!("table {name:?} is refused for what it does not need: {error:?}");
                return Err(what.into());
            }
            Err(Trouble::Excused(error)) => {
                life.world()
                    .note("lost", table as u64, 0, || error.to_string());
                life.world().meet(Mark::LostForGood);
            }
            Err(wrong) => return Err(wrong),
        }
    }
    Ok(())
}

async fn what_is_left_of(life: &Life, dice: &mut Dice, table: usize) -> Answer<()> {
    let since = life.world().now();
    let request = SnapshotRequest {
        freshness: Freshness::ZERO,
        tables: Some(ids_of(life, &[table])),
        ..SnapshotRequest::default()
    };
    let snapshot = life.instance.snapshot(request).await;
    let snapshot = snapshot.map_err(|error| life.judge("a snapshot", since, error))?;
    life.know(&snapshot).await?;
    compare_one(life, dice, &snapshot, table, since).await
}

/// Whether an answer at rest failed by a fault from before: it names no file that was struck.
fn is_echo(life: &Life, answer: &Answer<()>) -> bool {
    match answer {
        Err(Trouble::Excused(error)) => !life.run.wounds.are_named_now(&format!("{error:?}")),
        _ => false,
    }
}

/// What hung told of such a fault only now: what is suspected for it is read back.
async fn let_echo_end(life: &Life) {
    life.world().sleep(ECHO_HEARD).await;
    found_again(life).await;
}

fn verify(life: &Life) -> BoxFuture<'_, lazybase_model::Result<VerifyReport>> {
    Box::pin(life.instance.verify(&|_| {}))
}

fn settling(life: &Life, to: SettleTo) -> BoxFuture<'_, lazybase_model::Result<()>> {
    Box::pin(life.instance.settle(None, to, &|_| {}))
}

/// What the disk could not read for a while is suspected until it is read back, which may hang, or
/// was taken for lost: then it is looked at again after a while.
async fn found_again(life: &Life) {
    let deadline = life.world().now() + REST_MAX;
    let states = || {
        let damage = life.instance.status().damage;
        let unexplained = damage
            .into_iter()
            .filter(|(file, _)| !life.run.wounds.are_named_now(file));
        unexplained
            .map(|(_, damage)| damage.state)
            .collect::<Vec<_>>()
    };
    let is_open = |state: &DamageState| matches!(state, DamageState::Suspected | DamageState::Lost);
    loop {
        let states = states();
        if states.contains(&DamageState::Lost) {
            life.world().meet(Mark::LostForAWhile);
        }
        if !states.iter().any(is_open) || life.world().now() >= deadline {
            return;
        }
        life.world().sleep(Duration::from_secs(1)).await;
    }
}

/// Best effort is the whole truth now.
async fn answers(life: &Life) -> Answer<()> {
    let mut answered = answer(life).await;
    while is_echo(life, &answered) {
        let_echo_end(life).await;
        answered = answer(life).await;
    }
    answered
}

async fn answer(life: &Life) -> Answer<()> {
    let since = life.world().now();
    let request = SnapshotRequest {
        freshness: Freshness::BestEffort,
        ..SnapshotRequest::default()
    };
    let snapshot = life.instance.snapshot(request).await;
    let snapshot = snapshot.map_err(|error| life.judge("an answer at rest", since, error))?;
    life.know(&snapshot).await?;
    let placed = life.run.model.lock().placed();
    let held = life.run.model.lock().count_to(snapshot.horizon());
    if held != placed || snapshot.stamp().batches_left_out > 0 {
        return Err(Trouble::Wrong(format!(
            "best effort at rest is at {}, with {held} batches of {placed}",
            snapshot.horizon()
        )));
    }
    for (table, draw) in life.run.story.tables.iter().enumerate() {
        let known = life.bind(table)?;
        let held = life.run.model.lock().held_after(placed, table);
        if known.version != *held.version {
            return Err(Trouble::Wrong(format!(
                "table {:?} at rest has the columns {:?}, not {:?}",
                draw.name, known.version, held.version
            )));
        }
    }
    let mut dice = Dice::of(life.run.story.seed, 400);
    compare_all(life, &mut dice, &snapshot, since).await?;
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
        life.world().sleep(COLLECTED_LOOK).await;
    }
    if life.store.deletes() > removed {
        life.world().meet(Mark::Collected);
    }
    if life.instance.status().silent.files_refused > 0 {
        life.world().meet(Mark::ZombieCollected);
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
    // What was made in doubt stays until the log goes on; what was gone and came back, until the
    // next opening finds it. What could not be removed is tried again within a second.
    let restarts = usize::try_from(life.run.tally.lock().restarts).unwrap_or(usize::MAX);
    let faults = life.run.past.log_faults();
    let kept = LOG_FILES_KEPT
        .saturating_add(life.run.wounds.logs_taken())
        .saturating_add(restarts.saturating_mul(LOG_FILES_OF_RESTART))
        .saturating_add(faults.saturating_mul(LOG_FILES_OF_FAULT));
    if logs.len() > kept {
        unneeded.extend(logs.into_iter().map(|(name, _)| name));
    }
    Ok(unneeded)
}
