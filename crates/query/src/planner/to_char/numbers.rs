//! Numbers by a format: `to_char(1234.5, 'FM9,999.00')`. Digit by digit as PostgreSQL does it.
//! Pure.

use lazybase_model::{Error, Result};

/// What a part of a format stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// A digit, and whether it is shown in any case.
    Digit {
        always: bool,
    },
    Point,
    Group,
    /// A minus sign, a plus sign, either of them.
    Minus,
    Plus,
    Either,
    /// What the sign's place was already said by.
    Nothing,
    Text(String),
}

/// Where the sign stands that S asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anchor {
    None,
    Before,
    Behind,
}

/// A format, as it was read.
#[derive(Debug, Clone)]
pub(super) struct NumberFormat {
    parts: Vec<Part>,
    /// Places before the point, and behind it.
    before: usize,
    behind: usize,
    /// The place of the first zero, counted from 1, and of the last.
    zero_start: usize,
    zero_end: usize,
    has_point: bool,
    /// FM: neither blanks nor zeros that say nothing.
    fills: bool,
    brackets: bool,
    minus: bool,
    plus: bool,
    anchor: Anchor,
    anchored_at: usize,
}

fn refused(what: &str) -> Error {
    Error::invalid(format!(
        "to_char: {what} in a format of numbers is not supported"
    ))
    .with_hint(
        "formats have 9, 0, a point, a comma, D, G, L, S, MI, PL, SG, PR, FM and texts in \"\"",
    )
    .with_sqlstate("0A000")
}

fn wrong(what: &str) -> Error {
    Error::invalid(format!("to_char: {what}")).with_sqlstate("42601")
}

impl NumberFormat {
    /// Reads a format.
    ///
    /// # Errors
    /// `Invalid`: 42601 for one that means nothing, 0A000 for one that is not done.
    pub(super) fn read(format: &str) -> Result<NumberFormat> {
        let mut read = NumberFormat {
            parts: Vec::new(),
            before: 0,
            behind: 0,
            zero_start: 0,
            zero_end: 0,
            has_point: false,
            fills: false,
            brackets: false,
            minus: false,
            plus: false,
            anchor: Anchor::None,
            anchored_at: 0,
        };
        let mut rest = format;
        while let Some(first) = rest.chars().next() {
            if let Some(quoted) = rest.strip_prefix('"') {
                let (text, after) = quoted.split_once('"').unwrap_or((quoted, ""));
                read.parts.push(Part::Text(text.replace('\\', "")));
                rest = after;
                continue;
            }
            let upper: String = rest.chars().take(4).collect::<String>().to_uppercase();
            let length = read.word(&upper, first)?;
            rest = &rest[length..];
        }
        if read.anchor == Anchor::Before && read.before == read.anchored_at {
            read.anchor = Anchor::Behind;
        }
        Ok(read)
    }

    /// Reads what the rest of a format begins with; how many bytes it has.
    fn word(&mut self, upper: &str, first: char) -> Result<usize> {
        let two = upper.get(..2).unwrap_or(upper);
        let (part, length) = match two {
            "FM" => {
                self.fills = true;
                (Part::Nothing, 2)
            }
            "MI" => (self.signed(Part::Minus)?, 2),
            "PL" => (self.signed(Part::Plus)?, 2),
            "SG" => (self.signed(Part::Either)?, 2),
            "PR" => {
                if self.minus || self.plus || self.anchor != Anchor::None {
                    return Err(wrong("PR and another sign stand in one format"));
                }
                self.brackets = true;
                (Part::Nothing, 2)
            }
            "RN" => return Err(refused("RN")),
            "TH" => return Err(refused("TH")),
            _ if upper == "EEEE" => return Err(refused("EEEE")),
            _ => (self.letter(first)?, first.len_utf8()),
        };
        if part != Part::Nothing {
            self.parts.push(part);
        }
        Ok(length)
    }

