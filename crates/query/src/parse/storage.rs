//! CODEC, COMPRESSION and ENCODING of columns: read by their tokens, which sqlparser does not know.
//!
//! ```text
//!   column definition  ... [CODEC | COMPRESSION codec] [ENCODING encoding]
//!     codec            none, lz4, snappy, zstd, zstd(1 to 22)
//!     encoding         plain, dictionary, delta, prefix, byte_stream_split, rle
//! ```
//!
//! Kudu's words for them are taken too. Reads tokens; writes nothing.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use lazybase_model::table::{ColumnCodec, ColumnEncoding, ColumnStorage};
use lazybase_model::{Error, Result};

use super::folded;

/// Takes the codecs and encodings of columns out of the tokens of CREATE TABLE, or of ALTER TABLE
/// ... ADD COLUMN.
pub(super) fn take(tokens: &mut Vec<TokenWithSpan>) -> Result<Vec<(String, ColumnStorage)>> {
    let Some((begin, inside)) = declarations(tokens) else {
        return Ok(Vec::new());
    };
    let mut found: Vec<(String, ColumnStorage)> = Vec::new();
    let mut depth = inside;
    let mut name = column(tokens, begin, inside);
    let mut at = begin;
    while at < tokens.len() && depth >= inside {
        match &tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Comma if depth == inside => name = column(tokens, at + 1, inside),
            Token::Word(_) if depth == inside => {
                let of_column = name.as_ref().filter(|(place, _)| at > place + 1);
                let storage = match of_column {
                    Some(_) => attribute(&tokens[at..])?,
                    None => None,
                };
                if let (Some((storage, length)), Some((_, name))) = (storage, of_column) {
                    note(&mut found, name.clone(), storage)?;
                    tokens.drain(at..at + length);
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    Ok(found)
}

/// Where the declarations of columns begin, and in how many parentheses they stand.
fn declarations(tokens: &[TokenWithSpan]) -> Option<(usize, usize)> {
    if word(tokens.get(1)).as_deref() != Some("TABLE") {
        return None;
    }
    match word(tokens.first()).as_deref() {
        Some("CREATE") => {
            let open = tokens.iter().position(|token| token.token == Token::LParen);
            open.map(|open| (open + 1, 1))
        }
        Some("ALTER") => {
            let operation = |at: &usize| word(tokens.get(*at)).as_deref() == Some("ADD");
            (3..tokens.len()).find(operation).map(|at| (at, 0))
        }
        _ => None,
    }
}

/// The place and the name of the column whose declaration begins at `at`.
fn column(tokens: &[TokenWithSpan], at: usize, inside: usize) -> Option<(usize, String)> {
    let mut at = at;
    if inside == 0 {
        if word(tokens.get(at)).as_deref() != Some("ADD") {
            return None;
        }
        at += 1;
        let is = |at: usize, words: &[&str]| {
            let mut words = words.iter().enumerate();
            words.all(|(nth, expected)| word(tokens.get(at + nth)).as_deref() == Some(*expected))
        };
        at += usize::from(is(at, &["COLUMN"]));
        at += if is(at, &["IF", "NOT", "EXISTS"]) {
            3
        } else {
            0
        };
    }
    match &tokens.get(at)?.token {
        Token::Word(name) => Some((at, folded(&name.to_ident(tokens[at].span)))),
        _ => None,
    }
}

fn word(token: Option<&TokenWithSpan>) -> Option<String> {
    match token.map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => {
            Some(word.value.to_ascii_uppercase())
        }
        _ => None,
    }
}

fn note(found: &mut Vec<(String, ColumnStorage)>, name: String, new: ColumnStorage) -> Result<()> {
    let Some((_, known)) = found.iter_mut().find(|(of, _)| *of == name) else {
        found.push((name, new));
        return Ok(());
    };
    let twice = known.codec.is_some() && new.codec.is_some()
        || known.encoding.is_some() && new.encoding.is_some();
    if twice {
        return Err(
            Error::invalid(format!("column {name:?} has two codecs or two encodings"))
                .with_sqlstate("42601"),
        );
    }
    known.codec = known.codec.or(new.codec);
    known.encoding = known.encoding.or(new.encoding);
    Ok(())
}

/// The attribute that the tokens begin with, and how many tokens it takes.
fn attribute(tokens: &[TokenWithSpan]) -> Result<Option<(ColumnStorage, usize)>> {
    let name = word(tokens.first());
    let value = word(tokens.get(1));
    match name.as_deref() {
        Some("CODEC" | "COMPRESSION") => {
            let level = match (tokens.get(2), tokens.get(3), tokens.get(4)) {
                (Some(open), Some(level), Some(close))
                    if open.token == Token::LParen && close.token == Token::RParen =>
                {
                    Some(level.token.to_string())
                }
                _ => None,
            };
            let length = if level.is_some() { 5 } else { 2 };
            let codec = codec(&value.unwrap_or_default(), level.as_deref())?;
            Ok(Some((
                ColumnStorage {
                    codec,
                    encoding: None,
                },
                length,
            )))
        }
        Some("ENCODING") => {
            let encoding = encoding(&value.unwrap_or_default())?;
            Ok(Some((
                ColumnStorage {
                    codec: None,
                    encoding,
                },
                2,
            )))
        }
        _ => Ok(None),
    }
}

fn codec(name: &str, level: Option<&str>) -> Result<Option<ColumnCodec>> {
    let number = level.map(|level| level.parse::<i32>().unwrap_or(0));
    Ok(match (name, number) {
        ("DEFAULT_COMPRESSION" | "DEFAULT", None) => None,
        ("NONE" | "NO_COMPRESSION" | "UNCOMPRESSED", None) => Some(ColumnCodec::None),
        ("LZ4", None) => Some(ColumnCodec::Lz4),
        ("SNAPPY", None) => Some(ColumnCodec::Snappy),
        ("ZSTD", None) => Some(ColumnCodec::Zstd(3)),
        ("ZSTD", Some(level @ 1..=22)) => Some(ColumnCodec::Zstd(level)),
        _ => return Err(no_codec(name, level)),
    })
}

/// What is wrong with a codec: its level, or its name.
fn no_codec(name: &str, level: Option<&str>) -> Error {
    let called = name.to_lowercase();
    let fact = match (name, level) {
        ("ZSTD", Some(level)) => format!("codec {called} has no level {level}"),
        ("NONE" | "LZ4" | "SNAPPY", Some(_)) => format!("codec {called} has no levels"),
        _ => format!("unknown codec {called:?}"),
    };
    Error::invalid(fact)
        .with_hint("codecs are none, lz4, snappy, zstd, and zstd(1) to zstd(22)")
        .with_sqlstate("22023")
}

fn encoding(name: &str) -> Result<Option<ColumnEncoding>> {
    Ok(Some(match name {
        "AUTO_ENCODING" | "AUTO" => return Ok(None),
        "PLAIN" | "PLAIN_ENCODING" => ColumnEncoding::Plain,
        "DICTIONARY" | "DICT" | "DICT_ENCODING" => ColumnEncoding::Dictionary,
        "DELTA" => ColumnEncoding::Delta,
        "PREFIX" | "PREFIX_ENCODING" => ColumnEncoding::Prefix,
        "BYTE_STREAM_SPLIT" => ColumnEncoding::ByteStreamSplit,
        "RLE" | "RUN_LENGTH" => ColumnEncoding::Rle,
        _ => {
            return Err(
                Error::invalid(format!("unknown encoding {:?}", name.to_lowercase()))
                    .with_hint(
                        "encodings are plain, dictionary, delta, prefix, byte_stream_split and rle",
                    )
                    .with_sqlstate("22023"),
            );
        }
    }))
}
