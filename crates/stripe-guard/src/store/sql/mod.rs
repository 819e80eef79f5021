//! The one implementation of the store, for every database that sqlx reaches.

mod batch;
mod chores;
mod claim;
mod dialect;
mod ingest;
mod migrate;
mod operate;
mod schema;
mod settle;
mod statements;
mod views;

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use sqlx::{Database, Pool, SqlSafeStr as _, Transaction};
use stripe_guard_core::{DeliveryId, Timestamp};
use tokio::sync::{Mutex, OwnedMutexGuard};

pub(super) use dialect::{Arg, Cells, Dialect, Run};
pub(super) use migrate::{check_schema, migrate};

use super::{
    Arrival, Claim, ClaimRequest, Ingested, Operated, Operator, Pruned, RefusalRecord, Result, Settled, Settlement,
    Store, StoreError,
};
use statements::Statements;

/// The store over a database of dialect `D`.
pub(super) struct SqlStore<D: Dialect> {
    inner: Arc<Inner<D>>,
}

struct Inner<D: Dialect> {
    write: Pool<D::Db>,
    read: Pool<D::Db>,
    statements: Statements,
    checkpoint: Option<Checkpoint>,
    /// Whose turn it is to write, and whether what the last commit left is unknown.
    turn: Arc<Mutex<Doubt>>,
}

/// Whether a commit or flush failed, so that nobody knows what the disk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    No,
    Yes,
}

/// A transaction that writes, and its turn.
struct Writing<D: Dialect> {
    tx: Transaction<'static, D::Db>,
    turn: OwnedMutexGuard<Doubt>,
}

/// How a database with a write-ahead log of its own moves it into the file.
pub(super) type Checkpoint = Arc<dyn Fn() -> futures_util::future::BoxFuture<'static, Result<()>> + Send + Sync>;

type Connected<D> = <<D as Dialect>::Db as Database>::Connection;

impl<D: Dialect> SqlStore<D> {
    /// A store over an open and migrated database. `qualifier` stands before every name.
    pub(super) fn new(write: Pool<D::Db>, read: Pool<D::Db>, qualifier: &str, checkpoint: Option<Checkpoint>) -> Self {
        let statements = Statements::new::<D>(qualifier);
        Self { inner: Arc::new(Inner { write, read, statements, checkpoint, turn: Arc::new(Mutex::new(Doubt::No)) }) }
    }

    /// Runs work on a task of its own, so that a caller that goes away cancels nothing half-way.
    async fn owned<T, F>(&self, work: impl FnOnce(Arc<Inner<D>>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let inner = Arc::clone(&self.inner);
        let work = work(Arc::clone(&self.inner));
        let work = async move {
            let answer = work.await.map_err(Fault::into_error::<D>);
            if let Err(error) = &answer {
                inner.note(error).await;
            }
            answer
        };
        match tokio::spawn(work).await {
            Ok(answer) => answer,
            Err(error) => Err(StoreError::Task(error)),
        }
    }
}

/// What goes wrong inside a verb: the database's error, classified at the border, or ours.
#[derive(Debug)]
enum Fault {
    Database(sqlx::Error),
    Ours(StoreError),
}

impl Fault {
    fn into_error<D: Dialect>(self) -> StoreError {
        match self {
            Self::Database(error) => D::classify(error),
            Self::Ours(error) => error,
        }
    }

    fn corrupt(table: &'static str, id: i64, problem: &'static str) -> Self {
        Self::Ours(StoreError::Corrupt { table, id, problem })
    }
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl<D: Dialect> Inner<D> {
    /// Begins a transaction that writes, unless what the last one left is unknown.
    ///
    /// After a failed flush the kernel may hold the lost pages for clean, and the next commit would
    /// succeed on top of them: it must not be tried. One writes at a time, as SQLite has it anyway;
    /// waiting here is fair, waiting for its lock is not.
    async fn begin(&self) -> Result<Writing<D>, Fault> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        if *turn == Doubt::Yes {
            return Err(Fault::Ours(StoreError::Fatal(sqlx::Error::PoolClosed)));
        }
        Ok(Writing { tx: self.write.begin_with(D::BEGIN.into_sql_str()).await?, turn })
    }

    /// Commits. Until the database has said that it is done, all is in doubt.
    async fn commit(&self, writing: Writing<D>) -> Result<(), Fault> {
        let Writing { tx, mut turn } = writing;
        *turn = Doubt::Yes;
        let answer = tx.commit().await.map_err(D::classify);
        if !matches!(answer, Err(StoreError::Fatal(_))) {
            *turn = Doubt::No;
        }
        answer.map_err(Fault::Ours)
    }

    /// After a failure that leaves open what the disk holds, nothing more is written.
    async fn note(&self, error: &StoreError) {
        if matches!(error, StoreError::Fatal(_)) {
            *self.turn.lock().await = Doubt::Yes;
        }
    }

    async fn fill(&self, claims: &mut [Claim]) -> Result<(), Fault> {
        let mut reader = self.reader().await?;
        claim::fill(&self.statements, &mut *reader, claims).await
    }

    async fn release(&self, claims: &[Claim], now: Timestamp) -> Result<Vec<Settled>, Fault> {
        let mut writing = self.begin().await?;
        let answers = settle::release(&self.statements, &mut *writing.tx, claims, now).await?;
        self.commit(writing).await?;
        Ok(answers)
    }

