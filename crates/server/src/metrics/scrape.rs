//! Figures of what is: read from the status, the manifest and the folder when somebody asks.

use lazybase_cluster::coordinator::policy::cheap_behind_micros;
use lazybase_cluster::lag::{self, Lag};
use lazybase_cluster::{DamageState, Instance, StageName, Status, SupersededStatus};
use lazybase_engine::manifest::Manifest;
use lazybase_query::Database;
use metrics::{Gauge, counter, gauge};

use crate::pages::Health;
use crate::status::TableFigures;

/// Reads them into the current recorder.
pub(super) fn read(health: &Health) {
    gauge!("lazybase_ready").set(flag(health.not_ready().is_none()));
    let Some(database) = health.database() else {
        return;
    };
    let instance = database.instance();
    let status = instance.status();
    let manifest = instance.manifest();
    ingest(instance, &status, &manifest);
    stages(&status);
    lags(&manifest, instance.now_micros());
    tables(&manifest, instance.now_micros());
    kept(instance, &status);
    memory(database);
    disk(instance);
}

fn flag(on: bool) -> f64 {
    f64::from(u8::from(on))
}

fn set(gauge: Gauge, number: u64) {
    gauge.set(number as f64);
}

fn ingest(instance: &Instance, status: &Status, manifest: &Manifest) {
    let ingest = &status.ingest;
    let sealed = manifest.times.last_key_value();
    let sealed = sealed.map_or(0, |(_, time)| time.batches_through);
    let batches = sealed + u64::from(ingest.open_batches);
    counter!("lazybase_ingest_batches_total").absolute(batches);
    counter!("lazybase_ingest_log_bytes_total").absolute(ingest.log_bytes_written);
    set(gauge!("lazybase_ingest_queue_bytes"), ingest.queue_bytes);
    set(
        gauge!("lazybase_ingest_open_batches"),
        u64::from(ingest.open_batches),
    );
    gauge!("lazybase_ingest_held_back").set(flag(status.throttle.is_some()));
    set(
        gauge!("lazybase_ingest_waiting_writers"),
        status.waiting.len() as u64,
    );
    counter!("lazybase_ingest_waits_total").absolute(ingest.waits);
    gauge!("lazybase_ingest_failing").set(flag(ingest.failing.is_some()));
    gauge!("lazybase_sync_failed").set(flag(status.failed_sync.is_some()));
    set(
        gauge!("lazybase_unsorted_memory_bytes"),
        ingest.memory_bytes,
    );
    let limit = instance.settings().unsorted_memory;
    set(gauge!("lazybase_unsorted_memory_limit_bytes"), limit);
    counter!("lazybase_scus_sealed_total").absolute(manifest.sealed_through.0);
    counter!("lazybase_manifest_edits_total").absolute(manifest.number);
}

fn stages(status: &Status) {
    for (name, holdings) in &status.stages {
        set(
            gauge!("lazybase_stage_scus", "stage" => *name),
            holdings.scus,
        );
        set(
            gauge!("lazybase_stage_rows", "stage" => *name),
            holdings.rows,
        );
        set(
            gauge!("lazybase_stage_bytes", "stage" => *name),
            holdings.bytes,
        );
        set(
            gauge!("lazybase_stage_runs", "stage" => *name),
            holdings.runs,
        );
    }
    let scus = |stage: &str| status.stages.get(stage).map_or(0, |held| held.scus);
    let (ingested, remapped) = (scus("ingested"), scus("remapped"));
    let (sorted, merged) = (scus("sorted"), scus("merged"));
    for (stage, waiting) in [
        ("remap", ingested),
        ("sort", ingested + remapped),
        ("merge", sorted),
        ("authority", sorted + merged),
    ] {
        set(
            gauge!("lazybase_stage_waiting_scus", "stage" => stage),
            waiting,
        );
    }
    for stage in StageName::ALL.into_iter().chain([StageName::Heal]) {
        let name = stage.name();
        let running = status.running.iter().filter(|task| task.stage == stage);
        set(
            gauge!("lazybase_stage_running_tasks", "stage" => name),
            running.count() as u64,
        );
        gauge!("lazybase_stage_paused", "stage" => name).set(flag(status.paused.contains(&stage)));
        if stage == StageName::Ingest {
            continue;
        }
        let work = status.work.get(name).copied().unwrap_or_default();
        counter!("lazybase_stage_attempts_total", "stage" => name).absolute(work.attempts);
        counter!("lazybase_stage_failures_total", "stage" => name).absolute(work.failures);
        gauge!("lazybase_stage_seconds_total", "stage" => name).set(work.micros as f64 / 1e6);
        counter!("lazybase_stage_read_bytes_total", "stage" => name).absolute(work.bytes_read);
        let written = work.bytes_written;
        counter!("lazybase_stage_written_bytes_total", "stage" => name).absolute(written);
        let rows = work.rows_written;
        counter!("lazybase_stage_written_rows_total", "stage" => name).absolute(rows);
    }
}

