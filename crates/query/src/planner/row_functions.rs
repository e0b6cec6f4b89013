//! Functions that are computed row by row, from texts and whole numbers: what each of them takes
//! and gives is said once, and NULL, constants and columns are treated alike for all. Pure.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListBuilder, StringArray, StringBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::plan_datafusion_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use lazybase_model::Result as Checked;

use crate::error::into_datafusion;
use crate::planner::bounded::check_made;
use crate::planner::intervals::computed;
use crate::text_form::texts;
use crate::types;

/// What a function takes in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Takes {
    /// A text.
    Text,
    /// A whole number.
    Whole,
    /// Whatever there is, as the text that clients are sent.
    Any,
}

/// What a function gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Gives {
    Text,
    Whole,
    Truth,
    Texts,
    /// Lists of texts.
    Lists,
}

/// An argument of one row.
#[derive(Debug, Clone, Copy)]
pub(super) enum Given<'a> {
    Null,
    Text(&'a str),
    Whole(i64),
}

impl<'a> Given<'a> {
    /// The text that it is.
    pub(super) fn text(self) -> Option<&'a str> {
        match self {
            Given::Text(text) => Some(text),
            Given::Null | Given::Whole(_) => None,
        }
    }
}

/// The text at a place; nothing where there is none, or NULL.
pub(super) fn text_at<'a>(given: &[Given<'a>], place: usize) -> Option<&'a str> {
    given.get(place).and_then(|given| given.text())
}

