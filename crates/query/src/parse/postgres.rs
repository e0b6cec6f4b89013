//! What PostgreSQL's clients write and sqlparser does not read, as something that means the same.
//!
//! | written                                | read                        |
//! | -------------------------------------- | --------------------------- |
//! | `int8 ARRAY`                           | `int8[]`                    |
//! | `COMMENT ... IS $$text$$`              | `COMMENT ... IS 'text'`     |
//! | `BEGIN READ ONLY, DEFERRABLE`          | `BEGIN READ ONLY`           |
//! | COPY's `FREEZE on`, `HEADER 1`         | `FREEZE true`, ...          |
//! | COPY's `HEADER MATCH`, `FORCE_QUOTE *` | an encoding, a column `"*"` |
//! | `'\x00ff'::bytea`                      | `X'00ff'::bytea`            |
//! | `'{1,NULL}'::INT[]`                    | `ARRAY['1', NULL]::INT[]`   |
//! | `x = ANY('{1,NULL}')`                  | `x IN ('1', NULL)`          |
//! | `x <> ALL('{1,NULL}')`                 | `x NOT IN ('1', NULL)`      |
//! | `x < ANY(ARRAY[1, NULL])`              | `NOT x >= ALL(...)`         |
//! | `trim(BOTH FROM x)`                    | `trim(BOTH x)`              |
//! | `TABLE t`                              | `SELECT * FROM t`           |
//! | `FETCH FIRST 5 ROWS ONLY`              | `LIMIT 5`                   |
//! | `a IS DISTINCT FROM b AND c`           | `(a IS DISTINCT ...) AND c` |
//! | `to_date(text, 'YYYY-MM-DD')`          | `to_date(text, '%Y-%m-%d')` |
//! | `encode(x, 'base64')`                  | `encode(x, 'base64pad')`    |
//! | `99999999999999999999`                 | `DECIMAL(20) '999...'`      |
//!
//! Larger differences have files of their own, and are put to work here. Rewrites tokens and
//! sqlparser's tree and does nothing else.

use std::ops::ControlFlow;

use arrow::datatypes::DECIMAL128_MAX_PRECISION;
use datafusion::sql::sqlparser::ast::{
    Array, BinaryOperator, DataType, ExactNumberInfo, Expr, FunctionArg, FunctionArgExpr,
    FunctionArguments, LimitClause, Query, Select, Statement, TableFactor, TypedString,
    UnaryOperator, Value, VisitorMut,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use lazybase_model::{Error, Result};

use super::kept_names::KeptNames;
use super::whole_rows::WholeRows;
use super::{
    ambiguous_columns, calls, cast_names, date_formats, elements, folded, ignored, json,
    nested_exists, rows, series, subqueries, temporary_names, unnest, using_joins, windows,
};
use crate::array_text::array_elements;
use crate::text_places::at_span;
use crate::walk::{visit_expressions_mut, visit_mut};

/// Rewrites the tokens of a statement.
pub(super) fn tokens(tokens: &mut Vec<TokenWithSpan>) {
    operators(tokens);
    arrays(tokens);
    trims(tokens);
    comparisons(tokens);
    tables(tokens);
    only(tokens);
    if tokens
        .first()
        .is_some_and(|first| is(&first.token, "comment"))
    {
        dollars(tokens);
    }
    let begins = |first: &TokenWithSpan| is(&first.token, "begin") || is(&first.token, "start");
    if tokens.first().is_some_and(begins) {
        deferrable(tokens);
    }
    if tokens.first().is_some_and(|first| is(&first.token, "copy")) {
        switches(tokens);
        copy_options(tokens);
    }
}

fn is(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(known)
        if known.quote_style.is_none() && known.value.eq_ignore_ascii_case(word))
}

