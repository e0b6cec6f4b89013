//! Queries with GROUP BY: of one set of expressions, or of several, and then also in the words of a
//! query a set.

use super::{Body, Queries, Words};
use crate::expr::Writer;
use crate::kind::Class;

/// Places of the expressions that a grouping set groups by.
type Set = Vec<usize>;

/// The parts of a query with GROUP BY.
struct Grouped {
    groups: Vec<String>,
    /// With their names.
    aggregates: Vec<String>,
    from: String,
    having: String,
}

impl Grouped {
    /// The query: with one set of all groups, or with several, which have other words too: a query
    /// each.
    fn body(self, sets: Option<(String, Vec<Set>)>) -> Body {
        let all: Set = (0..self.groups.len()).collect();
        let told = |at: usize| format!("GROUPING({}) AS s{at}", self.groups[at]);
        let (sql, words) = match &sets {
            None => (self.alone(&all, &[]), None),
            Some((by, sets)) => {
                let mut items = self.shown(&all);
                items.extend(all.iter().map(|at| told(*at)));
                items.extend(self.aggregates.iter().cloned());
                let Grouped { from, having, .. } = &self;
                let sql = format!("SELECT {} {from} GROUP BY {by}{having}", items.join(", "));
                let each: Vec<String> = sets.iter().map(|set| self.alone(set, &all)).collect();
                (sql, Some(Words::whole(each.join(" UNION ALL "))))
            }
        };
        let told = sets.map_or(0, |_| all.len());
        Body {
            sql,
            sortable: vec![true; all.len() + told + self.aggregates.len()],
            unique: Vec::new(),
            plain: false,
            words,
        }
    }

    /// The query with one set; for each of `told`, whether the set leaves it out.
    fn alone(&self, set: &[usize], told: &[usize]) -> String {
        // Groups may be the same one twice.
        let there = |at: usize| set.iter().any(|one| self.groups[*one] == self.groups[at]);
        let mut items = self.shown(set);
        items.extend(told.iter().map(|at| {
            let left_out = u8::from(!there(*at));
            format!("CAST({left_out} AS INT) AS s{at}")
        }));
        items.extend(self.aggregates.iter().cloned());
        let places = (0..self.groups.len()).filter(|at| there(*at));
        let places: Vec<String> = places.map(|at| (at + 1).to_string()).collect();
        let by = match places.is_empty() {
            true => String::new(),
            false => format!(" GROUP BY {}", places.join(", ")),
        };
        let Grouped { from, having, .. } = self;
        format!("SELECT {} {from}{by}{having}", items.join(", "))
    }

    /// The groups as columns, NULL where a set leaves them out.
    fn shown(&self, set: &[usize]) -> Vec<String> {
        let there = |group: &String| set.iter().any(|one| self.groups[*one] == *group);
        let shown = self
            .groups
            .iter()
            .enumerate()
            .map(|(at, group)| match there(group) {
                true => format!("{group} AS g{at}"),
                false => format!("NULL AS g{at}"),
            });
        shown.collect()
    }
}

