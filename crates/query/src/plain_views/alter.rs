//! What is altered of plain views, their names and comments; and what tables may not become while
//! views read them.

use std::sync::Arc;

use lazybase_engine::schema::Alteration;
use lazybase_model::{Column, Error, Result, Table};

use super::{ATTEMPTS, no_plain_view, uses};
use crate::alter::is_stale;
use crate::answer::AnswerStream;
use crate::dml::sink::Sink;
use crate::notice::Notice;
use crate::parse::AlterTable;
use crate::parse::alter::AlterStep;
use crate::session::Shared;
use crate::temporary::own_name;
use crate::visible::{TableChange, Visible};

/// ALTER VIEW ... RENAME TO.
pub(super) async fn rename(
    session: &Arc<Shared>,
    name: &str,
    if_exists: bool,
    to: String,
) -> Result<AnswerStream> {
    let alter_view = AlterTable {
        name: name.to_owned(),
        if_exists,
        steps: vec![AlterStep::Change(Alteration::Rename(to))],
        cascade: false,
        of_view: true,
        tag: "ALTER VIEW",
    };
    alter(session, &alter_view).await
}

/// Gives a plain view another name or comment.
pub(crate) async fn alter(session: &Arc<Shared>, alter: &AlterTable) -> Result<AnswerStream> {
    let done = || AnswerStream::done(alter.tag, 0);
    let mut attempts = 0;
    loop {
        attempts += 1;
        let visible = session.visible();
        if alter.if_exists && visible.relation(&alter.name).is_none() {
            let name = own_name(&alter.name);
            let notice = Notice::note(format!("there is no view {name:?}: skipped"));
            return Ok(done().with_notices([notice]));
        }
        let before = visible.plain_view(&alter.name);
        let before = before.ok_or_else(|| no_plain_view(&visible, &alter.name))?;
        session.gate_now().own(&before)?;
        let mut after = Table::clone(&before);
        for step in &alter.steps {
            change(&mut after, step)?;
        }
        if after == *before {
            return Ok(done());
        }
        if after.name != before.name
            && let Some(kind) = visible.taken_by(&after.name)
        {
            let what = format!("{:?} is there already: a {kind}", after.name);
            return Err(Error::conflict(what).with_sqlstate("42P07"));
        }
        let after = session.instance().define_next(after);
        let mut sink = Sink::of(session);
        let in_transaction = sink.in_transaction();
        sink.change_table(TableChange::AlterPlainView { before, after })?;
        match sink.finish(session).await {
            Err(error) if !in_transaction && attempts < ATTEMPTS && is_stale(&error) => {}
            Err(error) => return Err(error),
            Ok(token) => return Ok(done().with_token(token)),
        }
    }
}

fn change(view: &mut Table, step: &AlterStep) -> Result<()> {
    match step {
        AlterStep::Change(Alteration::Rename(name)) => view.name.clone_from(name),
        AlterStep::Change(Alteration::Comment { column: None, text }) => {
            view.comment.clone_from(text);
        }
        AlterStep::Change(Alteration::Comment {
            column: Some(name),
            text,
        }) => {
            let at = view.require_column(name)?;
            view.columns[at].comment.clone_from(text);
        }
        _ => {
            return Err(Error::invalid(format!("{:?} is a view", view.name))
                .with_detail("its columns are those that its query gives")
                .with_hint("CREATE OR REPLACE VIEW gives it another query")
                .with_sqlstate("42809"));
        }
    }
    Ok(())
}

/// The plain views that go with the columns that a change drops; none where they may not.
///
/// # Errors
/// `Conflict` (2BP01) for a column that is read by a view, which does not go with it; `Invalid`
/// (0A000) for one that would have another type.
pub(crate) fn check_readers(
    visible: &Visible,
    before: &Table,
    after: &Table,
    cascade: bool,
) -> Result<Vec<Arc<Table>>> {
    if !visible.has_plain_views() {
        return Ok(Vec::new());
    }
    let now = |column: &Column| after.columns.iter().find(|now| now.id == column.id);
    let mut gone = Vec::new();
    for view in visible.plain_views() {
        let reads = |column: &&Column| {
            let of_table = uses(&view).filter(|used| used.table == before.id);
            let mut read = of_table.flat_map(|used| &used.columns);
            read.any(|read| read.read && read.id == column.id)
        };
        for column in before.columns.iter().filter(reads) {
            let (table, name, reader) = (&before.name, &column.name, &view.name);
            match now(column) {
                Some(now) if (&now.data_type, now.json) == (&column.data_type, column.json) => {}
                Some(_) => {
                    return Err(Error::invalid(format!(
                        "column {name:?} of table {table:?} can't have another type: view \
                         {reader:?} reads it"
                    ))
                    .with_hint("DROP VIEW first, and create it again")
                    .with_sqlstate("0A000"));
                }
                None if cascade => gone.push(view.id),
                None => {
                    return Err(Error::conflict(format!(
                        "column {name:?} of table {table:?} can't be dropped: view {reader:?} \
                         depends on it"
                    ))
                    .with_hint("DROP COLUMN ... CASCADE drops the views with it")
                    .with_sqlstate("2BP01"));
                }
            }
        }
    }
    let mut all = visible.readers_of(gone.iter().copied());
    all.extend(gone.iter().filter_map(|id| visible.relation_of(*id)));
    all.sort_by_key(|view| view.id);
    all.dedup_by_key(|view| view.id);
    Ok(all)
}
