//! Statements that compare the IDs of a table and read them in no other way: it does not show in
//! them if the numbers of keys that are new are given out only at COMMIT.
//!
//! Looks at sqlparser's tree and does nothing else. For IDO-1 a doubt is a no.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Query, SelectItem,
    SetExpr, Statement, Value, Visit, VisitMut, Visitor,
};
use lazybase_model::{Table, TableId};

use crate::parse::folded;
use crate::point::plain_table;
use crate::session::Shared;
use crate::walk::{visit, visit_expressions, visit_expressions_mut};

/// The table whose IDs a query in a transaction only compares, if it reads no other.
pub(crate) fn table_met(session: &Shared, statement: &Statement) -> Option<TableId> {
    let in_transaction = session.state.lock().transaction.is_some();
    let (Statement::Query(query), true) = (statement, in_transaction) else {
        return None;
    };
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let [from] = select.from.as_slice() else {
        return None;
    };
    let (name, alias) = plain_table(from)?;
    let table = session.visible().readable(&name)?;
    let is_named = |item: &SelectItem| {
        matches!(
            item,
            SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }
        )
    };
    let alone = select.projection.iter().all(is_named) && is_one_query(query);
    let alias = alias.unwrap_or(name);
    let met = alone && only_meets_ids(&mut query.as_ref().clone(), &table, &alias);
    met.then_some(table.id)
}

/// Whether no other query is inside of one.
fn is_one_query(query: &Query) -> bool {
    let mut queries = Queries(0);
    let done = visit(query, &mut queries);
    debug_assert!(done.is_continue(), "nothing ends the visit");
    queries.0 == 1
}

/// Counts queries.
struct Queries(usize);

impl Visitor for Queries {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.0 += 1;
        ControlFlow::Continue(())
    }
}

/// Whether the IDs of a table, of which alone an expression or a query tells, are compared with
/// numbers alone, and read in no other way. Comparisons become NULL.
pub(crate) fn only_meets_ids(
    tree: &mut (impl Visit + VisitMut),
    table: &Table,
    alias: &str,
) -> bool {
    let is_id = |expr: &Expr| {
        let name = match expr {
            Expr::Identifier(name) => Some(name),
            Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        };
        let at = name.and_then(|name| table.column_index(&folded(name)));
        at.is_some_and(|at| table.columns[at].id_key.is_some())
    };
    // As IDKEY was looked up: a negative number of the user's own has a sign before it.
    let is_number =
        |expr: &Expr| matches!(expr, Expr::Value(of) if matches!(of.value, Value::Number(..)));
    let meets = |id: &Expr, number: &Expr| is_id(id) && is_number(number);
    let done: ControlFlow<()> = visit_expressions_mut(tree, |part| {
        let is_met = match part {
            Expr::BinaryOp {
                left,
                op: BinaryOperator::Eq | BinaryOperator::NotEq,
                right,
            }
            | Expr::IsDistinctFrom(left, right)
            | Expr::IsNotDistinctFrom(left, right) => meets(left, right) || meets(right, left),
            Expr::InList { expr, list, .. } => is_id(expr) && list.iter().all(is_number),
            Expr::IsNull(of) | Expr::IsNotNull(of) => is_id(of),
            _ => false,
        };
        if is_met {
            *part = Expr::value(Value::Null);
        }
        ControlFlow::Continue(())
    });
    let is_row = |expr: &Expr| match expr {
        Expr::Identifier(name) => {
            let name = folded(name);
            name == alias && table.column_index(&name).is_none()
        }
        other => has_wildcard(other),
    };
    let reads = visit_expressions(&*tree, |part| match is_id(part) || is_row(part) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    done.is_continue() && reads.is_continue()
}

/// Whether an expression names all columns of a row. The `*` of `count(*)` names none.
fn has_wildcard(expr: &Expr) -> bool {
    match expr {
        Expr::Wildcard(_) | Expr::QualifiedWildcard(..) => true,
        Expr::Function(function) => match &function.args {
            FunctionArguments::List(list) => list.args.iter().any(|argument| {
                !matches!(
                    argument,
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(_) | FunctionArgExpr::Wildcard)
                )
            }),
            _ => false,
        },
        _ => false,
    }
}
