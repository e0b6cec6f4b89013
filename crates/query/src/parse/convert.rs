//! sqlparser's statements as ours: names folded, and what LazyBase does not do refused.

use datafusion::sql::sqlparser::ast::{
    self, Assignment, AssignmentTarget, ConflictTarget, CopyLegacyCsvOption, CopyLegacyOption,
    CopyOption, CopyTarget, Expr, FromTable, Ident, ObjectType, OnConflictAction, OnInsert, Query,
    SelectItem, SetExpr, Statement as Ast, TableFactor, TableObject, TableWithJoins,
    TransactionAccessMode, TransactionIsolationLevel, TransactionMode, TruncateIdentityOption,
    UpdateTableFromKind, With,
};
use lazybase_model::{Error, Result};

use super::postgres::{ALL_COLUMNS, HEADER_MATCH};
use super::{
    Statement, alter, column_name, create, described, explained, folded, ignored, named,
    plain_view, read_name, table_name, taken, unsupported, view, words,
};
use crate::copy::{ForcedColumns, Header};

/// INSERT INTO.
#[derive(Debug, Clone)]
pub(crate) struct Insert {
    pub(crate) table: String,
    /// What RETURNING calls it.
    pub(crate) alias: Option<String>,
    /// The columns given; all, if empty.
    pub(crate) columns: Vec<String>,
    /// Whether numbers are given for columns that the database numbers always.
    pub(crate) overriding: bool,
    pub(crate) source: InsertSource,
    pub(crate) on_conflict: Option<OnConflict>,
    /// What is told of the rows.
    pub(crate) returning: Option<Vec<SelectItem>>,
}

/// Where the rows of an INSERT come from.
#[derive(Debug, Clone)]
pub(crate) enum InsertSource {
    Values(Vec<Vec<Expr>>),
    Query(Box<Query>),
    Defaults,
}

/// ON CONFLICT.
#[derive(Debug, Clone)]
pub(crate) struct OnConflict {
    /// The columns named, if any are.
    pub(crate) target: Option<Vec<String>>,
    /// The columns that DO UPDATE sets; `None` for DO NOTHING.
    pub(crate) update: Option<Vec<(String, Expr)>>,
}

/// The rows that an UPDATE or DELETE changes.
#[derive(Debug, Clone)]
pub(crate) struct ChangedRows {
    pub(crate) table: String,
    pub(crate) alias: Option<String>,
    /// Queries that have names in all that follows.
    pub(crate) with: Option<With>,
    /// The other tables that the condition is about.
    pub(crate) from: Vec<TableWithJoins>,
    pub(crate) selection: Option<Expr>,
}

impl ChangedRows {
    /// What the table is called in the statement.
    pub(crate) fn called(&self) -> &str {
        self.alias.as_ref().unwrap_or(&self.table)
    }

    /// Whether nothing but the table itself tells which rows they are.
    pub(crate) fn is_of_table(&self) -> bool {
        self.with.is_none() && self.from.is_empty()
    }
}

/// UPDATE.
#[derive(Debug, Clone)]
pub(crate) struct Update {
    pub(crate) rows: ChangedRows,
    pub(crate) assignments: Vec<(String, Expr)>,
    /// What is told of the rows.
    pub(crate) returning: Option<Vec<SelectItem>>,
}

/// DELETE FROM.
#[derive(Debug, Clone)]
pub(crate) struct Delete {
    pub(crate) rows: ChangedRows,
    /// What is told of the rows.
    pub(crate) returning: Option<Vec<SelectItem>>,
}

/// What COPY TO writes.
#[derive(Debug, Clone)]
pub(crate) enum CopySource {
    /// The parts of its name: system tables have their schema.
    Table {
        name: Vec<String>,
        columns: Vec<String>,
    },
    Query(Box<Query>),
}

/// Where a COPY reads or writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CopyPlace {
    File(String),
    /// Standard input: what the client sends after the statement.
    Input,
    /// Standard output: what the client is sent.
    Output,
}

