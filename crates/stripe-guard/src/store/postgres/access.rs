//! The connections: few, kept, and given up together when the server is no longer the one.
//!
//! sqlx's own pool knows one host, waits its whole time-out when there is none, and tests before
//! each use; an inbox wants several hosts, an answer at once, and one word about a failover.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use stripe_guard_core::Timestamp;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::dialect::{PostgresDialect, is_missing_partition};
use super::partitions::Partitions;
use super::replica;
use super::session::{Pooler, Session, Unfit, ends_connection};
use crate::store::sql::{Access, Dialect as _, Purpose};
use crate::store::{Result, StoreError};

/// While no host can be had, one attempt in this time; whoever comes in between is told at once.
const ATTEMPT_EVERY: Duration = Duration::from_millis(250);

/// How long a verb waits for a connection that others use.
const TURN_LIMIT: Duration = Duration::from_secs(10);

/// Connections that only read, beside those that write.
pub(super) const READERS: u32 = 4;

/// The hosts, in the order given, and the one that served last.
pub(super) struct Hosts {
    options: Vec<PgConnectOptions>,
    last: AtomicUsize,
    pooler: Pooler,
}

impl Hosts {
    pub(super) fn new(options: Vec<PgConnectOptions>, pooler: Pooler) -> Self {
        Self { options, last: AtomicUsize::new(0), pooler }
    }

    /// A connection to the first host that takes writes, beginning with the last that did.
    pub(super) async fn connect(&self, generation: u64) -> std::result::Result<Session, Unfit> {
        let first = self.last.load(Ordering::Relaxed);
        let mut reason = Unfit::ReadOnly;
        for step in 0..self.options.len() {
            let place = (first + step) % self.options.len();
            match Session::open(&self.options[place], self.pooler, generation).await {
                Ok(session) => {
                    self.last.store(place, Ordering::Relaxed);
                    return Ok(session);
                }
                // What is wrong with a server that answers says more than that another is away.
                Err(unfit) if step == 0 || !matches!(unfit, Unfit::Away(_)) => reason = unfit,
                Err(_) => {}
            }
        }
        Err(reason)
    }
}

/// What is known of the server while it cannot be had.
#[derive(Default)]
struct Away {
    since_attempt: Option<Instant>,
}

/// The connections of one inbox.
pub(in crate::store) struct PostgresAccess {
    hosts: Hosts,
    partitions: Partitions,
    require_replica: bool,
    writers: Arc<Semaphore>,
    readers: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Session>>>,
    generation: AtomicU64,
    away: Mutex<Away>,
}

impl PostgresAccess {
    pub(super) fn new(hosts: Hosts, partitions: Partitions, require_replica: bool, writers: u32) -> Self {
        Self {
            hosts,
            partitions,
            require_replica,
            writers: Arc::new(Semaphore::new(writers as usize)),
            readers: Arc::new(Semaphore::new(READERS as usize)),
            idle: Arc::default(),
            generation: AtomicU64::new(0),
            away: Mutex::default(),
        }
    }

    fn idle(&self) -> Option<Session> {
        let generation = self.generation.load(Ordering::Acquire);
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|session| session.generation == generation);
        idle.pop()
    }

    /// A connection to a server that takes writes.
    async fn connect(&self) -> Result<Session> {
        {
            let mut away = self.away.lock().unwrap_or_else(PoisonError::into_inner);
            if away.since_attempt.is_some_and(|at| at.elapsed() < ATTEMPT_EVERY) {
                return Err(unavailable("no host of the database takes writes at present"));
            }
            // While it is away, one tries, and the others are told at once.
            away.since_attempt = away.since_attempt.map(|_| Instant::now());
        }
        let answer = self.hosts.connect(self.generation.load(Ordering::Acquire)).await;
        let mut away = self.away.lock().unwrap_or_else(PoisonError::into_inner);
        away.since_attempt = answer.is_err().then(Instant::now);
        answer.map_err(|unfit| match unfit {
            Unfit::Away(error) => StoreError::Unavailable(error),
            Unfit::ReadOnly => unavailable("no host of the database takes writes: each is read-only or a standby"),
            Unfit::Refused(why) => unavailable(&why),
        })
    }

    /// Gives up every connection: they led to a server that is no longer the one.
    fn give_up(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// A connection with an open transaction, an idle one if there is one that still works.
    async fn begun(&self, begin: bool) -> Result<Session> {
        while let Some(mut session) = self.idle() {
            if !begin {
                return Ok(session);
            }
            match session.begin().await {
                Ok(()) => return Ok(session),
                Err(error) if ends_connection(&error) => self.give_up(),
                Err(error) => return Err(PostgresDialect::classify(error)),
            }
        }
        let mut session = self.connect().await?;
        if begin {
            session.begin().await.map_err(PostgresDialect::classify)?;
        }
        Ok(session)
    }

    /// A connection that works outside a transaction of ours, and was seen alive.
    async fn outside(&self) -> Result<Held> {
        let mut held = self.begin(Purpose::Write).await?;
        match held.session.command("ROLLBACK").await {
            Ok(()) => Ok(Held { begun: false, ..held }),
            Err(error) => {
                let error = PostgresDialect::classify(error);
                self.undo(held, &error).await;
                Err(error)
            }
        }
    }

    fn keep(&self, session: Session) {
        if session.is_usable() && session.generation == self.generation.load(Ordering::Acquire) {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(session);
        }
    }
}

