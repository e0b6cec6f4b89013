//! A story: what happens to one database, one step after the other, drawn from a seed. Each step
//! stands for itself, so that a story can be told with some of them left out.

use std::sync::Arc;

use crate::change::Change;
use crate::define::Define;
use crate::dice::Dice;
use crate::kind::PATHS;
use crate::query::{Queries, Query};
use crate::schema::{Schema, Table, View};

mod definitions;

/// Who asks, and how fresh the answer must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    /// The session that writes, in its transaction if it has one.
    Writer,
    /// A session that never goes back, with this clause.
    Steady(&'static str),
    /// A session that may go back, with this clause.
    Loose(&'static str),
    /// As of the end of an SCU: that many thousandths of the way from the first to the newest.
    Past(usize),
    /// The read-only transaction; where none is open, a session that asks for all.
    Pinned,
    /// With parameters, where the query has some.
    Bound,
    /// The same as a prepared statement, which is kept.
    Prepared,
}

/// So many statements are kept prepared.
const PREPARED_MAX: usize = 8;

/// What the pipeline does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Push {
    Seal,
    Sort,
    /// Sorts, and joins runs below the authority.
    Merge,
    Authority,
    /// All stages go on by themselves until the next push.
    Free,
    Restart,
    /// A backup is restored beside it, as of the end of an SCU: so many thousandths of the way from
    /// the oldest to the newest.
    Restore(usize),
}

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Create(Arc<Table>),
    /// Gives the first paths their numbers.
    Files,
    View(Arc<View>),
    DropView(Arc<View>),
    Change(Change),
    Define(Define),
    Begin {
        /// Whether tables change in it: an error then ends a statement and not all of it.
        defines: bool,
    },
    Savepoint,
    RollbackTo,
    Commit,
    Rollback,
    BeginReadOnly,
    EndReadOnly,
    /// A query with a clause is asked; its rows are taken later.
    BeginSlow(Query, &'static str),
    EndSlow,
    Push(Push),
    /// How many partitions, and rows a batch, queries work on.
    Width(usize, usize),
    Query(Query, Ask),
    /// Queries of late once more.
    Again,
}

#[derive(Debug, Clone)]
pub(crate) struct Story {
    pub(crate) seed: u64,
    pub(crate) steps: Vec<Step>,
}

impl Story {
    pub(crate) fn draw(seed: u64) -> Story {
        let mut teller = Teller::new(seed);
        teller.begin();
        for _ in 0..6 + teller.dice.roll(8) {
            teller.round();
        }
        Story {
            seed,
            steps: teller.steps,
        }
    }
}

struct Teller {
    dice: Dice,
    all: Schema,
    /// With the views that are there, and the partitions that are not.
    now: Schema,
    /// How many tables there ever were.
    numbers: usize,
    /// How many changes of tables were drawn.
    defined: usize,
    /// Queries that are prepared statements.
    prepared: Vec<Query>,
    steps: Vec<Step>,
    pinned: bool,
}

impl Teller {
    fn new(seed: u64) -> Teller {
        let mut dice = Dice::new(seed);
        let all = Schema::draw(&mut dice);
        let now = Schema {
            views: Vec::new(),
            ..all.clone()
        };
        Teller {
            dice,
            numbers: all.tables.len(),
            all,
            now,
            defined: 0,
            prepared: Vec::new(),
            steps: Vec::new(),
            pinned: false,
        }
    }

    fn begin(&mut self) {
        for table in self.all.tables.clone() {
            let owner = table.owner;
            self.steps.push(Step::Create(table));
            self.steps.extend(owner.then_some(Step::Files));
        }
        self.width();
        for view in self.all.views.clone() {
            if self.dice.one_in(2) {
                self.view(view);
            }
        }
    }

    fn width(&mut self) {
        let partitions = [1, 1, 2, 4][self.dice.roll(4)];
        let rows = [2, 7, 8192, 8192][self.dice.roll(4)];
        self.steps.push(Step::Width(partitions, rows));
    }

    fn view(&mut self, view: Arc<View>) {
        self.end_read_only();
        let there = self.now.views.iter().position(|one| one.name == view.name);
        match there {
            Some(at) => {
                self.now.views.remove(at);
                self.steps.push(Step::DropView(view));
            }
            None => {
                self.now.views.push(Arc::clone(&view));
                self.steps.push(Step::View(view));
            }
        }
    }

    fn end_read_only(&mut self) {
        if std::mem::take(&mut self.pinned) {
            self.steps.push(Step::EndReadOnly);
        }
    }

