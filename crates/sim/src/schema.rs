//! Tables drawn from the seed: columns, keys, partitions, merge operators, times to live, views.
//!
//! Pure. Every value is a number to the model; a column's kind says how it is spelt in Arrow, so
//! that the order of spellings is the order of numbers.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float64Array, Int32Array, Int64Array,
    StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{
    DataType, Float64Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType,
};
use lazybase_cluster::{BoundsSpec, CutSpec, PartitionSpec, TableSpec, ViewSpec, range_bounds};
use lazybase_model::{
    Column, ColumnDefault, IdKeyColumn, Layout, MergeOperator, PartitionChange, Table,
};

use crate::dice::Dice;
use crate::world::WALL_MICROS_AT_START;

/// The table in which every batch leaves one row: its hidden key tells the order of batches.
pub const LEDGER: &str = "ledger";

/// In so many of a thousand stories there are views that come and go.
const LATER_PERMILLE: u64 = 100;
/// The number of the first of these, in their names.
const LATER: usize = 5;

/// How a column's numbers are spelt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// BIGINT.
    Long,
    /// INT.
    Short,
    /// TEXT: the number in digits.
    Text,
    /// BOOLEAN: 0 or 1.
    Truth,
    /// DOUBLE.
    Double,
    /// TIMESTAMP: microseconds.
    Moment,
    /// IDKEY: the number is the natural key of a row of another table, or of this one, as one
    /// number ([`code_of`]); what is stored is what the database makes of it.
    Id {
        /// Which table owns the ID.
        owner: usize,
        /// How many values each column of its key has.
        values: [i64; 2],
    },
}

/// More than the values that a column of a natural key has.
const CODE_SIDE: i64 = 64;

/// A natural key as one number.
pub fn code_of(key: [i64; 2]) -> i64 {
    key[0] * CODE_SIDE + key[1]
}

/// The natural key of [`code_of`].
pub fn key_of_code(code: i64) -> [i64; 2] {
    [code / CODE_SIDE, code % CODE_SIDE]
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnDraw {
    /// How its numbers are spelt.
    pub kind: Kind,
    /// What combines its values.
    pub merge: Option<MergeOperator>,
    /// What it holds in rows that references make.
    pub default: Option<i64>,
    /// Of a column that the table is made without: what it holds in rows that are older.
    pub late: Option<Option<i64>>,
}

impl ColumnDraw {
    /// A column of this kind, and nothing else said about it.
    pub fn plain(kind: Kind) -> ColumnDraw {
        ColumnDraw {
            kind,
            merge: None,
            default: None,
            late: None,
        }
    }
}

/// How a table is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutDraw {
    /// Buckets of the first key column.
    pub buckets: Option<u16>,
    /// Where the last key column is cut, besides.
    pub bounds: Vec<i64>,
}

/// A secondary view: positions of its table's columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewDraw {
    /// Its name.
    pub name: String,
    /// What it shows.
    pub columns: Vec<usize>,
    /// What it is sorted by.
    pub key: Vec<usize>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableDraw {
    /// Its name.
    pub name: String,
    /// Its columns; the key's come first.
    pub columns: Vec<ColumnDraw>,
    /// How many columns are its key.
    pub keys: usize,
    /// How many values each key column has.
    pub key_values: [i64; 2],
    /// Whether it is kept for point reads.
    pub point: bool,
    /// How it is cut.
    pub cut: Option<CutDraw>,
    /// The column that rows end by, and how long after it, in microseconds.
    pub ttl: Option<(usize, u64)>,
    /// Its secondary views.
    pub views: Vec<ViewDraw>,
    /// Views that come and go.
    pub later: Vec<ViewDraw>,
    /// The column that is the ID of its key, where others may refer to its rows.
    pub owned: Option<usize>,
}

/// How much there is in a seed. What a seed costs grows with what its stages have to do, and most
/// mistakes show where there is little of it: so most seeds are plain, and many can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Few tables, few small batches in an SCU; all else is there now and then.
    Plain,
    /// Much of everything at once.
    Rich,
}

impl Shape {
    /// Rich or plain.
    pub fn of(rich: bool) -> Shape {
        match rich {
            true => Shape::Rich,
            false => Shape::Plain,
        }
    }

    /// The one or the other.
    pub fn pick<T>(self, plain: T, rich: T) -> T {
        match self {
            Shape::Plain => plain,
            Shape::Rich => rich,
        }
    }
}

