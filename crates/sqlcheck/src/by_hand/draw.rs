//! Draws queries that are told by hand.

use super::value::{Value, whole};
use super::{
    Aggregate, Column, Comparison, Constant, Operator, Output, Select, Sort, Source, Term, Test,
};
use crate::dice::Dice;
use crate::kind::{Class, Kind};
use crate::schema::Schema;

/// Constants that whole numbers are compared with and that are of other types, in tenths.
const ODD: [(&str, i128); 8] = [
    ("2.5", 25),
    ("-0.5", -5),
    ("300", 3_000),
    ("-129", -1_290),
    ("70000", 700_000),
    ("'4'", 40),
    ("3e0", 30),
    ("CAST(7 AS BIGINT)", 70),
];

const PATTERNS: [&str; 9] = ["a%", "%b", "%a%", "_", "", "ab", "a\\_%", "%ü%", "_%c"];

impl Select {
    /// A query of some table or view; `None` of one that has no column for it.
    pub(crate) fn draw(dice: &mut Dice, schema: &Schema) -> Option<Select> {
        let mut select = Select {
            sources: Vec::new(),
            columns: Vec::new(),
            on: None,
            is_left: dice.one_in(2),
            filter: None,
            output: Output::Rows {
                items: Vec::new(),
                distinct: false,
            },
            order: Vec::new(),
            limit: None,
            offset: 0,
        };
        let is_join = dice.one_in(3);
        select.source(dice, schema, is_join.then_some("l"));
        let may_sort_by_key = !is_join && select.source_has_key(schema);
        if is_join {
            select.source(dice, schema, Some("r"));
            select.on = select.pair(dice);
            select.on?;
        }
        if select.columns.is_empty() {
            return None;
        }
        if !dice.one_in(5) {
            select.filter = Some(select.drawn_test(dice, 2));
        }
        match dice.one_in(3) {
            true => select.groups(dice),
            false => select.rows(dice, may_sort_by_key),
        }
        if !select.order.is_empty() && dice.one_in(2) {
            select.limit = Some([1, 2, 3, 5, 10, 100][dice.roll(6)]);
            select.offset = [0, 0, 1, 4][dice.roll(4)];
        }
        Some(select)
    }

    /// A table or a view more.
    fn source(&mut self, dice: &mut Dice, schema: &Schema, alias: Option<&'static str>) {
        let (tables, views) = (&schema.tables, &schema.views);
        let at = dice.roll(tables.len() * 2 + views.len());
        let (name, table, columns) = match at.checked_sub(tables.len() * 2) {
            Some(view) => {
                let view = &views[view];
                (&view.name, &view.table, view.columns.clone())
            }
            None => {
                let table = &tables[at / 2];
                let all = 0..table.columns.len();
                (&table.name, table, all.collect::<Vec<usize>>())
            }
        };
        let source = self.sources.len();
        self.sources.push(Source {
            name: name.clone(),
            alias,
        });
        let told = columns.into_iter().filter(|at| {
            let class = table.columns[*at].class();
            matches!(class, Class::Bool | Class::Int | Class::Text | Class::Date)
        });
        self.columns.extend(told.map(|at| Column {
            source,
            name: table.columns[at].name.clone(),
            kind: table.columns[at].kind,
            wild: table.columns[at].wild,
            key: table.is_key(at),
        }));
    }

    /// Whether all of the key of the only source is among the columns.
    fn source_has_key(&self, schema: &Schema) -> bool {
        let name = &self.sources[0].name;
        let table = schema.tables.iter().find(|table| table.name == *name);
        let view = schema.views.iter().find(|view| view.name == *name);
        let table = table.or(view.map(|view| &view.table));
        let key = table.map_or(0, |table| table.key.len());
        key > 0 && self.columns.iter().filter(|column| column.key).count() == key
    }

    /// Columns of both sources that can be equal.
    fn pair(&self, dice: &mut Dice) -> Option<[usize; 2]> {
        let mut pairs = Vec::new();
        for (left, one) in self.columns.iter().enumerate() {
            for (right, other) in self.columns.iter().enumerate() {
                if one.source < other.source && one.kind == other.kind {
                    pairs.push([left, right]);
                }
            }
        }
        dice.choose(&pairs).copied()
    }

