//! The functions of sequences, made for each statement that names one.
//!
//! | function                 | gives                                                  |
//! | ------------------------ | ------------------------------------------------------ |
//! | `nextval(s)`             | the next number, another one for each row and call     |
//! | `currval(s)`             | the one that the session took of it last               |
//! | `lastval()`              | the one that it took last of all                       |
//! | `setval(s, n [, given])` | n: the sequence goes on behind it, or with it          |
//!
//! Each asks what the session may do with the sequence (`crate::access::gate`).
//!
//! Those that take or set numbers may have to wait for an edit of the manifest, and do so without
//! keeping a thread, where the planner lets them: in the list of a SELECT and in WHERE. It takes
//! two calls that are written alike for one: so each call of nextval is told apart by a number of
//! its own, which stands behind its argument.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{Array, Int64Array};
use arrow::datatypes::DataType;
use async_trait::async_trait;
use datafusion::error::Result;
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Statement, Value, Visit,
};
use lazybase_model::{Error, SequenceId};

use super::Numbers;
use super::called::function_name;
use crate::access::Gate;
use crate::error::into_datafusion;
use crate::parse::unsupported;
use crate::pg_catalog::functions::{Arguments, any_arguments, failing, row_of, texts};
use crate::walk::{visit_expressions, visit_expressions_mut};

pub(super) const NEXTVAL: &str = "nextval";
pub(super) const SETVAL: &str = "setval";
const CURRVAL: &str = "currval";
const LASTVAL: &str = "lastval";

/// Whether a function is one of these.
pub(super) fn is_name(name: &str) -> bool {
    [NEXTVAL, SETVAL, CURRVAL, LASTVAL].contains(&name)
}

/// Whether a statement or an expression calls one of the functions.
pub(crate) fn are_named(part: &impl Visit) -> bool {
    let found = visit_expressions(part, |expr| {
        let called = match expr {
            Expr::Function(function) => function_name(function),
            _ => None,
        };
        match called.is_some_and(|name| is_name(&name)) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    found.is_break()
}

/// Gives each call of nextval a number of its own.
pub(crate) fn tell_apart(statement: &mut Statement) {
    let mut calls = 0_u32;
    let done: ControlFlow<()> = visit_expressions_mut(statement, |expr| {
        if let Expr::Function(function) = expr
            && function_name(function).is_some_and(|name| name == NEXTVAL)
            && let FunctionArguments::List(list) = &mut function.args
            && list.args.len() == 1
        {
            calls += 1;
            let number = Value::SingleQuotedString(calls.to_string());
            let number = FunctionArgExpr::Expr(Expr::Value(number.into()));
            list.args.push(FunctionArg::Unnamed(number));
        }
        ControlFlow::Continue(())
    });
    debug_assert!(done.is_continue(), "nothing ends the visit");
}

/// The functions for a statement.
pub(crate) fn over(numbers: &Numbers, gate: &Gate) -> Vec<ScalarUDF> {
    let waits = |does: Does| {
        let waits = Waits {
            does,
            numbers: numbers.clone(),
            gate: gate.clone(),
            signature: any_arguments(Volatility::Volatile),
        };
        AsyncScalarUDF::new(Arc::new(waits)).into_scalar_udf()
    };
    let (of_one, gate_of_one) = (numbers.clone(), gate.clone());
    let current = failing(CURRVAL, DataType::Int64, Volatility::Volatile, move |a| {
        let [name] = a else {
            return Err(no_such(CURRVAL, "the name of a sequence"));
        };
        let Some(name) = name else {
            return Ok(None);
        };
        let seen = of_one.named(name)?;
        gate_of_one.tell_number(&seen.sequence)?;
        of_one.current(&seen).map(|number| Some(number.to_string()))
    });
    let (of_all, gate_of_all) = (numbers.clone(), gate.clone());
    let last = failing(LASTVAL, DataType::Int64, Volatility::Volatile, move |a| {
        if !a.is_empty() {
            return Err(no_such(LASTVAL, "nothing"));
        }
        let (sequence, number) = of_all.newest()?;
        if let Some(seen) = of_all.visible.sequence(sequence) {
            gate_of_all.tell_number(&seen.sequence)?;
        }
        Ok(Some(number.to_string()))
    });
    vec![waits(Does::Take), waits(Does::Set), current, last]
}

/// Numbers are to be taken, or set, where nothing can wait.
pub(crate) fn no_wait() -> Error {
    unsupported(format!("{NEXTVAL} and {SETVAL} can't be called there"))
        .with_detail("they may have to wait for the edit that keeps the numbers")
        .with_hint("they may stand in the list of a SELECT, in WHERE, and in VALUES of INSERT")
}

fn no_such(name: &str, takes: &str) -> Error {
    Error::invalid(format!("{name} takes {takes}")).with_sqlstate("42883")
}

/// What a function that waits does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Does {
    Take,
    Set,
}

/// A function that takes or sets numbers.
struct Waits {
    does: Does,
    numbers: Numbers,
    gate: Gate,
    signature: Signature,
}

impl fmt::Debug for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waits")
            .field("does", &self.does)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Waits {
    fn eq(&self, other: &Waits) -> bool {
        self.does == other.does && self.numbers.is_same(&other.numbers)
    }
}

impl Eq for Waits {}

impl Hash for Waits {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.does.hash(state);
    }
}

