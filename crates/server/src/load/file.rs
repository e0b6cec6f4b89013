//! One file's way into the table.

use std::path::Path;

use arrow::array::RecordBatch;
use lazybase_model::{Error, Result, Table};
use lazybase_query::{Appender, Database, Op};

use super::marks::{MARKS_TABLE, MarkKey};
use super::ops::stretches;
use super::progress::Progress;
use super::target::{Target, create_table, find_table, matching, reading_schema};
use super::{Loaded, format_of};
use crate::cli::{LoadArgs, OnError};
use crate::failure;
use crate::source::{
    FileFormat, Mark, Piece, Source, TextOptions, is_stream, shown, stored_schema,
};
use crate::wall;

/// A file to load.
pub(super) struct FileLoad<'a> {
    database: &'a Database,
    args: &'a LoadArgs,
    path: &'a Path,
    progress: &'a Progress,
}

/// A batch that is not committed yet.
struct Pending {
    appender: Appender,
    mark: Mark,
    rows: u64,
    bytes: u64,
    weight: u64,
}

impl<'a> FileLoad<'a> {
    pub(super) fn new(
        database: &'a Database,
        args: &'a LoadArgs,
        path: &'a Path,
        progress: &'a Progress,
    ) -> Self {
        FileLoad {
            database,
            args,
            path,
            progress,
        }
    }

    /// Loads the file; errors say its name.
    pub(super) async fn run(&self, loaded: &mut Loaded) -> Result<()> {
        let outcome = self.load(loaded).await;
        let place = shown(self.path);
        outcome.map_err(|error| match error.message().starts_with(&place) {
            true => error,
            false => error.within(place),
        })
    }

    async fn load(&self, loaded: &mut Loaded) -> Result<()> {
        let args = self.args;
        let mut source = self.open().await?;
        let target = self.target(&mut source, loaded).await?;
        let producer = args.producer.as_deref();
        let key = producer
            .map(|name| MarkKey::new(self.database, name, &args.table, self.path))
            .transpose()?;
        let mark = match &key {
            Some(key) => key.read(self.database).await?,
            None => None,
        };
        if let Some(mark) = &mark {
            source.resume(mark, &shown(self.path))?;
            self.progress.add(mark.bytes, 0);
            loaded.skipped_bytes += mark.bytes;
        }
        let before = loaded.batches;
        self.stream(source, &target, key.as_ref(), loaded).await?;
        if mark.is_some() && loaded.batches == before {
            loaded.unchanged += 1;
        }
        Ok(())
    }

    async fn open(&self) -> Result<Source> {
        let args = self.args;
        if args.producer.is_some() && is_stream(self.path) {
            return Err(Error::invalid("a stream has no mark")
                .with_detail("nobody can tell whether what comes was loaded before")
                .with_hint("load a file, or leave --producer out"));
        }
        let format = format_of(self.path, args.format)?;
        let delimiter = match (args.delimiter, format) {
            (Some(given), _) => u8::try_from(given)
                .map_err(|_| Error::invalid(format!("{given:?} is no delimiter of one byte")))?,
            (None, FileFormat::Tsv) => b'\t',
            (None, _) => b',',
        };
        let options = TextOptions::new(delimiter, args.null.as_deref());
        let known = find_table(self.database, &args.table)?.is_some();
        let (path, marked) = (self.path.to_owned(), args.producer.is_some());
        wall::waited_for(move || Source::open(&path, format, &options, marked, known)).await?
    }

    /// The table, made or checked.
    async fn target(&self, source: &mut Source, loaded: &mut Loaded) -> Result<Target> {
        let name = &self.args.table;
        let op_column = self.args.op_column.as_deref();
        let mut table = find_table(self.database, name)?;
        if let Some(table) = &table {
            source.has_columns_of(table);
        }
        if table.is_none() {
            let schema = stored_schema(source.schema(), op_column)?;
            if schema.fields().is_empty() {
                return Err(Error::invalid(
                    "the file has no columns to make a table from",
                ));
            }
            create_table(self.database, name, &schema, &self.key()).await?;
            loaded.made = true;
            table = find_table(self.database, name)?;
        }
        let table = table.ok_or_else(|| Error::internal("a table that was just made is gone"))?;
        self.check_key(&table)?;
        let schema = reading_schema(source.schema(), &table, op_column);
        let natural_keys = schema.fields().iter().map(|field| {
            let column = matching(&table, field.name()).map(|at| &table.columns[at]);
            let key = column.map(|column| self.database.natural_key(column));
            key.unwrap_or(Ok(None))
        });
        let natural_keys = natural_keys.collect::<Result<Vec<_>>>()?;
        source.read_as(schema, natural_keys);
        let target = Target::new(&table, source.schema(), op_column)?;
        if target.op.is_some() && table.hidden_key {
            return Err(Error::invalid("--op-column needs a table with a key")
                .with_hint("name the key columns with --key when the table is made"));
        }
        Ok(target)
    }