/// A connection at work. Dropped, it is closed, and the server undoes what was open.
pub(in crate::store) struct Held {
    session: Session,
    purpose: Purpose,
    begun: bool,
    _turn: OwnedSemaphorePermit,
}

impl Deref for Held {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut Session {
        &mut self.session
    }
}

impl Access for PostgresAccess {
    type Dialect = PostgresDialect;
    type Connection = Session;
    type Held = Held;

    async fn begin(&self, purpose: Purpose) -> Result<Held> {
        let gate = if purpose == Purpose::Read { &self.readers } else { &self.writers };
        let turn = tokio::time::timeout(TURN_LIMIT, Arc::clone(gate).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(unavailable("every connection to the database is busy")) };
        // Behind a pooler, reads too: the parts of one statement must reach one server's session.
        let begun = purpose != Purpose::Read || self.hosts.pooler == Pooler::Transaction;
        let session = self.begun(begun).await?;
        Ok(Held { session, purpose, begun, _turn: turn })
    }

    async fn end(&self, mut held: Held) -> Result<()> {
        if held.begun {
            let answer = held.session.command("COMMIT").await;
            if let Err(error) = answer {
                let lost = ends_connection(&error);
                let error = PostgresDialect::classify(error);
                if lost {
                    self.give_up();
                }
                return Err(error);
            }
        }
        if held.purpose == Purpose::Ingest && self.require_replica {
            replica::prove(&mut held.session).await?;
        }
        let Held { session, .. } = held;
        self.keep(session);
        Ok(())
    }

    async fn undo(&self, mut held: Held, error: &StoreError) {
        let cause = match error {
            StoreError::Unavailable(cause) | StoreError::Data(cause) | StoreError::Fatal(cause) => Some(cause),
            _ => None,
        };
        if cause.is_some_and(ends_connection) || !held.session.is_usable() {
            self.give_up();
            return;
        }
        if held.begun && held.session.command("ROLLBACK").await.is_err() {
            return;
        }
        if cause.is_some_and(is_missing_partition) {
            // The one way to mend it is what the next try needs; its error is that try's.
            drop(self.partitions.ensure(&mut held.session).await);
        }
        let Held { session, .. } = held;
        self.keep(session);
    }

    async fn note(&self, _: &StoreError) {}

    /// There is no log of ours to move; the partitions ahead are what ingest must never wait for.
    async fn checkpoint(&self) -> Result<()> {
        let mut held = self.outside().await?;
        let answer = self.partitions.ensure(&mut held.session).await.map_err(PostgresDialect::classify);
        match &answer {
            Ok(()) => self.end(held).await?,
            Err(error) => self.undo(held, error).await,
        }
        answer
    }

    async fn drop_old(&self, cutoff: Timestamp) -> Result<u64> {
        let (mut held, mut beside) = (self.outside().await?, self.outside().await?);
        let answer = self.partitions.drop_old(&mut held.session, &mut beside.session, cutoff).await;
        let answer = answer.map_err(PostgresDialect::classify);
        for one in [held, beside] {
            match &answer {
                Ok(_) => self.end(one).await?,
                Err(error) => self.undo(one, error).await,
            }
        }
        answer
    }

    async fn close(&self) {
        self.writers.close();
        self.readers.close();
        self.give_up();
        let idle = std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        for session in idle {
            session.close().await;
        }
    }
}

/// An error of ours in the driver's clothes: the database cannot do it now.
pub(super) fn unavailable(why: &str) -> StoreError {
    StoreError::Unavailable(sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::NotConnected, why.to_owned())))
}
