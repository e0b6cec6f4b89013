//! Statements that are read by their tokens: those that no dialect knows (SETTLE, VERIFY
//! TABLE, BACKUP, PAUSE, RESUME, REFRESH, REINDEX, LOCK, CHECKPOINT), and SET, SHOW and RESET,
//! whose names and values need no grammar.

use datafusion::sql::sqlparser::ast::{ObjectName, ObjectNamePart};
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};
use lazybase_cluster::{SettleTo, StageName};
use lazybase_model::{Error, Result};

use super::taken::Taken;
use super::{Statement, described, table_name, unsupported};
use crate::notice::Notice;

/// The statement, if it is one of these.
pub(super) fn statement(tokens: &[TokenWithSpan]) -> Result<Option<Statement>> {
    let words: Vec<String> = tokens.iter().map(|token| spelt(&token.token)).collect();
    let upper: Vec<String> = words.iter().map(|word| word.to_ascii_uppercase()).collect();
    let upper: Vec<&str> = upper.iter().map(String::as_str).collect();
    let Some((first, rest)) = upper.split_first() else {
        return Ok(None);
    };
    let words = &words[1..];
    match *first {
        "SETTLE" => settle(rest, &tokens[1..]).map(Some),
        "VERIFY" => verify(rest, &tokens[1..]).map(Some),
        "BACKUP" => backup(rest, &tokens[1..], words).map(Some),
        "PAUSE" => Ok(Some(Statement::Pause(stage(rest)?))),
        "RESUME" => Ok(Some(Statement::Resume(stage(rest)?))),
        "VACUUM" | "ANALYZE" | "ANALYSE" => vacuum(*first == "VACUUM", &tokens[1..]).map(Some),
        "REINDEX" | "CLUSTER" => Err(never_needed(first)),
        "REFRESH" => refresh(rest, &tokens[1..]).map(Some),
        "LOCK" => lock(rest, &tokens[1..]).map(Some),
        "CHECKPOINT" if rest.is_empty() => Ok(Some(Statement::Taken(Taken::Nothing {
            tag: "CHECKPOINT",
            notices: vec![Notice::note(
                "what is acknowledged is durable: there is nothing to flush",
            )],
        }))),
        "DO" => Err(unsupported("DO is not supported")
            .with_detail("there is no language of procedures")
            .with_hint("send its statements one by one, from a script or a program")),
        "CREATE" if lists_like(rest, &tokens[1..]) => Err(like()),
        "ALTER" if rest.starts_with(&["SCHEMA", "PUBLIC", "OWNER", "TO"]) && rest.len() == 5 => {
            Ok(Some(Statement::Taken(Taken::Nothing {
                tag: "ALTER SCHEMA",
                notices: vec![Notice::note(
                    "the schema public has no owner: nothing changes",
                )],
            })))
        }
        "ALTER" if rest.starts_with(&["MATERIALIZED", "VIEW"]) => Err(unsupported(
            "of a materialized view nothing can be altered but its owner",
        )
        .with_hint("DROP it, and CREATE it as it should be: it is built in the background")),
        "ABORT" => abort(rest).map(Some),
        "RESET" => reset(rest, words).map(Some),
        "SET" => set(rest, &tokens[1..], words).map(Some),
        "SHOW" => show(rest, &tokens[1..], words),
        _ => Ok(None),
    }
}

pub(super) fn spelt(token: &Token) -> String {
    match token {
        Token::Word(word) => word.value.clone(),
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => text.clone(),
        other => other.to_string(),
    }
}

fn settle(rest: &[&str], tokens: &[TokenWithSpan]) -> Result<Statement> {
    let wrong = || usage("SETTLE [TABLE t] [TO SORTED | AUTHORITY]");
    let (table, rest) = match rest {
        ["TABLE", ..] => {
            let (table, length) = leading_name(&tokens[1..], wrong)?;
            (Some(table), &rest[1 + length..])
        }
        rest => (None, rest),
    };
    let to = match rest {
        [] | ["TO", "AUTHORITY"] => SettleTo::Authority,
        ["TO", "SORTED"] => SettleTo::Sorted,
        _ => return Err(wrong()),
    };
    Ok(Statement::Settle { table, to })
}

