//! Time as clients on a network see it: how long they are waited for is no part of what is
//! simulated.

use std::future::Future;
use std::time::{Duration, Instant};

/// Now.
#[expect(clippy::disallowed_methods, reason = "see the module's header")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// What a future gives, unless it takes longer.
#[expect(clippy::disallowed_methods, reason = "see the module's header")]
pub(crate) async fn within<T>(time: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(time, work).await.ok()
}

/// Waits.
#[expect(clippy::disallowed_methods, reason = "see the module's header")]
pub(crate) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}
