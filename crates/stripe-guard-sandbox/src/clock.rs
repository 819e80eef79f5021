//! The one place of this crate that reads a clock or waits.
//!
//! The sandbox talks to real sockets, so its time is real time; what can be decided without a
//! clock (bodies, plans, schedules) takes the time as an argument.

use std::time::SystemTime;

use stripe_guard_core::Timestamp;
use tokio::time::{Instant, Sleep};

/// Now, as signatures and records say it.
#[expect(clippy::disallowed_methods, reason = "the clock of the sandbox")]
pub(crate) fn now() -> Timestamp {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(0).plus(since_1970)
}

/// Now, for measuring how long something takes.
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// Waits until `at`.
pub(crate) fn sleep_until(at: Instant) -> Sleep {
    tokio::time::sleep_until(at)
}
