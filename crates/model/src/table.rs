//! Tables, columns and views, each with a stable numeric id; files store ids, not names
//! (section 3.2 of the paper).

use std::fmt;
use std::sync::Arc;

use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, Field, Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::id_key::{IdKeyColumn, KeyMap, PARTITIONS};
use crate::partition::Partitioning;
use crate::sequence::SequenceId;

mod labelled;
mod query;

pub use labelled::{check_labelled, check_row_labels};
pub use query::{UsedColumn, UsedTable, ViewQuery};

/// A table's id: never used again, not even for a table of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TableId(pub u32);

/// A column's id inside its table: never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ColumnId(pub u32);

/// A view's id in the database. Every table has a primary view; its id is the view's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ViewId(pub u32);

/// Counts the schema changes of one table; a batch is written under exactly one version.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct SchemaVersion(pub u32);

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

impl fmt::Display for ViewId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

/// A table's name, as SQL folds it.
pub type TableName = String;

/// What a column gets where a change that makes a row gives it no value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ColumnDefault {
    /// NULL; for a NOT NULL column, an error at acceptance.
    #[default]
    Null,
    /// An SQL expression over no columns, evaluated when the batch is accepted.
    Expression(String),
    /// The next number of a sequence, taken when the batch is accepted.
    Next(SequenceId),
}

impl ColumnDefault {
    /// The sequence whose numbers it is.
    pub fn sequence(&self) -> Option<SequenceId> {
        match self {
            ColumnDefault::Next(sequence) => Some(*sequence),
            ColumnDefault::Null | ColumnDefault::Expression(_) => None,
        }
    }
}

/// Who numbers the rows of an identity column, whose default is the next number of its sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdentityKind {
    /// The database: INSERT gives no number, unless it says that it overrides that.
    Always,
    /// Whoever writes, or else the database.
    ByDefault,
}

/// How the authority's Parquet files compress a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnCodec {
    /// Not at all.
    None,
    /// LZ4.
    Lz4,
    /// Snappy.
    Snappy,
    /// Zstandard at this level, from 1 to 22.
    Zstd(i32),
}

impl fmt::Display for ColumnCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ColumnCodec::None => f.write_str("none"),
            ColumnCodec::Lz4 => f.write_str("lz4"),
            ColumnCodec::Snappy => f.write_str("snappy"),
            ColumnCodec::Zstd(level) => write!(f, "zstd({level})"),
        }
    }
}

/// How the authority's Parquet files write the values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnEncoding {
    /// One after the other.
    Plain,
    /// Numbers of distinct values.
    Dictionary,
    /// Differences of neighbours; of texts, their lengths apart from their bytes.
    Delta,
    /// Texts without what they share with the one before.
    Prefix,
    /// First all first bytes, then all second ones, and so on.
    ByteStreamSplit,
    /// Runs of equal values.
    Rle,
}

impl ColumnEncoding {
    /// Those that a type can have.
    pub fn of_type(data_type: &DataType) -> &'static [ColumnEncoding] {
        use ColumnEncoding::{ByteStreamSplit, Delta, Dictionary, Plain, Prefix, Rle};
        match data_type {
            DataType::Boolean => &[Plain, Rle],
            DataType::Float32 | DataType::Float64 => &[Plain, Dictionary, ByteStreamSplit],
            DataType::Date32 | DataType::Time32(_) | DataType::Time64(_) => {
                &[Plain, Dictionary, Delta]
            }
            DataType::Timestamp(..) => &[Plain, Dictionary, Delta],
            integer if integer.is_integer() => &[Plain, Dictionary, Delta],
            DataType::Utf8 | DataType::Binary => &[Plain, Dictionary, Delta, Prefix],
            nested if nested.is_nested() => &[],
            // What Parquet stores as bytes of a fixed length has no dictionary.
            DataType::Decimal128(19.., _) | DataType::Decimal256(..) => &[Plain],
            DataType::FixedSizeBinary(_) | DataType::Float16 | DataType::Interval(_) => &[Plain],
            _ => &[Plain, Dictionary],
        }
    }

    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            ColumnEncoding::Plain => "plain",
            ColumnEncoding::Dictionary => "dictionary",
            ColumnEncoding::Delta => "delta",
            ColumnEncoding::Prefix => "prefix",
            ColumnEncoding::ByteStreamSplit => "byte_stream_split",
            ColumnEncoding::Rle => "rle",
        }
    }
}

/// How the authority's Parquet files store a column, where that is not left to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ColumnStorage {
    /// How its pages are compressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codec: Option<ColumnCodec>,
    /// How its values are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<ColumnEncoding>,
}

