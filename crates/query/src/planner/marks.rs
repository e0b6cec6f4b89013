//! What a column says of itself beside its type (that its texts are JSON, or UUIDs), where its rows
//! come from several places: it is true of all of them. What does not say so is looked at.
//!
//! ```text
//!   SELECT j FROM t UNION ALL SELECT '{}'    ->  ... UNION ALL SELECT json_checked('{}')
//!   VALUES (to_json(1)), ('{}')              ->  VALUES (to_json(1)), (json_checked('{}'))
//!   WITH RECURSIVE r AS (SELECT j ... UNION ALL SELECT v FROM r)
//!                                            ->  ... UNION ALL SELECT json_checked(v) FROM r
//! ```
//!
//! The planner refuses VALUES of which one row says something and another does not, and takes what
//! JSON is cast to for JSON. So each value stands in a call that says nothing while SQL is planned,
//! and by itself as soon as there is a plan:
//!
//! ```text
//!   VALUES (to_json(1)), (NULL)              ->  VALUES (unmarked(to_json(1))), (NULL)
//! ```
//!
//! A rewrite of sqlparser's tree, a function, and parts of the rule `json_values`; pure.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef, internal_err};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, Projection, RecursiveQuery, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Union, Values, Volatility,
};
use datafusion::sql::sqlparser::ast::{
    Expr as Written, Query, SetExpr, Value, VisitMut, VisitorMut,
};

use crate::pg_catalog::rewrite::call;
use crate::pg_catalog::types::{is_json_field, is_json_list, mark, says_json};
use crate::planner::json_values::checked;
use crate::planner::sql_types::UuidOf;
use crate::types::is_uuid;
use crate::walk::visit_mut;

/// The name of the function that says nothing.
const UNMARKED: &str = "unmarked";

/// Adds the function.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    state.register_udf(unmarked())?;
    Ok(())
}

/// The function that gives a value of which nothing is said beside its type.
pub(super) fn unmarked() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Unmarked {
        signature: Signature::any(1, Volatility::Immutable),
    }))
}

/// Hides what the values of several rows say of themselves.
pub(crate) fn hide(tree: &mut impl VisitMut) {
    let done = visit_mut(tree, &mut Rows);
    debug_assert!(done.is_continue(), "nothing ends the visit");
}

struct Rows;

impl VisitorMut for Rows {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        hide_in(&mut query.body);
        ControlFlow::Continue(())
    }
}

fn hide_in(body: &mut SetExpr) {
    match body {
        SetExpr::Values(values) => {
            let rows = values.rows.iter_mut();
            rows.flat_map(|row| row.content.iter_mut())
                .for_each(hide_value);
        }
        SetExpr::SetOperation { left, right, .. } => {
            hide_in(left);
            hide_in(right);
        }
        _ => {}
    }
}

/// Hides what a value says of itself.
pub(crate) fn hide_value(value: &mut Written) {
    if may_say_something(value) {
        let null = Written::value(Value::Null);
        *value = call(UNMARKED, vec![std::mem::replace(value, null)]);
    }
}

/// Casts to what says something of itself are calls by now.
fn may_say_something(value: &Written) -> bool {
    match value {
        Written::Nested(of)
        | Written::Cast { expr: of, .. }
        | Written::UnaryOp { expr: of, .. } => may_say_something(of),
        Written::Value(_)
        | Written::TypedString(_)
        | Written::Interval(_)
        | Written::BinaryOp { .. } => false,
        _ => true,
    }
}

/// VALUES with its values as they were written.
pub(super) fn shown(plan: LogicalPlan) -> Transformed<LogicalPlan> {
    let LogicalPlan::Values(mut values) = plan else {
        return Transformed::no(plan);
    };
    let mut changed = false;
    for value in values.values.iter_mut().flatten() {
        changed |= show(value);
    }
    let plan = LogicalPlan::Values(values);
    Transformed::new(plan, changed, TreeNodeRecursion::Continue)
}

fn show(value: &mut Expr) -> bool {
    match value {
        // To the type of the column.
        Expr::Cast(cast) => show(&mut cast.expr),
        Expr::ScalarFunction(call) if call.func.name() == UNMARKED => {
            let shown = call.args.pop();
            let is_there = shown.is_some();
            if let Some(shown) = shown {
                *value = shown;
            }
            is_there
        }
        _ => false,
    }
}

