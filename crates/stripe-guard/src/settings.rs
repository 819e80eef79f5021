//! What the engine is told, already parsed: the types a configuration turns into.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use stripe_guard_core::{Mode, RetryPolicy, SigningSecret, Tolerance, TypeFilter};
use url::Url;

use crate::store::{Pooler, PostgresUrl};

/// Where the inbox is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Database {
    /// One file, with its write-ahead log beside it.
    Sqlite {
        /// Relative paths are relative to the working folder.
        path: PathBuf,
        /// What every table's name begins with.
        table_prefix: String,
    },
    /// Tables in a schema of a PostgreSQL database, shared by any number of processes.
    Postgres {
        /// The address.
        url: PostgresUrl,
        /// The schema that holds the tables: `[a-z_][a-z0-9_]{0,39}`.
        schema: String,
        /// What stands between us and the server.
        pooler: Pooler,
        /// Acknowledge only what a synchronous standby has flushed too.
        require_replica: bool,
        /// Connections that write; a few more read.
        connections: u32,
    },
}

/// The default of [`Database::Postgres`]'s `schema`.
pub const SCHEMA: &str = "stripe_guard";

/// The default of [`Database::Postgres`]'s `connections`.
pub const CONNECTIONS: u32 = 8;

/// The default of [`Database::Sqlite`]'s `table_prefix`.
pub const TABLE_PREFIX: &str = "stripe_guard_";

/// A webhook address registered at Stripe.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name, a key in the store: `[a-z0-9][a-z0-9_-]{0,62}`.
    pub name: String,
    /// The path it listens on, with a slash in front and none at the end.
    pub path: String,
    /// The secrets that may have signed. Never empty.
    pub secrets: Vec<SigningSecret>,
    /// Which of Stripe's modes it takes.
    pub mode: Mode,
    /// The accounts it takes, `self` for the own one; empty takes all.
    pub accounts: Vec<String>,
    /// The API version its events should be written in; another is shown as a note.
    pub api_version: Option<String>,
    /// How far the signed time may be from ours.
    pub tolerance: Tolerance,
}

/// Where events go.
#[derive(Clone, Debug)]
pub struct Destination {
    /// Its name, a key in the store.
    pub name: String,
    /// The app's webhook address.
    pub url: Url,
    /// The sources that feed it; empty means all.
    pub sources: Vec<String>,
    /// The types it takes. Never empty.
    pub types: Vec<TypeFilter>,
    /// What its requests are signed with; empty means the secrets of the event's source.
    pub secrets: Vec<SigningSecret>,
    /// Requests in flight at once.
    pub concurrency: u32,
    /// From sending a request to the end of its answer.
    pub timeout: Duration,
    /// From sending a request to the head of its answer; not longer than `timeout`.
    pub first_byte_timeout: Duration,
    /// From the start of connecting to an open connection, TLS included.
    pub connect_timeout: Duration,
    /// Answers that end a delivery for good.
    pub final_statuses: Vec<u16>,
    /// When to try again, and when to give up.
    pub retry: RetryPolicy,
}

impl Destination {
    /// Whether an event of this type through this source goes here.
    pub fn takes(&self, source: &str, event_type: &str) -> bool {
        self.takes_source(source) && self.types.iter().any(|filter| filter.matches(event_type))
    }

    /// Whether this source feeds it.
    pub fn takes_source(&self, source: &str) -> bool {
        self.sources.is_empty() || self.sources.iter().any(|one| one == source)
    }
}

/// Bounds of the running engine. Each is what it says in DESIGN's table of numbers by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest request body, in bytes.
    pub body_bytes: usize,
    /// Events that may wait for the writer.
    pub queue_events: usize,
    /// Bytes of bodies that may wait for the writer.
    pub queue_bytes: usize,
    /// From a connection's first byte, or the end of the last answer, to the end of the headers.
    pub header_timeout: Duration,
    /// From the end of the headers to the end of the body.
    pub body_timeout: Duration,
    /// Open connections at once.
    pub connections: usize,
    /// How long a claim lasts.
    pub lease: Duration,
    /// How often a worker looks without being woken.
    pub poll: Duration,
    /// How long a stop waits for what is in flight.
    pub grace: Duration,
    /// How much of an answer is kept, in bytes.
    pub excerpt_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 2 * 1024 * 1024,
            queue_events: 4096,
            queue_bytes: 64 * 1024 * 1024,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(20),
            connections: 10_000,
            lease: Duration::from_secs(45),
            poll: Duration::from_secs(1),
            grace: Duration::from_secs(25),
            excerpt_bytes: 2048,
        }
    }
}

/// The least time that a lease must outlast the longest time-out by: a claim is not sent when
/// less than the time-out is left of its lease.
pub const LEASE_MARGIN: Duration = Duration::from_secs(5);

/// How long bodies are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// From the arrival of the event. Bodies of open and dead-lettered deliveries are kept anyway.
    pub bodies: Duration,
}

/// Bodies are never pruned sooner: Stripe's Events API looks back 30 days, and a resend must find
/// what it repeats.
pub const RETENTION_MIN: Duration = Duration::from_hours(840);

impl Default for Retention {
    /// 90 days.
    fn default() -> Self {
        Self { bodies: Duration::from_hours(2160) }
    }
}

/// Everything the engine is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the inbox is kept.
    pub database: Database,
    /// Where Stripe's requests are taken.
    pub listen: SocketAddr,
    /// Where health, metrics and administration are answered.
    pub admin_listen: SocketAddr,
    /// Host names that the admin listener answers to, beside loopback's.
    pub admin_hosts: Vec<String>,
    /// The sources, at least one.
    pub sources: Vec<Source>,
    /// The destinations, at least one.
    pub destinations: Vec<Destination>,
    /// Bounds.
    pub limits: Limits,
    /// How long bodies are kept.
    pub retention: Retention,
}