impl ColumnStorage {
    /// Whether all is left to the files.
    pub fn is_default(&self) -> bool {
        *self == ColumnStorage::default()
    }
}

/// What becomes of a column when a change combines a value with the one that is there.
///
/// NULL gives way to any value. Without an operator the last value counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MergeOperator {
    /// Their sum: of integers and decimals, in 128 bits.
    Sum,
    /// The lesser, in the order that keys have.
    Min,
    /// The greater, in the order that keys have.
    Max,
    /// The one that was there.
    First,
}

impl MergeOperator {
    /// The word that SQL has for it.
    pub const fn word(self) -> &'static str {
        match self {
            MergeOperator::Sum => "SUM",
            MergeOperator::Min => "MIN",
            MergeOperator::Max => "MAX",
            MergeOperator::First => "FIRST",
        }
    }

    /// The operator that a word of SQL names, in whatever case.
    pub fn of_word(word: &str) -> Option<MergeOperator> {
        [Self::Sum, Self::Min, Self::Max, Self::First]
            .into_iter()
            .find(|operator| operator.word().eq_ignore_ascii_case(word))
    }
}

/// What a column has to do with labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabelRole {
    /// Its cells have labels, which stand in this column. Like ids, it is given out with the table.
    In(ColumnId),
    /// It holds the labels of this column's cells, and SQL shows it by name alone.
    OfCells(ColumnId),
    /// It holds the labels of rows, and SQL shows it by name alone.
    OfRows,
}

/// A named, typed column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its id inside the table.
    pub id: ColumnId,
    /// Its name, as SQL folds it.
    pub name: String,
    /// Its type.
    pub data_type: DataType,
    /// Whether NULL is allowed. Key columns never allow it.
    pub nullable: bool,
    /// What it gets where no value is given.
    pub default: ColumnDefault,
    /// Of an identity column: who numbers its rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<IdentityKind>,
    /// What the user said about it.
    pub comment: Option<String>,
    /// The most characters that a text of it may have; `None` where any number may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub characters_max: Option<u32>,
    /// Whether its texts are JSON: whoever writes one has made sure that it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub json: bool,
    /// What it holds in rows that were made before it was added, fixed then: a cell as Arrow IPC.
    /// `None` for NULL, and for a column that is as old as its table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older: Option<CellBytes>,
    /// How the authority's Parquet files store it.
    #[serde(default, skip_serializing_if = "ColumnStorage::is_default")]
    pub storage: ColumnStorage,
    /// How INSERT combines a value with the one that is there; `None` where the last one counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<MergeOperator>,
    /// Of an ID key: whose numbers its cells are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_key: Option<IdKeyColumn>,
    /// Whether its cells have labels, or are labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<LabelRole>,
}

/// The column of the labels of rows.
pub const ROW_LABEL_COLUMN: &str = "_label";

/// One cell as an Arrow IPC stream of one column and one row; hexadecimal where it is text.
#[derive(Clone, PartialEq, Eq)]
pub struct CellBytes(pub Vec<u8>);

impl fmt::Debug for CellBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Serialize for CellBytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{self:?}"))
    }
}

impl<'de> Deserialize<'de> for CellBytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let digits = String::deserialize(deserializer)?;
        if digits.len() % 2 != 0 || !digits.is_ascii() {
            return Err(D::Error::custom(
                "a cell is an even number of hexadecimal digits",
            ));
        }
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16);
        let bytes: Result<Vec<u8>, _> = (0..digits.len()).step_by(2).map(byte).collect();
        bytes.map(CellBytes).map_err(D::Error::custom)
    }
}

impl Column {
    /// A column that takes NULL and has no default. Its id is given out with its table's.
    pub fn new(name: impl Into<String>, data_type: DataType) -> Column {
        Column {
            id: ColumnId(0),
            name: name.into(),
            data_type,
            nullable: true,
            default: ColumnDefault::Null,
            identity: None,
            comment: None,
            characters_max: None,
            json: false,
            older: None,
            storage: ColumnStorage::default(),
            merge: None,
            id_key: None,
            label: None,
        }
    }

    /// The column of the labels of rows.
    pub fn of_row_labels() -> Column {
        Column {
            label: Some(LabelRole::OfRows),
            ..Column::new(ROW_LABEL_COLUMN, DataType::Utf8)
        }
    }

