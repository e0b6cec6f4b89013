//! `regexp_match`, `regexp_replace` and the others. Pure.

use lazybase_model::{Error, Result as Checked};
use regex::{Captures, Regex};

use super::{ALL_MATCHES, Flags, PATTERN_OF, SUBSTRING, compiled};
use crate::planner::bounded::check_made;
use crate::planner::row_functions::{Answer, Given, Gives, RowFunction, Takes, text_at, whole_at};

/// All of them.
pub(super) const ALL: [RowFunction; 10] = [
    function(PATTERN_OF, &[Takes::Text], 1, Gives::Text, |given| {
        let pattern = text_at(given, 0).unwrap_or_default();
        let written = compiled(pattern, Flags::default())?;
        Ok(Answer::Text(written.as_str().to_owned()))
    }),
    function(SUBSTRING, &[Takes::Text; 2], 2, Gives::Text, substring),
    function("regexp_match", &[Takes::Text; 3], 2, Gives::Texts, matched),
    function(ALL_MATCHES, &[Takes::Text; 3], 2, Gives::Lists, all_matched),
    function("regexp_like", &[Takes::Text; 3], 2, Gives::Truth, |given| {
        let search = Search::new("regexp_like", given, 2, None)?;
        Ok(Answer::Truth(search.pattern.is_match(search.text)))
    }),
    function(
        "regexp_count",
        &[Takes::Text, Takes::Text, Takes::Whole, Takes::Text],
        2,
        Gives::Whole,
        |given| {
            let search = Search::new("regexp_count", given, 3, Some(2))?;
            Ok(Answer::Whole(search.all().count() as i64))
        },
    ),
    function("regexp_instr", &INSTR, 2, Gives::Whole, place),
    function("regexp_substr", &SUBSTR, 2, Gives::Text, part),
    function("regexp_replace", &REPLACE, 3, Gives::Text, replaced),
    function(
        "regexp_split_to_array",
        &[Takes::Text; 3],
        2,
        Gives::Texts,
        split,
    ),
];

const INSTR: [Takes; 7] = [
    Takes::Text,
    Takes::Text,
    Takes::Whole,
    Takes::Whole,
    Takes::Whole,
    Takes::Text,
    Takes::Whole,
];
const SUBSTR: [Takes; 6] = [
    Takes::Text,
    Takes::Text,
    Takes::Whole,
    Takes::Whole,
    Takes::Text,
    Takes::Whole,
];
/// In the fourth place flags may stand, or where to begin.
const REPLACE: [Takes; 6] = [
    Takes::Text,
    Takes::Text,
    Takes::Text,
    Takes::Any,
    Takes::Whole,
    Takes::Text,
];

const fn function(
    name: &'static str,
    takes: &'static [Takes],
    least: usize,
    gives: Gives,
    compute: fn(&[Given<'_>]) -> Checked<Answer>,
) -> RowFunction {
    RowFunction {
        name,
        takes,
        least,
        repeats: false,
        strict: true,
        gives,
        compute,
    }
}

/// A text that a pattern is looked for in.
struct Search<'a> {
    text: &'a str,
    pattern: Regex,
    /// The byte to begin at; behind the end where the text is shorter.
    from: usize,
    /// Whether all matches are wanted.
    all: bool,
}

impl<'a> Search<'a> {
    /// The first two arguments, with flags and the character to begin at in other places.
    fn new(name: &str, given: &[Given<'a>], flags: usize, from: Option<usize>) -> Checked<Self> {
        let letters = text_at(given, flags).unwrap_or_default();
        let flags = Flags::default().read(letters)?;
        if flags.all && !["regexp_replace", ALL_MATCHES].contains(&name) {
            let said = format!("{name}() does not support the \"global\" option");
            return Err(Error::invalid(said)
                .with_hint("leave out the flag g")
                .with_sqlstate("22023"));
        }
        let text = text_at(given, 0).unwrap_or_default();
        let first = match from {
            Some(place) => whole_at(given, place, 1),
            None => 1,
        };
        Ok(Search {
            text,
            pattern: compiled(text_at(given, 1).unwrap_or_default(), flags)?,
            from: byte_of(text, at_least(1, first, "start")?),
            all: flags.all,
        })
    }

    /// The matches, one behind the other.
    fn all(&self) -> impl Iterator<Item = Captures<'a>> {
        let mut from = self.from;
        std::iter::from_fn(move || {
            if from > self.text.len() {
                return None;
            }
            let found = self.pattern.captures_at(self.text, from)?;
            let whole = found.get(0)?;
            from = match whole.is_empty() {
                true => after(self.text, whole.end()),
                false => whole.end(),
            };
            Some(found)
        })
    }

    /// A match by its number, from 1 on.
    fn nth(&self, number: i64) -> Checked<Option<Captures<'a>>> {
        let number = at_least(1, number, "n")?;
        Ok(self.all().nth(number - 1))
    }
}

/// A number that a parameter may not be less than.
fn at_least(least: i64, number: i64, parameter: &str) -> Checked<usize> {
    if number < least {
        let said = format!("invalid value for parameter {parameter:?}: {number}");
        return Err(Error::invalid(said).with_sqlstate("22023"));
    }
    Ok(usize::try_from(number).unwrap_or(usize::MAX))
}

/// The byte at which a character begins, counted from 1.
fn byte_of(text: &str, character: usize) -> usize {
    let mut places = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    places.nth(character - 1).unwrap_or(text.len() + 1)
}

/// The place behind the character at this one.
fn after(text: &str, at: usize) -> usize {
    let width = text[at..].chars().next().map_or(1, char::len_utf8);
    at + width
}

