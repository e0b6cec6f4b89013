//! A statement's text as one of the statements that LazyBase knows.
//!
//! ```text
//!   text -> tokens -> trailing clauses taken off -> SETTLE, SET, ... by their tokens
//!                                                -> everything else by sqlparser; casts cut
//! ```
//!
//! Reads text; writes nothing. Invariant PAR-1: whatever sqlparser accepts but LazyBase does not
//! do is refused here or by the part that would do it, and never ignored.

use std::collections::BTreeSet;

use datafusion::sql::sqlparser::ast::{self, Ident, ObjectName, ObjectNamePart};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, PostgreSqlDialect};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Tokenizer};
use lazybase_model::table::ColumnStorage;
use lazybase_model::{Error, Result};

use crate::clauses::{Clauses, take_clauses};
use crate::error::from_parser;
use crate::pg_catalog::vectors::is_of_catalog;
use crate::pg_catalog::{PG_CATALOG, rewrite};
use crate::temporary::{self, PG_TEMP};
use crate::text_places::with_end;

pub(crate) mod alter;
mod ambiguous_columns;
mod array_queries;
mod calls;
mod cast_names;
mod casts;
mod conflicts;
mod constants;
pub(crate) mod convert;
mod copy_condition;
pub(crate) mod create;
mod date_formats;
mod depth;
mod elements;
mod explained;
mod ignored;
mod json;
mod kept_names;
mod merge;
pub(crate) mod named;
pub(crate) mod natural_joins;
mod nested_exists;
mod outside_queries;
pub(crate) mod parameters;
pub(crate) mod partitions;
mod plain_view;
mod postgres;
mod repeated_groups;
pub(crate) mod roles;
mod row_lookups;
mod rows;
pub(crate) mod sequences;
mod series;
mod signs;
mod split_tables;
mod storage;
mod subqueries;
pub(crate) mod taken;
mod temporary_names;
mod unnest;
mod using_joins;
pub(crate) mod view;
mod whole_rows;
mod windows;
mod with_data;
mod words;

#[cfg(test)]
mod tests;

pub(crate) use alter::AlterTable;
pub(crate) use convert::{
    ChangedRows, CopyFile, CopyPlace, CopySource, Delete, Insert, InsertSource, OnConflict, Update,
};
pub(crate) use create::CreateTable;
pub use create::checked_name;
pub(crate) use named::NamedStatement;
pub(crate) use partitions::{AlterPartition, BoundsClause, PartitionClause};
pub(crate) use plain_view::{CreatePlainView, PlainViewStatement};
pub(crate) use postgres::{array_of_text, formats};
pub(crate) use roles::AccessStatement;
pub use roles::redacted;
pub(crate) use rows::list as list_of_rows;
pub(crate) use sequences::{Bound, Numbered, OwnedBy, Restart, SequenceOptions, SequenceStatement};
pub(crate) use temporary_names::may_name_schema;
pub(crate) use view::CreateView;
pub(crate) use words::serializable;

/// The names that all stored tables live under.
pub(crate) const CATALOG: &str = "lazybase";
/// The schema of all stored tables.
pub(crate) const SCHEMA: &str = "public";
/// The schema of the system tables.
pub(crate) const SYSTEM_SCHEMA: &str = "lazybase";

/// How deeply a statement may be nested.
const RECURSION_LIMIT: usize = 50;

/// A statement with the clauses that hold for all of it.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) statement: Statement,
    pub(crate) clauses: Clauses,
}