/// A transaction without DEFERRABLE and NOT DEFERRABLE: one snapshot never waits for another.
fn deferrable(tokens: &mut Vec<TokenWithSpan>) {
    let word = |token: &TokenWithSpan| is(&token.token, "deferrable");
    while let Some(at) = tokens.iter().position(word) {
        let (mut from, mut end) = (at, at + 1);
        if from > 0 && is(&tokens[from - 1].token, "not") {
            from -= 1;
        }
        let is_comma = |token: &TokenWithSpan| token.token == Token::Comma;
        if from > 0 && is_comma(&tokens[from - 1]) {
            from -= 1;
        } else if tokens.get(end).is_some_and(is_comma) {
            end += 1;
        }
        drop(tokens.drain(from..end));
    }
}

/// `x OPERATOR(pg_catalog.=) y` as `x = y`, which may stand before ANY and ALL too.
fn operators(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while let Some([word, open, schema, point, operator, close]) = tokens.get(at..at + 6) {
        let is_named = is(&word.token, "operator")
            && open.token == Token::LParen
            && is(&schema.token, "pg_catalog")
            && point.token == Token::Period
            && close.token == Token::RParen;
        if is_named {
            let operator = operator.clone();
            drop(tokens.splice(at..at + 6, [operator]));
        }
        at += 1;
    }
}

/// `T ARRAY` as `T[]`. Where no values follow, ARRAY is of a type.
fn arrays(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 1;
    while at < tokens.len() {
        let of_type = match &tokens[at - 1].token {
            Token::Word(word) => !matches!(word.keyword, Keyword::JSON | Keyword::AS),
            other => matches!(other, Token::RParen),
        };
        let ends = match tokens.get(at + 1).map(|next| &next.token) {
            None => true,
            Some(Token::Word(word)) => matches!(
                word.keyword,
                Keyword::NOT | Keyword::NULL | Keyword::DEFAULT | Keyword::PRIMARY
            ),
            Some(next) => matches!(next, Token::Comma | Token::RParen | Token::SemiColon),
        };
        if is(&tokens[at].token, "array") && of_type && ends {
            let mut closing = tokens[at].clone();
            closing.token = Token::RBracket;
            tokens[at].token = Token::LBracket;
            tokens.insert(at + 1, closing);
        }
        at += 1;
    }
}

/// `trim(BOTH FROM x)` as `trim(BOTH x)`: nothing says what is taken off.
fn trims(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 2;
    while at + 1 < tokens.len() {
        let side = ["both", "leading", "trailing"];
        let is_side = side.iter().any(|side| is(&tokens[at].token, side));
        let is_trim = tokens[at - 1].token == Token::LParen && is(&tokens[at - 2].token, "trim");
        if is_side && is_trim && is(&tokens[at + 1].token, "from") {
            tokens.remove(at + 1);
        }
        at += 1;
    }
}

/// `BETWEEN SYMMETRIC a` as `BETWEEN NOT a`, and `LIKE ALL (a)` as `LIKE ANY NOT (a)`: nobody else
/// writes NOT there, and the tree shows what is meant.
fn comparisons(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 1;
    while at < tokens.len() {
        let before = &tokens[at - 1].token;
        let is_like = is(before, "like") || is(before, "ilike");
        if is(before, "between") && is(&tokens[at].token, "symmetric") {
            tokens[at].token = Token::make_word("NOT", None);
        } else if is(before, "between") && is(&tokens[at].token, "asymmetric") {
            tokens.remove(at);
        } else if is_like && is(&tokens[at].token, "all") {
            let mut not = tokens[at].clone();
            not.token = Token::make_word("NOT", None);
            tokens[at].token = Token::make_word("ANY", None);
            tokens.insert(at + 1, not);
        }
        at += 1;
    }
}

/// `TABLE t` as `SELECT * FROM t`, where a query may stand. A column may have that name, too.
fn tables(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at < tokens.len() {
        if is(&tokens[at].token, "table") && begins_query(tokens, at) {
            let span = tokens[at].span;
            let words = ["SELECT", "FROM"].map(|word| Token::make_word(word, None));
            let [select, from] = words;
            let select = [select, Token::Mul, from].map(|token| TokenWithSpan { token, span });
            tokens.splice(at..=at, select);
        }
        at += 1;
    }
}

