//! Tests of `words`.

use super::*;

#[test]
fn words_are_found_behind_comments() {
    assert_eq!(kind("  -- x\n /* y */ begin"), Kind::Begin);
    assert_eq!(kind("(select 1)"), Kind::Read);
    assert_eq!(kind("copy t from stdin"), Kind::Copy);
    assert_eq!(kind("insert into t values (1)"), Kind::Other);
    assert_eq!(kind("with a as (select 1) select * from a"), Kind::Read);
    let writes = "with a as (select 1) insert into t select * from a";
    assert_eq!(kind(writes), Kind::Other);
    assert_eq!(kind(""), Kind::Other);
    assert_eq!(kind("/* never closed"), Kind::Other);
    assert_eq!(kind("/* a /* nested */ one */ SELECT 1"), Kind::Read);
    assert_eq!(kind("/* a /* nested one */ SELECT 1"), Kind::Other);
    assert_eq!(kind("with x as (select 1) select * from x"), Kind::Read);
    assert_eq!(
        kind("with x as (select 1) insert into t table x"),
        Kind::Other
    );
    assert_eq!(kind("ROLLBACK WORK"), Kind::End);
    assert_eq!(kind("rollback to s"), Kind::Savepoint);
    assert_eq!(kind("ROLLBACK WORK TO s"), Kind::Savepoint);
    assert_eq!(kind("ROLLBACK"), Kind::End);
    assert_eq!(kind("DISCARD ALL"), Kind::Discard);
    assert_eq!(
        first("DEALLOCATE \"My Statement\"", 2),
        ["DEALLOCATE", "My Statement"]
    );
    assert_eq!(first("UNLISTEN *", 3), ["UNLISTEN", "*"]);
}
