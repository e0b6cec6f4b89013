//! What every store must do, whatever it keeps its bytes in.

use bytes::Bytes;

use super::{Store, StoreError, StoreResult};

/// Checks an empty store.
pub(super) async fn check(store: &dyn Store) {
    small_files(store).await;
    written_files(store).await;
    reads(store).await;
    lists(store).await;
    logs(store).await;
    recycled_logs(store).await;
    names(store).await;
    renames(store).await;
}

async fn renames(store: &dyn Store) {
    let large = Bytes::from(vec![9; 5 << 20]);
    store
        .put_if_absent("renamed/a", large.clone())
        .await
        .unwrap();
    store
        .put_if_absent("renamed/b", bytes("two"))
        .await
        .unwrap();
    store.rename("renamed/a", "renamed/to/c").await.unwrap();
    assert!(is_missing(store.len("renamed/a").await));
    assert_eq!(whole(store, "renamed/to/c").await.unwrap(), large);
    assert!(is_missing(store.rename("renamed/a", "renamed/d").await));
    assert!(is_found(store.rename("renamed/b", "renamed/to/c").await));
    assert_eq!(whole(store, "renamed/b").await.unwrap(), "two");
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

async fn whole(store: &dyn Store, name: &str) -> StoreResult<Bytes> {
    let length = store.len(name).await?;
    store.read(name, 0..length).await
}

fn is_found<T>(result: StoreResult<T>) -> bool {
    matches!(result, Err(StoreError::AlreadyExists(_)))
}

fn is_missing<T>(result: StoreResult<T>) -> bool {
    matches!(result, Err(StoreError::NotFound(_)))
}

fn is_refused<T>(result: StoreResult<T>) -> bool {
    matches!(result, Err(StoreError::DefinitelyNot { full: false, .. }))
}

async fn small_files(store: &dyn Store) {
    store.put_if_absent("small/a", bytes("one")).await.unwrap();
    assert!(is_found(store.put_if_absent("small/a", bytes("two")).await));
    assert_eq!(whole(store, "small/a").await.unwrap(), "one");

    store.delete("small/a").await.unwrap();
    store.delete("small/a").await.unwrap();
    assert!(is_missing(whole(store, "small/a").await));
    assert!(is_missing(store.read("small/a", 0..1).await));

    store
        .put_if_absent("small/a", bytes("three"))
        .await
        .unwrap();
    assert_eq!(whole(store, "small/a").await.unwrap(), "three");
    store
        .put_if_absent("small/empty", Bytes::new())
        .await
        .unwrap();
    assert_eq!(whole(store, "small/empty").await.unwrap(), "");
}

async fn written_files(store: &dyn Store) {
    let mut writer = store.create("written/a/b").await.unwrap();
    writer.write(bytes("hello ")).await.unwrap();
    let large = Bytes::from(vec![7; 3 << 20]);
    writer.write(large.clone()).await.unwrap();
    writer.write(bytes("world")).await.unwrap();
    assert!(is_missing(store.len("written/a/b").await));
    assert!(store.list("written/").await.unwrap().is_empty());
    writer.finish().await.unwrap();
    let length = 11 + large.len() as u64;
    assert_eq!(store.len("written/a/b").await.unwrap(), length);
    assert_eq!(
        store.read("written/a/b", 0..8).await.unwrap(),
        "hello \x07\x07"
    );
    assert_eq!(
        store.read("written/a/b", 6..length - 5).await.unwrap(),
        large
    );
    assert_eq!(
        store.read("written/a/b", length - 5..length).await.unwrap(),
        "world"
    );

    // A writer that is dropped leaves nothing; of two of one name the first to finish wins.
    let dropped = store.create("written/c").await.unwrap();
    drop(dropped);
    assert!(is_missing(store.len("written/c").await));
    let first = store.create("written/c").await.unwrap();
    let mut second = store.create("written/c").await.unwrap();
    second.write(bytes("second")).await.unwrap();
    second.finish().await.unwrap();
    assert!(is_found(first.finish().await));
    assert_eq!(whole(store, "written/c").await.unwrap(), "second");
}

async fn reads(store: &dyn Store) {
    store
        .put_if_absent("reads", bytes("0123456789"))
        .await
        .unwrap();
    assert_eq!(store.read("reads", 3..5).await.unwrap(), "34");
    assert_eq!(store.read("reads", 10..10).await.unwrap(), "");
    #[expect(clippy::reversed_empty_ranges, reason = "damaged offsets may give one")]
    let bad = [5..11, 10..11, 11..11, 20..30, 0..u64::MAX, 6..5];
    for range in bad {
        let read = store.read("reads", range.clone()).await;
        assert!(
            matches!(read, Err(StoreError::TooShort { .. })),
            "{range:?}: {read:?}"
        );
    }
}

async fn lists(store: &dyn Store) {
    for name in ["lists/b/2", "lists/a", "lists/b/10", "lists-not", "lists/c"] {
        store.put_if_absent(name, bytes("xyz")).await.unwrap();
    }
    let unfinished = store.create("lists/d").await.unwrap();
    let names = |files: Vec<(String, u64)>| -> Vec<String> {
        files.into_iter().map(|(name, _)| name).collect()
    };
    let all = store.list("lists/").await.unwrap();
    assert_eq!(all[0], ("lists/a".to_owned(), 3));
    assert_eq!(
        names(all),
        ["lists/a", "lists/b/10", "lists/b/2", "lists/c"]
    );
    let some = store.list("lists/b/1").await.unwrap();
    assert_eq!(names(some), ["lists/b/10"]);
    assert!(store.list("nowhere/").await.unwrap().is_empty());
    let everything = names(store.list("").await.unwrap());
    assert!(everything.contains(&"lists-not".to_owned()));
    assert!(
        !everything
            .iter()
            .any(|name| name == "LOCK" || name == "OWNER")
    );
    drop(unfinished);
}

async fn logs(store: &dyn Store) {
    let mut log = store.create_log("log/1.log", 3000, None).await.unwrap();
    assert_eq!(store.len("log/1.log").await.unwrap(), 3000);
    assert_eq!(whole(store, "log/1.log").await.unwrap(), vec![0; 3000]);
    log.write_at(10, b"abc").await.unwrap();
    assert_eq!(store.read("log/1.log", 9..14).await.unwrap(), "\0abc\0");
    log.sync().await.unwrap();
    log.write_at(11, b"B").await.unwrap();
    log.write_at(2997, b"end").await.unwrap();
    assert_eq!(store.read("log/1.log", 9..14).await.unwrap(), "\0aBc\0");
    assert_eq!(store.read("log/1.log", 2997..3000).await.unwrap(), "end");
    assert!(is_refused(log.write_at(2998, b"end").await));
    assert!(is_refused(log.write_at(u64::MAX, b"end").await));
    assert!(is_found(store.create_log("log/1.log", 10, None).await));
    assert!(is_refused(store.create_log("log/1", 10, None).await));
}

/// Takes the log that [`logs`] left.
async fn recycled_logs(store: &dyn Store) {
    assert!(is_missing(
        store.create_log("log/9.log", 10, Some("log/8.log")).await
    ));
    store
        .put_if_absent("log/2.log", bytes("taken"))
        .await
        .unwrap();
    assert!(is_found(
        store.create_log("log/2.log", 3000, Some("log/1.log")).await
    ));

    let mut log = store
        .create_log("log/3.log", 3000, Some("log/1.log"))
        .await
        .unwrap();
    assert!(is_missing(store.read("log/1.log", 0..1).await));
    assert_eq!(store.read("log/3.log", 9..14).await.unwrap(), "\0aBc\0");
    log.write_at(10, b"xyz").await.unwrap();
    log.sync().await.unwrap();
    assert_eq!(store.read("log/3.log", 9..14).await.unwrap(), "\0xyz\0");

    let mut longer = store
        .create_log("other/4.log", 5000, Some("log/3.log"))
        .await
        .unwrap();
    assert_eq!(store.len("other/4.log").await.unwrap(), 5000);
    assert_eq!(
        store.read("other/4.log", 2997..3001).await.unwrap(),
        "end\0"
    );
    longer.write_at(4999, b"!").await.unwrap();
    let shorter = store
        .create_log("log/5.log", 100, Some("other/4.log"))
        .await
        .unwrap();
    assert_eq!(store.len("log/5.log").await.unwrap(), 100);
    assert_eq!(store.read("log/5.log", 9..14).await.unwrap(), "\0xyz\0");
    assert!(is_refused(shorter.cut(101).await));
    let log = store.create_log("log/6.log", 100, Some("log/5.log")).await;
    log.unwrap().cut(13).await.unwrap();
    assert_eq!(store.len("log/6.log").await.unwrap(), 13);
    assert_eq!(store.read("log/6.log", 9..13).await.unwrap(), "\0xyz");
    assert!(store.read("log/6.log", 9..14).await.is_err());
    store.delete("log/6.log").await.unwrap();
    assert!(is_missing(store.read("log/6.log", 0..1).await));
    assert!(is_missing(store.read("log/5.log", 0..1).await));
}

async fn names(store: &dyn Store) {
    for name in ["", "/etc/x", "../x", "a/../x", "a//x", "LOCK", "x.tmp-1"] {
        assert!(
            is_refused(store.put_if_absent(name, bytes("x")).await),
            "{name}"
        );
        assert!(is_refused(store.create(name).await), "{name}");
        assert!(is_refused(store.delete(name).await), "{name}");
        assert!(store.read(name, 0..1).await.is_err(), "{name}");
    }
    assert!(is_refused(store.create_log("../x.log", 1, None).await));
    assert!(store.list("../").await.unwrap().is_empty());
}
