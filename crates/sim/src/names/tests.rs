//! One number a key and one key a number; nothing temporary.

use super::Names;

#[test]
fn a_key_has_one_number_and_a_number_one_key() {
    let mut names = Names::default();
    names.learn(0, 7, 16, true).unwrap();
    names.learn(0, 7, 16, false).unwrap();
    names.learn(1, 8, 16, false).unwrap();
    assert_eq!(names.code(0, 16), Ok(Some(7)));
    assert_eq!(names.id(1, 8), Some(16));
    assert!(names.was_early(0, 16) && !names.was_early(1, 16));
    assert_eq!(names.code(0, 17), Ok(None));
    assert!(names.learn(0, 7, 32, false).is_err());
    assert!(names.learn(0, 9, 16, false).is_err());
}

#[test]
fn what_stands_for_a_number_is_none() {
    let mut names = Names::default();
    for id in [0, -1, -3, i64::MAX] {
        assert!(names.learn(0, 7, id, false).is_err(), "{id}");
        assert!(names.code(0, id).is_err(), "{id}");
    }
}
