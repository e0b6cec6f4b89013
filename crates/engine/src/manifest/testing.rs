//! What the manifest's tests share: small tables, edits by hand and at random.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use lazybase_model::table::{Column, ColumnId, Layout, SchemaVersion, Table, View};
use lazybase_model::{DatabaseId, IdKeyColumn, ScuNumber, Span, TableId, ViewId};

use super::check::{check_commit, check_loaded};
use super::edit::{Ddl, Edit, RetiredRun};
use super::state::{
    LogPiece, Manifest, ProducerMark, RangeState, Run, RunId, RunKind, ScuEntry, ScuTime,
    SegmentFormat, SegmentMeta,
};
use crate::key::Key;
use crate::schema::{Alteration, altered};

pub(crate) const DATABASE: DatabaseId = DatabaseId {
    database: 0x1234_5678_9abc_def0,
    history: 7,
};

pub(crate) fn key(byte: u8) -> Key {
    Key::new([1, byte].as_slice())
}

pub(crate) fn table(name: &str, id: u32, view: u32) -> Table {
    let column = |id, name: &str, nullable| Column {
        id: ColumnId(id),
        nullable,
        ..Column::new(name, DataType::Int64)
    };
    Table {
        id: TableId(id),
        name: name.to_owned(),
        version: SchemaVersion(0),
        columns: vec![column(1, "id", false), column(2, "value", true)],
        primary: View {
            id: ViewId(view),
            key: vec![ColumnId(1)],
        },
        hidden_key: false,
        layout: Layout::Scan,
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

/// A table that owns an ID key, and its key map, under the next ids.
pub(crate) fn owner_and_map(id: u32, view: u32) -> (Table, Table) {
    let mut owner = table("owner", id, view);
    owner.columns[1].nullable = false;
    owner.columns[1].id_key = Some(IdKeyColumn {
        map: TableId(id + 1),
        owner: TableId(id),
    });
    let map = owner.key_map_table(TableId(id + 1), ViewId(view + 1));
    (owner, map)
}

pub(crate) fn segment(file: &str, low: u8, high: u8, newest: u64) -> Arc<SegmentMeta> {
    Arc::new(SegmentMeta {
        file: format!("segments/{file}.ext"),
        format: SegmentFormat::Extent,
        rows: 10,
        bytes: 1000,
        raw_bytes: 2000,
        index_offset: 900,
        index_crc: 0xdead_beef,
        min_key: key(low),
        max_key: key(high),
        all_upserts: true,
        newest_scu: ScuNumber(newest),
        moments_through: None,
    })
}

/// A manifest with the edits that led to it, each checked as a commit would.
#[derive(Debug, Clone)]
pub(crate) struct Story {
    pub(crate) manifest: Manifest,
    pub(crate) edits: Vec<Edit>,
    /// A clock that every edit moves by a second.
    pub(crate) now_micros: i64,
}

impl Story {
    pub(crate) fn new() -> Story {
        let create = Edit::Create {
            database: DATABASE,
            clock_micros: 0,
        };
        Story {
            manifest: Manifest::created(DATABASE, 0),
            edits: vec![create],
            now_micros: 0,
        }
    }

    pub(crate) fn apply(&mut self, edit: Edit) -> &Manifest {
        self.try_apply(edit).unwrap()
    }

    pub(crate) fn try_apply(&mut self, edit: Edit) -> lazybase_model::Result<&Manifest> {
        let next = self.manifest.apply(&edit)?;
        check_commit(&self.manifest, &next).unwrap();
        check_loaded(&next).unwrap();
        self.now_micros += 1_000_000;
        self.edits.push(edit);
        self.manifest = next;
        Ok(&self.manifest)
    }

    pub(crate) fn create_table(&mut self, name: &str) -> ViewId {
        let (id, view) = (self.manifest.next_table, self.manifest.next_view);
        self.apply(Edit::CreateTable {
            table: table(name, id, view),
        });
        ViewId(view)
    }

    pub(crate) fn seal(&mut self) -> ScuNumber {
        let edit = self.seal_edit();
        self.apply(edit).sealed_through
    }

    /// Makes a table that owns an ID key; its key map.
    pub(crate) fn create_owner(&mut self) -> TableId {
        let (id, view) = (self.manifest.next_table, self.manifest.next_view);
        let (owner, map) = owner_and_map(id, view);
        let create = |table: &Table| Ddl::Create {
            table: table.clone(),
        };
        self.apply(Edit::Transaction {
            ddl: vec![create(&owner), create(&map)],
            batch: None,
            own_scu: false,
            clock_micros: self.now_micros,
        });
        map.id
    }

    /// Seals an SCU that mentions keys of a map.
    pub(crate) fn seal_keys(&mut self, map: TableId) -> ScuNumber {
        let mut edit = self.seal_edit();
        if let Edit::Seal { entry, .. } = &mut edit {
            entry.tables.insert(map, 4);
        }
        self.apply(edit).sealed_through
    }

    pub(crate) fn seal_edit(&self) -> Edit {
        let scu = self.manifest.sealed_through.next();
        let before = self.manifest.times.values().next_back();
        let now = self.manifest.ddl_batch.filter(|batch| batch.scu == scu);
        Edit::Seal {
            entry: ScuEntry {
                scu,
                batches: 3,
                rows: 30,
                raw_bytes: 3000,
                tables: BTreeMap::from([(TableId(1), 30)]),
                log: vec![LogPiece {
                    file: format!("log/{:016x}.log", scu.0),
                    identity: scu.0,
                    start: 0,
                    end: 4096,
                }],
                files: vec![format!("log/{:016x}.log", scu.0)],
                ddl_batch: now.map(|batch| batch.number),
            },
            time: ScuTime {
                first_ack_micros: self.now_micros,
                last_ack_micros: self.now_micros,
                batches_through: before.map_or(0, |time| time.batches_through) + 3,
            },
            producers: BTreeMap::from([(
                "loader".to_owned(),
                ProducerMark {
                    number: scu.0,
                    content_hash: scu.0 * 7,
                    scu,
                    batches: 1,
                    epoch: 0,
                },
            )]),
        }
    }

    /// Sorts the next SCU into `parts` runs for each of `views`.
    pub(crate) fn sort(&mut self, views: &[ViewId], parts: u32) -> Vec<RunId> {
        let edit = self.sort_edit(views, parts);
        let Edit::Sorted { runs, .. } = &edit else {
            unreachable!()
        };
        let ids = runs.iter().map(|run| run.id).collect();
        self.apply(edit);
        ids
    }

    pub(crate) fn sort_edit(&self, views: &[ViewId], parts: u32) -> Edit {
        let scu = self.manifest.sorted_through.next();
        let mut next = self.manifest.next_run;
        let mut runs = Vec::new();
        for view in views {
            for part in 0..parts {
                let id = RunId(next);
                next += 1;
                runs.push(Run {
                    id,
                    view: *view,
                    kind: RunKind::Sorted,
                    span: Span::single(scu),
                    changes_through: scu,
                    segments: vec![segment(&format!("{id}"), 0, 200, scu.0)],
                    part,
                });
            }
        }
        Edit::Sorted { scu, runs }
    }

    /// The edit that merges the current edges `from..to` of a range.
    pub(crate) fn merge_edit(&self, view: ViewId, range: usize, from: usize, to: usize) -> Edit {
        let state = self.manifest.table_of_view(view).unwrap();
        let range = &state.ranges[range];
        let edges = self.manifest.edges(range);
        let edges: Vec<_> = edges.iter().filter(|edge| edge.is_current()).collect();
        let inputs: Vec<&Arc<Run>> = edges[from..to]
            .iter()
            .flat_map(|e| &e.runs)
            .copied()
            .collect();
        let base = inputs.iter().any(|run| run.kind == RunKind::Base);
        let id = RunId(self.manifest.next_run);
        let changes_through = edges[from..to].iter().map(|e| e.changes_through).max();
        let segments = match inputs.iter().all(|run| run.segments.is_empty()) {
            true => Vec::new(),
            false => vec![segment(&format!("{id}"), 0, 200, 1)],
        };
        Edit::Merged {
            view,
            low: range.range.low.clone(),
            inputs: inputs.iter().map(|run| run.id).collect(),
            output: Run {
                id,
                view,
                kind: if base { RunKind::Base } else { RunKind::Merged },
                span: Span {
                    first: edges[from].span.first,
                    last: edges[to - 1].span.last,
                },
                changes_through: changes_through.unwrap(),
                segments,
                part: 0,
            },
            clock_micros: self.now_micros,
        }
    }

    pub(crate) fn merge(&mut self, view: ViewId, range: usize, from: usize, to: usize) -> RunId {
        let edit = self.merge_edit(view, range, from, to);
        let Edit::Merged { output, .. } = &edit else {
            unreachable!()
        };
        let id = output.id;
        self.apply(edit);
        id
    }

    pub(crate) fn range(&self, view: ViewId, range: usize) -> &RangeState {
        &self.manifest.table_of_view(view).unwrap().ranges[range]
    }

    /// The spans of a range's current runs, as text.
    pub(crate) fn current(&self, view: ViewId, range: usize) -> String {
        self.spans(view, range, true)
    }

    pub(crate) fn superseded(&self, view: ViewId, range: usize) -> String {
        self.spans(view, range, false)
    }

    fn spans(&self, view: ViewId, range: usize, current: bool) -> String {
        let entries = &self.range(view, range).runs;
        let entries = entries.iter().filter(|entry| entry.is_current() == current);
        let spans = entries.map(|entry| self.manifest.runs[&entry.id].span.to_string());
        spans.collect::<Vec<_>>().join(" ")
    }

    /// A random edit that should succeed, drawn from `draw`; `None` when the drawn kind does not
    /// apply now.
    pub(crate) fn random_edit(&self, draw: &mut Draw) -> Option<Edit> {
        let now = &self.manifest;
        let views: Vec<ViewId> = now.tables.values().map(|t| t.table.primary.id).collect();
        let view = *draw.pick(&views).unwrap_or(&ViewId(0));
        let clock_micros = self.now_micros;
        match draw.below(18) {
            0 if views.len() < 4 => {
                let (id, view) = (now.next_table, now.next_view);
                Some(Edit::CreateTable {
                    table: table(&format!("t{id}"), id, view),
                })
            }
            1 if draw.below(4) == 0 => Some(Edit::DropTable {
                table: now.table_of_view(view)?.table.id,
            }),
            2 if now.sorted_through == now.sealed_through => Some(Edit::TruncateTable {
                table: now.table_of_view(view)?.table.id,
                clock_micros,
            }),
            1 if now.sorted_through == now.sealed_through
                && now.least_horizon().scu <= now.sealed_through =>
            {
                Some(Edit::Transaction {
                    ddl: vec![Ddl::Truncate {
                        table: now.table_of_view(view)?.table.id,
                    }],
                    batch: None,
                    own_scu: true,
                    clock_micros,
                })
            }
            3 if views.len() < 6 && now.least_horizon().scu <= now.sealed_through => {
                let id = now.next_table.max(now.next_view) + draw.below(3) as u32;
                Some(Edit::Transaction {
                    ddl: vec![Ddl::Create {
                        table: table(&format!("t{id}"), id, id),
                    }],
                    batch: Some(1 + draw.below(9)),
                    own_scu: false,
                    clock_micros,
                })
            }
            3..=5 => Some(self.seal_edit()),
            6..=8 if now.sorted_through < now.sealed_through => {
                let touched: Vec<ViewId> =
                    views.into_iter().filter(|_| draw.below(2) == 0).collect();
                Some(self.sort_edit(&touched, 1 + draw.below(3) as u32))
            }
            9..=11 => {
                let ranges = &now.table_of_view(view)?.ranges;
                let range = draw.below(ranges.len() as u64) as usize;
                let edges = now.edges(&ranges[range]);
                let edges = edges.iter().filter(|edge| edge.is_current()).count() as u64;
                let from = draw.below(edges);
                let to = from + 1 + draw.below(edges - from);
                Some(self.merge_edit(view, range, from as usize, to as usize))
            }
            12 => {
                let ranges = &now.table_of_view(view)?.ranges;
                let at = key(draw.below(200) as u8);
                let range = ranges.iter().find(|range| range.range.contains(&at))?;
                let low = range.range.low.clone();
                (low.as_ref() != Some(&at)).then_some(Edit::SplitRange { view, low, at })
            }
            13 => self.random_retire(draw),
            14 => Some(Edit::OpenProducer {
                name: "loader".to_owned(),
                epoch: now.producers.get("loader").map_or(0, |mark| mark.epoch) + 1,
                owner: None,
            }),
            15 => Some(Edit::Barrier {
                epoch: now.epoch + 1,
                clock_micros,
            }),
            16 | 17 if now.least_horizon().scu <= now.sealed_through => {
                self.random_alter(draw, view)
            }
            _ => None,
        }
    }

    /// A column more, or the newest one less.
    fn random_alter(&self, draw: &mut Draw, view: ViewId) -> Option<Edit> {
        let table = &self.manifest.table_of_view(view)?.table;
        let last = table.columns.last()?;
        let change = match draw.below(3) {
            0 if table.columns.len() > 2 => Alteration::DropColumn(last.name.clone()),
            _ => {
                let name = format!("c{}", table.next_column_id().0);
                Alteration::AddColumn(Column::new(name, DataType::Int64))
            }
        };
        Some(self.alter_edit(table, &[change]))
    }

    /// The edit that changes a table's definition.
    pub(crate) fn alter_edit(&self, table: &Table, changes: &[Alteration]) -> Edit {
        let version = SchemaVersion(table.version.0 + 1);
        Edit::Transaction {
            ddl: vec![Ddl::Alter {
                base: table.version,
                table: altered(table, changes, version).unwrap(),
            }],
            batch: None,
            own_scu: false,
            clock_micros: self.now_micros,
        }
    }

    fn random_retire(&self, draw: &mut Draw) -> Option<Edit> {
        let now = &self.manifest;
        let mut runs = Vec::new();
        for (view, range) in now.all_ranges() {
            let superseded = range.runs.iter().filter(|entry| !entry.is_current());
            for entry in superseded.filter(|_| draw.below(2) == 0) {
                runs.push(RetiredRun {
                    view,
                    low: range.range.low.clone(),
                    run: entry.id,
                });
            }
        }
        let sorted = now.scus.range(..=now.sorted_through);
        Some(Edit::Retire {
            runs,
            scus: sorted.map(|(scu, _)| *scu).collect(),
            times_before: now.oldest_base_end(),
        })
    }
}

/// Draws from a seed (SplitMix64).
#[derive(Debug, Clone)]
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn pick<'v, T>(&mut self, values: &'v [T]) -> Option<&'v T> {
        match values.len() as u64 {
            0 => None,
            length => values.get(self.below(length) as usize),
        }
    }
}
