//! `lazybase backup` and `lazybase restore`.
//!
//! A backup opens the database as every command does: where a process has it, BACKUP TO is said
//! there. Restoring checks every file against the checksum that the backup recorded, reads it back
//! in full, and opens what was made.

use std::path::{Path, PathBuf};

use arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use indicatif::{ProgressBar, ProgressStyle};
use lazybase_cluster::{
    AsOf, ListedBackup, PruneReport, PruneRequest, RestoreRequest, list_backups, open_to_prune,
    open_to_restore, prune_backups, verify_backups,
};
use lazybase_engine::env::local::LocalStore;
use lazybase_model::{Error, Result, ScuNumber};
use serde_json::{Value, json};

use crate::cli::{BackupArgs, BackupCommand, PruneArgs, ReportFormat, RestoreArgs};
use crate::figures::{bytes, counted};
use crate::open::{self, Missing};
use crate::{failure, wall};

/// Runs `backup`.
pub(crate) async fn run(db: Option<PathBuf>, args: BackupArgs) -> Result<()> {
    match (args.what, args.to) {
        (Some(BackupCommand::List { from, format }), _) => list(&from, format).await,
        (Some(BackupCommand::Verify { from, number }), _) => verify(&from, number).await,
        (Some(BackupCommand::Prune(args)), _) => prune(args).await,
        (None, Some(to)) => take(db, &to, &args.without).await,
        (None, None) => Err(Error::invalid("no folder of backups is named").with_hint(
            "give --to FOLDER, or say `backup list`, `backup verify` or `backup prune`",
        )),
    }
}

async fn take(db: Option<PathBuf>, to: &Path, without: &[String]) -> Result<()> {
    let database = open::database(db, Missing::Refuse).await?;
    let bar = progress_bar("copying");
    let tell = |share: f64| bar.set_position((share * 1_000.0) as u64);
    let taken = async {
        let instance = database.instance();
        let target = instance.open_backups(to)?;
        instance.backup_without(&target, without, &tell).await
    };
    let taken = taken.await;
    bar.finish_and_clear();
    let report = open::close(&database, taken).await?;
    for note in &report.notes {
        say(&format!("note: {note}\n"))?;
    }
    say(&format!(
        "backup {}: everything up to the end of SCU {}, restorable from SCU {} on\n\
         {}, {}; copied {}, {}\n",
        report.number,
        report.newest,
        report.oldest,
        counted(report.files, "file"),
        bytes(report.bytes),
        counted(report.copied_files, "file"),
        bytes(report.copied_bytes),
    ))
}

async fn list(from: &Path, format: ReportFormat) -> Result<()> {
    let store = LocalStore::open_read_only(from)?;
    let listed = list_backups(&store).await?;
    let text: String = match format {
        ReportFormat::Text => listed.iter().map(list_line).collect(),
        ReportFormat::Json => {
            let all: Vec<Value> = listed.iter().map(list_value).collect();
            format!("{}\n", json!({ "backups": all }))
        }
    };
    say(&text)?;
    let damaged = listed.iter().filter(|listed| listed.backup.is_err());
    match (damaged.count() as u64, listed.is_empty()) {
        (0, false) => Ok(()),
        (0, true) => Err(Error::not_found(format!(
            "{}: there is no backup",
            from.display()
        ))),
        (n, _) => Err(Error::corrupt(format!(
            "{} can't be read",
            counted(n, "backup")
        ))),
    }
}

fn list_line(listed: &ListedBackup) -> String {
    match &listed.backup {
        Ok(backup) => format!(
            "backup {}: {}, {}, {}, {} of it in no other backup\n",
            listed.number,
            backup.reach(),
            counted(backup.files.len() as u64, "file"),
            bytes(backup.files.values().map(|file| file.bytes).sum()),
            bytes(listed.own_bytes),
        ),
        Err(error) => format!("backup {}: {error}\n", listed.number),
    }
}

fn list_value(listed: &ListedBackup) -> Value {
    match &listed.backup {
        Ok(backup) => json!({
            "number": listed.number,
            "taken_micros": backup.taken_micros,
            "oldest_scu": backup.oldest.0,
            "newest_scu": backup.newest().0,
            "files": backup.files.len(),
            "bytes": backup.files.values().map(|file| file.bytes).sum::<u64>(),
            "own_bytes": listed.own_bytes,
        }),
        Err(error) => json!({ "number": listed.number, "error": error.fact() }),
    }
}

