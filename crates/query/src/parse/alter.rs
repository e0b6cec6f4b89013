//! ALTER TABLE and COMMENT ON: what is asked, and what can't be done refused with the reason.

use datafusion::sql::sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use datafusion::sql::sqlparser::ast::{
    self, AlterColumnOperation, AlterTableOperation, ColumnDef, CommentObject, DropBehavior, Expr,
    ObjectName, RenameTableNameKind, SqlOption, TableConstraint, Value,
};
use lazybase_engine::schema::Alteration;
use lazybase_model::table::ColumnStorage;
use lazybase_model::{Column, ColumnDefault, Error, Result};

use super::create::{
    FRESHNESS_TARGET, ROW_LABELS, checked_name, create_table, freshness_target, key_columns,
    row_labels, set_column_storage,
};
use super::{folded, merge, table_name, unsupported};
use crate::temporary::own_name;
use crate::types;

/// ALTER TABLE, or COMMENT ON.
#[derive(Debug, Clone)]
pub(crate) struct AlterTable {
    pub(crate) name: String,
    pub(crate) if_exists: bool,
    /// In this order.
    pub(crate) steps: Vec<AlterStep>,
    /// Whether views go with columns that they read.
    pub(crate) cascade: bool,
    /// Whether it says that it is about a plain view.
    pub(crate) of_view: bool,
    /// What the answer says was done.
    pub(crate) tag: &'static str,
}

/// One change that is asked for.
#[derive(Debug, Clone)]
pub(crate) enum AlterStep {
    /// As it stands.
    Change(Alteration),
    /// A new column: its default has no value for older rows yet.
    Add { column: Column, if_not_exists: bool },
    /// A column that need not be there.
    DropIfExists(String),
    /// A table without a key gets one of these columns.
    AddPrimaryKey(Vec<String>),
}

impl AlterTable {
    /// Sets the codecs and encodings of new columns.
    ///
    /// # Errors
    /// `Invalid` for an encoding that the column's type can't have.
    pub(super) fn set_storage(&mut self, storage: &[(String, ColumnStorage)]) -> Result<()> {
        for (name, storage) in storage {
            let new = self.steps.iter_mut().find_map(|step| match step {
                AlterStep::Add { column, .. } if column.name == *name => Some(column),
                _ => None,
            });
            if let Some(column) = new {
                set_column_storage(column, *storage)?;
            }
        }
        Ok(())
    }
}

pub(super) fn alter_table(alter: ast::AlterTable) -> Result<AlterTable> {
    if alter.location.is_some() || alter.on_cluster.is_some() || alter.table_type.is_some() {
        return Err(unsupported("this form of ALTER TABLE is not supported"));
    }
    let mut steps = Vec::with_capacity(alter.operations.len());
    let mut cascade = false;
    for operation in alter.operations {
        cascade |= drops_with_views(&operation);
        add_steps(&mut steps, operation)?;
    }
    Ok(AlterTable {
        name: table_name(&alter.name)?,
        if_exists: alter.if_exists,
        steps,
        cascade,
        of_view: false,
        tag: "ALTER TABLE",
    })
}

fn drops_with_views(operation: &AlterTableOperation) -> bool {
    matches!(
        operation,
        AlterTableOperation::DropColumn {
            drop_behavior: Some(DropBehavior::Cascade),
            ..
        }
    )
}