/// `FROM ONLY t` as `FROM t`: no table has rows of others that inherit from it.
fn only(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 1;
    while at + 1 < tokens.len() {
        let before = &tokens[at - 1].token;
        let is_named = match &tokens[at + 1].token {
            Token::Word(word) => {
                let is_quoted = word.quote_style.is_some();
                let point = tokens.get(at + 2).map(|after| &after.token) == Some(&Token::Period);
                is_quoted || point || word.keyword == Keyword::NoKeyword
            }
            _ => false,
        };
        if is(&tokens[at].token, "only") && (is(before, "from") || is(before, "join")) && is_named {
            tokens.remove(at);
        }
        at += 1;
    }
}

/// Whether a query begins with the word at this place.
fn begins_query(tokens: &[TokenWithSpan], at: usize) -> bool {
    const OF_COLUMNS: [Keyword; 12] = [
        Keyword::AND,
        Keyword::AS,
        Keyword::ASC,
        Keyword::BETWEEN,
        Keyword::DESC,
        Keyword::FROM,
        Keyword::ILIKE,
        Keyword::IN,
        Keyword::IS,
        Keyword::LIKE,
        Keyword::NOT,
        Keyword::OR,
    ];
    let keyword = |at: Option<usize>| match at.and_then(|at| tokens.get(at)).map(|t| &t.token) {
        Some(Token::Word(word)) => Some(word.keyword),
        _ => None,
    };
    let names = keyword(Some(at + 1)).is_some_and(|next| !OF_COLUMNS.contains(&next));
    let first = |word: &str| tokens.first().is_some_and(|first| is(&first.token, word));
    let Some(before) = at.checked_sub(1) else {
        return names;
    };
    names
        && match keyword(Some(before)) {
            Some(Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT) => true,
            Some(Keyword::ALL | Keyword::DISTINCT) => matches!(
                keyword(before.checked_sub(1)),
                Some(Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT)
            ),
            Some(Keyword::AS) => first("create"),
            Some(Keyword::EXPLAIN | Keyword::ANALYZE | Keyword::VERBOSE) => first("explain"),
            // Behind the name of the table, which may have a schema.
            Some(_) => first("insert") && (at == 3 || at == 5),
            None => match tokens.get(before).map(|token| &token.token) {
                Some(Token::LParen) => true,
                Some(Token::RParen) => first("insert") || first("explain"),
                _ => false,
            },
        }
}

/// `$$text$$` as `'text'`.
fn dollars(tokens: &mut [TokenWithSpan]) {
    for token in tokens {
        if let Token::DollarQuotedString(text) = &token.token {
            token.token = Token::SingleQuotedString(text.value.clone());
        }
    }
}

/// `on`, `off`, `1` and `0` behind COPY's options as the words that the parser knows.
fn switches(tokens: &mut [TokenWithSpan]) {
    for at in 1..tokens.len() {
        let of_switch = is(&tokens[at - 1].token, "freeze") || is(&tokens[at - 1].token, "header");
        let value = match &tokens[at].token {
            token if is(token, "on") => "TRUE",
            token if is(token, "off") => "FALSE",
            Token::Number(number, _) if number == "1" => "TRUE",
            Token::Number(number, _) if number == "0" => "FALSE",
            _ => continue,
        };
        if of_switch {
            tokens[at].token = Token::make_word(value, None);
        }
    }
}

/// The encoding that stands for MATCH behind COPY's HEADER.
pub(super) const HEADER_MATCH: &str = "header match";
/// The column that stands for all of them in COPY's FORCE_QUOTE.
pub(super) const ALL_COLUMNS: &str = "*";