    fn rows(&mut self, dice: &mut Dice, may_sort_by_key: bool) {
        let mut items: Vec<Term> = (0..1 + dice.roll(3)).map(|_| self.item(dice)).collect();
        let distinct = dice.one_in(6);
        if may_sort_by_key && !distinct && dice.one_in(2) {
            let all = 0..self.columns.len();
            let key: Vec<usize> = all.filter(|at| self.columns[*at].key).collect();
            for at in key {
                self.order.push(sort(dice, items.len()));
                items.push(Term::Column(at));
            }
        } else if dice.one_in(2) {
            self.order = sorts(dice, items.len());
        }
        self.output = Output::Rows { items, distinct };
    }

    fn item(&self, dice: &mut Dice) -> Term {
        match self.number(dice).filter(|_| dice.one_in(4)) {
            Some(at) => self.made(dice, at, 2),
            None => Term::Column(dice.roll(self.columns.len())),
        }
    }

    fn groups(&mut self, dice: &mut Dice) {
        let by = (!dice.one_in(3)).then(|| dice.roll(self.columns.len()));
        let aggregates: Vec<Aggregate> = (0..1 + dice.roll(3))
            .map(|_| self.drawn_aggregate(dice))
            .collect();
        let more_than = dice.one_in(4).then(|| dice.roll(3));
        if dice.one_in(2) {
            self.order = sorts(dice, aggregates.len() + usize::from(by.is_some()));
        }
        self.output = Output::Groups {
            by,
            aggregates,
            more_than,
        };
    }

    fn drawn_aggregate(&self, dice: &mut Dice) -> Aggregate {
        let any = dice.roll(self.columns.len());
        let has_ends = self.columns[any].kind.class() != Class::Bool;
        match dice.roll(6) {
            0 => Aggregate::Rows,
            1 => Aggregate::Count(any),
            2 => Aggregate::CountDistinct(any),
            3 if has_ends => Aggregate::Least(any),
            4 if has_ends => Aggregate::Greatest(any),
            _ => match self.number(dice) {
                Some(at) => Aggregate::Sum(at),
                None => Aggregate::Count(any),
            },
        }
    }

    /// A column of whole numbers that are small.
    fn number(&self, dice: &mut Dice) -> Option<usize> {
        let all = 0..self.columns.len();
        let is_small = |at: &usize| {
            let column = &self.columns[*at];
            column.kind.class() == Class::Int && !column.wild
        };
        let small: Vec<usize> = all.filter(is_small).collect();
        dice.choose(&small).copied()
    }

    /// Arithmetic that begins with a column.
    fn made(&self, dice: &mut Dice, at: usize, depth: usize) -> Term {
        let one = match depth > 1 && dice.one_in(3) {
            true => self.made(dice, at, depth - 1),
            false => Term::Column(at),
        };
        let small = dice.between(1, 4);
        let small = Term::Constant(Constant {
            sql: small.to_string(),
            value: whole(small),
        });
        let other = self.number(dice).filter(|_| dice.one_in(2));
        let other = other.map_or(small.clone(), Term::Column);
        let (operator, other) = match dice.roll(6) {
            0 | 1 => (Operator::Plus, other),
            2 => (Operator::Minus, other),
            3 => (Operator::Times, other),
            4 => (Operator::Over, small),
            _ => (Operator::Rest, small),
        };
        Term::Made(Box::new(one), operator, Box::new(other))
    }

    fn drawn_test(&self, dice: &mut Dice, depth: usize) -> Test {
        let less = depth.saturating_sub(1);
        match dice.roll(12) {
            at @ 0..=3 if depth > 0 => {
                let one = Box::new(self.drawn_test(dice, less));
                let other = Box::new(self.drawn_test(dice, less));
                match at {
                    0 => Test::Or(one, other),
                    _ => Test::And(one, other),
                }
            }
            4 | 5 if depth > 0 => Test::Not(Box::new(self.drawn_test(dice, less))),
            6 if depth > 0 => {
                let what = [Some(true), Some(false), None][dice.roll(3)];
                Test::Is(Box::new(self.drawn_test(dice, less)), what)
            }
            _ => self.of_column(dice),
        }
    }

