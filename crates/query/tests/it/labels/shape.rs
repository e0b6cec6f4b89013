//! What the table of a story has beside its labels.

/// One of them a story. Their number has no factor in common with that of the mixes of stages, and
/// is odd, so that each meets each mix with labels from the beginning and with later ones.
pub(super) const SHAPES: [Shape; 7] = [
    Shape::Keyed,
    Shape::Hash,
    Shape::Range,
    Shape::Keyless,
    Shape::EndsByKey,
    Shape::EndsByValue,
    Shape::Temporary,
];

/// How rows lie in the table, and how long they stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Keyed,
    /// Its keys are spread over buckets.
    Hash,
    /// Its keys are cut into ranges.
    Range,
    /// No row replaces another.
    Keyless,
    /// Rows end by a moment of the key.
    EndsByKey,
    /// Rows end by a moment outside of the key: the table takes whole rows alone.
    EndsByValue,
    /// One session sees it.
    Temporary,
}

/// Rows with the first moment have ended, those with the second never do.
const MOMENTS: [&str; 2] = ["2000-01-01 00:00:00", "2999-01-01 00:00:00"];

impl Shape {
    /// Whether rows end.
    pub(super) fn ends(self) -> bool {
        matches!(self, Shape::EndsByKey | Shape::EndsByValue)
    }

    /// The key's columns.
    pub(super) fn key(self) -> &'static str {
        match self {
            Shape::EndsByKey => "k, at",
            _ => "k",
        }
    }

    /// The column that rows end by, behind others.
    pub(super) fn at(self) -> &'static str {
        match self.ends() {
            true => ", at",
            false => "",
        }
    }

    /// What stands there, behind other values.
    pub(super) fn moment(self, is_alive: bool) -> String {
        match self.ends() {
            true => format!(", '{}'", MOMENTS[usize::from(is_alive)]),
            false => String::new(),
        }
    }

    /// Names the rows of a key that have not ended.
    pub(super) fn by_key(self, k: i64) -> String {
        match self {
            Shape::EndsByKey => format!("k = {k} AND at = '{}'", MOMENTS[1]),
            _ => format!("k = {k}"),
        }
    }

    /// An order of rows that is the same for all that differ in `k` and `a`.
    pub(super) fn order(self) -> &'static str {
        match self {
            Shape::Keyless => "k, a",
            _ => "k",
        }
    }

    /// The table, with labels from its beginning on or without.
    pub(super) fn create(self, has_labels: bool) -> String {
        let cells = if has_labels { " WITH LABELS" } else { "" };
        let at = if self.ends() { ", at TIMESTAMP" } else { "" };
        let key = match self {
            Shape::Keyless => String::new(),
            _ => format!(", PRIMARY KEY ({})", self.key()),
        };
        let mut options = Vec::new();
        options.extend(has_labels.then_some("row_labels = true"));
        options.extend(self.ends().then_some("ttl = '1 day', ttl_column = 'at'"));
        let options = match options.is_empty() {
            true => String::new(),
            false => format!(" WITH ({})", options.join(", ")),
        };
        let cut = match self {
            Shape::Hash => " PARTITION BY HASH PARTITIONS 3",
            Shape::Range => {
                " PARTITION BY RANGE (k) (PARTITION 0 <= VALUES < 4, PARTITION 4 <= VALUES < 8)"
            }
            _ => "",
        };
        let what = match self {
            Shape::Temporary => "TEMPORARY TABLE",
            _ => "TABLE",
        };
        let columns = format!("k INT, g INT, a INT{cells}, b INT{cells}{at}{key}");
        format!("CREATE {what} t ({columns}){options}{cut}")
    }

    /// What makes its views.
    pub(super) fn views(self) -> Vec<String> {
        let (at, key) = (self.at(), self.key());
        let made = |name: &str, columns: &str, order: &str| {
            format!(
                "CREATE MATERIALIZED VIEW {name} AS SELECT {columns}{at} FROM t \
                 ORDER BY {order}, {key}"
            )
        };
        match self {
            // There are none of a temporary table.
            Shape::Temporary => Vec::new(),
            _ => vec![
                made("by_a", "k, g, a, b", "a"),
                made("by_g", "k, g, a", "g"),
            ],
        }
    }

    /// The table without labels that holds what somebody may read.
    pub(super) fn plain(self) -> &'static str {
        match self {
            Shape::Keyless => "CREATE TABLE p (k INT, g INT, a INT, b INT, scu BIGINT)",
            _ => "CREATE TABLE p (k INT PRIMARY KEY, g INT, a INT, b INT, scu BIGINT)",
        }
    }
}
