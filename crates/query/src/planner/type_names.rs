//! `pg_typeof`: the name of a value's type, as PostgreSQL has it.
//!
//! A function of the type alone; pure.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::pg_catalog::types::{format_type, pg_type_of};

/// Adds the function.
///
/// # Errors
/// The planner's.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    let signature = Signature::any(1, Volatility::Immutable);
    state.register_udf(Arc::new(ScalarUDF::from(TypeName { signature })))?;
    Ok(())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TypeName {
    signature: Signature,
}

impl ScalarUDFImpl for TypeName {
    fn name(&self) -> &str {
        "pg_typeof"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [of] = args.arg_fields.as_slice() else {
            return internal_err!("pg_typeof has one argument");
        };
        let name = match of.data_type() {
            DataType::Null => "unknown".to_owned(),
            _ => format_type(pg_type_of(of), None),
        };
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(name))))
    }
}
