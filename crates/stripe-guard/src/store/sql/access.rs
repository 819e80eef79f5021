//! How a store reaches its database: connections and transactions.

use std::future::Future;
use std::ops::DerefMut;

use stripe_guard_core::Timestamp;

use super::dialect::{Dialect, Run};
use crate::store::{Result, StoreError};

/// What a transaction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Taking events in: its commit is what a 2xx promises, and it draws arrival numbers.
    Ingest,
    /// Anything else that writes.
    Write,
    /// Reading only.
    Read,
}

/// The connections of one database.
pub(crate) trait Access: Send + Sync + 'static {
    /// What its statements look like.
    type Dialect: Dialect;

    /// What runs them.
    type Connection: Run;

    /// A connection with an open transaction, or one that reads.
    ///
    /// Dropped without [`Access::end`], whatever it had begun is undone.
    type Held: DerefMut<Target = Self::Connection> + Send;

    /// Begins.
    fn begin(&self, purpose: Purpose) -> impl Future<Output = Result<Self::Held>> + Send;

    /// Commits, or ends reading. For [`Purpose::Ingest`] an `Ok` is a promise: what was written
    /// survives whatever the configuration says that it must.
    fn end(&self, held: Self::Held) -> impl Future<Output = Result<()>> + Send;

    /// Undoes what was begun, after this error.
    fn undo(&self, held: Self::Held, error: &StoreError) -> impl Future<Output = ()> + Send;

    /// Takes note of an error that ended a verb, wherever it came from.
    fn note(&self, error: &StoreError) -> impl Future<Output = ()> + Send;

    /// Moves a log of the database's own into its file, where it has one.
    fn checkpoint(&self) -> impl Future<Output = Result<()>> + Send;

    /// Removes bodies of events that arrived before the cutoff by the table, where the database
    /// keeps them in parts, and answers how many.
    fn drop_old(&self, cutoff: Timestamp) -> impl Future<Output = Result<u64>> + Send;

    /// Ends all connections.
    fn close(&self) -> impl Future<Output = ()> + Send;
}