fn verify(rest: &[&str], tokens: &[TokenWithSpan]) -> Result<Statement> {
    let wrong = || usage("VERIFY TABLE t [SAMPLE percent]");
    let ["TABLE", ..] = rest else {
        return Err(wrong());
    };
    let (table, length) = leading_name(&tokens[1..], wrong)?;
    let percent: f64 = match &rest[1 + length..] {
        [] => 100.0,
        ["SAMPLE", percent] | ["SAMPLE", percent, "%" | "PERCENT"] => {
            percent.parse().unwrap_or(f64::NAN)
        }
        _ => return Err(wrong()),
    };
    if !(percent > 0.0 && percent <= 100.0) {
        return Err(Error::invalid(
            "SAMPLE takes the percentage of rows to compare: above 0, up to 100",
        )
        .with_sqlstate("2202H"));
    }
    Ok(Statement::VerifyTable {
        table,
        share: percent / 100.0,
    })
}

fn backup(rest: &[&str], tokens: &[TokenWithSpan], words: &[String]) -> Result<Statement> {
    let is_text = |token: &TokenWithSpan| matches!(token.token, Token::SingleQuotedString(_));
    match rest {
        ["TO", _] if is_text(&tokens[1]) => Ok(Statement::Backup {
            folder: words[1].clone(),
        }),
        _ => Err(usage("BACKUP TO 'folder'")),
    }
}

/// VACUUM and ANALYZE: their options say how thoroughly, and all here is done by itself.
fn vacuum(is_vacuum: bool, tokens: &[TokenWithSpan]) -> Result<Statement> {
    let wrong = || usage("VACUUM [ANALYZE] [t, ...] or ANALYZE [t, ...]");
    let is_option = |token: &Token| match token {
        Token::Word(word) => matches!(
            word.value.to_ascii_uppercase().as_str(),
            "FULL" | "FREEZE" | "VERBOSE" | "ANALYZE" | "ANALYSE"
        ),
        _ => false,
    };
    let mut rest = tokens;
    if rest
        .first()
        .is_some_and(|token| token.token == Token::LParen)
    {
        let end = rest.iter().position(|token| token.token == Token::RParen);
        rest = &rest[end.ok_or_else(wrong)? + 1..];
    }
    let options = rest.iter().take_while(|token| is_option(&token.token));
    rest = &rest[options.count()..];
    let mut tables = Vec::new();
    for named in rest.split(|token| token.token == Token::Comma) {
        let columns = named.iter().position(|token| token.token == Token::LParen);
        let named = &named[..columns.unwrap_or(named.len())];
        if named.is_empty() && !rest.is_empty() {
            return Err(wrong());
        }
        if !named.is_empty() {
            tables.push(of_table(named).map_err(|error| match error.sqlstate() {
                "42601" => wrong(),
                _ => error,
            })?);
        }
    }
    let tag = if is_vacuum { "VACUUM" } else { "ANALYZE" };
    Ok(Statement::Vacuum { tag, tables })
}

/// REINDEX and CLUSTER: what they would do again is never undone.
fn never_needed(word: &str) -> Error {
    unsupported(format!("{word} is not supported"))
        .with_detail(
            "rows are brought into the order of their key, and views into theirs, all the time",
        )
        .with_hint("VERIFY TABLE compares a table's rows with its views")
}

fn refresh(rest: &[&str], tokens: &[TokenWithSpan]) -> Result<Statement> {
    let wrong = || usage("REFRESH MATERIALIZED VIEW v");
    let skipped = match rest {
        ["MATERIALIZED", "VIEW", "CONCURRENTLY", _, ..] => 3,
        ["MATERIALIZED", "VIEW", _, ..] => 2,
        _ => return Err(wrong()),
    };
    let named = match &rest[skipped..] {
        [.., "WITH", "NO", "DATA"] => {
            return Err(unsupported("a view is never without its rows")
                .with_hint("DROP MATERIALIZED VIEW takes it away"));
        }
        [named @ .., "WITH", "DATA"] => named.len(),
        named => named.len(),
    };
    let named =
        of_table(&tokens[skipped..skipped + named]).map_err(|error| match error.sqlstate() {
            "42601" => wrong(),
            _ => error,
        })?;
    Ok(Statement::RefreshView(named))
}

