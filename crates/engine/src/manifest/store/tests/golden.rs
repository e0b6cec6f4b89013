//! The golden files: every edit there is, as each version of the format writes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::DataType;
use futures::executor::block_on;
use lazybase_model::access::{
    AccessChange, Object, Privilege, Privileges, Role, RoleAttribute, RoleId, Verifier,
};
use lazybase_model::partition::{
    BoundBytes, PartitionChange, Partitioning, RangeBound, RangeBounds, RangeRule,
};
use lazybase_model::sequence::{Counter, SequenceOwner};
use lazybase_model::{
    Column, ColumnDefault, ColumnId, IdentityKind, LabelRole, NextIds, SchemaVersion, ScuNumber,
    Sequence, SequenceId, Span, Table, TableId, UsedColumn, UsedTable, ViewQuery,
};

use super::*;
use crate::manifest::history::TimesFile;
use crate::manifest::testing::Story;
use crate::manifest::{Ddl, Run, RunId, RunKind, verify_files};
use crate::schema::{Alteration, encode_cell};

/// Every edit there is, once at least; the bytes of each version's files stay readable.
fn golden_story() -> Story {
    let mut story = Story::new();
    story.apply(Edit::Barrier {
        epoch: 1,
        clock_micros: 1,
    });
    let (first, second) = (story.create_table("first"), story.create_table("second"));
    story.apply(Edit::OpenProducer {
        name: "loader".to_owned(),
        epoch: 1,
        owner: None,
    });
    for _ in 0..4 {
        story.seal();
    }
    story.sort(&[first, second], 1);
    story.sort(&[first], 2);
    story.sort(&[second], 1);
    let at = crate::manifest::testing::key(100);
    story.apply(Edit::SplitRange {
        view: first,
        low: None,
        at,
    });
    story.merge(first, 0, 0, 2);
    story.merge(first, 1, 1, 3);
    let healed = crate::manifest::testing::segment("healed", 0, 200, 1);
    story.apply(Edit::Heal {
        runs: vec![crate::manifest::HealedRun {
            run: crate::manifest::RunId(3),
            segments: vec![healed],
        }],
    });
    let retire = crate::manifest::collect::retirable(
        &story.manifest,
        story.now_micros,
        std::time::Duration::ZERO,
        crate::manifest::collect::Verified {
            sorted_through: ScuNumber(2),
            ..crate::manifest::collect::Verified::default()
        },
    );
    story.apply(retire.unwrap());
    story.sort(&[], 1);
    let second = story.manifest.table_of_view(second).unwrap().table.id;
    story.apply(Edit::TruncateTable {
        table: second,
        clock_micros: story.now_micros,
    });
    story.apply(Edit::DropTable { table: second });
    story.seal();
    story
}

/// The same, and what version 2 adds.
fn golden_story_2() -> Story {
    let mut story = golden_story();
    let id = story.manifest.next_table;
    let table = crate::manifest::testing::table;
    let create = |name: &str, id| Ddl::Create {
        table: table(name, id, id),
    };
    story.apply(Edit::Transaction {
        ddl: vec![create("third", id), create("fourth", id + 3)],
        batch: None,
        own_scu: false,
        clock_micros: story.now_micros,
    });
    story.sort(&[], 1);
    story.apply(Edit::Transaction {
        ddl: vec![
            Ddl::Drop {
                table: TableId(id + 3),
            },
            Ddl::Truncate { table: TableId(id) },
            create("fourth", id + 1),
        ],
        batch: Some(0xdd10_ba7c),
        own_scu: false,
        clock_micros: story.now_micros,
    });
    story.seal();
    story
}

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/manifest");

