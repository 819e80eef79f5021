//! The time of day for commands that run once. The engine has its own clock.

use stripe_guard_core::Timestamp;

/// Now, by this machine.
#[expect(clippy::disallowed_methods, reason = "the one place where a command reads the clock")]
pub(crate) fn now() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
}