/// What a statement asks for.
#[derive(Debug, Clone)]
pub(crate) enum Statement {
    Query(Box<ast::Query>),
    /// The whole EXPLAIN, as sqlparser gives it.
    Explain(Box<ast::Statement>),
    CreateTable(Box<CreateTable>),
    AlterTable(Box<AlterTable>),
    AlterPartition(Box<AlterPartition>),
    DropTable {
        names: Vec<String>,
        if_exists: bool,
        cascade: bool,
    },
    CreateView(Box<CreateView>),
    DropView {
        names: Vec<String>,
        if_exists: bool,
        cascade: bool,
    },
    /// CREATE VIEW, DROP VIEW, ALTER VIEW ... RENAME TO.
    PlainView(Box<PlainViewStatement>),
    Truncate {
        names: Vec<String>,
        if_exists: bool,
        /// Whether the sequences of their columns begin again.
        restart: bool,
    },
    /// Of sequences.
    Sequence(Box<SequenceStatement>),
    Insert(Box<Insert>),
    Update(Box<Update>),
    Delete(Box<Delete>),
    CopyTo {
        source: CopySource,
        file: CopyFile,
    },
    CopyFrom {
        table: String,
        columns: Vec<String>,
        file: CopyFile,
        /// What has to hold for a row to be written.
        condition: Option<Box<ast::Expr>>,
    },
    Begin {
        /// As the session's transactions are where it does not say.
        read_only: Option<bool>,
    },
    SetTransaction {
        read_only: Option<bool>,
    },
    /// The same of the session's transactions that follow.
    SetCharacteristics {
        read_only: Option<bool>,
    },
    Commit {
        /// Whether a transaction like it begins at once.
        chain: bool,
    },
    Rollback {
        /// The same.
        chain: bool,
    },
    Savepoint(String),
    RollbackTo(String),
    Release(String),
    /// SET name = value; `None` stands for DEFAULT.
    Set {
        name: String,
        value: Option<String>,
        /// Until the end of the transaction.
        local: bool,
        /// Where the name stands in the text, and where the value begins.
        at: [Span; 2],
    },
    Show(String),
    ShowTables,
    ShowViews,
    /// What makes a table with its views, or a view, again.
    ShowCreate {
        name: String,
        of_view: bool,
    },
    /// RESET name; `None` stands for ALL.
    Reset(Option<String>),
    /// The columns of a table, a view, or a system table, whose schema is said.
    Describe {
        schema: Option<String>,
        name: String,
    },
    Settle {
        table: Option<String>,
        to: lazybase_cluster::SettleTo,
    },
    /// VERIFY TABLE: the share of rows that is compared, from 0 to 1.
    VerifyTable {
        table: String,
        share: f64,
    },
    /// BACKUP TO a folder of the machine that the database runs on.
    Backup {
        folder: String,
    },
    /// VACUUM or ANALYZE of tables, of all where none is named.
    Vacuum {
        tag: &'static str,
        tables: Vec<String>,
    },
    /// It is taken and changes nothing.
    Taken(taken::Taken),
    /// REFRESH MATERIALIZED VIEW: views are never behind their tables.
    RefreshView(String),
    /// Who may do what.
    Access(Box<AccessStatement>),
    Pause(lazybase_cluster::StageName),
    Resume(lazybase_cluster::StageName),
    /// Of the statements that the session keeps under names.
    Named(Box<NamedStatement>),
}

impl Statement {
    /// Whether the statement may write a batch of rows.
    pub(crate) fn may_write(&self) -> bool {
        matches!(
            self,
            Statement::Insert(_)
                | Statement::Update(_)
                | Statement::Delete(_)
                | Statement::CopyFrom { .. }
                | Statement::Commit { .. }
        )
    }

    /// Whether the statement changes tables.
    pub(crate) fn changes_tables(&self) -> bool {
        matches!(
            self,
            Statement::CreateTable(_)
                | Statement::AlterTable(_)
                | Statement::AlterPartition(_)
                | Statement::DropTable { .. }
                | Statement::CreateView(_)
                | Statement::DropView { .. }
                | Statement::PlainView(_)
                | Statement::Truncate { .. }
                | Statement::Sequence(_)
        )
    }

    /// Whether the statement changes rows, tables, or who may do what.
    pub(crate) fn changes_anything(&self) -> bool {
        let rows = matches!(
            self,
            Statement::Insert(_)
                | Statement::Update(_)
                | Statement::Delete(_)
                | Statement::CopyFrom { .. }
                | Statement::Access(_)
        );
        (rows || self.changes_tables()) && !self.is_set_role()
    }

    /// Whether it only changes as whom the session acts.
    pub(crate) fn is_set_role(&self) -> bool {
        matches!(self, Statement::Access(access)
            if matches!(**access, AccessStatement::SetRole(_)))
    }

    /// Whether the trailing clauses mean anything for this statement.
    fn takes_clauses(&self) -> bool {
        match self {
            Statement::Query(_) | Statement::Explain(_) | Statement::CopyTo { .. } => true,
            Statement::Insert(insert) => matches!(insert.source, InsertSource::Query(_)),
            Statement::CreateTable(create) => create.query.is_some(),
            _ => false,
        }
    }
}

