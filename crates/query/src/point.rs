//! Point reads: queries that name full keys and plain columns pass the planner.
//!
//! Reads sqlparser's query; writes nothing. Invariant PNT-1: what is recognised has the answer
//! that the planner would give; everything else is left to it.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins,
    WildcardAdditionalOptions,
};
use lazybase_engine::key::Key;
use lazybase_model::{Result, Table};

use crate::keys::{KeyPattern, key_pattern};
use crate::literal::Literal;
use crate::origins::Origin;
use crate::parse::{folded, table_name};
use crate::scan::shown_schema;
use crate::value::Value;
use crate::visible::Visible;

#[cfg(test)]
mod tests;

/// Columns of the rows of some keys.
#[derive(Debug)]
pub(crate) struct PointRead {
    pub(crate) table: Arc<Table>,
    /// Each once, sorted.
    pub(crate) keys: Vec<Key>,
    /// Positions in the table's columns.
    pub(crate) projection: Arc<[usize]>,
    /// What the answer's columns look like to SQL.
    pub(crate) schema: SchemaRef,
    /// Where they come from.
    pub(crate) origins: Arc<[Origin]>,
}

/// A point read whose keys may be parameters.
#[derive(Debug)]
pub(crate) struct PointPattern {
    /// What the statement calls its table.
    name: String,
    table: Arc<Table>,
    keys: KeyPattern,
    projection: Arc<[usize]>,
    schema: SchemaRef,
    origins: Arc<[Origin]>,
}

impl PointPattern {
    /// Whether its table is still the one that it was made for.
    pub(crate) fn is_current(&self, visible: &Visible) -> bool {
        if visible.has_stored(&self.table) {
            return true;
        }
        let current = visible.table(&self.name);
        // COMMIT may number partitions otherwise than its transaction knew them, under one version.
        current.is_some_and(|table| {
            table.id == self.table.id
                && table.version == self.table.version
                && table.partitioning == self.table.partitioning
        })
    }

    /// The table that it reads.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The columns of the rows that it gives.
    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Where they come from.
    pub(crate) fn origins(&self) -> &Arc<[Origin]> {
        &self.origins
    }

    /// The read with these values; `None` leaves it to the planner.
    ///
    /// # Errors
    /// `Invalid` for keys that no row can have.
    pub(crate) fn bind(&self, values: &[Value]) -> Result<Option<PointRead>> {
        let keys = match self.keys.integer(&self.table, values)? {
            Some(key) => vec![key],
            None => {
                let values: Vec<Literal> = values.iter().map(Value::literal).collect();
                match self.keys.keys(&self.table, &values)? {
                    Some(keys) => keys.encoded,
                    None => return Ok(None),
                }
            }
        };
        Ok(Some(PointRead {
            table: Arc::clone(&self.table),
            keys,
            projection: Arc::clone(&self.projection),
            schema: Arc::clone(&self.schema),
            origins: Arc::clone(&self.origins),
        }))
    }
}

/// The point read that a query is, if it is one.
///
/// # Errors
/// `Invalid` for keys that no row can have.
pub(crate) fn recognise(
    query: &Query,
    find: impl Fn(&str) -> Option<Arc<Table>>,
) -> Result<Option<PointRead>> {
    match pattern(query, find) {
        Some(pattern) => pattern.bind(&[]),
        None => Ok(None),
    }
}

/// The point read that a query is, whatever its keys are, if it is one.
pub(crate) fn pattern(
    query: &Query,
    find: impl Fn(&str) -> Option<Arc<Table>>,
) -> Option<PointPattern> {
    let select = plain_select(query)?;
    let ([from], Some(predicate)) = (select.from.as_slice(), &select.selection) else {
        return None;
    };
    let (name, alias) = plain_table(from)?;
    let table = find(&name)?;
    let alias = alias.as_ref().unwrap_or(&name);
    let (projection, names) = columns(select, &table, alias)?;
    let keys = key_pattern(predicate, &table, alias)?;
    Some(PointPattern {
        schema: named_schema(&table, &projection, &names),
        origins: origins_of(&table, &projection),
        name,
        table,
        keys,
        projection: projection.into(),
    })
}

