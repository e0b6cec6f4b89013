//! Parts of a statement, but not of the queries inside of it: in those, names and rows are others.
//!
//! Walks sqlparser's tree and does nothing else.

use std::ops::ControlFlow;

use crate::walk::visit_mut;
use datafusion::sql::sqlparser::ast::{Expr, Query, VisitMut, VisitorMut};
use lazybase_model::{Error, Result};

/// Rewrites each expression of a part of a statement, from the innermost on, but in queries of its
/// own.
///
/// # Errors
/// The first of `change`.
pub(super) fn try_rewrite(
    part: &mut impl VisitMut,
    change: impl FnMut(&mut Expr) -> Result<()>,
) -> Result<()> {
    struct Outside<C> {
        change: C,
        /// In how many queries the visit is.
        depth: usize,
    }
    impl<C: FnMut(&mut Expr) -> Result<()>> VisitorMut for Outside<C> {
        type Break = Error;

        fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
            self.depth += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
            if self.depth > 0 {
                return ControlFlow::Continue(());
            }
            match (self.change)(expr) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            }
        }
    }
    match visit_mut(part, &mut Outside { change, depth: 0 }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// The same, where nothing fails.
pub(super) fn rewrite(part: &mut impl VisitMut, mut change: impl FnMut(&mut Expr)) {
    let done = try_rewrite(part, |expr| {
        change(expr);
        Ok(())
    });
    debug_assert!(done.is_ok(), "nothing fails");
}
