//! Tables that are the same for every statement: types, schemas, and those that never have a row
//! here.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::types::TYPES;
use super::{Cell, Row};
use crate::parse::CATALOG;

/// The numbers of the schemas.
pub(super) const PG_NAMESPACE: i64 = 11;
pub(super) const PUBLIC: i64 = 2200;
pub(super) const OF_STANDARD: i64 = 13_000;
pub(super) const OF_SYSTEM: i64 = 13_001;
/// The schemas that there are.
pub(super) const SCHEMAS: [(i64, &str); 4] = [
    (PG_NAMESPACE, "pg_catalog"),
    (PUBLIC, "public"),
    (OF_STANDARD, "information_schema"),
    (OF_SYSTEM, "lazybase"),
];

/// The owner of everything.
pub(super) const OWNER: i64 = 10;

/// How tables are stored.
pub(super) const ACCESS_METHOD: i64 = 2;
/// How keys are.
pub(super) const KEY_METHOD: i64 = 403;

pub(super) const COLUMNS: [(&str, &str); 4] = [
    (
        "pg_namespace",
        "oid o, nspname t, nspowner o, nspacl T?, tableoid o",
    ),
    (
        "pg_type",
        "oid o, typname t, typnamespace o, typowner o, typlen s, typbyval b, typtype t, \
         typcategory t, typispreferred b, typisdefined b, typdelim t, typrelid o, typsubscript t, \
         typelem o, typarray o, typinput t, typoutput t, typreceive t, typsend t, typmodin t, \
         typmodout t, typanalyze t, typalign t, typstorage t, typnotnull b, typbasetype o, \
         typtypmod i, typndims i, typcollation o, typdefaultbin t?, typdefault t?, typacl T?, \
         tableoid o",
    ),
    (
        "pg_am",
        "oid o, amname t, amhandler t, amtype t, tableoid o",
    ),
    (
        "pg_tablespace",
        "oid o, spcname t, spcowner o, spcacl T?, spcoptions T?",
    ),
];

/// What is told of functions.
const OF_FUNCTIONS: &str = "oid o, proname t, pronamespace o, proowner o, prolang o, prokind t, \
     prorettype o, pronargs s, proargtypes O, proallargtypes O?, proargmodes T?, proargnames T?, \
     proargdefaults t?, proretset b, prosrc t?, proisstrict b, provolatile t, proacl T?, \
     tableoid o";

/// The functions that read and write values of types: what stands for `pg_proc` where it is joined
/// by what `pg_type` names.
pub(super) const TYPE_FUNCTIONS: (&str, &str) = ("pg_proc_of_types", OF_FUNCTIONS);

/// The numbers of these functions begin here.
const FUNCTIONS_FROM: i64 = 12_000;

