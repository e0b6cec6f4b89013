//! CREATE TABLE: columns, key, layout and comments as declared.

use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{
    self, ColumnOption, CommentDef, CreateTableOptions, Expr, OnCommit, PrimaryKeyConstraint,
    Query, SqlOption, TableConstraint, Value,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use lazybase_engine::key::has_order;
use lazybase_model::limits::{COLUMNS_MAX, NAME_BYTES_MAX};
use lazybase_model::table::{ColumnEncoding, ColumnStorage, HIDDEN_KEY_COLUMN, ROW_LABEL_COLUMN};
use lazybase_model::{
    Column, ColumnDefault, ColumnId, Error, IdentityKind, LabelRole, Layout, Result,
};

use super::sequences::serial_type;
use super::{
    Numbered, PartitionClause, SequenceOptions, folded, merge, table_name, unsupported, words,
};
use crate::id_keys::has_default;
use crate::temporary;
use crate::types;

/// A table as declared.
#[derive(Debug, Clone)]
pub(crate) struct CreateTable {
    pub(crate) name: String,
    pub(crate) if_not_exists: bool,
    /// Of the session alone.
    pub(crate) temporary: bool,
    /// Empty where the query gives the columns.
    pub(crate) columns: Vec<Column>,
    /// Columns that number themselves.
    pub(crate) numbered: Vec<Numbered>,
    /// Columns of type IDKEY, by name: whose keys they stand for; the table's own where none.
    pub(crate) id_keys: Vec<(String, Option<Reference>)>,
    /// Empty: a hidden key.
    pub(crate) key: Vec<String>,
    pub(crate) layout: Layout,
    pub(crate) comment: Option<String>,
    /// AS SELECT.
    pub(crate) query: Option<Box<Query>>,
    /// Whether only the columns of the query are wanted.
    pub(crate) without_rows: bool,
    pub(crate) partitions: Option<Box<PartitionClause>>,
    /// How long rows live, in microseconds, and the column whose moment it counts from.
    pub(crate) ttl: (Option<u64>, Option<String>),
    /// How stale cheap answers should be at most.
    pub(crate) freshness_target_micros: Option<u64>,
    /// Whether rows have labels.
    pub(crate) row_labels: bool,
    /// Whether it was asked for a table that a crash empties.
    pub(crate) unlogged: bool,
}

impl CreateTable {
    /// Sets which columns are identity columns.
    ///
    /// # Errors
    /// `Invalid` (42601) for a column that has another default, or is none.
    pub(super) fn set_identities(&mut self, identities: Vec<Numbered>) -> Result<()> {
        for Numbered {
            column: name,
            identity,
            options,
        } in identities
        {
            let column = self.columns.iter_mut().find(|column| column.name == name);
            let column = column.ok_or_else(|| {
                Error::invalid(format!("{name:?} is not a column")).with_sqlstate("42601")
            })?;
            if column.id_key.is_some() || self.id_keys.iter().any(|(known, _)| *known == name) {
                return Err(
                    Error::invalid(format!("ID key {name:?} is numbered already"))
                        .with_sqlstate("42601"),
                );
            }
            number(&mut self.numbered, column, identity, options)?;
        }
        Ok(())
    }

    /// Sets the codecs and encodings of columns.
    ///
    /// # Errors
    /// `Invalid` for an encoding that the column's type can't have, and for a table whose authority
    /// is not Parquet.
    pub(super) fn set_storage(&mut self, storage: &[(String, ColumnStorage)]) -> Result<()> {
        if self.layout == Layout::Point && !storage.is_empty() {
            return Err(no_storage());
        }
        for (name, storage) in storage {
            let column = self.columns.iter_mut().find(|column| column.name == *name);
            let Some(column) = column else {
                return Err(
                    Error::invalid(format!("{name:?} is not a column")).with_sqlstate("42601")
                );
            };
            set_column_storage(column, *storage)?;
        }
        Ok(())
    }
}

/// A table of layout 'point' stores no columns.
pub(crate) fn no_storage() -> Error {
    unsupported("columns of layout 'point' have no codec or encoding")
        .with_detail("its extents of whole rows are compressed whole")
}

/// Sets the codec and the encoding of a column.
///
/// # Errors
/// `Invalid` for an encoding that the column's type can't have.
pub(super) fn set_column_storage(column: &mut Column, storage: ColumnStorage) -> Result<()> {
    let name = &column.name;
    let of_type = ColumnEncoding::of_type(&column.stored_type());
    let wrong = storage
        .encoding
        .filter(|encoding| !of_type.contains(encoding));
    let data_type = types::declared_name(column);
    if let Some(encoding) = wrong {
        let names: Vec<&str> = of_type.iter().map(|encoding| encoding.name()).collect();
        let can = match names.is_empty() {
            true => "none".to_owned(),
            false => names.join(", "),
        };
        return Err(Error::invalid(format!(
            "column {name:?} can't have the encoding {}",
            encoding.name()
        ))
        .with_hint(format!("encodings of {data_type}: {can}"))
        .with_sqlstate("42804"));
    }
    if column.data_type.is_nested() {
        return Err(unsupported(format!(
            "column {name:?} of type {data_type} can't have a codec of its own"
        )));
    }
    column.storage = storage;
    Ok(())
}

/// The table that an ID key refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) table: String,
    /// The column named in parentheses.
    pub(crate) column: Option<String>,
}

