//! Tables that describe what a statement sees: tables, columns, keys, comments.

use std::sync::Arc;

use lazybase_model::access::Access;
use lazybase_model::{ColumnDefault, Error, Result, Sequence, Table, ViewId};

use super::fixed::{ACCESS_METHOD, KEY_METHOD, PUBLIC};
use super::privileges::{acl, column_acl, role_oid};
use super::sequences::{self, default_of, oid_of_sequence};
use super::system::{self, SystemTable};
use super::types::of_column;
use super::{Cell, PG_CATALOG, Row};
use crate::access::{Gate, name_of};
use crate::definition::identifier;
use crate::parse::SCHEMA;
use crate::temporary::{self, PG_TEMP};
use crate::visible::{SeenSequence, Visible};

pub(super) const COLUMNS: [(&str, &str); 10] = [
    (
        "pg_class",
        "oid o, relname t, relnamespace o, reltype o, reloftype o, relowner o, relam o, \
         relfilenode o, reltablespace o, relpages i, reltuples f, relallvisible i, \
         reltoastrelid o, relhasindex b, relisshared b, relpersistence t, relkind t, relnatts s, \
         relchecks s, relhasrules b, relhastriggers b, relhassubclass b, relrowsecurity b, \
         relforcerowsecurity b, relispopulated b, relreplident t, relispartition b, \
         relrewrite o, relfrozenxid o, relminmxid o, relacl T?, reloptions T?, relpartbound t?, \
         tableoid o",
    ),
    (
        "pg_attribute",
        "attrelid o, attname t, atttypid o, attstattarget i, attlen s, attnum s, attndims i, \
         attcacheoff i, atttypmod i, attbyval b, attalign t, attstorage t, attcompression t, \
         attnotnull b, atthasdef b, atthasmissing b, attidentity t, attgenerated t, \
         attisdropped b, attislocal b, attinhcount i, attcollation o, attacl T?, attoptions T?, \
         attfdwoptions T?, attmissingval t?",
    ),
    (
        "pg_attrdef",
        "oid o, tableoid o, adrelid o, adnum s, adbin t",
    ),
    (
        "pg_index",
        "indexrelid o, indrelid o, indnatts s, indnkeyatts s, indisunique b, \
         indnullsnotdistinct b, indisprimary b, indisexclusion b, indimmediate b, \
         indisclustered b, indisvalid b, indcheckxmin b, indisready b, indislive b, \
         indisreplident b, indkey V, indcollation W, indclass W, indoption V, indexprs t?, \
         indpred t?",
    ),
    (
        "pg_constraint",
        "oid o, tableoid o, conname t, connamespace o, contype t, condeferrable b, condeferred b, \
         convalidated b, conrelid o, contypid o, conindid o, conparentid o, confrelid o, \
         confupdtype t, confdeltype t, confmatchtype t, conislocal b, coninhcount i, \
         connoinherit b, conkey S?, confkey S?, conpfeqop O?, conppeqop O?, conffeqop O?, \
         conexclop O?, conbin t?",
    ),
    (
        "pg_description",
        "objoid o, classoid o, objsubid i, description t",
    ),
    (
        "pg_tables",
        "schemaname t, tablename t, tableowner t, tablespace t?, hasindexes b, hasrules b, \
         hastriggers b, rowsecurity b",
    ),
    (
        "pg_matviews",
        "schemaname t, matviewname t, matviewowner t, tablespace t?, hasindexes b, \
         ispopulated b, definition t",
    ),
    (
        "pg_views",
        "schemaname t, viewname t, viewowner t, definition t",
    ),
    (
        "pg_indexes",
        "schemaname t, tablename t, indexname t, tablespace t?, indexdef t",
    ),
];

/// The number of `pg_class` itself, as other tables name it.
pub(super) const PG_CLASS: i64 = 1259;

