//! Random queries, and how much of the order of their rows is settled.

use std::borrow::Cow;
use std::sync::Arc;

use lazybase_query::Value;

use crate::by_hand::Select;
use crate::dice::Dice;
use crate::expr::{Name, Writer};
use crate::kind::Class;
use crate::rows::State;
use crate::schema::{Schema, Table};

mod asked;
mod grouped;
#[cfg(test)]
mod tests;

use asked::{Wildcard, Words};
use grouped::aggregate;

/// What an answer is held to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Order {
    /// The rows, in any order.
    Any,
    /// The rows, where these columns rise or fall as expected.
    By(Vec<usize>),
    /// All of it.
    Total,
    /// So many rows after so many, of those that the query without LIMIT gives.
    Some {
        whole: String,
        limit: usize,
        offset: usize,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct Query {
    pub(crate) sql: String,
    pub(crate) order: Order,
    /// The same with parameters in the place of its constants.
    pub(crate) bound: Option<(String, Vec<Value>)>,
    /// The same in other words, where the plain engine is not trusted with these.
    words: Option<Words>,
    /// What its answer is told by, where that can be done by hand.
    pub(crate) by_hand: Option<Arc<Select>>,
}

impl Query {
    fn new(sql: String, order: Order) -> Query {
        Query {
            sql,
            order,
            bound: None,
            words: None,
            by_hand: None,
        }
    }

    /// What the plain engine is asked, where names mean what they do in this state.
    pub(crate) fn asked(&self, state: impl FnOnce() -> State) -> Cow<'_, str> {
        let words = self.words.as_ref();
        let words = words.and_then(|words| words.over(state));
        words.unwrap_or_else(|| match &self.order {
            Order::Some { whole, .. } => Cow::from(whole),
            _ => Cow::from(&self.sql),
        })
    }
}

/// Something that stands in FROM.
#[derive(Debug, Clone)]
struct Source {
    name: String,
    /// With these names when it has this alias.
    names: Vec<Name>,
    /// How many of them a wildcard gives: the others are hidden.
    shown: usize,
    /// Those of the key, where all of it can be seen.
    key: Vec<String>,
}

/// A query before its ORDER BY.
struct Body {
    sql: String,
    /// Of each column of the answer, whether it can be sorted by.
    sortable: Vec<bool>,
    /// Names that together tell every two rows apart.
    unique: Vec<String>,
    /// Whether ORDER BY may name columns that are not in the answer.
    plain: bool,
    /// The same in other words, for the plain engine.
    words: Option<Words>,
}

/// Writes queries over a schema.
pub(crate) struct Queries<'a> {
    dice: &'a mut Dice,
    schema: &'a Schema,
    /// Whether hidden columns of tables may be named.
    hidden: bool,
}

