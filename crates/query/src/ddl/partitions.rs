//! Partitions of tables: what CREATE TABLE declares, and ALTER TABLE ... ADD or DROP RANGE
//! PARTITION.
//!
//! Adding makes room for rows, dropping throws a partition away with all its rows: each is one
//! edit of the manifest, at a boundary of the order of batches, whatever the partition holds.

use std::sync::Arc;

use lazybase_cluster::{BoundsSpec, CutSpec, PartitionSpec, range_bounds};
use lazybase_engine::key::PartitionId;
use lazybase_model::partition::{PartitionChange, RangeBounds};
use lazybase_model::{Column, Error, ErrorKind, Result, Table};

use crate::answer::AnswerStream;
use crate::cast::{Place, checked_key};
use crate::dml::sink::Sink;
use crate::literal::to_array;
use crate::notice::Notice;
use crate::parse::partitions::CutClause;
use crate::parse::{AlterPartition, BoundsClause, CreateTable};
use crate::session::Shared;
use crate::visible::TableChange;

/// The partitions of a table as declared.
pub(super) fn spec(create: &CreateTable) -> Result<Option<PartitionSpec>> {
    let Some(clause) = &create.partitions else {
        return Ok(None);
    };
    let range = match &clause.range {
        None => None,
        Some(rule) => {
            let columns = rule.columns.iter().map(|name| {
                let found = create.columns.iter().find(|column| column.name == *name);
                found.ok_or_else(|| unknown(&create.name, name))
            });
            let columns = columns.collect::<Result<Vec<&Column>>>()?;
            let bounds = rule
                .partitions
                .iter()
                .map(|bounds| bounds_spec(&create.name, &columns, bounds));
            Some((rule.columns.clone(), bounds.collect::<Result<_>>()?))
        }
    };
    Ok(Some(PartitionSpec {
        hash: clause.hash.clone(),
        range,
    }))
}

fn unknown(table: &str, column: &str) -> Error {
    Error::not_found(format!("table {table:?} has no column {column:?}"))
        .with_name(column)
        .with_sqlstate("42703")
}

fn bounds_spec(table: &str, columns: &[&Column], bounds: &BoundsClause) -> Result<BoundsSpec> {
    let cut = |cut: &Option<CutClause>| {
        let cut = cut.as_ref().map(|cut| cut_spec(table, columns, cut));
        cut.transpose()
    };
    Ok(BoundsSpec {
        low: cut(&bounds.low)?,
        high: cut(&bounds.high)?,
    })
}

fn cut_spec(table: &str, columns: &[&Column], cut: &CutClause) -> Result<CutSpec> {
    if cut.values.len() != columns.len() {
        return Err(Error::invalid(format!(
            "a bound has {} values, the range rule {} columns",
            cut.values.len(),
            columns.len()
        ))
        .with_hint("write (a, b) for a rule of two columns")
        .with_sqlstate("42P17"));
    }
    let value = |(literal, column): (&crate::literal::Literal, &&Column)| {
        let place = Place {
            table,
            column,
            first_row: 1,
        };
        let values = to_array(std::slice::from_ref(literal), &place);
        let values = values.and_then(|values| checked_key(values, &place));
        values.map_err(|error| error.within("a bound of a range partition"))
    };
    let values = cut.values.iter().zip(columns).map(value);
    Ok(CutSpec {
        values: values.collect::<Result<_>>()?,
        after: cut.after,
    })
}

fn bounds_of(table: &Table, bounds: &BoundsClause) -> Result<RangeBounds> {
    let rules = table.partitioning.as_ref();
    let rule = rules.and_then(|rules| rules.range.as_ref());
    let columns: Vec<&Column> = rule
        .iter()
        .flat_map(|rule| &rule.columns)
        .filter_map(|id| table.columns.iter().find(|column| column.id == *id))
        .collect();
    let spec = match rule {
        Some(_) => bounds_spec(&table.name, &columns, bounds)?,
        None => BoundsSpec::default(),
    };
    range_bounds(table, &spec)
}

/// ALTER TABLE ... ADD or DROP RANGE PARTITION.
pub(crate) async fn alter(session: &Arc<Shared>, alter: AlterPartition) -> Result<AnswerStream> {
    let visible = session.visible();
    let table = visible.require(&alter.table)?;
    session.gate_now().own(&table)?;
    let bounds = bounds_of(&table, &alter.bounds)?;
    let rule = table
        .partitioning
        .as_ref()
        .and_then(|rules| rules.range.as_ref());
    let is_there = rule.is_some_and(|rule| rule.live().any(|of| of.bounds == bounds));
    if alter.lenient && is_there == alter.adds {
        let what = match alter.adds {
            true => "the range partition is there already: skipped",
            false => "there is no range partition with these bounds: skipped",
        };
        return Ok(AnswerStream::done("ALTER TABLE", 0).with_notices([Notice::note(what)]));
    }
    let change = match alter.adds {
        true => PartitionChange::Add(bounds),
        false => PartitionChange::Drop(bounds),
    };
    let changed = session.instance().repartition(&table, &change)?;
    let emptied = match &change {
        PartitionChange::Add(_) => Vec::new(),
        PartitionChange::Drop(_) => changed
            .partitions
            .iter()
            .map(PartitionId::key_range)
            .collect(),
    };
    let mut sink = Sink::of(session);
    sink.change_table(TableChange::Partition {
        before: table,
        after: Arc::new(changed.table),
        change,
        emptied,
    })?;
    let token = match sink.finish(session).await {
        // Somebody else was quicker.
        Err(error) if alter.lenient && error.kind() == ErrorKind::NotFound && !alter.adds => None,
        finished => finished?,
    };
    Ok(AnswerStream::done("ALTER TABLE", 0).with_token(token))
}
