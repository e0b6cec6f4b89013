//! What `pg_dump` must know beside what is there, so that what it writes can be read in again: what
//! depends on what, and which tables are the system's own; and what dbt asks of views, so that it
//! knows which of them went with what it has dropped.
//!
//! ```text
//!   FROM pg_depend, its columns alone      -> views depend on their tables and on these keys;
//!                                             the schema lazybase came with an extension
//!   LEFT JOIN pg_depend, of sequences      -> the columns that they are of
//!   FROM pg_extension, with extconfig too  -> that extension: what comes with one is left out
//!   FROM pg_depend, pg_class, ... of the   -> through which rules views read, as PostgreSQL has
//!     rows that pg_rewrite has              it: a rule is a part of its view, and depends on
//!                                           what the view reads
//!   FROM pg_init_privs                     -> who may read the system's own tables by birth
//! ```
//!
//! The first three stand in the place of tables without rows, for nobody but who asks as `pg_dump`
//! and dbt do: to everybody else there are no extensions (PGC-1), and the planner need not plan
//! what tools compute of dependencies.

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, JoinConstraint, JoinOperator, ObjectName, Select, SelectItem, TableAlias,
    TableFactor,
};
use lazybase_model::Table;

use super::described::{PG_CLASS, of_constraint, oid_of};
use super::fixed::{OF_SYSTEM, OWNER};
use super::rewrite::{part, parts, relations};
use super::{PG_CATALOG, Row, system};
use crate::parse::{CATALOG, SYSTEM_SCHEMA, folded};
use crate::visible::{Visible, uses};

const DEPENDENCIES: &str = "pg_depend_of_dumps";
const EXTENSIONS: &str = "pg_extension_of_dumps";
const RULES: &str = "pg_depend_of_views";
/// What the condition says of a join that asks which column a sequence is of.
const OF_SEQUENCES: &str = "relkind = 'S'";

/// Where the numbers of the rules begin that views would be.
const RULE_NUMBERS: i64 = 7 << 27;

pub(super) const COLUMNS: [(&str, &str); 1] = [(
    "pg_init_privs",
    "objoid o, classoid o, objsubid i, privtype t, initprivs T?",
)];

/// What stands for tables that have no rows for others.
pub(super) const STAND_INS: [(&str, &str); 3] = [
    (
        DEPENDENCIES,
        "classid o, objid o, objsubid i, refclassid o, refobjid o, refobjsubid i, deptype t",
    ),
    (
        RULES,
        "classid o, objid o, objsubid i, refclassid o, refobjid o, refobjsubid i, deptype t",
    ),
    (
        EXTENSIONS,
        "oid o, tableoid o, extname t, extowner o, extnamespace o, extrelocatable b, \
         extversion t, extconfig O?, extcondition T?",
    ),
];

/// The number of the extension that the system's own schema came with: one of those that are
/// there in each database, which no dump makes.
const EXTENSION: i64 = 13_002;

/// The same where `pg_dump` asks which column each sequence is of.
fn of_sequences(select: &mut Select) {
    for join in select.from.iter_mut().flat_map(|from| &mut from.joins) {
        let (JoinOperator::Left(JoinConstraint::On(on))
        | JoinOperator::LeftOuter(JoinConstraint::On(on))) = &join.join_operator
        else {
            continue;
        };
        let is_asked = on.to_string().contains(OF_SEQUENCES);
        if let TableFactor::Table { name, alias, .. } = &mut join.relation
            && is_asked
            && parts(name).last().is_some_and(|last| last == "pg_depend")
        {
            put(name, alias, "pg_depend", DEPENDENCIES);
        }
    }
}

/// Puts a table in the place of another one, under the name of that.
fn put(name: &mut ObjectName, alias: &mut Option<TableAlias>, known: &str, other: &str) {
    *name = ObjectName(vec![part(PG_CATALOG), part(other)]);
    alias.get_or_insert_with(|| TableAlias {
        explicit: true,
        name: Ident::new(known),
        columns: Vec::new(),
        at: None,
    });
}

/// Puts what stands for it in the place of a table that a SELECT asks for as `pg_dump` does.
pub(super) fn stand_in(select: &mut Select) {
    of_sequences(select);
    if asks_of_rules(select) {
        return of_rules(select);
    }
    let columns = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
        }
        SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => true,
        _ => false,
    };
    if !select.projection.iter().all(columns) {
        return;
    }
    let alone = relations(select).count() == 1;
    let configured = select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
            parts.last().is_some_and(|last| folded(last) == "extconfig")
        }
        _ => false,
    });
    let Some(from) = select.from.first_mut() else {
        return;
    };
    let TableFactor::Table {
        name,
        alias,
        args: None,
        ..
    } = &mut from.relation
    else {
        return;
    };
    let named = parts(name);
    let table = match named.as_slice() {
        [table] => table.as_str(),
        [schema, table] if schema == PG_CATALOG => table.as_str(),
        _ => return,
    };
    let (known, other) = match table {
        "pg_depend" if alone => ("pg_depend", DEPENDENCIES),
        "pg_extension" if configured => ("pg_extension", EXTENSIONS),
        _ => return,
    };
    put(name, alias, known, other);
}