pub(super) fn create_table(create: ast::CreateTable) -> Result<CreateTable> {
    check_form(&create)?;
    let name = temporary::own_name(&table_name(&create.name)?).to_owned();
    let of_session = temporary::named(&name).map(str::to_owned);
    let mut table = CreateTable {
        if_not_exists: create.if_not_exists,
        temporary: create.temporary || of_session.is_some(),
        name: checked_name(of_session.unwrap_or(name))?,
        columns: Vec::with_capacity(create.columns.len()),
        numbered: Vec::new(),
        id_keys: Vec::new(),
        key: Vec::new(),
        layout: Layout::default(),
        comment: create.comment.as_ref().map(comment_text),
        query: create.query,
        without_rows: false,
        partitions: None,
        ttl: (None, None),
        freshness_target_micros: None,
        row_labels: false,
        unlogged: false,
    };
    for column in &create.columns {
        add_column(&mut table, column)?;
    }
    for constraint in &create.constraints {
        add_constraint(&mut table, constraint)?;
    }
    add_options(&mut table, &create.table_options)?;
    finish(&mut table)?;
    Ok(table)
}

/// Takes UNLOGGED out of the tokens of CREATE UNLOGGED TABLE.
pub(super) fn take_unlogged(tokens: &mut Vec<TokenWithSpan>) -> bool {
    let words = ["create", "unlogged", "table"];
    let is_word = |(token, wanted): (&TokenWithSpan, &str)| match &token.token {
        Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted),
        _ => false,
    };
    let there = tokens.len() > words.len() && tokens.iter().zip(words).all(is_word);
    if there {
        tokens.remove(1);
    }
    there
}

fn check_form(create: &ast::CreateTable) -> Result<()> {
    let kept = matches!(create.on_commit, None | Some(OnCommit::PreserveRows));
    if create.global == Some(true) || create.volatile || create.transient || !kept {
        return Err(unsupported("this kind of temporary table is not supported")
            .with_hint("CREATE TEMPORARY TABLE makes one that ends with its session"));
    }
    if create.or_replace {
        return Err(unsupported("CREATE OR REPLACE TABLE is not supported")
            .with_hint("DROP TABLE IF EXISTS first"));
    }
    if create.like.is_some() {
        return Err(words::like());
    }
    if create.clone.is_some()
        || create.inherits.is_some()
        || create.partition_of.is_some()
        || create.partition_by.is_some()
        || create.external
    {
        return Err(unsupported("this form of CREATE TABLE is not supported")
            .with_hint("list the columns, or write CREATE TABLE ... AS SELECT"));
    }
    if create.columns.is_empty() && create.query.is_none() {
        return Err(Error::invalid("a table needs at least one column").with_sqlstate("42601"));
    }
    if !create.columns.is_empty() && create.query.is_some() {
        return Err(
            unsupported("CREATE TABLE ... AS takes its columns from the query")
                .with_hint("name them there with AS; a PRIMARY KEY (...) may stand in parentheses"),
        );
    }
    Ok(())
}