/// Where columns of a table come from.
pub(crate) fn origins_of(table: &Table, projection: &[usize]) -> Arc<[Origin]> {
    let columns = projection.iter();
    columns.map(|at| Origin::of(table, *at)).collect()
}

/// What columns of a table look like to SQL under other names.
pub(crate) fn named_schema(table: &Table, projection: &[usize], names: &[String]) -> SchemaRef {
    let shown = shown_schema(table, projection);
    let fields = shown.fields().iter().zip(names);
    let named = fields.map(|(field, name)| field.as_ref().clone().with_name(name));
    Arc::new(Schema::new(named.collect::<Vec<Field>>()))
}

/// The SELECT of a query that has nothing but columns, one FROM and a WHERE.
fn plain_select(query: &Query) -> Option<&Select> {
    let Query {
        with: None,
        body,
        order_by: None,
        limit_clause: None,
        fetch: None,
        for_clause: None,
        settings: None,
        format_clause: None,
        ..
    } = query
    else {
        return None;
    };
    let SetExpr::Select(select) = body.as_ref() else {
        return None;
    };
    let Select {
        distinct: None,
        top: None,
        exclude: None,
        into: None,
        prewhere: None,
        group_by: GroupByExpr::Expressions(groups, modifiers),
        having: None,
        qualify: None,
        value_table_mode: None,
        ..
    } = select.as_ref()
    else {
        return None;
    };
    let is_plain = query.locks.is_empty()
        && query.pipe_operators.is_empty()
        && groups.is_empty()
        && modifiers.is_empty()
        && select.lateral_views.is_empty()
        && select.connect_by.is_empty()
        && select.cluster_by.is_empty()
        && select.distribute_by.is_empty()
        && select.sort_by.is_empty()
        && select.named_window.is_empty();
    is_plain.then_some(select)
}

/// The name and alias of a table that stands alone.
pub(crate) fn plain_table(from: &TableWithJoins) -> Option<(String, Option<String>)> {
    match &from.relation {
        TableFactor::Table {
            name,
            alias,
            args: None,
            with_hints,
            version: None,
            with_ordinality: false,
            partitions,
            json_path: None,
            sample: None,
            ..
        } if from.joins.is_empty() && with_hints.is_empty() && partitions.is_empty() => {
            let alias = match alias {
                Some(alias) if !alias.columns.is_empty() => return None,
                Some(alias) => Some(folded(&alias.name)),
                None => None,
            };
            Some((table_name(name).ok()?, alias))
        }
        _ => None,
    }
}

fn columns(select: &Select, table: &Table, alias: &str) -> Option<(Vec<usize>, Vec<String>)> {
    let mut projection = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for item in &select.projection {
        match item {
            SelectItem::Wildcard(options) if *options == WildcardAdditionalOptions::default() => {
                for at in 0..table.visible_columns() {
                    projection.push(at);
                    names.push(table.columns[at].name.clone());
                }
            }
            SelectItem::UnnamedExpr(expr) => {
                let at = column(expr, table, alias)?;
                projection.push(at);
                names.push(table.columns[at].name.clone());
            }
            SelectItem::ExprWithAlias { expr, alias: name } => {
                projection.push(column(expr, table, alias)?);
                names.push(folded(name));
            }
            _ => return None,
        }
    }
    let repeated = (1..names.len()).any(|at| names[..at].contains(&names[at]));
    (!projection.is_empty() && !repeated).then_some((projection, names))
}

fn column(expr: &Expr, table: &Table, alias: &str) -> Option<usize> {
    let name = match expr {
        Expr::Identifier(name) => folded(name),
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [qualifier, name] if folded(qualifier) == alias => folded(name),
            _ => return None,
        },
        _ => return None,
    };
    table
        .column_index(&name)
        .filter(|at| *at < table.visible_columns())
}