/// LOCK TABLE t, ... IN ACCESS SHARE MODE, as pg_dump says it: what a transaction reads stays as it
/// is. Other modes would keep others from writing.
fn lock(rest: &[&str], tokens: &[TokenWithSpan]) -> Result<Statement> {
    let modes = rest.iter().rposition(|word| *word == "IN");
    let named = match modes.map(|at| (at, &rest[at..])) {
        Some((
            at,
            ["IN", "ACCESS", "SHARE", "MODE"] | ["IN", "ACCESS", "SHARE", "MODE", "NOWAIT"],
        )) => at,
        _ => {
            return Err(unsupported("LOCK TABLE is not supported")
                .with_detail("updates are blind: nothing is locked")
                .with_hint(
                    "LOCK TABLE t IN ACCESS SHARE MODE is taken, for pg_dump; pg_advisory_lock \
                     locks what sessions agree on",
                ));
        }
    };
    let skipped = usize::from(rest.first() == Some(&"TABLE"));
    let listed = tokens[skipped..named].split(|token| token.token == Token::Comma);
    let names = listed.map(|named| match named {
        [only, name @ ..]
            if spelt(&only.token).eq_ignore_ascii_case("only") && !name.is_empty() =>
        {
            of_table(name)
        }
        name => of_table(name),
    });
    Ok(Statement::Taken(Taken::Lock(names.collect::<Result<_>>()?)))
}

/// Whether a CREATE TABLE has LIKE among its columns; a column of that name stands in quotes.
fn lists_like(rest: &[&str], tokens: &[TokenWithSpan]) -> bool {
    let is_table = rest.iter().take(3).any(|word| *word == "TABLE");
    let is_like = |token: &Token| match token {
        Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case("like"),
        _ => false,
    };
    let mut pairs = tokens.windows(2);
    is_table
        && pairs.any(|pair| {
            matches!(pair[0].token, Token::LParen | Token::Comma) && is_like(&pair[1].token)
        })
}

/// The refusal of a table that is to be like another one.
pub(super) fn like() -> Error {
    unsupported("CREATE TABLE ... (LIKE ...) is not supported").with_hint(
        "SHOW CREATE TABLE t gives the statement to write with another name; CREATE TABLE ... AS \
         SELECT * FROM t WITH NO DATA has the columns, without key and defaults",
    )
}

fn stage(rest: &[&str]) -> Result<StageName> {
    match rest {
        ["STAGE", "REMAP"] => Ok(StageName::Remap),
        ["STAGE", "SORT"] => Ok(StageName::Sort),
        ["STAGE", "MERGE"] => Ok(StageName::Merge),
        ["STAGE", "AUTHORITY"] => Ok(StageName::Authority),
        ["STAGE", "INGEST"] => Ok(StageName::Ingest),
        ["STAGE", other] => Err(Error::not_found(format!(
            "there is no stage {:?}",
            other.to_lowercase()
        ))
        .with_hint("the stages are INGEST, REMAP, SORT, MERGE and AUTHORITY")
        .with_sqlstate("42704")),
        _ => Err(usage(
            "PAUSE STAGE or RESUME STAGE, then INGEST, REMAP, SORT, MERGE or AUTHORITY",
        )),
    }
}

/// ABORT, which is ROLLBACK of the whole transaction.
fn abort(rest: &[&str]) -> Result<Statement> {
    let rest = match rest {
        ["WORK" | "TRANSACTION", rest @ ..] => rest,
        rest => rest,
    };
    match rest {
        [] | ["AND", "NO", "CHAIN"] => Ok(Statement::Rollback { chain: false }),
        ["AND", "CHAIN"] => Ok(Statement::Rollback { chain: true }),
        _ => Err(usage("ABORT [AND [NO] CHAIN]")),
    }
}

fn reset(rest: &[&str], words: &[String]) -> Result<Statement> {
    match rest {
        ["ALL"] => Ok(Statement::Reset(None)),
        [] => Err(usage("RESET name | ALL")),
        _ => Ok(Statement::Reset(Some(dotted(words)?))),
    }
}