fn add_column(table: &mut CreateTable, column: &ast::ColumnDef) -> Result<()> {
    let name = checked_name(folded(&column.name))?;
    if matches!(
        name.as_str(),
        HIDDEN_KEY_COLUMN | ROW_LABEL_COLUMN | "_scu" | "_time"
    ) {
        return Err(
            Error::invalid(format!("column name {name:?} is reserved")).with_sqlstate("42939")
        );
    }
    if table.columns.iter().any(|other| other.name == name) {
        return Err(Error::invalid(format!("column {name:?} is declared twice"))
            .with_name(name)
            .with_sqlstate("42701"));
    }
    let is_id_key = is_id_key(&column.data_type);
    let serial = serial(&column.data_type);
    let (data_type, characters_max) = match (is_id_key, &serial) {
        (true, _) => (DataType::Int64, None),
        (_, Some(numbers)) => (numbers.clone(), None),
        (false, None) => types::of_column(&column.data_type)
            .map_err(|error| error.within(format_args!("column {name:?}")))?,
    };
    let mut reference = None;
    let mut made = Column {
        characters_max,
        json: types::is_json(&column.data_type),
        ..Column::new(name, data_type)
    };
    for option in &column.options {
        match &option.option {
            ColumnOption::Null => {}
            ColumnOption::NotNull => made.nullable = false,
            ColumnOption::Default(Expr::Value(value)) if value.value == Value::Null => {}
            ColumnOption::Default(expr) => {
                made.default = ColumnDefault::Expression(expr.to_string());
            }
            ColumnOption::PrimaryKey(_) if table.key.is_empty() => {
                table.key.push(made.name.clone());
            }
            ColumnOption::PrimaryKey(_) => return Err(two_keys()),
            ColumnOption::Comment(comment) => made.comment = Some(comment.clone()),
            ColumnOption::DialectSpecific(tokens) if merge::operator(tokens).is_some() => {
                made.merge = merge::operator(tokens).flatten();
            }
            // The column of the labels is made with the table.
            ColumnOption::DialectSpecific(tokens) if merge::labels(tokens) => {
                made.label = Some(LabelRole::In(ColumnId(u32::MAX)));
            }
            ColumnOption::ForeignKey(key) if is_id_key && reference.is_none() => {
                reference = Some(referred(key)?);
            }
            other => {
                return Err(refused_constraint(&format!(
                    "column {:?}: {other}",
                    made.name
                )));
            }
        }
    }
    if serial.is_some() {
        let options = SequenceOptions::default();
        number(&mut table.numbered, &mut made, None, options)?;
    }
    if is_id_key {
        if has_default(&made.default) {
            return Err(
                Error::invalid(format!("ID key {:?} has a default", made.name))
                    .with_hint("IDs are given out by the database: leave DEFAULT out")
                    .with_sqlstate("42P16"),
            );
        }
        table.id_keys.push((made.name.clone(), reference));
    }
    table.columns.push(made);
    Ok(())
}

/// The type of the numbers of a column that numbers itself by its declared type.
fn serial(declared: &ast::DataType) -> Option<DataType> {
    match declared {
        ast::DataType::Custom(name, arguments) if arguments.is_empty() => {
            serial_type(&name.to_string())
        }
        _ => None,
    }
}

/// A column of a table numbers itself.
fn number(
    table: &mut Vec<Numbered>,
    column: &mut Column,
    identity: Option<IdentityKind>,
    options: SequenceOptions,
) -> Result<()> {
    let name = &column.name;
    let is_numbered = table.iter().any(|known| known.column == *name);
    if is_numbered || has_default(&column.default) {
        return Err(Error::invalid(format!("column {name:?} has two defaults"))
            .with_detail("it numbers itself")
            .with_name(name)
            .with_sqlstate("42601"));
    }
    column.nullable = false;
    table.push(Numbered {
        column: name.clone(),
        identity,
        options,
    });
    Ok(())
}

/// Whether a declared type is that of ID keys.
fn is_id_key(declared: &ast::DataType) -> bool {
    match declared {
        ast::DataType::Custom(name, arguments) => {
            arguments.is_empty() && name.to_string().eq_ignore_ascii_case("idkey")
        }
        _ => false,
    }
}

/// The owner that REFERENCES names.
fn referred(key: &ast::ForeignKeyConstraint) -> Result<Reference> {
    if key.on_delete.is_some() || key.on_update.is_some() || key.match_kind.is_some() {
        return Err(
            unsupported("ON DELETE, ON UPDATE and MATCH are not supported").with_detail(
                "the ID of a natural key stays for ever, whether the owner has its row",
            ),
        );
    }
    Ok(Reference {
        table: table_name(&key.foreign_table)?,
        column: match key.referred_columns.as_slice() {
            [] => None,
            [column] => Some(folded(column)),
            _ => {
                return Err(
                    Error::invalid("an ID key refers to one column: the owner's ID key")
                        .with_sqlstate("42830"),
                );
            }
        },
    })
}