/// What LazyBase does not have.
pub(super) const EMPTY: [(&str, &str); 51] = [
    (
        "pg_aggregate",
        "aggfnoid t, aggkind t, aggnumdirectargs s, aggtransfn t, aggfinalfn t, aggsortop o, \
         aggtranstype o, agginitval t?",
    ),
    (
        "pg_amop",
        "oid o, amopfamily o, amoplefttype o, amoprighttype o, amopstrategy s, amoppurpose t, \
         amopopr o, amopmethod o, amopsortfamily o",
    ),
    (
        "pg_amproc",
        "oid o, amprocfamily o, amproclefttype o, amprocrighttype o, amprocnum s, amproc o",
    ),
    (
        "pg_available_extension_versions",
        "name t, version t, installed b, superuser b, trusted b, relocatable b, schema t?, \
         requires T?, comment t?",
    ),
    (
        "pg_available_extensions",
        "name t, default_version t, installed_version t?, comment t?",
    ),
    (
        "pg_cast",
        "oid o, tableoid o, castsource o, casttarget o, castfunc o, castcontext t, castmethod t",
    ),
    (
        "pg_collation",
        "oid o, tableoid o, collname t, collnamespace o, collowner o, collprovider t, \
         collisdeterministic b, collencoding i, collcollate t?, collctype t?, colliculocale t?",
    ),
    (
        "pg_conversion",
        "oid o, tableoid o, conname t, connamespace o, conowner o, conforencoding i, \
         contoencoding i, conproc t, condefault b",
    ),
    (
        "pg_depend",
        "classid o, objid o, objsubid i, refclassid o, refobjid o, refobjsubid i, deptype t",
    ),
    (
        "pg_enum",
        "oid o, enumtypid o, enumsortorder f, enumlabel t",
    ),
    (
        "pg_event_trigger",
        "oid o, tableoid o, evtname t, evtevent t, evtowner o, evtfoid o, evtenabled t, evttags T?",
    ),
    (
        "pg_extension",
        "oid o, extname t, extowner o, extnamespace o, extrelocatable b, extversion t",
    ),
    (
        "pg_foreign_data_wrapper",
        "oid o, tableoid o, fdwname t, fdwowner o, fdwhandler t, fdwvalidator t, fdwacl T?, \
         fdwoptions T?",
    ),
    (
        "pg_foreign_server",
        "oid o, tableoid o, srvname t, srvowner o, srvfdw o, srvtype t?, srvversion t?, srvacl T?, \
         srvoptions T?",
    ),
    ("pg_foreign_table", "ftrelid o, ftserver o, ftoptions T?"),
    (
        "pg_inherits",
        "inhrelid o, inhparent o, inhseqno i, inhdetachpending b",
    ),
    (
        "pg_language",
        "oid o, tableoid o, lanname t, lanowner o, lanispl b, lanpltrusted b, lanplcallfoid o, \
         laninline o, lanvalidator o, lanacl T?",
    ),
    ("pg_largeobject_metadata", "oid o, lomowner o, lomacl T?"),
    (
        "pg_opclass",
        "oid o, tableoid o, opcmethod o, opcname t, opcnamespace o, opcowner o, opcfamily o, \
         opcintype o, opcdefault b, opckeytype o",
    ),
    (
        "pg_operator",
        "oid o, tableoid o, oprname t, oprnamespace o, oprowner o, oprkind t, oprleft o, \
         oprright o, oprresult o, oprcode t",
    ),
    (
        "pg_opfamily",
        "oid o, tableoid o, opfmethod o, opfname t, opfnamespace o, opfowner o",
    ),
    ("pg_parameter_acl", "oid o, parname t, paracl T?"),
    (
        "pg_partitioned_table",
        "partrelid o, partstrat t, partnatts s, partdefid o, partattrs S, partclass T",
    ),
    (
        "pg_policies",
        "schemaname t, tablename t, policyname t, permissive t, roles T, cmd t, qual t?, \
         with_check t?",
    ),
    (
        "pg_policy",
        "oid o, tableoid o, polname t, polrelid o, polcmd t, polpermissive b, polroles O, \
         polqual t?, polwithcheck t?",
    ),
    (
        "pg_prepared_xacts",
        "transaction o, gid t, prepared m, owner t, database t",
    ),
    ("pg_proc", OF_FUNCTIONS),
    (
        "pg_publication",
        "oid o, tableoid o, pubname t, pubowner o, puballtables b, pubinsert b, pubupdate b, \
         pubdelete b, pubtruncate b, pubviaroot b",
    ),
    (
        "pg_publication_namespace",
        "oid o, tableoid o, pnpubid o, pnnspid o",
    ),
    (
        "pg_publication_rel",
        "oid o, tableoid o, prpubid o, prrelid o, prqual t?, prattrs S?",
    ),
    (
        "pg_publication_tables",
        "pubname t, schemaname t, tablename t, attnames T?, rowfilter t?",
    ),
    (
        "pg_range",
        "rngtypid o, rngsubtype o, rngmultitypid o, rngcollation o, rngsubopc o",
    ),
    (
        "pg_replication_slots",
        "slot_name t, plugin t?, slot_type t, datoid o?, database t?, temporary b, active b, \
         active_pid i?, xmin o?, catalog_xmin o?, restart_lsn t?, confirmed_flush_lsn t?, \
         wal_status t?",
    ),
    (
        "pg_rewrite",
        "oid o, tableoid o, rulename t, ev_class o, ev_type t, ev_enabled t, is_instead b",
    ),
    (
        "pg_rules",
        "schemaname t, tablename t, rulename t, definition t",
    ),
    (
        "pg_seclabels",
        "objoid o, classoid o, objsubid i, objtype t, objnamespace o, objname t, provider t, \
         label t",
    ),
    ("pg_shdescription", "objoid o, classoid o, description t"),
    ("pg_shseclabel", "objoid o, classoid o, provider t, label t"),
    (
        "pg_stat_replication",
        "pid i, usesysid o, usename t, application_name t, client_addr t?, client_hostname t?, \
         client_port i?, backend_start m, backend_xmin o?, state t, sent_lsn t?, write_lsn t?, \
         flush_lsn t?, replay_lsn t?, sync_priority i, sync_state t, reply_time m?",
    ),
    (
        "pg_statistic_ext",
        "oid o, tableoid o, stxrelid o, stxname t, stxnamespace o, stxowner o, stxstattarget i, \
         stxkeys S, stxkind T",
    ),
    (
        "pg_stats",
        "schemaname t, tablename t, attname t, inherited b, null_frac f, avg_width i, \
         n_distinct f, most_common_vals T?, most_common_freqs F?, histogram_bounds T?, \
         correlation f?, most_common_elems T?, most_common_elem_freqs F?, \
         elem_count_histogram F?",
    ),
    (
        "pg_subscription",
        "oid o, tableoid o, subdbid o, subskiplsn t, subname t, subowner o, subenabled b, \
         subbinary b, substream b, subtwophasestate t, subdisableonerr b, subconninfo t, \
         subslotname t?, subsynccommit t, subpublications T",
    ),
    (
        "pg_transform",
        "oid o, tableoid o, trftype o, trflang o, trffromsql o, trftosql o",
    ),
    (
        "pg_trigger",
        "oid o, tableoid o, tgrelid o, tgparentid o, tgname t, tgfoid o, tgtype s, tgenabled t, \
         tgisinternal b, tgconstrrelid o, tgconstrindid o, tgconstraint o, tgdeferrable b, \
         tginitdeferred b",
    ),
    (
        "pg_ts_config",
        "oid o, tableoid o, cfgname t, cfgnamespace o, cfgowner o, cfgparser o",
    ),
    (
        "pg_ts_config_map",
        "mapcfg o, maptokentype i, mapseqno i, mapdict o",
    ),
    (
        "pg_ts_dict",
        "oid o, tableoid o, dictname t, dictnamespace o, dictowner o, dicttemplate o, \
         dictinitoption t?",
    ),
    (
        "pg_ts_parser",
        "oid o, tableoid o, prsname t, prsnamespace o, prsstart t, prstoken t, prsend t, \
         prsheadline t, prslextype t",
    ),
    (
        "pg_ts_template",
        "oid o, tableoid o, tmplname t, tmplnamespace o, tmplinit t, tmpllexize t",
    ),
    (
        "pg_user_mapping",
        "oid o, umuser o, umserver o, umoptions T?",
    ),
    (
        "pg_user_mappings",
        "umid o, srvid o, srvname t, umuser o, usename t, umoptions T?",
    ),
];