/// What a drawn schema may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowed {
    /// Tables at most.
    pub tables: usize,
    /// Secondary views.
    pub views: bool,
    /// Views that are made over rows, and dropped.
    pub later: bool,
    /// Partitions.
    pub partitions: bool,
    /// Merge operators.
    pub operators: bool,
    /// Rows that end by themselves.
    pub ttl: bool,
    /// ID keys.
    pub ids: bool,
    /// Changes of definitions.
    pub alters: bool,
}

/// Draws the tables of a seed.
pub fn draw_tables(seed: u64, shape: Shape, allowed: Allowed) -> Vec<TableDraw> {
    let mut dice = Dice::of(seed, 10);
    let count = match shape {
        Shape::Plain => *dice.weigh(&[(6, 1), (3, 2), (1, 3)]),
        Shape::Rich => dice.between(2, 3) as usize,
    };
    let count = count.min(allowed.tables.max(1));
    let mut dice: Vec<Dice> = (0..count)
        .map(|at| Dice::of(seed, 20 + at as u64))
        .collect();
    let tables = dice.iter_mut().enumerate();
    let mut tables: Vec<TableDraw> = tables
        .map(|(at, dice)| draw_table(dice, at, shape, allowed))
        .collect();
    if allowed.ids {
        draw_ids(&mut Dice::of(seed, 16), shape, &mut tables);
    }
    for (table, dice) in tables.iter_mut().zip(&mut dice) {
        draw_views(dice, table, shape, allowed);
    }
    if allowed.views && allowed.later {
        draw_later(&mut Dice::of(seed, 62), &mut tables);
    }
    for (at, table) in tables.iter_mut().enumerate().filter(|_| allowed.alters) {
        draw_late(&mut Dice::of(seed, 40 + at as u64), table, allowed);
    }
    tables
}

/// In some stories tables have views that come and go.
fn draw_later(dice: &mut Dice, tables: &mut [TableDraw]) {
    if !dice.permille(LATER_PERMILLE) {
        return;
    }
    let sure = dice.index(tables.len());
    for (at, table) in tables.iter_mut().enumerate() {
        let views = match at == sure {
            true => dice.between(1, 2),
            false => *dice.pick(&[0, 0, 1]),
        };
        for number in 0..views as usize {
            let view = draw_view(dice, table, LATER + number);
            table.later.push(view);
        }
    }
}

/// Columns that the table may get later.
fn draw_late(dice: &mut Dice, table: &mut TableDraw, allowed: Allowed) {
    for _ in 0..*dice.pick(&[0, 1, 2, 3]) {
        let mut column = draw_value(dice, allowed);
        column.merge = column.merge.filter(|_| table.ttl.is_none());
        column.late = Some(column.kind.value(dice).filter(|_| dice.percent(80)));
        table.columns.push(column);
    }
}

/// Gives some tables an ID for their keys, and others columns that refer to them.
fn draw_ids(dice: &mut Dice, shape: Shape, tables: &mut [TableDraw]) {
    let owners = *dice.weigh(match shape {
        Shape::Plain => &[(5, 0), (4, 1), (1, 2)],
        Shape::Rich => &[(1, 0), (2, 1), (1, 2)],
    });
    for at in 0..owners.min(tables.len().saturating_sub(1)) {
        let owner = make_owner(dice, &mut tables[at], at);
        for referring in &mut tables[at + 1..] {
            refer(dice, referring, owner);
        }
    }
}

/// The kind of the columns that refer to the table.
fn make_owner(dice: &mut Dice, table: &mut TableDraw, at: usize) -> Kind {
    let kind = Kind::Id {
        owner: at,
        values: table.key_values,
    };
    table.cut = None;
    table.ttl = None;
    let in_key = table.columns[..table.keys].iter_mut();
    // Nobody else's numbers are in a natural key.
    in_key.for_each(|column| {
        if matches!(column.kind, Kind::Id { .. }) {
            column.kind = Kind::Long;
        }
    });
    for column in &mut table.columns[table.keys..] {
        let plain = !matches!(column.kind, Kind::Id { .. });
        if dice.percent(30) && plain {
            column.default = column.kind.value(dice);
        }
    }
    let owned = match dice.percent(50) {
        true => table.keys,
        false => table.columns.len(),
    };
    table.columns.insert(owned, ColumnDraw::plain(kind));
    table.owned = Some(owned);
    kind
}

