//! A password that somebody types, and nobody sees.

use std::io::{self, BufRead, IsTerminal, Write};

use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use lazybase_model::{Error, Result};

use crate::failure;

const BACKSPACE: [u8; 2] = [0x08, 0x7f];
/// Ctrl-C and Ctrl-D.
const GIVES_UP: [u8; 2] = [0x03, 0x04];
/// The longest password that is read.
const PASSWORD_BYTES_MAX: usize = 1 << 10;

/// Asks for a password, if there is a terminal to ask at.
///
/// # Errors
/// `Cancelled` when none is given.
pub(super) fn ask(user: &str) -> Result<Option<String>> {
    let failed = |error: io::Error| failure::io("terminal", &error);
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(None);
    }
    let say = |text: &str| {
        let mut out = io::stderr().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    };
    say(&format!("password of {user}: ")).map_err(failed)?;
    enable_raw_mode().map_err(failed)?;
    let typed = typed(io::stdin().lock());
    disable_raw_mode().map_err(failed)?;
    say("\n").map_err(failed)?;
    match typed.map_err(failed)? {
        Some(password) => Ok(Some(password)),
        None => Err(Error::new(
            lazybase_model::ErrorKind::Cancelled,
            "no password was given",
        )),
    }
}

/// A line of a terminal that does nothing by itself.
fn typed(input: impl BufRead) -> io::Result<Option<String>> {
    let mut line: Vec<u8> = Vec::new();
    for byte in input.bytes() {
        match byte? {
            b'\r' | b'\n' => return Ok(Some(String::from_utf8_lossy(&line).into_owned())),
            byte if GIVES_UP.contains(&byte) => return Ok(None),
            byte if BACKSPACE.contains(&byte) => {
                // A letter may be several bytes.
                while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            byte if line.len() < PASSWORD_BYTES_MAX => line.push(byte),
            _ => {}
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::typed;

    #[test]
    fn a_line_is_what_is_left_of_what_was_typed() {
        for (bytes, line) in [
            (&b"secret\r"[..], Some("secret")),
            (b"secx\x7fret\nmore", Some("secret")),
            ("ä\u{7f}b\r".as_bytes(), Some("b")),
            (b"\x7f\r", Some("")),
            (b"sec\x03", None),
            (b"sec", None),
        ] {
            assert_eq!(typed(bytes).unwrap().as_deref(), line, "{bytes:?}");
        }
    }
}
