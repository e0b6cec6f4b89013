//! `length` and `octet_length` of bytes: how many there are. The planner's own take texts alone,
//! and bytes as the text that they spell.
//!
//! Functions in the place of the planner's, which they call for everything else; pure.

use std::sync::Arc;

use arrow::compute::kernels::length::length;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};

/// The planner's functions that are replaced.
const REPLACED: [&str; 2] = ["character_length", "octet_length"];

/// Puts the functions in the place of the planner's.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for name in REPLACED {
        let inner = state.udf(name)?;
        state.register_udf(Arc::new(ScalarUDF::from(LengthOf::over(inner))))?;
    }
    Ok(())
}

/// A length of texts, and of bytes.
#[derive(Debug, PartialEq, Eq, Hash)]
struct LengthOf {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl LengthOf {
    fn over(inner: Arc<ScalarUDF>) -> LengthOf {
        let bytes = TypeSignature::Exact(vec![DataType::Binary]);
        let texts = inner.signature().type_signature.clone();
        LengthOf {
            inner,
            signature: Signature::one_of(vec![texts, bytes], Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for LengthOf {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [DataType::Binary] => Ok(DataType::Int32),
            others => self.inner.return_type(others),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(bytes)] if *bytes.data_type() == DataType::Binary => {
                Ok(ColumnarValue::Array(length(bytes)?))
            }
            [ColumnarValue::Scalar(bytes @ ScalarValue::Binary(_))] => {
                let lengths = length(&bytes.to_array()?)?;
                let scalar = ScalarValue::try_from_array(&lengths, 0)?;
                Ok(ColumnarValue::Scalar(scalar))
            }
            _ => self.inner.invoke_with_args(args),
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
