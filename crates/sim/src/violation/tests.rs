//! Two failures are of one kind if what is wrong is the same, whatever it is wrong with.

use super::{caught, kind_of};

fn check(violation: &str, kind: &str) {
    assert_eq!(kind_of(violation), kind, "{violation}");
}

#[test]
fn a_kind_has_no_numbers_and_no_names() {
    check(
        "batch 12 was acknowledged at horizon 3+4",
        "batch was acknowledged at horizon",
    );
    check(
        "a scan of table \"t1\" at 5+2 shows 7 rows, not 8: without [(1, Some(2))], with []",
        "a scan of table at shows rows not",
    );
    check(
        "writer-1: number 5 is said to stand at Some((3, 1)), not at None",
        "number is said to stand at not at None",
    );
    check(
        "[\"log/0000000000000003.log\"] are damaged, and not replaced by a verification",
        "are damaged and not replaced by a verification",
    );
    check(
        "the database's clock says 1577836800000017, and it is 1577836800000018",
        "the database's clock says and it is",
    );
}

#[test]
fn the_kind_of_an_error_is_one_of_the_violation() {
    let failed = |error: lazybase_model::Error| format!("a look at the ledger failed: {error:?}");
    let corrupt = |text: &str| failed(lazybase_model::Error::corrupt(text));
    check(&corrupt("one"), "a look at the ledger failed Corrupt");
    assert_eq!(kind_of(&corrupt("one")), kind_of(&corrupt("two, kind: 3")));
    let other = failed(lazybase_model::Error::internal("one"));
    assert_ne!(kind_of(&corrupt("one")), kind_of(&other));
}

#[test]
fn a_panic_is_of_the_kind_of_its_place() {
    check(
        "a panic at crates/engine/src/read/scan.rs:12:5: index 3: out of 2",
        "a panic at crates/engine/src/read/scan.rs:12:5",
    );
}

#[test]
fn a_panic_is_told_with_its_message() {
    assert_eq!(caught(true, || {}), Ok(()));
    let told = caught(true, || panic!("one of {}", 3)).unwrap_err();
    assert!(told.starts_with("a panic"), "{told}");
    assert!(told.ends_with(": one of 3"), "{told}");
}
