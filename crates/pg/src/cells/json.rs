//! Lists of lists and structs as JSON.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use bytes::{BufMut, BytesMut};

use super::{Values, span};

/// Appends the value in a row.
pub(super) fn put(array: &ArrayRef, row: usize, out: &mut BytesMut) {
    if array.is_null(row) {
        out.put_slice(b"null");
        return;
    }
    match array.data_type() {
        DataType::Struct(fields) => {
            out.put_u8(b'{');
            for (at, field) in fields.iter().enumerate() {
                if at > 0 {
                    out.put_u8(b',');
                }
                put_text(field.name(), out);
                out.put_u8(b':');
                put(array.as_struct().column(at), row, out);
            }
            out.put_u8(b'}');
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let (from, to) = span(list, row);
            out.put_u8(b'[');
            for at in from..to {
                if at > from {
                    out.put_u8(b',');
                }
                put(list.values(), at, out);
            }
            out.put_u8(b']');
        }
        DataType::Boolean => {
            let value = array.as_boolean().value(row);
            out.put_slice(if value { b"true" } else { b"false" });
        }
        data_type => put_plain(array, row, data_type.is_numeric(), out),
    }
}

fn put_plain(array: &ArrayRef, row: usize, is_number: bool, out: &mut BytesMut) {
    let field = arrow::datatypes::Field::new("", array.data_type().clone(), true);
    let mut text = BytesMut::new();
    if let Ok(values) = Values::new(&field, array) {
        values.put_text(row, &mut text);
    }
    let text = String::from_utf8_lossy(&text);
    match is_number && !text.contains(['N', 'I']) {
        true => out.put_slice(text.as_bytes()),
        false => put_text(&text, out),
    }
}

fn put_text(text: &str, out: &mut BytesMut) {
    out.put_u8(b'"');
    for c in text.chars() {
        match c {
            '"' => out.put_slice(b"\\\""),
            '\\' => out.put_slice(b"\\\\"),
            '\n' => out.put_slice(b"\\n"),
            '\r' => out.put_slice(b"\\r"),
            '\t' => out.put_slice(b"\\t"),
            c if c < ' ' => out.put_slice(format!("\\u{:04x}", c as u32).as_bytes()),
            c => out.put_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.put_u8(b'"');
}