/// Where the numbers of tables begin, as in PostgreSQL.
pub(super) const TABLES: i64 = 16_384;
const VIEWS: i64 = 1 << 28;
const KEYS: i64 = 1 << 29;
const CONSTRAINTS: i64 = 3 << 28;

/// The number of a table.
fn of_table(table: &Table) -> i64 {
    TABLES + i64::from(table.id.0)
}

fn of_view(view: &Table) -> i64 {
    VIEWS + i64::from(view.id.0)
}

/// The number of a table's key.
pub(super) fn of_key(table: &Table) -> i64 {
    KEYS + i64::from(table.id.0)
}

pub(super) fn of_constraint(table: &Table) -> i64 {
    CONSTRAINTS + i64::from(table.id.0)
}

/// The number of a table or a view.
pub(crate) fn oid_of(table: &Table) -> i64 {
    match table.view_of.is_some() || table.query.is_some() {
        true => of_view(table),
        false => of_table(table),
    }
}

/// How the names of primary keys end, after that of their table.
const KEY_ENDING: &str = "_pkey";

/// The name of a table's primary key.
pub(crate) fn key_name(table: &Table) -> String {
    format!("{}{KEY_ENDING}", table.name)
}

/// The columns of the primary key, counted from 1.
fn key_columns(table: &Table) -> Vec<i64> {
    table
        .key_indices()
        .into_iter()
        .map(|at| at as i64 + 1)
        .collect()
}

fn quoted_key(table: &Table) -> String {
    let names = table
        .key_indices()
        .into_iter()
        .map(|at| identifier(&table.columns[at].name));
    names.collect::<Vec<_>>().join(", ")
}

/// `PRIMARY KEY (...)`.
fn key_constraint(table: &Table) -> String {
    format!("PRIMARY KEY ({})", quoted_key(table))
}

/// `CREATE UNIQUE INDEX ...`, as PostgreSQL would have made the key.
fn key_definition(table: &Table) -> String {
    format!(
        "CREATE UNIQUE INDEX {} ON {SCHEMA}.{} USING btree ({})",
        identifier(&key_name(table)),
        identifier(&table.name),
        quoted_key(table)
    )
}

/// The schema and the name that a text says, as SQL reads them.
pub(crate) fn schema_and_name(text: &str) -> (Option<String>, String) {
    let (schema, name) = match text.rsplit_once('.') {
        Some((schema, name)) => {
            let schema = schema.trim().trim_matches('"').to_lowercase();
            (Some(schema), name.trim_start())
        }
        None => (None, text),
    };
    let quoted = name
        .strip_prefix('"')
        .and_then(|name| name.strip_suffix('"'));
    let name = match quoted {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => name.to_lowercase(),
    };
    (schema, name)
}

/// The names of things with numbers, for functions and casts.
pub(super) struct Numbered {
    visible: Visible,
    /// Who asks: how much there is may tell of what is hidden.
    gate: Gate,
}

/// Something with a number in `pg_class` or `pg_constraint`.
enum Thing {
    System(&'static SystemTable),
    Table(Arc<Table>),
    View(Arc<Table>),
    Key(Arc<Table>),
    Constraint(Arc<Table>),
    Sequence(Box<SeenSequence>),
}

impl Numbered {
    pub(super) fn new(visible: Visible, gate: Gate) -> Numbered {
        Numbered { visible, gate }
    }

    fn thing(&self, oid: i64) -> Option<Thing> {
        if let Some(table) = system::numbered(oid) {
            return Some(Thing::System(table));
        }
        let tables = self.visible.tables();
        for table in tables {
            match oid {
                oid if oid == of_table(&table) => return Some(Thing::Table(table)),
                oid if oid == of_key(&table) => return Some(Thing::Key(table)),
                oid if oid == of_constraint(&table) => return Some(Thing::Constraint(table)),
                _ => {}
            }
        }
        let views = self.visible.views().into_iter();
        let mut views = views.chain(self.visible.plain_views());
        if let Some(view) = views.find(|view| of_view(view) == oid) {
            return Some(Thing::View(view));
        }
        let mut sequences = self.visible.sequences().into_iter();
        let found = sequences.find(|seen| oid_of_sequence(seen.sequence.id) == oid);
        found.map(|seen| Thing::Sequence(Box::new(seen)))
    }

