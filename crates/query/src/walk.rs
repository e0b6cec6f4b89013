//! Walks over sqlparser's trees; those over the planner's are in `plans`.
//!
//! sqlparser's own walk, over hundreds of types, is compiled anew for each type of visitor. Here
//! it is compiled twice, for what is looked at and for what is changed, and calls visitors through
//! tables of their functions: that takes minutes off a build, and no time that a statement feels.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut,
    Visitor, VisitorMut,
};

pub(crate) mod plans;

/// Shows a tree's parts to a visitor, until it breaks off.
#[expect(clippy::disallowed_methods, reason = "here the walk is compiled")]
pub(crate) fn visit<V: Visitor>(tree: &impl Visit, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut kept = Kept {
        visitor,
        broken: None,
    };
    let walked = tree.visit(&mut Looks(&mut kept));
    debug_assert_eq!(walked.is_break(), kept.broken.is_some());
    kept.broken
        .map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// The same, where the visitor may change them.
#[expect(clippy::disallowed_methods, reason = "here the walk is compiled")]
pub(crate) fn visit_mut<V: VisitorMut>(
    tree: &mut impl VisitMut,
    visitor: &mut V,
) -> ControlFlow<V::Break> {
    let mut kept = Kept {
        visitor,
        broken: None,
    };
    let walked = tree.visit(&mut Changes(&mut kept));
    debug_assert_eq!(walked.is_break(), kept.broken.is_some());
    kept.broken
        .map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Calls a function for each expression of a tree, before those inside of it.
pub(crate) fn visit_expressions<B>(
    tree: &impl Visit,
    look: impl FnMut(&Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    visit(tree, &mut Expressions(look))
}

/// Calls a function that may change it for each expression of a tree, after those inside of it.
pub(crate) fn visit_expressions_mut<B>(
    tree: &mut impl VisitMut,
    change: impl FnMut(&mut Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    visit_mut(tree, &mut Expressions(change))
}

struct Expressions<F>(F);

impl<B, F: FnMut(&Expr) -> ControlFlow<B>> Visitor for Expressions<F> {
    type Break = B;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<B> {
        (self.0)(expr)
    }
}

impl<B, F: FnMut(&mut Expr) -> ControlFlow<B>> VisitorMut for Expressions<F> {
    type Break = B;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<B> {
        (self.0)(expr)
    }
}

/// A visitor, and what it broke off with.
struct Kept<'v, V, B> {
    visitor: &'v mut V,
    broken: Option<B>,
}

/// Any visitor that looks.
struct Looks<'v>(&'v mut dyn Visitor<Break = ()>);

/// Any visitor that changes.
struct Changes<'v>(&'v mut dyn VisitorMut<Break = ()>);

/// Hands all parts on, to a visitor whose end is kept, and to any.
macro_rules! hand_on {
    ($visitor:ident, $any:ident, $($hook:ident: $part:ty,)*) => {
        impl<V: $visitor> $visitor for Kept<'_, V, V::Break> {
            type Break = ();

            $(fn $hook(&mut self, part: $part) -> ControlFlow<()> {
                self.visitor.$hook(part).map_break(|broken| self.broken = Some(broken))
            })*
        }

        impl $visitor for $any<'_> {
            type Break = ();

            $(fn $hook(&mut self, part: $part) -> ControlFlow<()> {
                self.0.$hook(part)
            })*
        }
    };
}

hand_on! {
    Visitor, Looks,
    pre_visit_query: &Query,
    post_visit_query: &Query,
    pre_visit_select: &Select,
    post_visit_select: &Select,
    pre_visit_relation: &ObjectName,
    post_visit_relation: &ObjectName,
    pre_visit_table_factor: &TableFactor,
    post_visit_table_factor: &TableFactor,
    pre_visit_expr: &Expr,
    post_visit_expr: &Expr,
    pre_visit_statement: &Statement,
    post_visit_statement: &Statement,
    pre_visit_value: &ValueWithSpan,
    post_visit_value: &ValueWithSpan,
}

hand_on! {
    VisitorMut, Changes,
    pre_visit_query: &mut Query,
    post_visit_query: &mut Query,
    pre_visit_select: &mut Select,
    post_visit_select: &mut Select,
    pre_visit_relation: &mut ObjectName,
    post_visit_relation: &mut ObjectName,
    pre_visit_table_factor: &mut TableFactor,
    post_visit_table_factor: &mut TableFactor,
    pre_visit_expr: &mut Expr,
    post_visit_expr: &mut Expr,
    pre_visit_statement: &mut Statement,
    post_visit_statement: &mut Statement,
    pre_visit_value: &mut ValueWithSpan,
    post_visit_value: &mut ValueWithSpan,
}
