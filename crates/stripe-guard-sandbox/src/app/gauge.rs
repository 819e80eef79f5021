//! How many there are at once, and how many there were at most.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use tokio::sync::Notify;

#[derive(Debug)]
pub(super) struct Gauge {
    now: AtomicUsize,
    most: AtomicUsize,
    changed: Arc<Notify>,
}

/// Counts as one until it is dropped.
#[derive(Debug)]
pub(super) struct Held(Arc<Gauge>);

impl Gauge {
    /// A gauge that tells those who wait at `changed` when it falls.
    pub(super) fn new(changed: &Arc<Notify>) -> Arc<Self> {
        Arc::new(Self { now: AtomicUsize::new(0), most: AtomicUsize::new(0), changed: Arc::clone(changed) })
    }

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
        self.0.changed.notify_waiters();
    }
}
