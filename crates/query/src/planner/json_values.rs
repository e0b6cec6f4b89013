//! JSON of values, which stands in texts: `to_json`, `json_agg` and what is like them.
//!
//! | function                    | gives                        | for                           |
//! | --------------------------- | ---------------------------- | ----------------------------- |
//! | `to_json(x)`                | `[1,2]`, `"a"`, `{"k":1}`    | `row_to_json`, `to_jsonb`     |
//! | `json_build_array(a, b)`    | `[1, "x"]`                   |                               |
//! | `json_build_object(k, v)`   | `{"k" : 1}`                  |                               |
//! | `json_row(k, v)`            | `{"k":1}`                    | rows of a table               |
//! | `json_list(l)`              | `[1, 2]` of texts of JSON    | `json_agg`, of an `array_agg` |
//! | `json_of_list(l)`           | `[1,2]` of texts of JSON     | `to_json` of such lists       |
//! | `json_member(k, v)`         | `"k" : 1`                    |                               |
//! | `json_object_list(l)`       | `{ "k" : 1 }` of members     | `json_object_agg`             |
//! | `json_checked(t)`           | the text, if it is JSON      | `t::JSON`; also of lists      |
//! | `json_text(t)`              | the text, which is JSON      |                               |
//!
//! A rule of the planner before its own makes JSON of the values that are none yet, so that the
//! functions have nothing but JSON to put together:
//!
//! ```text
//!   json_build_array(x, json_list(l))   ->   json_build_array(to_json(x), json_list(l))
//! ```
//!
//! Where columns are made, what chooses among JSON, or is an element of a list of JSON, says that
//! it is JSON too; what JSON is cast to does not say so any more:
//!
//! ```text
//!   SELECT coalesce(json_list(l), '[]')   ->   SELECT json_text(coalesce(json_list(l), '[]'))
//!   SELECT (array_agg(j))[1]              ->   SELECT json_text((array_agg(j))[1])
//!   j::TEXT                               ->   unmarked(j::TEXT)
//! ```
//!
//! Lists say that their elements are JSON: `array_agg` does where its values are.
//!
//! Pure. Invariant JSV-1: what one of these functions made, and a column of JSON, stands in another
//! one as JSON, through columns of subqueries and lists too, and not as a text.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, StringArray, StringBuilder, make_array, new_null_array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::error::ArrowError;
use arrow::json::writer::NullableEncoder;
use arrow::json::{Encoder, EncoderFactory, EncoderOptions};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction, WindowFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use lazybase_model::Error;

use crate::copy::json_texts_by;
use crate::error::into_datafusion;
use crate::pg_catalog::types::{is_json_field, is_json_list, mark, says_json};
use crate::planner::intervals::computed;
use crate::planner::json_functions::{is_json_text, no_json};
use crate::planner::mapped::{self, Mapping};
use crate::planner::marks;
use crate::planner::rule::{NodeRule, rewrite_parts};
use crate::planner::unknowns::WITH_DEFAULT;
use crate::text_form;

/// The rule.
pub(crate) const JSON_VALUES: NodeRule = NodeRule::new("json_values", rewrite);

/// The function of a row.
pub(crate) const JSON_ROW: &str = "json_row";

/// The function of a cast to JSON.
pub(crate) const JSON_CHECKED: &str = "json_checked";

/// Functions that give one of their arguments.
const CHOICES: [&str; 6] = ["coalesce", "nullif", "ifnull", "nvl", "greatest", "least"];
/// The function that gives an element of a list.
const ELEMENT: &str = "array_element";
/// The aggregate that the planner makes of an element of an `array_agg`.
const NTH: &str = "nth_value";

/// Adds the functions.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for made in ALL {
        state.register_udf(function(made))?;
    }
    mapped::register::<Gathered>(state, "array_agg")
}

/// Lists of values as they are, or one of them, which say that these are JSON.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Gathered;

impl Mapping for Gathered {
    const SLIDES_OVER_DISTINCT: bool = true;
    const KEEPS_JSON: bool = true;
}

/// What a function makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Made {
    Value,
    Array,
    Object,
    Row,
    List,
    Elements,
    Member,
    ObjectList,
    Checked,
    Text,
}

const ALL: [Made; 10] = [
    Made::Value,
    Made::Array,
    Made::Object,
    Made::Row,
    Made::List,
    Made::Elements,
    Made::Member,
    Made::ObjectList,
    Made::Checked,
    Made::Text,
];

