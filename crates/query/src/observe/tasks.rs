//! Tasks of the planner's, run inside of the span that started them.

use std::any::Any;

use datafusion::common::runtime::JoinSetTracer;
use futures::future::{BoxFuture, FutureExt};
use tracing::{Instrument, Span};

type Output = Box<dyn Any + Send>;

/// Takes the span along.
pub(super) struct InSpan;

impl JoinSetTracer for InSpan {
    fn trace_future(&self, task: BoxFuture<'static, Output>) -> BoxFuture<'static, Output> {
        task.in_current_span().boxed()
    }

    fn trace_block(
        &self,
        block: Box<dyn FnOnce() -> Output + Send>,
    ) -> Box<dyn FnOnce() -> Output + Send> {
        let span = Span::current();
        Box::new(move || span.in_scope(block))
    }
}