fn lags(manifest: &Manifest, now_micros: i64) {
    let seconds = |lag: &Lag| lag.micros_behind as f64 / 1e6;
    for lag in lag::of_stages(manifest, now_micros) {
        gauge!("lazybase_stage_lag_seconds", "stage" => lag.stage).set(seconds(&lag));
        set(
            gauge!("lazybase_stage_lag_scus", "stage" => lag.stage),
            lag.scus_behind,
        );
    }
    for lag in lag::of_tables(manifest, now_micros) {
        let table = lag.table.clone().unwrap_or_default();
        let labels = [("table", table), ("stage", lag.stage.to_owned())];
        gauge!("lazybase_table_lag_seconds", &labels).set(seconds(&lag));
        set(gauge!("lazybase_table_lag_scus", &labels), lag.scus_behind);
    }
}

fn tables(manifest: &Manifest, now_micros: i64) {
    for state in manifest.tables.values() {
        if let Some(target) = state.table.freshness_target_micros {
            let labels = [("table", state.table.name.clone())];
            let target = target as f64 / 1e6;
            gauge!("lazybase_table_freshness_target_seconds", &labels).set(target);
            let behind = cheap_behind_micros(manifest, state, now_micros) as f64 / 1e6;
            gauge!("lazybase_table_freshness_seconds", &labels).set(behind);
        }
        let figures = TableFigures::of(manifest, state);
        let labels = [("table", state.table.name.clone())];
        set(gauge!("lazybase_table_rows", &labels), figures.rows);
        set(gauge!("lazybase_table_bytes", &labels), figures.bytes);
    }
}

fn kept(instance: &Instance, status: &Status) {
    let cache = status.cache;
    counter!("lazybase_cache_hits_total", "cache" => "segments").absolute(cache.hits);
    counter!("lazybase_cache_misses_total", "cache" => "segments").absolute(cache.misses);
    set(
        gauge!("lazybase_cache_bytes", "cache" => "segments"),
        cache.bytes,
    );
    set(
        gauge!("lazybase_cache_limit_bytes", "cache" => "segments"),
        cache.bytes_max,
    );
    let pins = instance.pins();
    set(gauge!("lazybase_pins"), pins.len() as u64);
    let oldest = pins
        .iter()
        .map(|held| held.pin.age)
        .max()
        .unwrap_or_default();
    gauge!("lazybase_oldest_pin_seconds").set(oldest.as_secs_f64());
    let held = status.oldest_pin.as_ref().map_or(0, |held| held.held_bytes);
    set(gauge!("lazybase_pinned_bytes"), held);
    superseded(&status.superseded);
    counter!("lazybase_files_collected_total").absolute(status.files_collected);
    counter!("lazybase_background_troubles_total").absolute(status.troubles_seen);
    for state in [
        DamageState::Suspected,
        DamageState::Healing,
        DamageState::Healed,
        DamageState::Lost,
    ] {
        let files = status.damage.values().filter(|seen| seen.state == state);
        let count = files.count() as u64;
        set(
            gauge!("lazybase_damaged_files", "state" => state.name()),
            count,
        );
    }
}

fn superseded(files: &SupersededStatus) {
    set(gauge!("lazybase_superseded_bytes"), files.bytes);
    gauge!("lazybase_superseded_limit_bytes").set(bound(files.bytes_max));
    let kept = files.kept_micros as f64 / 1e6;
    gauge!("lazybase_retention_seconds").set(kept);
    counter!("lazybase_snapshots_ended_total").absolute(files.snapshots_ended);
}

/// A bound as Prometheus has it: the greatest number is none.
fn bound(bytes: u64) -> f64 {
    match bytes {
        u64::MAX => f64::INFINITY,
        bytes => bytes as f64,
    }
}

fn memory(database: &Database) {
    set(
        gauge!("lazybase_query_memory_bytes"),
        database.query_memory_used(),
    );
    let limit = database.instance().settings().query_memory;
    gauge!("lazybase_query_memory_limit_bytes").set(bound(limit));
    set(
        gauge!("lazybase_heavy_running"),
        database.heavy_running() as u64,
    );
    set(
        gauge!("lazybase_heavy_waiting"),
        database.heavy_waiting() as u64,
    );
}

fn disk(instance: &Instance) {
    let store = &instance.env().store;
    for kind in ["segments", "log", "manifest"] {
        // A folder that can't be listed now is left out; whoever needs its files says why.
        if let Ok(files) = futures::executor::block_on(store.list(&format!("{kind}/"))) {
            let bytes = files.iter().map(|(_, bytes)| bytes).sum();
            set(gauge!("lazybase_disk_bytes", "kind" => kind), bytes);
        }
    }
}