fn function(made: Made) -> Arc<ScalarUDF> {
    let any = vec![TypeSignature::VariadicAny, TypeSignature::Nullary];
    let signature = Signature::one_of(any, Volatility::Immutable);
    Arc::new(ScalarUDF::from(JsonOf { made, signature }))
}

/// The function that lets nothing but JSON pass.
pub(super) fn checked() -> Arc<ScalarUDF> {
    function(Made::Checked)
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let plan = marks::shown(plan).transform_data(told)?;
    let plan = plan.transform_data(|plan| {
        let is_column = makes_columns(&plan);
        let parts = rewrite_parts(plan, &|expr, schema| of_json(expr, schema, is_column))?;
        match parts.transformed && passes_on(&parts.data) {
            true => parts.map_data(LogicalPlan::recompute_schema),
            false => Ok(parts),
        }
    })?;
    plan.transform_data(marks::agreed)?
        .transform_data(of_elements)
}

/// A node whose columns say of themselves what those below it have come to say.
fn told(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let says_so = holds_json(&plan) || plan.inputs().into_iter().any(holds_json);
    match says_so && passes_on(&plan) {
        true => plan.recompute_schema().map(Transformed::yes),
        false => Ok(Transformed::no(plan)),
    }
}

/// Whether a column of a node says that it is JSON, or lists of it.
fn holds_json(plan: &LogicalPlan) -> bool {
    let mut fields = plan.schema().fields().iter();
    fields.any(|field| says_json(field))
}

/// Whether a node keeps what its columns say, which is what those below it said once.
fn passes_on(plan: &LogicalPlan) -> bool {
    makes_columns(plan)
        || matches!(
            plan,
            LogicalPlan::SubqueryAlias(_) | LogicalPlan::Join(_) | LogicalPlan::Unnest(_)
        )
}

