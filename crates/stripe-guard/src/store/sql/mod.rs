//! The one implementation of the store, for every database that sqlx reaches.

mod access;
mod batch;
mod chores;
mod claim;
mod dialect;
mod ingest;
mod migrate;
mod operate;
mod schema;
mod settle;
mod share;
mod statements;
mod views;

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use stripe_guard_core::{DeliveryId, Timestamp};

pub(super) use access::{Access, Purpose};
pub(super) use dialect::{Arg, Cells, Dialect, Run};
pub(super) use migrate::{check_schema, migrate};

use super::{
    Arrival, Claim, ClaimRequest, Ingested, Operated, Operator, Pruned, RefusalRecord, Result, Settled, Settlement,
    Share, Store, StoreError,
};
use statements::Statements;

/// How often a verb is tried when the database ended it for the sake of another: deadlock,
/// serialization failure, a lock that was not had in time.
const TRIES_MAX: u32 = 4;

/// The store over a database reached by `A`.
pub(super) struct SqlStore<A: Access> {
    inner: Arc<Inner<A>>,
}

struct Inner<A: Access> {
    access: A,
    statements: Statements,
}

/// A connection that runs statements.
type Connected<A> = <A as Access>::Connection;

/// A row of an answer.
type Row<A> = <Connected<A> as Run>::Row;

impl<A: Access> SqlStore<A> {
    /// A store over an open and migrated database. `qualifier` stands before every name.
    pub(super) fn new(access: A, qualifier: &str) -> Self {
        let statements = Statements::new::<A::Dialect>(qualifier);
        Self { inner: Arc::new(Inner { access, statements }) }
    }

