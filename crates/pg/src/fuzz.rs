//! What clients send, as a function over bytes: for fuzzing, and for the corpus that tests read. No
//! bytes make it panic, hang, or take memory that they do not pay for.
//!
//! Reads its argument alone. Nothing else calls it.

use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, TimeUnit};
use bytes::{BufMut, Bytes, BytesMut};
pub use lazybase_query::fuzz::Target;
#[cfg(fuzzing)]
pub use lazybase_query::fuzz::memory;

use crate::copy::binary_rows;
use crate::messages::{self, Message};
use crate::{cursors, entry, parameters, startup, types, words};

#[cfg(test)]
mod tests;

/// Every target with its name, as the corpus and `fuzz/run` have it.
pub const TARGETS: [(&str, Target); 2] = [("messages", read_messages), ("startup", read_startup)];

/// What comes before anybody is let in: a startup message without its length, with the settings in
/// its options; the same bytes as the first message of a SASL exchange.
pub fn read_startup(bytes: &[u8]) {
    for binds in [false, true] {
        let _ = entry::initial(Bytes::copy_from_slice(bytes), binds);
    }
    // Shorter and longer ones are refused before they are looked at.
    if !(4..startup::STARTUP_BYTES_MAX - 4).contains(&bytes.len()) {
        return;
    }
    let mut packet = BytesMut::with_capacity(bytes.len() + 4);
    packet.put_u32(bytes.len() as u32 + 4);
    packet.extend_from_slice(bytes);
    if let Ok((parameters, _)) = startup::parsed(packet) {
        let _ = startup::user(&parameters);
        if let Some(options) = parameters.get("options") {
            let _ = startup::settings(options);
        }
    }
}

/// The messages of a connection: values as those of every type, in both formats; texts as what the
/// protocol itself looks for in them; data of a COPY as binary rows.
pub fn read_messages(bytes: &[u8]) {
    let mut left = BytesMut::from(bytes);
    while let Ok(Some(message)) = messages::take(&mut left) {
        match message {
            Message::Query(sql) | Message::Parse { sql, .. } => {
                words::kind(&sql);
                let _ = cursors::read(&sql);
            }
            Message::Bind(bind) => {
                for (at, value) in bind.values.iter().enumerate() {
                    for field in every_type().fields() {
                        let oid = types::of_field(field);
                        for format in [0, 1] {
                            let _ = parameters::value(at + 1, oid, format, value.as_ref());
                        }
                    }
                }
            }
            Message::CopyData(data) => {
                let _ = binary_rows(&every_type(), &data);
            }
            _ => {}
        }
    }
}

/// Columns that a binary COPY reads each in its own way.
fn every_type() -> Schema {
    let columns = [
        DataType::Boolean,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::Float32,
        DataType::Float64,
        DataType::Binary,
        DataType::Date32,
        DataType::Time64(TimeUnit::Microsecond),
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::Decimal128(20, 3),
        DataType::FixedSizeBinary(16),
        DataType::new_list(DataType::Int32, true),
        DataType::new_list(DataType::Utf8, true),
        DataType::Utf8,
    ];
    let field = |(at, data_type): (usize, DataType)| Field::new(format!("c{at}"), data_type, true);
    Schema::new(
        columns
            .into_iter()
            .enumerate()
            .map(field)
            .collect::<Vec<_>>(),
    )
}
