//! RETURNING of an UPDATE or DELETE: expressions over the rows that its query finds, of an UPDATE
//! with the new values where columns are set. What they read comes with the query.
//!
//! ```text
//!   RETURNING a + u.n, u.*   ->  SELECT key, new values, t.a, u.n, u.* FROM t, u WHERE ...
//!   a batch of these rows    ->  a as it is written, and n, u.*  ->  values, which wait for the
//!                                commit
//! ```
//!
//! Takes the batches of the query. Invariant RET-2: what is told of a row is of the same row of the
//! query as what is written.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::datatypes::{Field, Fields, Schema};
use datafusion::common::DFSchema;
use datafusion::sql::sqlparser::ast::Expr;
use lazybase_model::{Error, Result};

use super::wanted::{Item, Wanted, end_name, source_name};
use super::{Waiting, batch, check_numbers};
use crate::answer::{AnswerStream, Columns, Definitions};
use crate::changes::labelled;
use crate::context::Constants;
use crate::error::from_datafusion;
use crate::origins::Origin;
use crate::parse::unsupported;
use crate::scan::Shape;
use crate::session::Shared;

/// The query that finds rows.
pub(crate) struct FoundColumns<'f> {
    pub(crate) schema: &'f Schema,
    pub(crate) origins: &'f [Origin],
    /// How many columns stand before those that RETURNING wants.
    pub(crate) before: usize,
    /// Whether the hidden key of the table is shown.
    pub(crate) shows_key: bool,
    pub(crate) definitions: Definitions,
}

impl Wanted {
    /// What tells the rows of a query, in which the columns `set` get other values.
    ///
    /// # Errors
    /// `Invalid` (0A000) where the rows may be hidden from the session once they are written, and
    /// whatever the planner says of the expressions.
    pub(crate) fn telling(
        self,
        session: &Shared,
        found: FoundColumns<'_>,
        set: &[usize],
    ) -> Result<Telling> {
        let fields = found.schema.fields()[found.before..].iter();
        let mut fields: Vec<Field> = fields.map(|field| field.as_ref().clone()).collect();
        let wildcards = self.expanded(&fields, found.shows_key)?;
        let changed = self.changed(set)?;
        if let Some(changed) = &changed {
            for (source, at) in &changed.places {
                let shown = changed.shape.schema.field(*at).clone();
                fields[*source] = shown.with_name(source_name(*source));
            }
        }
        let columns = told_columns(self.items, wildcards, &fields);
        let sources = Fields::from(fields[..self.sources.len()].to_vec());
        let names = DFSchema::from_unqualified_fields(sources, HashMap::new());
        let place = |told: &Told| match told {
            Told::Column(place) => found.origins.get(found.before + place).copied(),
            Told::Computed(_) => None,
        };
        let origins = columns.iter().map(|(_, told)| place(told));
        let origins = origins.map(Option::unwrap_or_default).collect();
        let (labels, told): (Vec<String>, Vec<Told>) = columns.into_iter().unzip();
        let mut telling = Telling {
            before: found.before,
            changed,
            names: names.map_err(|error| from_datafusion(&error, ""))?,
            told,
            waiting: Waiting::new(session, Arc::new(Schema::empty())),
            origins,
            definitions: found.definitions,
        };
        // The types of the expressions are those of their values.
        let none = RecordBatch::new_empty(Arc::new(Schema::new(fields.clone())));
        let values = telling.values(&session.constants(), none.columns(), 0)?;
        let shown = labels.into_iter().zip(&telling.told).zip(&values);
        let shown = shown.map(|((name, told), values)| match told {
            Told::Column(place) => fields[*place].clone().with_name(name),
            Told::Computed(_) => Field::new(name, values.data_type().clone(), true),
        });
        telling.waiting.schema = Arc::new(Schema::new(shown.collect::<Vec<Field>>()));
        Ok(telling)
    }

    /// Where the columns of each wildcard are among those that it wants.
    fn expanded(&self, fields: &[Field], shows_key: bool) -> Result<Vec<Range<usize>>> {
        let mut begin = self.sources.len();
        let wildcards = self.wildcards.iter().enumerate();
        let expanded = wildcards.map(|(place, wildcard)| {
            let name = end_name(place);
            let mut rest = fields.iter().skip(begin);
            let columns = rest.position(|field| *field.name() == name);
            let columns = columns.ok_or_else(|| Error::internal("a wildcard has an end"))?;
            let own = match wildcard.of_all {
                true => self.table.visible_columns() + usize::from(shows_key),
                false => 0,
            };
            let others = begin + own.min(columns)..begin + columns;
            begin += columns + 1;
            Ok::<_, Error>(others)
        });
        expanded.collect()
    }

