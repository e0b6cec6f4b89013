//! Named windows, written out where they are used: the planner never looks at the name that a
//! window begins with, and knows names in SELECT lists alone.
//!
//! ```text
//!   sum(k) OVER (w ORDER BY k) ... WINDOW w AS (PARTITION BY x)
//!     ->  sum(k) OVER (PARTITION BY x ORDER BY k)
//! ```
//!
//! Rewrites sqlparser's tree and does nothing else. Invariant NWN-1: no window names another one
//! behind it.

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, NamedWindowDefinition, NamedWindowExpr, Query, Select, SetExpr, VisitMut,
    WindowSpec, WindowType,
};
use lazybase_model::{Error, Result};

use super::{folded, outside_queries};
use crate::text_places::at_span;

/// The windows of a SELECT that have names, in their order.
type Windows = Vec<(String, WindowSpec)>;

/// Writes out the windows in the ORDER BY of a query.
///
/// # Errors
/// `Invalid`: 42P20 for a window that can't be extended; `NotFound` (42704) for an unknown one.
pub(super) fn in_query(query: &mut Query) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return Ok(());
    };
    match &mut query.order_by {
        Some(order) => write_out(order, &defined(select)?),
        None => Ok(()),
    }
}

/// Writes out the windows of a SELECT.
///
/// # Errors
/// As [`in_query`].
pub(super) fn in_select(select: &mut Select) -> Result<()> {
    let windows = defined(select)?;
    for item in &mut select.projection {
        write_out(item, &windows)?;
    }
    if let Some(condition) = &mut select.qualify {
        write_out(condition, &windows)?;
    }
    for (definition, (_, window)) in select.named_window.iter_mut().zip(windows) {
        definition.1 = NamedWindowExpr::WindowSpec(window);
    }
    Ok(())
}

/// The windows that a SELECT names; each may be based on those before it.
fn defined(select: &Select) -> Result<Windows> {
    let mut windows = Windows::new();
    for NamedWindowDefinition(name, given) in &select.named_window {
        let called = folded(name);
        if windows.iter().any(|(known, _)| *known == called) {
            return Err(
                Error::invalid(format!("window {called:?} is defined twice"))
                    .with_hint("give one of them another name")
                    .with_sqlstate("42P20"),
            );
        }
        let window = match given {
            NamedWindowExpr::NamedWindow(other) => named(other, &windows)?.clone(),
            NamedWindowExpr::WindowSpec(window) => whole(window, &windows)?,
        };
        windows.push((called, window));
    }
    Ok(windows)
}

fn named<'w>(name: &Ident, windows: &'w Windows) -> Result<&'w WindowSpec> {
    let called = folded(name);
    let known = windows.iter().find(|(known, _)| *known == called);
    known.map(|(_, window)| window).ok_or_else(|| {
        let error = Error::not_found(format!("there is no window {called:?}"))
            .with_hint("define it before it is used: WINDOW name AS (...)")
            .with_sqlstate("42704");
        at_span(error, name.span)
    })
}

/// A window with all that it has of the one that it names.
fn whole(window: &WindowSpec, windows: &Windows) -> Result<WindowSpec> {
    let Some(name) = &window.window_name else {
        return Ok(window.clone());
    };
    let base = named(name, windows)?;
    let called = folded(name);
    let refused = |what: &str, hint: &str| {
        Err(Error::invalid(format!("{what} of window {called:?}"))
            .with_hint(hint)
            .with_sqlstate("42P20"))
    };
    if !window.partition_by.is_empty() {
        return refused(
            "cannot replace the PARTITION BY",
            "leave PARTITION BY out, or write the whole window without a name",
        );
    }
    if !window.order_by.is_empty() && !base.order_by.is_empty() {
        return refused(
            "cannot replace the ORDER BY",
            "leave ORDER BY out, or write the whole window without a name",
        );
    }
    if base.window_frame.is_some() {
        return refused(
            "cannot extend the frame",
            "write OVER and the name without brackets, or the whole window without a name",
        );
    }
    Ok(WindowSpec {
        window_name: None,
        partition_by: base.partition_by.clone(),
        order_by: match window.order_by.is_empty() {
            true => base.order_by.clone(),
            false => window.order_by.clone(),
        },
        window_frame: window.window_frame.clone(),
    })
}

fn write_out(part: &mut impl VisitMut, windows: &Windows) -> Result<()> {
    outside_queries::try_rewrite(part, |expr| {
        let Expr::Function(function) = expr else {
            return Ok(());
        };
        let window = match &function.over {
            None => return Ok(()),
            Some(WindowType::NamedWindow(name)) => named(name, windows)?.clone(),
            Some(WindowType::WindowSpec(window)) => whole(window, windows)?,
        };
        function.over = Some(WindowType::WindowSpec(window));
        Ok(())
    })
}