fn set(rest: &[&str], tokens: &[TokenWithSpan], words: &[String]) -> Result<Statement> {
    match rest {
        ["TRANSACTION", modes @ ..] | ["LOCAL", "TRANSACTION", modes @ ..] => {
            let read_only = transaction_modes("SET TRANSACTION", modes)?;
            return Ok(Statement::SetTransaction { read_only });
        }
        [
            "SESSION",
            "CHARACTERISTICS",
            "AS",
            "TRANSACTION",
            modes @ ..,
        ] => {
            let what = "SET SESSION CHARACTERISTICS AS TRANSACTION";
            let read_only = transaction_modes(what, modes)?;
            return Ok(Statement::SetCharacteristics { read_only });
        }
        _ => {}
    }
    let skipped = usize::from(matches!(rest, ["SESSION" | "LOCAL", _, ..]) && rest[1] != "=");
    let local = skipped > 0 && rest[0] == "LOCAL";
    let (rest, tokens, words) = (&rest[skipped..], &tokens[skipped..], &words[skipped..]);
    let span = |at: usize| tokens.get(at).map_or_else(Span::empty, |token| token.span);
    if let ["TIME", "ZONE", zone @ ..] = rest {
        let is_default = matches!(zone, ["DEFAULT" | "LOCAL"]);
        return Ok(Statement::Set {
            name: "datafusion.execution.time_zone".to_owned(),
            value: (!is_default).then(|| words[2..].join("")),
            local,
            at: [span(0), span(2)],
        });
    }
    if let ["NAMES", encoding] = rest {
        return Ok(Statement::Set {
            name: "client_encoding".to_owned(),
            value: (*encoding != "DEFAULT").then(|| words[1].clone()),
            local,
            at: [span(0), span(1)],
        });
    }
    let equals = tokens.iter().position(|token| match &token.token {
        Token::Eq => true,
        Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case("to"),
        _ => false,
    });
    match equals {
        Some(at) if at > 0 && at + 1 < words.len() => {
            let name = dotted(&words[..at])?;
            let is_default = words.len() == at + 2
                && matches!(&tokens[at + 1].token, Token::Word(word)
                    if word.value.eq_ignore_ascii_case("default"));
            let separator = match tokens[at + 1..]
                .iter()
                .all(|t| matches!(t.token, Token::Word(_)))
            {
                true => " ",
                false => "",
            };
            let value = (!is_default).then(|| words[at + 1..].join(separator));
            let at = [span(0), span(at + 1)];
            Ok(Statement::Set {
                name,
                value,
                local,
                at,
            })
        }
        _ => Err(usage("SET name = value")),
    }
}

/// The modes of a transaction: whether it is read only, where they say so. Whatever else they ask
/// for is what every transaction has, or refused.
fn transaction_modes(what: &str, modes: &[&str]) -> Result<Option<bool>> {
    let wrong = || {
        usage(&format!(
            "{what} READ ONLY | READ WRITE | ISOLATION LEVEL REPEATABLE READ"
        ))
    };
    let (mut rest, mut read_only) = (modes, None);
    while !rest.is_empty() {
        rest = match rest {
            ["READ", "ONLY", rest @ ..] => {
                read_only = Some(true);
                rest
            }
            ["READ", "WRITE", rest @ ..] => {
                read_only = Some(false);
                rest
            }
            ["ISOLATION", "LEVEL", "SERIALIZABLE", ..] => return Err(serializable()),
            ["ISOLATION", "LEVEL", "READ", "COMMITTED" | "UNCOMMITTED", rest @ ..]
            | ["ISOLATION", "LEVEL", "REPEATABLE", "READ", rest @ ..]
            | ["ISOLATION", "LEVEL", "SNAPSHOT", rest @ ..]
            // One snapshot never waits for another: what is deferrable elsewhere is so here.
            | ["DEFERRABLE", rest @ ..]
            | ["NOT", "DEFERRABLE", rest @ ..] => rest,
            _ => return Err(wrong()),
        };
        rest = match rest {
            [","] => return Err(wrong()),
            [",", rest @ ..] => rest,
            rest => rest,
        };
    }
    match modes {
        [] => Err(wrong()),
        _ => Ok(read_only),
    }
}