async fn prune(args: PruneArgs) -> Result<()> {
    let store = open_to_prune(&args.from, args.dry_run).await?;
    let age = args.older_than;
    let age = age.map(|age| i64::try_from(age.as_micros()).unwrap_or(i64::MAX));
    let request = PruneRequest {
        keep: args.keep,
        taken_from_micros: age.map(|age| wall::now_micros().saturating_sub(age)),
        dry_run: args.dry_run,
    };
    let report = prune_backups(&store, request).await?;
    say(&match args.format {
        ReportFormat::Text => prune_text(&report, args.dry_run),
        ReportFormat::Json => format!("{}\n", prune_value(&report, args.dry_run)),
    })
}

fn prune_text(report: &PruneReport, dry_run: bool) -> String {
    let removed = match dry_run {
        true => "would remove",
        false => "removed",
    };
    let mut text = String::new();
    for note in &report.notes {
        text += &format!("note: {note}\n");
    }
    for listed in &report.removed {
        text += &match &listed.backup {
            Ok(backup) => format!("{removed} backup {}: {}\n", listed.number, backup.reach()),
            Err(error) => format!("{removed} backup {}: {error}\n", listed.number),
        };
    }
    text += &format!(
        "{removed} {}, {}, {}; {}, {} left\n",
        counted(report.removed.len() as u64, "backup"),
        counted(report.files, "file"),
        bytes(report.bytes),
        counted(report.kept.len() as u64, "backup"),
        bytes(report.kept_bytes),
    );
    text
}

fn prune_value(report: &PruneReport, dry_run: bool) -> Value {
    let removed = report.removed.iter().map(|listed| listed.number);
    json!({
        "dry_run": dry_run,
        "removed": removed.collect::<Vec<u64>>(),
        "kept": report.kept,
        "files": report.files,
        "bytes": report.bytes,
        "kept_bytes": report.kept_bytes,
        "notes": report.notes,
    })
}

async fn verify(from: &Path, number: Option<u64>) -> Result<()> {
    let store = LocalStore::open_read_only(from)?;
    let bar = progress_bar("verifying");
    let tell = |share: f64| bar.set_position((share * 1_000.0) as u64);
    let verified = verify_backups(&store, number, &tell).await;
    bar.finish_and_clear();
    let (files, read, problems) = verified?;
    let mut text = String::new();
    for problem in &problems {
        text += &format!("problem: {problem}\n");
    }
    text += &format!("read {}, {}\n", counted(files, "file"), bytes(read));
    say(&text)?;
    match problems.len() as u64 {
        0 => Ok(()),
        n => Err(Error::corrupt(format!("{} found", counted(n, "problem")))),
    }
}

/// Runs `restore`.
pub(crate) async fn restore(db: Option<PathBuf>, args: RestoreArgs) -> Result<()> {
    let folder = open::folder(db)?;
    let source = LocalStore::open_read_only(&args.from)?;
    let request = RestoreRequest {
        number: args.number,
        at: args.as_of.as_deref().map(point).transpose()?,
        forget_producers: args.forget_producers,
    };
    let bar = progress_bar("restoring");
    let tell = |share: f64| bar.set_position((share * 1_000.0) as u64);
    let restored = async {
        let target = open_to_restore(&folder, &args.from)?;
        lazybase_cluster::restore(&source, &target, request, &tell).await
    };
    let restored = restored.await;
    bar.finish_and_clear();
    let report = restored?;
    // What can't be opened was not restored.
    let database = open::database(Some(folder), Missing::Refuse).await?;
    open::close(&database, Ok(())).await?;
    let mut text = format!(
        "restored backup {} as of the end of SCU {}: {}, {}\n",
        report.number,
        report.horizon,
        counted(report.files, "file"),
        bytes(report.bytes)
    );
    for producer in &report.forgotten {
        text += &format!("producer {producer:?} begins anew: its mark then is not known\n");
    }
    for view in &report.dropped_views {
        text += &format!(
            "view {view:?} was left out: what it reads was not there then, or had other columns, \
             or a table had its name\n"
        );
    }
    for column in &report.unnumbered {
        text += &format!("column {column} has no default: its sequence has ended since\n");
    }
    for file in &report.absent {
        text += &format!("{file} is not in the backup: the times of some old SCUs are not known\n");
    }
    say(&text)
}

/// An SCU's number, or a time.
fn point(text: &str) -> Result<AsOf> {
    if let Ok(scu) = text.parse() {
        return Ok(AsOf::Scu(ScuNumber(scu)));
    }
    let nanos = string_to_timestamp_nanos(text).map_err(|_| {
        Error::invalid(format!("--as-of is no SCU and no time: {text:?}"))
            .with_hint("give an SCU's number, or a time such as '2026-01-31 12:00:00'")
    })?;
    Ok(AsOf::Timestamp {
        micros: nanos.div_euclid(1_000),
    })
}

fn progress_bar(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(1_000);
    let template = format!("{what} [{{bar:40}}] {{percent}}% {{elapsed}}");
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

fn say(text: &str) -> Result<()> {
    failure::write_data(text)
}