#[test]
fn files_of_earlier_versions_are_read() {
    let stories = [
        (1, golden_story()),
        (2, golden_story_2()),
        (3, golden_story_3()),
        (4, golden_story_4()),
        (5, golden_story_5()),
        (6, golden_story_6()),
        (7, golden_story_7()),
        (8, golden_story_8()),
    ];
    for (version, story) in stories {
        let world = Env::test(1);
        let folder = std::fs::read_dir(format!("{GOLDEN}/format-{version}")).unwrap();
        for file in folder.map(Result::unwrap) {
            let name = format!("manifest/{}", file.file_name().to_str().unwrap());
            let bytes = std::fs::read(file.path()).unwrap();
            block_on(world.env.store.put_if_absent(&name, bytes.into())).unwrap();
        }
        // The first two versions forgot times for good.
        let without = |manifest: Manifest| match version {
            1 | 2 => Manifest {
                history: Default::default(),
                ..manifest
            },
            _ => manifest,
        };
        let read = look(&world.store).unwrap();
        assert_eq!(without(read), without(story.manifest));
        assert_eq!(
            block_on(verify_files(&*world.env.store, 0)).unwrap().len(),
            0
        );
    }
}

/// What version 3 knows besides: definitions that follow each other, partitions, views, merge
/// operators and ID keys.
fn golden_story_3() -> Story {
    let mut story = golden_story_2();
    let table = |story: &Story| {
        let state = story.manifest.tables.values().next().unwrap();
        Arc::clone(&state.table)
    };
    let older = encode_cell(&(Arc::new(Int64Array::from(vec![7])) as ArrayRef)).unwrap();
    let added = Column {
        older,
        ..Column::new("added", DataType::Int64)
    };
    let changes = [
        Alteration::AddColumn(added),
        Alteration::Rename("altered".to_owned()),
    ];
    let edit = story.alter_edit(&table(&story), &changes);
    story.apply(edit);
    story.seal();
    let edit = story.alter_edit(
        &table(&story),
        &[Alteration::DropColumn("added".to_owned())],
    );
    story.apply(edit);
    golden_partitions(&mut story);
    golden_views(&mut story);
    golden_operators(&mut story);
    golden_times(&mut story);
    golden_ids(&mut story);
    story
}

/// And a transaction with an SCU of its own.
fn golden_story_4() -> Story {
    let mut story = golden_story_3();
    while story.manifest.sorted_through < story.manifest.sealed_through {
        story.sort(&[], 1);
    }
    let tables = story.manifest.tables.values();
    let ddl = tables.map(|state| Ddl::Truncate {
        table: state.table.id,
    });
    story.apply(Edit::Transaction {
        ddl: ddl.collect(),
        batch: None,
        own_scu: true,
        clock_micros: story.now_micros,
    });
    story
}

/// And who may do what.
fn golden_story_5() -> Story {
    let mut story = golden_story_4();
    let table = Arc::clone(&story.manifest.tables.values().next().unwrap().table);
    let (staff, anna) = (RoleId(1), RoleId(2));
    let member = Role {
        login: true,
        inherit: false,
        connection_limit: Some(3),
        valid_until_micros: Some(1_700_000_000_000_000),
        password: Some(Verifier::new(
            "SCRAM-SHA-256$4096:c2FsdA==$c3RvcmVk:c2VydmVy",
        )),
        settings: [("lazybase.freshness".to_owned(), "best effort".to_owned())].into(),
        ..Role::new(anna, "anna")
    };
    let grant = |on, to, privileges: &[Privilege]| AccessChange::Grant {
        on,
        to,
        privileges: privileges.iter().copied().collect(),
    };
    let column = Object::Column(table.id, table.columns[0].id);
    let attributes = [
        RoleAttribute::Superuser(true),
        RoleAttribute::CreateRole(true),
        RoleAttribute::Name("operators".to_owned()),
    ];
    let alter = |attribute| AccessChange::AlterRole {
        role: staff,
        attribute,
    };
    let mut changes = vec![
        AccessChange::CreateRole {
            role: Role::new(staff, "staff"),
        },
        AccessChange::CreateRole { role: member },
        AccessChange::Join {
            member: anna,
            role: staff,
            admin: true,
        },
        grant(Object::Database, staff, &[Privilege::Create]),
        grant(
            Object::Table(table.id),
            RoleId::PUBLIC,
            &Privilege::OF_TABLES,
        ),
        grant(column, anna, &Privilege::OF_COLUMNS),
        AccessChange::Own {
            table: table.id,
            owner: Some(staff),
        },
        AccessChange::Revoke {
            on: column,
            from: anna,
            privileges: [Privilege::Insert].into(),
        },
        AccessChange::Setting {
            name: Some("lazybase.on_miss".to_owned()),
            value: Some("stale".to_owned()),
        },
    ];
    changes.extend(attributes.map(alter));
    let access = |change| Ddl::Access { change };
    story.apply(Edit::Transaction {
        ddl: changes.into_iter().map(access).collect(),
        batch: None,
        own_scu: false,
        clock_micros: story.now_micros,
    });
    let left = [
        AccessChange::Leave {
            member: anna,
            role: staff,
            only_admin: false,
        },
        AccessChange::DropRole { role: anna },
    ];
    story.apply(Edit::Transaction {
        ddl: left.into_iter().map(access).collect(),
        batch: None,
        own_scu: false,
        clock_micros: story.now_micros,
    });
    story
}

