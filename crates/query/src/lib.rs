//! SQL with freshness over a running database: beside `lazybase-plan` the only crate that names
//! DataFusion.
//!
//! ```text
//!   text -> split -> parse (+ clauses) -> session -> read  -> point: Snapshot::get, or
//!                                                             DataFusion over one snapshot
//!                                                 -> dml   -> ChangeBatches -> BatchWriter, or
//!                                                             the transaction's buffer
//!                                                 -> ddl, copy, show, explain
//!   Arrow batches -> appender -> ChangeBatches -> BatchWriter
//!                 -> ingest   -> a table that may be made first; the transaction, if there is one
//! ```
//!
//! Everything that can be decided without a snapshot (which predicate is a full key, which bounds
//! follow from a filter, what a value becomes in its column) is a plain function with tests of
//! its own; what an answer is made of comes from `lazybase-engine`.

mod access;
mod activity;
mod advisory;
mod alter;
mod answer;
mod appender;
mod array_text;
mod cast;
mod catalog;
mod changes;
mod clauses;
mod context;
mod copy;
mod cursors;
mod database;
mod ddl;
mod definition;
mod dml;
mod error;
mod expansion;
mod explain;
mod floats;
pub mod fuzz;
mod generated;
pub mod guard;
mod heavy;
mod hex;
mod hidden;
mod id_keys;
mod information_schema;
mod ingest;
mod kept_row;
mod key_order;
mod keys;
mod labels;
mod literal;
mod memory;
mod moments;
mod named_statements;
mod notice;
pub mod observe;
mod origins;
mod parse;
mod pg_catalog;
pub mod plain;
mod plain_views;
mod planner;
mod point;
mod prepared;
mod producer;
mod prune;
mod read;
mod scan;
mod sequences;
mod session;
mod settings;
mod show;
mod sleep;
mod split;
mod state;
mod system_tables;
mod table;
mod temporary;
pub mod text_form;
mod text_places;
mod told;
mod transaction;
mod types;
mod upkeep;
mod value;
mod views;
mod visible;
mod walk;

pub use access::attempts::{Attempts, Turn};
pub use access::authenticate::{Authenticated, Challenge, wrong_password};
pub use activity::{Attended, End, Peer, Places};
pub use answer::{Answer, AnswerStream, Columns, Definitions};
pub use appender::{Appender, Op};
pub use array_text::{array_elements, put_array_element};
pub use cast::texts_as;
pub use copy::{
    BYTE_ORDER_MARK, CopyInput, CopyPlan, CopyStyle, CsvSpelling, CsvWriter, FileForm,
    ForcedColumns, JsonColumn, JsonObject, LinesBefore, RowFormat, RowsFile, copy_input, csv_texts,
    json_lines, json_objects, json_rows, json_texts,
};
pub use cursors::{CursorFacts, ListedCursor};
pub use database::{Database, OpenOptions, SessionDefaults};
pub use error::{arrow_fact, nearest, nul_byte, parquet_fact};
pub use hex::{from_hex, from_uuid, put_hex, put_uuid};
pub use ingest::{IfAbsent, IfPresent, Ingest};
pub use kept_row::KeptRow;
pub use lazybase_engine::segment::Cell;
pub use notice::{Notice, Severity};
pub use origins::Origin;
pub use parse::{checked_name, redacted};
pub use pg_catalog::types::{pg_array_of, pg_element_of, pg_type_of};
pub use prepared::Prepared;
pub use session::{Session, TransactionStatus};
pub use settings::{own_settings, zone_notice};
pub use split::{Placed, is_complete, split_script, split_statements, with_writes};
pub use system_tables::NAMES as SYSTEM_TABLES;
pub use types::{may_fit, of_data};
pub use value::Value;