/// A node that puts rows of several places together, with columns that say what is true of all of
/// them.
pub(super) fn agreed(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Union(union) => of_union(union),
        LogicalPlan::Values(values) => of_rows(values),
        LogicalPlan::RecursiveQuery(query) => of_recursion(query),
        plan => Ok(Transformed::no(plan)),
    }
}

fn of_union(mut union: Union) -> Result<Transformed<LogicalPlan>> {
    // The type of the first that is JSON, or lists of it.
    let json = |at: usize| {
        let inputs = union.inputs.iter();
        let mut fields = inputs.map(|input| input.schema().field(at));
        let found = fields.find(|field| holds_json(field))?;
        Some(found.data_type().clone())
    };
    let json: Vec<Option<DataType>> = (0..union.schema.fields().len()).map(json).collect();
    let mut fields = union.schema.fields().iter();
    if json.iter().all(Option::is_none) && !fields.any(|field| says_json(field)) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    for input in &mut union.inputs {
        let schema = Arc::clone(input.schema());
        let unsaid = |at: usize| {
            let field = schema.field(at);
            json[at].is_some() && !says_json(field) && !field.data_type().is_null()
        };
        if let Some(part) = with_calls(input, &|at| unsaid(at).then(checked))? {
            *input = part;
        }
    }
    union.schema = with_fields(&union.schema, |at, field| {
        let agreed = Field::clone(field);
        Arc::new(match &json[at] {
            // It has the type of the first part, which may be NULL.
            Some(of) if field.data_type().is_null() => agreed
                .with_data_type(of.clone())
                .with_metadata(mark("json")),
            Some(_) => agreed.with_metadata(mark("json")),
            // What the planner took for JSON, a cast of it, is none.
            None if says_json(field) => agreed.with_metadata(HashMap::new()),
            None => agreed,
        })
    })?;
    Ok(Transformed::yes(LogicalPlan::Union(union)))
}

/// Whether the texts of a column, or those in its lists, are JSON.
fn holds_json(field: &Field) -> bool {
    is_json_field(field) || is_json_list(field)
}

fn of_rows(mut values: Values) -> Result<Transformed<LogicalPlan>> {
    let mut columns: Vec<FieldRef> = values.schema.fields().iter().cloned().collect();
    let mut changed = false;
    for (at, column) in columns.iter_mut().enumerate() {
        let rows = values.values.iter();
        let said: Vec<Option<FieldRef>> = rows.map(|row| said(row.get(at)?)).collect();
        let Some(first) = said.iter().flatten().next() else {
            continue;
        };
        let agrees = |of: &Option<FieldRef>| {
            of.as_ref()
                .is_some_and(|of| of.metadata() == first.metadata())
        };
        let check = check_of(first).filter(|_| column.data_type() == first.data_type());
        match check {
            Some(check) => {
                for (row, said) in values.values.iter_mut().zip(&said) {
                    if let Some(value) = row.get_mut(at)
                        && !agrees(said)
                        && !is_null(value)
                    {
                        *value = check.call(vec![std::mem::take(value)]);
                    }
                }
            }
            None if said.iter().all(agrees) => {}
            None => continue,
        }
        *column = Arc::new(Field::clone(column).with_metadata(first.metadata().clone()));
        changed = true;
    }
    if changed {
        values.schema = with_fields(&values.schema, |at, _| Arc::clone(&columns[at]))?;
    }
    let plan = LogicalPlan::Values(values);
    Ok(Transformed::new(plan, changed, TreeNodeRecursion::Continue))
}

/// A value as it says more of itself than its type; nothing where it does not.
fn said(value: &Expr) -> Option<FieldRef> {
    if is_plain(value) {
        return None;
    }
    let (_, field) = value.to_field(&DFSchema::empty()).ok()?;
    Some(field).filter(|field| !field.metadata().is_empty())
}

