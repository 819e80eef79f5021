//! What the reads give: rows as people look at them.

use std::time::Duration;

use stripe_guard_core::{DeliveryId, Digest, Form, Intake, Origin, Outcome, State, Timestamp};

/// A stored event without its body.
#[derive(Clone, Debug)]
pub struct EventRecord {
    /// Its arrival number.
    pub seq: i64,
    /// The source it came through.
    pub source: String,
    /// What makes it the same again.
    pub key: String,
    /// Stripe's id; none when unreadable.
    pub event_id: Option<String>,
    /// Its type; none when unreadable.
    pub event_type: Option<String>,
    /// The shape of its body; none when unreadable.
    pub form: Option<Form>,
    /// How it came.
    pub origin: Origin,
    /// What became of it at the door.
    pub intake: Intake,
    /// When Stripe made it.
    pub created: Option<Timestamp>,
    /// Live or test.
    pub livemode: Option<bool>,
    /// The connected account.
    pub account: Option<String>,
    /// The account path of Stripe's `Stripe-Context`.
    pub context: Option<String>,
    /// The customer it is about.
    pub customer: Option<String>,
    /// The object it is about.
    pub object_id: Option<String>,
    /// The API version of its body.
    pub api_version: Option<String>,
    /// When it arrived.
    pub received_at: Timestamp,
    /// The digest of its body.
    pub digest: Digest,
    /// The secret that matched.
    pub secret_label: Option<String>,
    /// Copies received later.
    pub copies: i64,
    /// Copies whose bytes were others.
    pub differing_copies: i64,
}

/// A delivery as it stands.
#[derive(Clone, Debug)]
pub struct DeliveryRecord {
    /// Its number.
    pub id: DeliveryId,
    /// The event's arrival number.
    pub event_seq: i64,
    /// The event's key.
    pub key: String,
    /// The event's type.
    pub event_type: Option<String>,
    /// Where it goes.
    pub destination: String,
    /// Where it stands.
    pub state: State,
    /// The last claim's number.
    pub fence: i64,
    /// Counted failures in this round.
    pub attempts: u32,
    /// Leases lost in a row.
    pub lost: u32,
    /// The round.
    pub round: u32,
    /// When the round began.
    pub round_started_at: Timestamp,
    /// What the last attempt came to, in words.
    pub last_error: Option<String>,
}

/// One attempt.
#[derive(Clone, Debug)]
pub struct AttemptRecord {
    /// The claim it was made under.
    pub fence: i64,
    /// The round.
    pub round: u32,
    /// Counted failures before it, plus one.
    pub number: u32,
    /// When it began.
    pub started_at: Timestamp,
    /// How long it took; none when it was lost.
    pub duration: Option<Duration>,
    /// What came of it.
    pub outcome: Outcome,
    /// The app's status.
    pub status: Option<u16>,
    /// Why it failed, in words.
    pub error: Option<String>,
    /// The beginning of the app's answer.
    pub excerpt: Option<String>,
}

/// A later arrival of the same key.
#[derive(Clone, Debug)]
pub struct CopyRecord {
    /// When it arrived.
    pub received_at: Timestamp,
    /// The secret that matched.
    pub secret_label: Option<String>,
    /// The digest of its body.
    pub digest: Digest,
}

/// What was turned away at the door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalRecord {
    /// The source it was posted to; empty for an unknown path.
    pub source: String,
    /// The reason's class.
    pub reason: String,
    /// How often.
    pub count: i64,
    /// When last.
    pub last_at: Timestamp,
    /// How far our clock is from the last signed time that was refused for it: ours minus theirs.
    pub skew_seconds: Option<i64>,
}

/// Counts and ages of one destination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DestinationStats {
    /// Its name.
    pub destination: String,
    /// Deliveries waiting for a first attempt.
    pub received: i64,
    /// Deliveries held by a worker.
    pub processing: i64,
    /// Deliveries waiting for another attempt.
    pub retryable: i64,
    /// Deliveries given up by policy.
    pub dead_letter: i64,
    /// When the round of the oldest open delivery began.
    pub oldest_open: Option<Timestamp>,
    /// When the next open delivery is due.
    pub next_due: Option<Timestamp>,
}

/// Counts and ages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The highest arrival number: about as many events as were ever stored.
    pub last_seq: i64,
    /// When the last event arrived.
    pub last_received_at: Option<Timestamp>,
    /// By destination, in the order of names; those of the store, configured or not.
    pub destinations: Vec<DestinationStats>,
}
