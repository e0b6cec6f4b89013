//! Who may do what, as texts: changes line by line, then what is asked and answered.

use super::{Access, AccessChange, Object, Privilege, Role, RoleAttribute, RoleId};
use crate::sequence::SequenceOwner;
use crate::{ColumnId, Sequence, SequenceId, TableId};

const ANNA: RoleId = RoleId(1);
const STAFF: RoleId = RoleId(2);
const ROOT: RoleId = RoleId(3);
const T: TableId = TableId(7);
const A: ColumnId = ColumnId(1);
const B: ColumnId = ColumnId(2);

fn access() -> Access {
    let mut access = Access::default();
    for (id, name) in [(ANNA, "anna"), (STAFF, "staff"), (ROOT, "root")] {
        let role = Role::new(id, name);
        access.change(&AccessChange::CreateRole { role }).unwrap();
    }
    let attribute = RoleAttribute::Superuser(true);
    let role = ROOT;
    let change = AccessChange::AlterRole { role, attribute };
    access.change(&change).unwrap();
    access
}

fn grant(access: &mut Access, on: Object, to: RoleId, privileges: &[Privilege]) {
    let privileges = privileges.iter().copied().collect();
    let change = AccessChange::Grant { on, to, privileges };
    access.change(&change).unwrap();
}

fn revoke(access: &mut Access, on: Object, from: RoleId, privileges: &[Privilege]) {
    let privileges = privileges.iter().copied().collect();
    let change = AccessChange::Revoke {
        on,
        from,
        privileges,
    };
    access.change(&change).unwrap();
}

fn join(access: &mut Access, member: RoleId, role: RoleId) -> crate::Result<()> {
    let admin = false;
    access.change(&AccessChange::Join {
        member,
        role,
        admin,
    })
}

fn may(access: &Access, role: RoleId, privilege: Privilege, on: Object) -> bool {
    access.may(&access.rights_of(Some(role)), privilege, on)
}

fn is_sound(access: &Access) -> bool {
    access.violation(|_, _| true).is_none()
}

#[test]
fn nobody_may_what_was_not_granted_but_superusers_and_the_folders_owner() {
    let access = access();
    for privilege in Privilege::OF_TABLES {
        for on in [Object::Table(T), Object::Column(T, A)] {
            assert!(!may(&access, ANNA, privilege, on));
            assert!(may(&access, ROOT, privilege, on));
            assert!(access.may(&access.rights_of(None), privilege, on));
        }
    }
    assert!(may(&access, ANNA, Privilege::Connect, Object::Database));
    assert!(!may(&access, ANNA, Privilege::Create, Object::Database));
}

#[test]
fn what_is_granted_to_a_group_or_to_everybody_counts_for_its_members() {
    let mut access = access();
    grant(&mut access, Object::Table(T), STAFF, &[Privilege::Select]);
    assert!(!may(&access, ANNA, Privilege::Select, Object::Table(T)));
    join(&mut access, ANNA, STAFF).unwrap();
    assert!(may(&access, ANNA, Privilege::Select, Object::Table(T)));
    let attribute = RoleAttribute::Inherit(false);
    let role = ANNA;
    let change = AccessChange::AlterRole { role, attribute };
    access.change(&change).unwrap();
    assert!(!may(&access, ANNA, Privilege::Select, Object::Table(T)));
    assert!(access.may_become(Some(ANNA), STAFF));
    let public = RoleId::PUBLIC;
    grant(&mut access, Object::Table(T), public, &[Privilege::Delete]);
    assert!(may(&access, ANNA, Privilege::Delete, Object::Table(T)));
    assert!(is_sound(&access));
}

#[test]
fn memberships_have_no_circle() {
    let mut access = access();
    join(&mut access, ANNA, STAFF).unwrap();
    join(&mut access, STAFF, ROOT).unwrap();
    for (member, role) in [(ROOT, ANNA), (STAFF, ANNA), (ANNA, ANNA)] {
        let error = join(&mut access, member, role).unwrap_err();
        assert_eq!(error.sqlstate(), "0LP01");
    }
    assert!(
        !access.rights_of(Some(ANNA)).superuser,
        "it is not passed on"
    );
    assert!(is_sound(&access));
}

#[test]
fn columns_have_what_their_table_has_and_lose_it_with_it() {
    let mut access = access();
    let rights = |access: &Access| access.rights_of(Some(ANNA));
    let select = [Privilege::Select];
    grant(&mut access, Object::Column(T, A), ANNA, &select);
    assert!(may(&access, ANNA, Privilege::Select, Object::Column(T, A)));
    assert!(!may(&access, ANNA, Privilege::Select, Object::Column(T, B)));
    assert!(!may(&access, ANNA, Privilege::Select, Object::Table(T)));
    let columns = |columns: &[ColumnId], access: &Access| {
        access.may_columns(&rights(access), Privilege::Select, T, columns)
    };
    assert!(columns(&[A], &access) && columns(&[], &access) && !columns(&[A, B], &access));
    revoke(&mut access, Object::Table(T), ANNA, &select);
    assert!(!columns(&[A], &access) && !columns(&[], &access));
    assert!(access.objects.is_empty(), "nothing is left of it");
    grant(&mut access, Object::Column(T, A), ANNA, &select);
    access.forget_columns(T, |column| column != A);
    assert!(access.objects.is_empty());
}