/// The file of a COPY, and how it is written.
#[derive(Debug, Clone)]
pub(crate) struct CopyFile {
    pub(crate) place: CopyPlace,
    /// In lower case; by the file's ending where not given.
    pub(crate) format: Option<String>,
    pub(crate) header: Header,
    /// By the file's ending where not given.
    pub(crate) delimiter: Option<char>,
    pub(crate) quote: char,
    /// What makes a quote stand for itself inside quotes.
    pub(crate) escape: char,
    /// How NULL is written; by the format where not given.
    pub(crate) null: Option<String>,
    /// The columns whose values are written in quotes.
    pub(crate) force_quote: ForcedColumns,
    /// The columns whose values are NULL in quotes too, if they read as NULL.
    pub(crate) force_null: ForcedColumns,
    /// The columns whose values are never NULL.
    pub(crate) force_not_null: ForcedColumns,
}

pub(crate) fn statement(statement: Ast) -> Result<Statement> {
    Ok(match statement {
        Ast::Query(query) => self::query(query)?,
        Ast::Explain { .. } => Statement::Explain(Box::new(explained::plain(statement)?)),
        Ast::ExplainTable {
            table_name: name, ..
        } => described(&name)?,
        Ast::CreateTable(table) => Statement::CreateTable(Box::new(create::create_table(table)?)),
        Ast::CreateView(view) if view.materialized => {
            Statement::CreateView(Box::new(view::create_view(&view)?))
        }
        Ast::Drop { .. } => dropped(&statement)?,
        Ast::CreateIndex(index) => Statement::Taken(taken::create_index(&index)?),
        Ast::CreateSchema {
            schema_name,
            if_not_exists,
            ..
        } => Statement::Taken(taken::create_schema(&schema_name, if_not_exists)?),
        Ast::Truncate(truncate) => Statement::Truncate {
            names: truncate
                .table_names
                .iter()
                .map(|target| table_name(&target.name))
                .collect::<Result<_>>()?,
            if_exists: truncate.if_exists,
            restart: matches!(truncate.identity, Some(TruncateIdentityOption::Restart)),
        },
        Ast::AlterTable(alter) => Statement::AlterTable(Box::new(alter::alter_table(alter)?)),
        Ast::Comment {
            object_type,
            object_name,
            comment,
            if_exists,
        } => {
            let comment = alter::comment_on(object_type, &object_name, comment, if_exists)?;
            Statement::AlterTable(Box::new(comment))
        }
        Ast::Insert(insert) => Statement::Insert(Box::new(self::insert(insert)?)),
        Ast::Update(update) => Statement::Update(Box::new(self::update(update, None)?)),
        Ast::Delete(delete) => Statement::Delete(Box::new(self::delete(delete, None)?)),
        Ast::Copy { .. } => copy(statement)?,
        Ast::StartTransaction { modes, .. } => begin(&modes)?,
        Ast::Commit { chain, .. } => Statement::Commit { chain },
        Ast::Rollback { chain, savepoint } => rollback(chain, savepoint)?,
        Ast::Savepoint { name } => Statement::Savepoint(folded(&name)),
        Ast::ReleaseSavepoint { name } => Statement::Release(folded(&name)),
        Ast::Execute { .. } | Ast::Deallocate { .. } => named::of_tree(statement)?,
        other => return Err(refused(&other)),
    })
}

/// DROP.
fn dropped(statement: &Ast) -> Result<Statement> {
    let Ast::Drop {
        object_type,
        if_exists,
        names,
        cascade,
        ..
    } = statement
    else {
        return Err(refused(statement));
    };
    let (if_exists, cascade) = (*if_exists, *cascade);
    let listed = || names.iter().map(table_name).collect::<Result<Vec<_>>>();
    Ok(match object_type {
        ObjectType::Table => Statement::DropTable {
            names: listed()?,
            if_exists,
            cascade,
        },
        ObjectType::MaterializedView => Statement::DropView {
            names: listed()?,
            if_exists,
            cascade,
        },
        ObjectType::View => plain_view::drop(names, if_exists, cascade)?,
        ObjectType::Index => Statement::Taken(taken::drop(names, if_exists)?),
        _ => return Err(refused(statement)),
    })
}

/// ROLLBACK, of all or up to a savepoint: behind that the transaction goes on.
fn rollback(chain: bool, savepoint: Option<Ident>) -> Result<Statement> {
    match savepoint {
        None => Ok(Statement::Rollback { chain }),
        Some(name) if !chain => Ok(Statement::RollbackTo(folded(&name))),
        Some(_) => Err(Error::invalid("syntax error")
            .with_hint("write ROLLBACK AND CHAIN, or ROLLBACK TO SAVEPOINT name")
            .with_sqlstate("42601")),
    }
}

