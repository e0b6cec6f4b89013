//! Functions around the planner's own of the same name: all that they do not do themselves is what
//! those do.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature,
};

/// What a function does otherwise than the planner's.
pub(super) trait Around: Debug + Eq + Hash + Send + Sync + 'static {
    /// The column that it gives.
    fn field(&self, inner: &ScalarUDF, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        inner.return_field_from_args(args)
    }

    /// What it answers.
    fn answer(&self, inner: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue>;

    /// The values of its argument between which it gives a constant.
    fn preimage(
        &self,
        _inner: &ScalarUDF,
        _args: &[Expr],
        _constant: &Expr,
        _info: &SimplifyContext,
    ) -> Result<PreimageResult> {
        Ok(PreimageResult::None)
    }
}

/// A function around the planner's.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Wrapped<A> {
    inner: Arc<ScalarUDF>,
    own: A,
}

/// The function around another.
pub(super) fn function(inner: Arc<ScalarUDF>, own: impl Around) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Wrapped { inner, own }))
}

/// Puts functions in the place of the planner's of their names.
pub(super) fn register<A: Around>(
    state: &mut SessionState,
    functions: impl IntoIterator<Item = (&'static str, A)>,
) -> Result<()> {
    for (name, own) in functions {
        let inner = state.udf(name)?;
        state.register_udf(function(inner, own))?;
    }
    Ok(())
}

impl<A: Around> ScalarUDFImpl for Wrapped<A> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.own.field(&self.inner, args)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.own.answer(&self.inner, args)
    }

    fn preimage(
        &self,
        args: &[Expr],
        constant: &Expr,
        info: &SimplifyContext,
    ) -> Result<PreimageResult> {
        self.own.preimage(&self.inner, args, constant, info)
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.inner.placement(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
