//! Arrays of one dimension as PostgreSQL writes them: `{1,"a b",NULL}`; pure.

use std::fmt::{self, Write};

/// The texts of the elements, nothing for NULL; `None` for what is no array of one dimension.
pub fn array_elements(text: &str) -> Option<Vec<Option<String>>> {
    let inside = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut values = Vec::new();
    if inside.trim().is_empty() {
        return Some(values);
    }
    let mut rest = inside.chars().peekable();
    loop {
        let (mut item, mut quoted) = (String::new(), false);
        while rest.next_if(|c| c.is_whitespace()).is_some() {}
        if rest.next_if_eq(&'"').is_some() {
            quoted = true;
            loop {
                match rest.next()? {
                    '"' => break,
                    '\\' => item.push(rest.next()?),
                    other => item.push(other),
                }
            }
            while rest.next_if(|c| c.is_whitespace()).is_some() {}
        } else {
            while let Some(c) = rest.next_if(|c| *c != ',') {
                match c {
                    '{' | '}' | '"' => return None,
                    '\\' => item.push(rest.next()?),
                    other => item.push(other),
                }
            }
            item.truncate(item.trim_end().len());
        }
        let is_null = !quoted && item.eq_ignore_ascii_case("null");
        if item.is_empty() && !quoted {
            return None;
        }
        values.push((!is_null).then_some(item));
        match rest.next() {
            None => return Some(values),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}

/// Appends an element as it stands between the braces of an array.
pub fn put_array_element(element: &str, out: &mut impl Write) {
    put(element, out).expect("memory can be written to");
}

fn put(element: &str, out: &mut impl Write) -> fmt::Result {
    let special = |c: char| "{},\"\\".contains(c) || c.is_ascii_whitespace();
    let quoted =
        element.is_empty() || element.contains(special) || element.eq_ignore_ascii_case("null");
    if !quoted {
        return out.write_str(element);
    }
    out.write_char('"')?;
    for c in element.chars() {
        if matches!(c, '"' | '\\') {
            out.write_char('\\')?;
        }
        out.write_char(c)?;
    }
    out.write_char('"')
}

#[cfg(test)]
mod tests;
