//! The reads.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use stripe_guard_core::{DeliveryId, Digest, TEST_EVENT_ID, Timestamp};

use super::claim::DeliveryRow;
use super::dialect::{Arg, Cells, Run, Statement};
use super::{Access, Fault, Purpose, Row, SqlStore};
use crate::store::{
    AttemptRecord, CopyRecord, DeliveryFilter, DeliveryRecord, DestinationStats, EventFilter, EventRecord, PAGE_MAX,
    RefusalRecord, Result, Stats, Views,
};

/// How many columns an event has; what a statement adds comes behind.
pub(super) const EVENT_WIDTH: usize = 20;

/// Reads an event, and does not trust the row.
pub(super) fn event(row: &impl Cells) -> Result<EventRecord, Fault> {
    let seq = row.int(0)?;
    let corrupt = |problem| Fault::corrupt("events", seq, problem);
    let digest = row.opt_bytes(16)?.and_then(|bytes| Digest::from_bytes(&bytes));
    let form = row.opt_text(5)?.map(|word| word.parse()).transpose();
    Ok(EventRecord {
        seq,
        source: row.text(1)?,
        key: row.text(2)?,
        event_id: row.opt_text(3)?,
        event_type: row.opt_text(4)?,
        form: form.map_err(|_| corrupt("form is no word of ours"))?,
        origin: row.text(6)?.parse().map_err(|_| corrupt("origin is no word of ours"))?,
        intake: row.text(7)?.parse().map_err(|_| corrupt("intake is no word of ours"))?,
        created: row.opt_int(8)?.map(Timestamp::from_millis),
        livemode: row.opt_int(9)?.map(|flag| flag != 0),
        account: row.opt_text(10)?,
        context: row.opt_text(11)?,
        customer: row.opt_text(12)?,
        object_id: row.opt_text(13)?,
        api_version: row.opt_text(14)?,
        received_at: Timestamp::from_millis(row.int(15)?),
        digest: digest.ok_or_else(|| corrupt("digest has not 32 bytes"))?,
        secret_label: row.opt_text(17)?,
        copies: row.int(18)?,
        differing_copies: row.int(19)?,
    })
}

fn delivery(row: &impl Cells) -> Result<DeliveryRecord, Fault> {
    let read = DeliveryRow::read(row)?;
    Ok(DeliveryRecord {
        id: read.progress.id,
        event_seq: read.event_seq,
        key: row.text(2)?,
        event_type: row.opt_text(15)?,
        destination: read.destination,
        state: read.state,
        fence: read.fence,
        attempts: read.progress.attempts,
        lost: read.progress.lost,
        round: read.progress.round,
        round_started_at: read.progress.round_started_at,
        last_error: row.opt_text(16)?,
    })
}

fn attempt(id: DeliveryId, row: &impl Cells) -> Result<AttemptRecord, Fault> {
    let corrupt = |problem| Fault::corrupt("attempts", id.get(), problem);
    let small = |value: i64, problem| u32::try_from(value).map_err(|_| corrupt(problem));
    Ok(AttemptRecord {
        fence: row.int(0)?,
        round: small(row.int(1)?, "round is out of range")?,
        number: small(row.int(2)?, "number is out of range")?,
        started_at: Timestamp::from_millis(row.int(3)?),
        duration: row.opt_int(4)?.map(|millis| Duration::from_millis(millis.unsigned_abs())),
        outcome: row.text(5)?.parse().map_err(|_| corrupt("outcome is no word of ours"))?,
        status: row.opt_int(6)?.map(u16::try_from).transpose().map_err(|_| corrupt("status is out of range"))?,
        error: row.opt_text(7)?,
        excerpt: row.opt_text(8)?,
    })
}

fn copy(seq: i64, row: &impl Cells) -> Result<CopyRecord, Fault> {
    let digest = row.opt_bytes(2)?.and_then(|bytes| Digest::from_bytes(&bytes));
    Ok(CopyRecord {
        received_at: Timestamp::from_millis(row.int(0)?),
        secret_label: row.opt_text(1)?,
        digest: digest.ok_or_else(|| Fault::corrupt("copies", seq, "digest has not 32 bytes"))?,
    })
}

fn refusal(row: &impl Cells) -> Result<RefusalRecord, Fault> {
    Ok(RefusalRecord {
        source: row.text(0)?,
        reason: row.text(1)?,
        count: row.int(2)?,
        last_at: Timestamp::from_millis(row.int(3)?),
        skew_seconds: row.opt_int(4)?,
    })
}

fn stats<R: Cells>(last: &[R], counts: &[R]) -> Result<Stats, Fault> {
    let mut by_name: BTreeMap<String, DestinationStats> = BTreeMap::new();
    for row in counts {
        let name = row.text(0)?;
        let entry = by_name.entry(name).or_default();
        let count = row.int(2)?;
        match row.text(1)?.as_str() {
            "received" => entry.received = count,
            "processing" => entry.processing = count,
            "retryable" => entry.retryable = count,
            _ => entry.dead_letter = count,
        }
        let earlier = |known: Option<Timestamp>, column| -> Result<Option<Timestamp>, Fault> {
            let other = row.opt_int(column)?.map(Timestamp::from_millis);
            Ok(known.into_iter().chain(other).min())
        };
        (entry.oldest_open, entry.next_due) = (earlier(entry.oldest_open, 3)?, earlier(entry.next_due, 4)?);
    }
    Ok(Stats {
        last_seq: last.first().map(|row| row.int(0)).transpose()?.unwrap_or(0),
        last_received_at: last.first().map(|row| row.int(1)).transpose()?.map(Timestamp::from_millis),
        destinations: by_name
            .into_iter()
            .map(|(destination, entry)| DestinationStats { destination, ..entry })
            .collect(),
    })
}

