//! CREATE MATERIALIZED VIEW v AS SELECT columns FROM t ORDER BY columns: a table kept in another
//! order. Whatever else the statement may say is refused.

use datafusion::sql::sqlparser::ast::{
    self, CreateTableOptions, Expr, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor,
};
use lazybase_model::{Error, Result};

use super::create::checked_name;
use super::{folded, table_name, unsupported};
use crate::temporary::own_name;

/// A view as declared.
#[derive(Debug, Clone)]
pub(crate) struct CreateView {
    pub(crate) name: String,
    pub(crate) if_not_exists: bool,
    pub(crate) table: String,
    /// Its columns; `None` for all of the table's.
    pub(crate) columns: Option<Vec<String>>,
    /// The columns that it is sorted by.
    pub(crate) key: Vec<String>,
    /// WITH NO DATA, which changes nothing.
    pub(crate) without_rows: bool,
}

/// What a view may be.
const FORM: &str = "CREATE MATERIALIZED VIEW v AS SELECT columns FROM t ORDER BY columns";

pub(super) fn create_view(view: &ast::CreateView) -> Result<CreateView> {
    if view.or_replace {
        return Err(
            unsupported("CREATE OR REPLACE MATERIALIZED VIEW is not supported")
                .with_hint("DROP MATERIALIZED VIEW IF EXISTS first"),
        );
    }
    let plain = !view.temporary
        && !view.or_alter
        && !view.secure
        && view.columns.is_empty()
        && view.options == CreateTableOptions::None
        && view.cluster_by.is_empty()
        && view.comment.is_none()
        && !view.with_no_schema_binding
        && view.to.is_none()
        && view.params.is_none();
    if !plain {
        return Err(refused("this form of CREATE MATERIALIZED VIEW"));
    }
    let (select, order) = parts(&view.query)?;
    let table = match select.from.as_slice() {
        [from] => match &from.relation {
            TableFactor::Table { name, .. } if from.joins.is_empty() => table_name(name)?,
            _ => return Err(refused("a view of anything but one table")),
        },
        _ => return Err(refused("a view of anything but one table")),
    };
    let called = own_name(&table);
    Ok(CreateView {
        name: checked_name(own_name(&table_name(&view.name)?).to_owned())?,
        if_not_exists: view.if_not_exists,
        columns: columns(&select.projection, called)?,
        key: order
            .iter()
            .map(|expr| column(expr, called))
            .collect::<Result<_>>()?,
        table,
        without_rows: false,
    })
}

fn refused(what: &str) -> Error {
    unsupported(format!("{what} is not supported"))
        .with_detail("a view holds columns of one table, sorted by some of them")
        .with_hint(format!("write {FORM}"))
}

/// The SELECT and the ORDER BY of a query that has nothing else.
fn parts(query: &Query) -> Result<(&Select, Vec<&Expr>)> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return Err(refused("a view of anything but SELECT ... FROM t"));
    };
    let Some(order) = &query.order_by else {
        return Err(Error::invalid("a view needs an ORDER BY")
            .with_detail("it keeps the rows of a table in another order")
            .with_hint(format!("write {FORM}"))
            .with_sqlstate("42P16"));
    };
    let OrderByKind::Expressions(order_by) = &order.kind else {
        return Err(refused("ORDER BY ALL"));
    };
    for by in order_by {
        if by.options.asc == Some(false) || by.options.nulls_first == Some(false) {
            return Err(refused(
                "a view that is sorted downwards, or with NULL last",
            ));
        }
    }
    // What is written beside columns, tables and order shows in the text.
    let listed = |items: &[String]| items.join(", ");
    let projection: Vec<String> = select.projection.iter().map(ToString::to_string).collect();
    let from: Vec<String> = select.from.iter().map(ToString::to_string).collect();
    let plain = format!("SELECT {} FROM {}", listed(&projection), listed(&from));
    if select.to_string() != plain {
        return Err(refused("a view with WHERE, DISTINCT, GROUP BY or the like"));
    }
    if query.to_string() != format!("{select} {order}") {
        return Err(refused("a view with WITH, LIMIT or the like"));
    }
    Ok((select, order_by.iter().map(|by| &by.expr).collect()))
}

fn columns(projection: &[SelectItem], table: &str) -> Result<Option<Vec<String>>> {
    if let [SelectItem::Wildcard(options)] = projection
        && options.to_string().is_empty()
    {
        return Ok(None);
    }
    let name = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) => column(expr, table),
        SelectItem::ExprWithAlias { expr, alias } if column(expr, table)? == folded(alias) => {
            column(expr, table)
        }
        _ => Err(refused(
            "a view whose columns have names or values of their own",
        )),
    };
    projection.iter().map(name).collect::<Result<_>>().map(Some)
}

/// The name of a column of the table.
fn column(expr: &Expr, table: &str) -> Result<String> {
    match expr {
        Expr::Identifier(ident) => Ok(folded(ident)),
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [of, ident] if folded(of) == table => Ok(folded(ident)),
            _ => Err(refused("a view of anything but columns")),
        },
        _ => Err(refused("a view of anything but columns")),
    }
}
