//! How many there are at once, and how many there were at most.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

#[derive(Debug, Default)]
pub(super) struct Gauge {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// Counts as one until it is dropped.
#[derive(Debug)]
pub(super) struct Held(Arc<Gauge>);

impl Gauge {
    pub(super) fn hold(self: &Arc<Self>) -> Held {
        let now = self.now.fetch_add(1, SeqCst) + 1;
        self.most.fetch_max(now, SeqCst);
        Held(Arc::clone(self))
    }

    pub(super) fn now(&self) -> usize {
        self.now.load(SeqCst)
    }

    pub(super) fn most(&self) -> usize {
        self.most.load(SeqCst)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, SeqCst);
    }
}
