//! Tables that are dropped and made again in one commit with a batch that fills them: nobody sees
//! the one without the other.

use lazybase_engine::manifest::Ddl;
use lazybase_model::TableId;

use super::{Writing, draw_change};
use crate::dice::Dice;
use crate::life::Answer;
use crate::model::Change;
use crate::rows::Known;

impl Writing {
    /// A table that the batch makes again; some of its rows are the new table's.
    pub(super) fn draw_remade(
        &self,
        dice: &mut Dice,
        parts: &mut Vec<(usize, Vec<Change>)>,
        now: i64,
    ) -> Option<usize> {
        let story = &self.life.run.story;
        if self.numbered || !story.trim.remakes || story.actions.remakes == 0 {
            return None;
        }
        let tables = story.tables.iter().enumerate();
        let apart = tables.filter(|(_, table)| table.is_apart());
        let apart: Vec<usize> = apart.map(|(at, _)| at).collect();
        if apart.is_empty() || !dice.permille(story.actions.remakes) {
            return None;
        }
        let table = *dice.pick(&apart);
        if !parts.iter().any(|(of, _)| *of == table) {
            let changes =
                (0..dice.between(1, 4)).map(|_| draw_change(dice, &story.tables[table], now));
            let changes = changes.collect();
            parts.push((table, changes));
        }
        Some(table)
    }

    /// Drops a table and makes it again: what it is then.
    pub(super) fn remake(
        &self,
        batch: usize,
        table: usize,
        before: TableId,
        ddl: &mut Vec<Ddl>,
    ) -> Answer<Known> {
        let draw = &self.life.run.story.tables[table];
        let id_of = |owner: usize| {
            let owner = self.life.known(owner).table;
            owner.columns[owner.owned_id()?.0].id_key
        };
        let made = self.life.instance.define_table(&draw.spec(id_of));
        let made = made.map_err(|error| format!("a table can't be made again: {error:?}"))?;
        // An id that was given out for nothing is given out again after a restart.
        self.life.run.made.lock().insert(made.id, batch);
        ddl.push(Ddl::Drop { table: before });
        ddl.push(Ddl::Create {
            table: made.as_ref().clone(),
        });
        Ok(Known::of(made, draw)?)
    }
}
