//! Queries of a small part of SQL whose answers are told by hand: over the rows of the model, by
//! code that shares nothing with the planner of both engines.
//!
//! ```text
//!   FROM      a table or a view, or two that are joined by a pair of columns
//!   WHERE     comparisons, BETWEEN, IN, LIKE, IS NULL, under AND, OR and NOT of three values
//!   SELECT    columns, and arithmetic with whole numbers; or aggregates, with GROUP BY and HAVING
//!   ORDER BY  so much that the order is settled, with LIMIT and OFFSET
//! ```
//!
//! `draw.rs` draws them, `judge.rs` tells their answers, `value.rs` has the values.

use crate::kind::Kind;
use crate::query::Order;

mod draw;
mod judge;
mod value;

use value::Value;

/// A table or a view in FROM.
#[derive(Debug, Clone)]
struct Source {
    name: String,
    alias: Option<&'static str>,
}

/// A column of one of them.
#[derive(Debug, Clone)]
struct Column {
    /// Which one, by its place.
    source: usize,
    name: String,
    kind: Kind,
    /// Whether values may lie at the ends of the type.
    wild: bool,
    key: bool,
}

#[derive(Debug, Clone, Copy)]
enum Operator {
    Plus,
    Minus,
    Times,
    Over,
    Rest,
}

/// An expression.
#[derive(Debug, Clone)]
enum Term {
    /// A column, by its place among all.
    Column(usize),
    Constant(Constant),
    /// Of whole numbers.
    Made(Box<Term>, Operator, Box<Term>),
}

#[derive(Debug, Clone)]
struct Constant {
    sql: String,
    value: Value,
}

#[derive(Debug, Clone, Copy)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
}

/// A predicate.
#[derive(Debug, Clone)]
enum Test {
    Compared(Term, Comparison, Term),
    Between(Term, [Term; 2]),
    In(Term, Vec<Term>),
    IsNull(Term),
    Like(Term, &'static str),
    /// A column of truth values.
    Column(usize),
    And(Box<Test>, Box<Test>),
    Or(Box<Test>, Box<Test>),
    Not(Box<Test>),
    /// IS TRUE, IS FALSE or IS UNKNOWN.
    Is(Box<Test>, Option<bool>),
}

#[derive(Debug, Clone, Copy)]
enum Aggregate {
    Rows,
    Count(usize),
    CountDistinct(usize),
    Sum(usize),
    Least(usize),
    Greatest(usize),
}

/// What is selected.
#[derive(Debug, Clone)]
enum Output {
    Rows {
        items: Vec<Term>,
        distinct: bool,
    },
    Groups {
        by: Option<usize>,
        aggregates: Vec<Aggregate>,
        /// HAVING more rows than this.
        more_than: Option<usize>,
    },
}

/// A column of the answer that it is sorted by.
#[derive(Debug, Clone, Copy)]
struct Sort {
    at: usize,
    falls: bool,
    /// Where NULLs stand, if it says so.
    nulls_first: Option<bool>,
}

/// A query.
#[derive(Debug, Clone)]
pub(crate) struct Select {
    sources: Vec<Source>,
    columns: Vec<Column>,
    /// Columns of two sources that are equal.
    on: Option<[usize; 2]>,
    /// Whether rows of the first one stay that have no other.
    is_left: bool,
    filter: Option<Test>,
    output: Output,
    /// Settles the order, if there is one.
    order: Vec<Sort>,
    limit: Option<usize>,
    offset: usize,
}

impl Operator {
    fn word(self) -> &'static str {
        match self {
            Operator::Plus => "+",
            Operator::Minus => "-",
            Operator::Times => "*",
            Operator::Over => "/",
            Operator::Rest => "%",
        }
    }
}

impl Comparison {
    fn word(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::Unequal => "<>",
            Comparison::Less => "<",
            Comparison::AtMost => "<=",
            Comparison::More => ">",
            Comparison::AtLeast => ">=",
        }
    }
}

impl Select {
    /// How much of the order of its rows is settled.
    pub(crate) fn settles(&self) -> Order {
        match self.order.is_empty() {
            true => Order::Any,
            false => Order::Total,
        }
    }

    /// The statement.
    pub(crate) fn sql(&self) -> String {
        let mut sql = format!("SELECT {} FROM {}", self.selected(), self.from());
        if let Some(filter) = &self.filter {
            sql += &format!(" WHERE {}", self.test(filter));
        }
        if let Output::Groups { by, more_than, .. } = &self.output {
            sql += by.map_or("", |_| " GROUP BY 1");
            sql += &more_than.map_or(String::new(), |rows| format!(" HAVING count(*) > {rows}"));
        }
        let sorts: Vec<String> = self.order.iter().map(Sort::sql).collect();
        if !sorts.is_empty() {
            sql += &format!(" ORDER BY {}", sorts.join(", "));
        }
        if let Some(limit) = self.limit {
            sql += &format!(" LIMIT {limit} OFFSET {}", self.offset);
        }
        sql
    }

