//! The feed gives what its kinds promise.

use std::collections::HashSet;
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use lazybase_engine::change_batch::ChangeBatch;

use super::{FIRST_NEW_ID, Feed, FeedKind};
use crate::data::{Pool, Shape};

fn ids(batch: &ChangeBatch) -> Vec<i64> {
    batch
        .data
        .column(0)
        .as_primitive::<Int64Type>()
        .values()
        .to_vec()
}

#[test]
fn changes_are_of_rows_of_the_last_minute_each_once() {
    let pool = Pool::new(Shape::Narrow, 1, 2, 100);
    let mut feed = Feed::new(FeedKind::Rising, 1_000);
    assert_eq!(feed.next(&pool, Duration::ZERO).len(), 1);
    for second in 1..100 {
        let parts = feed.next(&pool, Duration::from_secs(second));
        assert_eq!(ids(&parts[0])[0], FIRST_NEW_ID + 95 * second as i64);
        let changed = ids(&parts[1]);
        let oldest = FIRST_NEW_ID + 95 * second.saturating_sub(60) as i64;
        assert!(
            changed
                .iter()
                .all(|id| (oldest..ids(&parts[0])[0]).contains(id))
        );
        assert_eq!(changed.iter().collect::<HashSet<_>>().len(), 5);
        assert!(!parts[1].all_upserts());
    }
}

#[test]
fn uniform_upserts_are_of_keys_that_are_there() {
    let pool = Pool::new(Shape::Narrow, 1, 2, 100);
    let mut feed = Feed::new(FeedKind::Uniform, 1_000);
    let parts = feed.next(&pool, Duration::ZERO);
    let ids = ids(&parts[0]);
    assert!(parts[0].all_upserts());
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 100);
    assert!(ids.iter().all(|id| (0..1_000).contains(id)));
}
