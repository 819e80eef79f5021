//! Claiming what is due.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use stripe_guard_core::{DeadLetterClass, DeliveryId, LeaseOver, Outcome, Progress, State, Timestamp};

use super::dialect::{Arg, Cells, Run};
use super::statements::Statements;
use super::{Fault, views};
use crate::store::{Claim, ClaimRequest, StoreError};

/// A delivery as the scheduler sees it.
pub(super) struct DeliveryRow {
    pub(super) event_seq: i64,
    pub(super) destination: String,
    pub(super) state: State,
    pub(super) fence: i64,
    pub(super) claimed_at: Option<Timestamp>,
    pub(super) progress: Progress,
}

impl DeliveryRow {
    /// Reads a row, and does not trust it.
    pub(super) fn read(row: &impl Cells) -> Result<Self, Fault> {
        let id = row.int(0)?;
        let corrupt = |problem| Fault::corrupt("deliveries", id, problem);
        let count = |column, problem| u32::try_from(row.int(column)?).map_err(|_| corrupt(problem));
        let class = row.opt_text(7)?.map(|word| word.parse::<DeadLetterClass>()).transpose();
        let class = class.map_err(|_| corrupt("class is no word of ours"))?;
        let due_at = row.opt_int(5)?.map(Timestamp::from_millis);
        let state = State::from_columns(&row.text(4)?, due_at, row.int(6)? != 0, class)
            .ok_or_else(|| corrupt("state, due_at, parked and class disagree"))?;
        let held = u64::try_from(row.int(13)?).map_err(|_| corrupt("held_at_start is negative"))?;
        Ok(Self {
            event_seq: row.int(1)?,
            destination: row.text(3)?,
            state,
            fence: row.int(8)?,
            claimed_at: row.opt_int(14)?.map(Timestamp::from_millis),
            progress: Progress {
                id: DeliveryId::new(id),
                attempts: count(9, "attempts is out of range")?,
                lost: count(10, "lost is out of range")?,
                round: count(11, "round is out of range")?,
                round_started_at: Timestamp::from_millis(row.int(12)?),
                held_at_start: Duration::from_millis(held),
            },
        })
    }
}

/// What a claim makes of one due delivery.
struct Taken {
    id: i64,
    fence: i64,
    state: State,
    lost: u32,
}

/// An attempt row that a claim writes: a lost lease, or a row that cannot be read.
struct Note {
    id: i64,
    fence: i64,
    round: u32,
    number: u32,
    started_at: Timestamp,
    outcome: Outcome,
    error: &'static str,
}

pub(super) async fn claim<C: Run>(
    statements: &Statements,
    connection: &mut C,
    request: &ClaimRequest,
) -> Result<Vec<Claim>, Fault> {
    let (mut taken, mut claims, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    let mut rows = Vec::new();
    for cells in due(statements, connection, request).await? {
        match DeliveryRow::read(&cells) {
            Ok(row) => rows.push(row),
            // Set aside where a person sees it: one bad row must not block every claim.
            Err(Fault::Ours(StoreError::Corrupt { problem, id, .. })) => {
                let (fence, state) = (cells.int(8)? + 1, State::DeadLetter { class: DeadLetterClass::Internal });
                taken.push(Taken { id, fence, state, lost: 0 });
                notes.push(Note {
                    id,
                    fence,
                    round: 1,
                    number: 1,
                    started_at: request.now,
                    outcome: Outcome::Internal,
                    error: problem,
                });
            }
            Err(fault) => return Err(fault),
        }
    }
    for row in fair_shares(rows, request.limit, request.odd_to_retries) {
        let (claim, state) = take(row, request, &mut notes);
        taken.push(Taken { id: claim.id().get(), fence: claim.fence, state, lost: claim.progress.lost });
        claims.extend((!state.is_ended()).then_some(claim));
    }
    if taken.is_empty() {
        return Ok(Vec::new());
    }
    let bind = |taken: &Taken, args: &mut Vec<Arg>| bind_taken(taken, request, args);
    let moved = statements.take.fetch(connection, &taken, bind).await?;
    let moved = moved.iter().map(|row| row.int(0)).collect::<sqlx::Result<HashSet<_>>>()?;
    notes.retain(|note| moved.contains(&note.id));
    statements.insert_attempts.execute(connection, &notes, bind_note).await?;
    claims.retain(|claim| moved.contains(&claim.id().get()));
    Ok(claims)
}

/// The claim on a row and the state it leads to; a lease that it finds over leaves a note.
fn take(row: DeliveryRow, request: &ClaimRequest, notes: &mut Vec<Note>) -> (Claim, State) {
    let mut progress = row.progress;
    let lease_until = request.now.plus(request.lease);
    let mut state = State::Processing { lease_until };
    if let State::Processing { lease_until: ended } = row.state {
        progress.lost = match progress.after_lost_lease() {
            LeaseOver::Claim { lost, .. } => lost,
            LeaseOver::Crashed { lost } => {
                state = State::DeadLetter { class: DeadLetterClass::Crashed };
                lost
            }
        };
        notes.push(Note {
            id: progress.id.get(),
            fence: row.fence,
            round: progress.round,
            number: progress.attempts.saturating_add(1),
            started_at: row.claimed_at.unwrap_or(ended),
            outcome: Outcome::Lost,
            error: "the lease ran out before an outcome was settled",
        });
    }
    let claim = Claim {
        fence: row.fence + 1,
        progress,
        was: row.state,
        lease_until,
        claimed_at: request.now,
        destination: row.destination,
        event_seq: row.event_seq,
        event: None,
        body: None,
    };
    (claim, state)
}

fn bind_taken(taken: &Taken, request: &ClaimRequest, args: &mut Vec<Arg>) {
    let held = !taken.state.is_ended();
    args.extend([
        taken.id.into(),
        taken.fence.into(),
        taken.state.name().into(),
        taken.state.due_at().map(Timestamp::as_millis).into(),
        taken.state.class().map(DeadLetterClass::as_str).into(),
        i64::from(taken.lost).into(),
        held.then_some(request.owner.as_str()).into(),
        held.then_some(request.now.as_millis()).into(),
    ]);
}

fn bind_note(note: &Note, args: &mut Vec<Arg>) {
    args.extend([
        note.id.into(),
        note.fence.into(),
        i64::from(note.round).into(),
        i64::from(note.number).into(),
        note.started_at.as_millis().into(),
        Arg::Int(None),
        note.outcome.as_str().into(),
        Arg::Int(None),
        note.error.into(),
        Arg::Text(None),
    ]);
}

async fn due<C: Run>(
    statements: &Statements,
    connection: &mut C,
    request: &ClaimRequest,
) -> Result<Vec<C::Row>, Fault> {
    let destination = || Arg::from(request.destination.as_str());
    let now = request.now.as_millis();
    if request.suspects {
        return Ok(connection.fetch(statements.due_suspect.clone(), vec![destination(), now.into()]).await?);
    }
    let limit = i64::from(request.limit);
    let args = vec![
        destination(),
        request.from.processing.as_millis().into(),
        now.into(),
        limit.into(),
        destination(),
        request.from.retryable.as_millis().into(),
        now.into(),
        limit.into(),
        destination(),
        request.from.received.as_millis().into(),
        now.into(),
        limit.into(),
    ];
    Ok(connection.fetch(statements.due.clone(), args).await?)
}

/// At most `limit` rows: leases that ran out first, then retries and fresh ones by halves, each
/// filling what the other leaves. The odd one goes by turns: a busy worker asks for one at a time.
fn fair_shares(rows: Vec<DeliveryRow>, limit: u32, odd_to_retries: bool) -> Vec<DeliveryRow> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let (mut leases, mut retries, mut fresh) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        match row.state {
            State::Processing { .. } => leases.push(row),
            State::Retryable { .. } => retries.push(row),
            _ => fresh.push(row),
        }
    }
    leases.truncate(limit);
    let left = limit - leases.len();
    let half = left / 2 + usize::from(odd_to_retries && left % 2 == 1);
    let of_retries = retries.len().min(half.max(left.saturating_sub(fresh.len())));
    retries.truncate(of_retries);
    fresh.truncate(left - of_retries);
    leases.into_iter().chain(retries).chain(fresh).collect()
}