    /// The number of what a text names.
    pub(super) fn oid(&self, name: &str) -> Option<i64> {
        let name = name.trim();
        if let Ok(number) = name.parse() {
            return Some(number);
        }
        let (schema, name) = schema_and_name(name);
        if let Some(table) = system::named(schema.as_deref(), &name) {
            return Some(table.oid);
        }
        // What is the session's own stands before others, as PostgreSQL looks for it.
        let (own, others) = match schema.as_deref() {
            None => (true, true),
            Some(PG_TEMP) => (true, false),
            Some(SCHEMA) => (false, true),
            Some(_) => return None,
        };
        let under_own = || self.oid_under(&name, temporary::of_session);
        let under_others = || self.oid_under(&name, temporary::of_public);
        let found = own.then(under_own).flatten();
        found.or_else(|| others.then(under_others).flatten())
    }

    /// The number of a table, a view or a key whose schema's tables are found under other names.
    fn oid_under(&self, name: &str, found_under: impl Fn(&str) -> String) -> Option<i64> {
        let named = found_under(name);
        if let Some(table) = self.visible.table(&named) {
            return Some(of_table(&table));
        }
        if let Some(view) = self.visible.relation(&named) {
            return Some(of_view(&view));
        }
        if let Some(seen) = self.visible.sequence_named(&named) {
            return Some(oid_of_sequence(seen.sequence.id));
        }
        let keyed = name.strip_suffix(KEY_ENDING)?;
        let table = self.visible.table(&found_under(keyed))?;
        (!table.hidden_key).then(|| of_key(&table))
    }

    /// Whether the name of something with a number means it where it has no schema before it.
    pub(super) fn is_visible(&self, oid: i64) -> bool {
        if let Some(table) = system::numbered(oid) {
            return table.is_visible();
        }
        if self.visible.temporary.is_none() {
            return true;
        }
        match self.thing(oid) {
            Some(Thing::Table(table) | Thing::Key(table)) => {
                let named = self.visible.table(&table.name);
                named.is_some_and(|named| named.id == table.id)
            }
            Some(Thing::View(view)) => {
                let named = self.visible.relation(&view.name);
                named.is_some_and(|named| named.id == view.id)
            }
            _ => true,
        }
    }

    /// The number of what a text names, as a cast to `regclass` finds it: 0 where it names nothing
    /// on purpose.
    ///
    /// # Errors
    /// `NotFound` (42P01) for a name that nothing has, unless PostgreSQL may have a table of that
    /// name: what its tools compare with the number of one is then never equal.
    pub(super) fn named(&self, text: &str) -> Result<Option<i64>> {
        if text.trim() == "-" {
            return Ok(Some(0));
        }
        if let Some(oid) = self.oid(text) {
            return Ok(Some(oid));
        }
        let (schema, name) = schema_and_name(text.trim());
        let of_postgres = schema.as_deref().is_none_or(|schema| schema == PG_CATALOG);
        if of_postgres && name.starts_with("pg_") {
            return Ok(None);
        }
        let name = match schema {
            Some(schema) => format!("{schema}.{name}"),
            None => name,
        };
        Err(
            Error::not_found(format!("relation {name:?} does not exist"))
                .with_hint("to_regclass gives NULL for a name that nothing has")
                .with_sqlstate("42P01"),
        )
    }

    /// The table or view that a name or a number means.
    pub(super) fn table(&self, text: &str) -> Option<Arc<Table>> {
        match self.thing(self.oid(text)?) {
            Some(Thing::Table(table) | Thing::View(table)) => Some(table),
            _ => None,
        }
    }