/// Reads one statement.
///
/// # Errors
/// `Invalid`: 42601 for what is no SQL, 0A000 for what LazyBase does not do.
pub(crate) fn parse(sql: &str) -> Result<Parsed> {
    read(sql)?.finish()
}

/// Reads one statement that the database itself has written: nothing in it has a place in a
/// user's text.
///
/// # Errors
/// As [`parse`].
pub(crate) fn parse_template(sql: &str) -> Result<Parsed> {
    read_by_dialect(sql, |dialect| {
        read_tokens(dialect, sql, &BTreeSet::new(), |token| {
            token.span = Span::empty();
        })
    })?
    .finish()
}

/// A statement that was read: its parameters may still wait for their values.
#[derive(Debug, Clone)]
pub(crate) struct Unbound {
    pub(crate) text: Text,
    pub(crate) clauses: Clauses,
    pub(crate) extras: Extras,
}

/// What sqlparser does not read of a CREATE TABLE, an ALTER TABLE, a COPY, or an INSERT.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extras {
    /// UNLOGGED.
    unlogged: bool,
    /// WITH NO DATA.
    without_rows: bool,
    /// PARTITION BY.
    partitions: Option<Box<PartitionClause>>,
    /// Codecs and encodings of columns.
    storage: Vec<(String, ColumnStorage)>,
    /// WHERE of a COPY FROM.
    condition: Option<Box<ast::Expr>>,
    /// Identity columns of a table.
    identities: Vec<Numbered>,
    /// OVERRIDING SYSTEM VALUE of an INSERT.
    overriding: bool,
    /// The parameters that are cast where they stand, as they were written.
    pub(crate) casts: Vec<(usize, ast::DataType)>,
}

impl Unbound {
    /// One that was read by its tokens.
    fn ours(statement: Statement, clauses: Clauses) -> Unbound {
        Unbound {
            text: Text::Ours(Box::new(statement)),
            clauses,
            extras: Extras::default(),
        }
    }

    /// The statement, with what parameters it has left as they are.
    ///
    /// # Errors
    /// `Invalid` (0A000) for what LazyBase does not do.
    pub(crate) fn finish(self) -> Result<Parsed> {
        let statement = match self.text {
            Text::Ours(statement) => *statement,
            Text::Sql(statement) => with_extras(*statement, self.extras)?,
        };
        known(statement, self.clauses)
    }
}

/// A statement, with what was taken out of its text.
///
/// # Errors
/// `Invalid` (0A000) for what LazyBase does not do.
pub(crate) fn with_extras(tree: ast::Statement, extras: Extras) -> Result<Statement> {
    let mut statement = convert::statement(tree)?;
    match &mut statement {
        Statement::CreateTable(create) => {
            create.partitions = extras.partitions;
            create.unlogged = extras.unlogged;
            create.without_rows = extras.without_rows;
            create.set_storage(&extras.storage)?;
            create.set_identities(extras.identities)?;
        }
        Statement::CreateView(view) => view.without_rows = extras.without_rows,
        Statement::AlterTable(alter) => alter.set_storage(&extras.storage)?,
        Statement::CopyFrom { condition, .. } => *condition = extras.condition,
        Statement::Insert(insert) => insert.overriding = extras.overriding,
        _ => {}
    }
    Ok(statement)
}

/// A statement as it was read.
#[derive(Debug, Clone)]
pub(crate) enum Text {
    /// Read by its tokens; such statements have no parameters.
    Ours(Box<Statement>),
    /// Read by sqlparser.
    Sql(Box<ast::Statement>),
}

/// Reads one statement and leaves its parameters as they are.
///
/// # Errors
/// `Invalid`: 42601 for what is no SQL.
pub(crate) fn read(sql: &str) -> Result<Unbound> {
    read_beside(sql, &BTreeSet::new())
}

/// The same for a session that has temporary tables of these names.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_beside(sql: &str, temporary: &BTreeSet<String>) -> Result<Unbound> {
    read_by_dialect(sql, |dialect| read_tokens(dialect, sql, temporary, |_| {}))
}