impl<'a> Queries<'a> {
    pub(crate) fn new(dice: &'a mut Dice, schema: &'a Schema) -> Queries<'a> {
        let hidden = dice.one_in(10);
        Queries {
            dice,
            schema,
            hidden,
        }
    }

    pub(crate) fn draw(&mut self) -> Query {
        match self.dice.roll(33) {
            0..=3 => self.point(),
            4 | 5 => self.counted(),
            6..=14 => {
                let body = self.simple();
                self.finished(body)
            }
            15..=19 => {
                let body = self.grouped();
                self.finished(body)
            }
            20..=23 => {
                let body = self.joined();
                self.finished(body)
            }
            24 | 25 => {
                let body = self.set_operation();
                self.finished(body)
            }
            26 | 27 => self.windowed(),
            28 | 29 => {
                let body = self.derived();
                self.finished(body)
            }
            _ => self.by_hand(),
        }
    }

    /// A query whose answer is told by hand too.
    fn by_hand(&mut self) -> Query {
        let Some(select) = Select::draw(self.dice, self.schema) else {
            let body = self.simple();
            return self.finished(body);
        };
        Query {
            by_hand: Some(Arc::new(select.clone())),
            ..Query::new(select.sql(), select.settles())
        }
    }

    /// A table or a view, under an alias or not.
    fn source(&mut self, alias: Option<&str>) -> Source {
        let (tables, views) = (&self.schema.tables, &self.schema.views);
        let at = self.dice.roll(tables.len() * 2 + views.len());
        let qualifier = |name: &String| match alias {
            Some(alias) => Some(alias.to_owned()),
            None => Some(name.clone()),
        };
        let (name, table, names, hidden) = match at.checked_sub(tables.len() * 2) {
            Some(view) => {
                let view = &views[view];
                let names = Name::of_view(view, alias);
                (&view.name, &view.table, names, Vec::new())
            }
            None => {
                let table = &tables[at / 2];
                let names = Name::of_table(table, alias);
                (&table.name, table, names, self.hidden_of(table, alias))
            }
        };
        let shown = names.len();
        let qualifier = qualifier(name).filter(|_| alias.is_some());
        let key = table.names(&table.key);
        let key = key.iter().map(|column| match &qualifier {
            Some(alias) => format!("{alias}.{column}"),
            None => (*column).to_owned(),
        });
        Source {
            key: key.collect(),
            name: match alias {
                Some(alias) => format!("{name} AS {alias}"),
                None => name.clone(),
            },
            names: [names, hidden].concat(),
            shown,
        }
    }

    /// The hidden columns that a query may name.
    fn hidden_of(&self, table: &Table, alias: Option<&str>) -> Vec<Name> {
        match self.hidden {
            true => Name::hidden(table, alias),
            false => Vec::new(),
        }
    }

    fn filter(&mut self, names: &[Name]) -> String {
        match self.dice.one_in(5) {
            true => String::new(),
            false => {
                let truth = Writer::new(self.dice, names, Some(self.schema)).truth(3);
                format!(" WHERE {truth}")
            }
        }
    }

    /// Rows by all of a key, or a list of keys.
    fn point(&mut self) -> Query {
        let keyed: Vec<_> = self
            .schema
            .tables
            .iter()
            .filter(|t| !t.key.is_empty())
            .collect();
        let Some(table) = self.dice.choose(&keyed).map(|table| (*table).clone()) else {
            let body = self.simple();
            return self.finished(body);
        };
        let names = [Name::of_table(&table, None), self.hidden_of(&table, None)].concat();
        let items = match self.dice.one_in(2) {
            true => "*".to_owned(),
            false => {
                let mut names: Vec<String> = names.iter().map(|name| name.text.clone()).collect();
                self.dice.shuffle(&mut names);
                names.truncate(1 + self.dice.roll(names.len()));
                names.join(", ")
            }
        };
        let begin = format!("SELECT {items} FROM {} WHERE ", table.name);
        if self.dice.one_in(4) {
            let keys: Vec<String> = (0..2 + self.dice.roll(2))
                .map(|_| format!("({})", self.key_of(&table).0.join(" AND ")))
                .collect();
            return Query::new(begin + &keys.join(" OR "), Order::Any);
        }
        let (parts, bound, values) = self.key_of(&table);
        let mut query = Query::new(begin.clone() + &parts.join(" AND "), Order::Any);
        query.bound = values.map(|values| (begin + &bound.join(" AND "), values));
        query
    }

    /// All of a key: with constants, with parameters, and their values.
    fn key_of(&mut self, table: &Table) -> (Vec<String>, Vec<String>, Option<Vec<Value>>) {
        let (mut parts, mut bound, mut values) = (Vec::new(), Vec::new(), Some(Vec::new()));
        for (number, at) in table.key.iter().enumerate() {
            let column = &table.columns[*at];
            let cell = column
                .kind
                .cell(self.dice, column.wild, crate::kind::PATHS.1);
            parts.push(format!("{} = {}", column.name, cell.sql));
            bound.push(format!("{} = ${}", column.name, number + 1));
            values = values.zip(cell.bound()).map(|(mut values, value)| {
                values.push(value);
                values
            });
        }
        (parts, bound, values)
    }

    /// Counts and ends of a whole source: what statistics may answer.
    fn counted(&mut self) -> Query {
        let source = self.source(None);
        let mut writer = Writer::new(self.dice, &source.names, None).tame();
        let mut items = vec!["count(*) AS n".to_owned()];
        for at in 0..2 {
            let class = writer.class();
            if let Some(name) = writer
                .column(class)
                .filter(|name| name.class != Class::Bool)
            {
                let function = writer.dice.pick(&["min", "max", "count", "count"]);
                items.push(format!("{function}({}) AS x{at}", name.text));
            }
        }
        let filter = match self.dice.one_in(3) {
            true => self.filter(&source.names),
            false => String::new(),
        };
        let sql = format!("SELECT {} FROM {}{filter}", items.join(", "), source.name);
        Query::new(sql, Order::Total)
    }

    /// Expressions over one source.
    fn simple(&mut self) -> Body {
        let alias = self.dice.one_in(3).then_some("q");
        let source = self.source(alias);
        let distinct = self.dice.one_in(8);
        if self.dice.one_in(3) && !distinct {
            return self.starred(source);
        }
        let (items, sortable) = self.items(&source.names, false);
        let filter = self.filter(&source.names);
        let word = if distinct { "DISTINCT " } else { "" };
        Body {
            sql: format!(
                "SELECT {word}{} FROM {}{filter}",
                items.join(", "),
                source.name
            ),
            sortable,
            unique: if distinct { Vec::new() } else { source.key },
            plain: !distinct,
            words: None,
        }
    }

    /// All columns of a source, and perhaps a hidden one. In plain tables none is hidden, so that
    /// they are asked for each by its name.
    fn starred(&mut self, source: Source) -> Body {
        let (shown, hidden) = source.names.split_at(source.shown);
        let mut sortable: Vec<bool> = shown.iter().map(|name| name.class.has_order()).collect();
        let mut beside = String::new();
        if let Some(name) = self.dice.choose(hidden).cloned() {
            beside = format!(", {} AS x0", name.text);
            sortable.push(true);
        }
        let rest = format!(
            "{beside} FROM {}{}",
            source.name,
            self.filter(&source.names)
        );
        let (name, alias) = match source.name.split_once(" AS ") {
            Some((name, alias)) => (name, Some(alias.to_owned())),
            None => (source.name.as_str(), None),
        };
        let wildcard = Wildcard {
            name: name.to_owned(),
            alias,
        };
        let words = (!hidden.is_empty()).then(|| Words::all_of(wildcard, rest.clone()));
        Body {
            sql: format!("SELECT *{rest}"),
            sortable,
            unique: source.key,
            plain: true,
            words,
        }
    }

    /// Some expressions, each with a name of its own; lists among them unless `sorted`.
    fn items(&mut self, names: &[Name], sorted: bool) -> (Vec<String>, Vec<bool>) {
        let (mut items, mut sortable) = (Vec::new(), Vec::new());
        for at in 0..1 + self.dice.roll(4) {
            let mut writer = Writer::new(self.dice, names, None);
            let listed = !sorted && writer.dice.one_in(8);
            let (text, class) = match writer.column(Class::List).filter(|_| listed) {
                Some(name) => (name.text, Class::List),
                None => {
                    let class = writer.class();
                    (writer.value(class, 2), class)
                }
            };
            items.push(format!("{text} AS x{at}"));
            sortable.push(class.has_order());
        }
        (items, sortable)
    }

    fn joined(&mut self) -> Body {
        let (one, two) = (self.source(Some("l")), self.source(Some("r")));
        let mut names = one.names.clone();
        names.extend(two.names.iter().cloned());
        let word = self.dice.pick(&[
            "JOIN",
            "JOIN",
            "LEFT JOIN",
            "RIGHT JOIN",
            "FULL JOIN",
            "LEFT SEMI JOIN",
            "LEFT ANTI JOIN",
        ]);
        let one_sided = word.starts_with("LEFT SEMI") || word.starts_with("LEFT ANTI");
        let mut on: Vec<String> = Vec::new();
        for _ in 0..1 + self.dice.roll(2) {
            on.extend(self.equal(&one.names, &two.names));
        }
        if on.is_empty() {
            on.push("TRUE".to_owned());
        } else if self.dice.one_in(4) {
            on.push(Writer::new(self.dice, &names, None).truth(1));
        }
        let mut from = format!("{} {word} {} ON {}", one.name, two.name, on.join(" AND "));
        let mut seen = if one_sided { one.names.clone() } else { names };
        let mut unique = one.key.clone();
        if !one_sided {
            unique = match (one.key.is_empty(), two.key.is_empty()) {
                (false, false) => [one.key, two.key].concat(),
                _ => Vec::new(),
            };
        }
        if self.dice.one_in(4) {
            let three = self.source(Some("m"));
            if let Some(equal) = self.equal(&one.names, &three.names) {
                from = format!("{from} JOIN {} ON {equal}", three.name);
                seen.extend(three.names.clone());
                unique = match unique.is_empty() || three.key.is_empty() {
                    true => Vec::new(),
                    false => [unique, three.key].concat(),
                };
            }
        }
        let filter = self.filter(&seen);
        if self.dice.one_in(5) {
            let mut writer = Writer::new(self.dice, &seen, None);
            let item = aggregate(&mut writer);
            return Body {
                sql: format!("SELECT count(*) AS n, {item} AS x0 FROM {from}{filter}"),
                sortable: vec![true; 2],
                unique: Vec::new(),
                plain: false,
                words: None,
            };
        }
        let (items, sortable) = self.items(&seen, false);
        Body {
            sql: format!("SELECT {} FROM {from}{filter}", items.join(", ")),
            sortable,
            unique,
            plain: true,
            words: None,
        }
    }

    /// A column of each side that can be equal.
    fn equal(&mut self, one: &[Name], two: &[Name]) -> Option<String> {
        let mut pairs = Vec::new();
        for left in one.iter().filter(|name| name.class.has_order()) {
            for right in two.iter().filter(|name| name.class == left.class) {
                pairs.push((left, right));
            }
        }
        let (left, right) = self.dice.choose(&pairs)?;
        Some(format!("{} = {}", left.text, right.text))
    }

    fn set_operation(&mut self) -> Body {
        // INTERSECT ALL and EXCEPT ALL count rows here, and not over plain tables.
        let word = self
            .dice
            .pick(&["UNION", "UNION ALL", "UNION ALL", "INTERSECT", "EXCEPT"]);
        let one = self.source(None);
        let class = Writer::new(self.dice, &one.names, None).class();
        let classes = [class, Class::Int];
        let left = self.side(&one, classes);
        let two = self.source(None);
        let right = self.side(&two, classes);
        Body {
            sql: format!("{left} {word} {right}"),
            sortable: vec![true; 2],
            unique: Vec::new(),
            plain: false,
            words: None,
        }
    }

    /// One side of a set operation.
    fn side(&mut self, source: &Source, classes: [Class; 2]) -> String {
        let mut writer = Writer::new(self.dice, &source.names, None);
        let items: Vec<String> = classes
            .iter()
            .enumerate()
            .map(|(at, class)| format!("{} AS x{at}", writer.value(*class, 1)))
            .collect();
        let filter = self.filter(&source.names);
        format!("SELECT {} FROM {}{filter}", items.join(", "), source.name)
    }

    /// Window functions, in orders that tell every two rows apart or do not need to.
    fn windowed(&mut self) -> Query {
        let source = self.source(None);
        let mut writer = Writer::new(self.dice, &source.names, None).tame();
        let (class, other) = (writer.class(), writer.class());
        let (part, by) = (writer.value(class, 1), writer.value(other, 1));
        let over = match writer.dice.one_in(4) {
            true => format!("ORDER BY {by}"),
            false => format!("PARTITION BY {part} ORDER BY {by}"),
        };
        let number = match writer.column(Class::Int) {
            Some(name) => name.text,
            None => "1".to_owned(),
        };
        let ties = writer.dice.pick(&[
            "rank()",
            "dense_rank()",
            "count(*)",
            "percent_rank()",
            "SUM",
            "MIN",
        ]);
        let ties = match ties {
            "SUM" => format!("sum({number})"),
            "MIN" => format!("min({number})"),
            other => other.to_owned(),
        };
        let mut items = vec![format!("{ties} OVER ({over}) AS w0")];
        if !source.key.is_empty() {
            let whole = writer.dice.pick(&[
                "row_number()",
                "lag(N, 1)",
                "lead(N, 2, 0)",
                "first_value(N)",
                "last_value(N)",
                "ntile(3)",
                "sum(N)",
            ]);
            let frame = match whole {
                "sum(N)" => " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
                _ => "",
            };
            let function = whole.replace('N', &number);
            let key = source.key.join(", ");
            items.push(format!("{function} OVER ({over}, {key}{frame}) AS w1"));
        }
        items.extend(
            source
                .key
                .iter()
                .enumerate()
                .map(|(at, key)| format!("{key} AS k{at}")),
        );
        let filter = self.filter(&source.names);
        let sql = format!("SELECT {} FROM {}{filter}", items.join(", "), source.name);
        Query::new(sql, Order::Any)
    }

    /// A query over a query, in FROM or WITH.
    fn derived(&mut self) -> Body {
        let source = self.source(None);
        let mut inner = Vec::new();
        let mut names = Vec::new();
        let mut writer = Writer::new(self.dice, &source.names, None);
        for at in 0..2 + writer.dice.roll(2) {
            let class = writer.class();
            inner.push(format!("{} AS y{at}", writer.value(class, 1)));
            let kind = class.kind(writer.dice);
            names.push(Name {
                text: format!("d.y{at}"),
                class,
                kind,
                wild: true,
                key: false,
            });
        }
        let filter = self.filter(&source.names);
        let inner = format!("SELECT {} FROM {}{filter}", inner.join(", "), source.name);
        let (items, sortable) = self.items(&names, true);
        let outer = self.filter(&names);
        let items = items.join(", ");
        let sql = match self.dice.roll(3) {
            0 => format!("WITH d AS ({inner}) SELECT {items} FROM d{outer}"),
            1 => {
                let join = "d JOIN d AS e ON d.y0 = e.y0";
                format!("WITH d AS ({inner}) SELECT {items} FROM {join}{outer}")
            }
            _ => format!("SELECT {items} FROM ({inner}) AS d{outer}"),
        };
        Body {
            sql,
            sortable,
            unique: Vec::new(),
            plain: false,
            words: None,
        }
    }

    /// The query with an ORDER BY, a LIMIT, both or none.
    fn finished(&mut self, body: Body) -> Query {
        let Body {
            sql,
            sortable,
            unique,
            plain,
            words,
        } = body;
        let limit = [1, 2, 3, 5, 10, 100][self.dice.roll(6)];
        let offset = [0, 0, 0, 1, 4][self.dice.roll(5)];
        let cut = match offset {
            0 => format!(" LIMIT {limit}"),
            _ => format!(" LIMIT {limit} OFFSET {offset}"),
        };
        let (end, order) = match self.dice.roll(8) {
            0 | 1 if sortable.iter().all(|sorts| *sorts) => {
                let mut places: Vec<usize> = (1..=sortable.len()).collect();
                self.dice.shuffle(&mut places);
                let by: Vec<String> = places
                    .iter()
                    .map(|at| self.directed(&at.to_string()))
                    .collect();
                let cut = if self.dice.one_in(3) { "" } else { &cut };
                (format!(" ORDER BY {}{cut}", by.join(", ")), Order::Total)
            }
            2 | 3 if plain && !unique.is_empty() => {
                let by: Vec<String> = match self.dice.one_in(3) {
                    true => unique.iter().map(|name| self.directed(name)).collect(),
                    false => {
                        let word = self.dice.pick(&["", "", " DESC"]);
                        unique.iter().map(|name| format!("{name}{word}")).collect()
                    }
                };
                let cut = if self.dice.one_in(3) { "" } else { &cut };
                (format!(" ORDER BY {}{cut}", by.join(", ")), Order::Total)
            }
            4 => {
                let sorts = (0..sortable.len()).filter(|at| sortable[*at]);
                match self.dice.choose(&sorts.collect::<Vec<usize>>()).copied() {
                    Some(at) => {
                        let by = self.directed(&(at + 1).to_string());
                        (format!(" ORDER BY {by}"), Order::By(vec![at]))
                    }
                    None => (String::new(), Order::Any),
                }
            }
            5 => {
                let whole = sql.clone();
                let order = Order::Some {
                    whole,
                    limit,
                    offset,
                };
                (cut, order)
            }
            _ => (String::new(), Order::Any),
        };
        let uncut = matches!(order, Order::Some { .. });
        let words = words.map(|words| if uncut { words } else { words.with(&end) });
        Query {
            words,
            ..Query::new(sql + &end, order)
        }
    }

    fn directed(&mut self, what: &str) -> String {
        let words = ["", "", " DESC", " ASC NULLS FIRST", " DESC NULLS LAST"];
        format!("{what}{}", self.dice.pick(&words))
    }
}
