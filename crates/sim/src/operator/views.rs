//! Views that come and go: made over the rows that are there, beside writers and merges, and
//! dropped. What was said of one holds in every later life.

use lazybase_engine::manifest::Ddl;
use lazybase_model::ErrorKind;

use crate::dice::Dice;
use crate::life::{Answer, Life, Trouble};
use crate::marks::Mark;

/// Whether there are any in the story.
pub(super) fn come_and_go(life: &Life) -> bool {
    let mut tables = life.run.story.tables.iter();
    tables.any(|table| !table.later.is_empty())
}

/// Each view is there, or not, as was said when it was made or dropped; where only the next opening
/// could tell, it tells now.
///
/// # Errors
/// What is wrong with one.
pub(crate) fn check_views(life: &Life) -> Result<(), String> {
    let manifest = life.instance.manifest();
    let tables = life.run.story.tables.iter();
    for draw in tables.flat_map(|table| &table.later) {
        let is_there = manifest.view_named(&draw.name).is_some();
        let mut shown = life.run.shown.lock();
        let said = shown.entry(draw.name.clone()).or_insert(Some(false));
        if *said.get_or_insert(is_there) != is_there {
            return Err(format!(
                "view {:?} is said to be there: {said:?}, and is: {is_there}",
                draw.name
            ));
        }
    }
    Ok(())
}

/// Makes a view, or drops it.
pub(super) async fn make_or_drop(life: &Life, dice: &mut Dice) -> Answer<()> {
    check_views(life)?;
    let tables = life.run.story.tables.iter().enumerate();
    let views = tables.flat_map(|(at, table)| table.later.iter().map(move |view| (at, view)));
    let views: Vec<_> = views.collect();
    let (table, draw) = *dice.pick(&views);
    let there = life.instance.manifest();
    let there = there.view_named(&draw.name).map(|state| state.table.id);
    let (ddl, mark) = match there {
        Some(view) => (Ddl::DropView { view }, Mark::ViewDropped),
        None => {
            let known = life.bind(table)?;
            let view = life.instance.define_view(&known.table, &draw.spec());
            let view = view.map_err(|error| format!("a view can't be made: {error:?}"))?;
            let view = view.as_ref().clone();
            (Ddl::CreateView { view }, Mark::ViewMade)
        }
    };
    let say = |is_there: Option<bool>| {
        life.run.shown.lock().insert(draw.name.clone(), is_there);
    };
    let has_rows = life.run.model.lock().placed() > 0;
    say(None);
    let since = life.world().now();
    let done = life.instance.commit(vec![ddl], None).await;
    let name = &draw.name;
    match done {
        Ok(_) => {
            say(Some(there.is_none()));
            life.world()
                .note("view", u64::from(there.is_none()), 0, || name.clone());
            if has_rows {
                life.world().meet(mark);
            }
            Ok(check_views(life)?)
        }
        Err(error) => {
            life.world()
                .note("view", 2, 0, || format!("{name}: {error}"));
            // Any other error says that nothing happened.
            let is_told = error.kind() != ErrorKind::MaybeHappened;
            let trouble = life.judge("a change of a view", since, error);
            if let (Trouble::Excused(_), true) = (&trouble, is_told) {
                say(Some(there.is_some()));
                check_views(life)?;
            }
            Err(trouble)
        }
    }
}