/// The rows of one of these tables.
pub(super) fn rows(name: &str) -> Vec<Row> {
    let named = |oid: i64, column, name: &str| vec![("oid", oid.into()), (column, name.into())];
    match name {
        "pg_namespace" => SCHEMAS
            .into_iter()
            .map(|(oid, name)| {
                let mut row = named(oid, "nspname", name);
                row.push(("nspowner", OWNER.into()));
                if oid == PUBLIC {
                    // As PostgreSQL has it from the beginning: then no dump changes it.
                    let all = [format!("{CATALOG}=UC/{CATALOG}"), format!("=U/{CATALOG}")];
                    row.push(("nspacl", Cell::Texts(all.into())));
                }
                row
            })
            .collect(),
        "pg_type" => types(),
        "pg_am" => [(ACCESS_METHOD, "lazybase", "t"), (KEY_METHOD, "btree", "i")]
            .into_iter()
            .map(|(oid, name, kind)| {
                let mut row = named(oid, "amname", name);
                row.push(("amtype", kind.into()));
                row
            })
            .collect(),
        "pg_tablespace" => {
            let mut row = named(1663, "spcname", "pg_default");
            row.push(("spcowner", OWNER.into()));
            vec![row]
        }
        _ => Vec::new(),
    }
}

/// The name of the function that PostgreSQL has for reading or writing values of a type.
fn function(name: &str, category: &str, does: &str) -> String {
    let underlined = [
        "date",
        "time",
        "timestamp",
        "interval",
        "numeric",
        "uuid",
        "json",
        "jsonb",
        "record",
    ];
    match category {
        "A" => format!("array_{does}"),
        _ if name == "timestamptz" || underlined.contains(&name) => format!("{name}_{does}"),
        _ => format!("{name}{does}"),
    }
}

