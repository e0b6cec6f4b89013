//! Names that a store must refuse, and names that it must not.

use super::{check, check_log};

#[test]
fn accepts_what_the_engine_uses() {
    for name in [
        "a",
        "segments/00ff.ext",
        "manifest/00000000000000000001.edit",
        "a/b/c.tar.gz",
    ] {
        assert_eq!(check(name), Ok(()), "{name}");
    }
    assert_eq!(check_log("log/0000000000000001.log"), Ok(()));
}

#[test]
fn refuses_what_leaves_the_folder_or_clashes() {
    let bad = [
        "", "/a", "a/", "a//b", "../a", "a/..", "./a", "a\\b", "a\0", "LOCK", "OWNER",
    ];
    for name in bad.into_iter().chain(["x.tmp-1-1"]) {
        assert!(check(name).is_err(), "{name}");
    }
    assert!(check_log("log/1").is_err());
}
