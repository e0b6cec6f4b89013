//! What a part of a scan shows: stored columns, as the table declares them or as they are, or texts
//! as views, and versions as hidden columns.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Schema};
use futures::stream::{BoxStream, StreamExt};
use lazybase_model::{Error, Result};

use super::{Form, PartWork, PieceReader, ScanPart};
use crate::change_batch::ChangeBatch;
use crate::read::arrow_internal;
use crate::read::declared::declared_column;
use crate::read::hidden::{HiddenColumn, row_scus, shown_scus};
use crate::segment::RowLayout;

/// Where a wanted column comes from: its place among the columns that are read, or the versions.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wanted {
    Stored(usize),
    Scu,
    Time,
    TimeOf(usize),
    ScuOf(usize),
}

/// Where the wanted columns come from, where these are read.
pub(super) fn wanted(
    layout: &RowLayout,
    columns: &[usize],
    projection: &[usize],
) -> Result<Vec<Wanted>> {
    let missing = |_| Error::internal("a wanted column is not read");
    let place = |column: usize| columns.binary_search(&column).map_err(missing);
    let wanted = |at: &usize| match HiddenColumn::at(&layout.table, *at) {
        None => place(*at).map(Wanted::Stored),
        Some(HiddenColumn::Scu) => Ok(Wanted::Scu),
        Some(HiddenColumn::Time) => Ok(Wanted::Time),
        Some(HiddenColumn::TimeOf(column)) => place(column).map(Wanted::TimeOf),
        Some(HiddenColumn::ScuOf(column)) => place(column).map(Wanted::ScuOf),
        Some(HiddenColumn::Label(column)) => place(column).map(Wanted::Stored),
    };
    projection.iter().map(wanted).collect()
}

impl ScanPart {
    /// The same rows, texts at these places of the projection as views, which hold short ones
    /// themselves: what compares them looks nowhere else.
    pub fn with_views(&self, places: &[usize]) -> ScanPart {
        let work = &self.work;
        let shown = work.schema.fields().iter().enumerate();
        let shown = shown.map(|(place, field)| match field.data_type() {
            DataType::Utf8 if places.contains(&place) => {
                let field = field.as_ref().clone();
                Arc::new(field.with_data_type(DataType::Utf8View))
            }
            _ => Arc::clone(field),
        });
        let schema = Schema::new(shown.collect::<Vec<FieldRef>>());
        let reader = PieceReader {
            views: work.reads_views_alone(places),
            ..work.reader.clone()
        };
        let work = PartWork {
            schema: Arc::new(schema),
            reader,
            ..PartWork::clone(work)
        };
        ScanPart {
            work: Arc::new(work),
            range: self.range,
            weight: self.weight,
        }
    }
}

impl PartWork {
    /// Whether all texts that are read are wanted as views, and nothing else is asked of them: then
    /// they may be read as such.
    fn reads_views_alone(&self, places: &[usize]) -> bool {
        let wanted = |read: usize| {
            let mut places = places.iter().filter_map(|place| self.wanted.get(*place));
            places.any(|wanted| matches!(wanted, Wanted::Stored(at) if *at == read))
        };
        let fields = self.layout.schema.fields();
        let mut columns = self.reader.columns().iter().enumerate();
        let all = columns.all(|(read, column)| {
            let field = fields.get(*column);
            field.is_none_or(|field| *field.data_type() != DataType::Utf8) || wanted(read)
        });
        let view = self.view.as_ref();
        all && !self.reader.versions && view.is_none_or(|(view, _)| view.counts_all())
    }

    /// The wanted columns under the table's own schema.
    pub(super) async fn plain(&self, rows: ChangeBatch) -> Result<RecordBatch> {
        let alive = self.expiry.as_ref();
        let alive = alive.and_then(|(expiry, at)| expiry.alive(rows.data.column(*at)));
        let rows = match alive {
            Some(alive) => alive_only(&rows, &alive)?,
            None => rows,
        };
        let mut columns = Vec::with_capacity(self.wanted.len());
        for wanted in &self.wanted {
            columns.push(match wanted {
                Wanted::Stored(at) => self.stored(&rows.data, self.reader.columns(), *at)?,
                Wanted::Scu => shown_scus(&row_scus(&rows)),
                Wanted::Time => self.snapshot.times(&row_scus(&rows)).await?,
                Wanted::TimeOf(at) => {
                    let scus = rows.scus_of_column(*at)?;
                    self.snapshot.times(&scus).await?
                }
                Wanted::ScuOf(at) => shown_scus(&rows.scus_of_column(*at)?),
            });
        }
        self.output(columns, rows.rows())
    }

    /// The changes but for rows that have ended: what a fault plants.
    pub(super) fn unended(
        &self,
        changes: BoxStream<'static, Result<ChangeBatch>>,
    ) -> BoxStream<'static, Result<ChangeBatch>> {
        let Some((expiry, at)) = self.expiry.clone() else {
            return changes;
        };
        let unended = move |rows: Result<ChangeBatch>| {
            let rows = rows?;
            match expiry.alive(rows.data.column(at)) {
                None => Ok(rows),
                Some(alive) => alive_only(&rows, &alive),
            }
        };
        changes.map(unended).boxed()
    }

    /// The column at `at` of rows with the columns `columns`, in the form that is asked for. The
    /// rows of a view are told by its table and the table's key. Views of texts are left to
    /// [`PartWork::output`].
    pub(super) fn stored(
        &self,
        rows: &RecordBatch,
        columns: &[usize],
        at: usize,
    ) -> Result<ArrayRef> {
        let values = rows.column(at);
        if self.form == Form::Stored || *values.data_type() == DataType::Utf8View {
            return Ok(Arc::clone(values));
        }
        let (table, key) = match &self.view {
            Some((read, table_key)) => (&read.table.table, table_key),
            None => (&self.layout.table, &self.reader.codec),
        };
        let key = key.as_ref().map(|codec| codec.indices());
        let column = &self.layout.table.columns[columns[at]];
        declared_column(&table.name, column, values, rows, key)
    }

    pub(super) fn output(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let columns = columns.into_iter().zip(self.schema.fields());
        let columns = columns.map(|(column, field)| as_shown(column, field.data_type()));
        let columns = columns.collect::<Result<_>>()?;
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| Error::corrupt(format!("stored rows break the schema: {error}")))
    }
}

/// Texts as views, or as they are, whichever is shown; all else as it is.
fn as_shown(column: ArrayRef, shown: &DataType) -> Result<ArrayRef> {
    use DataType::{Utf8, Utf8View};
    let types = (column.data_type(), shown);
    let differ = matches!(types, (Utf8, Utf8View) | (Utf8View, Utf8));
    match differ {
        true => cast(&column, shown).map_err(arrow_internal),
        false => Ok(column),
    }
}

/// The rows that are alive, of rows that are plain.
fn alive_only(rows: &ChangeBatch, alive: &BooleanArray) -> Result<ChangeBatch> {
    let alive = (0..rows.rows() as u32).filter(|row| alive.value(*row as usize));
    rows.take(&UInt32Array::from_iter_values(alive))
}
