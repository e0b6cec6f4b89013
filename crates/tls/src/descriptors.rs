//! How many connections may be open: of all protocols together, for they take the same open files.
//!
//! A connection has its descriptor from the moment at which it is accepted until it is closed.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Open files that are left for connections. Clones share them.
#[derive(Debug, Clone)]
pub struct Descriptors(Arc<Semaphore>);

/// One of them; it is given back when this is dropped.
#[derive(Debug)]
pub struct Descriptor {
    _taken: OwnedSemaphorePermit,
}

impl Descriptors {
    /// So many.
    pub fn new(count: usize) -> Descriptors {
        let count = count.min(Semaphore::MAX_PERMITS);
        Descriptors(Arc::new(Semaphore::new(count)))
    }

    /// One for a connection that was accepted; `None` where all are taken, and it is to be closed.
    pub fn take(&self) -> Option<Descriptor> {
        let taken = Arc::clone(&self.0).try_acquire_owned().ok()?;
        Some(Descriptor { _taken: taken })
    }
}

/// As many as anybody asks for.
impl Default for Descriptors {
    fn default() -> Descriptors {
        Descriptors::new(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::Descriptors;

    #[test]
    fn what_is_taken_is_given_back() {
        let descriptors = Descriptors::new(2);
        let shared = descriptors.clone();
        let (one, two) = (descriptors.take(), shared.take());
        assert!(one.is_some() && two.is_some());
        assert!(descriptors.take().is_none());
        drop(two);
        assert!(shared.take().is_some());
        assert!(Descriptors::default().take().is_some());
    }
}
