//! CREATE and DROP MATERIALIZED VIEW, DROP of views of both kinds, and what is told of views.
//!
//! ```text
//!   names looked up in the table -> definition under ids of its own -> Sink: table changes
//!   created: empty at once; the background fills it, and until then its table answers
//! ```

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray, UInt64Array};
use lazybase_cluster::ViewSpec;
use lazybase_engine::manifest::{Manifest, TableState};
use lazybase_engine::read::views::leads_on;
use lazybase_model::{Error, ErrorKind, Result, Table, TableId};

use crate::answer::AnswerStream;
use crate::ddl::change_all;
use crate::definition::identifier;
use crate::dml::sink::Sink;
use crate::notice::Notice;
use crate::parse::CreateView;
use crate::plain_views::text;
use crate::session::Shared;
use crate::temporary::own_name;
use crate::visible::{TableChange, Visible};

/// CREATE MATERIALIZED VIEW.
pub(crate) async fn create(session: &Arc<Shared>, view: CreateView) -> Result<AnswerStream> {
    let is_there = || session.visible().is_taken(&view.name);
    let skipped = || {
        let said = format!("{:?} is there already: skipped", view.name);
        let notice = Notice::note(said).with_sqlstate("42P07");
        AnswerStream::done("CREATE MATERIALIZED VIEW", 0).with_notices([notice])
    };
    let taken_by = session.visible().taken_by(&view.name);
    match (taken_by, view.if_not_exists) {
        (Some(_), true) => return Ok(skipped()),
        (Some(kind), false) => {
            let hint = match kind {
                "materialized view" => "CREATE MATERIALIZED VIEW IF NOT EXISTS leaves it as it is",
                _ => "give the view another name",
            };
            let what = format!("{:?} is there already: a {kind}", view.name);
            return Err(Error::conflict(what).with_hint(hint).with_sqlstate("42P07"));
        }
        (None, _) => {}
    }
    let table = session.visible().require(&view.table)?;
    session.gate_now().own(&table)?;
    let spec = ViewSpec {
        name: view.name.clone(),
        columns: view.columns.clone(),
        key: view.key.clone(),
    };
    let made = session.instance().define_view(&table, &spec)?;
    let mut sink = Sink::of(session);
    sink.change_table(TableChange::CreateView(made))?;
    match sink.finish(session).await {
        Ok(token) => Ok(AnswerStream::done("CREATE MATERIALIZED VIEW", 0)
            .with_token(token)
            .with_notices(without_rows(&view))),
        // Somebody else was quicker.
        Err(error) if view.if_not_exists && error.kind() == ErrorKind::Conflict && is_there() => {
            Ok(skipped())
        }
        Err(error) => Err(error),
    }
}

/// What WITH NO DATA is told.
fn without_rows(view: &CreateView) -> Option<Notice> {
    let notice = "WITH NO DATA changes nothing: a view is never without its rows";
    view.without_rows.then(|| Notice::note(notice))
}

/// DROP MATERIALIZED VIEW: all of the views, or none.
pub(crate) async fn drop(
    session: &Arc<Shared>,
    names: &[String],
    if_exists: bool,
    cascade: bool,
) -> Result<AnswerStream> {
    let find = |visible: &Visible, name: &str| {
        let view = visible.view(name);
        view.ok_or_else(|| no_view(visible, name))
    };
    let tag = "DROP MATERIALIZED VIEW";
    drop_found(session, names, if_exists, cascade, find, tag).await
}

/// Drops the views that `find` finds under names, all or none: those that read them go with them,
/// if CASCADE says so or they are named too. Who may not drop a view is not told who reads it.
pub(crate) async fn drop_found(
    session: &Arc<Shared>,
    names: &[String],
    if_exists: bool,
    cascade: bool,
    find: impl Fn(&Visible, &str) -> Result<Arc<Table>>,
    tag: &str,
) -> Result<AnswerStream> {
    let dropped = |visible: &Visible, view: Arc<Table>, named: &[TableId]| -> Result<Vec<_>> {
        session.gate_now().own(&view)?;
        let readers = visible.readers_of([view.id]);
        let mut others = readers.iter().filter(|reader| !named.contains(&reader.id));
        if let Some(first) = others.next().filter(|_| !cascade) {
            let hint = format!("{tag} ... CASCADE drops those that read it with it");
            return Err(depended_on(&view, first, 1 + others.count()).with_hint(hint));
        }
        let itself = match view.query.is_some() {
            true => TableChange::DropPlainView(view),
            false => TableChange::DropView(view),
        };
        let readers = readers.into_iter().map(TableChange::DropPlainView);
        Ok(readers.chain([itself]).collect())
    };
    change_all(session, names, if_exists, find, dropped, tag).await
}

/// Answers REFRESH: there is nothing to do.
pub(crate) fn refresh(session: &Shared, name: &str) -> Result<AnswerStream> {
    let visible = session.visible();
    let view = visible.view(name).ok_or_else(|| no_view(&visible, name))?;
    let notice = Notice::note(format!(
        "view {:?} always shows what its table holds: there is nothing to refresh",
        view.name
    ));
    Ok(AnswerStream::done("REFRESH MATERIALIZED VIEW", 0).with_notices([notice]))
}