/// Whether the expressions of a node are its columns.
fn makes_columns(plan: &LogicalPlan) -> bool {
    matches!(
        plan,
        LogicalPlan::Projection(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Values(_)
    )
}

/// The elements of lists of JSON, a row each, as JSON.
fn of_elements(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Unnest(unnest) = &plan else {
        return Ok(Transformed::no(plan));
    };
    let lists = unnest.input.schema();
    let fields = unnest
        .schema
        .fields()
        .iter()
        .zip(&unnest.dependency_indices);
    let is_element = |(field, list): (&FieldRef, &usize)| {
        *field.data_type() == DataType::Utf8 && is_json_list(lists.field(*list))
    };
    let are_json: Vec<bool> = fields.map(is_element).collect();
    let plan = Arc::new(plan);
    let text = |at: usize| are_json[at].then(|| function(Made::Text));
    Ok(match marks::with_calls(&plan, &text)? {
        Some(plan) => Transformed::yes(Arc::unwrap_or_clone(plan)),
        None => Transformed::no(Arc::unwrap_or_clone(plan)),
    })
}

/// An expression with JSON where JSON is put together, and what JSON is cast to as nothing else:
/// the planner takes a cast for something that leaves a value what it is. In a column, what is JSON
/// and would not say so says it.
fn of_json(expr: Expr, schema: &DFSchema, is_column: bool) -> Result<Transformed<Expr>> {
    let is_cast = matches!(expr, Expr::Cast(_) | Expr::TryCast(_)) && !marks::is_plain(&expr);
    if is_cast && field_of(&expr, schema).is_some_and(|field| says_json(&field)) {
        return Ok(Transformed::yes(marks::unmarked().call(vec![expr])));
    }
    if is_column && may_be_unsaid(&expr) && is_json(&expr, schema) {
        return Ok(Transformed::yes(function(Made::Text).call(vec![expr])));
    }
    match expr {
        Expr::ScalarFunction(call) => Ok(put_together(call, schema)),
        Expr::AggregateFunction(mut call) if is_nth_of_json(&call, schema) => {
            call.func = mapped::around::<Gathered>(call.func);
            Ok(Transformed::yes(Expr::AggregateFunction(call)))
        }
        Expr::WindowFunction(call) => {
            check_default(&call, schema)?;
            Ok(Transformed::no(Expr::WindowFunction(call)))
        }
        expr => Ok(Transformed::no(expr)),
    }
}

/// Whether an expression may give JSON and not say so: one of some values, or of a list's elements.
fn may_be_unsaid(expr: &Expr) -> bool {
    match expr {
        Expr::Case(_) => true,
        Expr::ScalarFunction(call) => {
            let name = call.func.name();
            name == ELEMENT || CHOICES.contains(&name)
        }
        _ => false,
    }
}

/// Whether an aggregate is what the planner makes of `(array_agg(j))[1]`, which does not say that
/// it is JSON where `j` is.
fn is_nth_of_json(call: &AggregateFunction, schema: &DFSchema) -> bool {
    let [of, _] = call.params.args.as_slice() else {
        return false;
    };
    call.func.name() == NTH && is_marked(of, schema)
}

/// A call of one of the functions with JSON in the place of all values.
fn put_together(mut call: ScalarFunction, schema: &DFSchema) -> Transformed<Expr> {
    let name = call.func.name();
    let Some(made) = ALL.into_iter().find(|made| made.name() == name) else {
        return Transformed::no(Expr::ScalarFunction(call));
    };
    let mut changed = false;
    if let (Made::Value, [value]) = (made, call.args.as_slice()) {
        let of = match is_json(value, schema) {
            true => Made::Text,
            false => made_of(value, schema),
        };
        if of != made {
            call.func = function(of);
            changed = true;
        }
    }
    for (at, value) in call.args.iter_mut().enumerate() {
        if made.takes_json(at) && !is_json(value, schema) {
            let of = made_of(value, schema);
            *value = function(of).call(vec![std::mem::take(value)]);
            changed = true;
        }
    }
    let call = Expr::ScalarFunction(call);
    Transformed::new(call, changed, TreeNodeRecursion::Continue)
}

/// What makes JSON of a value that is none itself.
fn made_of(value: &Expr, schema: &DFSchema) -> Made {
    match is_list(value, schema) {
        true => Made::Elements,
        false => Made::Value,
    }
}

/// Refuses what `lag` or `lead` of JSON would give where there is no such row, if it is none.
fn check_default(call: &WindowFunction, schema: &DFSchema) -> Result<()> {
    if let [value, _, Expr::Literal(default, _)] = call.params.args.as_slice()
        && WITH_DEFAULT.contains(&call.fun.name())
        && is_marked(value, schema)
        && let Ok(ScalarValue::Utf8(Some(text))) = default.cast_to(&DataType::Utf8)
        && !is_json_text(&text)
    {
        return Err(into_datafusion(no_json(&text)));
    }
    Ok(())
}

/// Whether a value is JSON, or chosen from such, beside NULL and constants that are JSON.
fn is_json(expr: &Expr, schema: &DFSchema) -> bool {
    chosen(expr, schema) == Some(true)
}

/// The same; nothing of NULL, and of a constant that is JSON where it stands beside JSON.
fn chosen(expr: &Expr, schema: &DFSchema) -> Option<bool> {
    match expr {
        Expr::Alias(alias) => chosen(&alias.expr, schema),
        Expr::Case(case) => {
            let results = case.when_then_expr.iter().map(|(_, result)| result);
            let results = results.chain(&case.else_expr);
            all_of(results.map(|result| &**result), schema)
        }
        // What NULLIF is compared with is not given.
        Expr::ScalarFunction(call) if call.func.name() == "nullif" => {
            all_of(call.args.iter().take(1), schema)
        }
        Expr::ScalarFunction(call) if CHOICES.contains(&call.func.name()) => {
            all_of(call.args.iter(), schema)
        }
        Expr::ScalarFunction(call) if call.func.name() == ELEMENT => {
            Some(call.args.first().is_some_and(|list| is_list(list, schema)))
        }
        other if is_marked(other, schema) => Some(true),
        Expr::Literal(value, _) if value.is_null() => None,
        Expr::Literal(value, _) => match value.try_as_str().flatten() {
            Some(text) if is_json_text(text) => None,
            _ => Some(false),
        },
        _ => Some(false),
    }
}

/// Whether all of some values are JSON; nothing where none says so.
fn all_of<'e>(values: impl Iterator<Item = &'e Expr>, schema: &DFSchema) -> Option<bool> {
    let mut said = values.filter_map(|value| chosen(value, schema));
    let first = said.next()?;
    Some(first && said.all(|says| says))
}

fn field_of(expr: &Expr, schema: &DFSchema) -> Option<FieldRef> {
    expr.to_field(schema).ok().map(|(_, field)| field)
}

/// Whether a value says of itself that it is JSON.
fn is_marked(expr: &Expr, schema: &DFSchema) -> bool {
    field_of(expr, schema).is_some_and(|field| is_json_field(&field))
}

/// Whether a value says of itself that it is a list of JSON.
fn is_list(expr: &Expr, schema: &DFSchema) -> bool {
    field_of(expr, schema).is_some_and(|field| is_json_list(&field))
}

/// One of the functions.
#[derive(Debug, PartialEq, Eq, Hash)]
struct JsonOf {
    made: Made,
    signature: Signature,
}