/// Words that stand between the first of a statement and what it is about.
const MODIFIERS: [&str; 5] = ["OR", "REPLACE", "ALTER", "TEMPORARY", "RECURSIVE"];

fn refused(statement: &Ast) -> Error {
    let text = statement.to_string();
    let is_keyword = |word: &&str| word.bytes().all(|byte| byte.is_ascii_uppercase());
    let mut words = text.split_whitespace();
    let mut what = words.next().unwrap_or_default().to_uppercase();
    // What else there is may be a name.
    for word in words.take_while(is_keyword) {
        what = format!("{what} {word}");
        if !MODIFIERS.contains(&word) {
            break;
        }
    }
    let error = unsupported(format!("{what} is not supported"));
    match statement {
        Ast::CreateView(view) if view.temporary => error.with_hint(
            "CREATE TEMPORARY TABLE v AS SELECT ... keeps a query's rows as long as the session; \
             WITH v AS (SELECT ...) names a query within a statement",
        ),
        Ast::CreateView(_) => error.with_hint("write CREATE OR REPLACE VIEW v AS SELECT ..."),
        Ast::CreateDatabase { .. }
        | Ast::Drop {
            object_type: ObjectType::Database,
            ..
        } => error.with_hint(
            "a server has one database, a folder: lazybase serve --db names it, and makes it where \
             there is none",
        ),
        Ast::Merge(_) => error.with_hint("INSERT ... ON CONFLICT DO UPDATE merges by key"),
        Ast::LISTEN { .. } | Ast::NOTIFY { .. } => error
            .with_detail("sessions send each other no notifications")
            .with_hint("ask again for what has changed"),
        _ => error,
    }
}

/// A query, or what changes rows behind a WITH.
fn query(query: Box<Query>) -> Result<Statement> {
    let with = query.with.clone();
    Ok(match query.body.as_ref() {
        SetExpr::Insert(Ast::Insert(insert)) => {
            let mut insert = insert.clone();
            insert.source = insert.source.map(|source| within(with, source));
            Statement::Insert(Box::new(self::insert(insert)?))
        }
        SetExpr::Update(Ast::Update(update)) => {
            Statement::Update(Box::new(self::update(update.clone(), with)?))
        }
        SetExpr::Delete(Ast::Delete(delete)) => {
            Statement::Delete(Box::new(self::delete(delete.clone(), with)?))
        }
        _ => Statement::Query(reading(query)?),
    })
}

/// A query in which others have names, beside those that have one in it alone.
fn within(with: Option<With>, mut query: Box<Query>) -> Box<Query> {
    query.with = match (with, query.with.take()) {
        (Some(mut around), Some(own)) => {
            around.recursive |= own.recursive;
            around.cte_tables.extend(own.cte_tables);
            Some(around)
        }
        (with, own) => with.or(own),
    };
    query
}

/// A query that only reads.
pub(crate) fn reading(query: Box<Query>) -> Result<Box<Query>> {
    match query.body.as_ref() {
        body if ignored::changes(body) => Err(ignored::changes_inside()),
        SetExpr::Select(select) if select.into.is_some() => {
            Err(unsupported("SELECT INTO is not supported")
                .with_hint("write CREATE TABLE ... AS SELECT"))
        }
        _ => Ok(query),
    }
}

