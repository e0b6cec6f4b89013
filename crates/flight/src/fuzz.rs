//! What clients send, as functions over bytes: for fuzzing, and for the corpus that tests read. No
//! bytes make one of them panic, hang, or take memory that they do not pay for.
//!
//! Reads its argument; calls are those of a database in memory, whose rows nobody reads or writes.
//! Nothing else calls it.

use arrow_flight::FlightData;
use bytes::{Buf, Bytes};
use futures::executor::block_on;
use futures::stream::{self, StreamExt};
pub use lazybase_query::fuzz::Target;
#[cfg(fuzzing)]
pub use lazybase_query::fuzz::memory;

use crate::input::{Messages, command};

mod calls;
#[cfg(test)]
mod tests;

pub use calls::read_calls;

/// Every target with its name, as the corpus and `fuzz/run` have it.
pub const TARGETS: [(&str, Target); 2] = [("flight", read_put), ("calls", read_calls)];

/// The messages of a DoPut, whose first is the command: of each, two bytes say how long its header
/// is, four how long its body, both little-endian, and then these follow.
pub fn read_put(bytes: &[u8]) {
    let mut left = Bytes::copy_from_slice(bytes);
    let mut messages = Vec::new();
    while left.len() >= 6 {
        let (header, body) = (left.get_u16_le() as usize, left.get_u32_le() as usize);
        let header = left.split_to(header.min(left.len()));
        let body = left.split_to(body.min(left.len()));
        messages.push(FlightData {
            data_header: header,
            data_body: body,
            ..FlightData::default()
        });
    }
    let Some(first) = messages.first_mut() else {
        return;
    };
    let _ = command(&std::mem::take(&mut first.data_body));
    let messages = Messages::new(stream::iter(messages.into_iter().map(Ok)));
    block_on(async {
        if let Ok(batches) = messages.batches().await {
            let _ = batches.rows.count().await;
        }
    });
}