/// Lets a table refer to the owner of an ID: in its key, beside it, or both.
fn refer(dice: &mut Dice, table: &mut TableDraw, kind: Kind) {
    if dice.percent(50) {
        let at = dice.index(table.keys);
        table.columns[at].kind = kind;
        // What is ordered by its number has no bounds that could be told before.
        if let Some(cut) = &mut table.cut
            && at + 1 == table.keys
        {
            cut.bounds.clear();
        }
        let cuts = |cut: &CutDraw| cut.buckets.is_some() || !cut.bounds.is_empty();
        table.cut = table.cut.take().filter(cuts);
    }
    let plain = *dice.pick(&[0, 1, 1, 2]);
    for _ in 0..plain {
        // Rows end by the last column.
        let at = table.keys;
        table.columns.insert(at, ColumnDraw::plain(kind));
        if let Some((column, _)) = &mut table.ttl {
            *column += 1;
        }
    }
}

fn draw_table(dice: &mut Dice, at: usize, shape: Shape, allowed: Allowed) -> TableDraw {
    let keys = dice.between(1, 2) as usize;
    let key_kinds = [Kind::Long, Kind::Text, Kind::Long, Kind::Short];
    let key_values = match (shape, keys) {
        (Shape::Plain, 1) => [dice.between(6, 24) as i64, 1],
        (Shape::Plain, _) => [dice.between(3, 6) as i64, dice.between(2, 4) as i64],
        (Shape::Rich, 1) => [dice.between(12, 48) as i64, 1],
        (Shape::Rich, _) => [dice.between(4, 10) as i64, dice.between(3, 6) as i64],
    };
    let mut columns: Vec<ColumnDraw> = (0..keys)
        .map(|_| ColumnDraw::plain(*dice.pick(&key_kinds)))
        .collect();
    let ttl = dice.percent(20).then(|| dice.between(200_000, 3_000_000));
    let values = dice.between(1, shape.pick(2, 4));
    for _ in 0..values {
        columns.push(draw_value(dice, allowed));
    }
    let ttl = ttl.filter(|_| allowed.ttl).map(|micros| {
        columns.push(ColumnDraw::plain(Kind::Moment));
        // Such a table takes whole rows alone.
        columns.iter_mut().for_each(|column| column.merge = None);
        (columns.len() - 1, micros)
    });
    let cut = dice
        .percent(shape.pick(8, 30))
        .then(|| draw_cut(dice, shape, key_values[keys - 1]));
    TableDraw {
        name: format!("t{at}"),
        columns,
        keys,
        key_values,
        point: dice.percent(30),
        cut: cut.filter(|_| allowed.partitions),
        ttl,
        views: Vec::new(),
        later: Vec::new(),
        owned: None,
    }
}

fn draw_views(dice: &mut Dice, table: &mut TableDraw, shape: Shape, allowed: Allowed) {
    let views = *dice.weigh(match shape {
        Shape::Plain => &[(20, 0), (4, 1), (1, 2)],
        Shape::Rich => &[(2, 0), (2, 1), (1, 2)],
    });
    for number in 0..views {
        let view = draw_view(dice, table, number);
        if allowed.views {
            table.views.push(view);
        }
    }
}

fn draw_value(dice: &mut Dice, allowed: Allowed) -> ColumnDraw {
    use MergeOperator::{First, Max, Min, Sum};
    let kinds = [
        Kind::Long,
        Kind::Short,
        Kind::Text,
        Kind::Truth,
        Kind::Double,
        Kind::Moment,
    ];
    let kind = *dice.pick(&kinds);
    let operators: &[MergeOperator] = match kind {
        Kind::Long | Kind::Short => &[Sum, Sum, Min, Max, First],
        _ => &[Min, Max, First],
    };
    let merge = dice.percent(40).then(|| *dice.pick(operators));
    ColumnDraw {
        kind,
        merge: merge.filter(|_| allowed.operators),
        ..ColumnDraw::plain(kind)
    }
}