/// And labels, and who may read past them.
fn golden_story_6() -> Story {
    let mut story = golden_story_5();
    let (table, view) = (story.manifest.next_table, story.manifest.next_view);
    let mut labelled = crate::manifest::testing::table("labelled", table, view);
    let labels = labelled.next_column_id();
    let value = labelled.columns.last_mut().unwrap();
    value.nullable = true;
    value.label = Some(LabelRole::In(labels));
    let of_cells = Column {
        id: labels,
        ..Column::of_cell_labels(value)
    };
    let of_rows = Column {
        id: ColumnId(labels.0 + 1),
        ..Column::of_row_labels()
    };
    labelled.columns.extend([of_cells, of_rows]);
    let authorizations = ["pay".to_owned(), "top secret".to_owned()];
    let change = AccessChange::AlterRole {
        role: RoleId(1),
        attribute: RoleAttribute::Authorizations(authorizations.into()),
    };
    story.apply(Edit::Transaction {
        ddl: vec![Ddl::Create { table: labelled }, Ddl::Access { change }],
        batch: None,
        own_scu: false,
        clock_micros: story.now_micros,
    });
    golden_passing(&mut story, TableId(table));
    story
}

/// And how stale a table should be at most.
fn golden_story_7() -> Story {
    let mut story = golden_story_6();
    let newest = story.manifest.tables.values().next_back().unwrap();
    let table = Arc::clone(&newest.table);
    let target = Alteration::SetFreshnessTarget(Some(10_000_000));
    let edit = story.alter_edit(&table, &[target]);
    story.apply(edit);
    story
}

/// And which texts are JSON.
fn golden_story_8() -> Story {
    let mut story = golden_story_7();
    let (table, view) = (story.manifest.next_table, story.manifest.next_view);
    let mut documents = crate::manifest::testing::table("documents", table, view);
    let value = documents.columns.last_mut().unwrap();
    (value.data_type, value.json) = (DataType::Utf8, true);
    story.apply(Edit::Transaction {
        ddl: vec![Ddl::Create { table: documents }],
        batch: None,
        own_scu: false,
        clock_micros: story.now_micros,
    });
    story
}

/// And what version 9 adds.
fn golden_story_9() -> Story {
    let mut story = golden_story_8();
    golden_sequences(&mut story);
    golden_plain_views(&mut story);
    story
}

