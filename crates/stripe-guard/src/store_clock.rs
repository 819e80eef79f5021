//! The time that several processes on one database agree on.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use stripe_guard_core::Timestamp;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::store::{Store, StoreError};

/// An answer that took longer says too little about the time.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(1);

/// The database's time, sampled now and then and advanced by the monotonic clock between; the
/// machine's where the database has none of its own.
///
/// Leases and due times are compared between processes, and a machine whose clock is off by more
/// than a lease would take what others hold.
pub struct StoreClock {
    machine: Arc<dyn Clock>,
    sample: Mutex<Option<(Timestamp, Instant)>>,
    /// The latest time told: a sample that corrects us backwards must not be seen as going back.
    told: AtomicI64,
}

impl StoreClock {
    /// A clock that has no sample yet.
    pub fn new(machine: Arc<dyn Clock>) -> Self {
        Self { machine, sample: Mutex::default(), told: AtomicI64::new(i64::MIN) }
    }

    /// Asks the database, and answers how far the machine's clock is ahead of it, in seconds;
    /// `None` where it has no time of its own, or answered too slowly to tell.
    pub async fn sample(&self, store: &dyn Store) -> Result<Option<f64>, StoreError> {
        let began = Instant::now();
        let Some(told) = store.time().await? else { return Ok(None) };
        let took = began.elapsed();
        let known = self.sample.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if known && took > ROUND_TRIP_MAX {
            return Ok(None);
        }
        // Read half-way between question and answer, as near as can be known.
        let now = told.plus(took / 2);
        *self.sample.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, Instant::now()));
        #[expect(clippy::cast_precision_loss, reason = "a difference in milliseconds is small")]
        let ahead = (self.machine.now().as_millis() - now.as_millis()) as f64 / 1000.0;
        Ok(Some(ahead))
    }
}

#[async_trait]
impl Clock for StoreClock {
    fn now(&self) -> Timestamp {
        let sample = *self.sample.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((at, since)) = sample else { return self.machine.now() };
        let now = at.plus(since.elapsed()).as_millis();
        Timestamp::from_millis(self.told.fetch_max(now, Ordering::Relaxed).max(now))
    }

    async fn sleep_until(&self, due: Timestamp) {
        loop {
            let left = due.since(self.now());
            if left.is_zero() {
                return;
            }
            self.machine.sleep(left.min(ROUND_TRIP_MAX)).await;
        }
    }

    async fn sleep(&self, wait: Duration) {
        self.machine.sleep(wait).await;
    }
}