impl ScalarUDFImpl for Waits {
    fn name(&self) -> &str {
        match self.does {
            Does::Take => NEXTVAL,
            Does::Set => SETVAL,
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(into_datafusion(no_wait()))
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Waits {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let columns = texts(args.args, rows)?;
        let done = match self.does {
            Does::Take => {
                let named = self.named(&columns, rows).map_err(into_datafusion)?;
                self.take(named).await
            }
            Does::Set => self.set(&columns, rows).await,
        };
        Ok(ColumnarValue::Array(Arc::new(
            done.map_err(into_datafusion)?,
        )))
    }
}

impl Waits {
    /// The sequence of each row.
    fn named(
        &self,
        columns: &[arrow::array::StringArray],
        rows: usize,
    ) -> lazybase_model::Result<Vec<Option<SequenceId>>> {
        // The second argument tells calls apart.
        let [names, _] = columns else {
            return Err(no_such(NEXTVAL, "the name of a sequence"));
        };
        let mut known: BTreeMap<&str, SequenceId> = BTreeMap::new();
        let mut named = Vec::with_capacity(rows);
        for row in 0..rows {
            if names.is_null(row) {
                named.push(None);
                continue;
            }
            let name = names.value(row);
            let id = match known.get(name) {
                Some(id) => *id,
                None => {
                    let seen = self.numbers.named(name)?;
                    self.gate.take_numbers(&seen.sequence)?;
                    known.insert(name, seen.sequence.id);
                    seen.sequence.id
                }
            };
            named.push(Some(id));
        }
        Ok(named)
    }

    /// A number for each row, in the order of the rows.
    async fn take(&self, named: Vec<Option<SequenceId>>) -> lazybase_model::Result<Int64Array> {
        self.numbers.check_writes(NEXTVAL)?;
        let mut wanted: BTreeMap<SequenceId, usize> = BTreeMap::new();
        for id in named.iter().flatten() {
            *wanted.entry(*id).or_default() += 1;
        }
        let mut taken: BTreeMap<SequenceId, VecDeque<i64>> = BTreeMap::new();
        for (id, count) in wanted {
            taken.insert(id, self.numbers.next(id, count).await?.into());
        }
        let number = |id: &Option<SequenceId>| taken.get_mut(id.as_ref()?)?.pop_front();
        Ok(named.iter().map(number).collect())
    }

    async fn set(
        &self,
        columns: &[arrow::array::StringArray],
        rows: usize,
    ) -> lazybase_model::Result<Int64Array> {
        self.numbers.check_writes(SETVAL)?;
        let mut set = Vec::with_capacity(rows);
        for row in 0..rows {
            set.push(match asked(&row_of(columns, row))? {
                None => None,
                Some((name, number, called)) => {
                    let seen = self.numbers.named(name)?;
                    self.gate.set_number(&seen.sequence)?;
                    self.numbers.set(&seen, number, called).await?;
                    Some(number)
                }
            });
        }
        Ok(set.into_iter().collect())
    }
}

/// What the arguments of setval ask for; nothing where one of them is NULL.
fn asked<'a>(arguments: &Arguments<'a>) -> lazybase_model::Result<Option<(&'a str, i64, bool)>> {
    let takes = "the name of a sequence, a number, and whether that was given out";
    let (name, number, called) = match arguments {
        [name, number] => (*name, *number, Some("true")),
        [name, number, called] => (*name, *number, *called),
        _ => return Err(no_such(SETVAL, takes)),
    };
    let (Some(name), Some(number), Some(called)) = (name, number, called) else {
        return Ok(None);
    };
    let number = number.trim().parse().map_err(|_| {
        Error::invalid(format!("{SETVAL} takes {takes}"))
            .with_detail(format!("not {number}"))
            .with_sqlstate("22P02")
    })?;
    Ok(Some((name, number, called == "true")))
}