fn add_steps(steps: &mut Vec<AlterStep>, operation: AlterTableOperation) -> Result<()> {
    use AlterTableOperation as Op;
    match operation {
        Op::AddColumn {
            if_not_exists,
            column_def,
            column_position: None,
            ..
        } => steps.push(AlterStep::Add {
            column: new_column(column_def)?,
            if_not_exists,
        }),
        Op::AddColumn { .. } => {
            return Err(unsupported("a new column has no place to choose")
                .with_detail("columns stand in the order in which they were added")
                .with_hint("name the columns in SELECT"));
        }
        Op::DropColumn {
            column_names,
            if_exists,
            ..
        } => steps.extend(column_names.iter().map(|name| match if_exists {
            true => AlterStep::DropIfExists(folded(name)),
            false => AlterStep::Change(Alteration::DropColumn(folded(name))),
        })),
        Op::RenameColumn {
            old_column_name,
            new_column_name,
        } => steps.push(AlterStep::Change(Alteration::RenameColumn {
            from: folded(&old_column_name),
            to: checked_name(folded(&new_column_name))?,
        })),
        Op::RenameTable {
            table_name: RenameTableNameKind::To(name) | RenameTableNameKind::As(name),
        } => {
            let name = checked_name(own_name(&table_name(&name)?).to_owned())?;
            steps.push(AlterStep::Change(Alteration::Rename(name)));
        }
        Op::AlterColumn { column_name, op } => {
            steps.push(AlterStep::Change(column_change(folded(&column_name), op)?));
        }
        Op::SetOptionsParens { options } if settable(&options).is_some() => {
            for (name, value) in settable(&options).unwrap_or_default() {
                steps.push(AlterStep::Change(match name {
                    FRESHNESS_TARGET => Alteration::SetFreshnessTarget(freshness_target(value)?),
                    _ if row_labels(value)? => Alteration::AddRowLabels,
                    _ => return Err(labels_stay("of rows")),
                }));
            }
        }
        Op::AddConstraint {
            constraint: TableConstraint::PrimaryKey(key),
            not_valid: false,
        } => steps.push(AlterStep::AddPrimaryKey(key_columns(&key)?)),
        other => return Err(refused(&other)),
    }
    Ok(())
}

/// A column as CREATE TABLE would read it.
fn new_column(column: ColumnDef) -> Result<Column> {
    let name = ObjectName::from(vec![ast::Ident::new("t")]);
    let create = CreateTableBuilder::new(name).columns(vec![column]).build();
    let mut table = create_table(create)?;
    if let Some((name, _)) = table.id_keys.first() {
        return Err(
            unsupported(format!("ID key {name:?} can't be added to a table"))
                .with_detail("rows that are there would have no natural key")
                .with_hint("CREATE TABLE with it, then INSERT ... SELECT IDKEY(...)"),
        );
    }
    if let Some(numbered) = table.numbered.first() {
        let name = &numbered.column;
        return Err(unsupported(format!(
            "column {name:?} can't be added: it would number itself"
        ))
        .with_detail("rows that are there would all hold one number")
        .with_hint("CREATE TABLE with it, then INSERT ... SELECT from the old table"));
    }
    match (table.columns.pop(), table.key.is_empty()) {
        (Some(column), true) => Ok(column),
        _ => Err(unsupported("a new column can't be a key")
            .with_detail("rows are sorted by their key: all of them would have to be written anew")
            .with_hint("CREATE TABLE ... AS SELECT makes a table with another key")),
    }
}

fn column_change(column: String, op: AlterColumnOperation) -> Result<Alteration> {
    use AlterColumnOperation as Op;
    Ok(match op {
        Op::DropNotNull => Alteration::DropNotNull(column),
        Op::SetNotNull => {
            return Err(
                unsupported(format!("column {column:?} can't be made NOT NULL"))
                    .with_detail("stored rows may hold NULL there, and changing a table reads none")
                    .with_hint("ADD COLUMN ... NOT NULL DEFAULT ... makes one that never did"),
            );
        }
        Op::SetDefault { value } if merge::altered(&value) == Some(true) => {
            Alteration::AddLabels(column)
        }
        Op::SetDefault { value } if merge::altered(&value).is_some() => {
            return Err(labels_stay(&format!("of column {column:?}")));
        }
        Op::SetDefault { value } => Alteration::SetDefault {
            column,
            default: match &value {
                Expr::Value(value) if value.value == Value::Null => ColumnDefault::Null,
                expr => ColumnDefault::Expression(expr.to_string()),
            },
        },
        Op::DropDefault => Alteration::SetDefault {
            column,
            default: ColumnDefault::Null,
        },
        Op::SetDataType {
            data_type,
            using: None,
            ..
        } => {
            let json = types::is_json(&data_type);
            let (data_type, characters_max) = types::of_column(&data_type)
                .map_err(|error| error.within(format_args!("column {column:?}")))?;
            Alteration::SetType {
                column,
                data_type,
                characters_max,
                json,
            }
        }
        Op::SetDataType { .. } => {
            return Err(
                unsupported("ALTER COLUMN ... TYPE ... USING is not supported")
                    .with_detail(
                        "stored values are not rewritten: each must be one of the new type",
                    )
                    .with_hint("ADD COLUMN, then UPDATE ... SET new = ... makes a changed copy"),
            );
        }
        Op::AddGenerated { .. } => {
            return Err(unsupported("generated columns are not supported"));
        }
    })
}