    fn letter(&mut self, letter: char) -> Result<Part> {
        Ok(match letter {
            '9' | '0' => {
                if self.brackets {
                    return Err(wrong("digits stand before PR"));
                }
                self.digit(letter == '0')
            }
            '.' | 'D' | 'd' => {
                if self.has_point {
                    return Err(wrong("a format has one decimal point"));
                }
                self.has_point = true;
                Part::Point
            }
            ',' | 'G' | 'g' => Part::Group,
            'L' | 'l' => Part::Text(" ".to_owned()),
            'S' | 's' => {
                if self.anchor != Anchor::None || self.minus || self.plus || self.brackets {
                    return Err(wrong("S and another sign stand in one format"));
                }
                self.anchored_at = self.before;
                self.anchor = match self.has_point {
                    true => Anchor::Behind,
                    false => Anchor::Before,
                };
                Part::Nothing
            }
            'V' | 'v' => return Err(refused("V")),
            'B' | 'b' | 'C' | 'c' => return Err(refused(&letter.to_string())),
            other => Part::Text(other.to_string()),
        })
    }

    fn digit(&mut self, always: bool) -> Part {
        if always && self.zero_start == 0 && !self.has_point {
            self.zero_start = self.before + 1;
        }
        match self.has_point {
            true => self.behind += 1,
            false => self.before += 1,
        }
        if always {
            self.zero_end = self.before + self.behind;
        }
        Part::Digit { always }
    }

    fn signed(&mut self, sign: Part) -> Result<Part> {
        if self.anchor != Anchor::None || self.brackets {
            return Err(wrong("S or PR and another sign stand in one format"));
        }
        self.minus |= sign != Part::Plus;
        self.plus |= sign != Part::Minus;
        Ok(sign)
    }

    /// The digits behind the point.
    pub(super) fn behind(&self) -> usize {
        self.behind
    }

    /// A number that was rounded to as many digits as the format has behind its point.
    pub(super) fn show(&self, negative: bool, digits: &str) -> String {
        let before = digits.split('.').next().unwrap_or(digits).len();
        let overflows = before > self.before;
        let number = match overflows {
            true => {
                let (left, right) = ("#".repeat(self.before), "#".repeat(self.behind));
                if self.has_point {
                    format!("{left}.{right}")
                } else {
                    left
                }
            }
            false => digits.to_owned(),
        };
        let mut shown = Shown::new(self, negative, number.into_bytes(), {
            if overflows { 0 } else { self.before - before }
        });
        for part in &self.parts {
            shown.put(part);
        }
        shown.out
    }
}

/// A number that is being shown.
struct Shown<'f> {
    format: &'f NumberFormat,
    negative: bool,
    number: Vec<u8>,
    /// The digit that comes next.
    at: usize,
    /// Places that the number does not reach.
    blanks: usize,
    /// The last digit that says something, where others are left out.
    last: Option<usize>,
    sign_written: bool,
    /// Whether a digit has been written, so that groups are divided.
    inside: bool,
    place: usize,
    places: usize,
    out: String,
}