fn insert(insert: ast::Insert) -> Result<Insert> {
    if insert.or.is_some() || insert.overwrite || insert.ignore || insert.replace_into {
        return Err(
            unsupported("this form of INSERT is not supported").with_hint(
                "a plain INSERT replaces the row of its key; ON CONFLICT DO NOTHING keeps it",
            ),
        );
    }
    let TableObject::TableName(table) = &insert.table else {
        return Err(unsupported("INSERT INTO needs the name of a table"));
    };
    let source = match insert.source {
        None => InsertSource::Defaults,
        Some(query) => match *query {
            Query {
                with: None,
                body,
                order_by: None,
                limit_clause: None,
                fetch: None,
                ..
            } if matches!(*body, SetExpr::Values(_)) => match *body {
                SetExpr::Values(values) => {
                    InsertSource::Values(values.rows.into_iter().map(|row| row.content).collect())
                }
                _ => return Err(Error::internal("the body was seen to be VALUES")),
            },
            query => InsertSource::Query(reading(Box::new(query))?),
        },
    };
    Ok(Insert {
        table: table_name(table)?,
        alias: insert.table_alias.map(|alias| folded(&alias.alias)),
        columns: insert
            .columns
            .iter()
            .map(column_name)
            .collect::<Result<_>>()?,
        overriding: false,
        source,
        on_conflict: insert.on.map(on_conflict).transpose()?,
        returning: insert.returning,
    })
}

fn on_conflict(on: OnInsert) -> Result<OnConflict> {
    let OnInsert::OnConflict(on) = on else {
        return Err(unsupported("ON DUPLICATE KEY UPDATE is not supported")
            .with_hint("write ON CONFLICT (key) DO UPDATE SET c = EXCLUDED.c"));
    };
    let target = match on.conflict_target {
        None => None,
        Some(ConflictTarget::Columns(columns)) => Some(columns.iter().map(folded).collect()),
        Some(ConflictTarget::OnConstraint(_)) => {
            return Err(unsupported("ON CONFLICT ON CONSTRAINT is not supported")
                .with_hint("name the columns of the key: ON CONFLICT (key)"));
        }
    };
    let update = match on.action {
        OnConflictAction::DoNothing => None,
        OnConflictAction::DoUpdate(update) => {
            if update.selection.is_some() {
                return Err(
                    unsupported("ON CONFLICT DO UPDATE ... WHERE is not supported")
                        .with_detail("it would have to read the stored row: updates are blind"),
                );
            }
            Some(assignments(update.assignments)?)
        }
    };
    Ok(OnConflict { target, update })
}

fn assignments(given: Vec<Assignment>) -> Result<Vec<(String, Expr)>> {
    let mut assignments: Vec<(String, Expr)> = Vec::with_capacity(given.len());
    for Assignment { target, value } in given {
        match (target, value) {
            (AssignmentTarget::ColumnName(name), value) => {
                assignments.push((column_name(&name)?, value));
            }
            (AssignmentTarget::Tuple(names), Expr::Tuple(values))
                if names.len() == values.len() =>
            {
                for (name, value) in names.iter().zip(values) {
                    assignments.push((column_name(name)?, value));
                }
            }
            (AssignmentTarget::Tuple(_), _) => {
                return Err(unsupported(
                    "SET (a, b) = ... needs one value for each column",
                ));
            }
        }
    }
    for (at, (name, _)) in assignments.iter().enumerate() {
        if assignments[..at].iter().any(|(earlier, _)| earlier == name) {
            return Err(
                Error::invalid(format!("column {name:?} is set twice")).with_sqlstate("42601")
            );
        }
    }
    Ok(assignments)
}

fn update(update: ast::Update, with: Option<With>) -> Result<Update> {
    if update.limit.is_some() || !update.order_by.is_empty() || update.or.is_some() {
        return Err(unsupported(
            "UPDATE with ORDER BY, LIMIT or OR is not supported",
        ));
    }
    let (table, alias) = target(&update.table)?;
    let from = match update.from {
        None => Vec::new(),
        Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) => from,
    };
    from.iter().try_for_each(ignored::joins)?;
    is_no_query(with.as_ref(), &table)?;
    Ok(Update {
        assignments: assignments(update.assignments)?,
        rows: ChangedRows {
            table,
            alias,
            with,
            from,
            selection: update.selection,
        },
        returning: update.returning,
    })
}

fn delete(delete: ast::Delete, with: Option<With>) -> Result<Delete> {
    if !delete.tables.is_empty() || !delete.order_by.is_empty() || delete.limit.is_some() {
        return Err(
            unsupported("DELETE with ORDER BY or LIMIT is not supported")
                .with_hint("DELETE FROM t WHERE key IN (SELECT ...) takes any query"),
        );
    }
    let FromTable::WithFromKeyword(from) = &delete.from else {
        return Err(Error::invalid("syntax error: DELETE without FROM")
            .with_hint("write DELETE FROM t WHERE ...")
            .with_sqlstate("42601"));
    };
    let [table] = from.as_slice() else {
        return Err(unsupported("DELETE takes one table"));
    };
    let (table, alias) = target(table)?;
    let from = delete.using.unwrap_or_default();
    from.iter().try_for_each(ignored::joins)?;
    is_no_query(with.as_ref(), &table)?;
    Ok(Delete {
        rows: ChangedRows {
            table,
            alias,
            with,
            from,
            selection: delete.selection,
        },
        returning: delete.returning,
    })
}

