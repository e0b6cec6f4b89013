//! The arguments of every command, as clap reads them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use lazybase_model::freshness::parse_duration;

use crate::config::Given;
use crate::role::RoleArgs;
use crate::source::FileFormat;

/// Observational data that never stops arriving; every query says how fresh its answer must be.
#[derive(Debug, Parser)]
#[command(
    name = "lazybase",
    version,
    max_term_width = 100,
    propagate_version = true,
    after_help = "\
A first look, in a folder among temporary files:
  lazybase demo

A database of your own:
  export LAZYBASE_DB=my.lb
  lazybase load flights flights.csv --key day,carrier,flight
  lazybase sql -c \"SELECT count(*) FROM flights FRESHNESS 'best effort'\"
  lazybase sql
  lazybase serve"
)]
pub(crate) struct Cli {
    /// The database's folder. `sql`, `load` and `serve` make it if it is not there.
    #[arg(long, env = "LAZYBASE_DB", global = true, value_name = "DIR")]
    pub(crate) db: Option<PathBuf>,
    /// A TOML file with options; `lazybase serve --print-config` shows them. LAZYBASE_CONFIG names
    /// one too.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Replay a year of flights while queries at four freshness levels run beside it.
    Demo(DemoArgs),
    /// A shell; or statements from -c, a file, or standard input.
    Sql(SqlArgs),
    /// Serve the database to clients of PostgreSQL and of Arrow Flight SQL.
    Serve(ServeArgs),
    /// Make, list and end roles of a closed database, or give one another password.
    Role(RoleArgs),
    /// Load Parquet, CSV or JSON lines files into a table.
    Load(LoadArgs),
    /// Write a table or a query's result to a Parquet, CSV or JSON lines file.
    Export(ExportArgs),
    /// What the database holds, and how far each stage has come.
    Status(StatusArgs),
    /// The manifest, or any file of a database, in words.
    Inspect(InspectArgs),
    /// Read everything again and check it against checksums and invariants.
    Verify(VerifyArgs),
    /// Say what of a closed database is whole, heal what can be healed, name what is lost.
    Repair(RepairArgs),
    /// Copy the database into a folder of backups; or list, verify or prune those of a folder.
    Backup(BackupArgs),
    /// Make a database of a backup, as of any SCU or time that it reaches.
    Restore(RestoreArgs),
    /// Measure this machine in a minute, in a database of its own, among temporary files or beside
    /// the folder of --db: writing, settling, scanning, reading by key.
    Bench(BenchArgs),
}

/// How results are written to standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// Columns aligned for people.
    #[default]
    Table,
    /// Comma-separated values with a header line.
    Csv,
    /// One JSON object a row, a line each.
    Json,
}

impl Format {
    /// The name that `--format` and `\format` take.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Format::Table => "table",
            Format::Csv => "csv",
            Format::Json => "json",
        }
    }
}

/// `--format` of commands that print a report of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ReportFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON value.
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct SqlArgs {
    /// A server instead of a folder: postgresql://127.0.0.1:5432/lazybase.
    #[arg(long, env = "LAZYBASE_URL", value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Run these statements, separated by semicolons, and end.
    #[arg(
        short = 'c',
        long = "command",
        value_name = "SQL",
        allow_hyphen_values = true
    )]
    pub(crate) command: Vec<String>,
    /// Run the statements of a file and end.
    #[arg(
        short = 'f',
        long = "file",
        value_name = "FILE",
        conflicts_with = "command"
    )]
    pub(crate) file: Vec<PathBuf>,
    /// How results are written.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// The freshness of queries that name none: seconds, '500 ms', or 'best effort'.
    #[arg(long, value_name = "BOUND")]
    pub(crate) freshness: Option<String>,
    /// Leave out stamps, tags and notices.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Print the configuration that is in force as a TOML file with comments, and end.
    #[arg(long)]
    pub(crate) print_config: bool,
    /// The options, each of which may also be an environment variable or stand in the file.
    #[command(flatten)]
    pub(crate) given: Given,
}

/// What `load` does with a file that it can't take whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum OnError {
    /// Stop; the batches before the error stay.
    #[default]
    Abort,
    /// Add nothing of that file and go on with the next; each file is one atomic batch.
    RejectFile,
}

