//! Kinds and masks that are no batch of changes.

use arrow::array::{BinaryArray, UInt8Array};
use lazybase_model::change::StoredKind;

use super::check_kinds;
use crate::change_batch::Kinds;

fn masks(given: &[bool]) -> BinaryArray {
    let mask: &[u8] = &[1];
    given.iter().map(|given| given.then_some(mask)).collect()
}

fn each(kinds: &[StoredKind]) -> Kinds {
    Kinds::Each(UInt8Array::from_iter_values(
        kinds.iter().map(|kind| kind.bits()),
    ))
}

#[test]
fn whole_changes_pass() {
    use StoredKind as K;
    let good: [(Kinds, Option<BinaryArray>); 5] = [
        (Kinds::Uniform(K::UPSERT), None),
        (Kinds::Uniform(K::DELETE), Some(masks(&[false, false]))),
        (Kinds::Uniform(K::UPDATE), Some(masks(&[true, true]))),
        (each(&[K::UPSERT, K::DELETE]), None),
        (
            each(&[K::SPLIT, K::UPDATE, K::BOTH]),
            Some(masks(&[false, true, true])),
        ),
    ];
    for (kinds, masks) in good {
        assert!(check_kinds(&kinds, masks.as_ref()).is_ok(), "{kinds:?}");
    }
}

#[test]
fn others_do_not() {
    use StoredKind as K;
    let bad: [(Kinds, Option<BinaryArray>); 8] = [
        (Kinds::Uniform(K::SPLIT), None),
        (Kinds::Uniform(K::UPDATE), None),
        (Kinds::Uniform(K::UPDATE), Some(masks(&[true, false]))),
        (Kinds::Uniform(K::UPSERT), Some(masks(&[true, false]))),
        (each(&[K::UPSERT]), Some(masks(&[true]))),
        (each(&[K::SPLIT, K::UPSERT]), None),
        (each(&[K::UPSERT, K::SPLIT]), None),
        (Kinds::Each(UInt8Array::from(vec![9])), None),
    ];
    for (kinds, masks) in bad {
        assert!(check_kinds(&kinds, masks.as_ref()).is_err(), "{kinds:?}");
    }
}