pub(crate) fn no_view(visible: &Visible, name: &str) -> Error {
    match visible.relation(name) {
        Some(view) if view.query.is_some() => {
            Error::invalid(format!("{:?} is a view, not a materialized one", view.name))
                .with_detail("its rows are not kept: its query gives them each time")
                .with_hint("DROP VIEW drops it")
                .with_sqlstate("42809")
        }
        Some(table) => Error::invalid(format!("{:?} is a table", table.name))
            .with_hint("views are made with CREATE MATERIALIZED VIEW; DROP TABLE drops a table")
            .with_sqlstate("42809"),
        None => visible.sequence_instead(name).unwrap_or_else(|| {
            Error::not_found(format!("there is no view {:?}", own_name(name)))
                .with_hint("SHOW VIEWS lists them")
                .with_name(own_name(name))
                .with_sqlstate("42P01")
        }),
    }
}

/// What dropping a table comes to: its views, which only CASCADE drops with it, and the numbers of
/// its keys go before it.
pub(crate) fn dropped(
    visible: &Visible,
    table: Arc<Table>,
    cascade: bool,
) -> Result<Vec<TableChange>> {
    let views = visible.views_of(table.id);
    let shown_in = views.iter().map(|view| view.id);
    let readers = visible.readers_of(shown_in.chain([table.id]));
    if let Some(view) = views.first().or(readers.first()).filter(|_| !cascade) {
        return Err(depended_on(&table, view, views.len() + readers.len())
            .with_hint("DROP TABLE ... CASCADE drops its views with it"));
    }
    let map = table.owned_id().and_then(|(_, map)| visible.by_id(map));
    let tables = map.into_iter().chain([table]).map(TableChange::Drop);
    let views = views.into_iter().map(TableChange::DropView);
    let readers = readers.into_iter().map(TableChange::DropPlainView);
    Ok(readers.chain(views).chain(tables).collect())
}

/// Something can't go while views are there, of which this is the first of so many.
pub(crate) fn depended_on(what: &Table, view: &Table, views: usize) -> Error {
    let kind = match what.view_of.is_some() || what.query.is_some() {
        true => "view",
        false => "table",
    };
    let error = Error::conflict(format!(
        "{kind} {:?} can't be dropped: view {:?} depends on it",
        what.name, view.name
    ));
    let error = match views {
        1 => error,
        views => error.with_detail(format!("{views} views do, be it through others")),
    };
    error.with_sqlstate("2BP01")
}

/// The query that a view answers.
pub(crate) fn definition(visible: &Visible, view: &Table) -> String {
    if view.query.is_some() {
        return text::definition(visible, view);
    }
    let table = visible.table_of(view);
    let table = table.map_or_else(String::new, |table| identifier(&table.name));
    let listed = |names: Vec<&str>| {
        let names: Vec<String> = names.into_iter().map(identifier).collect();
        names.join(", ")
    };
    let (columns, key) = (listed(columns_of(view)), listed(key_of(view)));
    format!("SELECT {columns} FROM {table} ORDER BY {key}")
}

fn columns_of(view: &Table) -> Vec<&str> {
    let columns = view.columns[..view.visible_columns()].iter();
    columns.map(|column| column.name.as_str()).collect()
}

fn key_of(view: &Table) -> Vec<&str> {
    let shown = |at: &usize| *at < view.visible_columns();
    let key = view.key_indices().into_iter().filter(shown);
    key.map(|at| view.columns[at].name.as_str()).collect()
}

/// The system table of views.
pub(crate) fn columns(manifest: &Manifest) -> Vec<(&'static str, ArrayRef)> {
    let views = || manifest.views.values();
    let table = |view: &TableState| manifest.tables.get(&view.table.view_of?);
    let texts = |of: &dyn Fn(&TableState) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(views().map(|view| of(view))))
    };
    let counts = |of: &dyn Fn(&TableState) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(views().map(|view| of(view))))
    };
    let live = manifest.current_runs();
    let sum = |view: &TableState, bytes: bool| -> u64 {
        let runs = manifest.runs.values();
        let own = runs.filter(|run| run.view == view.table.primary.id && live.contains(&run.id));
        own.map(|run| if bytes { run.bytes() } else { run.rows() })
            .sum()
    };
    // Readers take the table until the view is built, and while it can't be brought on.
    let state = |view: &TableState| {
        let (from, to) = (manifest.view_end(view), manifest.sorted_through);
        let ready = table(view).is_some_and(|table| leads_on(manifest, table, from, to));
        if ready { "ready" } else { "building" }.to_owned()
    };
    vec![
        ("name", texts(&|view| view.table.name.clone())),
        (
            "table_name",
            texts(&|view| table(view).map_or(String::new(), |of| of.table.name.clone())),
        ),
        ("key", texts(&|view| key_of(&view.table).join(", "))),
        ("columns", texts(&|view| columns_of(&view.table).join(", "))),
        ("state", texts(&state)),
        ("through_scu", counts(&|view| manifest.view_end(view).0)),
        ("stored_rows", counts(&|view| sum(view, false))),
        ("bytes", counts(&|view| sum(view, true))),
    ]
}