/// Fresh claims with their events and bodies.
pub(super) async fn filled<C: Run>(
    statements: &Statements,
    connection: &mut C,
    claims: &[Claim],
) -> Result<Vec<Claim>, Fault> {
    let rows = statements
        .events_with_bodies
        .fetch(connection, claims, |claim: &Claim, args: &mut Vec<Arg>| args.push(claim.event_seq.into()))
        .await?;
    let mut events = HashMap::with_capacity(rows.len());
    for row in &rows {
        match views::event(row) {
            Ok(event) => {
                events.insert(event.seq, (event, row.opt_bytes(views::EVENT_WIDTH)?.map(Bytes::from)));
            }
            // Its claim is left without an event, and ends as `internal`.
            Err(Fault::Ours(StoreError::Corrupt { .. })) => {}
            Err(fault) => return Err(fault),
        }
    }
    let fill = |claim: &Claim| {
        let (event, body) = events.remove(&claim.event_seq).unzip();
        Claim { event, body: body.flatten(), ..claim.clone() }
    };
    Ok(claims.iter().map(fill).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(counts: (usize, usize, usize), limit: u32, expected: (usize, usize, usize)) {
        check_turn(counts, limit, false, expected);
    }

    #[track_caller]
    fn check_turn(counts: (usize, usize, usize), limit: u32, odd_to_retries: bool, expected: (usize, usize, usize)) {
        let at = Timestamp::from_secs(0);
        let row = |state| DeliveryRow {
            event_seq: 1,
            destination: String::new(),
            state,
            fence: 0,
            claimed_at: None,
            progress: Progress {
                id: DeliveryId::new(1),
                round: 1,
                round_started_at: at,
                held_at_start: Duration::ZERO,
                attempts: 0,
                lost: 0,
            },
        };
        let mut rows = Vec::new();
        rows.extend((0..counts.0).map(|_| row(State::Processing { lease_until: at })));
        rows.extend((0..counts.1).map(|_| row(State::Retryable { due_at: at })));
        rows.extend((0..counts.2).map(|_| row(State::Received { due_at: Some(at) })));
        let got = fair_shares(rows, limit, odd_to_retries);
        let count = |name| got.iter().filter(|row| row.state.name() == name).count();
        assert_eq!((count("processing"), count("retryable"), count("received")), expected);
    }

    #[test]
    fn each_kind_gets_its_share_and_nothing_is_left_idle() {
        check((0, 100, 100), 10, (0, 5, 5));
        check((0, 100, 0), 10, (0, 10, 0));
        check((0, 0, 100), 10, (0, 0, 10));
        check((0, 100, 2), 10, (0, 8, 2));
        check((4, 100, 100), 10, (4, 3, 3));
        check((20, 100, 100), 10, (10, 0, 0));
        check((0, 1, 100), 1, (0, 0, 1));
        check((0, 3, 3), 100, (0, 3, 3));
        check_turn((0, 1, 100), 1, true, (0, 1, 0));
        check_turn((0, 100, 100), 3, true, (0, 2, 1));
        check_turn((0, 0, 100), 1, true, (0, 0, 1));
    }
}