impl Queries<'_> {
    pub(super) fn grouped(&mut self) -> Body {
        let source = self.source(None);
        let mut writer = Writer::new(self.dice, &source.names, None);
        let mut groups = Vec::new();
        for _ in 0..writer.dice.roll(3) {
            let class = writer.class();
            groups.push(writer.value(class, 1));
        }
        let mut items = Vec::new();
        for at in 0..1 + writer.dice.roll(3) {
            items.push(format!("{} AS x{at}", aggregate(&mut writer)));
        }
        let having = match self.dice.one_in(4) {
            true => {
                let mut writer = Writer::new(self.dice, &source.names, None);
                let (one, number) = (aggregate_number(&mut writer), writer.dice.between(0, 4));
                // The planner takes a number for the group that is the same one, which is NULL
                // where a grouping set leaves it out.
                let is_group = groups.contains(&number.to_string());
                (!is_group).then(|| format!(" HAVING {one} > {number}"))
            }
            false => None,
        };
        let having = having.unwrap_or_default();
        let filter = self.filter(&source.names);
        let from = format!("FROM {}{filter}", source.name);
        let grouped = Grouped {
            groups,
            aggregates: items,
            from,
            having,
        };
        let several = self.dice.one_in(3) && !grouped.groups.is_empty();
        let sets = several.then(|| self.grouping_sets(&grouped.groups));
        grouped.body(sets)
    }

    /// GROUP BY with several sets, in words and one by one.
    fn grouping_sets(&mut self, groups: &[String]) -> (String, Vec<Set>) {
        let all: Set = (0..groups.len()).collect();
        let groups: Vec<String> = groups.iter().zip(1..).map(grouped_by).collect();
        let listed = groups.join(", ");
        match self.dice.roll(4) {
            0 => {
                let sets = (0..=groups.len()).rev().map(|to| all[..to].to_vec());
                (format!("ROLLUP ({listed})"), sets.collect())
            }
            1 => {
                let sets = (0..1_usize << groups.len()).rev().map(|left| {
                    let there = all.iter().filter(|at| left & (1 << **at) != 0);
                    there.copied().collect()
                });
                (format!("CUBE ({listed})"), sets.collect())
            }
            2 if groups.len() == 2 => {
                let by = format!("1, ROLLUP ({})", groups[1]);
                (by, vec![vec![0, 1], vec![0]])
            }
            _ => {
                let mut sets = vec![all.clone()];
                for _ in 0..1 + self.dice.roll(3) {
                    let there = all.iter().filter(|_| self.dice.one_in(2));
                    sets.push(there.copied().collect());
                }
                let shown = sets.iter().map(|set| {
                    let named: Vec<&str> = set.iter().map(|at| groups[*at].as_str()).collect();
                    format!("({})", named.join(", "))
                });
                let shown: Vec<String> = shown.collect();
                (format!("GROUPING SETS ({})", shown.join(", ")), sets)
            }
        }
    }
}

/// A group as GROUP BY has it. A whole number there is a place among the columns: it has its own.
fn grouped_by((group, place): (&String, usize)) -> String {
    match group.bytes().all(|byte| byte.is_ascii_digit()) {
        true => place.to_string(),
        false => group.clone(),
    }
}

/// An aggregate whose value does not hang on the order of rows.
pub(super) fn aggregate(writer: &mut Writer<'_>) -> String {
    match writer.dice.roll(10) {
        0 => "count(*)".to_owned(),
        1 | 2 => aggregate_number(writer),
        3 => {
            let class = writer.class();
            format!("count(DISTINCT {})", writer.value(class, 1))
        }
        4 => {
            let filter = writer.truth(1);
            format!("count(*) FILTER (WHERE {filter})")
        }
        5 => {
            let text = writer.value(Class::Text, 1);
            format!("string_agg({text}, ',' ORDER BY {text})")
        }
        6 => format!(
            "{}({})",
            writer.dice.pick(&["bool_and", "bool_or"]),
            writer.truth(1)
        ),
        _ => {
            let function = writer.dice.pick(&["min", "max"]);
            let classes = [
                Class::Int,
                Class::Text,
                Class::Date,
                Class::Decimal,
                Class::Timestamp,
            ];
            let class = classes[writer.dice.roll(classes.len())];
            format!("{function}({})", writer.value(class, 1))
        }
    }
}

/// An aggregate that is a number.
fn aggregate_number(writer: &mut Writer<'_>) -> String {
    let mut found = None;
    for class in [Class::Int, Class::Float, Class::Decimal] {
        let name = tame(writer, class);
        if found.is_none() || writer.dice.one_in(3) {
            found = name.or(found);
        }
    }
    let function = writer.dice.pick(&["sum", "avg", "count", "sum"]);
    match found {
        Some(name) => format!("{function}({name})"),
        None => "count(*)".to_owned(),
    }
}

/// A column that is not wild.
fn tame(writer: &mut Writer<'_>, class: Class) -> Option<String> {
    writer
        .column(class)
        .filter(|name| !name.wild)
        .map(|name| name.text)
}