/// `HEADER MATCH` as `HEADER, ENCODING 'header match'`, and `FORCE_QUOTE *` as
/// `FORCE_QUOTE ("*")`: nothing else is written so, and the tree shows what is meant.
fn copy_options(tokens: &mut Vec<TokenWithSpan>) {
    let mut depth = 0_usize;
    // What is copied may be a query, whose columns can have any names.
    let target = tokens.iter().position(|token| {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            token => return depth == 0 && (is(token, "to") || is(token, "from")),
        }
        false
    });
    let mut at = target.unwrap_or(tokens.len()) + 2;
    while at < tokens.len() {
        let (before, token, span) = (&tokens[at - 1].token, &tokens[at].token, tokens[at].span);
        let is_match = is(token, "match")
            || matches!(token, Token::SingleQuotedString(text)
                if text.eq_ignore_ascii_case("match"));
        let all = || Token::make_word(ALL_COLUMNS, Some('"'));
        let meant = if is(before, "header") && is_match {
            let encoding = Token::SingleQuotedString(HEADER_MATCH.to_owned());
            vec![Token::Comma, Token::make_word("ENCODING", None), encoding]
        } else if is(before, "force_quote") && *token == Token::Mul {
            vec![Token::LParen, all(), Token::RParen]
        } else if is(before, "quote") && *token == Token::Mul {
            vec![all()]
        } else {
            at += 1;
            continue;
        };
        let length = meant.len();
        let meant = meant.into_iter().map(|token| TokenWithSpan { token, span });
        tokens.splice(at..=at, meant);
        at += length;
    }
}

/// Rewrites the tree of a statement, which may be about the catalogue.
///
/// # Errors
/// `Invalid`: 22P02 for a constant of type BYTEA that is none, 0A000 for what nothing would do.
pub(super) fn tree(statement: &mut Statement, of_catalog: bool) -> Result<()> {
    let mut rewriter = Rewriter {
        of_catalog,
        ..Rewriter::default()
    };
    match visit_mut(statement, &mut rewriter) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Rewrites what depends on constants once more, where parameters have become some.
///
/// # Errors
/// As [`tree`].
pub(crate) fn formats(statement: &mut Statement) -> Result<()> {
    let done = visit_expressions_mut(statement, |expr| {
        padded(expr);
        checked(date_formats::rewrite(expr))
    });
    match done {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

#[derive(Default)]
struct Rewriter {
    names: KeptNames,
    whole_rows: WholeRows,
    of_catalog: bool,
}

impl VisitorMut for Rewriter {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        checked(ignored::in_query(query))?;
        series::in_query(query);
        unnest::beside_rows(query);
        fetch(query);
        cast_names::in_query(query);
        checked(windows::in_query(query))?;
        checked(using_joins::in_query(query))
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        self.names.enter(select);
        json::in_select(select);
        checked(ignored::in_select(select))?;
        checked(ambiguous_columns::in_select(select))?;
        checked(windows::in_select(select))?;
        checked(subqueries::in_list(select))
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        subqueries::as_values(select);
        self.names.leave(select);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Some(same) = in_list(expr).or_else(|| not_with_all(expr)) {
            *expr = same;
        }
        checked(self.whole_rows.enter(expr))?;
        checked(nested_exists::in_expr(expr))?;
        distinct(expr);
        power(expr);
        calls::rewrite(expr, self.of_catalog);
        checked(json::rewrite(expr))?;
        array(expr);
        padded(expr);
        wide_number(expr);
        checked(subqueries::in_condition(expr))?;
        checked(rows::compare(expr))?;
        checked(bytes(expr).and_then(|()| date_formats::rewrite(expr)))
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        elements::in_factor(factor);
        checked(ignored::in_factor(factor))?;
        temporary_names::in_factor(factor);
        series::in_factor(factor);
        checked(using_joins::in_factor(factor))
    }
}

fn checked(result: Result<()>) -> ControlFlow<Error> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

/// The rows that FETCH wants as a LIMIT; ties and percentages are left for the planner to refuse.
fn fetch(query: &mut Query) {
    let Some(fetch) = query
        .fetch
        .take_if(|fetch| !fetch.with_ties && !fetch.percent)
    else {
        return;
    };
    let rows = fetch.quantity.clone();
    let rows = rows.unwrap_or_else(|| Expr::Value(Value::Number("1".to_owned(), false).into()));
    match &mut query.limit_clause {
        none @ None => {
            *none = Some(LimitClause::LimitOffset {
                limit: Some(rows),
                offset: None,
                limit_by: Vec::new(),
            });
        }
        Some(LimitClause::LimitOffset { limit, .. }) if limit.is_none() => *limit = Some(rows),
        Some(_) => query.fetch = Some(fetch),
    }
}

/// `a IS DISTINCT FROM b AND c`, which the parser reads as `a IS DISTINCT FROM (b AND c)`.
fn distinct(expr: &mut Expr) {
    let (Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right)) = expr else {
        return;
    };
    if !is_condition(right) {
        return;
    }
    let none = || Box::new(Expr::Value(Value::Null.into()));
    let mut conditions = std::mem::replace(right, none());
    let mut first = &mut *conditions;
    while is_condition(first) {
        let Expr::BinaryOp { left, .. } = first else {
            return;
        };
        first = left;
    }
    let compared = std::mem::replace(first, Expr::Value(Value::Null.into()));
    if let Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) = expr {
        **right = compared;
    }
    std::mem::swap(first, expr);
    *expr = *conditions;
}

