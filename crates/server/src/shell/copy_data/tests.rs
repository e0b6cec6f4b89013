//! Tests of `shell::copy_data`.

use std::io::{Cursor, Read};

use super::*;

fn data(script: &Script, kind: CopyInput) -> String {
    let mut text = String::new();
    script
        .copy_data(kind, &Interrupt::default())
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    text
}

#[test]
fn data_end_at_their_line_and_the_script_goes_on() {
    let script = Script::new(Cursor::new("COPY\n1,\\.\n2\r\n\\.\r\nSELECT\n3\n"));
    assert_eq!(script.line().unwrap(), Some(("COPY".to_owned(), 1)));
    assert_eq!(data(&script, CopyInput::Lines), "1,\\.\n2\r\n");
    assert_eq!(script.line().unwrap(), Some(("SELECT".to_owned(), 5)));
    assert_eq!(data(&script, CopyInput::Lines), "3\n");
    assert_eq!(script.line().unwrap(), None);
    let interrupt = Interrupt::default();
    assert!(script.copy_data(CopyInput::Bytes, &interrupt).is_err());
}

#[test]
fn interrupted_data_end_with_an_error() {
    for (text, lines) in [("1\n2\n", 1), ("1\n", 1), ("1\n\\.\n", 1), ("", 0)] {
        let script = Script::new(Cursor::new(text));
        let interrupt = Interrupt::default();
        let mut data = script.copy_data(CopyInput::Lines, &interrupt).unwrap();
        for _ in 0..lines {
            let taken = data.fill_buf().unwrap().len();
            assert_eq!(taken, 2, "{text:?}");
            data.consume(taken);
        }
        interrupt.set();
        for _ in 0..2 {
            assert!(data.fill_buf().is_err(), "{text:?}");
        }
        script.skip_copy_data(CopyInput::Lines, &interrupt).unwrap();
    }
}
