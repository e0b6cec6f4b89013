//! The system tables that show what went wrong, and who holds snapshots.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array};
use lazybase_cluster::lag::Lag;
use lazybase_cluster::{HeldPin, Status};

use super::{Columns, counts, moments, texts};

/// How far stages are behind what is sealed, of all tables or of each.
pub(super) fn lag(lags: &[Lag], of_tables: bool) -> Columns {
    let mut columns: Columns = Vec::with_capacity(5);
    if of_tables {
        let tables = lags.iter().map(|lag| lag.table.clone());
        columns.push(("table_name", texts(tables)));
    }
    columns.push(("stage", texts(lags.iter().map(|lag| Some(lag.stage)))));
    let through = lags.iter().map(|lag| lag.through.0);
    columns.push(("through_scu", counts(through)));
    let behind = lags.iter().map(|lag| lag.scus_behind);
    columns.push(("scus_behind", counts(behind)));
    let behind = lags.iter().map(|lag| lag.micros_behind as f64 / 1e6);
    columns.push(("seconds_behind", seconds(behind)));
    columns
}

/// The last things that went wrong in the background.
pub(super) fn troubles(status: &Status) -> Columns {
    let troubles = || status.troubles.iter();
    vec![
        (
            "last_seen",
            moments(troubles().map(|trouble| Some(trouble.micros))),
        ),
        ("times", counts(troubles().map(|trouble| trouble.times))),
        (
            "message",
            texts(troubles().map(|trouble| Some(trouble.message.clone()))),
        ),
    ]
}

/// Who holds snapshots, and how old they are.
pub(super) fn pins(held: &[HeldPin]) -> Columns {
    let pins: Vec<_> = held.iter().map(|held| &held.pin).collect();
    vec![
        (
            "owner",
            texts(pins.iter().map(|pin| Some(pin.owner.clone()))),
        ),
        (
            "horizon",
            texts(pins.iter().map(|pin| Some(pin.horizon.to_string()))),
        ),
        ("manifest", counts(pins.iter().map(|pin| pin.manifest))),
        (
            "age_seconds",
            seconds(pins.iter().map(|pin| pin.age.as_secs_f64())),
        ),
        (
            "held_bytes",
            counts(held.iter().map(|held| held.held_bytes)),
        ),
    ]
}

/// Who waits for the pipeline at this moment, and why; that all are refused stands before it.
pub(super) fn back_pressure(status: &Status) -> Columns {
    let refused = status.failed_sync.iter();
    let refused = refused.map(|failed| ("every writer".to_owned(), failed.to_string()));
    let waiting = status.waiting.iter();
    let waiting = waiting.map(|writer| (writer.who.clone(), writer.why.clone()));
    let mut waiting: Vec<(String, String)> = refused.chain(waiting).collect();
    if let (true, Some(why)) = (waiting.is_empty(), &status.throttle) {
        waiting.push(("the next writer".to_owned(), why.clone()));
    }
    vec![
        (
            "who",
            texts(waiting.iter().map(|(who, _)| Some(who.as_str()))),
        ),
        (
            "why",
            texts(waiting.iter().map(|(_, why)| Some(why.as_str()))),
        ),
    ]
}

fn seconds(values: impl Iterator<Item = f64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(values))
}
