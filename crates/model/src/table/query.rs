//! The query that a plain view stands for: its text, and what the names in it mean.
//!
//! Names may get other meanings after the view was made: tables and columns are renamed, others
//! take their names. So the ids of what they meant are kept beside the text.

use serde::{Deserialize, Serialize};

use super::{ColumnId, TableId, TableName};

/// The query of a plain view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewQuery {
    /// As it was written.
    pub text: String,
    /// Whether the view's columns have names that were given beside the text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub renamed: bool,
    /// What it names in FROM, each name once. Tables of the system are known by their names alone.
    pub uses: Vec<UsedTable>,
}

impl ViewQuery {
    /// What a name of the text means.
    pub fn used(&self, name: &str) -> Option<&UsedTable> {
        self.uses.iter().find(|used| used.name == name)
    }
}

/// A table, a secondary view or another plain view that the text names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedTable {
    /// What the text calls it, without the schema.
    pub name: TableName,
    /// Which it is.
    pub table: TableId,
    /// The columns that it had when the view was made, in their order: the text knows no others.
    pub columns: Vec<UsedColumn>,
}

/// A column of something that the text names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedColumn {
    /// Which it is.
    pub id: ColumnId,
    /// What the text calls it.
    pub name: String,
    /// Whether the query reads it: then it stays while the view is there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read: bool,
}