    async fn reader(&self) -> Result<sqlx::pool::PoolConnection<D::Db>, Fault> {
        Ok(self.read.acquire().await?)
    }
}

#[async_trait]
impl<D: Dialect> Store for SqlStore<D>
where
    for<'c> &'c mut Connected<D>: Send,
{
    async fn ingest(&self, arrivals: Arc<Vec<Arrival>>) -> Result<Vec<Ingested>> {
        self.owned(|inner| async move {
            let mut writing = inner.begin().await?;
            let answers = ingest::ingest(&inner.statements, &mut *writing.tx, &arrivals).await?;
            inner.commit(writing).await?;
            Ok(answers)
        })
        .await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Vec<Claim>> {
        self.owned(|inner| async move {
            let mut writing = inner.begin().await?;
            let mut claims = claim::claim(&inner.statements, &mut *writing.tx, &request).await?;
            inner.commit(writing).await?;
            if !claims.is_empty() {
                // Bodies never change, so they are read outside the transaction that others wait for.
                if let Err(fault) = inner.fill(&mut claims).await {
                    // Nobody would know of these claims, and each would cost its delivery a lease.
                    inner.release(&claims, request.now).await?;
                    return Err(fault);
                }
            }
            Ok(claims)
        })
        .await
    }

    async fn has_suspects(&self, destination: &str, now: Timestamp) -> Result<bool> {
        let args = vec![destination.into(), now.as_millis().into()];
        let sql = self.inner.statements.has_suspects.clone();
        self.view(sql, args, |rows| Ok(!rows.is_empty())).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settled>> {
        self.owned(|inner| async move {
            let mut writing = inner.begin().await?;
            let answers = settle::settle(&inner.statements, &mut *writing.tx, &settlements).await?;
            inner.commit(writing).await?;
            Ok(answers)
        })
        .await
    }

    async fn release(&self, claims: Vec<Claim>, now: Timestamp) -> Result<Vec<Settled>> {
        self.owned(|inner| async move { inner.release(&claims, now).await }).await
    }

    async fn replay(&self, ids: Vec<DeliveryId>, operator: Operator, now: Timestamp) -> Result<Vec<Operated>> {
        self.operate(operate::Verb::Replay, ids, operator, now).await
    }

    async fn retry_now(&self, ids: Vec<DeliveryId>, operator: Operator, now: Timestamp) -> Result<Vec<Operated>> {
        self.operate(operate::Verb::RetryNow, ids, operator, now).await
    }

    async fn discard(&self, ids: Vec<DeliveryId>, operator: Operator, now: Timestamp) -> Result<Vec<Operated>> {
        self.operate(operate::Verb::Discard, ids, operator, now).await
    }

    async fn deliver(&self, seq: i64, destinations: Vec<String>, operator: Operator, now: Timestamp) -> Result<u64> {
        self.owned(|inner| async move {
            let mut writing = inner.begin().await?;
            let made =
                operate::deliver(&inner.statements, &mut *writing.tx, seq, &destinations, &operator, now).await?;
            inner.commit(writing).await?;
            Ok(made)
        })
        .await
    }

    async fn instance_id(&self) -> Result<String> {
        let sql = self.inner.statements.instance_id.clone();
        self.view(sql, Vec::new(), |rows| match rows.first() {
            Some(row) => Ok(row.text(0)?),
            None => Err(Fault::corrupt("meta", 0, "there is no instance_id")),
        })
        .await
    }

    async fn beat(&self, owner: &str, now: Timestamp) -> Result<()> {
        let owner = owner.to_owned();
        self.owned(|inner| async move {
            let mut writing = inner.begin().await?;
            chores::beat(&inner.statements, &mut *writing.tx, &owner, now).await?;
            inner.commit(writing).await
        })
        .await
    }

    async fn count_refusals(&self, refusals: Vec<RefusalRecord>) -> Result<()> {
        self.owned(|inner| async move {
            let mut writing = inner.begin().await?;
            chores::count_refusals(&inner.statements, &mut *writing.tx, &refusals).await?;
            inner.commit(writing).await?;
            Ok(())
        })
        .await
    }

    async fn prune(&self, cutoff: Timestamp, from: i64) -> Result<Pruned> {
        self.owned(|inner| async move {
            let mut writing = inner.begin().await?;
            let pruned = chores::prune(&inner.statements, &mut *writing.tx, cutoff, from).await?;
            inner.commit(writing).await?;
            Ok(pruned)
        })
        .await
    }

    async fn checkpoint(&self) -> Result<()> {
        match &self.inner.checkpoint {
            Some(checkpoint) => {
                let answer = checkpoint().await;
                if let Err(error) = &answer {
                    self.inner.note(error).await;
                }
                answer
            }
            None => Ok(()),
        }
    }

    async fn close(&self) {
        self.inner.read.close().await;
        self.inner.write.close().await;
    }
}

impl<D: Dialect> SqlStore<D> {
    async fn operate(
        &self,
        verb: operate::Verb,
        ids: Vec<DeliveryId>,
        operator: Operator,
        now: Timestamp,
    ) -> Result<Vec<Operated>> {
        self.owned(|inner| async move {
            let mut writing = inner.begin().await?;
            let answers = operate::operate(&inner.statements, &mut *writing.tx, verb, &ids, &operator, now).await?;
            inner.commit(writing).await?;
            Ok(answers)
        })
        .await
    }
}
