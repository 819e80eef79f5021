//! What operators do by hand. Every verb leaves a row in the audit log, also when it did nothing.

use stripe_guard_core::{DeadLetterClass, DeliveryId, Intake, Progress, State, Timestamp};

use super::claim::DeliveryRow;
use super::dialect::{Arg, Run};
use super::statements::Statements;
use super::{Fault, views};
use crate::store::{Operated, Operator};

#[derive(Clone, Copy, Debug)]
pub(super) enum Verb {
    Replay,
    RetryNow,
    Discard,
}

impl Verb {
    fn name(self) -> &'static str {
        match self {
            Self::Replay => "replay",
            Self::RetryNow => "retry-now",
            Self::Discard => "discard",
        }
    }

    /// What the verb makes of a delivery, or why it makes nothing.
    fn apply(self, row: &DeliveryRow, now: Timestamp) -> Result<(State, Progress), Operated> {
        let due_at = Some(now);
        match (self, row.state) {
            (Self::Replay, state) => {
                row.progress.after_replay(&state, now, row.progress.held_at_start).ok_or(Operated::AlreadyOpen)
            }
            (Self::RetryNow, State::Retryable { .. }) => Ok((State::Retryable { due_at: now }, row.progress)),
            (Self::RetryNow, State::Received { due_at: Some(_) }) => Ok((State::Received { due_at }, row.progress)),
            (Self::Discard, state) if state.may_be_discarded() => Ok((State::Discarded, row.progress)),
            (Self::RetryNow | Self::Discard, _) => Err(Operated::NotAllowed),
        }
    }
}

pub(super) async fn operate<C: Run>(
    statements: &Statements,
    connection: &mut C,
    verb: Verb,
    ids: &[DeliveryId],
    operator: &Operator,
    now: Timestamp,
) -> Result<Vec<Operated>, Fault> {
    let mut answers = Vec::with_capacity(ids.len());
    for id in ids {
        let found = connection.fetch(statements.delivery.clone(), vec![id.get().into()]).await?;
        let answer = match found.first() {
            None => Operated::NotFound,
            Some(row) => {
                let row = DeliveryRow::read(row)?;
                match verb.apply(&row, now) {
                    Ok((state, progress)) => write(statements, connection, &row, state, &progress).await?,
                    Err(answer) => answer,
                }
            }
        };
        let subject = format!("delivery {id}");
        audit(statements, connection, operator, now, verb.name(), subject, word(answer)).await?;
        answers.push(answer);
    }
    Ok(answers)
}

fn word(answer: Operated) -> &'static str {
    match answer {
        Operated::Done => "done",
        Operated::AlreadyOpen => "already open",
        Operated::NotAllowed => "not allowed",
        Operated::NotFound => "not found",
    }
}

async fn write<C: Run>(
    statements: &Statements,
    connection: &mut C,
    row: &DeliveryRow,
    state: State,
    progress: &Progress,
) -> Result<Operated, Fault> {
    let held = i64::try_from(progress.held_at_start.as_millis()).unwrap_or(i64::MAX);
    let args = vec![
        state.name().into(),
        state.due_at().map(Timestamp::as_millis).into(),
        state.class().map(DeadLetterClass::as_str).into(),
        i64::from(progress.attempts).into(),
        i64::from(progress.lost).into(),
        i64::from(progress.round).into(),
        progress.round_started_at.as_millis().into(),
        held.into(),
        row.progress.id.get().into(),
        row.fence.into(),
        row.state.name().into(),
        i64::from(row.progress.round).into(),
    ];
    let moved = connection.fetch(statements.operate.clone(), args).await?;
    Ok(if moved.is_empty() { Operated::NotAllowed } else { Operated::Done })
}

async fn audit<C: Run>(
    statements: &Statements,
    connection: &mut C,
    operator: &Operator,
    now: Timestamp,
    action: &str,
    subject: String,
    answer: &str,
) -> Result<(), Fault> {
    let args = vec![
        now.as_millis().into(),
        operator.actor.as_str().into(),
        action.into(),
        Arg::Text(Some(subject.into())),
        answer.into(),
        operator.reason.as_str().into(),
    ];
    connection.fetch(statements.insert_audit.clone(), args).await?;
    Ok(())
}

pub(super) async fn deliver<C: Run>(
    statements: &Statements,
    connection: &mut C,
    seq: i64,
    destinations: &[String],
    operator: &Operator,
    now: Timestamp,
) -> Result<u64, Fault> {
    let found = connection.fetch(statements.event_by_seq.clone(), vec![seq.into()]).await?;
    let Some(event) = found.first().map(views::event).transpose()? else { return Ok(0) };
    // What is no event has nothing to be delivered as; a person can look at its bytes.
    let destinations = if event.intake == Intake::Unreadable { &[] } else { destinations };
    let bind = |destination: &String, args: &mut Vec<Arg>| {
        let now = now.as_millis();
        args.extend([seq.into(), event.key.as_str().into(), destination.as_str().into(), now.into(), now.into()]);
    };
    let made = statements.insert_deliveries.execute(connection, destinations, bind).await?;
    if made > 0 {
        connection.fetch(statements.accept_event.clone(), vec![seq.into()]).await?;
    }
    let (subject, answer) = (format!("event {seq}"), format!("{made} deliveries"));
    audit(statements, connection, operator, now, "deliver", subject, &answer).await?;
    Ok(made)
}
