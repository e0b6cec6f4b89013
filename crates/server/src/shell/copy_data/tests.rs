//! Tests of `shell::copy_data`.

use std::io::{Cursor, Read};

use super::*;

fn data(script: &Script, kind: CopyInput) -> String {
    let mut text = String::new();
    script
        .copy_data(kind)
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
    assert!(script.copy_data(CopyInput::Bytes).is_err());
}