    /// The names that were given for the key, as the new table has them.
    fn key(&self) -> Vec<String> {
        self.args
            .key
            .iter()
            .map(|name| name.trim().to_lowercase())
            .collect()
    }

    fn check_key(&self, table: &Table) -> Result<()> {
        if self.args.key.is_empty() {
            return Ok(());
        }
        let indices = table.key_indices();
        let names: Vec<&str> = indices
            .iter()
            .map(|&at| table.columns[at].name.as_str())
            .collect();
        if self.key() == names {
            return Ok(());
        }
        Err(
            Error::invalid(format!("table {:?} has another key", table.name))
                .with_detail(format!("its key is {}", names.join(", ")))
                .with_hint("leave --key out: the table is there already"),
        )
    }

    async fn stream(
        &self,
        mut source: Source,
        target: &Target,
        key: Option<&MarkKey>,
        loaded: &mut Loaded,
    ) -> Result<()> {
        let whole_file = self.args.on_error == OnError::RejectFile;
        let mut pending: Option<Pending> = None;
        loop {
            let (read, piece) = wall::waited_for(move || {
                let piece = source.next_piece();
                (source, piece)
            })
            .await?;
            source = read;
            let Some(piece) = piece? else {
                break;
            };
            let mut batch = pending
                .take()
                .unwrap_or_else(|| Pending::new(self.database));
            self.append(&mut batch, target, &piece).await?;
            if batch.weight >= self.args.batch_bytes && !whole_file {
                self.commit(batch, key, loaded).await?;
            } else {
                pending = Some(batch);
            }
        }
        match pending {
            Some(batch) => self.commit(batch, key, loaded).await,
            None => Ok(()),
        }
    }

    async fn append(&self, pending: &mut Pending, target: &Target, piece: &Piece) -> Result<()> {
        let piece_rows: usize = piece.batches.iter().map(RecordBatch::num_rows).sum();
        let mut rows_before = piece.mark.rows - piece_rows as u64;
        for batch in &piece.batches {
            let rows = target.rows(batch)?;
            let name = &self.args.table;
            pending.appender.number_rows_from(rows_before + 1);
            match target.op {
                None => pending.appender.append(name, &rows, Op::Upsert).await?,
                Some(op) => {
                    for (op, range) in stretches(batch.column(op), rows_before)? {
                        let row = rows_before + range.start as u64 + 1;
                        pending.appender.number_rows_from(row);
                        let mut part = rows.slice(range.start, range.len());
                        if op == Op::Delete {
                            let key = part.project(&target.key);
                            part = key.map_err(|error| failure::arrow("key", &error))?;
                        }
                        pending.appender.append(name, &part, op).await?;
                    }
                }
            }
            rows_before += batch.num_rows() as u64;
        }
        pending.mark = piece.mark.clone();
        pending.rows += piece_rows as u64;
        pending.bytes += piece.bytes;
        pending.weight += piece.weight;
        Ok(())
    }

    async fn commit(
        &self,
        mut pending: Pending,
        key: Option<&MarkKey>,
        loaded: &mut Loaded,
    ) -> Result<()> {
        if let Some(key) = key {
            let row = key.row(&pending.mark)?;
            pending
                .appender
                .append(MARKS_TABLE, &row, Op::Upsert)
                .await?;
        }
        let acknowledged = pending.appender.commit().await?;
        loaded.rows += pending.rows;
        loaded.bytes += pending.bytes;
        loaded.batches += 1;
        loaded.made = false;
        loaded.token = Some(acknowledged.token);
        self.progress.add(pending.bytes, pending.rows);
        Ok(())
    }
}

impl Pending {
    fn new(database: &Database) -> Pending {
        Pending {
            appender: database.appender(),
            mark: Mark::default(),
            rows: 0,
            bytes: 0,
            weight: 0,
        }
    }
}