    /// A predicate on one column, or two.
    fn of_column(&self, dice: &mut Dice) -> Test {
        let at = dice.roll(self.columns.len());
        let column = &self.columns[at];
        let class = column.kind.class();
        let test = match dice.roll(10) {
            0 => Test::IsNull(Term::Column(at)),
            _ if class == Class::Bool => Test::Column(at),
            1 => match self.other_like(dice, at) {
                Some(other) => Test::Compared(Term::Column(at), comparison(dice), other),
                None => Test::IsNull(Term::Column(at)),
            },
            2 | 3 => {
                let ends = [self.constant(dice, at), self.constant(dice, at)];
                Test::Between(Term::Column(at), ends)
            }
            4 | 5 => {
                let mut items: Vec<Term> = (0..1 + dice.roll(4))
                    .map(|_| self.constant(dice, at))
                    .collect();
                items.extend(dice.one_in(6).then(null));
                Test::In(Term::Column(at), items)
            }
            6 if class == Class::Text => {
                Test::Like(Term::Column(at), PATTERNS[dice.roll(PATTERNS.len())])
            }
            _ => {
                let is_small = class == Class::Int && !column.wild;
                let one = match is_small && dice.one_in(4) {
                    true => self.made(dice, at, 2),
                    false => Term::Column(at),
                };
                let (how, other) = (comparison(dice), self.constant(dice, at));
                match dice.one_in(4) {
                    true => Test::Compared(other, how, one),
                    false => Test::Compared(one, how, other),
                }
            }
        };
        match dice.one_in(4) {
            true => Test::Not(Box::new(test)),
            false => test,
        }
    }

    /// Another column of the same type.
    fn other_like(&self, dice: &mut Dice, at: usize) -> Option<Term> {
        let all = 0..self.columns.len();
        let same =
            |other: &usize| *other != at && self.columns[*other].kind == self.columns[at].kind;
        let others: Vec<usize> = all.filter(same).collect();
        dice.choose(&others).copied().map(Term::Column)
    }

    /// A constant that a column is compared with.
    fn constant(&self, dice: &mut Dice, at: usize) -> Term {
        let column = &self.columns[at];
        if column.kind.class() == Class::Int && dice.one_in(6) {
            let (sql, tenths) = ODD[dice.roll(ODD.len())];
            return Term::Constant(Constant {
                sql: sql.to_owned(),
                value: Value::Number(tenths),
            });
        }
        let cell = column.kind.cell(dice, column.wild, 0);
        let Ok(value) = Value::of(&cell.value) else {
            return null();
        };
        let sql = match column.kind == Kind::Date && dice.one_in(2) {
            true => format!("DATE {}", cell.sql),
            false => cell.sql,
        };
        Term::Constant(Constant { sql, value })
    }
}

fn null() -> Term {
    Term::Constant(Constant {
        sql: "NULL".to_owned(),
        value: Value::Null,
    })
}

fn comparison(dice: &mut Dice) -> Comparison {
    let all = [
        Comparison::Equal,
        Comparison::Equal,
        Comparison::Unequal,
        Comparison::Less,
        Comparison::AtMost,
        Comparison::More,
        Comparison::AtLeast,
    ];
    all[dice.roll(all.len())]
}

fn sort(dice: &mut Dice, at: usize) -> Sort {
    Sort {
        at,
        falls: dice.one_in(3),
        nulls_first: [None, None, Some(true), Some(false)][dice.roll(4)],
    }
}

/// All columns of an answer, in any order.
fn sorts(dice: &mut Dice, columns: usize) -> Vec<Sort> {
    let mut places: Vec<usize> = (0..columns).collect();
    dice.shuffle(&mut places);
    places.into_iter().map(|at| sort(dice, at)).collect()
}
