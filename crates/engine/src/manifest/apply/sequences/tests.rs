//! Sequences, edit by edit.

use lazybase_model::access::{AccessChange, Object, Privilege, Role, RoleId};
use lazybase_model::sequence::SequenceOwner;
use lazybase_model::{ColumnDefault, ErrorKind, ScuNumber};

use super::*;
use crate::manifest::check::check_commit;
use crate::manifest::testing::{Story, table};
use crate::manifest::{Ddl, Edit};
use crate::schema::Alteration;

fn transaction(ddl: Vec<Ddl>) -> Edit {
    Edit::Transaction {
        ddl,
        batch: None,
        own_scu: false,
        clock_micros: 0,
    }
}

fn create(sequence: &Sequence) -> Ddl {
    Ddl::CreateSequence {
        sequence: sequence.clone(),
        counter: sequence.begin(),
    }
}

/// A story with a table of two columns, whose second is numbered by a sequence of its own.
fn numbered() -> (Story, Sequence) {
    let mut story = Story::new();
    let mut table = table("t", 1, 1);
    let sequence = Sequence {
        owner: Some(SequenceOwner {
            table: table.id,
            column: table.columns[1].id,
        }),
        ..Sequence::new(SequenceId(2), "t_value_seq")
    };
    table.columns[1].default = ColumnDefault::Next(sequence.id);
    story.apply(transaction(vec![Ddl::Create { table }, create(&sequence)]));
    (story, sequence)
}

fn reserve(sequence: &Sequence, through: i64) -> Edit {
    Edit::ReserveNumbers {
        sequence: sequence.id,
        through,
    }
}

#[test]
fn what_is_reserved_is_never_reserved_again() {
    let (mut story, sequence) = numbered();
    story.apply(reserve(&sequence, 32));
    let before = story.manifest.sequences[&sequence.id].clone();
    let again = story.try_apply(reserve(&sequence, 31)).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Conflict);
    story.apply(reserve(&sequence, 96));
    let after = story.manifest.sequences[&sequence.id].clone();
    assert_eq!((after.counter.last, after.set_in), (96, before.set_in));
    assert_eq!(story.manifest.next_table, 3);
}

#[test]
fn a_sequence_that_is_set_has_another_number() {
    let (mut story, sequence) = numbered();
    story.apply(reserve(&sequence, 32));
    let counter = Counter {
        last: 5,
        called: false,
    };
    let sequence_id = sequence.id;
    let set = Edit::SetSequence {
        sequence: sequence_id,
        counter,
    };
    let number = story.apply(set).number;
    let state = story.manifest.sequences[&sequence_id].clone();
    assert_eq!((state.counter, state.set_in), (counter, number));
    let wrong = Edit::SetSequence {
        sequence: sequence_id,
        counter: Counter {
            last: 0,
            called: true,
        },
    };
    assert_eq!(story.try_apply(wrong).unwrap_err().sqlstate(), "22003");
}

#[test]
fn a_sequence_goes_with_its_table_or_its_column() {
    let (mut story, sequence) = numbered();
    let table = story.manifest.table_named("t").unwrap().table.clone();
    let drop = Alteration::DropColumn("value".to_owned());
    let edit = story.alter_edit(&table, &[drop]);
    story.apply(edit);
    assert!(story.manifest.sequences.is_empty());
    let (mut story, sequence_again) = numbered();
    assert_eq!(sequence, sequence_again);
    story.apply(transaction(vec![Ddl::Drop { table: table.id }]));
    assert!(story.manifest.sequences.is_empty());
}

#[test]
fn what_was_granted_on_a_sequence_goes_with_it() {
    let (mut story, sequence) = numbered();
    let object = sequence.id.as_object();
    let role = Role::new(RoleId(1), "anna");
    let made = AccessChange::CreateRole { role };
    let granted = AccessChange::Grant {
        on: Object::Table(object),
        to: RoleId(1),
        privileges: [Privilege::USAGE].into(),
    };
    let access = [made, granted].map(|change| Ddl::Access { change });
    story.apply(transaction(access.into()));
    assert!(story.manifest.access.objects.contains_key(&object));
    let table = sequence.owner.unwrap().table;
    story.apply(transaction(vec![Ddl::Drop { table }]));
    assert!(!story.manifest.access.objects.contains_key(&object));
}

#[test]
fn names_and_ids_are_of_one_thing() {
    let (mut story, sequence) = numbered();
    let named = |id, name: &str| Sequence::new(SequenceId(id), name);
    for taken in ["t", "t_value_seq"] {
        let edit = transaction(vec![create(&named(9, taken))]);
        assert_eq!(story.try_apply(edit).unwrap_err().sqlstate(), "42P07");
    }
    for used in [1, 2] {
        let edit = transaction(vec![create(&named(used, "s"))]);
        assert_eq!(
            story.try_apply(edit).unwrap_err().kind(),
            ErrorKind::Conflict
        );
    }
    let table = table(&sequence.name, 9, 9);
    let edit = transaction(vec![Ddl::Create { table }]);
    assert_eq!(story.try_apply(edit).unwrap_err().sqlstate(), "42P07");
}

#[test]
fn a_column_takes_numbers_of_a_sequence_that_is_there() {
    let (story, sequence) = numbered();
    let edit = transaction(vec![Ddl::DropSequence {
        sequence: sequence.id,
    }]);
    let next = story.manifest.apply(&edit).unwrap();
    let broken = check_commit(&story.manifest, &next).unwrap_err();
    assert!(broken.message().contains("MAN-19"), "{broken}");
}

#[test]
fn a_cut_has_the_sequences_of_what_was_there() {
    let (mut story, _) = numbered();
    let sort = |story: &mut Story| {
        story.seal();
        story.sort(&[], 1);
    };
    (0..2).for_each(|_| sort(&mut story));
    let mut later = table("later", 3, 3);
    let of_later = Sequence {
        owner: Some(SequenceOwner {
            table: later.id,
            column: later.columns[1].id,
        }),
        ..Sequence::new(SequenceId(4), "later_value_seq")
    };
    later.columns[1].default = ColumnDefault::Next(of_later.id);
    let free = Sequence::new(SequenceId(5), "free");
    let made = Ddl::Create { table: later };
    story.apply(transaction(vec![made, create(&of_later), create(&free)]));
    sort(&mut story);
    let cut = |story: &Story| {
        let cut = story.manifest.cut_at(ScuNumber(1)).unwrap();
        let names = cut.sequences.values();
        let names: Vec<String> = names.map(|state| state.sequence.name.clone()).collect();
        let table = cut.table_named("t").unwrap().table.clone();
        (names, table.columns[1].default.clone())
    };
    let (names, default) = cut(&story);
    assert_eq!(names, ["t_value_seq", "free"]);
    assert_eq!(default, ColumnDefault::Next(SequenceId(2)));
    // The column is there again then, but not what numbered it.
    let table = story.manifest.table_named("t").unwrap().table.clone();
    let edit = story.alter_edit(&table, &[Alteration::DropColumn("value".to_owned())]);
    story.apply(edit);
    sort(&mut story);
    let (names, default) = cut(&story);
    assert_eq!(names, ["free"]);
    assert_eq!(default, ColumnDefault::Null);
}