    fn from(&self) -> String {
        let called = |source: &Source| match source.alias {
            Some(alias) => format!("{} AS {alias}", source.name),
            None => source.name.clone(),
        };
        let sources: Vec<String> = self.sources.iter().map(called).collect();
        let Some([left, right]) = self.on else {
            return sources.join(", ");
        };
        let word = if self.is_left {
            " LEFT JOIN "
        } else {
            " JOIN "
        };
        let (left, right) = (self.column(left), self.column(right));
        format!("{} ON {left} = {right}", sources.join(word))
    }

    fn selected(&self) -> String {
        match &self.output {
            Output::Rows { items, distinct } => {
                let items = items.iter().enumerate();
                let items = items.map(|(at, item)| format!("{} AS x{at}", self.term(item)));
                let items: Vec<String> = items.collect();
                let word = if *distinct { "DISTINCT " } else { "" };
                format!("{word}{}", items.join(", "))
            }
            Output::Groups { by, aggregates, .. } => {
                let by = by.map(|by| format!("{} AS g", self.column(by)));
                let told = aggregates.iter().enumerate();
                let told = told.map(|(at, of)| format!("{} AS x{at}", self.aggregate(*of)));
                by.into_iter().chain(told).collect::<Vec<_>>().join(", ")
            }
        }
    }

    fn column(&self, at: usize) -> String {
        let column = &self.columns[at];
        match self.sources[column.source].alias {
            Some(alias) => format!("{alias}.{}", column.name),
            None => column.name.clone(),
        }
    }

    fn aggregate(&self, aggregate: Aggregate) -> String {
        match aggregate {
            Aggregate::Rows => "count(*)".to_owned(),
            Aggregate::Count(at) => format!("count({})", self.column(at)),
            Aggregate::CountDistinct(at) => format!("count(DISTINCT {})", self.column(at)),
            Aggregate::Sum(at) => format!("sum({})", self.column(at)),
            Aggregate::Least(at) => format!("min({})", self.column(at)),
            Aggregate::Greatest(at) => format!("max({})", self.column(at)),
        }
    }

    fn term(&self, term: &Term) -> String {
        match term {
            Term::Column(at) => self.column(*at),
            Term::Constant(constant) => constant.sql.clone(),
            Term::Made(left, operator, right) => {
                let (left, right) = (self.wide(left), self.wide(right));
                format!("({left} {} {right})", operator.word())
            }
        }
    }

    /// A part of arithmetic, of a type that holds what is made of it.
    fn wide(&self, term: &Term) -> String {
        match term {
            Term::Column(at) => format!("CAST({} AS BIGINT)", self.column(*at)),
            other => self.term(other),
        }
    }

    fn test(&self, test: &Test) -> String {
        let term = |term| self.term(term);
        match test {
            Test::Compared(one, how, other) => {
                format!("{} {} {}", term(one), how.word(), term(other))
            }
            Test::Between(of, [low, high]) => {
                format!("{} BETWEEN {} AND {}", term(of), term(low), term(high))
            }
            Test::In(of, items) => {
                let items: Vec<String> = items.iter().map(term).collect();
                format!("{} IN ({})", term(of), items.join(", "))
            }
            Test::IsNull(of) => format!("{} IS NULL", term(of)),
            Test::Like(of, pattern) => format!("{} LIKE '{pattern}'", term(of)),
            Test::Column(at) => self.column(*at),
            Test::And(one, other) => format!("({} AND {})", self.test(one), self.test(other)),
            Test::Or(one, other) => format!("({} OR {})", self.test(one), self.test(other)),
            Test::Not(inner) => self.negated(inner),
            Test::Is(inner, what) => {
                let word = match what {
                    Some(true) => "TRUE",
                    Some(false) => "FALSE",
                    None => "UNKNOWN",
                };
                format!("({}) IS {word}", self.test(inner))
            }
        }
    }

    /// NOT, as it is written with a predicate that has a form of its own for it.
    fn negated(&self, test: &Test) -> String {
        let term = |term| self.term(term);
        match test {
            Test::Between(of, [low, high]) => {
                format!("{} NOT BETWEEN {} AND {}", term(of), term(low), term(high))
            }
            Test::In(of, items) => {
                let items: Vec<String> = items.iter().map(term).collect();
                format!("{} NOT IN ({})", term(of), items.join(", "))
            }
            Test::IsNull(of) => format!("{} IS NOT NULL", term(of)),
            Test::Like(of, pattern) => format!("{} NOT LIKE '{pattern}'", term(of)),
            other => format!("NOT ({})", self.test(other)),
        }
    }
}

impl Sort {
    fn sql(&self) -> String {
        let falls = if self.falls { " DESC" } else { "" };
        let nulls = match self.nulls_first {
            Some(true) => " NULLS FIRST",
            Some(false) => " NULLS LAST",
            None => "",
        };
        format!("{}{falls}{nulls}", self.at + 1)
    }
}

#[cfg(test)]
mod tests;