/// An optional filter is bound twice: whether it is there, and what it asks for.
fn twice(value: Option<&str>) -> [Arg; 2] {
    [value.into(), value.into()]
}

impl<A: Access> SqlStore<A> {
    /// Runs one read on a connection of its own and makes something of its rows.
    pub(super) async fn view<T, F>(&self, statement: &Statement, args: Vec<Arg>, make: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(Vec<Row<A>>) -> Result<T, Fault> + Send + 'static,
    {
        let statement = statement.clone();
        self.owned(|inner| async move {
            let rows = inner
                .transaction(Purpose::Read, &(statement, args), |_, connection, (statement, args)| {
                    Box::pin(async move { Ok(connection.fetch(statement.clone(), args.clone()).await?) })
                })
                .await?;
            make(rows).map_err(Fault::into_error::<A::Dialect>)
        })
        .await
    }
}

#[async_trait]
impl<A: Access> Views for SqlStore<A> {
    async fn event(&self, seq: i64) -> Result<Option<EventRecord>> {
        self.view(&self.inner.statements.event_by_seq, vec![seq.into()], |rows| rows.first().map(event).transpose())
            .await
    }

    async fn events_by_key(&self, key: &str) -> Result<Vec<EventRecord>> {
        // The keys of test events begin with their common id and a colon; a semicolon comes next.
        let (from, to) = match key {
            TEST_EVENT_ID => (format!("{key}:"), format!("{key};")),
            _ => (String::new(), String::new()),
        };
        let args = vec![key.into(), from.as_str().into(), to.as_str().into()];
        self.view(&self.inner.statements.events_by_key, args, |rows| rows.iter().map(event).collect()).await
    }

    async fn events(&self, filter: &EventFilter) -> Result<Vec<EventRecord>> {
        let mut args = vec![filter.before.into(), filter.before.into()];
        args.extend(twice(filter.source.as_deref()));
        args.extend(twice(filter.event_type.as_deref()));
        args.extend(twice(filter.intake.map(stripe_guard_core::Intake::as_str)));
        args.extend(twice(filter.account.as_deref()));
        args.push(i64::from(filter.limit.min(PAGE_MAX)).into());
        self.view(&self.inner.statements.events, args, |rows| rows.iter().map(event).collect()).await
    }

    async fn deliveries(&self, filter: &DeliveryFilter) -> Result<Vec<DeliveryRecord>> {
        let mut args = vec![filter.before.into(), filter.before.into()];
        args.extend(twice(filter.destination.as_deref()));
        args.extend(twice(filter.class.as_deref()));
        args.push(i64::from(filter.limit.min(PAGE_MAX)).into());
        let statements = &self.inner.statements;
        let statement = match &filter.state {
            None => &statements.deliveries,
            Some(state) => match statements.deliveries_in.iter().find(|(name, _)| name == state) {
                Some((_, statement)) => statement,
                None => return Ok(Vec::new()),
            },
        };
        self.view(statement, args, |rows| rows.iter().map(delivery).collect()).await
    }

    async fn deliveries_of(&self, key: &str) -> Result<Vec<DeliveryRecord>> {
        self.view(&self.inner.statements.deliveries_of, vec![key.into()], |rows| rows.iter().map(delivery).collect())
            .await
    }

    async fn delivery(&self, id: DeliveryId) -> Result<Option<DeliveryRecord>> {
        self.view(&self.inner.statements.delivery, vec![id.get().into()], |rows| rows.first().map(delivery).transpose())
            .await
    }

    async fn attempts(&self, id: DeliveryId) -> Result<Vec<AttemptRecord>> {
        self.view(&self.inner.statements.attempts, vec![id.get().into()], move |rows| {
            rows.iter().map(|row| attempt(id, row)).collect()
        })
        .await
    }

    async fn copies(&self, seq: i64) -> Result<Vec<CopyRecord>> {
        self.view(&self.inner.statements.copies, vec![seq.into()], move |rows| {
            rows.iter().map(|row| copy(seq, row)).collect()
        })
        .await
    }

    async fn body(&self, seq: i64) -> Result<Option<Vec<u8>>> {
        self.view(&self.inner.statements.body, vec![seq.into()], |rows| match rows.first() {
            Some(row) => Ok(row.opt_bytes(0)?),
            None => Ok(None),
        })
        .await
    }

    async fn refusals(&self) -> Result<Vec<RefusalRecord>> {
        self.view(&self.inner.statements.refusals, Vec::new(), |rows| rows.iter().map(refusal).collect()).await
    }

    async fn stats(&self) -> Result<Stats> {
        self.owned(|inner| async move {
            inner
                .transaction(Purpose::Read, &(), |statements, connection, ()| {
                    Box::pin(async move {
                        let last = connection.fetch(statements.last_event.clone(), Vec::new()).await?;
                        let counts = connection.fetch(statements.stats.clone(), Vec::new()).await?;
                        stats(&last, &counts)
                    })
                })
                .await
        })
        .await
    }
}
