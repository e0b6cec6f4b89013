//! What is left out of a story, as text: what is printed of a story that was made small is given to
//! the command to tell it again. `faults=false,lives=1` leaves out faults, and lives but the last.

use std::fmt;
use std::str::FromStr;

use crate::schema::{Allowed, Shape};
use crate::story::Trim;

/// What can be left out, or made less.
enum Part<'a> {
    Shape(&'a mut Option<Shape>),
    Whether(&'a mut bool),
    Most(&'a mut usize),
    Operations(&'a mut u64),
}

impl Part<'_> {
    fn text(&self) -> String {
        match self {
            Part::Shape(shape) => match **shape {
                None => "drawn".to_owned(),
                Some(shape) => shape.pick("plain", "rich").to_owned(),
            },
            Part::Whether(whether) => whether.to_string(),
            Part::Most(most) => most.to_string(),
            Part::Operations(count) => count.to_string(),
        }
    }

    /// Nothing if the text is none for it.
    fn set(self, text: &str) -> Option<()> {
        match self {
            Part::Shape(shape) => {
                *shape = match text {
                    "drawn" => None,
                    "plain" => Some(Shape::Plain),
                    "rich" => Some(Shape::Rich),
                    _ => return None,
                }
            }
            Part::Whether(whether) => *whether = text.parse().ok()?,
            Part::Most(most) => *most = text.parse().ok()?,
            Part::Operations(count) => *count = text.parse().ok()?,
        }
        Some(())
    }
}

/// All parts by their names. What is planted is none of them: nothing is left out for it.
fn parts(trim: &mut Trim) -> Vec<(&'static str, Part<'_>)> {
    let Trim {
        shape,
        schema,
        writers,
        readers,
        operator,
        faults,
        strikes,
        records,
        gone,
        delays,
        hangs,
        stands,
        truncates,
        replaces,
        remakes,
        frames,
        sequences,
        bound,
        lives,
        operations,
        planted: _,
    } = trim;
    let Allowed {
        tables,
        views,
        later,
        partitions,
        operators,
        ttl,
        ids,
        alters,
    } = schema;
    vec![
        ("shape", Part::Shape(shape)),
        ("tables", Part::Most(tables)),
        ("views", Part::Whether(views)),
        ("later", Part::Whether(later)),
        ("partitions", Part::Whether(partitions)),
        ("operators", Part::Whether(operators)),
        ("ttl", Part::Whether(ttl)),
        ("ids", Part::Whether(ids)),
        ("alters", Part::Whether(alters)),
        ("writers", Part::Most(writers)),
        ("readers", Part::Most(readers)),
        ("operator", Part::Whether(operator)),
        ("faults", Part::Whether(faults)),
        ("strikes", Part::Whether(strikes)),
        ("records", Part::Whether(records)),
        ("gone", Part::Whether(gone)),
        ("delays", Part::Whether(delays)),
        ("hangs", Part::Whether(hangs)),
        ("stands", Part::Whether(stands)),
        ("truncates", Part::Whether(truncates)),
        ("replaces", Part::Whether(replaces)),
        ("remakes", Part::Whether(remakes)),
        ("frames", Part::Whether(frames)),
        ("sequences", Part::Whether(sequences)),
        ("bound", Part::Whether(bound)),
        ("lives", Part::Most(lives)),
        ("operations", Part::Operations(operations)),
    ]
}

/// The texts of all parts.
fn texts(mut trim: Trim) -> Vec<(&'static str, String)> {
    let parts = parts(&mut trim).into_iter();
    parts.map(|(name, part)| (name, part.text())).collect()
}

/// What differs from a whole story; empty if nothing does.
impl fmt::Display for Trim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = texts(*self).into_iter().zip(texts(Trim::NOTHING));
        let trimmed = parts.filter(|(part, whole)| part != whole);
        let trimmed = trimmed.map(|((name, text), _)| format!("{name}={text}"));
        f.write_str(&trimmed.collect::<Vec<_>>().join(","))
    }
}

impl FromStr for Trim {
    type Err = String;

    fn from_str(text: &str) -> Result<Trim, String> {
        let mut trim = Trim::NOTHING;
        for word in text.split(',').filter(|word| !word.is_empty()) {
            let (name, value) = word
                .split_once('=')
                .ok_or_else(|| format!("{word:?} is not of the form NAME=VALUE"))?;
            let mut parts = parts(&mut trim).into_iter();
            let Some((_, part)) = parts.find(|(known, _)| *known == name) else {
                let known: Vec<&str> = texts(Trim::NOTHING).iter().map(|(name, _)| *name).collect();
                let known = known.join(", ");
                return Err(format!("there is no part {name:?}; there are {known}"));
            };
            part.set(value)
                .ok_or_else(|| format!("{value:?} is no value of {name}"))?;
        }
        Ok(trim)
    }
}

impl Trim {
    /// The command that runs a seed with this left out, and prints everything that happens.
    pub fn command(&self, seed: u64) -> String {
        let mut command = format!("lazybase-sim --show {seed}");
        let trimmed = self.to_string();
        if !trimmed.is_empty() {
            command = format!("{command} --trim {trimmed}");
        }
        match self.planted {
            None => command,
            Some(fault) => format!("{command} --plant {fault:?}"),
        }
    }
}

#[cfg(test)]
mod tests;