    /// The sequence that a name or a number means.
    pub(super) fn sequence(&self, text: &str) -> Option<Sequence> {
        match self.thing(self.oid(text)?) {
            Some(Thing::Sequence(seen)) => Some(seen.sequence),
            _ => None,
        }
    }

    /// The table of the system that a name or a number means.
    pub(super) fn system(&self, text: &str) -> Option<&'static SystemTable> {
        system::numbered(self.oid(text)?)
    }

    /// The name of what a text means by its name or its number, with its schema where the name
    /// means something else; the number itself where nothing has it.
    ///
    /// # Errors
    /// Those of `named`.
    pub(super) fn name(&self, text: &str) -> Result<String> {
        let Some(oid) = self.named(text)? else {
            return Ok(text.to_owned());
        };
        let name = match self.thing(oid) {
            Some(Thing::System(table)) => return Ok(table.shown()),
            Some(Thing::Table(table) | Thing::View(table)) => identifier(&table.name),
            Some(Thing::Key(table) | Thing::Constraint(table)) => identifier(&key_name(&table)),
            Some(Thing::Sequence(seen)) => identifier(&seen.sequence.name),
            None if oid == 0 => "-".to_owned(),
            None => oid.to_string(),
        };
        Ok(match self.is_visible(oid) {
            true => name,
            false => format!("{SCHEMA}.{name}"),
        })
    }

    /// The statement that would make an index, or the name of one of its columns.
    pub(super) fn index_definition(&self, oid: i64, column: i64) -> Option<String> {
        let Some(Thing::Key(table)) = self.thing(oid) else {
            return None;
        };
        match usize::try_from(column)
            .ok()
            .and_then(|column| column.checked_sub(1))
        {
            None => Some(key_definition(&table)),
            Some(at) => {
                let at = *table.key_indices().get(at)?;
                Some(identifier(&table.columns[at].name))
            }
        }
    }

    /// The names of the columns of a table's key, with a text between them.
    pub(super) fn key_columns(&self, oid: i64, between: &str) -> Option<String> {
        let Some(Thing::Table(table)) = self.thing(oid) else {
            return None;
        };
        let key = table.key_indices().into_iter();
        let names: Vec<&str> = key.map(|at| table.columns[at].name.as_str()).collect();
        Some(names.join(between))
    }

    /// What a constraint says.
    pub(super) fn constraint_definition(&self, oid: i64) -> Option<String> {
        match self.thing(oid) {
            Some(Thing::Constraint(table)) => Some(key_constraint(&table)),
            _ => None,
        }
    }

    /// The query of a view.
    pub(super) fn view_definition(&self, oid: i64) -> Option<String> {
        match self.thing(oid) {
            Some(Thing::View(view)) => Some(crate::views::definition(&self.visible, &view)),
            _ => None,
        }
    }

    /// The default of a table's column, counted from 1.
    pub(super) fn default(&self, oid: i64, column: i64) -> Option<String> {
        let Some(Thing::Table(table)) = self.thing(oid) else {
            return None;
        };
        let at = usize::try_from(column).ok()?.checked_sub(1)?;
        default_of(&self.visible, table.columns.get(at)?)
    }

    /// The sequence that is of a column.
    pub(super) fn serial_sequence(&self, table: &str, column: &str) -> Option<String> {
        let table = self.table(table)?;
        sequences::serial_sequence(&self.visible, &table, column)
    }

    /// What an identity column's sequence is like.
    pub(super) fn identity_options(&self, table: &str, column: &str) -> Option<String> {
        let table = self.table(table)?;
        sequences::identity_options(&self.visible, &table, column)
    }

