//! Tables that are the same for every statement: types, schemas, and those that never have a row
//! here.

use super::types::TYPES;
use super::{Cell, Row};

/// The numbers of the schemas.
pub(super) const PG_NAMESPACE: i64 = 11;
pub(super) const PUBLIC: i64 = 2200;

/// The owner of everything.
pub(super) const OWNER: i64 = 10;

/// How tables are stored.
pub(super) const ACCESS_METHOD: i64 = 2;
/// How keys are.
pub(super) const KEY_METHOD: i64 = 403;

pub(super) const COLUMNS: [(&str, &str); 4] = [
    ("pg_namespace", "oid o, nspname t, nspowner o, nspacl T?"),
    (
        "pg_type",
        "oid o, typname t, typnamespace o, typowner o, typlen s, typbyval b, typtype t, \
         typcategory t, typispreferred b, typisdefined b, typdelim t, typrelid o, typsubscript t, \
         typelem o, typarray o, typinput t, typoutput t, typreceive t, typsend t, typmodin t, \
         typmodout t, typanalyze t, typalign t, typstorage t, typnotnull b, typbasetype o, \
         typtypmod i, typndims i, typcollation o, typdefaultbin t?, typdefault t?, typacl T?",
    ),
    ("pg_am", "oid o, amname t, amhandler t, amtype t"),
    (
        "pg_tablespace",
        "oid o, spcname t, spcowner o, spcacl T?, spcoptions T?",
    ),
];

/// What LazyBase does not have.
pub(super) const EMPTY: [(&str, &str); 30] = [
    (
        "pg_cast",
        "oid o, castsource o, casttarget o, castfunc o, castcontext t, castmethod t",
    ),
    (
        "pg_collation",
        "oid o, collname t, collnamespace o, collowner o, collprovider t, \
         collisdeterministic b, collencoding i, collcollate t?, collctype t?, colliculocale t?",
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
        "oid o, evtname t, evtevent t, evtowner o, evtfoid o, evtenabled t",
    ),
    (
        "pg_extension",
        "oid o, extname t, extowner o, extnamespace o, extrelocatable b, extversion t",
    ),
    ("pg_foreign_data_wrapper", "oid o, fdwname t, fdwowner o"),
    (
        "pg_foreign_server",
        "oid o, srvname t, srvowner o, srvfdw o",
    ),
    ("pg_foreign_table", "ftrelid o, ftserver o, ftoptions T?"),
    (
        "pg_inherits",
        "inhrelid o, inhparent o, inhseqno i, inhdetachpending b",
    ),
    ("pg_language", "oid o, lanname t, lanowner o"),
    (
        "pg_locks",
        "locktype t, database o?, relation o?, pid i?, mode t, granted b",
    ),
    (
        "pg_opclass",
        "oid o, opcmethod o, opcname t, opcnamespace o, opcintype o, opcdefault b",
    ),
    (
        "pg_operator",
        "oid o, oprname t, oprnamespace o, oprleft o, oprright o, oprresult o",
    ),
    (
        "pg_partitioned_table",
        "partrelid o, partstrat t, partnatts s, partdefid o, partattrs S",
    ),
    (
        "pg_policy",
        "oid o, polname t, polrelid o, polcmd t, polpermissive b, polroles O, polqual t?, \
         polwithcheck t?",
    ),
    (
        "pg_proc",
        "oid o, proname t, pronamespace o, proowner o, prolang o, prokind t, prorettype o, \
         pronargs s, proargtypes O, proallargtypes O?, proargmodes T?, proargnames T?, \
         proargdefaults t?, proretset b, prosrc t?, proisstrict b, provolatile t",
    ),
    (
        "pg_publication",
        "oid o, pubname t, pubowner o, puballtables b, pubinsert b, pubupdate b, pubdelete b, \
         pubtruncate b, pubviaroot b",
    ),
    ("pg_publication_namespace", "oid o, pnpubid o, pnnspid o"),
    (
        "pg_publication_rel",
        "oid o, prpubid o, prrelid o, prqual t?, prattrs S?",
    ),
    (
        "pg_range",
        "rngtypid o, rngsubtype o, rngmultitypid o, rngcollation o, rngsubopc o",
    ),
    (
        "pg_rewrite",
        "oid o, rulename t, ev_class o, ev_type t, ev_enabled t, is_instead b",
    ),
    (
        "pg_rules",
        "schemaname t, tablename t, rulename t, definition t",
    ),
    (
        "pg_sequence",
        "seqrelid o, seqtypid o, seqstart o, seqincrement o, seqmax o, seqmin o, seqcache o, \
         seqcycle b",
    ),
    (
        "pg_sequences",
        "schemaname t, sequencename t, sequenceowner t, data_type t",
    ),
    ("pg_shdescription", "objoid o, classoid o, description t"),
    (
        "pg_statistic_ext",
        "oid o, stxrelid o, stxname t, stxnamespace o, stxowner o, stxstattarget i, stxkeys S, \
         stxkind T",
    ),
    (
        "pg_subscription",
        "oid o, subdbid o, subname t, subowner o, subenabled b",
    ),
    (
        "pg_trigger",
        "oid o, tgrelid o, tgparentid o, tgname t, tgfoid o, tgtype s, tgenabled t, \
         tgisinternal b, tgconstrrelid o, tgconstrindid o, tgconstraint o, tgdeferrable b, \
         tginitdeferred b",
    ),
    (
        "pg_views",
        "schemaname t, viewname t, viewowner t, definition t",
    ),
];

/// The rows of one of these tables.
pub(super) fn rows(name: &str) -> Vec<Row> {
    let named = |oid: i64, column, name: &str| vec![("oid", oid.into()), (column, name.into())];
    match name {
        "pg_namespace" => [
            (PG_NAMESPACE, "pg_catalog"),
            (PUBLIC, "public"),
            (13_000, "information_schema"),
            (13_001, "lazybase"),
        ]
        .into_iter()
        .map(|(oid, name)| {
            let mut row = named(oid, "nspname", name);
            row.push(("nspowner", OWNER.into()));
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
        "pg_tablespace" => vec![named(1663, "spcname", "pg_default")],
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