fn group(found: &Captures<'_>, number: usize) -> Option<String> {
    found.get(number).map(|group| group.as_str().to_owned())
}

fn text_or_null(text: Option<String>) -> Answer {
    text.map_or(Answer::Null, Answer::Text)
}

fn matched(given: &[Given<'_>]) -> Checked<Answer> {
    let search = Search::new("regexp_match", given, 2, None)?;
    let Some(found) = search.pattern.captures(search.text) else {
        return Ok(Answer::Null);
    };
    Ok(Answer::Texts(groups(&found)))
}

/// The groups, or the whole match where the pattern has none.
fn groups(found: &Captures<'_>) -> Vec<Option<String>> {
    let first = usize::from(found.len() > 1);
    let groups = (first..found.len()).map(|number| group(found, number));
    groups.collect()
}

/// The groups of the first match, or of all that are wanted.
fn all_matched(given: &[Given<'_>]) -> Checked<Answer> {
    let search = Search::new(ALL_MATCHES, given, 2, None)?;
    let most = match search.all {
        true => usize::MAX,
        false => 1,
    };
    let (mut lists, mut made) = (Vec::new(), 0);
    for found in search.all().take(most) {
        let groups = groups(&found);
        let texts = groups.iter().flatten().map(String::len);
        made += size_of_val(groups.as_slice()) + texts.sum::<usize>();
        check_made("regexp_matches", made)?;
        lists.push(groups);
    }
    Ok(Answer::Lists(lists))
}

/// The first group, or the whole match where the pattern has none.
fn substring(given: &[Given<'_>]) -> Checked<Answer> {
    let search = Search::new("substring", given, 2, None)?;
    let found = search.pattern.captures(search.text);
    Ok(text_or_null(found.and_then(|found| {
        let first = usize::from(found.len() > 1);
        group(&found, first)
    })))
}

fn place(given: &[Given<'_>]) -> Checked<Answer> {
    let search = Search::new("regexp_instr", given, 5, Some(2))?;
    let number = at_least(0, whole_at(given, 6, 0), "subexpr")?;
    let behind = whole_at(given, 4, 0);
    if !(0..=1).contains(&behind) {
        let said = format!("invalid value for parameter \"endoption\": {behind}");
        return Err(Error::invalid(said).with_sqlstate("22023"));
    }
    let found = search.nth(whole_at(given, 3, 1))?;
    let group = found.and_then(|found| found.get(number));
    let byte = group.map(|group| match behind {
        0 => group.start(),
        _ => group.end(),
    });
    let characters = byte.map_or(0, |byte| search.text[..byte].chars().count() + 1);
    Ok(Answer::Whole(characters as i64))
}

fn part(given: &[Given<'_>]) -> Checked<Answer> {
    let search = Search::new("regexp_substr", given, 4, Some(2))?;
    let number = at_least(0, whole_at(given, 5, 0), "subexpr")?;
    let found = search.nth(whole_at(given, 3, 1))?;
    Ok(text_or_null(found.and_then(|found| group(&found, number))))
}

fn replaced(given: &[Given<'_>]) -> Checked<Answer> {
    let fourth = text_at(given, 3);
    let start = fourth.and_then(|text| text.parse().ok());
    let mut given = given.to_vec();
    let flags = match start {
        Some(start) => {
            given[3] = Given::Whole(start);
            5
        }
        None => 3,
    };
    let search = Search::new("regexp_replace", &given, flags, start.map(|_| 3))?;
    let wanted = at_least(0, whole_at(&given, 4, 1), "n")?;
    // A number, even the first, is stronger than the flag.
    let all = wanted == 0 || (search.all && given.len() == 4);
    let replacement = text_at(&given, 2).unwrap_or_default();
    let (mut out, mut copied) = (String::with_capacity(search.text.len()), 0);
    for (number, found) in search.all().enumerate() {
        let Some(whole) = found.get(0) else {
            continue;
        };
        if !all && number + 1 < wanted {
            continue;
        }
        out.push_str(&search.text[copied..whole.start()]);
        put_replacement(&found, replacement, &mut out)?;
        copied = whole.end();
        if !all {
            break;
        }
    }
    out.push_str(&search.text[copied..]);
    Ok(Answer::Text(out))
}

/// `\1` is a group, `\&` the whole match, `\\` a backslash; all else stands for itself.
fn put_replacement(found: &Captures<'_>, replacement: &str, out: &mut String) -> Checked<()> {
    let mut rest = replacement;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let number = match rest.chars().next() {
            Some('&') => Some(0),
            Some(digit @ '1'..='9') => digit.to_digit(10),
            Some('\\') => None,
            _ => {
                out.push('\\');
                continue;
            }
        };
        match number {
            Some(number) => {
                let group = found.get(number as usize);
                out.push_str(group.map_or("", |group| group.as_str()));
                check_made("regexp_replace", out.len())?;
            }
            None => out.push('\\'),
        }
        rest = &rest[1..];
    }
    out.push_str(rest);
    check_made("regexp_replace", out.len())
}

fn split(given: &[Given<'_>]) -> Checked<Answer> {
    let search = Search::new("regexp_split_to_array", given, 2, None)?;
    let (mut parts, mut from) = (Vec::new(), 0);
    for found in search.all() {
        let Some(whole) = found.get(0) else {
            continue;
        };
        // Nothing between two characters divides them; at the ends, and behind a match, it does
        // not.
        if whole.start() < search.text.len() && whole.end() > from {
            parts.push(Some(search.text[from..whole.start()].to_owned()));
            check_made("regexp_split_to_array", size_of_val(parts.as_slice()))?;
            from = whole.end();
        }
    }
    parts.push(Some(search.text[from..].to_owned()));
    Ok(Answer::Texts(parts))
}