/// Sequences: one of a column, whose numbers are reserved, one that is set, and one that ends.
fn golden_sequences(story: &mut Story) {
    let (id, view) = (story.manifest.next_table, story.manifest.next_view);
    let mut numbered = crate::manifest::testing::table("numbered", id, view);
    let of_column = Sequence {
        owner: Some(SequenceOwner {
            table: numbered.id,
            column: numbered.columns[0].id,
        }),
        ..Sequence::new(SequenceId(id + 1), "numbered_id_seq")
    };
    numbered.columns[0].default = ColumnDefault::Next(of_column.id);
    numbered.columns[0].identity = Some(IdentityKind::ByDefault);
    let plain = Sequence {
        data_type: DataType::Int32,
        start: -2,
        increment: -2,
        min: -1_000,
        max: -1,
        cycle: true,
        ..Sequence::new(SequenceId(id + 2), "plain")
    };
    let create = |sequence: &Sequence| Ddl::CreateSequence {
        sequence: sequence.clone(),
        counter: sequence.begin(),
    };
    let ended = Sequence::new(SequenceId(id + 3), "ended");
    let transaction = |ddl, story: &Story| Edit::Transaction {
        ddl,
        batch: None,
        own_scu: false,
        clock_micros: story.now_micros,
    };
    let made = Ddl::Create {
        table: numbered.clone(),
    };
    let ddl = vec![made, create(&of_column), create(&plain), create(&ended)];
    let edit = transaction(ddl, story);
    story.apply(edit);
    story.apply(Edit::ReserveNumbers {
        sequence: of_column.id,
        through: 32,
    });
    story.apply(Edit::SetSequence {
        sequence: plain.id,
        counter: Counter {
            last: -10,
            called: true,
        },
    });
    let altered = Sequence {
        increment: -5,
        ..plain
    };
    let ddl = vec![
        Ddl::DropSequence { sequence: ended.id },
        Ddl::AlterSequence {
            counter: Some(altered.begin()),
            sequence: altered,
        },
    ];
    let edit = transaction(ddl, story);
    story.apply(edit);
}

/// Plain views: one that is renamed, and one that ends.
fn golden_plain_views(story: &mut Story) {
    let id = story.manifest.next_table;
    let mut tables = story.manifest.tables.values();
    let table = tables
        .find(|state| state.table.name == "documents")
        .unwrap();
    let table = Arc::clone(&table.table);
    let used = |read: bool| UsedTable {
        name: "documents".to_owned(),
        table: table.id,
        columns: (table.columns.iter())
            .map(|column| UsedColumn {
                id: column.id,
                name: column.name.clone(),
                read,
            })
            .collect(),
    };
    let view = |id, name: &str, read| {
        let query = ViewQuery {
            text: "SELECT id FROM documents".to_owned(),
            renamed: true,
            uses: vec![used(read)],
        };
        let columns = vec![Column::new("number", DataType::Int64)];
        Table::plain_view(TableId(id), name, columns, query)
    };
    let first = view(id, "numbers", true);
    let renamed = Table {
        name: "all_numbers".to_owned(),
        version: SchemaVersion(1),
        comment: Some("of documents".to_owned()),
        ..first.clone()
    };
    let second = view(id + 1, "others", false);
    let ddl = vec![
        Ddl::CreatePlainView {
            view: first.clone(),
        },
        Ddl::CreatePlainView {
            view: second.clone(),
        },
        Ddl::AlterPlainView {
            base: first.version,
            view: renamed,
        },
        Ddl::DropPlainView { view: second.id },
    ];
    story.apply(Edit::Transaction {
        ddl,
        batch: None,
        own_scu: false,
        clock_micros: story.now_micros,
    });
}

