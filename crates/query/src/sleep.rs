//! `pg_sleep(seconds)`: waits, once a row, on the clock of the environment.
//!
//! It keeps no thread, and ends with its statement: when that is cancelled, or its time is over. It
//! waits where the planner lets it: in the list of a SELECT and in WHERE.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::StringBuilder;
use arrow::datatypes::DataType;
use async_trait::async_trait;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use lazybase_engine::env::Clock;
use lazybase_model::Error;

use crate::error::into_datafusion;
use crate::pg_catalog::functions::{Arguments, any_arguments, row_of, texts};

/// The function's name.
pub(crate) const PG_SLEEP: &str = "pg_sleep";

/// The most seconds that are waited: a century.
const SECONDS_MAX: f64 = 3_155_760_000.0;

/// The function.
pub(crate) fn function(clock: &Arc<dyn Clock>) -> ScalarUDF {
    let sleeps = Sleeps {
        clock: Arc::clone(clock),
        signature: any_arguments(Volatility::Volatile),
    };
    AsyncScalarUDF::new(Arc::new(sleeps)).into_scalar_udf()
}

/// How long the arguments ask to wait: nothing where that is NULL, no time where it is less.
fn time_of(arguments: &Arguments<'_>) -> lazybase_model::Result<Option<Duration>> {
    let [argument] = arguments else {
        return Err(
            Error::invalid(format!("{PG_SLEEP} takes a number of seconds")).with_sqlstate("42883"),
        );
    };
    let Some(text) = argument else {
        return Ok(None);
    };
    let seconds = text.trim().parse::<f64>().ok();
    match seconds.filter(|seconds| !seconds.is_nan()) {
        Some(seconds) => {
            let time = Duration::try_from_secs_f64(seconds.min(SECONDS_MAX));
            Ok(Some(time.unwrap_or_default()))
        }
        None => Err(
            Error::invalid(format!("{PG_SLEEP} takes a number of seconds"))
                .with_detail(format!("not {text}"))
                .with_sqlstate("22P02"),
        ),
    }
}

struct Sleeps {
    clock: Arc<dyn Clock>,
    signature: Signature,
}

impl fmt::Debug for Sleeps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleeps").finish_non_exhaustive()
    }
}

impl PartialEq for Sleeps {
    fn eq(&self, other: &Sleeps) -> bool {
        Arc::ptr_eq(&self.clock, &other.clock)
    }
}

impl Eq for Sleeps {}

impl Hash for Sleeps {
    fn hash<H: Hasher>(&self, state: &mut H) {
        PG_SLEEP.hash(state);
    }
}

impl ScalarUDFImpl for Sleeps {
    fn name(&self) -> &str {
        PG_SLEEP
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("{PG_SLEEP} waits, and is called so that it can")
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Sleeps {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let columns = texts(args.args, rows)?;
        let mut done = StringBuilder::new();
        for row in 0..rows {
            let time = time_of(&row_of(&columns, row)).map_err(into_datafusion)?;
            match time {
                Some(time) => {
                    self.clock.sleep(time).await;
                    done.append_value("");
                }
                None => done.append_null(),
            }
        }
        Ok(ColumnarValue::Array(Arc::new(done.finish())))
    }
}