/// The one table that an UPDATE or DELETE changes, with its alias.
fn target(table: &TableWithJoins) -> Result<(String, Option<String>)> {
    match &table.relation {
        TableFactor::Table { name, alias, .. } if table.joins.is_empty() => Ok((
            table_name(name)?,
            alias.as_ref().map(|alias| folded(&alias.name)),
        )),
        _ => Err(unsupported("UPDATE and DELETE change one table")
            .with_hint("write the others in UPDATE ... FROM, DELETE ... USING, or a subquery")),
    }
}

/// What a name means that is both a table's and of a query before the statement nobody could tell.
fn is_no_query(with: Option<&With>, table: &str) -> Result<()> {
    let mut names = with.iter().flat_map(|with| &with.cte_tables);
    match names.any(|query| folded(&query.alias.name) == table) {
        true => Err(Error::invalid(format!(
            "{table:?} is a query of the WITH, and can't be what is changed"
        ))
        .with_hint("give the query another name")
        .with_sqlstate("42P01")),
        false => Ok(()),
    }
}

fn begin(modes: &[TransactionMode]) -> Result<Statement> {
    let mut read_only = None;
    for mode in modes {
        match mode {
            TransactionMode::AccessMode(access) => {
                read_only = Some(*access == TransactionAccessMode::ReadOnly);
            }
            TransactionMode::IsolationLevel(TransactionIsolationLevel::Serializable) => {
                return Err(words::serializable());
            }
            // Every other level asks for no more than the one snapshot that there always is.
            TransactionMode::IsolationLevel(_) => {}
        }
    }
    Ok(Statement::Begin { read_only })
}

fn copy(statement: Ast) -> Result<Statement> {
    let Ast::Copy {
        source,
        to,
        target,
        options,
        legacy_options,
        ..
    } = statement
    else {
        return Err(Error::internal("the statement was seen to be COPY"));
    };
    let place = match (target, to) {
        (CopyTarget::File { filename }, _) => CopyPlace::File(filename),
        (CopyTarget::Stdin, false) => CopyPlace::Input,
        (CopyTarget::Stdout, true) => CopyPlace::Output,
        (CopyTarget::Program { .. }, _) => {
            return Err(unsupported("COPY does not run programs")
                .with_hint("pipe the program's output into lazybase sql -c 'COPY t FROM STDIN'"));
        }
        (target, _) => {
            return Err(
                Error::invalid(format!("COPY can't go that way with {target}"))
                    .with_hint("COPY t FROM STDIN reads; COPY t TO 'file' writes")
                    .with_sqlstate("42601"),
            );
        }
    };
    let mut all = options;
    for option in &legacy_options {
        all.extend(without_parentheses(option)?);
    }
    let file = copy_file(place, &all)?;
    check_way(&file, to)?;
    match (source, to) {
        (ast::CopySource::Query(query), _) => Ok(Statement::CopyTo {
            source: CopySource::Query(reading(query)?),
            file,
        }),
        (
            ast::CopySource::Table {
                table_name: name,
                columns,
            },
            to,
        ) => {
            let columns = columns.iter().map(folded).collect();
            Ok(match to {
                true => Statement::CopyTo {
                    source: CopySource::Table {
                        name: read_name(&name)?,
                        columns,
                    },
                    file,
                },
                false => Statement::CopyFrom {
                    table: table_name(&name)?,
                    columns,
                    file,
                    condition: None,
                },
            })
        }
    }
}

