//! An attempt at remapping: numbers for the natural keys of SCUs, in their order.
//!
//! It writes nothing: the numbers are kept with the SCUs in memory, for sorts and readers, and
//! follow from log, map and next numbers if they are needed again.

use std::collections::BTreeMap;
use std::sync::Arc;

use lazybase_engine::read::Identifier;
use lazybase_engine::stages::ingest::UnsortedScu;
use lazybase_model::{Error, Result};

use super::Traffic;
use crate::task::Output;

pub(super) async fn attempt(
    traffic: &Traffic,
    ids: &Identifier,
    scus: &[Arc<UnsortedScu>],
) -> Result<Output> {
    // The last first: it gives numbers to those before it, with one look into the map.
    if let Some(last) = scus.last() {
        ids.remap(last).await?;
    }
    let mut next_ids = BTreeMap::new();
    for scu in scus {
        let next = ids.remap(scu).await?;
        if !next.is_empty() {
            next_ids.insert(scu.scu(), next);
        }
        traffic.read(scu.raw_bytes());
    }
    let last = scus.last().map(|scu| scu.scu());
    let through = last.ok_or_else(|| Error::internal("there is nothing to remap"))?;
    Ok(Output::Remapped { through, next_ids })
}