/// What goes from role to role: grant options, grants on tables to come, owners of producers; each
/// given to two, and taken from one.
fn golden_passing(story: &mut Story, table: TableId) {
    let (operators, loaders) = (RoleId(1), story.manifest.access.next_role);
    let reads = || Privileges::from([Privilege::Select, Privilege::Insert]);
    let grant = |to| AccessChange::Grant {
        on: Object::Table(table),
        to,
        privileges: reads(),
    };
    let option = |role, gives| AccessChange::Option {
        table,
        role,
        privileges: reads(),
        gives,
    };
    let default = |to, gives| AccessChange::Default {
        maker: loaders,
        to,
        privileges: reads(),
        gives,
    };
    let access = |story: &mut Story, changes: Vec<AccessChange>| {
        let ddl = changes.into_iter().map(|change| Ddl::Access { change });
        let edit = Edit::Transaction {
            ddl: ddl.collect(),
            batch: None,
            own_scu: false,
            clock_micros: story.now_micros,
        };
        story.apply(edit);
    };
    let role = Role::new(loaders, "loaders");
    let given = vec![
        AccessChange::CreateRole { role },
        grant(operators),
        grant(loaders),
        option(operators, true),
        option(loaders, true),
        default(RoleId::PUBLIC, true),
        default(operators, true),
        AccessChange::Producer {
            name: "loader".to_owned(),
            owner: Some(operators),
        },
    ];
    access(story, given);
    story.apply(Edit::OpenProducer {
        name: "feed".to_owned(),
        epoch: 1,
        owner: Some(loaders),
    });
    let taken = vec![
        option(operators, false),
        default(operators, false),
        AccessChange::Producer {
            name: "loader".to_owned(),
            owner: None,
        },
    ];
    access(story, taken);
}

fn golden_times(story: &mut Story) {
    // Without tables no horizon asks for old times.
    let views = story.manifest.views.keys();
    let views = views.map(|view| Ddl::DropView { view: *view });
    let tables = story.manifest.tables.keys();
    let tables = tables.map(|table| Ddl::Drop { table: *table });
    let ddl = views.chain(tables).collect();
    story.apply(Edit::Transaction {
        ddl,
        batch: None,
        own_scu: false,
        clock_micros: story.now_micros,
    });
    while story.manifest.sorted_through < story.manifest.sealed_through {
        story.sort(&[], 1);
    }
    story.apply(Edit::Retire {
        runs: Vec::new(),
        scus: Vec::new(),
        times_before: story.manifest.sorted_through,
    });
    let tail = story.manifest.history.tail.clone().unwrap();
    story.apply(Edit::ArchiveTimes {
        file: TimesFile {
            file: "segments/times.times".to_owned(),
            first: tail.first,
            last: tail.last,
            bytes: 50,
            crc32c: 7,
        },
        replaces: 0,
    });
}

fn golden_ids(story: &mut Story) {
    let map = story.create_owner();
    let through = story.seal_keys(map);
    let mut next = NextIds::first(16);
    next.give(7);
    let next_ids = BTreeMap::from([(through, BTreeMap::from([(map, next)]))]);
    story.apply(Edit::Remapped { through, next_ids });
}

fn golden_operators(story: &mut Story) {
    let (table, view) = (story.manifest.next_table, story.manifest.next_view);
    let mut counters = crate::manifest::testing::table("counters", table, view);
    let value = counters.columns.last_mut().unwrap();
    value.merge = Some(lazybase_model::MergeOperator::Sum);
    story.apply(Edit::Transaction {
        ddl: vec![Ddl::Create { table: counters }],
        batch: None,
        own_scu: false,
        clock_micros: story.now_micros,
    });
}

/// And partitions.
fn golden_partitions(story: &mut Story) {
    let (table, view) = (story.manifest.next_table, story.manifest.next_view);
    let bound = |value: &[u8]| RangeBound {
        value: BoundBytes(value.to_vec()),
        after: false,
    };
    let low = RangeBounds {
        low: None,
        high: Some(bound(&[1, 128])),
    };
    let high = RangeBounds {
        low: Some(bound(&[1, 128])),
        high: None,
    };
    let mut partitioned = crate::manifest::testing::table("partitioned", table, view);
    let key = partitioned.primary.key.clone();
    partitioned.partitioning = Some(Partitioning {
        hash: Vec::new(),
        range: Some(RangeRule::new(key, vec![low.clone()]).unwrap()),
    });
    while story.manifest.sorted_through < story.manifest.sealed_through {
        story.sort(&[], 1);
    }
    let partition = |change| Ddl::Partition {
        table: TableId(table),
        change,
        versions: None,
    };
    story.apply(Edit::Transaction {
        ddl: vec![
            Ddl::Create { table: partitioned },
            partition(PartitionChange::Add(high)),
            partition(PartitionChange::Drop(low)),
        ],
        batch: None,
        own_scu: false,
        clock_micros: story.now_micros,
    });
}