/// Hash buckets of the first key column where there are two, bounds on the last, or one of both.
fn draw_cut(dice: &mut Dice, shape: Shape, values: i64) -> CutDraw {
    let most = shape.pick(2, 4);
    let buckets = dice.percent(60).then(|| dice.between(2, most) as u16);
    let ranged = dice.percent(50) || buckets.is_none();
    let mut bounds: Vec<i64> = Vec::new();
    if ranged {
        let count = dice.between(1, shape.pick(1, 2));
        bounds.extend((0..count).map(|_| dice.between(1, values.max(2) as u64 - 1) as i64));
        bounds.sort_unstable();
        bounds.dedup();
    }
    CutDraw { buckets, bounds }
}

fn draw_view(dice: &mut Dice, table: &TableDraw, number: usize) -> ViewDraw {
    let plain = |at: usize| table.columns[at].merge.is_none();
    let mut rest: Vec<usize> = (0..table.columns.len()).collect();
    let mut key = Vec::new();
    let leading = table.keys + dice.index(table.columns.len() - table.keys);
    // What is combined is in no key.
    if dice.percent(50) && plain(leading) {
        key.push(leading);
    }
    key.extend((0..table.keys).rev());
    let optional = dice.percent(50);
    rest.retain(|column| {
        let needed = key.contains(column) || table.ttl.is_some_and(|(ttl, _)| ttl == *column);
        needed || !optional || dice.percent(50)
    });
    ViewDraw {
        name: format!("{}v{number}", table.name),
        columns: rest,
        key,
    }
}

impl Kind {
    /// The type of a column of the kind.
    pub(crate) fn data_type(self) -> DataType {
        match self {
            Kind::Long => DataType::Int64,
            Kind::Short => DataType::Int32,
            Kind::Text => DataType::Utf8,
            Kind::Truth => DataType::Boolean,
            Kind::Double => DataType::Float64,
            Kind::Moment => DataType::Timestamp(TimeUnit::Microsecond, None),
            Kind::Id { .. } => DataType::Int64,
        }
    }

    /// The owner of the ID.
    pub fn owner(self) -> Option<usize> {
        match self {
            Kind::Id { owner, .. } => Some(owner),
            _ => None,
        }
    }

    /// A natural key of the owner, as one number.
    pub fn natural_key(self, dice: &mut Dice) -> i64 {
        match self {
            Kind::Id { values, .. } => {
                code_of(values.map(|values| dice.below(values as u64) as i64))
            }
            _ => 0,
        }
    }

    /// A value of a column that is no key.
    pub fn value(self, dice: &mut Dice) -> Option<i64> {
        if dice.percent(12) {
            return None;
        }
        Some(match self {
            Kind::Truth => dice.below(2) as i64,
            Kind::Text => dice.below(60) as i64,
            Kind::Moment => WALL_MICROS_AT_START + dice.below(5_000_000) as i64,
            Kind::Long | Kind::Short | Kind::Double => dice.below(120) as i64 - 20,
            Kind::Id { .. } => self.natural_key(dice),
        })
    }

    /// Numbers as Arrow spells them; `wide` for sums as they are stored.
    pub fn array(self, wide: bool, cells: impl Iterator<Item = Option<i64>>) -> ArrayRef {
        match self {
            _ if wide => {
                let cells = cells.map(|cell| cell.map(i128::from));
                let array = Decimal128Array::from_iter(cells);
                let array = array.with_precision_and_scale(38, 0);
                Arc::new(array.expect("38 digits are what a decimal may have"))
            }
            Kind::Long | Kind::Id { .. } => Arc::new(Int64Array::from_iter(cells)),
            Kind::Short => Arc::new(Int32Array::from_iter(cells.map(|c| c.map(|c| c as i32)))),
            Kind::Text => {
                let texts = cells.map(|cell| cell.map(|cell| format!("k{cell:03}")));
                Arc::new(StringArray::from_iter(texts))
            }
            Kind::Truth => Arc::new(BooleanArray::from_iter(cells.map(|c| c.map(|c| c == 1)))),
            Kind::Double => Arc::new(Float64Array::from_iter(cells.map(|c| c.map(|c| c as f64)))),
            Kind::Moment => Arc::new(TimestampMicrosecondArray::from_iter(cells)),
        }
    }

