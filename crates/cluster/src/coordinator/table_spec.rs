//! From what a user says about a new table to its definition: plain functions.

use arrow::array::ArrayRef;
use lazybase_engine::key::{KeyCodec, Partitioner, has_order};
use lazybase_engine::read::HiddenColumn;
use lazybase_engine::segment::check_storable;
use lazybase_engine::ttl::Expiry;
use lazybase_model::partition::{
    BoundBytes, HashRule, Partitioning, RangeBound, RangeBounds, RangeRule,
};
use lazybase_model::table::{HIDDEN_KEY_COLUMN, check_operators};
use lazybase_model::{
    Column, ColumnId, Error, Layout, Result, SchemaVersion, Table, TableId, TimeToLive, View,
    ViewId, limits,
};

mod labels;

/// A table to be made.
#[derive(Debug, Clone)]
pub struct TableSpec {
    /// Its name, as SQL folds it.
    pub name: String,
    /// Its columns; their ids are given out here.
    pub columns: Vec<Column>,
    /// Names of the key columns, most significant first. Empty: rows get the hidden key `_row`.
    pub key: Vec<String>,
    /// How the authority keeps it.
    pub layout: Layout,
    /// What the user says about it.
    pub comment: Option<String>,
    /// How its key space is cut.
    pub partitioning: Option<PartitionSpec>,
    /// The column that its rows end by, and how long after its moment, in microseconds.
    pub ttl: Option<(String, u64)>,
    /// See [`Table::freshness_target_micros`].
    pub freshness_target_micros: Option<u64>,
    /// Whether its rows have labels.
    pub row_labels: bool,
}

impl TableSpec {
    /// A table of columns with a key, and nothing else said about it.
    pub fn new(name: impl Into<String>, columns: Vec<Column>, key: &[&str]) -> TableSpec {
        TableSpec {
            name: name.into(),
            columns,
            key: key.iter().map(|name| (*name).to_owned()).collect(),
            layout: Layout::default(),
            comment: None,
            partitioning: None,
            ttl: None,
            freshness_target_micros: None,
            row_labels: false,
        }
    }
}

/// The partitions of a table to be made.
#[derive(Debug, Clone, Default)]
pub struct PartitionSpec {
    /// The columns and buckets of each hash rule; without columns, those of the key that no other
    /// rule names.
    pub hash: Vec<(Vec<String>, u16)>,
    /// The columns of the range rule, and its partitions.
    pub range: Option<(Vec<String>, Vec<BoundsSpec>)>,
}

/// Where a range partition lies, as values of the rule's columns.
#[derive(Debug, Clone, Default)]
pub struct BoundsSpec {
    /// Where it begins; `None` is open.
    pub low: Option<CutSpec>,
    /// Where it ends; `None` is open.
    pub high: Option<CutSpec>,
}

/// A cut between two range partitions.
#[derive(Debug, Clone)]
pub struct CutSpec {
    /// A value for each column of the rule, of its type.
    pub values: Vec<ArrayRef>,
    /// Whether the cut lies right after the value; otherwise right before it.
    pub after: bool,
}

/// A secondary view to be made.
#[derive(Debug, Clone)]
pub struct ViewSpec {
    /// Its name, as SQL folds it.
    pub name: String,
    /// Its columns, in this order; `None` for all of the table's.
    pub columns: Option<Vec<String>>,
    /// The columns that it is sorted by, most significant first: the table's key is among them.
    pub key: Vec<String>,
}

