//! Taking events in.

use std::collections::HashMap;

use stripe_guard_core::{Digest, Envelope, Timestamp};

use super::Fault;
use super::dialect::{Arg, Cells, Run};
use super::statements::Statements;
use crate::store::{Arrival, COPIES_RECORDED_MAX, Ingested};

pub(super) async fn ingest<C: Run>(
    statements: &Statements,
    connection: &mut C,
    arrivals: &[Arrival],
) -> Result<Vec<Ingested>, Fault> {
    let mut order: Vec<(usize, &Arrival)> = arrivals.iter().enumerate().collect();
    if statements.concurrent {
        // Two batches with the same events must not wait for each other. Stable, so that of two
        // equal keys the first stays first.
        order.sort_by_key(|(_, arrival)| (arrival.inbound.key().as_str(), arrival.inbound.source()));
    }
    // Asked is what went in, not whether something exists: the others were here already.
    let inserted = statements.insert_events.fetch(connection, &order, |(_, one), args| bind_event(one, args)).await?;
    let mut fresh = HashMap::with_capacity(inserted.len());
    for row in &inserted {
        fresh.insert((row.text_ref(1)?, row.text_ref(2)?), row.int(0)?);
    }
    let mut answers = vec![Ingested::Duplicate { seq: 0 }; arrivals.len()];
    let mut bodies = Vec::with_capacity(fresh.len());
    let mut deliveries = Vec::new();
    let mut copies = Vec::new();
    for (place, arrival) in order {
        let identity = (arrival.inbound.key().as_str(), arrival.inbound.source());
        // Of two equal keys in one batch the first went in; the second finds its number taken.
        if let Some(seq) = fresh.remove(&identity) {
            bodies.push((seq, arrival));
            deliveries.extend(arrival.destinations.iter().map(|destination| (seq, arrival, destination.as_str())));
            answers[place] = Ingested::New { seq };
        } else {
            copies.push((place, arrival));
        }
    }
    statements.insert_bodies.execute(connection, &bodies, bind_body).await?;
    // Through two sources an app gets the first arrival, once: the second finds its place taken.
    statements.insert_deliveries.execute(connection, &deliveries, bind_delivery).await?;
    for (place, arrival) in copies {
        answers[place] = record_copy(statements, connection, arrival).await?;
    }
    Ok(answers)
}

fn bind_event(arrival: &Arrival, args: &mut Vec<Arg>) {
    let inbound = &arrival.inbound;
    let envelope = inbound.envelope();
    let text = |field: fn(&Envelope) -> Option<&str>| Arg::from(envelope.and_then(field));
    args.extend([
        inbound.source().into(),
        inbound.key().as_str().into(),
        text(|envelope| Some(envelope.id.as_str())),
        text(|envelope| Some(envelope.event_type.as_str())),
        text(|envelope| Some(envelope.form.as_str())),
        inbound.origin().as_str().into(),
        arrival.intake.as_str().into(),
        envelope.and_then(|envelope| envelope.created).map(Timestamp::as_millis).into(),
        envelope.and_then(|envelope| envelope.livemode).map(i64::from).into(),
        text(|envelope| envelope.account.as_deref()),
        text(|envelope| envelope.context.as_deref()),
        text(|envelope| envelope.customer.as_deref()),
        text(|envelope| envelope.object_id.as_deref()),
        text(|envelope| envelope.api_version.as_deref()),
        inbound.received_at().as_millis().into(),
        inbound.digest().as_bytes().into(),
        inbound.secret_label().into(),
    ]);
}

fn bind_body(&(seq, arrival): &(i64, &Arrival), args: &mut Vec<Arg>) {
    args.extend([seq.into(), arrival.inbound.body().as_ref().into()]);
}

fn bind_delivery(&(seq, arrival, destination): &(i64, &Arrival, &str), args: &mut Vec<Arg>) {
    let received_at = arrival.inbound.received_at().as_millis();
    args.extend([
        seq.into(),
        arrival.inbound.key().as_str().into(),
        destination.into(),
        received_at.into(),
        received_at.into(),
    ]);
}

async fn record_copy<C: Run>(
    statements: &Statements,
    connection: &mut C,
    arrival: &Arrival,
) -> Result<Ingested, Fault> {
    let inbound = &arrival.inbound;
    let args = vec![inbound.key().as_str().into(), inbound.source().into()];
    let found = connection.fetch(statements.find_event.clone(), args).await?;
    let first = found.first().ok_or(Fault::Database(sqlx::Error::RowNotFound))?;
    let seq = first.int(0)?;
    let stored = first.opt_bytes(1)?.and_then(|bytes| Digest::from_bytes(&bytes));
    let differs = stored.as_ref() != Some(inbound.digest());
    let args = vec![seq.into(), i64::from(differs).into(), inbound.received_at().as_millis().into()];
    let counted = connection.fetch(statements.count_copies.clone(), args).await?;
    let number = counted.first().ok_or(Fault::Database(sqlx::Error::RowNotFound))?.int(0)?;
    if number <= COPIES_RECORDED_MAX {
        let args = vec![
            seq.into(),
            number.into(),
            inbound.received_at().as_millis().into(),
            inbound.secret_label().into(),
            inbound.digest().as_bytes().into(),
        ];
        connection.fetch(statements.insert_copy.clone(), args).await?;
    }
    Ok(Ingested::Duplicate { seq })
}