    /// The number that a cell spells; `None` for NULL. Of an ID it is what is stored.
    ///
    /// # Errors
    /// What the cell is, where it spells no number.
    pub fn number(self, column: &ArrayRef, row: usize) -> Result<Option<i64>, String> {
        if column.is_null(row) {
            return Ok(None);
        }
        let wrong = || format!("a column of type {} is read", column.data_type());
        Ok(Some(match self {
            Kind::Long | Kind::Id { .. } => column
                .as_primitive_opt::<Int64Type>()
                .ok_or_else(wrong)?
                .value(row),
            Kind::Short => i64::from(
                column
                    .as_primitive_opt::<Int32Type>()
                    .ok_or_else(wrong)?
                    .value(row),
            ),
            Kind::Text => {
                let text = column.as_string_opt::<i32>().ok_or_else(wrong)?.value(row);
                let digits = text
                    .strip_prefix('k')
                    .and_then(|digits| digits.parse().ok());
                digits.ok_or_else(|| format!("the text {text:?} was never written"))?
            }
            Kind::Truth => i64::from(column.as_boolean_opt().ok_or_else(wrong)?.value(row)),
            Kind::Double => column
                .as_primitive_opt::<Float64Type>()
                .ok_or_else(wrong)?
                .value(row) as i64,
            Kind::Moment => {
                let column = column.as_primitive_opt::<TimestampMicrosecondType>();
                column.ok_or_else(wrong)?.value(row)
            }
        }))
    }
}

impl TableDraw {
    /// The specification that makes it; `id_of` tells what makes a column an ID of another table.
    pub fn spec(&self, id_of: impl Fn(usize) -> Option<IdKeyColumn>) -> TableSpec {
        let columns = self.columns.iter().enumerate();
        let columns = columns.filter(|(_, draw)| draw.late.is_none());
        let columns = columns.map(|(at, draw)| Column {
            merge: draw.merge,
            nullable: self.owned != Some(at),
            default: match draw.default {
                Some(number) => ColumnDefault::Expression(number.to_string()),
                None => ColumnDefault::Null,
            },
            id_key: match self.owned == Some(at) {
                true => Some(IdKeyColumn::OWN),
                false => draw.kind.owner().and_then(&id_of),
            },
            ..Column::new(column_name(at), draw.kind.data_type())
        });
        TableSpec {
            name: self.name.clone(),
            columns: columns.collect(),
            key: (0..self.keys).map(column_name).collect(),
            layout: match self.point {
                true => Layout::Point,
                false => Layout::Scan,
            },
            comment: None,
            partitioning: self.cut.as_ref().map(|cut| self.partitions(cut)),
            ttl: self
                .ttl
                .map(|(column, micros)| (column_name(column), micros)),
            // Tables of some widths are hurried: no answer depends on it.
            freshness_target_micros: self.columns.len().is_multiple_of(3).then_some(500_000),
            row_labels: false,
        }
    }

    /// All keys lie in a partition: the range ones are open at both ends.
    fn partitions(&self, cut: &CutDraw) -> PartitionSpec {
        let last = self.keys - 1;
        // One column can't be in two rules.
        let hashed = cut
            .buckets
            .filter(|_| self.keys == 2 || cut.bounds.is_empty());
        let hash = hashed.map(|buckets| (vec![column_name(0)], buckets));
        let bounds = self.range_bounds(cut);
        let range = (!cut.bounds.is_empty()).then(|| (vec![column_name(last)], bounds));
        PartitionSpec {
            hash: hash.into_iter().collect(),
            range,
        }
    }

    /// The bounds of the range partitions, in their order.
    fn range_bounds(&self, cut: &CutDraw) -> Vec<BoundsSpec> {
        let last = self.keys - 1;
        let at = |value: i64| CutSpec {
            values: vec![
                self.columns[last]
                    .kind
                    .array(false, [Some(value)].into_iter()),
            ],
            after: false,
        };
        let lows = std::iter::once(None).chain(cut.bounds.iter().map(|value| Some(at(*value))));
        let highs = cut.bounds.iter().map(|value| Some(at(*value)));
        let highs = highs.chain(std::iter::once(None));
        let bounds = lows.zip(highs).map(|(low, high)| BoundsSpec { low, high });
        bounds.collect()
    }

    /// How many range partitions there are; none without a rule of them.
    pub fn parts(&self) -> usize {
        let cut = self.cut.as_ref().filter(|cut| !cut.bounds.is_empty());
        cut.map_or(0, |cut| cut.bounds.len() + 1)
    }