fn add_constraint(table: &mut CreateTable, constraint: &TableConstraint) -> Result<()> {
    let TableConstraint::PrimaryKey(key) = constraint else {
        return Err(refused_constraint(&constraint.to_string()));
    };
    if !table.key.is_empty() {
        return Err(two_keys());
    }
    table.key = key_columns(key)?;
    Ok(())
}

/// The columns of PRIMARY KEY (...).
pub(super) fn key_columns(key: &PrimaryKeyConstraint) -> Result<Vec<String>> {
    let names = key.columns.iter().map(|column| match &column.column.expr {
        Expr::Identifier(ident) if column.column.options.asc != Some(false) => Ok(folded(ident)),
        other => Err(unsupported(format!("{other} can't be part of a key"))
            .with_hint("a key is made of columns, sorted upwards")),
    });
    names.collect()
}

fn refused_constraint(what: &str) -> Error {
    unsupported(format!("{what} is not supported"))
        .with_detail("writes are blind: only PRIMARY KEY, NOT NULL and DEFAULT are kept")
}

/// A table has a key already.
pub(crate) fn two_keys() -> Error {
    Error::invalid("a table has one primary key")
        .with_hint("a key of several columns is written PRIMARY KEY (a, b)")
        .with_sqlstate("42P16")
}

fn add_options(table: &mut CreateTable, options: &CreateTableOptions) -> Result<()> {
    let options = match options {
        CreateTableOptions::None => return Ok(()),
        CreateTableOptions::With(options)
        | CreateTableOptions::Options(options)
        | CreateTableOptions::Plain(options)
        | CreateTableOptions::TableProperties(options) => options,
    };
    for option in options {
        match option {
            SqlOption::Comment(comment) => table.comment = Some(comment_text(comment)),
            SqlOption::KeyValue { key, value } => add_option(table, &folded(key), value)?,
            other => return Err(unsupported(format!("{other} is not an option of a table"))),
        }
    }
    Ok(())
}

/// The option that says how stale cheap answers should be at most.
pub(super) const FRESHNESS_TARGET: &str = "freshness_target";
/// The option of a table whose rows have labels.
pub(super) const ROW_LABELS: &str = "row_labels";

fn option_text(value: &Expr) -> String {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        other => other.to_string(),
    }
}

/// What the option [`ROW_LABELS`] is set to.
///
/// # Errors
/// `Invalid` (22023) for what is neither true nor false.
pub(super) fn row_labels(value: &Expr) -> Result<bool> {
    let text = option_text(value);
    match text.to_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Ok(true),
        "false" | "off" | "no" | "0" => Ok(false),
        _ => Err(
            Error::invalid(format!("row_labels is true or false, not {text:?}"))
                .with_sqlstate("22023"),
        ),
    }
}

fn add_option(table: &mut CreateTable, key: &str, value: &Expr) -> Result<()> {
    let text = option_text(value);
    match (key, text.to_lowercase().as_str()) {
        ("layout", "point") => table.layout = Layout::Point,
        ("layout", "scan") => table.layout = Layout::Scan,
        ("layout", _) => {
            return Err(Error::invalid(format!("unknown layout {text:?}"))
                .with_hint("layout is 'scan' (the default) or 'point'")
                .with_sqlstate("22023"));
        }
        ("comment", _) => table.comment = Some(text),
        (ROW_LABELS, _) => table.row_labels = row_labels(value)?,
        ("ttl", _) => table.ttl.0 = Some(time_to_live(&text)?),
        (FRESHNESS_TARGET, _) => table.freshness_target_micros = freshness_target(value)?,
        // How full PostgreSQL's pages are to be. There are none here, and it decides no answer.
        ("fillfactor", percent)
            if percent
                .parse::<u8>()
                .is_ok_and(|percent| (10..=100).contains(&percent)) => {}
        ("ttl_column", _) => table.ttl.1 = Some(text),
        _ => {
            return Err(
                Error::invalid(format!("{key:?} is not an option of a table"))
                    .with_hint(
                        "there are layout, comment, row_labels, ttl, ttl_column and \
                         freshness_target",
                    )
                    .with_sqlstate("22023"),
            );
        }
    }
    Ok(())
}

/// A time to live, in microseconds: such as `30 days` or `90 s`.
fn time_to_live(text: &str) -> Result<u64> {
    micros(text, "a time to live")
}

