//! Random expressions over the columns that a query can see, by the class of their values.
//!
//! They avoid what fails for some rows alone (division by zero, casts that do not fit): which rows
//! an engine looks at is its own choice.

use crate::dice::Dice;
use crate::hidden;
use crate::kind::{Class, Kind, PATHS};
use crate::schema::{Schema, Table, View};

/// A column as a query names it.
#[derive(Debug, Clone)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) class: Class,
    pub(crate) kind: Kind,
    pub(crate) wild: bool,
    pub(crate) key: bool,
}

impl Name {
    /// The columns of a table, behind its alias where it has one.
    pub(crate) fn of_table(table: &Table, alias: Option<&str>) -> Vec<Name> {
        let all: Vec<usize> = (0..table.columns.len()).collect();
        Name::of_columns(table, &all, alias)
    }

    pub(crate) fn of_view(view: &View, alias: Option<&str>) -> Vec<Name> {
        Name::of_columns(&view.table, &view.columns, alias)
    }

    /// The hidden columns of a table.
    pub(crate) fn hidden(table: &Table, alias: Option<&str>) -> Vec<Name> {
        let named = |column: &str| match alias {
            Some(alias) => format!("{alias}.{column}"),
            None => column.to_owned(),
        };
        let name = |text: String, kind: Kind| Name {
            text,
            class: kind.class(),
            kind,
            wild: false,
            key: false,
        };
        let mut names = vec![
            name(named(hidden::SCU), Kind::BigInt),
            name(named(hidden::TIME), Kind::TimestampTz),
        ];
        let columns = table.columns.iter();
        names.extend(columns.map(|column| {
            let text = hidden::time_of(&named(&column.name));
            name(text, Kind::TimestampTz)
        }));
        names
    }

    fn of_columns(table: &Table, columns: &[usize], alias: Option<&str>) -> Vec<Name> {
        let name = |at: &usize| {
            let column = &table.columns[*at];
            Name {
                text: match alias {
                    Some(alias) => format!("{alias}.{}", column.name),
                    None => column.name.clone(),
                },
                class: column.class(),
                kind: column.kind,
                wild: column.wild,
                key: table.is_key(*at),
            }
        };
        columns.iter().map(name).collect()
    }
}