/// The definition that a view of `table` comes to under these ids.
pub(crate) fn define_view(
    table: &Table,
    spec: &ViewSpec,
    id: TableId,
    view: ViewId,
) -> Result<Table> {
    let mut columns: Vec<Column> = Vec::new();
    let all = || table.columns[..table.visible_columns()].iter();
    let names: Vec<&str> = match &spec.columns {
        Some(names) => names.iter().map(String::as_str).collect(),
        None => all().map(|column| column.name.as_str()).collect(),
    };
    for name in names {
        let column = all().find(|column| column.name == name);
        let column = column.ok_or_else(|| no_column(table, name))?;
        if columns.iter().any(|other| other.id == column.id) {
            return Err(Error::invalid(format!("column {name:?} is named twice"))
                .with_name(name)
                .with_sqlstate("42701"));
        }
        columns.push(column.clone());
    }
    let mut key = view_key(table, spec, &columns)?;
    labels::add_to_view(table, &mut columns);
    if table.hidden_key {
        let hidden = table.columns.last().filter(|c| c.name == HIDDEN_KEY_COLUMN);
        let hidden = hidden.ok_or_else(|| Error::internal("a table lost its hidden key"))?;
        columns.push(hidden.clone());
        key.push(hidden.id);
    }
    check_ttl(table, spec, &columns)?;
    let missing = table.primary.key.iter().find(|id| !key.contains(id));
    if let Some(missing) = missing {
        let name = table.columns.iter().find(|column| column.id == *missing);
        return Err(lacks_key(
            table,
            spec,
            name.map_or("", |column| &column.name),
        ));
    }
    let made = Table {
        id,
        name: spec.name.clone(),
        version: SchemaVersion(0),
        columns,
        primary: View { id: view, key },
        hidden_key: table.hidden_key,
        layout: table.layout,
        comment: None,
        next_column: 0,
        partitioning: None,
        ttl: table.ttl,
        // It is its table's.
        freshness_target_micros: None,
        key_map: None,
        view_of: Some(table.id),
        query: None,
    };
    KeyCodec::primary(&made)?;
    Ok(made)
}

/// The columns of a view's key that its definition names.
fn view_key(table: &Table, spec: &ViewSpec, columns: &[Column]) -> Result<Vec<ColumnId>> {
    let mut key = Vec::new();
    for name in &spec.key {
        let mut all = table.columns[..table.visible_columns()].iter();
        let column = all.find(|column| column.name == *name);
        let column = column.ok_or_else(|| no_column(table, name))?;
        if !columns.iter().any(|other| other.id == column.id) {
            return Err(Error::invalid(format!(
                "view {:?} is sorted by {name:?}, but lacks it",
                spec.name
            ))
            .with_hint(format!("add {name:?} to the SELECT"))
            .with_sqlstate("42P16"));
        }
        let unfit = match column.merge {
            Some(operator) => Some(format!(
                "columns with a merge operator, here {}, are in no key",
                operator.word()
            )),
            None if has_order(&column.data_type) => None,
            None => Some("lists, structs and intervals have no order".to_owned()),
        };
        if let Some(unfit) = unfit {
            return Err(Error::invalid(format!(
                "view {:?} can't be sorted by {name:?}",
                spec.name
            ))
            .with_detail(unfit)
            .with_hint("leave it out of the ORDER BY; the view may hold it")
            .with_sqlstate("42P16"));
        }
        if key.contains(&column.id) {
            return Err(
                Error::invalid(format!("column {name:?} is in the ORDER BY twice"))
                    .with_sqlstate("42701"),
            );
        }
        key.push(column.id);
    }
    Ok(key)
}

/// A view of rows that end by themselves holds the column that they end by.
fn check_ttl(table: &Table, spec: &ViewSpec, columns: &[Column]) -> Result<()> {
    if let Some(ttl) = table.ttl
        && !columns.iter().any(|column| column.id == ttl.column)
    {
        let at = table.columns.iter().find(|column| column.id == ttl.column);
        let name = at.map_or("", |column| &column.name);
        return Err(
            Error::invalid(format!("view {:?} lacks {name:?}", spec.name))
                .with_detail("rows of its table end by that column, and so they must in the view")
                .with_hint(format!("add {name:?} to the SELECT"))
                .with_sqlstate("42P16"),
        );
    }
    Ok(())
}

fn no_column(table: &Table, name: &str) -> Error {
    Error::not_found(format!("table {:?} has no column {name:?}", table.name))
        .with_name(name)
        .with_sqlstate("42703")
}

fn lacks_key(table: &Table, spec: &ViewSpec, name: &str) -> Error {
    let mut order = spec.key.clone();
    let key = table
        .key_indices()
        .into_iter()
        .map(|at| &table.columns[at].name);
    for column in key {
        if !order.contains(column) {
            order.push(column.clone());
        }
    }
    Error::invalid(format!(
        "the key of view {:?} lacks {name:?}, a column of the primary key of {:?}",
        spec.name, table.name
    ))
    .with_detail("each row of the table has one place in the view: its key tells them apart")
    .with_hint(format!(
        "select them, and write ORDER BY {}",
        order.join(", ")
    ))
    .with_sqlstate("42P16")
}