    /// The sources that are told as they are set.
    fn changed(&self, set: &[usize]) -> Result<Option<Changed>> {
        let table = &self.table;
        let hides = self.sight.hides_rows(table);
        if hides && table.row_label().is_some_and(|at| set.contains(&at)) {
            return Err(
                unsupported("RETURNING is not supported where _label is set")
                    .with_detail("the session may not read the rows that it would tell of")
                    .with_hint("UPDATE without RETURNING, or as a role that reads all labels"),
            );
        }
        let is_told = |at: &usize| self.sources.iter().any(|source| source.own == Some(*at));
        let mut told: Vec<usize> = set.iter().copied().filter(is_told).collect();
        if told.is_empty() {
            return Ok(None);
        }
        told.sort_unstable();
        let sources = self.sources.iter().enumerate();
        let places = sources.filter_map(|(place, source)| {
            let at = told.iter().position(|at| Some(*at) == source.own)?;
            Some((place, at))
        });
        let places = places.collect();
        let shape = Shape::new(Arc::clone(table), told, &self.sight)?;
        Ok(Some(Changed { shape, places }))
    }
}

/// Columns that are told as they are set.
struct Changed {
    shape: Shape,
    /// The places of sources, and where these are in the shape.
    places: Vec<(usize, usize)>,
}

impl Changed {
    /// The columns of `rows` rows as the session sees them once they are `set`.
    fn shown(&self, set: &[(usize, ArrayRef)], rows: usize) -> Result<RecordBatch> {
        let table = &self.shape.table;
        let set = labelled(table, set)?;
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for at in self.shape.stored_projection() {
            let column = &table.columns[at];
            let values = match set.iter().find(|(known, _)| *known == at) {
                Some((_, values)) => Arc::clone(values),
                // The label of a row that was found: it may be read, whatever that says.
                None => new_null_array(&column.data_type, rows),
            };
            check_numbers(table, at, &values)?;
            fields.push(Field::new(&column.name, values.data_type().clone(), true));
            columns.push(values);
        }
        let stored = batch(&Arc::new(Schema::new(fields)), columns, rows)?;
        let shown = self.shape.show(&stored);
        shown.map_err(|error| from_datafusion(&error, ""))
    }
}

/// One column of what is told.
enum Told {
    /// The column at this place of what the query gives for it.
    Column(usize),
    /// Of sources, under their names.
    Computed(Box<Expr>),
}

/// The names of all columns that are told, and where they come from.
fn told_columns(
    items: Vec<Item>,
    wildcards: Vec<Range<usize>>,
    fields: &[Field],
) -> Vec<(String, Told)> {
    let mut columns = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Item::Column { name, source } => columns.push((name, Told::Column(source))),
            Item::Computed { name, expr } => columns.push((name, Told::Computed(expr))),
            Item::All(place) => columns.extend(wildcards[place].clone().map(|at| {
                let name = fields[at].name().clone();
                (name, Told::Column(at))
            })),
        }
    }
    columns
}

/// What an UPDATE or DELETE tells of the rows that it changes.
pub(crate) struct Telling {
    /// How many columns of the query stand before those that it takes.
    before: usize,
    changed: Option<Changed>,
    /// The sources as expressions name them.
    names: DFSchema,
    told: Vec<Told>,
    waiting: Waiting,
    origins: Vec<Origin>,
    definitions: Definitions,
}

impl Telling {
    /// Takes rows of the query, in which columns of the table are `set` to checked values.
    ///
    /// # Errors
    /// `Invalid` (0A000) for IDs that have no number yet, `Unavailable` (53200) for more rows than
    /// there is memory for, and whatever the expressions meet.
    pub(crate) fn take(
        &mut self,
        constants: &Constants,
        found: &RecordBatch,
        set: &[(usize, ArrayRef)],
    ) -> Result<()> {
        let rows = found.num_rows();
        let mut columns = found.columns()[self.before..].to_vec();
        if let Some(changed) = &self.changed {
            let shown = changed.shown(set, rows)?;
            for (source, at) in &changed.places {
                columns[*source] = Arc::clone(shown.column(*at));
            }
        }
        let values = self.values(constants, &columns, rows)?;
        self.waiting.push(values, rows)
    }

    /// What is told of rows.
    fn values(
        &self,
        constants: &Constants,
        columns: &[ArrayRef],
        rows: usize,
    ) -> Result<Vec<ArrayRef>> {
        let sources = self.names.inner();
        let named = batch(sources, columns[..sources.fields().len()].to_vec(), rows)?;
        let value = |told: &Told| match told {
            Told::Column(place) => Ok(Arc::clone(&columns[*place])),
            Told::Computed(expr) => constants.context().evaluate(expr, &self.names, &named),
        };
        self.told.iter().map(value).collect()
    }

    /// The answer, once the rows are kept; `written` of them were changed.
    pub(crate) fn answer(self, tag: String, written: u64) -> AnswerStream {
        let answer = self.waiting.answer(tag, written);
        answer
            .with_definitions(self.definitions)
            .with_origins(self.origins)
    }

    /// The columns of what is told.
    pub(crate) fn columns(self) -> Columns {
        Columns {
            schema: self.waiting.schema,
            definitions: self.definitions,
            origins: self.origins,
        }
    }
}