/// Whether a value is a constant that says nothing of itself, cast or not: mostly they are, and
/// there may be many.
pub(super) fn is_plain(value: &Expr) -> bool {
    match value {
        Expr::Literal(_, said) => said.is_none(),
        Expr::Cast(cast) => is_plain(&cast.expr),
        Expr::TryCast(cast) => is_plain(&cast.expr),
        _ => false,
    }
}

fn is_null(value: &Expr) -> bool {
    matches!(value, Expr::Literal(value, _) if value.is_null())
}

/// The columns are those of the first part, which the second one sees.
fn of_recursion(query: RecursiveQuery) -> Result<Transformed<LogicalPlan>> {
    let RecursiveQuery {
        name,
        static_term: mut first,
        recursive_term: mut second,
        is_distinct,
        ..
    } = query;
    let (given, found) = (Arc::clone(first.schema()), Arc::clone(second.schema()));
    let differ = |at: usize| given.field(at).metadata() != found.field(at).metadata();
    let check = |at: usize| check_of(given.field(at));
    // What nothing checks is said of neither part.
    let hidden = |at: usize| (differ(at) && check(at).is_none()).then(unmarked);
    if let Some(part) = with_calls(&first, &hidden)? {
        first = part;
    }
    let call = |at: usize| differ(at).then(|| check(at).unwrap_or_else(unmarked));
    if let Some(part) = with_calls(&second, &call)? {
        second = part;
    }
    let query = RecursiveQuery::try_new(name, first, second, is_distinct)?;
    Ok(Transformed::yes(LogicalPlan::RecursiveQuery(query)))
}

/// The function that gives values which are what a field says of its texts, and refuses others.
fn check_of(field: &Field) -> Option<Arc<ScalarUDF>> {
    match field.data_type() {
        _ if holds_json(field) => Some(checked()),
        DataType::Utf8 if is_uuid(field) => Some(Arc::new(ScalarUDF::from(UuidOf::new()))),
        _ => None,
    }
}

/// A plan with calls of functions around some of its columns, under their names, if there are any.
pub(super) fn with_calls(
    plan: &Arc<LogicalPlan>,
    of_column: &dyn Fn(usize) -> Option<Arc<ScalarUDF>>,
) -> Result<Option<Arc<LogicalPlan>>> {
    let schema = plan.schema();
    let functions: Vec<Option<Arc<ScalarUDF>>> =
        (0..schema.fields().len()).map(of_column).collect();
    if functions.iter().all(Option::is_none) {
        return Ok(None);
    }
    let (columns, input) = match plan.as_ref() {
        LogicalPlan::Projection(projection) => (projection.expr.clone(), &projection.input),
        _ => {
            let columns = schema.columns().into_iter().map(Expr::Column);
            (columns.collect(), plan)
        }
    };
    let named = schema.iter().zip(functions).zip(columns);
    let named = named.map(|(((qualifier, field), function), column)| match function {
        Some(function) => function
            .call(vec![column.unalias()])
            .alias_qualified(qualifier.cloned(), field.name()),
        None => column,
    });
    let plan = Projection::try_new(named.collect(), Arc::clone(input))?;
    Ok(Some(Arc::new(LogicalPlan::Projection(plan))))
}

/// A schema with other fields of the same names.
fn with_fields(
    schema: &DFSchema,
    field: impl Fn(usize, &FieldRef) -> FieldRef,
) -> Result<DFSchemaRef> {
    let fields = schema.iter().enumerate();
    let fields = fields.map(|(at, (qualifier, of))| (qualifier.cloned(), field(at, of)));
    let schema = DFSchema::new_with_metadata(fields.collect(), schema.metadata().clone())?;
    Ok(Arc::new(schema))
}

/// A value of which nothing is said beside its type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Unmarked {
    signature: Signature,
}

impl ScalarUDFImpl for Unmarked {
    fn name(&self) -> &str {
        UNMARKED
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [of] => Ok(of.clone()),
            _ => internal_err!("unmarked has one argument"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields {
            [of] => {
                let field = Field::new(of.name(), of.data_type().clone(), of.is_nullable());
                Ok(Arc::new(field))
            }
            _ => internal_err!("unmarked has one argument"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match <[ColumnarValue; 1]>::try_from(args.args) {
            Ok([value]) => Ok(value),
            Err(_) => internal_err!("unmarked has one argument"),
        }
    }
}
