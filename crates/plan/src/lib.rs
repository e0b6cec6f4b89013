//! SQL statements as plans, by DataFusion's planner as DataFusion's own crates have it compiled.
//!
//! `SessionState::statement_to_plan` is compiled by whoever waits for it, with all that it calls,
//! which is the planner of all of SQL: but where a crate is optimised as little as DataFusion's
//! are, the compiler takes what these hold. `lazybase-query` is optimised more, so this one waits.

use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use futures::future::BoxFuture;

/// The plan of a statement over the tables that a session knows.
///
/// # Errors
/// What the planner refuses, and what the session says of a table that it is asked for.
#[expect(clippy::disallowed_methods, reason = "here it is waited for")]
#[inline(never)]
pub fn statement_to_plan(
    state: &SessionState,
    statement: Statement,
) -> BoxFuture<'_, Result<LogicalPlan>> {
    Box::pin(state.statement_to_plan(statement))
}
