//! `jsonb_pretty`: JSON with each member and each element on a line of its own, laid out as
//! PostgreSQL does; members stay in their order. Pure.

use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::ScalarUDF;
use lazybase_model::Result as Checked;

use crate::planner::bounded::check_made;
use crate::planner::json_functions::{is_json_text, no_json};
use crate::planner::row_functions::{Answer, Gives, OfRows, RowFunction, Takes, text_at};

const NAME: &str = "jsonb_pretty";
/// How far what is inside of something is set in.
const INDENT: &str = "    ";

/// Adds the function.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    let function = RowFunction {
        name: NAME,
        takes: &[Takes::Text],
        least: 1,
        repeats: false,
        strict: true,
        gives: Gives::Text,
        compute: |given| {
            let text = text_at(given, 0).map(pretty).transpose()?;
            Ok(text.map_or(Answer::Null, Answer::Text))
        },
    };
    state.register_udf(ScalarUDF::from(OfRows::new(function)).into())?;
    Ok(())
}

fn pretty(json: &str) -> Checked<String> {
    if !is_json_text(json) {
        return Err(no_json(json));
    }
    let mut laid = Laid {
        out: String::with_capacity(2 * json.len()),
        depth: 0,
        opened: false,
    };
    let (mut in_text, mut escaped) = (false, false);
    for letter in json.chars() {
        if in_text {
            laid.out.push(letter);
            in_text = escaped || letter != '"';
            escaped = !escaped && letter == '\\';
            continue;
        }
        match letter {
            ' ' | '\t' | '\n' | '\r' => {}
            ':' => laid.out.push_str(": "),
            ',' => {
                laid.out.push(',');
                laid.line()?;
            }
            '}' | ']' => {
                laid.depth -= 1;
                laid.opened = false;
                laid.line()?;
                laid.out.push(letter);
            }
            _ => {
                if laid.opened {
                    laid.line()?;
                }
                laid.out.push(letter);
                laid.opened = matches!(letter, '{' | '[');
                laid.depth += usize::from(laid.opened);
                in_text = letter == '"';
            }
        }
    }
    Ok(laid.out)
}

/// What has been laid out.
struct Laid {
    out: String,
    /// Of how many objects and arrays the end is to come.
    depth: usize,
    /// Whether nothing stands in the innermost of them yet.
    opened: bool,
}

impl Laid {
    /// Begins a line.
    fn line(&mut self) -> Checked<()> {
        check_made(NAME, self.out.len() + self.depth * INDENT.len())?;
        self.out.push('\n');
        for _ in 0..self.depth {
            self.out.push_str(INDENT);
        }
        Ok(())
    }
}