/// The options that are set, if all of them can be set after their table was made.
fn settable(options: &[SqlOption]) -> Option<Vec<(&'static str, &Expr)>> {
    let mut options = options.iter();
    options.try_fold(Vec::new(), |mut known, option| {
        let SqlOption::KeyValue { key, value } = option else {
            return None;
        };
        let key = folded(key);
        let name = [ROW_LABELS, FRESHNESS_TARGET]
            .into_iter()
            .find(|name| *name == key)?;
        known.push((name, value));
        Some(known)
    })
}

/// Labels are not dropped: there is nothing that hides what they hid.
fn labels_stay(of: &str) -> Error {
    unsupported(format!("labels {of} can't be dropped"))
        .with_detail("everybody would be shown what they hide, now and in later changes")
        .with_hint(
            "CREATE TABLE ... AS SELECT copies what you may read into a table without labels; \
             DROP COLUMN ends cells and their labels",
        )
}

fn refused(operation: &AlterTableOperation) -> Error {
    let error = unsupported(format!("ALTER TABLE ... {operation} is not supported"));
    match operation {
        AlterTableOperation::AddConstraint { .. } => error.with_detail(
            "writes are blind: constraints beside PRIMARY KEY and NOT NULL are not kept",
        ),
        AlterTableOperation::DropPrimaryKey { .. } => {
            error.with_hint("CREATE TABLE ... AS SELECT makes a table with another key")
        }
        AlterTableOperation::SetOptionsParens { .. }
        | AlterTableOperation::SetTblProperties { .. } => error
            .with_detail(
                "layout, ttl and ttl_column are chosen once: rows that have ended may be gone",
            )
            .with_hint("CREATE TABLE ... AS SELECT makes a table with others"),
        _ => error.with_hint(
            "there are ADD, DROP and RENAME COLUMN, ADD PRIMARY KEY, ALTER COLUMN ... TYPE, \
             SET DEFAULT, DROP DEFAULT, DROP NOT NULL and SET WITH LABELS, \
             SET (row_labels = true), SET (freshness_target = ...), and RENAME TO",
        ),
    }
}

pub(super) fn comment_on(
    object: CommentObject,
    name: &ObjectName,
    text: Option<String>,
    if_exists: bool,
) -> Result<AlterTable> {
    let of_view = object == CommentObject::View;
    let (table, column) = match object {
        CommentObject::Table | CommentObject::View => (table_name(name)?, None),
        CommentObject::Column => {
            let mut parts = name.0.clone();
            let column = parts.pop();
            let column = column.as_ref().and_then(|part| part.as_ident()).map(folded);
            let (Some(column), false) = (column, parts.is_empty()) else {
                return Err(Error::invalid(format!("{name} names no column of a table"))
                    .with_hint("write COMMENT ON COLUMN table.column IS '...'")
                    .with_sqlstate("42601"));
            };
            (table_name(&ObjectName(parts))?, Some(column))
        }
        other => {
            return Err(unsupported(format!("COMMENT ON {other} is not supported"))
                .with_hint("there are comments on tables, views and columns"));
        }
    };
    Ok(AlterTable {
        name: table,
        if_exists,
        steps: vec![AlterStep::Change(Alteration::Comment { column, text })],
        cascade: false,
        of_view,
        tag: "COMMENT",
    })
}