    /// The column of the labels of a column's cells.
    pub fn of_cell_labels(column: &Column) -> Column {
        Column {
            label: Some(LabelRole::OfCells(column.id)),
            ..Column::new(cell_label_name(&column.name), DataType::Utf8)
        }
    }

    /// Whether its cells are labels.
    pub fn holds_labels(&self) -> bool {
        matches!(self.label, Some(LabelRole::OfCells(_) | LabelRole::OfRows))
    }

    /// Whether its cells have labels.
    pub fn has_labels(&self) -> bool {
        matches!(self.label, Some(LabelRole::In(_)))
    }

    /// The type that changes and files have of the column: that of the column, but for sums, which
    /// have 128 bits so that no merge can overflow (see [`SUM_DIGITS_MAX`]).
    pub fn stored_type(&self) -> DataType {
        match (self.merge, &self.data_type) {
            (Some(MergeOperator::Sum), DataType::Decimal128(_, scale)) => {
                DataType::Decimal128(DECIMAL128_MAX_PRECISION, *scale)
            }
            (Some(MergeOperator::Sum), _) => DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0),
            (_, data_type) => data_type.clone(),
        }
    }

    /// Checks that the column's values can be combined by its operator.
    ///
    /// # Errors
    /// `Invalid` (42804), with a hint at what can.
    pub fn check_merge(&self) -> Result<()> {
        let Some(operator) = self.merge else {
            return Ok(());
        };
        let summed = match &self.data_type {
            DataType::Decimal128(digits, _) => *digits <= SUM_DIGITS_MAX,
            other => other.is_integer(),
        };
        let hint = match operator {
            _ if self.id_key.is_some() => "the numbers of ID keys only name things".to_owned(),
            MergeOperator::Sum if !summed => {
                format!("SUM is for integers, and for decimals of at most {SUM_DIGITS_MAX} digits")
            }
            MergeOperator::Min | MergeOperator::Max
                if self.data_type.is_nested()
                    || matches!(self.data_type, DataType::Interval(_)) =>
            {
                "MIN and MAX are for types whose values have an order".to_owned()
            }
            _ => return Ok(()),
        };
        let (word, name) = (operator.word(), &self.name);
        Err(
            Error::invalid(format!("column {name:?} can't be combined by {word}"))
                .with_hint(hint)
                .with_sqlstate("42804"),
        )
    }
}

/// The name of the column that holds the labels of a column's cells.
pub fn cell_label_name(column: &str) -> String {
    format!("{ROW_LABEL_COLUMN}({column})")
}

/// Checks the merge operators of the columns of a table with this key: that they can combine the
/// columns' values, stand in no key, and that there is a key by which rows meet.
///
/// # Errors
/// `Invalid`: 42804 for a type that can't be combined, 42P16 for the key; with a hint.
pub fn check_operators(columns: &[Column], key: &[String]) -> Result<()> {
    for column in columns {
        column.check_merge()?;
        let Some(operator) = column.merge else {
            continue;
        };
        let (word, name) = (operator.word(), &column.name);
        if key.is_empty() {
            let fact = format!("column {name:?} has a merge operator, but the table no key");
            return Err(Error::invalid(fact)
                .with_detail("the rows of a table without a key never meet")
                .with_hint("declare a PRIMARY KEY")
                .with_sqlstate("42P16"));
        }
        if key.contains(name) {
            return Err(
                Error::invalid(format!("column {name:?} can't be part of a key"))
                    .with_detail(format!("MERGE {word} would change the key of a row"))
                    .with_hint(format!(
                        "leave MERGE {word} out, or the column out of the key"
                    ))
                    .with_sqlstate("42P16"),
            );
        }
    }
    Ok(())
}

/// The most digits of a decimal that is summed. Sums are kept in 128 bits, which wrap around: the
/// sum is exact if it is less than 2^127, whatever its parts came to on the way. A change adds less
/// than 10^24, so that takes more than 10^14 changes of one row.
pub const SUM_DIGITS_MAX: u8 = 24;

/// How the authority keeps a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Tuned Parquet: for tables that are scanned.
    #[default]
    Scan,
    /// Extents of whole rows: for tables that are read by key.
    Point,
}

/// One sort order of a table, kept as data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Its id.
    pub id: ViewId,
    /// The columns that it is sorted by, most significant first.
    pub key: Vec<ColumnId>,
}

/// Rows end a while after the moment that one of their columns holds; those without one stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeToLive {
    /// The column: a timestamp or a date.
    pub column: ColumnId,
    /// How long after it, in microseconds.
    pub micros: u64,
}

