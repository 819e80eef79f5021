//! What a list shows: filters and keyset pages.

use stripe_guard_core::Intake;

/// The most rows of one page.
pub const PAGE_MAX: u32 = 1000;

/// Which events a list shows, newest first.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Only this source.
    pub source: Option<String>,
    /// Only this type.
    pub event_type: Option<String>,
    /// Only this intake.
    pub intake: Option<Intake>,
    /// Only this connected account.
    pub account: Option<String>,
    /// Only events that arrived before this number: the last one of the page before.
    pub before: Option<i64>,
    /// At most this many, up to [`PAGE_MAX`].
    pub limit: u32,
}

/// Which deliveries a list shows, newest first.
#[derive(Clone, Debug, Default)]
pub struct DeliveryFilter {
    /// Only this state, by its word.
    pub state: Option<String>,
    /// Only this destination.
    pub destination: Option<String>,
    /// Only this dead-letter class.
    pub class: Option<String>,
    /// Only deliveries before this number: the last one of the page before.
    pub before: Option<i64>,
    /// At most this many, up to [`PAGE_MAX`].
    pub limit: u32,
}