#[test]
fn owners_may_everything_and_can_not_go_before_what_they_own() {
    let mut access = access();
    let own = |owner| AccessChange::Own { table: T, owner };
    access.change(&own(Some(ANNA))).unwrap();
    assert!(may(&access, ANNA, Privilege::Truncate, Object::Table(T)));
    assert!(!may(&access, STAFF, Privilege::Select, Object::Table(T)));
    let drop = AccessChange::DropRole { role: ANNA };
    assert_eq!(access.change(&drop).unwrap_err().sqlstate(), "2BP01");
    access.change(&own(None)).unwrap();
    grant(&mut access, Object::Table(T), ANNA, &[Privilege::Select]);
    access.change(&drop).unwrap();
    assert!(is_sound(&access) && access.objects.is_empty());
    let rights = access.rights_of(Some(ANNA));
    assert!(!access.may(&rights, Privilege::Connect, Object::Database));
}

#[test]
fn names_and_ids_are_given_once() {
    let mut access = access();
    let create = |id, name: &str| AccessChange::CreateRole {
        role: Role::new(RoleId(id), name),
    };
    let sqlstate = |access: &mut Access, change| access.change(&change).unwrap_err().sqlstate();
    assert_eq!(sqlstate(&mut access, create(4, "anna")), "42710");
    assert_eq!(sqlstate(&mut access, create(3, "bert")), "40001");
    assert_eq!(sqlstate(&mut access, create(9, "bert")), "40001");
    let attribute = RoleAttribute::Name("staff".to_owned());
    let role = ANNA;
    let rename = AccessChange::AlterRole { role, attribute };
    assert_eq!(sqlstate(&mut access, rename), "42710");
    access.change(&create(4, "bert")).unwrap();
    assert!(is_sound(&access));
}

#[test]
fn what_names_nothing_is_no_sound_value() {
    let mut access = access();
    grant(&mut access, Object::Table(T), ANNA, &[Privilege::Select]);
    assert!(
        access.violation(|_, _| false).is_some(),
        "a table that is gone"
    );
    let mut gone = access.clone();
    gone.roles.remove(&ANNA);
    assert!(!is_sound(&gone), "a role that is gone");
    let mut circle = access.clone();
    for (member, of) in [(ANNA, STAFF), (STAFF, ANNA)] {
        let role = circle.roles.get_mut(&member).unwrap();
        role.member_of.insert(of, false);
    }
    assert!(!is_sound(&circle));
    let mut twice = access;
    twice.roles.get_mut(&ANNA).unwrap().name = "staff".to_owned();
    assert!(!is_sound(&twice));
}

#[test]
fn a_verifier_is_never_shown() {
    let mut role = Role::new(ANNA, "anna");
    role.password = Some(super::Verifier::new("SCRAM-SHA-256$4096:c2FsdA==$a:b"));
    assert!(!format!("{role:?}").contains("SCRAM"));
}

#[test]
fn a_sequence_is_used_by_whom_it_was_granted_and_owned_with_its_table() {
    let mut access = access();
    let mut sequence = Sequence::new(SequenceId(9), "s");
    let on = Object::Table(sequence.id.as_object());
    let own = |table, owner| AccessChange::Own { table, owner };
    grant(&mut access, on, ANNA, &[Privilege::USAGE]);
    let uses = |access: &Access, role, privilege, sequence: &Sequence| {
        access.may_use(&access.rights_of(Some(role)), privilege, sequence)
    };
    assert!(uses(&access, ANNA, Privilege::USAGE, &sequence));
    assert!(!uses(&access, ANNA, Privilege::Update, &sequence));
    assert!(!uses(&access, STAFF, Privilege::USAGE, &sequence));
    assert!(uses(&access, ROOT, Privilege::Update, &sequence));
    let staff = Some(STAFF);
    access.change(&own(sequence.id.as_object(), staff)).unwrap();
    assert!(uses(&access, STAFF, Privilege::Update, &sequence));
    // Of a column it is whose the table is, whoever made it; what was granted stays.
    sequence.owner = Some(SequenceOwner {
        table: T,
        column: A,
    });
    assert!(!uses(&access, STAFF, Privilege::Update, &sequence));
    assert!(uses(&access, ANNA, Privilege::USAGE, &sequence));
    access.change(&own(T, staff)).unwrap();
    assert!(uses(&access, STAFF, Privilege::Update, &sequence));
    let passes = |access: &Access, role| {
        access.may_pass_use(&access.rights_of(Some(role)), Privilege::USAGE, &sequence)
    };
    assert!(passes(&access, STAFF) && !passes(&access, ANNA));
    let option = AccessChange::Option {
        table: sequence.id.as_object(),
        role: ANNA,
        privileges: [Privilege::USAGE].into(),
        gives: true,
    };
    access.change(&option).unwrap();
    assert!(passes(&access, ANNA) && is_sound(&access));
}

#[test]
fn what_sequences_allow_has_names_of_its_own() {
    for privilege in Privilege::OF_SEQUENCES {
        let name = privilege.name_on_sequence();
        assert_eq!(Privilege::named_on_sequence(name), Some(privilege));
    }
    assert_eq!(
        Privilege::named_on_sequence("usage"),
        Some(Privilege::USAGE)
    );
    assert_eq!(Privilege::named_on_sequence("INSERT"), None);
    assert_eq!(Privilege::named("USAGE"), None);
}
