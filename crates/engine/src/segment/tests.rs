//! Segments of both formats: what is written comes back, damage is found and named, persisted
//! bytes stay.

mod damage;
mod golden;
mod parquet;
mod round_trip;
mod row_page;
mod sample;
mod store;
mod versions;