/// And secondary views.
fn golden_views(story: &mut Story) {
    let (id, view) = (story.manifest.next_table, story.manifest.next_view);
    let table = &story.manifest.tables.values().next().unwrap().table;
    let mut of = crate::manifest::testing::table("by_value", id, view);
    of.columns = table.columns.clone();
    of.primary.key = of.columns.iter().rev().map(|column| column.id).collect();
    of.view_of = Some(table.id);
    let transaction = |ddl, story: &Story| Edit::Transaction {
        ddl: vec![ddl],
        batch: None,
        own_scu: false,
        clock_micros: story.now_micros,
    };
    let create = transaction(Ddl::CreateView { view: of.clone() }, story);
    story.apply(create);
    let view = of.primary.id;
    let (from, to) = (ScuNumber::ZERO, story.manifest.sorted_through);
    story.apply(Edit::Advanced {
        view,
        from,
        to,
        runs: vec![Run {
            id: RunId(story.manifest.next_run),
            view,
            kind: RunKind::Sorted,
            span: Span::new(from.next(), to),
            changes_through: to,
            segments: vec![crate::manifest::testing::segment("view", 0, 50, to.0)],
            part: 0,
        }],
        whole: true,
    });
    story.apply(Edit::ResetView { view });
    let drop = transaction(Ddl::DropView { view: of.id }, story);
    story.apply(drop);
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the golden files are written when asked for"
)]
fn golden_files_read_and_are_written_the_same() {
    const CHECKPOINTS: [u64; 16] = [
        10, 24, 28, 31, 33, 34, 37, 40, 44, 45, 47, 49, 50, 51, 52, 57,
    ];
    let folder = format!("{GOLDEN}/format-{}", file::FORMAT);
    let story = golden_story_9();
    let mut files = Vec::new();
    let mut manifest = None;
    for (number, edit) in (1..).zip(&story.edits) {
        let bytes = file::encode_edit(number, number * 0x1111, edit).unwrap();
        files.push((FileKind::Edit.file_name(number), bytes));
        let next = match manifest {
            None => Manifest::first(edit),
            Some(before) => Manifest::into_next(before, edit),
        };
        let next = next.unwrap();
        if CHECKPOINTS.contains(&number) {
            let bytes = file::encode_checkpoint(0xc0ffee, &next).unwrap();
            files.push((FileKind::Checkpoint.file_name(number), bytes));
        }
        manifest = Some(next);
    }
    let path = |name: &str| format!("{folder}/{}", &name["manifest/".len()..]);
    if std::env::var_os("LAZYBASE_BLESS").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        files
            .iter()
            .for_each(|(name, bytes)| std::fs::write(path(name), bytes).unwrap());
    }
    let kinds: std::collections::BTreeSet<_> = story.edits.iter().map(Edit::name).collect();
    assert_eq!(kinds.len(), 19, "{kinds:?}");
    let world = Env::test(1);
    for (name, expected) in &files {
        let golden = std::fs::read(path(name)).unwrap();
        assert!(
            golden == *expected,
            "{name} is written otherwise than in its golden file"
        );
        block_on(world.env.store.put_if_absent(name, golden.into())).unwrap();
    }
    assert_eq!(look(&world.store).unwrap(), story.manifest);
    assert_eq!(
        block_on(verify_files(&*world.env.store, 0)).unwrap().len(),
        0
    );
}