/// Transactions have snapshot isolation without detection of conflicts.
pub(crate) fn serializable() -> Error {
    unsupported("isolation level SERIALIZABLE is not supported")
        .with_detail("updates are blind: conflicts between transactions are not detected")
        .with_hint("REPEATABLE READ gives one snapshot to the whole transaction")
}

fn show(rest: &[&str], tokens: &[TokenWithSpan], words: &[String]) -> Result<Option<Statement>> {
    match rest {
        ["CREATE", "TABLE", ..] => Ok(Some(Statement::ShowCreate {
            name: of_table(&tokens[2..])?,
            of_view: false,
        })),
        ["CREATE", "VIEW", ..] | ["CREATE", "MATERIALIZED", "VIEW", ..] => {
            let skipped = if rest[1] == "VIEW" { 2 } else { 3 };
            Ok(Some(Statement::ShowCreate {
                name: of_table(&tokens[skipped..])?,
                of_view: true,
            }))
        }
        ["TABLES"] => Ok(Some(Statement::ShowTables)),
        ["VIEWS"] | ["MATERIALIZED", "VIEWS"] => Ok(Some(Statement::ShowViews)),
        ["COLUMNS", "FROM" | "IN", ..] => described(&name(&tokens[2..])?).map(Some),
        [
            "COLUMNS" | "CREATE" | "FUNCTIONS" | "DATABASES" | "SCHEMAS",
            ..,
        ] => Ok(None),
        ["TIME", "ZONE"] => Ok(Some(Statement::Show(
            "datafusion.execution.time_zone".to_owned(),
        ))),
        ["TRANSACTION", "ISOLATION", "LEVEL"] => {
            Ok(Some(Statement::Show("transaction_isolation".to_owned())))
        }
        [] => Err(usage(
            "SHOW name | ALL | TABLES | VIEWS | COLUMNS FROM t | CREATE TABLE t",
        )),
        _ => Ok(Some(Statement::Show(dotted(words)?))),
    }
}

/// The name of a table or view.
fn name(tokens: &[TokenWithSpan]) -> Result<ObjectName> {
    const USAGE: &str = "SHOW COLUMNS FROM t | CREATE TABLE t | CREATE VIEW v";
    let mut parts = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match &token.token {
            Token::Word(word) if at % 2 == 0 => {
                parts.push(ObjectNamePart::Identifier(word.to_ident(token.span)));
            }
            Token::Period if at % 2 == 1 => {}
            _ => return Err(usage(USAGE)),
        }
    }
    match tokens.len() % 2 {
        1 => Ok(ObjectName(parts)),
        _ => Err(usage(USAGE)),
    }
}

/// The name of a table or view of the user's, as SQL folds it, without the schema that all of them
/// live in.
fn of_table(tokens: &[TokenWithSpan]) -> Result<String> {
    table_name(&name(tokens)?)
}

/// The name of a table that the tokens begin with, and how many of them it takes.
pub(super) fn leading_name(
    tokens: &[TokenWithSpan],
    wrong: impl Fn() -> Error,
) -> Result<(String, usize)> {
    let points = tokens.iter().skip(1).step_by(2);
    let points = points.take_while(|token| token.token == Token::Period);
    let length = (1 + 2 * points.count()).min(tokens.len());
    let name = of_table(&tokens[..length]).map_err(|error| match error.sqlstate() {
        "42601" => wrong(),
        _ => error,
    })?;
    Ok((name, length))
}

/// A name of parts with points between them, in lower case.
fn dotted(words: &[String]) -> Result<String> {
    let points_between = words
        .iter()
        .enumerate()
        .all(|(at, word)| (word == ".") == (at % 2 == 1));
    match points_between && words.len() % 2 == 1 {
        true => Ok(words.concat().to_lowercase()),
        false => Err(
            Error::invalid(format!("{:?} is not a setting's name", words.join(" ")))
                .with_sqlstate("42601"),
        ),
    }
}

fn usage(usage: &str) -> Error {
    Error::invalid("syntax error")
        .with_hint(format!("write {usage}"))
        .with_sqlstate("42601")
}
