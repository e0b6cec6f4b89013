//! Columns come in the order of their tables where a query asks for no other, as clients find them
//! with PostgreSQL, which promises it as little.
//!
//! Rewrites sqlparser's tree and does nothing else.

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Query, Select,
    SelectItem, SetExpr, TableFactor,
};

use super::rewrite::{aggregates, catalog_table, reads_catalog_only, relations};

/// Puts the rows of a query over `pg_attribute` in order, if it is a plain one.
pub(super) fn in_order(query: &mut Query) {
    let limited = query.limit_clause.is_some() || query.fetch.is_some();
    let SetExpr::Select(select) = query.body.as_ref() else {
        return;
    };
    let grouped = match &select.group_by {
        GroupByExpr::Expressions(exprs, _) => !exprs.is_empty(),
        GroupByExpr::All(_) => true,
    };
    let plain = query.order_by.is_none() && !limited && !grouped && select.distinct.is_none();
    if !plain || aggregates(select) || !reads_catalog_only(select) || unnests(select) {
        return;
    }
    let named = relations(select).find_map(|factor| match factor {
        TableFactor::Table { name, alias, .. } => {
            let is = catalog_table(factor).as_deref() == Some("pg_attribute");
            let last = name.0.last().and_then(|part| part.as_ident());
            let named = alias.as_ref().map(|alias| &alias.name).or(last);
            named.filter(|_| is).cloned()
        }
        _ => None,
    });
    if let Some(named) = named {
        let column = |name: &str| OrderByExpr {
            expr: Expr::CompoundIdentifier(vec![named.clone(), Ident::new(name)]),
            options: OrderByOptions::default(),
            with_fill: None,
        };
        let by = vec![column("attrelid"), column("attnum")];
        query.order_by = Some(OrderBy {
            kind: OrderByKind::Expressions(by),
            interpolate: None,
        });
    }
}

/// Whether columns of a SELECT are rows of lists.
fn unnests(select: &Select) -> bool {
    let shown = |item: &SelectItem| item.to_string().to_lowercase().contains("unnest(");
    select.projection.iter().any(shown)
}