/// A table's definition under one schema version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Its id.
    pub id: TableId,
    /// Its name, as SQL folds it.
    pub name: TableName,
    /// Counts its schema changes.
    pub version: SchemaVersion,
    /// Its columns in the order of declaration. A table without a key ends with the hidden
    /// column `_row`.
    pub columns: Vec<Column>,
    /// The view that holds all columns, sorted by the primary key.
    pub primary: View,
    /// Whether the key is the hidden `_row`, given out by ingest.
    pub hidden_key: bool,
    /// How the authority keeps it.
    pub layout: Layout,
    /// What the user said about it.
    pub comment: Option<String>,
    /// Of a hidden table that maps another one's keys to numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_map: Option<KeyMap>,
    /// Ids of columns below this one were given out: see [`Table::next_column_id`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub next_column: u32,
    /// How its primary view's key space is cut at its creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitioning: Option<Partitioning>,
    /// When its rows end by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<TimeToLive>,
    /// How stale an answer should be at most that meets as few runs as one at best effort, in
    /// microseconds: a table that is late comes first among the stages' work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freshness_target_micros: Option<u64>,
    /// The table whose rows it holds in another order, if it is a secondary view: its columns are
    /// some of that table's, under their ids, and its key, a superset of that table's, may hold
    /// NULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view_of: Option<TableId>,
    /// The query that it stands for, if it is a plain view: then nothing of it is kept but this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<Box<ViewQuery>>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The hidden key column of a table that was declared without a key: 16 bytes, SCU number then
/// position in the SCU, both big-endian, so that it sorts in the order of arrival.
pub const HIDDEN_KEY_COLUMN: &str = "_row";

impl Table {
    /// The first version of a table: its columns numbered as they stand, those at the positions
    /// `key` not NULL and the order of its rows.
    pub fn new(
        id: TableId,
        view: ViewId,
        name: impl Into<TableName>,
        mut columns: Vec<Column>,
        key: &[usize],
    ) -> Table {
        for (column, id) in columns.iter_mut().zip(0..) {
            column.id = ColumnId(id);
        }
        for at in key {
            columns[*at].nullable = false;
        }
        Table {
            id,
            name: name.into(),
            version: SchemaVersion(0),
            primary: View {
                id: view,
                key: key.iter().map(|at| columns[*at].id).collect(),
            },
            columns,
            hidden_key: false,
            layout: Layout::default(),
            comment: None,
            next_column: 0,
            partitioning: None,
            ttl: None,
            freshness_target_micros: None,
            view_of: None,
            query: None,
            key_map: None,
        }
    }

    /// A plain view, whose columns are numbered as they stand. Its primary view is none: no run is
    /// of number 0.
    pub fn plain_view(
        id: TableId,
        name: impl Into<TableName>,
        columns: Vec<Column>,
        query: ViewQuery,
    ) -> Table {
        Table {
            query: Some(Box::new(query)),
            ..Table::new(id, ViewId(0), name, columns, &[])
        }
    }

    /// The id of the next column that is added: no column of the table ever had it.
    pub fn next_column_id(&self) -> ColumnId {
        let greatest = self.columns.iter().map(|column| column.id.0 + 1).max();
        ColumnId(self.next_column.max(greatest.unwrap_or(0)))
    }

    /// The position of a column by its name.
    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The position of a column by its name, or an error that names table and column.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    pub fn require_column(&self, name: &str) -> Result<usize> {
        self.column_index(name).ok_or_else(|| {
            Error::not_found(format!("table {:?} has no column {name:?}", self.name))
                .with_name(name)
                .with_sqlstate("42703")
        })
    }

    /// The positions of the primary key's columns, most significant first.
    pub fn key_indices(&self) -> Vec<usize> {
        self.primary
            .key
            .iter()
            .map(|id| {
                self.columns
                    .iter()
                    .position(|column| column.id == *id)
                    .expect("a key names columns of its table: checked when it was defined")
            })
            .collect()
    }

    /// The Arrow schema of the table's rows, hidden key included: fields in the order of
    /// declaration, NOT NULL kept.
    pub fn arrow_schema(&self) -> SchemaRef {
        Arc::new(Schema::new(
            self.columns
                .iter()
                .map(|column| Field::new(&column.name, column.data_type.clone(), column.nullable))
                .collect::<Vec<_>>(),
        ))
    }

    /// The position of the column that rows end by.
    pub fn ttl_index(&self) -> Option<usize> {
        let ttl = self.ttl?;
        self.columns
            .iter()
            .position(|column| column.id == ttl.column)
    }

