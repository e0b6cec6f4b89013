//! Views of what PostgreSQL counts of tables, of their keys, and of the process that writes in the
//! background: here nothing is counted by table, and what is not counted is not known.

use lazybase_model::Table;

use super::Row;
use super::described::{key_name, of_key, oid_of};
use crate::parse::SCHEMA;
use crate::visible::Visible;

pub(super) const COLUMNS: [(&str, &str); 4] = [
    (
        "pg_stat_bgwriter",
        "checkpoints_timed l?, checkpoints_req l?, checkpoint_write_time f?, \
         checkpoint_sync_time f?, buffers_checkpoint l?, buffers_clean l?, maxwritten_clean l?, \
         buffers_backend l?, buffers_backend_fsync l?, buffers_alloc l?, stats_reset m?",
    ),
    (
        "pg_stat_user_indexes",
        "relid o, indexrelid o, schemaname t, relname t, indexrelname t, idx_scan l?, \
         idx_tup_read l?, idx_tup_fetch l?",
    ),
    (
        "pg_stat_user_tables",
        "relid o, schemaname t, relname t, seq_scan l?, seq_tup_read l?, idx_scan l?, \
         idx_tup_fetch l?, n_tup_ins l?, n_tup_upd l?, n_tup_del l?, n_tup_hot_upd l?, \
         n_live_tup l?, n_dead_tup l?, n_mod_since_analyze l?, n_ins_since_vacuum l?, \
         last_vacuum m?, last_autovacuum m?, last_analyze m?, last_autoanalyze m?, \
         vacuum_count l?, autovacuum_count l?, analyze_count l?, autoanalyze_count l?",
    ),
    (
        "pg_statio_user_tables",
        "relid o, schemaname t, relname t, heap_blks_read l?, heap_blks_hit l?, idx_blks_read l?, \
         idx_blks_hit l?, toast_blks_read l?, toast_blks_hit l?, tidx_blks_read l?, \
         tidx_blks_hit l?",
    ),
];

/// The rows of one of these views.
pub(super) fn rows(name: &str, visible: &Visible) -> Vec<Row> {
    let tables = visible.tables();
    match name {
        "pg_stat_bgwriter" => vec![Row::new()],
        "pg_stat_user_indexes" => {
            let keyed = tables.iter().filter(|table| !table.hidden_key);
            keyed.map(|table| of_index(table)).collect()
        }
        _ => tables.iter().map(|table| named(table)).collect(),
    }
}

fn named(table: &Table) -> Row {
    vec![
        ("relid", oid_of(table).into()),
        ("schemaname", SCHEMA.into()),
        ("relname", table.name.clone().into()),
    ]
}

fn of_index(table: &Table) -> Row {
    let mut row = named(table);
    row.push(("indexrelid", of_key(table).into()));
    row.push(("indexrelname", key_name(table).into()));
    row
}
