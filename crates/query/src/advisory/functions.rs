//! The functions of advisory locks.
//!
//! | function                                               | gives                             |
//! | ------------------------------------------------------ | --------------------------------- |
//! | `pg_advisory_lock(n)`, `pg_advisory_xact_lock(n)`      | nothing, once the lock is there   |
//! | `pg_try_advisory_lock(n)`, `pg_try_advisory_xact_lock` | whether it got the lock           |
//! | `pg_advisory_unlock(n)`                                | whether there was one             |
//! | `pg_advisory_unlock_all()`                             | nothing                           |
//!
//! Each but the last also as `..._shared`, and of two numbers. They lock once a row. Those that
//! wait do so without keeping a thread, where the planner lets them: in the list of a SELECT and in
//! WHERE.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::StringBuilder;
use arrow::datatypes::DataType;
use async_trait::async_trait;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, Statement, Visit, Visitor};
use lazybase_model::Error;

use super::{Key, Mode, SpanLocks};
use crate::error::into_datafusion;
use crate::pg_catalog::functions::{Arguments, any_arguments, failing, row_of, texts};
use crate::walk::visit;

/// What all of their names but that of the last begin with.
pub(crate) const PREFIXES: [&str; 2] = ["pg_advisory_", "pg_try_advisory_"];

/// The four ways to lock, behind what a function's name begins with.
const MODES: [(&str, Mode); 4] = [
    ("lock", mode(false, false)),
    ("lock_shared", mode(true, false)),
    ("xact_lock", mode(false, true)),
    ("xact_lock_shared", mode(true, true)),
];

const fn mode(shared: bool, spans: bool) -> Mode {
    Mode { shared, spans }
}

/// The beginning of all their names, and of some others.
const ALL: &str = "pg_";
/// The tables of `information_schema` that list functions.
const LISTS: [&str; 2] = ["routines", "parameters"];

/// Whether a statement or an expression calls one of the functions, or lists all that there are.
/// What only looks like a call of one counts too, so that a name that is misspelt is met by theirs.
pub(crate) fn are_named(part: &impl Visit) -> bool {
    visit(part, &mut Calls { of: ALL }).is_break()
}

/// Whether a statement calls a function that waits for a lock.
pub(crate) fn may_wait(part: &impl Visit) -> bool {
    visit(part, &mut Calls { of: PREFIXES[0] }).is_break()
}

/// Breaks off where functions with a name that begins so are called, or may be listed.
struct Calls {
    of: &'static str,
}

impl Visitor for Calls {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<()> {
        ends_where(matches!(statement, Statement::ShowFunctions { .. }))
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let is_list = |name: &Ident| {
            let mut lists = LISTS.iter();
            lists.any(|list| name.value.eq_ignore_ascii_case(list))
        };
        ends_where(last_part(relation).is_some_and(is_list))
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expr else {
            return ControlFlow::Continue(());
        };
        let is_ours = |name: &Ident| {
            let begin = name.value.get(..self.of.len());
            begin.is_some_and(|begin| begin.eq_ignore_ascii_case(self.of))
        };
        ends_where(last_part(&function.name).is_some_and(is_ours))
    }
}

fn ends_where(found: bool) -> ControlFlow<()> {
    match found {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

fn last_part(name: &ObjectName) -> Option<&Ident> {
    name.0.last()?.as_ident()
}

/// The functions for a statement.
pub(crate) fn over(locks: &Arc<SpanLocks>) -> Vec<ScalarUDF> {
    let mut all = Vec::new();
    for (name, mode) in MODES {
        let [waits, tries] = PREFIXES.map(|prefix| format!("{prefix}{name}"));
        let own = Arc::clone(locks);
        let waits = Waits {
            name: waits,
            mode,
            locks: Arc::clone(locks),
            signature: any_arguments(Volatility::Volatile),
        };
        all.push(AsyncScalarUDF::new(Arc::new(waits)).into_scalar_udf());
        all.push(truth(&tries, move |key| own.try_lock(key, mode)));
    }
    for (name, shared) in [("unlock", false), ("unlock_shared", true)] {
        let own = Arc::clone(locks);
        let name = format!("{}{name}", PREFIXES[0]);
        all.push(truth(&name, move |key| Ok(own.unlock(key, shared))));
    }
    let own = Arc::clone(locks);
    let name = "pg_advisory_unlock_all";
    all.push(failing(
        name,
        DataType::Utf8,
        Volatility::Volatile,
        move |_| {
            own.unlock_all();
            Ok(Some(String::new()))
        },
    ));
    all
}

/// A function of a number, or two, that tells whether it did something.
fn truth(
    name: &str,
    does: impl Fn(Key) -> lazybase_model::Result<bool> + Send + Sync + 'static,
) -> ScalarUDF {
    let called = name.to_owned();
    failing(name, DataType::Boolean, Volatility::Volatile, move |a| {
        let done = key_of(&called, a)?.map(&does).transpose()?;
        Ok(done.map(|done| done.to_string()))
    })
}

/// What the arguments of a function name; nothing where one of them is NULL.
fn key_of(name: &str, arguments: &Arguments<'_>) -> lazybase_model::Result<Option<Key>> {
    let known: Option<Vec<&str>> = arguments.iter().copied().collect();
    let Some(known) = known else {
        return Ok(None);
    };
    let key = match known.as_slice() {
        [number] => number.trim().parse::<i64>().ok().map(Key::One),
        [first, second] => {
            let half = |number: &str| number.trim().parse::<i32>().ok();
            let pair = half(first).zip(half(second));
            pair.map(|(first, second)| Key::Two(first, second))
        }
        _ => {
            return Err(
                Error::invalid(format!("{name} takes a BIGINT, or two INTs"))
                    .with_sqlstate("42883"),
            );
        }
    };
    key.map(Some).ok_or_else(|| {
        Error::invalid(format!("{name} takes a BIGINT, or two INTs"))
            .with_detail(format!("not {}", known.join(", ")))
            .with_sqlstate("22P02")
    })
}

/// A function that waits for a lock.
struct Waits {
    name: String,
    mode: Mode,
    locks: Arc<SpanLocks>,
    signature: Signature,
}

impl fmt::Debug for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waits")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Waits {
    fn eq(&self, other: &Waits) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.locks, &other.locks)
    }
}

impl Eq for Waits {}

impl Hash for Waits {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Waits {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("{} waits, and is called so that it can", self.name)
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Waits {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let columns = texts(args.args, rows)?;
        let mut done = StringBuilder::new();
        for row in 0..rows {
            let key = key_of(&self.name, &row_of(&columns, row)).map_err(into_datafusion)?;
            match key {
                Some(key) => {
                    let locked = self.locks.lock(key, self.mode).await;
                    locked.map_err(into_datafusion)?;
                    done.append_value("");
                }
                None => done.append_null(),
            }
        }
        Ok(ColumnarValue::Array(Arc::new(done.finish())))
    }
}