/// `-a ^ b`, which the parser reads as `-(a ^ b)`: the sign binds more.
fn power(expr: &mut Expr) {
    let none = || Expr::Value(Value::Null.into());
    let Expr::UnaryOp {
        op: UnaryOperator::Minus,
        expr: inner,
    } = expr
    else {
        return;
    };
    let mut base = &mut **inner;
    while let Expr::BinaryOp {
        left,
        op: BinaryOperator::PGExp,
        ..
    } = base
    {
        base = left;
    }
    let negated = Expr::UnaryOp {
        op: UnaryOperator::Minus,
        expr: Box::new(std::mem::replace(base, none())),
    };
    *base = negated;
    *expr = std::mem::replace(inner, none());
}

/// A whole number that no integer holds, as the DECIMAL that it is: the planner makes a double of
/// it, which has sixteen digits.
fn wide_number(expr: &mut Expr) {
    const LARGEST: &str = "18446744073709551615";
    let Expr::Value(value) = expr else {
        return;
    };
    let Value::Number(number, _) = &value.value else {
        return;
    };
    let digits = number.trim_start_matches('0');
    let is_wide = (digits.len(), digits) > (LARGEST.len(), LARGEST);
    if !is_wide
        || digits.len() > DECIMAL128_MAX_PRECISION.into()
        || !digits.bytes().all(|digit| digit.is_ascii_digit())
    {
        return;
    }
    let size = ExactNumberInfo::PrecisionAndScale(digits.len() as u64, 0);
    *expr = Expr::TypedString(TypedString {
        data_type: DataType::Decimal(size),
        value: Value::SingleQuotedString(digits.to_owned()).with_span(value.span),
        uses_odbc_syntax: false,
    });
}

/// Whether an expression, not in brackets, is one that binds less than IS.
fn is_condition(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryOp { op, .. } => matches!(op, BinaryOperator::And | BinaryOperator::Or),
        _ => false,
    }
}

/// Base64 with its padding, as PostgreSQL writes it; the planner's own is without.
fn padded(expr: &mut Expr) {
    let Expr::Function(function) = expr else {
        return;
    };
    let is_encode = match function.name.0.as_slice() {
        [part] => part.as_ident().is_some_and(|name| folded(name) == "encode"),
        _ => false,
    };
    let FunctionArguments::List(list) = &mut function.args else {
        return;
    };
    if let [
        _,
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(format))),
    ] = list.args.as_mut_slice()
        && is_encode
        && matches!(&format.value, Value::SingleQuotedString(name) if name == "base64")
    {
        format.value = Value::SingleQuotedString("base64pad".to_owned());
    }
}

/// The text of a constant that is cast to BYTEA as its bytes.
fn bytes(expr: &mut Expr) -> Result<()> {
    let Expr::Cast {
        expr: inner,
        data_type: DataType::Bytea,
        ..
    } = expr
    else {
        return Ok(());
    };
    let Expr::Value(value) = inner.as_mut() else {
        return Ok(());
    };
    let (Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text)) = &value.value else {
        return Ok(());
    };
    let Some(digits) = text.strip_prefix("\\x") else {
        return Ok(());
    };
    let hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if !hexadecimal || digits.len() % 2 != 0 {
        let fact = format!("invalid hexadecimal data: {text:?}");
        let error = Error::invalid(fact).with_sqlstate("22P02");
        return Err(at_span(error, value.span));
    }
    value.value = Value::HexStringLiteral(digits.to_owned());
    Ok(())
}

