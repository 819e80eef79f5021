//! The inbox at rest: what can be asked of it, whichever database keeps it.

mod claim;
mod error;
mod page;
#[cfg(feature = "postgres")]
mod postgres;
mod record;
mod sql;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stripe_guard_core::{DeliveryId, Inbound, Intake, Timestamp};

pub use claim::{Claim, ClaimRequest, Settled, Settlement, Watermark};
pub use error::StoreError;
pub use page::{DeliveryFilter, EventFilter, PAGE_MAX};
#[cfg(feature = "postgres")]
pub use postgres::{NotAPostgresUrl, Pooler, PostgresInbox, PostgresUrl, open_postgres};
pub use record::{AttemptRecord, CopyRecord, DeliveryRecord, DestinationStats, EventRecord, RefusalRecord, Stats};
#[cfg(all(feature = "sqlite", feature = "testing"))]
pub use sqlite::open_sqlite_unflushed;
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteFile, open_sqlite};

/// What every verb answers.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// An open inbox, and what makes it ours.
pub struct Opened {
    /// The store.
    pub store: Arc<dyn Store>,
    /// A lock on the file, where the inbox is one; held for as long as this is.
    _lock: Option<std::fs::File>,
}

impl Opened {
    fn new(store: Arc<dyn Store>) -> Self {
        Self { store, _lock: None }
    }

    #[cfg(feature = "sqlite")]
    fn locked(self, lock: Option<std::fs::File>) -> Self {
        Self { _lock: lock, ..self }
    }
}

/// An event at the door, with what is to become of it.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// The event, with its proof.
    pub inbound: Inbound,
    /// What becomes of it.
    pub intake: Intake,
    /// The destinations it goes to; empty unless accepted.
    pub destinations: Arc<[String]>,
}

/// The answer to an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ingested {
    /// It is stored now.
    New {
        /// Its arrival number.
        seq: i64,
    },
    /// It was here already; the copy is recorded.
    Duplicate {
        /// The arrival number of the first.
        seq: i64,
    },
}

/// Who does something by hand, and why; every such verb leaves a row in the audit log.
#[derive(Clone, Debug)]
pub struct Operator {
    /// Who, such as `cli:alice`.
    pub actor: String,
    /// Why, in the operator's words; may be empty.
    pub reason: String,
}

/// What came of an operator's verb on one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operated {
    /// Done as asked.
    Done,
    /// A replay was asked for and the delivery is still open.
    AlreadyOpen,
    /// The delivery's state does not allow it.
    NotAllowed,
    /// There is no such delivery.
    NotFound,
    /// A replay was asked for and the body has been pruned.
    BodyGone,
}

/// What one step of pruning did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pruned {
    /// Bodies removed.
    pub removed: u64,
    /// Where the next step begins; `None` when nothing older than the cutoff is left.
    pub next: Option<i64>,
}

/// What a process has of a destination's concurrency.
#[derive(Clone, Debug)]
pub struct Share {
    /// Whose.
    pub destination: String,
    /// Requests at once that are configured for the installation.
    pub concurrency: u32,
    /// How many slots this process has now, free and in use.
    pub present: u32,
}

/// A process that has not been seen for this long has no part in a destination's concurrency.
pub const PROCESS_GONE_AFTER: Duration = Duration::from_secs(30);

/// How many rows one step of pruning looks at: a short transaction beside the traffic.
pub const PRUNE_BATCH_MAX: u32 = 500;

/// How many copies of one event are recorded in full; later ones are counted.
pub const COPIES_RECORDED_MAX: i64 = 20;

/// The verbs. Each call is atomic; times are arguments; none looks at a clock.
///
/// Work runs on tasks of its own: a caller that goes away cancels nothing half-way.
#[async_trait]
pub trait Store: Views {
    /// Takes events in. Answers in the order of the arrivals, after the commit.
    async fn ingest(&self, arrivals: Arc<Vec<Arrival>>) -> Result<Vec<Ingested>>;

    /// Takes up to `limit` deliveries that are due and leases them to the caller.
    ///
    /// No two callers hold a valid claim on one delivery. When a lease runs out the delivery is due
    /// again, and settling the old claim answers [`Settled::Fenced`].
    async fn claim(&self, request: ClaimRequest) -> Result<Vec<Claim>>;