#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// The table; made from the first file's columns if it is not there.
    pub(crate) table: String,
    /// The files; - is standard input.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The key columns of a new table; without them it gets a hidden key.
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    pub(crate) key: Vec<String>,
    /// Remember under this name how far each file was loaded, so that nothing is added twice.
    #[arg(long, value_name = "NAME")]
    pub(crate) producer: Option<String>,
    /// The column that says U (upsert) or D (delete) for each row.
    #[arg(long, value_name = "COLUMN")]
    pub(crate) op_column: Option<String>,
    /// What to do with a file that can't be taken whole.
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    pub(crate) on_error: OnError,
    /// The files' format, where their names don't say it.
    #[arg(long, value_enum)]
    pub(crate) format: Option<FileFormat>,
    /// What stands between the values of a CSV file: the comma, or in .tsv the tab.
    #[arg(long, value_name = "CHARACTER")]
    pub(crate) delimiter: Option<char>,
    /// A text that means NULL in CSV files, beside the empty one.
    #[arg(long, value_name = "TEXT")]
    pub(crate) null: Option<String>,
    /// The bytes of file that go into one atomic batch, about.
    #[arg(long, default_value_t = 32 << 20, value_name = "BYTES", hide = true)]
    pub(crate) batch_bytes: u64,
    /// Print the figures as one JSON line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(crate) struct ExportArgs {
    /// The table, or a system table such as lazybase.tables.
    #[arg(required_unless_present = "query", conflicts_with = "query")]
    pub(crate) table: Option<String>,
    /// The file to write; its ending says the format: .parquet, .csv, .tsv, .jsonl. - is standard
    /// output.
    pub(crate) file: PathBuf,
    /// The query whose rows are written.
    #[arg(long, value_name = "SQL")]
    pub(crate) query: Option<String>,
    /// The format, where the file's name doesn't say it.
    #[arg(long, value_enum)]
    pub(crate) format: Option<FileFormat>,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// A server instead of a folder, as a live page: postgresql://127.0.0.1:5432/lazybase.
    #[arg(long, env = "LAZYBASE_URL", value_name = "URL")]
    pub(crate) url: Option<String>,
    /// With --url: print the page once, as where standard output is no terminal.
    #[arg(long)]
    pub(crate) once: bool,
    /// For people, or for programs.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: ReportFormat,
}

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// A file of a database; without it, the manifest of the database is shown.
    pub(crate) file: Option<PathBuf>,
    /// Show superseded runs too, which are kept for readers of the past.
    #[arg(long)]
    pub(crate) all: bool,
    /// All that the manifest says, or one of its files (.edit, .checkpoint), as one JSON value.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// For people, or for programs.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: ReportFormat,
}

#[derive(Debug, Args)]
pub(crate) struct RepairArgs {
    /// Only say what is damaged: nothing is written.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Move damaged files of the manifest's or the log's end, and those after them, to the folder
    /// `set-aside`, where they keep the database from opening: what they said is lost to it.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) set_aside: bool,
    /// For people, or for programs.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: ReportFormat,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BackupArgs {
    /// The folder of backups; made if it is not there.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) to: Option<PathBuf>,
    /// Leave a table out, with its views: where its rows are lost, the others can be backed up. May
    /// be given several times.
    #[arg(long, value_name = "TABLE", requires = "to")]
    pub(crate) without: Vec<String>,
    #[command(subcommand)]
    pub(crate) what: Option<BackupCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BackupCommand {
    /// The backups of a folder, with the SCUs that each can be restored to, what it holds, and what
    /// of that no other one needs.
    List {
        /// The folder of backups.
        #[arg(long, value_name = "FOLDER")]
        from: PathBuf,
        /// For people, or for programs.
        #[arg(long, value_enum, default_value_t)]
        format: ReportFormat,
    },
    /// Read every file of all backups, or of one, and compare it with what was copied.
    Verify {
        /// The folder of backups.
        #[arg(long, value_name = "FOLDER")]
        from: PathBuf,
        /// One backup; all without it.
        #[arg(long, value_name = "N")]
        number: Option<u64>,
    },
    /// Remove old backups from a folder, and the files that no other one needs; without --keep and
    /// --older-than no backup, only what work that was broken off has left.
    Prune(PruneArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    /// The folder of backups.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) from: PathBuf,
    /// Keep so many of the newest that are whole, and remove those that are older.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) keep: Option<u64>,
    /// Remove only those that were taken longer ago, such as 30d or '12 h'; with --keep, those that
    /// are beyond both. The newest whole one stays, however old.
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(crate) older_than: Option<Duration>,
    /// Only say what would be removed.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// For people, or for programs.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: ReportFormat,
}

/// A duration with its unit: nobody means a backup's age in seconds without saying so.
fn age(text: &str) -> Result<Duration, String> {
    let text = text.trim().to_ascii_lowercase();
    let age = parse_duration(&text).map_err(|error| error.message().to_owned())?;
    match text.ends_with(|last: char| last.is_ascii_alphabetic()) {
        true => Ok(age),
        false => Err("it has no unit: write 30d, or '12 h'".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The folder of backups.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) from: PathBuf,
    /// The end of an SCU, by its number, or a time, such as '2026-01-31 12:00:00' (UTC); without
    /// it, the newest that the backup holds.
    #[arg(long, value_name = "SCU|TIME")]
    pub(crate) as_of: Option<String>,
    /// Which backup; without it, the newest, or the nearest that reaches `--as-of`.
    #[arg(long, value_name = "N")]
    pub(crate) number: Option<u64>,
    /// Let producers begin anew whose mark at that point is not known.
    #[arg(long)]
    pub(crate) forget_producers: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Changes a second, or `max`.
    #[arg(long, default_value = "17000", value_name = "N|max")]
    pub(crate) rate: String,
    /// The folder of the demo's database and report; without it that of --db or LAZYBASE_DB, or
    /// else `lazybase-demo` among the system's temporary files.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Later demos must not replace the folder.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Print the figures as one JSON value on standard output.
    #[arg(long)]
    pub(crate) json: bool,
    /// How many readers ask questions meanwhile.
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub(crate) readers: usize,
    /// The age in seconds at which an SCU is sealed and goes on to be sorted: 3, or 1 with `--rate
    /// max`. Older SCUs make fresh answers dearer.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) scu_age: Option<f64>,
    /// Replay only the first days of the year.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) days: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// How many rows are written.
    #[arg(long, default_value_t = 2_000_000)]
    pub(crate) rows: u64,
    /// How many reads by key are timed.
    #[arg(long, default_value_t = 2_000)]
    pub(crate) reads: u32,
    /// Print the figures as one JSON value.
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests;
