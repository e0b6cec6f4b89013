//! `lazybase backup` and `lazybase restore`.
//!
//! A backup opens the database as every command does: where a process has it, BACKUP TO is said
//! there. Restoring checks every file against the checksum that the backup recorded, reads it back
//! in full, and opens what was made.

use std::path::{Path, PathBuf};

use arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use indicatif::{ProgressBar, ProgressStyle};
use lazybase_cluster::{AsOf, RestoreRequest, list_backups, open_to_restore, verify_backups};
use lazybase_engine::env::local::LocalStore;
use lazybase_model::{Error, Result, ScuNumber};

use crate::cli::{BackupArgs, BackupCommand, RestoreArgs};
use crate::failure;
use crate::figures::{bytes, counted};
use crate::open::{self, Missing};

/// Runs `backup`.
pub(crate) async fn run(db: Option<PathBuf>, args: BackupArgs) -> Result<()> {
    match (args.what, args.to) {
        (Some(BackupCommand::List { from }), _) => list(&from).await,
        (Some(BackupCommand::Verify { from, number }), _) => verify(&from, number).await,
        (None, Some(to)) => take(db, &to, &args.without).await,
        (None, None) => Err(Error::invalid("no folder of backups is named")
            .with_hint("give --to FOLDER, or say `backup list` or `backup verify`")),
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

async fn list(from: &Path) -> Result<()> {
    let store = LocalStore::open_read_only(from)?;
    let listed = list_backups(&store).await?;
    let mut damaged = 0;
    let mut text = String::new();
    for listed in &listed {
        text += &match &listed.backup {
            Ok(backup) => format!(
                "backup {}: {}, {}, {}\n",
                listed.number,
                backup.reach(),
                counted(backup.files.len() as u64, "file"),
                bytes(backup.files.values().map(|file| file.bytes).sum()),
            ),
            Err(error) => {
                damaged += 1;
                format!("backup {}: {error}\n", listed.number)
            }
        };
    }
    say(&text)?;
    match (damaged, listed.is_empty()) {
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
            "view {view:?} was left out: its table had other columns then, or a table \
             its name\n"
        );
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