/// The definition that a specification comes to under these ids.
pub(crate) fn define(spec: &TableSpec, id: TableId, view: ViewId) -> Result<Table> {
    check_names(spec)?;
    check_operators(&spec.columns, &spec.key)?;
    let mut columns: Vec<Column> = spec.columns.clone();
    let hidden_key = spec.key.is_empty();
    labels::add(spec, &mut columns)?;
    if hidden_key {
        columns.push(hidden_key_column());
    }
    columns.iter().try_for_each(check_storable)?;
    for (at, column) in columns.iter_mut().enumerate() {
        column.id = ColumnId(at as u32);
    }
    let key_names = match hidden_key {
        true => vec![HIDDEN_KEY_COLUMN.to_owned()],
        false => spec.key.clone(),
    };
    let mut key = Vec::with_capacity(key_names.len());
    for name in &key_names {
        let column = columns
            .iter_mut()
            .find(|column| column.name == *name)
            .ok_or_else(|| {
                Error::not_found(format!(
                    "key column {name:?} is not a column of {:?}",
                    spec.name
                ))
                .with_name(name)
                .with_sqlstate("42703")
            })?;
        if key.contains(&column.id) {
            return Err(
                Error::invalid(format!("key column {name:?} is named twice"))
                    .with_name(name)
                    .with_sqlstate("42701"),
            );
        }
        column.nullable = false;
        key.push(column.id);
    }
    let table = Table {
        id,
        name: spec.name.clone(),
        version: SchemaVersion(0),
        columns,
        primary: View { id: view, key },
        hidden_key,
        layout: spec.layout,
        comment: spec.comment.clone(),
        next_column: 0,
        key_map: None,
        partitioning: None,
        ttl: None,
        freshness_target_micros: spec.freshness_target_micros,
        view_of: None,
        query: None,
    };
    let table = match &spec.ttl {
        Some((column, micros)) => mortal(table, column, *micros)?,
        None => table,
    };
    let table = match &spec.partitioning {
        Some(rules) => partitioned(table, rules)?,
        None => table,
    };
    KeyCodec::primary(&table)?;
    Ok(table)
}

/// The table, whose rows end by a column.
fn mortal(mut table: Table, column: &str, micros: u64) -> Result<Table> {
    let at = table.require_column(column)?;
    let Column { id, data_type, .. } = &table.columns[at];
    if !Expiry::takes(data_type) {
        return Err(Error::invalid(format!(
            "rows of table {:?} can't end by column {column:?}",
            table.name
        ))
        .with_detail(format!("its type is {data_type}, which holds no moment"))
        .with_hint("ttl_column names a TIMESTAMP or DATE column")
        .with_sqlstate("42804"));
    }
    if table.columns[at].has_labels() {
        return Err(Error::invalid(format!(
            "rows of table {:?} can't end by column {column:?}, whose cells have labels",
            table.name
        ))
        .with_detail("that a row ends would tell whoever may not read the cell")
        .with_hint("leave WITH LABELS out; WITH (row_labels = true) labels whole rows")
        .with_sqlstate("42P16"));
    }
    table.ttl = Some(TimeToLive {
        column: *id,
        micros,
    });
    let combined = table.columns.iter().find(|column| column.merge.is_some());
    if let (true, Some(combined)) = (table.takes_whole_rows_only(), combined) {
        let fact = format!(
            "column {:?} is combined, but rows end by {column:?}",
            combined.name
        );
        return Err(Error::invalid(fact)
            .with_detail("such a table takes whole rows alone, and combining is none")
            .with_hint("put ttl_column into the key")
            .with_sqlstate("42P16"));
    }
    Ok(table)
}

/// The table, cut by these rules.
fn partitioned(mut table: Table, spec: &PartitionSpec) -> Result<Table> {
    if table.hidden_key {
        return Err(Error::invalid(format!(
            "table {:?} has no primary key to partition it by",
            table.name
        ))
        .with_hint("rows without a key stand in the order of arrival: declare a PRIMARY KEY")
        .with_sqlstate("42P16"));
    }
    let range_columns = spec.range.as_ref().map(|(columns, _)| columns.as_slice());
    let named = |name: &&String| {
        spec.hash.iter().any(|(columns, _)| columns.contains(name))
            || range_columns.is_some_and(|columns| columns.contains(name))
    };
    let key: Vec<String> = table
        .key_indices()
        .iter()
        .map(|at| table.columns[*at].name.clone())
        .collect();
    let mut rules = Partitioning::default();
    for (columns, buckets) in &spec.hash {
        let columns: Vec<String> = match columns.is_empty() {
            true => key.iter().filter(|name| !named(name)).cloned().collect(),
            false => columns.clone(),
        };
        rules.hash.push(HashRule {
            columns: key_columns(&table, &columns)?,
            buckets: *buckets,
        });
    }
    if let Some((columns, bounds)) = &spec.range {
        let columns = key_columns(&table, columns)?;
        rules.range = Some(RangeRule::new(columns.clone(), Vec::new())?);
        rules.check()?;
        table.partitioning = Some(rules.clone());
        let bounds = bounds.iter().map(|bounds| range_bounds(&table, bounds));
        rules.range = Some(RangeRule::new(columns, bounds.collect::<Result<_>>()?)?);
    }
    rules.check()?;
    table.partitioning = Some(rules);
    Ok(table)
}