impl<'f> Shown<'f> {
    fn new(format: &'f NumberFormat, negative: bool, number: Vec<u8>, blanks: usize) -> Shown<'f> {
        let sign_written = match (format.minus, format.plus) {
            (false, false) => !negative && format.fills && format.anchor == Anchor::None,
            (minus, _) => minus,
        };
        let point = number.iter().position(|digit| *digit == b'.');
        let last = point
            .filter(|_| format.fills && format.has_point)
            .map(|point| {
                let relevant = number.iter().rposition(|digit| *digit != b'0');
                let relevant = relevant.unwrap_or(point).max(point);
                match format.zero_end > blanks {
                    true => relevant.max((number.len() - 1).min(format.zero_end - blanks)),
                    false => relevant,
                }
            });
        let spare = usize::from(!sign_written && blanks == 0);
        Shown {
            format,
            negative,
            number,
            at: 0,
            blanks,
            last,
            sign_written,
            inside: false,
            place: 0,
            places: (format.before + format.behind + spare).saturating_sub(1),
            out: String::new(),
        }
    }

    fn put(&mut self, part: &Part) {
        let blank = (!self.format.fills).then_some(' ');
        match part {
            Part::Digit { always } => self.digit(Some(*always)),
            Part::Point => self.digit(None),
            Part::Group if self.inside => self.out.push(','),
            Part::Group => self.out.extend(blank),
            Part::Minus if self.negative => self.out.push('-'),
            Part::Plus if !self.negative => self.out.push('+'),
            Part::Minus | Part::Plus => self.out.extend(blank),
            Part::Either => self.out.push(if self.negative { '-' } else { '+' }),
            Part::Text(text) => self.out.push_str(text),
            Part::Nothing => {}
        }
    }

    /// Whether the zero before the point comes next, which a format of 9 leaves out.
    fn leads(&self) -> bool {
        self.format.zero_start == 0
            && self.at == 0
            && self.number.first() == Some(&b'0')
            && self.format.behind != 0
    }

    fn last_is_point(&self) -> bool {
        self.last.is_some_and(|last| self.number[last] == b'.')
    }

    /// The sign, once the first digit is about to be written.
    fn sign(&mut self) {
        let zero = self.format.zero_start;
        let reached = self.place >= self.blanks || (zero > 0 && zero - 1 == self.place);
        if self.sign_written || !reached || (self.leads() && !self.last_is_point()) {
            return;
        }
        match (self.format.anchor, self.negative) {
            (Anchor::Before, negative) => self.out.push(if negative { '-' } else { '+' }),
            (Anchor::Behind, _) => return,
            (Anchor::None, true) if self.format.brackets => self.out.push('<'),
            (Anchor::None, true) => self.out.push('-'),
            (Anchor::None, false) if !self.format.fills => self.out.push(' '),
            (Anchor::None, false) => {}
        }
        self.sign_written = true;
    }

    /// A digit, or the point where `always` says nothing.
    fn digit(&mut self, always: Option<bool>) {
        self.inside = false;
        self.sign();
        let zero = self.format.zero_start;
        let in_zeros = zero > 0 && zero - 1 <= self.place;
        if self.place < self.blanks {
            match in_zeros {
                true => {
                    self.out.push('0');
                    self.inside = true;
                }
                false if !self.format.fills => self.out.push(' '),
                false => {}
            }
        } else {
            self.next_digit(always == Some(true));
        }
        self.close();
        self.place += 1;
    }

    fn next_digit(&mut self, always: bool) {
        let next = self.number.get(self.at).copied();
        let is_left_out = self.last.is_some_and(|last| self.at > last) && !always;
        match next {
            Some(b'.') => self.out.push('.'),
            _ if is_left_out => {}
            Some(_) if self.leads() => match self.format.fills {
                false => self.out.push(' '),
                true if self.last_is_point() => self.out.push('0'),
                true => {}
            },
            Some(digit) => {
                self.out.push(char::from(digit));
                self.inside = true;
            }
            None => {}
        }
        self.at += usize::from(next.is_some());
    }

    /// What stands behind the last place.
    fn close(&mut self) {
        let mut end =
            self.places + usize::from(self.blanks > 0) + usize::from(self.format.has_point);
        if self.last == Some(self.at) {
            end = self.place;
        }
        if self.place + 1 != end {
            return;
        }
        let in_brackets = self.format.brackets && (self.negative || !self.format.fills);
        if in_brackets && self.sign_written {
            self.out.push(if self.negative { '>' } else { ' ' });
        } else if self.format.anchor == Anchor::Behind {
            self.out.push(if self.negative { '-' } else { '+' });
        }
    }
}

/// A number's digits, rounded to so many behind the point, and whether it is negative: halves go
/// away from zero.
pub(super) fn rounded(text: &str, behind: usize) -> (bool, String) {
    let (negative, text) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let kept = fraction.get(..behind).unwrap_or(fraction);
    let mut digits: Vec<u8> = format!("{whole}{kept}").into_bytes();
    digits.resize(whole.len() + behind, b'0');
    let rounds_up = fraction
        .as_bytes()
        .get(behind)
        .is_some_and(|next| *next >= b'5');
    let mut carried = rounds_up;
    for digit in digits.iter_mut().rev() {
        if !carried {
            break;
        }
        carried = *digit == b'9';
        *digit = if carried { b'0' } else { *digit + 1 };
    }
    if carried {
        digits.insert(0, b'1');
    }
    let mut shown = String::from_utf8_lossy(&digits).into_owned();
    if behind > 0 {
        shown.insert(shown.len() - behind, '.');
    }
    (
        negative && shown.bytes().any(|digit| matches!(digit, b'1'..=b'9')),
        shown,
    )
}