    /// Whether a delivery is due that lost leases and must go alone.
    async fn has_suspects(&self, destination: &str, now: Timestamp) -> Result<bool>;

    /// Records outcomes and moves their deliveries on. Judged by fence and state, not by time.
    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settled>>;

    /// Hands claims back unused: nothing is counted, and they are due at `now`.
    async fn release(&self, claims: Vec<Claim>, now: Timestamp) -> Result<Vec<Settled>>;

    /// Opens a new round of ended deliveries.
    async fn replay(&self, ids: Vec<DeliveryId>, operator: Operator, now: Timestamp) -> Result<Vec<Operated>>;

    /// Brings open deliveries forward to now.
    async fn retry_now(&self, ids: Vec<DeliveryId>, operator: Operator, now: Timestamp) -> Result<Vec<Operated>>;

    /// Gives deliveries up.
    async fn discard(&self, ids: Vec<DeliveryId>, operator: Operator, now: Timestamp) -> Result<Vec<Operated>>;

    /// Lets an event go that was kept back at the door, and answers how many deliveries that made:
    /// none of an unreadable or pruned body, and none where there is one already.
    async fn deliver(&self, seq: i64, destinations: Vec<String>, operator: Operator, now: Timestamp) -> Result<u64>;

    /// The inbox's own id, drawn when it was made.
    async fn instance_id(&self) -> Result<String>;

    /// Says that this process lives, which also proves that an insert is possible.
    async fn beat(&self, owner: &str, now: Timestamp) -> Result<()>;

    /// Deals this process its part of each destination's concurrency, which holds for all
    /// processes together; in the order of `shares`.
    async fn share(&self, owner: &str, shares: Vec<Share>, now: Timestamp) -> Result<Vec<u32>>;

    /// The database's time, where processes on several machines share it.
    async fn time(&self) -> Result<Option<Timestamp>>;

    /// Adds to the counts of what was turned away at the door.
    async fn count_refusals(&self, refusals: Vec<RefusalRecord>) -> Result<()>;

    /// One bounded step of removing bodies of events that arrived before `cutoff`, from arrival
    /// number `from` on. Identities stay; bodies of open and dead-lettered deliveries stay.
    async fn prune(&self, cutoff: Timestamp, from: i64) -> Result<Pruned>;

    /// Moves the write-ahead log into the file, where the database has one to move.
    async fn checkpoint(&self) -> Result<()>;

    /// Ends all connections.
    async fn close(&self);
}

/// The reads. None takes part in a transition.
#[async_trait]
pub trait Views: Send + Sync {
    /// The event of this arrival number.
    async fn event(&self, seq: i64) -> Result<Option<EventRecord>>;

    /// The events with this id or key, oldest first: one for each source it came through, and all
    /// of them for the one id that Stripe gives to every test event.
    async fn events_by_key(&self, key: &str) -> Result<Vec<EventRecord>>;

    /// Events, newest first.
    async fn events(&self, filter: &EventFilter) -> Result<Vec<EventRecord>>;

    /// Deliveries, newest first.
    async fn deliveries(&self, filter: &DeliveryFilter) -> Result<Vec<DeliveryRecord>>;

    /// The deliveries of an event key.
    async fn deliveries_of(&self, key: &str) -> Result<Vec<DeliveryRecord>>;

    /// One delivery.
    async fn delivery(&self, id: DeliveryId) -> Result<Option<DeliveryRecord>>;

    /// Attempts of a delivery, oldest first.
    async fn attempts(&self, id: DeliveryId) -> Result<Vec<AttemptRecord>>;

    /// Recorded copies of an event, oldest first.
    async fn copies(&self, seq: i64) -> Result<Vec<CopyRecord>>;

    /// The bytes of an event; `None` once pruned.
    async fn body(&self, seq: i64) -> Result<Option<Vec<u8>>>;

    /// What was turned away at the door, by source and reason.
    async fn refusals(&self) -> Result<Vec<RefusalRecord>>;

    /// Counts and ages. Cheap: only open and dead-lettered deliveries are looked at.
    async fn stats(&self) -> Result<Stats>;
}

/// How long a verb may wait for the database's write lock.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