    /// Whether a key lies in a range partition, told by its place among them.
    pub fn is_in(&self, part: usize, key: [i64; 2]) -> bool {
        let bounds = self.cut.iter().flat_map(|cut| &cut.bounds);
        let begun = bounds.filter(|bound| **bound <= key[self.keys - 1]);
        begun.count() == part
    }

    /// What drops a range partition, with its rows, and what adds it again.
    ///
    /// # Errors
    /// What is wrong with it; a mistake of the simulator.
    pub(crate) fn replaced(
        &self,
        part: usize,
        table: &Table,
    ) -> Result<[PartitionChange; 2], String> {
        let cut = self.cut.as_ref().ok_or("a table without partitions")?;
        let bounds = self.range_bounds(cut);
        let bounds = bounds.get(part).ok_or("a partition that was never drawn")?;
        let bounds = range_bounds(table, bounds).map_err(|error| error.to_string())?;
        Ok([
            PartitionChange::Drop(bounds.clone()),
            PartitionChange::Add(bounds),
        ])
    }

    /// The columns that it is made with.
    pub fn first_version(&self) -> Version {
        let columns = self.columns.iter().enumerate();
        let columns = columns.filter(|(_, column)| column.late.is_none());
        Version(columns.map(|(at, column)| (at, column.kind)).collect())
    }

    /// Whether a column is of a view that is there, or may be.
    pub fn is_viewed(&self, column: usize) -> bool {
        let mut views = self.views.iter().chain(&self.later);
        views.any(|view| view.columns.contains(&column))
    }

    /// Whether it can be dropped and made again by itself.
    pub fn is_apart(&self) -> bool {
        let shown = !self.views.is_empty() || !self.later.is_empty();
        !shown && self.owned.is_none() && self.parts() == 0
    }

    /// Whether rows come in the order of their key.
    pub fn is_ordered(&self) -> bool {
        self.cut.is_none()
    }
}

/// The columns that a table has at one time, in their order: which of the drawn ones, and how they
/// are spelt then.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Version(Arc<[(usize, Kind)]>);

impl Version {
    /// Of these columns.
    pub(crate) fn new(columns: Vec<(usize, Kind)>) -> Version {
        Version(columns.into())
    }

    /// The columns of a definition, told by their names.
    ///
    /// # Errors
    /// The first column that was never drawn.
    pub fn of(table: &Table, draw: &TableDraw) -> Result<Version, String> {
        let visible = table.columns.iter().take(table.visible_columns());
        let columns = visible.map(|column| {
            let from = column_of(&column.name).filter(|from| *from < draw.columns.len());
            let what = || format!("table {:?} has a column {:?}", table.name, column.name);
            let from = from.ok_or_else(what)?;
            let kind = match (draw.columns[from].kind, &column.data_type) {
                (Kind::Short, DataType::Int64) => Kind::Long,
                (kind, _) => kind,
            };
            Ok((from, kind))
        });
        columns.collect::<Result<_, String>>().map(Version)
    }

    /// The columns, in order.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = (usize, Kind)> + '_ {
        self.0.iter().copied()
    }

    /// Where a drawn column stands.
    pub fn place(&self, column: usize) -> Option<usize> {
        self.0.iter().position(|(from, _)| *from == column)
    }

    /// How a drawn column is spelt, if it is there.
    pub fn kind(&self, column: usize) -> Option<Kind> {
        self.place(column).map(|place| self.0[place].1)
    }
}

impl ViewDraw {
    /// The specification that makes it.
    pub fn spec(&self) -> ViewSpec {
        ViewSpec {
            name: self.name.clone(),
            columns: Some(self.columns.iter().map(|at| column_name(*at)).collect()),
            key: self.key.iter().map(|at| column_name(*at)).collect(),
        }
    }
}

/// The specification of the ledger.
pub fn ledger_spec() -> TableSpec {
    TableSpec {
        name: LEDGER.to_owned(),
        columns: vec![Column::new("batch", DataType::Int64)],
        key: Vec::new(),
        layout: Layout::Scan,
        comment: None,
        partitioning: None,
        ttl: None,
        freshness_target_micros: None,
        row_labels: false,
    }
}

/// The name that a drawn column has at first.
pub(crate) fn column_name(at: usize) -> String {
    format!("c{at}")
}

/// Which drawn column a name is of: the number in it.
fn column_of(name: &str) -> Option<usize> {
    let digits = name.strip_prefix('c')?;
    let digits = digits.split('_').next()?;
    digits.parse().ok()
}