/// The elements of an array that is written as a text.
pub(super) fn elements(text: &Expr) -> Option<Vec<Expr>> {
    let text = match text {
        Expr::Nested(inner) => inner.as_ref(),
        other => other,
    };
    let Expr::Value(value) = text else {
        return None;
    };
    let Value::SingleQuotedString(text) = &value.value else {
        return None;
    };
    let constant = |element: Option<String>| {
        let value = element.map_or(Value::Null, Value::SingleQuotedString);
        Expr::Value(value.into())
    };
    let elements = array_elements(text)?;
    Some(elements.into_iter().map(constant).collect())
}

/// The array that a text is which is cast to one.
fn array(expr: &mut Expr) {
    if let Expr::Cast {
        expr: text,
        data_type: DataType::Array(_),
        ..
    } = expr
        && let Some(elem) = elements(text)
    {
        **text = Expr::Array(Array { elem, named: true });
    }
}

/// Reads the array of a cast to one, where what is cast is a text.
///
/// # Errors
/// `Invalid` (22P02) for a text that is no array.
pub(crate) fn array_of_text(cast: &mut Expr) -> Result<()> {
    array(cast);
    if let Expr::Cast { expr: text, .. } = cast
        && let Expr::Value(value) = text.as_ref()
        && matches!(value.value, Value::SingleQuotedString(_))
    {
        return Err(Error::invalid(format!("malformed array literal: {text}"))
            .with_detail("an array is written as '{a,b}', or as ARRAY['a', 'b']")
            .with_sqlstate("22P02"));
    }
    Ok(())
}

/// A comparison with the elements of an array that is written as a text.
fn in_list(expr: &Expr) -> Option<Expr> {
    let (left, right, negated) = match expr {
        Expr::AnyOp {
            left,
            compare_op: BinaryOperator::Eq,
            right,
            ..
        } => (left, right, false),
        Expr::AllOp {
            left,
            compare_op: BinaryOperator::NotEq,
            right,
        } => (left, right, true),
        _ => return None,
    };
    let list = with_null(right).or_else(|| elements(right))?;
    if list.is_empty() {
        return Some(Expr::Value(Value::Boolean(negated).into()));
    }
    Some(Expr::InList {
        expr: left.clone(),
        list,
        negated,
    })
}

/// The elements of an array among which NULL is written: what nothing else equals is then NULL, and
/// the planner would say that it is false.
fn with_null(array: &Expr) -> Option<Vec<Expr>> {
    let elem = match array {
        Expr::Nested(inner) => return with_null(inner),
        Expr::Array(array) => &array.elem,
        _ => return None,
    };
    let is_null = |expr: &Expr| matches!(expr, Expr::Value(value) if value.value == Value::Null);
    let is_list = |expr: &Expr| matches!(expr, Expr::Array(_));
    let has_null = elem.iter().any(is_null) && !elem.iter().any(is_list);
    has_null.then(|| elem.clone())
}

/// A comparison with any element of such an array, as one with all of them that does not hold.
fn not_with_all(expr: &Expr) -> Option<Expr> {
    let Expr::AnyOp {
        left,
        compare_op,
        right,
        ..
    } = expr
    else {
        return None;
    };
    with_null(right)?;
    let opposite = match compare_op {
        BinaryOperator::NotEq => BinaryOperator::Eq,
        BinaryOperator::Lt => BinaryOperator::GtEq,
        BinaryOperator::LtEq => BinaryOperator::Gt,
        BinaryOperator::Gt => BinaryOperator::LtEq,
        BinaryOperator::GtEq => BinaryOperator::Lt,
        _ => return None,
    };
    let with_all = Expr::AllOp {
        left: left.clone(),
        compare_op: opposite,
        right: right.clone(),
    };
    Some(Expr::UnaryOp {
        op: UnaryOperator::Not,
        expr: Box::new(Expr::Nested(Box::new(with_all))),
    })
}