/// Writes expressions.
pub(crate) struct Writer<'a> {
    pub(crate) dice: &'a mut Dice,
    names: &'a [Name],
    /// Where subqueries may look.
    schema: Option<&'a Schema>,
    /// Whether wild columns stay out: what is made of them may hang on the order of rows.
    tame: bool,
    /// How many subqueries an expression may still have.
    subqueries: usize,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(
        dice: &'a mut Dice,
        names: &'a [Name],
        schema: Option<&'a Schema>,
    ) -> Writer<'a> {
        Writer {
            dice,
            names,
            schema,
            tame: false,
            subqueries: 1,
        }
    }

    pub(crate) fn tame(mut self) -> Self {
        self.tame = true;
        self
    }

    /// A class that there is a column of, mostly.
    pub(crate) fn class(&mut self) -> Class {
        let names: Vec<Class> = self.names.iter().map(|name| name.class).collect();
        let named = self.dice.choose(&names).copied();
        match named.filter(|class| *class != Class::List && *class != Class::File) {
            Some(class) if !self.dice.one_in(10) => class,
            _ => Class::SORTED[self.dice.roll(Class::SORTED.len())],
        }
    }

    /// A column of a class, if there is one.
    pub(crate) fn column(&mut self, class: Class) -> Option<Name> {
        let tame = self.tame;
        let fits = |name: &&Name| name.class == class && !(tame && name.wild);
        let found: Vec<&Name> = self.names.iter().filter(fits).collect();
        self.dice.choose(&found).map(|name| (*name).clone())
    }

    /// A constant of a class.
    pub(crate) fn constant(&mut self, class: Class) -> String {
        let kind = class.kind(self.dice);
        let wild = !self.tame;
        self.constant_of(kind, wild)
    }

    fn constant_of(&mut self, kind: Kind, wild: bool) -> String {
        let sql = kind.cell(self.dice, wild, PATHS.1).sql;
        match kind {
            Kind::Date => format!("DATE {sql}"),
            Kind::Timestamp => format!("TIMESTAMP {sql}"),
            Kind::Time => format!("CAST({sql} AS TIME)"),
            Kind::TimestampTz => format!("CAST({sql} AS TIMESTAMP WITH TIME ZONE)"),
            Kind::Real | Kind::Double => format!("CAST({sql} AS {})", kind.declared()),
            Kind::Decimal if self.dice.one_in(2) => format!("CAST({sql} AS DECIMAL(10, 2))"),
            _ => sql,
        }
    }

    /// An expression of a class.
    pub(crate) fn value(&mut self, class: Class, depth: u32) -> String {
        let simple = depth == 0 || !self.dice.one_in(3);
        if simple
            && !self.dice.one_in(6)
            && let Some(name) = self.column(class)
        {
            return name.text;
        }
        if simple || matches!(class, Class::List | Class::File) {
            return match class {
                Class::List | Class::File => "NULL".to_owned(),
                _ => self.constant(class),
            };
        }
        let less = depth - 1;
        match self.dice.roll(8) {
            0 => {
                let (test, then) = (self.truth(less), self.value(class, less));
                let other = self.value(class, less);
                format!("CASE WHEN {test} THEN {then} ELSE {other} END")
            }
            1 => {
                let (one, other) = (self.value(class, less), self.value(class, less));
                let function = self
                    .dice
                    .pick(&["COALESCE", "NULLIF", "COALESCE", "NULLIF"]);
                format!("{function}({one}, {other})")
            }
            _ => self.made(class, less),
        }
    }

    /// An expression that is of this class alone.
    fn made(&mut self, class: Class, depth: u32) -> String {
        match class {
            Class::Bool => format!("({})", self.truth(depth)),
            Class::Int => self.int(depth),
            Class::Float => self.float(depth),
            Class::Decimal => {
                let (one, other) = (self.value(class, depth), self.value(class, depth));
                let operator = self.dice.pick(&["+", "-"]);
                format!("({one} {operator} {other})")
            }
            Class::Text => self.text(depth),
            Class::Date => match self.dice.roll(3) {
                0 => format!("CAST({} AS DATE)", self.value(Class::Timestamp, depth)),
                1 => format!(
                    "CAST(({} + INTERVAL '2 days') AS DATE)",
                    self.value(class, depth)
                ),
                _ => self.constant(class),
            },
            Class::Timestamp => match self.dice.roll(4) {
                0 => {
                    let unit = self.dice.pick(&["day", "hour", "month"]);
                    format!("date_trunc('{unit}', {})", self.value(class, depth))
                }
                1 => format!("({} - INTERVAL '7 hours')", self.value(class, depth)),
                2 => self.in_zone(Class::TimestampTz, depth),
                _ => format!("CAST({} AS TIMESTAMP)", self.value(Class::Date, depth)),
            },
            Class::TimestampTz if self.dice.one_in(3) => self.in_zone(Class::Timestamp, depth),
            _ => match self.column(class) {
                Some(name) => name.text,
                None => self.constant(class),
            },
        }
    }

    /// What the clocks of a zone show at a moment, or the moment at which they show that.
    fn in_zone(&mut self, class: Class, depth: u32) -> String {
        let zone = self
            .dice
            .pick(&["Europe/Berlin", "America/New_York", "UTC"]);
        format!("({} AT TIME ZONE '{zone}')", self.value(class, depth))
    }

    fn int(&mut self, depth: u32) -> String {
        let value = self.value(Class::Int, depth);
        let number = self.dice.between(1, 4);
        match self.dice.roll(8) {
            0 | 1 => {
                let operator = self.dice.pick(&["+", "-", "*"]);
                let other = self.value(Class::Int, depth);
                // The difference of two numbers without a sign has one here; over plain tables it
                // wraps around.
                match operator {
                    "-" => format!("(CAST({value} AS BIGINT) - {other})"),
                    _ => format!("({value} {operator} {other})"),
                }
            }
            2 => format!("({value} % {number})"),
            3 => format!("({value} / {number})"),
            4 => format!("character_length({})", self.value(Class::Text, depth)),
            5 => format!("CAST({} AS INT)", self.value(Class::Bool, depth)),
            6 => {
                let part = self.dice.pick(&["day", "month", "year", "dow"]);
                format!("extract({part} FROM {})", self.value(Class::Date, depth))
            }
            _ => format!("CAST({value} AS BIGINT)"),
        }
    }

    fn float(&mut self, depth: u32) -> String {
        let value = self.value(Class::Float, depth);
        match self.dice.roll(6) {
            0 | 1 => {
                let operator = self.dice.pick(&["+", "-"]);
                let other = self.value(Class::Float, depth);
                format!("({value} {operator} {other})")
            }
            2 => format!("({value} * 0.5)"),
            3 => format!("floor({value})"),
            4 => format!(
                "CAST({} AS DOUBLE PRECISION)",
                self.value(Class::Decimal, depth)
            ),
            _ => format!("abs({value})"),
        }
    }

    fn text(&mut self, depth: u32) -> String {
        let value = self.value(Class::Text, depth);
        match self.dice.roll(9) {
            0 | 1 => format!("({value} || {})", self.value(Class::Text, depth)),
            2 => format!(
                "{}({value})",
                self.dice.pick(&["upper", "lower", "trim", "reverse"])
            ),
            3 => format!("substr({value}, {}, 2)", self.dice.between(1, 3)),
            4 => format!("replace({value}, 'a', 'xy')"),
            5 => format!("left({value}, 2)"),
            6 => format!("CAST({} AS TEXT)", self.value(Class::Int, depth)),
            7 => format!("CAST({} AS TEXT)", self.value(Class::Date, depth)),
            _ => format!("concat({value}, {})", self.value(Class::Text, depth)),
        }
    }

    /// A predicate.
    pub(crate) fn truth(&mut self, depth: u32) -> String {
        let less = depth.saturating_sub(1);
        match self.dice.roll(20) {
            0..=3 if depth > 0 => {
                let operator = self.dice.pick(&["AND", "AND", "OR"]);
                format!("({} {operator} {})", self.truth(less), self.truth(less))
            }
            4 if depth > 0 => format!("NOT ({})", self.truth(less)),
            5 if depth > 0 => {
                let word = self
                    .dice
                    .pick(&["IS TRUE", "IS NOT TRUE", "IS UNKNOWN", "IS FALSE"]);
                format!("({}) {word}", self.truth(less))
            }
            6 | 7 if depth > 0 && self.subqueries > 0 => self.subquery(),
            8..=15 => self.of_column(),
            16 | 17 => self.comparison(less),
            18 => match self.column(Class::Bool) {
                Some(name) => name.text,
                None => self.of_column(),
            },
            _ => self.of_column(),
        }
    }

    fn comparison(&mut self, depth: u32) -> String {
        let class = self.class();
        let (one, other) = (self.value(class, depth), self.value(class, depth));
        compared(&one, self.operator(), &other)
    }

    fn operator(&mut self) -> &'static str {
        self.dice.pick(&[
            "=",
            "=",
            "<",
            "<=",
            ">",
            ">=",
            "<>",
            "IS DISTINCT FROM",
            "IS NOT DISTINCT FROM",
        ])
    }

    /// A predicate on one column with constants: what scans are pruned by.
    fn of_column(&mut self) -> String {
        let (keys, all): (Vec<&Name>, Vec<&Name>) = (
            self.names.iter().filter(|name| name.key).collect(),
            self.names.iter().collect(),
        );
        let from = if self.dice.one_in(2) { &keys } else { &all };
        let from = if from.is_empty() { &all } else { from };
        let Some(name) = self.dice.choose(from).map(|name| (*name).clone()) else {
            return "TRUE".to_owned();
        };
        if self.dice.one_in(8) || name.class == Class::List {
            let word = self.dice.pick(&["IS NULL", "IS NOT NULL"]);
            return format!("{} {word}", name.text);
        }
        if name.class == Class::File {
            return self.of_file(&name);
        }
        let column = &name.text;
        let not = self.dice.pick(&["", "", "NOT "]);
        match self.dice.roll(10) {
            0..=3 => {
                let (operator, constant) = (self.operator(), self.near(&name));
                match self.dice.one_in(4) {
                    true => compared(&constant, operator, column),
                    false => compared(column, operator, &constant),
                }
            }
            4 | 5 => {
                let (low, high) = (self.near(&name), self.near(&name));
                format!("{column} {not}BETWEEN {low} AND {high}")
            }
            6 | 7 => {
                let mut items: Vec<String> = (0..1 + self.dice.roll(5))
                    .map(|_| self.near(&name))
                    .collect();
                items.extend(self.dice.one_in(8).then(|| "NULL".to_owned()));
                format!("{column} {not}IN ({})", items.join(", "))
            }
            8 if name.class == Class::Text => self.like(&name),
            _ => {
                let (low, high) = (self.near(&name), self.near(&name));
                format!("({column} >= {low} AND {column} < {high})")
            }
        }
    }

    fn of_file(&mut self, name: &Name) -> String {
        let mut path = || Kind::File.cell(self.dice, false, PATHS.1).sql;
        let (one, other) = (path(), path());
        match self.dice.roll(4) {
            0 => format!("{} <> {one}", name.text),
            1 => format!("{} IN ({one}, {other})", name.text),
            _ => format!("{} = {one}", name.text),
        }
    }

    fn like(&mut self, name: &Name) -> String {
        let patterns = ["a%", "%b", "%a%", "_", "", "ab", "a\\_%", "%ü%", "B%", "Z%"];
        let pattern = self.dice.pick(&patterns);
        let word = self.dice.pick(&["LIKE", "NOT LIKE", "ILIKE", "LIKE"]);
        format!("{} {word} '{pattern}'", name.text)
    }

    /// A constant for a comparison with a column: of its type, or of one that is like it.
    fn near(&mut self, name: &Name) -> String {
        if self.dice.one_in(6) {
            match name.class {
                Class::Int => {
                    let odd = [
                        "2.5",
                        "-0.5",
                        "300",
                        "-129",
                        "70000",
                        "'4'",
                        "3e0",
                        "CAST(7 AS BIGINT)",
                    ];
                    return self.dice.pick(&odd).to_owned();
                }
                Class::Float => return self.dice.pick(&["1", "'0.5'", "2.25", "0"]).to_owned(),
                Class::Decimal => return self.dice.pick(&["1", "0.333", "2.5e0"]).to_owned(),
                Class::Date => {
                    let odd = ["TIMESTAMP '2024-01-03 07:00:00'", "'2024-01-02'"];
                    return self.dice.pick(&odd).to_owned();
                }
                Class::Timestamp => {
                    let odd = ["DATE '2024-01-03'", "'2024-01-02T07:00:00'", "'2024-01-04'"];
                    return self.dice.pick(&odd).to_owned();
                }
                Class::TimestampTz => return "'2024-01-03T09:00:00+02:00'".to_owned(),
                _ => {}
            }
        }
        match self.dice.one_in(2) {
            true => self.constant_of(name.kind, name.wild),
            false => name.kind.cell(self.dice, name.wild, PATHS.1).sql,
        }
    }

    fn subquery(&mut self) -> String {
        let Some(schema) = self.schema else {
            return self.of_column();
        };
        self.subqueries -= 1;
        let Some(table) = self.dice.choose(&schema.tables).cloned() else {
            return self.of_column();
        };
        let inner = Name::of_table(&table, Some("s"));
        let class = self.class();
        let (Some(outer), Some(like)) = (
            self.column(class),
            inner.iter().find(|name| name.class == class).cloned(),
        ) else {
            return self.of_column();
        };
        let filter = Writer::new(self.dice, &inner, None).truth(1);
        let (outer, like, from) = (outer.text, like.text, &table.name);
        match self.dice.roll(6) {
            0 => format!("EXISTS (SELECT 1 FROM {from} AS s WHERE {like} = {outer} AND {filter})"),
            1 => format!("NOT EXISTS (SELECT 1 FROM {from} AS s WHERE {like} = {outer})"),
            // What is not known is NULL here; over plain tables it is not found.
            at @ 2..=4 => {
                let word = match at {
                    4 => "NOT IN",
                    _ => "IN",
                };
                let known = format!("{filter} AND {like} IS NOT NULL");
                let rows = format!("SELECT {like} FROM {from} AS s WHERE {known}");
                format!("({outer} IS NOT NULL AND {outer} {word} ({rows}))")
            }
            _ => {
                let function = self.dice.pick(&["min", "max"]);
                let operator = self.operator();
                let value = format!("(SELECT {function}({like}) FROM {from} AS s WHERE {filter})");
                compared(&outer, operator, &value)
            }
        }
    }
}

/// A comparison. The plain engine takes what stands behind IS DISTINCT FROM for all of it.
fn compared(one: &str, operator: &str, other: &str) -> String {
    match operator.starts_with("IS") {
        true => format!("({one} {operator} {other})"),
        false => format!("{one} {operator} {other}"),
    }
}