    /// Runs work on a task of its own, so that a caller that goes away cancels nothing half-way.
    async fn owned<T, F>(&self, work: impl FnOnce(Arc<Inner<A>>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let inner = Arc::clone(&self.inner);
        let work = work(Arc::clone(&self.inner));
        let work = async move {
            let answer = work.await;
            if let Err(error) = &answer {
                inner.access.note(error).await;
            }
            answer
        };
        match tokio::spawn(work).await {
            Ok(answer) => answer,
            Err(error) => Err(StoreError::Task(error)),
        }
    }

    /// Runs a verb in one transaction, on a task of its own.
    async fn write<T, I>(&self, purpose: Purpose, input: I, work: Work<A, I, T>) -> Result<T>
    where
        T: Send + 'static,
        I: Send + Sync + 'static,
    {
        self.owned(|inner| async move { inner.transaction(purpose, &input, work).await }).await
    }
}

/// What is done inside a transaction, with an input that a second try finds unchanged.
type Work<A, I, T> =
    for<'c> fn(&'c Statements, &'c mut Connected<A>, &'c I) -> BoxFuture<'c, std::result::Result<T, Fault>>;

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

    fn is_contention<D: Dialect>(&self) -> bool {
        matches!(self, Self::Database(error) if D::is_contention(error))
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

impl<A: Access> Inner<A> {
    /// Runs work in one transaction, and again when the database sacrificed it for another.
    async fn transaction<T, I>(&self, purpose: Purpose, input: &I, work: Work<A, I, T>) -> Result<T>
    where
        I: Send + Sync,
    {
        let mut tries = 1;
        loop {
            let mut held = self.access.begin(purpose).await?;
            match work(&self.statements, &mut held, input).await {
                Ok(answer) => {
                    self.access.end(held).await?;
                    return Ok(answer);
                }
                Err(fault) => {
                    let again = tries < TRIES_MAX && fault.is_contention::<A::Dialect>();
                    let error = fault.into_error::<A::Dialect>();
                    self.access.undo(held, &error).await;
                    if !again {
                        return Err(error);
                    }
                    tries += 1;
                }
            }
        }
    }

    async fn release(&self, claims: &Vec<Claim>, now: Timestamp) -> Result<Vec<Settled>> {
        self.transaction(Purpose::Write, &(claims, now), |statements, connection, (claims, now)| {
            Box::pin(settle::release(statements, connection, claims, *now))
        })
        .await
    }
}

#[async_trait]
impl<A: Access> Store for SqlStore<A> {
    async fn ingest(&self, arrivals: Arc<Vec<Arrival>>) -> Result<Vec<Ingested>> {
        self.write(Purpose::Ingest, arrivals, |statements, connection, arrivals| {
            Box::pin(ingest::ingest(statements, connection, arrivals))
        })
        .await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Vec<Claim>> {
        self.owned(|inner| async move {
            let claims = inner
                .transaction(Purpose::Write, &request, |statements, connection, request| {
                    Box::pin(claim::claim(statements, connection, request))
                })
                .await?;
            if claims.is_empty() {
                return Ok(claims);
            }
            // Bodies never change, so they are read outside the transaction that others wait for.
            let filled = inner
                .transaction(Purpose::Read, &claims, |statements, connection, claims| {
                    Box::pin(claim::filled(statements, connection, claims))
                })
                .await;
            if filled.is_err() {
                // Nobody would know of these claims, and each would cost its delivery a lease.
                inner.release(&claims, request.now).await?;
            }
            filled
        })
        .await
    }

    async fn has_suspects(&self, destination: &str, now: Timestamp) -> Result<bool> {
        let args = vec![destination.into(), now.as_millis().into()];
        self.view(&self.inner.statements.has_suspects, args, |rows| Ok(!rows.is_empty())).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settled>> {
        self.write(Purpose::Write, settlements, |statements, connection, settlements| {
            Box::pin(settle::settle(statements, connection, settlements))
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
        let input = (seq, destinations, operator, now);
        self.write(Purpose::Write, input, |statements, connection, (seq, destinations, operator, now)| {
            Box::pin(operate::deliver(statements, connection, *seq, destinations, operator, *now))
        })
        .await
    }

    async fn instance_id(&self) -> Result<String> {
        self.view(&self.inner.statements.instance_id, Vec::new(), |rows| match rows.first() {
            Some(row) => Ok(row.text(0)?),
            None => Err(Fault::corrupt("meta", 0, "there is no instance_id")),
        })
        .await
    }

    async fn beat(&self, owner: &str, now: Timestamp) -> Result<()> {
        self.write(Purpose::Write, (owner.to_owned(), now), |statements, connection, (owner, now)| {
            Box::pin(chores::beat(statements, connection, owner, *now))
        })
        .await
    }

    async fn share(&self, owner: &str, shares: Vec<Share>, now: Timestamp) -> Result<Vec<u32>> {
        let input = (owner.to_owned(), shares, now);
        self.write(Purpose::Write, input, |statements, connection, (owner, shares, now)| {
            Box::pin(share::share(statements, connection, owner, shares, *now))
        })
        .await
    }

    async fn time(&self) -> Result<Option<Timestamp>> {
        let Some(time) = &self.inner.statements.time else { return Ok(None) };
        self.view(time, Vec::new(), |rows| match rows.first() {
            Some(row) => Ok(Some(Timestamp::from_millis(row.int(0)?))),
            None => Ok(None),
        })
        .await
    }

    async fn count_refusals(&self, refusals: Vec<RefusalRecord>) -> Result<()> {
        self.write(Purpose::Write, refusals, |statements, connection, refusals| {
            Box::pin(chores::count_refusals(statements, connection, refusals))
        })
        .await
    }

    async fn prune(&self, cutoff: Timestamp, from: i64) -> Result<Pruned> {
        self.owned(|inner| async move {
            // By the table where that is possible, before anything is done row by row.
            let dropped = if from == 0 { inner.access.drop_old(cutoff).await? } else { 0 };
            let pruned = inner
                .transaction(Purpose::Write, &(cutoff, from), |statements, connection, (cutoff, from)| {
                    Box::pin(chores::prune(statements, connection, *cutoff, *from))
                })
                .await?;
            Ok(Pruned { removed: pruned.removed + dropped, ..pruned })
        })
        .await
    }

    async fn checkpoint(&self) -> Result<()> {
        let answer = self.inner.access.checkpoint().await;
        if let Err(error) = &answer {
            self.inner.access.note(error).await;
        }
        answer
    }

    async fn close(&self) {
        self.inner.access.close().await;
    }
}

impl<A: Access> SqlStore<A> {
    async fn operate(
        &self,
        verb: operate::Verb,
        ids: Vec<DeliveryId>,
        operator: Operator,
        now: Timestamp,
    ) -> Result<Vec<Operated>> {
        let input = (verb, ids, operator, now);
        self.write(Purpose::Write, input, |statements, connection, (verb, ids, operator, now)| {
            Box::pin(operate::operate(statements, connection, *verb, ids, operator, *now))
        })
        .await
    }
}
