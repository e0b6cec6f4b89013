//! Answers that are told by hand, of a few rows, and that they are missed where they are not given.

use std::sync::Arc;

use datafusion::common::ScalarValue;

use super::value::{Unsure, Value, is_like, whole};
use super::{
    Aggregate, Column, Comparison, Constant, Operator, Output, Select, Sort, Source, Term, Test,
};
use crate::change::{Change, Conflict, Given};
use crate::kind::{Cell, Kind};
use crate::plain::batch_of;
use crate::query::Order;
use crate::rows::{Mark, State};
use crate::schema::{self, Table};

/// A whole number and a text; NULL where it is none.
type Pair = (Option<i32>, Option<&'static str>);

fn cells((number, text): Pair) -> Vec<Cell> {
    let texts = [
        number.map(|number| number.to_string()),
        text.map(|text| format!("'{text}'")),
    ];
    let values = [
        ScalarValue::Int32(number),
        ScalarValue::Utf8(text.map(str::to_owned)),
    ];
    let cell = |(sql, value): (Option<String>, ScalarValue)| Cell {
        sql: sql.unwrap_or_else(|| "NULL".to_owned()),
        value,
    };
    texts.into_iter().zip(values).map(cell).collect()
}

/// Tables `t0` and `t1` with columns `a INT` and `b TEXT`.
fn state(tables: [&[Pair]; 2]) -> State {
    let mut state = State::default();
    for (id, pairs) in tables.into_iter().enumerate() {
        let column = |name: &str, kind| schema::Column {
            name: name.to_owned(),
            kind,
            nullable: true,
            wild: false,
            default: None,
            merge: None,
        };
        let columns = vec![column("a", Kind::Int), column("b", Kind::Text)];
        let table = Arc::new(Table::plain(id, format!("t{id}"), columns, Vec::new()));
        state.create(&table);
        let insert = Change::Insert {
            table,
            columns: vec![0, 1],
            given: Given::Values(pairs.iter().copied().map(cells).collect()),
            conflict: Conflict::Replace,
        };
        state.apply(&insert, &Vec::new(), Mark::Own);
    }
    state
}

fn columns(source: usize) -> [Column; 2] {
    [("a", Kind::Int), ("b", Kind::Text)].map(|(name, kind)| Column {
        source,
        name: name.to_owned(),
        kind,
        wild: false,
        key: false,
    })
}

/// `SELECT a, b FROM t0`.
fn select() -> Select {
    Select {
        sources: vec![Source {
            name: "t0".to_owned(),
            alias: None,
        }],
        columns: columns(0).into(),
        on: None,
        is_left: false,
        filter: None,
        output: Output::Rows {
            items: vec![Term::Column(0), Term::Column(1)],
            distinct: false,
        },
        order: Vec::new(),
        limit: None,
        offset: 0,
    }
}

fn constant(number: i32) -> Term {
    Term::Constant(Constant {
        sql: number.to_string(),
        value: whole(number),
    })
}

fn null() -> Term {
    Term::Constant(Constant {
        sql: "NULL".to_owned(),
        value: Value::Null,
    })
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

const ROWS: [Pair; 4] = [
    (Some(1), Some("x")),
    (Some(2), None),
    (None, Some("ab")),
    (Some(-3), Some("x")),
];

/// The numbers of the rows that a predicate holds for.
fn found(test: Test) -> Vec<Value> {
    let select = Select {
        filter: Some(test),
        ..select()
    };
    let answer = select.answer(&state([&ROWS, &[]])).unwrap();
    answer.into_iter().map(|row| row[0].clone()).collect()
}

#[test]
fn what_nobody_knows_is_neither_true_nor_false() {
    let equal = |number| Test::Compared(Term::Column(0), Comparison::Equal, constant(number));
    let not = |test| Test::Not(Box::new(test));
    assert_eq!(found(equal(1)), [whole(1)]);
    assert_eq!(found(not(equal(1))), [whole(2), whole(-3)]);
    let among = || Test::In(Term::Column(0), vec![constant(1), null()]);
    assert_eq!(found(among()), [whole(1)]);
    assert!(found(not(among())).is_empty());
    let unknown = Test::Is(Box::new(equal(1)), None);
    assert_eq!(found(unknown), [Value::Null]);
    let either = Test::Or(Box::new(equal(7)), Box::new(Test::IsNull(Term::Column(0))));
    assert_eq!(found(either), [Value::Null]);
    let between = Test::Between(Term::Column(0), [constant(-3), constant(1)]);
    assert_eq!(found(between), [whole(1), whole(-3)]);
    let like = Test::Like(Term::Column(1), "_b");
    assert_eq!(found(like), [Value::Null]);
}

#[test]
fn patterns() {
    let is_like = |text: &str, pattern: &str| {
        let (text, pattern): (Vec<char>, Vec<char>) =
            (text.chars().collect(), pattern.chars().collect());
        is_like(&text, &pattern)
    };
    for (text, pattern) in [
        ("", ""),
        ("", "%"),
        ("abc", "a%"),
        ("abc", "%b%"),
        ("ü", "_"),
        ("a_b", "a\\_%"),
        ("%", "\\%"),
    ] {
        assert!(is_like(text, pattern), "{text} {pattern}");
    }
    for (text, pattern) in [("a", ""), ("ab", "_"), ("axb", "a\\_%"), ("abc", "%b")] {
        assert!(!is_like(text, pattern), "{text} {pattern}");
    }
}

#[test]
fn arithmetic_is_of_whole_numbers() {
    let made = |one: i32, operator, other: i32| whole(one).made(operator, &whole(other));
    assert_eq!(made(-7, Operator::Over, 2), Ok(whole(-3)));
    assert_eq!(made(-7, Operator::Rest, 2), Ok(whole(-1)));
    assert_eq!(made(3, Operator::Times, -4), Ok(whole(-12)));
    assert_eq!(made(3, Operator::Minus, 4), Ok(whole(-1)));
    let large = whole(i64::MAX);
    assert_eq!(large.made(Operator::Plus, &whole(1)), Err(Unsure));
    assert_eq!(Value::Null.made(Operator::Plus, &large), Ok(Value::Null));
    // Not half of what it is compared with.
    assert!(whole(2) < Value::Number(25) && Value::Number(25) < whole(3));
}

#[test]
fn groups_and_their_aggregates() {
    let grouped = |by, aggregates: &[Aggregate], more_than| Select {
        output: Output::Groups {
            by,
            aggregates: aggregates.to_vec(),
            more_than,
        },
        ..select()
    };
    let aggregates = [
        Aggregate::Rows,
        Aggregate::Count(0),
        Aggregate::Sum(0),
        Aggregate::Least(0),
        Aggregate::Greatest(0),
        Aggregate::CountDistinct(1),
    ];
    let of = |select: &Select, rows: &[Pair]| select.answer(&state([rows, &[]])).unwrap();
    let all = grouped(None, &aggregates, None);
    let told = [4, 3, 0, -3, 2, 2].map(whole).to_vec();
    assert_eq!(of(&all, &ROWS), [told]);
    let zero = || whole(0);
    let none = || Value::Null;
    let told = vec![zero(), zero(), none(), none(), none(), zero()];
    assert_eq!(of(&all, &[]), [told]);
    let by_text = grouped(Some(1), &aggregates[..1], None);
    let told = [
        vec![Value::Null, whole(1)],
        vec![text("ab"), whole(1)],
        vec![text("x"), whole(2)],
    ];
    assert_eq!(of(&by_text, &ROWS), told);
    let many = grouped(Some(1), &aggregates[..1], Some(1));
    assert_eq!(of(&many, &ROWS), [vec![text("x"), whole(2)]]);
}

#[test]
fn joins_and_orders() {
    let mut joined = select();
    joined.sources = [("t0", "l"), ("t1", "r")]
        .map(|(name, alias)| Source {
            name: name.to_owned(),
            alias: Some(alias),
        })
        .into();
    joined.columns.extend(columns(1));
    joined.on = Some([1, 3]);
    joined.output = Output::Rows {
        items: vec![Term::Column(0), Term::Column(2)],
        distinct: false,
    };
    let sort = |at, falls| Sort {
        at,
        falls,
        nulls_first: None,
    };
    joined.order = vec![sort(0, true), sort(1, false)];
    let right: [Pair; 3] = [(Some(8), Some("x")), (Some(9), None), (None, Some("x"))];
    let state = state([&ROWS, &right]);
    let inner = [
        [whole(1), whole(8)],
        [whole(1), Value::Null],
        [whole(-3), whole(8)],
        [whole(-3), Value::Null],
    ];
    assert_eq!(joined.answer(&state).unwrap(), inner.map(Vec::from));
    joined.is_left = true;
    joined.offset = 1;
    joined.limit = Some(2);
    let left = [[whole(2), Value::Null], [whole(1), whole(8)]];
    assert_eq!(joined.answer(&state).unwrap(), left.map(Vec::from));
    assert_eq!(
        joined.sql(),
        "SELECT l.a AS x0, r.a AS x1 FROM t0 AS l LEFT JOIN t1 AS r ON l.b = r.b \
         ORDER BY 1 DESC, 2 LIMIT 2 OFFSET 1"
    );
    assert_eq!(joined.settles(), Order::Total);
}

#[test]
fn other_answers_are_missed() {
    let state = state([&ROWS, &[]]);
    let judged = |select: &Select, rows: &[Pair]| {
        let rows: Vec<Vec<Cell>> = rows.iter().copied().map(cells).collect();
        select.judged(&state, &[batch_of(&["a", "b"], &rows).unwrap()])
    };
    let mut rows = ROWS;
    assert_eq!(judged(&select(), &rows), Some(Ok(())));
    rows.reverse();
    assert_eq!(judged(&select(), &rows), Some(Ok(())));
    assert!(judged(&select(), &rows[1..]).unwrap().is_err());
    let twice = [rows.as_slice(), &rows[..1]].concat();
    assert!(judged(&select(), &twice).unwrap().is_err());
    rows[0].0 = Some(7);
    assert!(judged(&select(), &rows).unwrap().is_err());
    let sorted = Select {
        order: vec![Sort {
            at: 0,
            falls: false,
            nulls_first: Some(true),
        }],
        ..select()
    };
    let in_order = [ROWS[2], ROWS[3], ROWS[0], ROWS[1]];
    assert_eq!(judged(&sorted, &in_order), Some(Ok(())));
    assert!(judged(&sorted, &ROWS).unwrap().is_err());
    let mut unknown = select();
    unknown.sources[0].name = "t7".to_owned();
    assert_eq!(judged(&unknown, &ROWS), None);
}
