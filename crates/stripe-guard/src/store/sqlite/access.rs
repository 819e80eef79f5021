//! One connection that writes, some that read.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use sqlx::pool::PoolConnection;
use sqlx::{SqlSafeStr as _, Sqlite, SqliteConnection, SqlitePool, Transaction};
use tokio::sync::{Mutex, OwnedMutexGuard};

use stripe_guard_core::Timestamp;

use super::checkpoint::Checkpointer;
use super::dialect::SqliteDialect;
use crate::store::sql::{Access, Dialect as _, Purpose};
use crate::store::{Result, StoreError};

/// Takes the write lock at once: a transaction that has read cannot be upgraded later.
pub(super) const BEGIN: &str = "BEGIN IMMEDIATE";

/// The connections of one file.
pub(super) struct SqliteAccess {
    write: SqlitePool,
    read: SqlitePool,
    checkpoint: Mutex<Checkpointer>,
    /// Whose turn it is to write, and whether what the last commit left is unknown.
    turn: Arc<Mutex<Doubt>>,
}

/// Whether a commit or flush failed, so that nobody knows what the disk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    No,
    Yes,
}

/// A connection at work.
pub(super) enum Held {
    Reading(PoolConnection<Sqlite>),
    Writing(Transaction<'static, Sqlite>, OwnedMutexGuard<Doubt>),
}

impl Deref for Held {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        match self {
            Self::Reading(connection) => connection,
            Self::Writing(tx, _) => tx,
        }
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        match self {
            Self::Reading(connection) => connection,
            Self::Writing(tx, _) => tx,
        }
    }
}

impl SqliteAccess {
    pub(super) fn new(write: SqlitePool, read: SqlitePool, checkpoint: Checkpointer) -> Self {
        Self { write, read, checkpoint: Mutex::new(checkpoint), turn: Arc::new(Mutex::new(Doubt::No)) }
    }
}

impl Access for SqliteAccess {
    type Dialect = SqliteDialect;
    type Connection = SqliteConnection;
    type Held = Held;

    /// Begins a transaction that writes, unless what the last one left is unknown.
    ///
    /// After a failed flush the kernel may hold the lost pages for clean, and the next commit would
    /// succeed on top of them: it must not be tried. One writes at a time, as SQLite has it anyway;
    /// waiting here is fair, waiting for its lock is not.
    async fn begin(&self, purpose: Purpose) -> Result<Held> {
        if purpose == Purpose::Read {
            return Ok(Held::Reading(self.read.acquire().await.map_err(SqliteDialect::classify)?));
        }
        let turn = Arc::clone(&self.turn).lock_owned().await;
        if *turn == Doubt::Yes {
            return Err(StoreError::Fatal(sqlx::Error::PoolClosed));
        }
        let tx = self.write.begin_with(BEGIN.into_sql_str()).await.map_err(SqliteDialect::classify)?;
        Ok(Held::Writing(tx, turn))
    }

    /// Commits. Until the database has said that it is done, all is in doubt.
    async fn end(&self, held: Held) -> Result<()> {
        let Held::Writing(tx, mut turn) = held else { return Ok(()) };
        *turn = Doubt::Yes;
        let answer = tx.commit().await.map_err(SqliteDialect::classify);
        if !matches!(answer, Err(StoreError::Fatal(_))) {
            *turn = Doubt::No;
        }
        answer
    }

    /// The driver rolls back what is dropped.
    async fn undo(&self, held: Held, _: &StoreError) {
        drop(held);
    }

    /// After a failure that leaves open what the disk holds, nothing more is written.
    async fn note(&self, error: &StoreError) {
        if matches!(error, StoreError::Fatal(_)) {
            *self.turn.lock().await = Doubt::Yes;
        }
    }

    async fn checkpoint(&self) -> Result<()> {
        self.checkpoint.lock().await.run_once().await
    }

    async fn drop_old(&self, _: Timestamp) -> Result<u64> {
        Ok(0)
    }

    async fn close(&self) {
        self.read.close().await;
        self.write.close().await;
    }
}
