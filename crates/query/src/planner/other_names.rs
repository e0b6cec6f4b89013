//! PostgreSQL's names of functions that the planner has under other names.
//!
//! | PostgreSQL          | here       |
//! | ------------------- | ---------- |
//! | `every`             | `bool_and` |
//! | `variance`          | `var`      |
//! | `gen_random_uuid`   | `uuid`     |
//! | `sign`              | `signum`   |
//! | `ceiling`           | `ceil`     |
//! | `transaction_timestamp`, `statement_timestamp`, `clock_timestamp` | `now` |
//! | `array_remove`      | `array_remove_all`, as the planner's own removes the first one alone |
//! | `array_replace`     | `array_replace_all`, likewise |

use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::SessionState;

const AGGREGATES: [(&str, &str); 2] = [("every", "bool_and"), ("variance", "var")];
const SCALARS: [(&str, &str); 8] = [
    ("gen_random_uuid", "uuid"),
    ("sign", "signum"),
    ("ceiling", "ceil"),
    ("transaction_timestamp", "now"),
    ("statement_timestamp", "now"),
    ("clock_timestamp", "now"),
    ("array_remove", "array_remove_all"),
    ("array_replace", "array_replace_all"),
];

/// Adds the names.
///
/// # Errors
/// The planner's, where it does not have a function under the name in this table.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for (name, planned) in AGGREGATES {
        let function = state.udaf(planned)?.as_ref().clone();
        state.register_udaf(function.with_aliases([name]).into())?;
    }
    for (name, planned) in SCALARS {
        let function = state.udf(planned)?.as_ref().clone();
        state.register_udf(function.with_aliases([name]).into())?;
    }
    Ok(())
}
