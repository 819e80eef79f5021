//! A worker's hold on deliveries, and how it ends.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use stripe_guard_core::{DeliveryId, Digest, Next, Outcome, Progress, State, Timestamp};

use super::EventRecord;

/// What a claim asks for.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// Whose deliveries.
    pub destination: String,
    /// This process, by an id that is fresh at each start.
    pub owner: String,
    /// The time.
    pub now: Timestamp,
    /// How long the hold lasts.
    pub lease: Duration,
    /// At most this many.
    pub limit: u32,
    /// Where to begin looking.
    pub from: Watermark,
    /// Whose turn the odd one is when both retries and fresh ones wait.
    pub odd_to_retries: bool,
    /// Take one delivery that lost leases, and nothing else; otherwise none of those.
    pub suspects: bool,
}

/// The due time up to which a claimer has seen all there was, for each kind of work.
///
/// Rows that were claimed leave their index, but an old snapshot in the user's database keeps
/// their entries: a claimer that starts at the front reads them all again each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermark {
    /// For deliveries not tried yet.
    pub received: Timestamp,
    /// For retries.
    pub retryable: Timestamp,
    /// For leases that are over.
    pub processing: Timestamp,
}

impl Watermark {
    /// From the beginning.
    pub const START: Self = Self {
        received: Timestamp::from_millis(i64::MIN),
        retryable: Timestamp::from_millis(i64::MIN),
        processing: Timestamp::from_millis(i64::MIN),
    };
}

/// A claim on one delivery. Only a store makes one.
#[derive(Clone)]
pub struct Claim {
    pub(super) fence: i64,
    pub(super) progress: Progress,
    pub(super) was: State,
    pub(super) lease_until: Timestamp,
    pub(super) claimed_at: Timestamp,
    pub(super) destination: String,
    pub(super) event_seq: i64,
    pub(super) event: Option<EventRecord>,
    pub(super) body: Option<Bytes>,
}

impl fmt::Debug for Claim {
    /// Without the body, which no log may hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim")
            .field("id", &self.progress.id)
            .field("fence", &self.fence)
            .field("destination", &self.destination)
            .field("event_seq", &self.event_seq)
            .finish_non_exhaustive()
    }
}

impl Claim {
    /// Which delivery.
    pub fn id(&self) -> DeliveryId {
        self.progress.id
    }

    /// The number of this hold.
    pub fn fence(&self) -> i64 {
        self.fence
    }

    /// How far the delivery has come.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The state it was claimed from.
    pub fn was(&self) -> State {
        self.was
    }

    /// When the hold ends by itself.
    pub fn lease_until(&self) -> Timestamp {
        self.lease_until
    }

    /// When the hold began.
    pub fn claimed_at(&self) -> Timestamp {
        self.claimed_at
    }

    /// Where it goes.
    pub fn destination(&self) -> &str {
        &self.destination
    }

    /// The event's arrival number.
    pub fn event_seq(&self) -> i64 {
        self.event_seq
    }

    /// The event; none if its row is missing or corrupt.
    pub fn event(&self) -> Option<&EventRecord> {
        self.event.as_ref()
    }

    /// The bytes as received, once they are found to be those: `None` if they are missing or
    /// their digest is another.
    pub fn intact_body(&self) -> Option<&Bytes> {
        let event = self.event.as_ref()?;
        self.body.as_ref().filter(|body| Digest::of(body) == event.digest)
    }
}

/// The end of a claim.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// Which delivery.
    pub id: DeliveryId,
    /// The hold it was done under.
    pub fence: i64,
    /// What the transition function made of it.
    pub next: Next,
    /// The round.
    pub round: u32,
    /// Counted failures before it, plus one.
    pub number: u32,
    /// When the request was begun.
    pub started_at: Timestamp,
    /// How long it took.
    pub duration: Duration,
    /// What came of it.
    pub outcome: Outcome,
    /// The app's status.
    pub status: Option<u16>,
    /// Why it failed, in words.
    pub error: Option<String>,
    /// The beginning of the app's answer.
    pub excerpt: Option<String>,
}

/// The answer to a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It is recorded, and the delivery has moved on.
    Done,
    /// Another claim or verdict came first. Ordinary after a slow delivery; recorded as `late`.
    Fenced,
}