    /// Whether who asks may know how much there is of a table or a view: it may do something with
    /// it, and none of its rows and cells can be hidden.
    fn may_weigh(&self, table: &Table) -> bool {
        let sight = self.gate.sight();
        let base = table
            .view_of
            .and_then(|of| self.visible.manifest.tables.get(&of));
        let limited =
            sight.is_limited(table) || base.is_some_and(|base| sight.is_limited(&base.table));
        self.gate.sees(table) && !limited
    }

    /// The bytes that the stored runs of a table or a view take, by its name or number; nothing
    /// for who may not know.
    pub(super) fn bytes(&self, text: &str) -> Option<u64> {
        let table = match self.thing(self.oid(text)?)? {
            Thing::Table(table) | Thing::View(table) => table,
            Thing::System(_) | Thing::Key(_) | Thing::Constraint(_) | Thing::Sequence(_) => {
                return Some(0);
            }
        };
        if !self.may_weigh(&table) {
            return None;
        }
        Some(self.bytes_where(|view| view == table.primary.id))
    }

    /// How often the database was changed: a number that never falls.
    pub(super) fn edits(&self) -> u64 {
        self.visible.manifest.number
    }

    /// The bytes that all stored runs take, of which who asks may know.
    pub(super) fn all_bytes(&self) -> u64 {
        let superuser = self.gate.rights().superuser;
        // Runs of no table, such as those of one that was just dropped, are the superusers'.
        self.bytes_where(|view| {
            let state = self.visible.manifest.table_of_view(view);
            state.map_or(superuser, |state| self.may_weigh(&state.table))
        })
    }

    fn bytes_where(&self, counts: impl Fn(ViewId) -> bool) -> u64 {
        let manifest = &self.visible.manifest;
        let live = manifest.current_runs();
        let runs = manifest.runs.values();
        let counted = runs.filter(|run| live.contains(&run.id) && counts(run.view));
        counted.map(|run| run.bytes()).sum()
    }

    /// The comment of a table or a view, or of its column of that number.
    pub(super) fn comment(&self, oid: i64, column: i64) -> Option<String> {
        let table = match self.thing(oid)? {
            Thing::Table(table) => table,
            Thing::View(view) if view.query.is_some() => view,
            _ => return None,
        };
        match usize::try_from(column)
            .ok()
            .and_then(|column| column.checked_sub(1))
        {
            None => table.comment.clone(),
            Some(at) => table.columns.get(at)?.comment.clone(),
        }
    }
}

