//! The system tables that show what went wrong, and who holds snapshots.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array};
use lazybase_cluster::Status;
use lazybase_engine::manifest::PinStatus;

use super::{Columns, counts, moments, texts};

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
pub(super) fn pins(pins: &[PinStatus]) -> Columns {
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
    ]
}

fn seconds(values: impl Iterator<Item = f64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(values))
}