/// What the option [`FRESHNESS_TARGET`] is set to, in microseconds; `None` for no target.
///
/// # Errors
/// `Invalid` (22023) for what is no time.
pub(super) fn freshness_target(value: &Expr) -> Result<Option<u64>> {
    let text = option_text(value);
    match text.to_lowercase().as_str() {
        "none" | "null" | "default" => Ok(None),
        _ => micros(&text, "a freshness target").map(Some),
    }
}

fn micros(text: &str, what: &str) -> Result<u64> {
    let wrong = || {
        Error::invalid(format!("{text:?} is not {what}"))
            .with_hint("write a number and a unit, such as '30 days', '12 hours' or '90 s'")
            .with_sqlstate("22023")
    };
    let lower = text.trim().to_lowercase();
    let end = lower
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(lower.len());
    let number: u64 = lower[..end].parse().map_err(|_| wrong())?;
    let unit: u64 = match lower[end..].trim() {
        "us" | "microsecond" | "microseconds" => 1,
        "ms" | "millisecond" | "milliseconds" => 1_000,
        "" | "s" | "sec" | "second" | "seconds" => 1_000_000,
        "min" | "minute" | "minutes" => 60_000_000,
        "h" | "hour" | "hours" => 3_600_000_000,
        "d" | "day" | "days" => 86_400_000_000,
        "w" | "week" | "weeks" => 7 * 86_400_000_000,
        _ => return Err(wrong()),
    };
    number
        .checked_mul(unit)
        .filter(|micros| (1..i64::MAX as u64).contains(micros))
        .ok_or_else(wrong)
}

fn comment_text(comment: &CommentDef) -> String {
    match comment {
        CommentDef::WithEq(text) | CommentDef::WithoutEq(text) => text.clone(),
    }
}

fn finish(table: &mut CreateTable) -> Result<()> {
    if table.columns.len() > COLUMNS_MAX {
        return Err(
            Error::invalid(format!("a table has at most {COLUMNS_MAX} columns"))
                .with_detail(format!("{} are declared", table.columns.len()))
                .with_sqlstate("54011"),
        );
    }
    for (at, name) in table.key.iter().enumerate() {
        if table.key[..at].contains(name) {
            return Err(
                Error::invalid(format!("column {name:?} is in the key twice"))
                    .with_name(name)
                    .with_sqlstate("42701"),
            );
        }
    }
    if table.query.is_some() {
        return Ok(());
    }
    mark_key(&mut table.columns, &table.key)
}

/// Makes the columns of the key NOT NULL.
///
/// # Errors
/// `Invalid` when a column is not there or its values have no order.
pub(crate) fn mark_key(columns: &mut [Column], key: &[String]) -> Result<()> {
    for name in key {
        let Some(column) = columns.iter_mut().find(|column| column.name == *name) else {
            return Err(
                Error::not_found(format!("the key's column {name:?} is not declared"))
                    .with_name(name)
                    .with_sqlstate("42703"),
            );
        };
        if !has_order(&column.data_type) {
            return Err(
                Error::invalid(format!("column {name:?} can't be part of a key"))
                    .with_detail(format!(
                        "values of type {} have no order",
                        types::name(&column.data_type)
                    ))
                    .with_hint(ordered_instead(&column.data_type))
                    .with_sqlstate("42P16"),
            );
        }
        column.nullable = false;
    }
    Ok(())
}

/// What to put into a key in the place of values that have no order.
fn ordered_instead(of: &DataType) -> &'static str {
    match of {
        DataType::Interval(_) => "a number has an order, such as a BIGINT of seconds",
        DataType::Struct(_) => "declare its fields as columns, and put them into the key",
        _ => "a TEXT that spells the same has an order; the list may stand beside the key",
    }
}

/// A name that a table or a column may have.
///
/// # Errors
/// `Invalid` for one that is empty, too long, or that of a temporary table.
pub fn checked_name(name: String) -> Result<String> {
    match name.len() {
        1..=NAME_BYTES_MAX if temporary::is_stored(&name) || temporary::named(&name).is_some() => {
            Err(Error::invalid(format!("the name {name:?} is reserved")).with_sqlstate("42939"))
        }
        1..=NAME_BYTES_MAX => Ok(name),
        0 => Err(Error::invalid("a name can't be empty").with_sqlstate("42602")),
        bytes => Err(Error::invalid("the name is too long")
            .with_detail(format!(
                "it has {bytes} bytes, {NAME_BYTES_MAX} are allowed"
            ))
            .with_sqlstate("42622")),
    }
}