impl ScalarUDFImpl for JsonOf {
    fn name(&self) -> &str {
        self.made.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, of: &[DataType]) -> Result<DataType> {
        Ok(match (self.made, of) {
            (Made::Checked, [DataType::List(_)]) => texts_in_lists(),
            _ => DataType::Utf8,
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.made.check(args.arg_fields.len())?;
        let of: Vec<DataType> = args
            .arg_fields
            .iter()
            .map(|of| of.data_type().clone())
            .collect();
        let field = Field::new(self.name(), self.return_type(&of)?, true);
        // A member is no JSON of its own.
        Ok(Arc::new(match self.made {
            Made::Member => field,
            _ => field.with_metadata(mark("json")),
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        computed(&args, |arrays| match (self.made, arrays) {
            (Made::Checked, [lists]) if matches!(lists.data_type(), DataType::List(_)) => {
                checked_lists(lists)
            }
            (made, arrays) => Ok(Arc::new(made.of(arrays)?)),
        })
    }
}

impl Made {
    fn name(self) -> &'static str {
        match self {
            Made::Value => "to_json",
            Made::Array => "json_build_array",
            Made::Object => "json_build_object",
            Made::Row => JSON_ROW,
            Made::List => "json_list",
            Made::Elements => "json_of_list",
            Made::Member => "json_member",
            Made::ObjectList => "json_object_list",
            Made::Checked => JSON_CHECKED,
            Made::Text => "json_text",
        }
    }

    /// Whether an argument is JSON that is put into another one.
    fn takes_json(self, at: usize) -> bool {
        match self {
            Made::Array => true,
            Made::Object | Made::Row | Made::Member => at % 2 == 1,
            _ => false,
        }
    }

    fn check(self, arguments: usize) -> Result<()> {
        let fits = match self {
            Made::Array => true,
            Made::Object | Made::Row => {
                // A whole row is one argument until its columns are known.
                arguments.is_multiple_of(2) || self == Made::Row
            }
            Made::Member => arguments == 2,
            _ => arguments == 1,
        };
        match fits {
            true => Ok(()),
            false if self == Made::Object => Err(into_datafusion(
                Error::invalid("argument list must have even number of elements")
                    .with_hint(
                        "The arguments of json_build_object() must consist of alternating keys \
                         and values.",
                    )
                    .with_sqlstate("22023"),
            )),
            false => {
                let said = format!("{} of {arguments} arguments", self.name());
                Err(into_datafusion(Error::invalid(said).with_sqlstate("42883")))
            }
        }
    }

    fn of(self, arrays: &[ArrayRef]) -> Result<StringArray> {
        match self {
            Made::Value => of_values(&arrays[0]),
            Made::Text => texts(&arrays[0]),
            Made::Checked => checked_texts(&arrays[0]),
            Made::Array => array(arrays),
            Made::Object => object(arrays, ["{", " : ", ", ", "}"]),
            Made::Row => object(arrays, ["{", ":", ",", "}"]),
            Made::Member => object(arrays, ["", " : ", "", ""]),
            Made::List => list(&arrays[0], ["[", ", ", "]"]),
            Made::Elements => list(&arrays[0], ["[", ",", "]"]),
            Made::ObjectList => list(&arrays[0], ["{ ", ", ", " }"]),
        }
    }
}

fn texts(values: &ArrayRef) -> Result<StringArray> {
    Ok(cast(values, &DataType::Utf8)?.as_string::<i32>().clone())
}

fn checked_texts(values: &ArrayRef) -> Result<StringArray> {
    let texts = texts(values)?;
    let wrong = texts.iter().flatten().find(|text| !is_json_text(text));
    match wrong {
        Some(text) => Err(into_datafusion(no_json(text))),
        None => Ok(texts),
    }
}

fn texts_in_lists() -> DataType {
    DataType::new_list(DataType::Utf8, true)
}

fn checked_lists(lists: &ArrayRef) -> Result<ArrayRef> {
    let lists = cast(lists, &texts_in_lists())?;
    for list in lists.as_list::<i32>().iter().flatten() {
        checked_texts(&list)?;
    }
    Ok(lists)
}

/// Each value as JSON, spelt as clients are sent it.
fn of_values(values: &ArrayRef) -> Result<StringArray> {
    if values.data_type().is_null() {
        return texts(&new_null_array(&DataType::Utf8, values.len()));
    }
    let field = Arc::new(Field::new("value", values.data_type().clone(), true));
    Ok(json_texts_by(&field, values, Arc::new(AsSent))?)
}

fn array(elements: &[ArrayRef]) -> Result<StringArray> {
    let rows = elements.first().map_or(1, |first| first.len());
    let elements = elements.iter().map(texts);
    let elements = elements.collect::<Result<Vec<StringArray>>>()?;
    let row = |row: usize| {
        let all = elements.iter().map(|texts| json_at(texts, row));
        let all: Vec<&str> = all.collect();
        Some(format!("[{}]", all.join(", ")))
    };
    Ok((0..rows).map(row).collect())
}

/// Keys and values as they stand in turn, with what is written around them and between.
fn object(members: &[ArrayRef], around: [&str; 4]) -> Result<StringArray> {
    let [begin, colon, comma, end] = around;
    let rows = members.first().map_or(1, |first| first.len());
    let pairs = members.chunks_exact(2);
    let pairs = pairs.map(|pair| Ok((text_form::texts(&pair[0])?, texts(&pair[1])?)));
    let pairs = pairs.collect::<Result<Vec<(StringArray, StringArray)>>>()?;
    let mut objects = StringBuilder::new();
    for row in 0..rows {
        let mut object = begin.to_owned();
        for (at, (keys, values)) in pairs.iter().enumerate() {
            if keys.is_null(row) {
                return Err(no_key(at, comma.is_empty()));
            }
            if at > 0 {
                object.push_str(comma);
            }
            object.push_str(&quoted(keys.value(row))?);
            object.push_str(colon);
            object.push_str(json_at(values, row));
        }
        object.push_str(end);
        objects.append_value(object);
    }
    Ok(objects.finish())
}

fn no_key(pair: usize, of_aggregate: bool) -> DataFusionError {
    into_datafusion(match of_aggregate {
        true => Error::invalid("field name must not be null").with_sqlstate("22023"),
        false => Error::invalid(format!("argument {} cannot be null", 2 * pair + 1))
            .with_hint("Object keys should be text.")
            .with_sqlstate("22023"),
    })
}

/// A text as a string of JSON.
pub(super) fn quoted(text: &str) -> Result<String> {
    serde_json::to_string(text).map_err(|error| into_datafusion(Error::internal(error.to_string())))
}

/// The texts of lists put together, with what is written around them and between.
fn list(lists: &ArrayRef, around: [&str; 3]) -> Result<StringArray> {
    let [begin, comma, end] = around;
    let lists = cast(lists, &texts_in_lists())?;
    let lists = lists.as_list::<i32>();
    let rows = lists.iter().map(|list| {
        let list = list?;
        let elements = list.as_string::<i32>();
        let all = (0..elements.len()).map(|at| json_at(elements, at));
        let all: Vec<&str> = all.collect();
        Some(format!("{begin}{}{end}", all.join(comma)))
    });
    Ok(rows.collect())
}

fn json_at(texts: &StringArray, row: usize) -> &str {
    match texts.is_null(row) {
        true => "null",
        false => texts.value(row),
    }
}

/// Spells values in JSON as they are spelt for clients.
#[derive(Debug)]
struct AsSent;

/// How a text stands in JSON.
#[derive(Debug, Clone, Copy)]
enum Spelling {
    /// As a number, where it is a finite one.
    Number,
    /// As a date and a time behind a `T`.
    Moment,
    Text,
}

impl EncoderFactory for AsSent {
    fn make_default_encoder<'a>(
        &self,
        _: &'a FieldRef,
        array: &'a dyn Array,
        _: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        use DataType as D;
        let spelling = match array.data_type() {
            D::Float16 | D::Float32 | D::Float64 => Spelling::Number,
            D::Timestamp(..) => Spelling::Moment,
            D::Binary | D::LargeBinary | D::BinaryView => Spelling::Text,
            of if of.is_temporal() => Spelling::Text,
            _ => return Ok(None),
        };
        let texts = text_form::texts(&make_array(array.to_data()))?;
        let encoder = Box::new(Spelt { texts, spelling });
        Ok(Some(NullableEncoder::new(encoder, array.nulls().cloned())))
    }
}

struct Spelt {
    texts: StringArray,
    spelling: Spelling,
}

impl Encoder for Spelt {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let text = self.texts.value(row);
        // Writing to memory can't fail.
        let _ = match self.spelling {
            Spelling::Number if text.ends_with(|last: char| last.is_ascii_digit()) => {
                out.extend_from_slice(text.as_bytes());
                Ok(())
            }
            Spelling::Moment => {
                let moment = text.replacen(' ', "T", 1).replacen("+00", "+00:00", 1);
                serde_json::to_writer(out, &moment)
            }
            Spelling::Number | Spelling::Text => serde_json::to_writer(out, text),
        };
    }
}