/// Reads one statement in PostgreSQL's dialect, or else in any.
fn read_by_dialect(
    sql: &str,
    read: impl Fn(&dyn Dialect) -> Result<Unbound, Failure>,
) -> Result<Unbound> {
    match read(&PostgreSqlDialect {}) {
        Ok(read) => Ok(read),
        Err(Failure::Known(error)) => Err(error),
        Err(Failure::Syntax(error)) => match read(&GenericDialect {}) {
            Ok(read) => Ok(read),
            Err(Failure::Known(error)) => Err(error),
            Err(Failure::Syntax(_)) => Err(from_parser(&error, sql)),
        },
    }
}

/// A statement with its clauses, if it takes clauses.
///
/// # Errors
/// `Invalid` (42601) for clauses that mean nothing there.
pub(crate) fn known(statement: Statement, clauses: Clauses) -> Result<Parsed> {
    if !clauses.is_empty() && !statement.takes_clauses() {
        return Err(
            Error::invalid("this statement takes no clause about freshness")
                .with_detail("FRESHNESS, AFTER, AS OF and ON MISS are for statements that read")
                .with_sqlstate("42601"),
        );
    }
    Ok(Parsed { statement, clauses })
}

/// Why a dialect could not read a statement.
enum Failure {
    /// Another dialect may.
    Syntax(ParserError),
    /// No dialect will.
    Known(Error),
}

