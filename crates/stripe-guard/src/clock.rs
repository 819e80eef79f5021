//! Time, at the edges only.

use std::time::Duration;

use async_trait::async_trait;
use stripe_guard_core::Timestamp;

/// What tells the time and waits for it. All waits of all loops go through one, so that a test
/// can move time without touching the runtime's.
#[async_trait]
pub trait Clock: Send + Sync {
    /// The present time.
    fn now(&self) -> Timestamp;

    /// Returns once [`Clock::now`] has reached `due`.
    async fn sleep_until(&self, due: Timestamp);

    /// Waits this long.
    async fn sleep(&self, wait: Duration) {
        self.sleep_until(self.now().plus(wait)).await;
    }
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// A wall clock may be set while we wait, so no single wait relies on it for longer than this.
const LONGEST_NAP: Duration = Duration::from_secs(5);

#[async_trait]
impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system's clock")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that waits")]
    async fn sleep_until(&self, due: Timestamp) {
        loop {
            let left = due.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(LONGEST_NAP)).await;
        }
    }

    /// By the monotonic clock: a step of the wall clock neither cuts a short wait nor stretches it.
    #[expect(clippy::disallowed_methods, reason = "the one place that waits")]
    async fn sleep(&self, wait: Duration) {
        tokio::time::sleep(wait).await;
    }
}