/// The name of a table, without its schema.
fn name_of(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::Table {
            name, args: None, ..
        } => parts(name).pop(),
        _ => None,
    }
}

/// Whether a SELECT asks through which rules of `pg_rewrite` relations depend on each other.
fn asks_of_rules(select: &Select) -> bool {
    let known = ["pg_class", "pg_depend", "pg_namespace"];
    let is_known = |name: &Option<String>| {
        let name = name.as_deref();
        name.is_some_and(|name| known.contains(&name))
    };
    let names: Vec<Option<String>> = relations(select).map(name_of).collect();
    names
        .iter()
        .any(|name| name.as_deref() == Some("pg_depend"))
        && names.iter().all(is_known)
        && select.to_string().contains("'pg_rewrite'")
}

fn of_rules(select: &mut Select) {
    for from in &mut select.from {
        let joined = from.joins.iter_mut().map(|join| &mut join.relation);
        for factor in std::iter::once(&mut from.relation).chain(joined) {
            if name_of(factor).as_deref() == Some("pg_depend")
                && let TableFactor::Table { name, alias, .. } = factor
            {
                put(name, alias, "pg_depend", RULES);
            }
        }
    }
}

/// The rows of one of these tables.
pub(super) fn rows(name: &str, visible: &Visible) -> Vec<Row> {
    match name {
        DEPENDENCIES => {
            let of_views = visible.views().into_iter().flat_map(|view| {
                let table = visible.table_of(&view);
                table.map_or_else(Vec::new, |table| of_view(&view, &table))
            });
            let of_plain = visible.plain_views().into_iter().flat_map(|view| {
                let read = uses(&view).filter_map(|used| visible.relation_of(used.table));
                let read: Vec<_> = read.map(|table| of_reader(&view, &table)).collect();
                read
            });
            let of_views = of_views.chain(of_plain);
            let of_sequences = super::sequences::dependencies(visible);
            of_extension().chain(of_views).chain(of_sequences).collect()
        }
        RULES => {
            let views = visible.views().into_iter().chain(visible.plain_views());
            views.flat_map(|view| of_rule(&view, visible)).collect()
        }
        EXTENSIONS => vec![vec![
            ("oid", EXTENSION.into()),
            ("tableoid", system::number_of("pg_extension").into()),
            ("extname", CATALOG.into()),
            ("extowner", OWNER.into()),
            ("extnamespace", OF_SYSTEM.into()),
            ("extversion", env!("CARGO_PKG_VERSION").into()),
        ]],
        _ => system::readable_by_everybody()
            .map(|(oid, acl)| {
                vec![
                    ("objoid", oid.into()),
                    ("classoid", PG_CLASS.into()),
                    ("privtype", "i".into()),
                    ("initprivs", acl),
                ]
            })
            .collect(),
    }
}

/// Something that depends on something else, both with the numbers of the tables that list them.
fn depends(on: (i64, i64), one: (i64, i64), kind: &'static str) -> Row {
    vec![
        ("classid", one.0.into()),
        ("objid", one.1.into()),
        ("refclassid", on.0.into()),
        ("refobjid", on.1.into()),
        ("deptype", kind.into()),
    ]
}

/// The system's own schema, and the tables in it, which `pg_dump` would make again.
fn of_extension() -> impl Iterator<Item = Row> {
    let extension = (system::number_of("pg_extension"), EXTENSION);
    let schema = (system::number_of("pg_namespace"), OF_SYSTEM);
    let tables = system::in_schema(SYSTEM_SCHEMA).map(|table| (PG_CLASS, table.oid));
    let all = std::iter::once(schema).chain(tables);
    all.map(move |one| depends(extension, one, "e"))
}

/// The rule that a view would be: a part of it, which depends on what it reads.
fn of_rule(view: &Table, visible: &Visible) -> Vec<Row> {
    let rule = (
        system::number_of("pg_rewrite"),
        RULE_NUMBERS + i64::from(view.id.0),
    );
    let own = depends((PG_CLASS, oid_of(view)), rule, "i");
    let read = uses(view).map(|used| used.table).chain(view.view_of);
    let read = read.filter_map(|read| visible.relation_of(read));
    let read = read.map(|read| depends((PG_CLASS, oid_of(&read)), rule, "n"));
    std::iter::once(own).chain(read).collect()
}

/// A view, which is made when what it reads is there.
fn of_reader(view: &Table, read: &Table) -> Row {
    let (view, read) = ((PG_CLASS, oid_of(view)), (PG_CLASS, oid_of(read)));
    depends(read, view, "n")
}

/// A view, which is made when its table is there, and has its key.
fn of_view(view: &Table, table: &Table) -> Vec<Row> {
    let one = (PG_CLASS, oid_of(view));
    let mut rows = vec![depends((PG_CLASS, oid_of(table)), one, "n")];
    if !table.hidden_key {
        let constraint = (system::number_of("pg_constraint"), of_constraint(table));
        rows.push(depends(constraint, one, "n"));
    }
    rows
}