    fn round(&mut self) {
        if self.dice.one_in(3) {
            match self.pinned {
                true => self.end_read_only(),
                false => {
                    self.pinned = true;
                    self.steps.push(Step::BeginReadOnly);
                    self.query(Some(Ask::Pinned));
                }
            }
        }
        match self.dice.one_in(4) {
            true => self.transaction(),
            false => {
                for _ in 0..1 + self.dice.roll(3) {
                    self.change(PATHS.1);
                    if self.dice.one_in(3) {
                        self.push();
                    }
                }
            }
        }
        let is_slow = self.dice.one_in(4);
        if is_slow {
            let query = Queries::new(&mut self.dice, &self.now).draw();
            let clause = self.dice.pick(&["", "", " FRESHNESS 'best effort'"]);
            self.steps.push(Step::BeginSlow(query, clause));
        }
        if self.dice.one_in(3) {
            self.definitions();
        }
        if is_slow {
            if self.dice.one_in(2) {
                self.push();
            }
            self.steps.push(Step::EndSlow);
        }
        if self.dice.one_in(5)
            && let Some(view) = self.dice.choose(&self.all.views).cloned()
            && self.now.seen().has(view.table.id)
            && self.now.temporary.iter().all(|of| of.name != view.name)
        {
            self.view(view);
        }
        if self.dice.one_in(4) {
            self.width();
        }
        for _ in 0..12 + self.dice.roll(20) {
            self.query(None);
        }
        if self.dice.one_in(2) {
            self.push();
            self.steps.push(Step::Again);
        }
    }

    fn change(&mut self, paths: usize) {
        let change = Change::draw(&mut self.dice, &self.now.seen(), paths);
        self.steps.push(Step::Change(change));
    }

    fn transaction(&mut self) {
        self.steps.push(Step::Begin { defines: false });
        let mut saved = false;
        for _ in 0..1 + self.dice.roll(4) {
            match self.dice.roll(6) {
                0 => {
                    saved = true;
                    self.steps.push(Step::Savepoint);
                }
                1 if saved => self.steps.push(Step::RollbackTo),
                _ => self.change(PATHS.0),
            }
            for _ in 0..self.dice.roll(5) {
                self.query(Some(Ask::Writer));
            }
            if self.dice.one_in(4) {
                let push = [Push::Seal, Push::Sort, Push::Authority][self.dice.roll(3)];
                self.steps.push(Step::Push(push));
            }
        }
        let end = match self.dice.one_in(3) {
            true => Step::Rollback,
            false => Step::Commit,
        };
        self.steps.push(end);
    }

    fn push(&mut self) {
        let push = match self.dice.roll(17) {
            0..=4 => Push::Seal,
            5..=8 => Push::Sort,
            9..=11 => Push::Merge,
            12 | 13 => Push::Authority,
            14 => Push::Free,
            15 => Push::Restore(self.dice.roll(1001)),
            _ => {
                self.end_read_only();
                self.now.temporary.clear();
                Push::Restart
            }
        };
        self.steps.push(Step::Push(push));
    }

    fn query(&mut self, ask: Option<Ask>) {
        let ask = ask.unwrap_or_else(|| self.ask());
        let schema = match ask {
            Ask::Writer => self.now.seen(),
            _ => self.now.clone(),
        };
        self.query_over(&schema, ask);
    }

    fn ask(&mut self) -> Ask {
        match self.dice.roll(16) {
            0..=3 => Ask::Writer,
            4 | 5 => Ask::Steady(""),
            6 => Ask::Steady(" FRESHNESS 'best effort'"),
            7 => Ask::Loose(" FRESHNESS 0"),
            8 => Ask::Loose(" FRESHNESS 3600"),
            9 => Ask::Loose(" FRESHNESS 3600 ON MISS STALE"),
            10 => Ask::Loose(" FRESHNESS 'best effort'"),
            11 | 12 => Ask::Past(self.dice.roll(1001)),
            _ => Ask::Pinned,
        }
    }

    /// A query of tables that need not be there.
    fn query_over(&mut self, schema: &Schema, ask: Ask) {
        let query = Queries::new(&mut self.dice, schema).draw();
        let may_be = ask == Ask::Writer && !query.sql.contains("IDKEY(");
        let ask = match query.bound.is_some() && self.dice.one_in(2) && ask == Ask::Writer {
            _ if may_be && self.dice.one_in(12) => Ask::Prepared,
            true => Ask::Bound,
            false => ask,
        };
        if ask == Ask::Prepared && self.prepared.len() < PREPARED_MAX {
            self.prepared.push(query.clone());
        }
        self.steps.push(Step::Query(query, ask));
        if ask == Ask::Writer && self.dice.one_in(8) {
            self.ask_again();
        }
    }

    /// A statement that was prepared before, whatever became of its tables.
    fn ask_again(&mut self) {
        if let Some(query) = self.dice.choose(&self.prepared).cloned() {
            self.steps.push(Step::Query(query, Ask::Prepared));
        }
    }
}