fn key_columns(table: &Table, names: &[String]) -> Result<Vec<ColumnId>> {
    if names.is_empty() {
        return Err(
            Error::invalid("a partition rule needs a column of the primary key")
                .with_sqlstate("42P17"),
        );
    }
    let column = |name: &String| {
        let column = &table.columns[table.require_column(name)?];
        match table.primary.key.contains(&column.id) {
            true => Ok(column.id),
            false => Err(Error::invalid(format!(
                "table {:?} can't be partitioned by column {name:?}",
                table.name
            ))
            .with_detail("it is not in the primary key")
            .with_hint("rows are found by key alone: partition by columns of the key")
            .with_sqlstate("42P17")),
        }
    };
    names.iter().map(column).collect()
}

/// The bounds of a range partition of a table that has a range rule.
///
/// # Errors
/// `Invalid` when a bound has more values than the rule has columns, or no value lies inside.
pub fn range_bounds(table: &Table, spec: &BoundsSpec) -> Result<RangeBounds> {
    let partitioner = Partitioner::of(table)?;
    let rule = table
        .partitioning
        .as_ref()
        .and_then(|rules| rules.range.as_ref());
    let (Some(partitioner), Some(rule)) = (partitioner, rule) else {
        return Err(
            Error::invalid(format!("table {:?} has no range partitions", table.name))
                .with_hint("PARTITION BY RANGE (columns) is chosen by CREATE TABLE")
                .with_sqlstate("42809"),
        );
    };
    let cut = |cut: &CutSpec| {
        if cut.values.len() != rule.columns.len() {
            return Err(Error::invalid(format!(
                "a bound has {} values, the range rule {} columns",
                cut.values.len(),
                rule.columns.len()
            ))
            .with_hint("write (a, b) for a rule of two columns")
            .with_sqlstate("42P17"));
        }
        let mut encoded = partitioner.encode_range(&cut.values)?;
        Ok(RangeBound {
            value: BoundBytes(encoded.pop().unwrap_or_default()),
            after: cut.after,
        })
    };
    Ok(RangeBounds {
        low: spec.low.as_ref().map(cut).transpose()?,
        high: spec.high.as_ref().map(cut).transpose()?,
    })
}

fn hidden_key_column() -> Column {
    Column {
        nullable: false,
        ..Column::new(
            HIDDEN_KEY_COLUMN,
            arrow::datatypes::DataType::FixedSizeBinary(16),
        )
    }
}

fn check_names(spec: &TableSpec) -> Result<()> {
    if spec.columns.is_empty() {
        return Err(
            Error::invalid(format!("table {:?} needs a column", spec.name)).with_sqlstate("42P16"),
        );
    }
    if spec.columns.len() > limits::COLUMNS_MAX {
        return Err(Error::invalid(format!(
            "table {:?} has {} columns, at most {} are possible",
            spec.name,
            spec.columns.len(),
            limits::COLUMNS_MAX
        ))
        .with_sqlstate("54011"));
    }
    let mut seen = std::collections::BTreeSet::new();
    for column in &spec.columns {
        if column.name.len() > limits::NAME_BYTES_MAX || column.name.is_empty() {
            return Err(
                Error::invalid(format!("{:?} can't name a column", column.name))
                    .with_sqlstate("42602"),
            );
        }
        if column.name.starts_with('_') && is_reserved(&column.name) {
            return Err(
                Error::invalid(format!("column name {:?} is reserved", column.name))
                    .with_sqlstate("42939"),
            );
        }
        if !seen.insert(&column.name) {
            return Err(
                Error::invalid(format!("column {:?} is named twice", column.name))
                    .with_name(&column.name)
                    .with_sqlstate("42701"),
            );
        }
    }
    Ok(())
}

/// Names of hidden columns.
fn is_reserved(name: &str) -> bool {
    HiddenColumn::is_name(name) || matches!(name, "_row" | "_kind" | "_mask" | "_column_scus")
}