    /// Whether the table takes whole-row upserts and deletes only: what a change of some columns
    /// makes of a row would depend on whether a merge has thrown the expired row away. Where the
    /// key holds the moment, such a row stays expired.
    pub fn takes_whole_rows_only(&self) -> bool {
        self.ttl
            .is_some_and(|ttl| !self.primary.key.contains(&ttl.column))
    }

    /// The key map of this table, which owns an ID key: its key's columns, the ID, and those
    /// columns whose defaults a row gets that a reference makes. They keep their column ids.
    pub fn key_map_table(&self, id: TableId, view: ViewId) -> Table {
        let of_key = (self.key_indices().into_iter()).map(|at| &self.columns[at]);
        let id_column = self.columns.iter().filter(|column| self.owns(column));
        let others = self.columns.iter().filter(|column| {
            let in_key = self.primary.key.contains(&column.id);
            column.default != ColumnDefault::Null && !in_key && !self.owns(column)
        });
        let columns = of_key.chain(id_column).chain(others).cloned();
        Table {
            id,
            name: format!("_keys_of_{}", self.id),
            version: self.version,
            columns: columns
                .map(|column| Column {
                    nullable: column.nullable || column.default != ColumnDefault::Null,
                    characters_max: None,
                    json: false,
                    older: None,
                    id_key: None,
                    storage: ColumnStorage::default(),
                    merge: None,
                    label: None,
                    ..column
                })
                .collect(),
            primary: View {
                id: view,
                key: self.primary.key.clone(),
            },
            hidden_key: false,
            layout: Layout::Point,
            comment: None,
            next_column: 0,
            partitioning: None,
            ttl: None,
            freshness_target_micros: None,
            view_of: None,
            query: None,
            key_map: Some(KeyMap {
                owner: self.id,
                partitions: PARTITIONS,
            }),
        }
    }

    /// Whether a column of the table is the ID key that it owns.
    pub fn owns(&self, column: &Column) -> bool {
        (column.id_key).is_some_and(|id_key| id_key.owner == self.id)
    }

    /// The position of the ID key that the table owns, and its key map.
    pub fn owned_id(&self) -> Option<(usize, TableId)> {
        let mut columns = self.columns.iter().enumerate();
        columns.find_map(|(at, column)| match column.id_key {
            Some(id_key) if id_key.owner == self.id => Some((at, id_key.map)),
            _ => None,
        })
    }

    /// The position of the numbers in a key map: right behind the natural key.
    pub fn key_map_id(&self) -> usize {
        self.primary.key.len()
    }

    /// The columns that are ID keys, owned or not, by position, with their key maps.
    pub fn id_keys(&self) -> impl Iterator<Item = (usize, IdKeyColumn)> {
        let columns = self.columns.iter().enumerate();
        columns.filter_map(|(at, column)| Some((at, column.id_key?)))
    }

    /// The columns that SQL shows without being asked by name: all but those of labels, and the
    /// hidden key, which stand behind them.
    pub fn visible_columns(&self) -> usize {
        let written = &self.columns[..self.written_columns()];
        let labels = written
            .iter()
            .rev()
            .take_while(|column| column.holds_labels());
        written.len() - labels.count()
    }

    /// The columns that writers give: all but the hidden key.
    pub fn written_columns(&self) -> usize {
        self.columns.len() - usize::from(self.hidden_key)
    }

    /// The position of the column that holds the labels of rows.
    pub fn row_label(&self) -> Option<usize> {
        let mut columns = self.columns.iter();
        columns.position(|column| column.label == Some(LabelRole::OfRows))
    }

    /// The position of the column that holds the labels of the cells of the one at `at`; `None`
    /// where they have none.
    ///
    /// # Errors
    /// `Internal` when the table lacks it.
    pub fn cell_label(&self, at: usize) -> Result<Option<usize>> {
        let Some(column) = self.columns.get(at) else {
            return Ok(None);
        };
        let Some(LabelRole::In(id)) = column.label else {
            return Ok(None);
        };
        let of_cells = Some(LabelRole::OfCells(column.id));
        let is = |label: &Column| label.id == id && label.label == of_cells;
        match self.columns.iter().position(is) {
            Some(label) => Ok(Some(label)),
            None => Err(Error::internal(format!(
                "table {:?} lost the labels of column {:?}",
                self.name, column.name
            ))),
        }
    }

    /// Whether rows or cells of the table have labels.
    pub fn has_labels(&self) -> bool {
        self.columns.iter().any(|column| column.label.is_some())
    }
}

#[cfg(test)]
mod tests;