/// The names of all functions that types name, in an order that stays.
fn function_names() -> &'static [String] {
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let rows = types();
        let names = rows.iter().flat_map(|row| {
            row.iter().filter_map(|cell| match cell {
                ("typinput" | "typoutput" | "typreceive" | "typsend", Cell::Text(name)) => {
                    Some(name.clone())
                }
                _ => None,
            })
        });
        let names: BTreeSet<String> = names.collect();
        names.into_iter().collect()
    });
    &NAMES
}

/// The number of a function that types name.
pub(super) fn function_number(name: &str) -> Option<i64> {
    let at = function_names().iter().position(|known| known == name)?;
    Some(FUNCTIONS_FROM + at as i64)
}

/// The name of a function that types name.
pub(super) fn function_name(number: i64) -> Option<&'static str> {
    let at = usize::try_from(number.checked_sub(FUNCTIONS_FROM)?).ok()?;
    function_names().get(at).map(String::as_str)
}

/// The functions that types name, a row each.
pub(super) fn type_functions() -> Vec<Row> {
    let rows = function_names().iter().zip(FUNCTIONS_FROM..);
    rows.map(|(name, number)| {
        vec![
            ("oid", number.into()),
            ("proname", name.clone().into()),
            ("pronamespace", PG_NAMESPACE.into()),
            ("proowner", OWNER.into()),
            ("prokind", "f".into()),
            ("proisstrict", true.into()),
            ("provolatile", "i".into()),
        ]
    })
    .collect()
}

fn types() -> Vec<Row> {
    let mut rows = Vec::with_capacity(2 * TYPES.len());
    for known in &TYPES {
        let row = |oid: u32, name: String, length: i16, category: &str| -> Row {
            vec![
                ("oid", i64::from(oid).into()),
                ("typname", name.into()),
                ("typnamespace", PG_NAMESPACE.into()),
                ("typowner", OWNER.into()),
                ("typlen", i64::from(length).into()),
                ("typbyval", (0..=8).contains(&length).into()),
                (
                    "typtype",
                    if known.category == "P" { "p" } else { "b" }.into(),
                ),
                ("typcategory", category.into()),
                ("typisdefined", true.into()),
                ("typdelim", ",".into()),
                ("typtypmod", (-1).into()),
                // As columns of the type have it.
                ("typstorage", if length < 0 { "x" } else { "p" }.into()),
                ("typinput", function(known.name, category, "in").into()),
                ("typoutput", function(known.name, category, "out").into()),
                ("typreceive", function(known.name, category, "recv").into()),
                ("typsend", function(known.name, category, "send").into()),
            ]
        };
        let mut own = row(
            known.oid,
            known.name.to_owned(),
            known.length,
            known.category,
        );
        own.push(("typarray", i64::from(known.array).into()));
        rows.push(own);
        if known.array > 0 {
            let mut array = row(known.array, format!("_{}", known.name), -1, "A");
            array.push(("typelem", Cell::Int(known.oid.into())));
            rows.push(array);
        }
    }
    rows
}