/// The rows of one of these tables.
pub(super) fn rows(name: &str, visible: &Visible, access: &Access) -> Vec<Row> {
    let tables = visible.tables();
    let keyed = || tables.iter().filter(|table| !table.hidden_key);
    match name {
        "pg_class" => classes(visible, access, &tables),
        "pg_attribute" => attributes(visible, access, &tables),
        "pg_attrdef" => {
            let defaults = tables.iter().flat_map(|table| defaults(visible, table));
            defaults.collect()
        }
        "pg_index" => keyed().map(|table| index(table)).collect(),
        "pg_constraint" => keyed().map(|table| constraint(table)).collect(),
        "pg_description" => {
            let views = visible.plain_views();
            let all = tables.iter().chain(&views);
            let of_all = all.flat_map(comments);
            std::iter::once(of_public()).chain(of_all).collect()
        }
        "pg_tables" => tables
            .iter()
            .map(|table| {
                vec![
                    ("schemaname", SCHEMA.into()),
                    ("tablename", table.name.clone().into()),
                    ("tableowner", owner(access, table).into()),
                    ("hasindexes", (!table.hidden_key).into()),
                ]
            })
            .collect(),
        "pg_matviews" => visible
            .views()
            .iter()
            .map(|view| {
                vec![
                    ("schemaname", SCHEMA.into()),
                    ("matviewname", view.name.clone().into()),
                    ("matviewowner", owner(access, view).into()),
                    ("ispopulated", true.into()),
                    ("definition", crate::views::definition(visible, view).into()),
                ]
            })
            .collect(),
        "pg_views" => visible
            .plain_views()
            .iter()
            .map(|view| {
                vec![
                    ("schemaname", SCHEMA.into()),
                    ("viewname", view.name.clone().into()),
                    ("viewowner", owner(access, view).into()),
                    ("definition", crate::views::definition(visible, view).into()),
                ]
            })
            .collect(),
        "pg_indexes" => keyed()
            .map(|table| {
                vec![
                    ("schemaname", SCHEMA.into()),
                    ("tablename", table.name.clone().into()),
                    ("indexname", key_name(table).into()),
                    ("indexdef", key_definition(table).into()),
                ]
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// The name of a table's owner.
fn owner(access: &Access, table: &Table) -> String {
    name_of(access, access.owner_of(table.id))
}

fn classes(visible: &Visible, access: &Access, tables: &[Arc<Table>]) -> Vec<Row> {
    let class = |of: &Table, oid: i64, name: String, kind: &str, columns: usize| -> Row {
        let method = if kind == "i" {
            KEY_METHOD
        } else {
            ACCESS_METHOD
        };
        let persistence = match visible.is_temporary(of.id) {
            true => "t",
            false => "p",
        };
        let mut row: Row = vec![
            ("oid", oid.into()),
            ("relname", name.into()),
            ("relnamespace", PUBLIC.into()),
            ("relowner", role_oid(access.owner_of(of.id)).into()),
            ("relam", method.into()),
            ("relfilenode", oid.into()),
            // How many rows there are is known once they are counted.
            ("reltuples", Cell::Float(-1.0)),
            ("relpersistence", persistence.into()),
            ("relkind", kind.into()),
            ("relnatts", (columns as i64).into()),
            ("relispopulated", true.into()),
            ("relreplident", if kind == "i" { "n" } else { "d" }.into()),
        ];
        if kind != "i" {
            row.extend(acl(access, of).map(|acl| ("relacl", acl)));
        }
        row
    };
    let mut rows = Vec::new();
    for table in tables {
        let (oid, columns) = (of_table(table), table.visible_columns());
        let mut row = class(table, oid, table.name.clone(), "r", columns);
        row.push(("relhasindex", (!table.hidden_key).into()));
        rows.push(row);
        if !table.hidden_key {
            let columns = table.key_indices().len();
            rows.push(class(table, of_key(table), key_name(table), "i", columns));
        }
    }
    for view in visible.views() {
        let columns = view.visible_columns();
        rows.push(class(
            &view,
            of_view(&view),
            view.name.clone(),
            "m",
            columns,
        ));
    }
    for view in visible.plain_views() {
        let (oid, columns) = (of_view(&view), view.columns.len());
        let mut row = class(&view, oid, view.name.clone(), "v", columns);
        // It has no rows of its own.
        row.retain(|(name, _)| !["relam", "relfilenode"].contains(name));
        rows.push(row);
    }
    rows.extend(sequences::classes(visible, access));
    rows
}

fn attributes(visible: &Visible, access: &Access, tables: &[Arc<Table>]) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |oid: i64, table: &Table, columns: &[usize]| {
        for (at, column) in columns.iter().enumerate() {
            let column = &table.columns[*column];
            let (data_type, modifier) = of_column(column);
            let known = super::types::TYPES
                .iter()
                .find(|known| known.oid == data_type);
            let length = known.map_or(-1, |known| known.length);
            // That of an identity column is no default.
            let has_default = column.default != ColumnDefault::Null && column.identity.is_none();
            let is_of_table = oid == of_table(table) && table.view_of.is_none();
            let identity = column.identity.filter(|_| is_of_table);
            let mut row: Row = vec![
                ("attrelid", oid.into()),
                ("attname", column.name.clone().into()),
                ("atttypid", i64::from(data_type).into()),
                ("attstattarget", (-1).into()),
                ("attlen", i64::from(length).into()),
                ("attnum", (at as i64 + 1).into()),
                ("attndims", i64::from(known.is_none()).into()),
                ("attcacheoff", (-1).into()),
                ("atttypmod", modifier.into()),
                ("attalign", "i".into()),
                ("attstorage", if length < 0 { "x" } else { "p" }.into()),
                ("attnotnull", (!column.nullable).into()),
                ("atthasdef", has_default.into()),
                ("attidentity", sequences::letter(identity).into()),
                ("attislocal", true.into()),
            ];
            row.extend(column_acl(access, table, column.id).map(|acl| ("attacl", acl)));
            rows.push(row);
        }
    };
    for table in tables {
        let columns: Vec<usize> = (0..table.visible_columns()).collect();
        add(of_table(table), table, &columns);
        if !table.hidden_key {
            add(of_key(table), table, &table.key_indices());
        }
    }
    for view in visible.views().into_iter().chain(visible.plain_views()) {
        let columns: Vec<usize> = (0..view.visible_columns()).collect();
        add(of_view(&view), &view, &columns);
    }
    rows
}

/// The number of the default of a table's column at a place.
pub(super) fn of_default(table: &Table, at: usize) -> i64 {
    of_constraint(table) + (1 << 26) + at as i64
}

fn defaults(visible: &Visible, table: &Table) -> Vec<Row> {
    let columns = table.columns[..table.visible_columns()].iter().enumerate();
    let default = columns.filter_map(|(at, column)| {
        let text = default_of(visible, column)?;
        Some(vec![
            ("oid", of_default(table, at).into()),
            ("adrelid", of_table(table).into()),
            ("adnum", (at as i64 + 1).into()),
            ("adbin", text.into()),
        ])
    });
    default.collect()
}

fn index(table: &Arc<Table>) -> Row {
    let key = key_columns(table);
    let zeros = vec![0; key.len()];
    vec![
        ("indexrelid", of_key(table).into()),
        ("indrelid", of_table(table).into()),
        ("indnatts", (key.len() as i64).into()),
        ("indnkeyatts", (key.len() as i64).into()),
        ("indisunique", true.into()),
        ("indisprimary", true.into()),
        ("indimmediate", true.into()),
        ("indisvalid", true.into()),
        ("indisready", true.into()),
        ("indislive", true.into()),
        ("indkey", Cell::Ints(key)),
        ("indcollation", Cell::Ints(zeros.clone())),
        ("indclass", Cell::Ints(zeros.clone())),
        ("indoption", Cell::Ints(zeros)),
    ]
}

fn constraint(table: &Arc<Table>) -> Row {
    vec![
        ("oid", of_constraint(table).into()),
        ("conname", key_name(table).into()),
        ("connamespace", PUBLIC.into()),
        ("contype", "p".into()),
        ("convalidated", true.into()),
        ("conrelid", of_table(table).into()),
        ("conindid", of_key(table).into()),
        ("conislocal", true.into()),
        ("connoinherit", true.into()),
        ("conkey", Cell::Ints(key_columns(table))),
    ]
}

/// What PostgreSQL says of the schema that all tables are in: a dump would take it away, were it
/// not there.
fn of_public() -> Row {
    vec![
        ("objoid", PUBLIC.into()),
        ("classoid", system::number_of("pg_namespace").into()),
        ("description", "standard public schema".into()),
    ]
}

fn comments(table: &Arc<Table>) -> Vec<Row> {
    let own = table.comment.clone().map(|comment| (0, comment));
    let columns = table.columns[..table.visible_columns()].iter().enumerate();
    let columns = columns.filter_map(|(at, column)| Some((at as i64 + 1, column.comment.clone()?)));
    let row = |(number, comment): (i64, String)| -> Row {
        vec![
            ("objoid", oid_of(table).into()),
            ("classoid", PG_CLASS.into()),
            ("objsubid", number.into()),
            ("description", comment.into()),
        ]
    };
    own.into_iter().chain(columns).map(row).collect()
}