/// Whether the options of a COPY are for the way that it goes.
fn check_way(file: &CopyFile, to: bool) -> Result<()> {
    let (reads, writes) = ("COPY FROM", "COPY TO");
    let wrong = match to {
        true if file.header == Header::Matched => Some(("HEADER MATCH", reads)),
        true if !file.force_null.is_empty() => Some(("FORCE_NULL", reads)),
        true if !file.force_not_null.is_empty() => Some(("FORCE_NOT_NULL", reads)),
        false if !file.force_quote.is_empty() => Some(("FORCE_QUOTE", writes)),
        _ => None,
    };
    match wrong {
        Some((option, way)) => Err(unsupported(format!("{option} is for {way} only"))),
        None => Ok(()),
    }
}

/// COPY's options as they were written before they stood in parentheses.
fn without_parentheses(option: &CopyLegacyOption) -> Result<Vec<CopyOption>> {
    let format = |name| CopyOption::Format(Ident::new(name));
    Ok(match option {
        CopyLegacyOption::Binary => vec![format("binary")],
        CopyLegacyOption::Delimiter(delimiter) => vec![CopyOption::Delimiter(*delimiter)],
        CopyLegacyOption::Null(null) => vec![CopyOption::Null(null.clone())],
        CopyLegacyOption::Header => vec![CopyOption::Header(true)],
        CopyLegacyOption::Csv(options) => {
            let mut all = vec![format("csv")];
            for option in options {
                all.push(match option {
                    CopyLegacyCsvOption::Header => CopyOption::Header(true),
                    CopyLegacyCsvOption::Quote(quote) => CopyOption::Quote(*quote),
                    CopyLegacyCsvOption::Escape(escape) => CopyOption::Escape(*escape),
                    CopyLegacyCsvOption::ForceQuote(columns) => {
                        CopyOption::ForceQuote(columns.clone())
                    }
                    CopyLegacyCsvOption::ForceNotNull(columns) => {
                        CopyOption::ForceNotNull(columns.clone())
                    }
                });
            }
            all
        }
        other => {
            return Err(
                unsupported(format!("COPY's option {other} is not supported"))
                    .with_hint("write WITH (FORMAT csv, HEADER)"),
            );
        }
    })
}

fn copy_file(place: CopyPlace, options: &[CopyOption]) -> Result<CopyFile> {
    let mut file = CopyFile {
        place,
        format: None,
        header: Header::None,
        delimiter: None,
        quote: '"',
        escape: '"',
        null: None,
        force_quote: ForcedColumns::default(),
        force_null: ForcedColumns::default(),
        force_not_null: ForcedColumns::default(),
    };
    let mut escape = None;
    for option in options {
        match option {
            CopyOption::Format(format) => file.format = Some(format.value.to_lowercase()),
            CopyOption::Header(true) => file.header = Header::Names,
            CopyOption::Header(false) => file.header = Header::None,
            CopyOption::Delimiter(delimiter) => file.delimiter = Some(*delimiter),
            CopyOption::Quote(quote) => file.quote = *quote,
            CopyOption::Escape(given) => escape = Some(*given),
            CopyOption::Null(null) => file.null = Some(null.clone()),
            // It spares PostgreSQL a later pass over the rows, and decides no answer.
            CopyOption::Freeze(_) => {}
            CopyOption::ForceQuote(columns) => file.force_quote = forced(columns),
            CopyOption::ForceNull(columns) => file.force_null = forced(columns),
            CopyOption::ForceNotNull(columns) => file.force_not_null = forced(columns),
            CopyOption::Encoding(name) if name == HEADER_MATCH => file.header = Header::Matched,
            CopyOption::Encoding(name)
                if matches!(name.to_ascii_lowercase().as_str(), "utf8" | "utf-8") => {}
            other => {
                return Err(
                    unsupported(format!("COPY's option {other} is not supported")).with_hint(
                        "there are FORMAT, HEADER, DELIMITER, NULL, QUOTE, ESCAPE, FORCE_QUOTE, \
                         FORCE_NULL and FORCE_NOT_NULL, and files are UTF-8",
                    ),
                );
            }
        }
    }
    file.escape = escape.unwrap_or(file.quote);
    Ok(file)
}

/// The columns that one of COPY's options names.
fn forced(columns: &[Ident]) -> ForcedColumns {
    match columns {
        [all] if all.value == ALL_COLUMNS => ForcedColumns::All,
        columns => ForcedColumns::Named(columns.iter().map(folded).collect()),
    }
}