/// The number at a place, or what it is where none stands there.
pub(super) fn whole_at(given: &[Given<'_>], place: usize, otherwise: i64) -> i64 {
    match given.get(place) {
        Some(Given::Whole(number)) => *number,
        _ => otherwise,
    }
}

/// What a function gives for one row.
#[derive(Debug)]
pub(super) enum Answer {
    Null,
    Text(String),
    Whole(i64),
    Truth(bool),
    Texts(Vec<Option<String>>),
    Lists(Vec<Vec<Option<String>>>),
}

impl Answer {
    /// The bytes of its texts.
    fn bytes(&self) -> usize {
        match self {
            Answer::Text(text) => text.len(),
            Answer::Texts(texts) => texts.iter().flatten().map(String::len).sum(),
            Answer::Lists(lists) => {
                let texts = lists.iter().flatten().flatten();
                texts.map(String::len).sum()
            }
            Answer::Null | Answer::Whole(_) | Answer::Truth(_) => 0,
        }
    }
}

/// A function of rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowFunction {
    pub(super) name: &'static str,
    /// What it takes, with all arguments that it may have.
    pub(super) takes: &'static [Takes],
    /// How many of them it has at least.
    pub(super) least: usize,
    /// Whether the last of them may be repeated.
    pub(super) repeats: bool,
    /// Whether NULL in any place makes the answer NULL.
    pub(super) strict: bool,
    pub(super) gives: Gives,
    pub(super) compute: fn(&[Given<'_>]) -> Checked<Answer>,
}

/// Such a function, as the planner has it.
#[derive(Debug)]
pub(super) struct OfRows {
    function: RowFunction,
    signature: Signature,
}

impl PartialEq for OfRows {
    fn eq(&self, other: &OfRows) -> bool {
        self.function.name == other.function.name
    }
}

impl Eq for OfRows {}

impl std::hash::Hash for OfRows {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.function.name.hash(state);
    }
}

impl OfRows {
    pub(super) fn new(function: RowFunction) -> OfRows {
        OfRows {
            function,
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

fn is_text(of: &DataType) -> bool {
    matches!(
        of,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

/// What a function wants in place of a type, if it takes it at all.
fn wanted(takes: Takes, of: &DataType) -> Option<DataType> {
    match (takes, of) {
        (Takes::Any, of) => Some(of.clone()),
        (Takes::Text, DataType::Null) => Some(DataType::Utf8),
        (Takes::Text, of) if is_text(of) => Some(DataType::Utf8),
        (Takes::Whole, DataType::Null) => Some(DataType::Int64),
        (Takes::Whole, of) if of.is_integer() => Some(DataType::Int64),
        _ => None,
    }
}

enum Column {
    Texts(StringArray),
    Numbers(Int64Array),
}

impl Column {
    fn of(array: &ArrayRef, takes: Takes) -> Result<Column> {
        Ok(match takes {
            Takes::Text => Column::Texts(cast(array, &DataType::Utf8)?.as_string().clone()),
            Takes::Whole => {
                let numbers = cast(array, &DataType::Int64)?;
                Column::Numbers(numbers.as_primitive::<Int64Type>().clone())
            }
            Takes::Any if *array.data_type() == DataType::Null => {
                Column::Texts(StringArray::new_null(array.len()))
            }
            // As clients are sent them.
            Takes::Any if *array.data_type() == DataType::Boolean => {
                let letter = |truth: bool| if truth { "t" } else { "f" };
                let truths = array.as_boolean().iter();
                Column::Texts(truths.map(|truth| truth.map(letter)).collect())
            }
            Takes::Any => Column::Texts(texts(array)?),
        })
    }

    fn at(&self, row: usize) -> Given<'_> {
        match self {
            Column::Texts(texts) if texts.is_valid(row) => Given::Text(texts.value(row)),
            Column::Numbers(numbers) if numbers.is_valid(row) => Given::Whole(numbers.value(row)),
            _ => Given::Null,
        }
    }
}

impl RowFunction {
    fn place(&self, at: usize) -> Option<Takes> {
        let last = self.takes.last().filter(|_| self.repeats);
        self.takes.get(at).or(last).copied()
    }

    fn answers(&self, arrays: &[ArrayRef]) -> Result<Vec<Answer>> {
        let columns = arrays.iter().enumerate().map(|(at, array)| {
            let takes = self.place(at).unwrap_or(Takes::Any);
            Column::of(array, takes)
        });
        let columns = columns.collect::<Result<Vec<Column>>>()?;
        let rows = arrays.first().map_or(1, |array| array.len());
        let mut given = Vec::with_capacity(columns.len());
        // How much longer the texts are than those that they are made of.
        let mut grown: usize = 0;
        let answers = (0..rows).map(|row| -> Checked<Answer> {
            given.clear();
            given.extend(columns.iter().map(|column| column.at(row)));
            let has_null = given.iter().any(|given| matches!(given, Given::Null));
            if self.strict && has_null {
                return Ok(Answer::Null);
            }
            let answer = (self.compute)(&given)?;
            let taken = given.iter().filter_map(|given| given.text());
            let taken: usize = taken.map(str::len).sum();
            grown += answer.bytes().saturating_sub(taken);
            check_made(self.name, grown)?;
            Ok(answer)
        });
        let answers: Checked<Vec<Answer>> = answers.collect();
        answers.map_err(into_datafusion)
    }

    fn array(&self, answers: Vec<Answer>) -> ArrayRef {
        match self.gives {
            Gives::Text => {
                Arc::new(StringArray::from_iter(answers.into_iter().map(
                    |answer| match answer {
                        Answer::Text(text) => Some(text),
                        _ => None,
                    },
                )))
            }
            Gives::Whole => {
                Arc::new(Int64Array::from_iter(answers.into_iter().map(
                    |answer| match answer {
                        Answer::Whole(number) => Some(number),
                        _ => None,
                    },
                )))
            }
            Gives::Truth => {
                Arc::new(BooleanArray::from_iter(answers.into_iter().map(
                    |answer| match answer {
                        Answer::Truth(truth) => Some(truth),
                        _ => None,
                    },
                )))
            }
            Gives::Texts => {
                let mut lists = ListBuilder::new(StringBuilder::new());
                for answer in answers {
                    lists.append_option(match answer {
                        Answer::Texts(texts) => Some(texts),
                        _ => None,
                    });
                }
                Arc::new(lists.finish())
            }
            Gives::Lists => {
                let mut all = ListBuilder::new(ListBuilder::new(StringBuilder::new()));
                for answer in answers {
                    let Answer::Lists(lists) = answer else {
                        all.append(false);
                        continue;
                    };
                    for texts in lists {
                        all.values().append_value(texts);
                    }
                    all.append(true);
                }
                Arc::new(all.finish())
            }
        }
    }
}

impl ScalarUDFImpl for OfRows {
    fn name(&self) -> &str {
        self.function.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let function = &self.function;
        let most = match function.repeats {
            true => usize::MAX,
            false => function.takes.len(),
        };
        let fits = (function.least..=most).contains(&arguments.len());
        let all = arguments.iter().enumerate().map(|(at, of)| {
            let takes = function.place(at).filter(|_| fits)?;
            wanted(takes, of)
        });
        all.collect::<Option<Vec<DataType>>>().ok_or_else(|| {
            let names: Vec<String> = arguments.iter().map(types::name).collect();
            plan_datafusion_err!(
                "Function '{}' failed to match any signature, but received types (DataType: {})",
                function.name,
                names.join(", ")
            )
        })
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.function.gives {
            Gives::Text => DataType::Utf8,
            Gives::Whole => DataType::Int64,
            Gives::Truth => DataType::Boolean,
            Gives::Texts => DataType::new_list(DataType::Utf8, true),
            Gives::Lists => DataType::new_list(DataType::new_list(DataType::Utf8, true), true),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        computed(&args, |arrays| {
            let answers = self.function.answers(arrays)?;
            Ok(self.function.array(answers))
        })
    }
}