impl From<ParserError> for Failure {
    fn from(error: ParserError) -> Self {
        Failure::Syntax(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Known(error)
    }
}

fn read_with(dialect: &dyn Dialect, sql: &str) -> Result<Unbound, Failure> {
    read_tokens(dialect, sql, &BTreeSet::new(), |_| {})
}

/// Reads a statement whose tokens are changed first, beside temporary tables of these names.
fn read_tokens(
    dialect: &dyn Dialect,
    sql: &str,
    temporary: &BTreeSet<String>,
    change: impl FnMut(&mut TokenWithSpan),
) -> Result<Unbound, Failure> {
    let tokens = Tokenizer::new(dialect, sql).tokenize_with_location();
    let mut tokens = tokens.map_err(ParserError::from)?;
    tokens.iter_mut().for_each(change);
    constants::join(&mut tokens)?;
    signs::split(dialect, &mut tokens);
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    number_questions(&mut tokens);
    depth::check(&tokens)?;
    if let Some(statement) = around_another(dialect, sql, &tokens)? {
        return Ok(Unbound::ours(statement, Clauses::default()));
    }
    let in_public = temporary_names::in_public(&mut tokens, temporary);
    let clauses = take_clauses(&mut tokens)?;
    if let Some(statement) = by_tokens(dialect, &tokens)? {
        return Ok(Unbound::ours(statement, clauses));
    }
    let mut extras = Extras {
        unlogged: create::take_unlogged(&mut tokens),
        casts: Vec::new(),
        partitions: partitions::take(dialect, &mut tokens)?.map(Box::new),
        storage: storage::take(&mut tokens)?,
        without_rows: with_data::take(&mut tokens),
        condition: copy_condition::take(dialect, sql, &mut tokens)?,
        identities: sequences::take_identities(&mut tokens)?,
        overriding: sequences::take_overriding(&mut tokens)?,
    };
    postgres::tokens(&mut tokens);
    repeated_groups::tokens(&mut tokens);
    conflicts::tokens(&mut tokens);
    merge::hide(&mut tokens)?;
    let of_catalog = tokens.iter().any(is_of_catalog);
    let mut parser = Parser::new(dialect)
        .with_recursion_limit(RECURSION_LIMIT)
        .with_tokens_with_locations(with_end(tokens));
    let mut statement = parser.parse_statement()?;
    let left = parser.peek_token();
    if left.token != Token::EOF {
        return Err(parser
            .expected::<()>("end of statement", left)
            .map_or_else(Failure::Syntax, |()| {
                Failure::Known(Error::internal("a token was both there and not"))
            }));
    }
    if let Some(of_columns) = &in_public {
        temporary_names::call(&mut statement, of_columns)?;
    }
    extras.casts = parameters::cast(&statement);
    merge::show(&mut statement);
    postgres::tree(&mut statement, of_catalog)?;
    casts::cut(&mut statement)?;
    repeated_groups::spell_out(&mut statement)?;
    rewrite::rewrite(&mut statement, of_catalog);
    array_queries::rewrite(&mut statement)?;
    let text = Text::Sql(Box::new(statement));
    Ok(Unbound {
        text,
        clauses,
        extras,
    })
}

/// A statement that has another one in it, with clauses of its own: one that it prepares, or the
/// query of a view.
fn around_another(
    dialect: &dyn Dialect,
    sql: &str,
    tokens: &[TokenWithSpan],
) -> Result<Option<Statement>, Failure> {
    if let Some(prepare) = named::prepare(dialect, sql, tokens)? {
        return Ok(Some(Statement::Named(Box::new(prepare))));
    }
    plain_view::statement(dialect, sql, tokens)
}

/// A statement that sqlparser does not know.
fn by_tokens(dialect: &dyn Dialect, tokens: &[TokenWithSpan]) -> Result<Option<Statement>> {
    if let Some(access) = roles::statement(tokens)? {
        return Ok(Some(Statement::Access(Box::new(access))));
    }
    if let Some(statement) = sequences::statement(tokens)? {
        return Ok(Some(statement));
    }
    match partitions::alter(dialect, tokens)? {
        None => words::statement(tokens),
        altered => Ok(altered),
    }
}

/// Parameters that are written `?`, as JDBC and ADBC do, get the numbers of their places in the
/// text; beside others, that have numbers, they mean nothing.
fn number_questions(tokens: &mut [TokenWithSpan]) {
    let placeholder = |token: &TokenWithSpan| match &token.token {
        Token::Placeholder(name) => Some(name == "?"),
        _ => None,
    };
    if tokens
        .iter()
        .filter_map(placeholder)
        .all(|question| question)
    {
        let questions = tokens
            .iter_mut()
            .filter(|token| placeholder(token).is_some());
        for (before, token) in questions.enumerate() {
            token.token = Token::Placeholder(format!("${}", before + 1));
        }
    }
}

/// An identifier as SQL folds it.
pub(crate) fn folded(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// The name of a stored table, without the schema that all of them live in.
///
/// # Errors
/// `Invalid` for names in another schema.
pub(crate) fn table_name(name: &ObjectName) -> Result<String> {
    let parts = name_parts(name);
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        [table] | [SCHEMA, table] | [CATALOG, SCHEMA, table] => Ok((*table).to_owned()),
        [PG_TEMP, table] => Ok(temporary::of_session(table)),
        [SYSTEM_SCHEMA | PG_CATALOG | "information_schema", _] => Err(Error::invalid(format!(
            "{name} is a system table: it can only be read"
        ))
        .with_sqlstate("42809")),
        _ => Err(Error::not_found(format!("there is no schema of {name}"))
            .with_hint("all tables live in the schema public")
            .with_sqlstate("3F000")),
    }
}

/// The parts of the name of a table that is only read: a system table's schema and its name, or
/// the name of a stored table.
///
/// # Errors
/// As [`table_name`], but for system tables.
pub(crate) fn read_name(name: &ObjectName) -> Result<Vec<String>> {
    let mut parts = name_parts(name);
    if parts.len() == 3 && parts[0] == CATALOG {
        parts.remove(0);
    }
    match parts.first().map(String::as_str) {
        Some(SYSTEM_SCHEMA | PG_CATALOG | "information_schema") if parts.len() == 2 => Ok(parts),
        _ => table_name(name).map(|name| vec![name]),
    }
}

/// The statement that gives the columns of what is named.
fn described(name: &ObjectName) -> Result<Statement> {
    let mut parts = read_name(name)?;
    let name = parts.pop().unwrap_or_default();
    let schema = parts.pop();
    Ok(Statement::Describe { schema, name })
}

/// The parts of a name, folded; none of one that is no plain name.
fn name_parts(name: &ObjectName) -> Vec<String> {
    let parts = name.0.iter().map(|part| match part {
        ObjectNamePart::Identifier(ident) => Some(folded(ident)),
        ObjectNamePart::Function(_) => None,
    });
    parts.collect::<Option<_>>().unwrap_or_default()
}

/// The last part of a column's name.
///
/// # Errors
/// `Invalid` for what is not a plain name.
pub(crate) fn column_name(name: &ObjectName) -> Result<String> {
    match name.0.last() {
        Some(ObjectNamePart::Identifier(ident)) => Ok(folded(ident)),
        _ => Err(Error::invalid(format!("{name} is not a column")).with_sqlstate("42601")),
    }
}

/// A refusal of something that other databases do.
pub(crate) fn unsupported(what: impl Into<String>) -> Error {
    Error::invalid(what).with_sqlstate("0A000")
}
