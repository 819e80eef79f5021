//! Ending claims.

use std::collections::HashSet;

use stripe_guard_core::{DeadLetterClass, State, Timestamp};

use super::Fault;
use super::dialect::{Arg, Cells, Run};
use super::statements::Statements;
use crate::store::{Claim, Settled, Settlement};

/// A delivery's move out of `processing`.
struct Move {
    id: i64,
    fence: i64,
    state: State,
    attempts: u32,
    lost: u32,
}

pub(super) async fn settle<C: Run>(
    statements: &Statements,
    connection: &mut C,
    settlements: &[Settlement],
) -> Result<Vec<Settled>, Fault> {
    let moves: Vec<_> = settlements
        .iter()
        .map(|settlement| Move {
            id: settlement.id.get(),
            fence: settlement.fence,
            state: settlement.next.state,
            attempts: settlement.next.attempts,
            lost: settlement.next.lost,
        })
        .collect();
    let moved = apply(statements, connection, &moves).await?;
    let (done, fenced): (Vec<_>, Vec<_>) =
        settlements.iter().partition(|settlement| moved.contains(&(settlement.id.get(), settlement.fence)));
    statements.insert_attempts.execute(connection, &done, |one, args| bind_attempt(one, args)).await?;
    for settlement in fenced {
        let args = vec![
            settlement.status.map(i64::from).into(),
            settlement.error.as_deref().into(),
            settlement.excerpt.as_deref().into(),
            duration_ms(settlement).into(),
            settlement.id.get().into(),
            settlement.fence.into(),
        ];
        connection.fetch(statements.mark_late.clone(), args).await?;
    }
    Ok(answers(settlements.iter().map(|settlement| (settlement.id.get(), settlement.fence)), &moved))
}

pub(super) async fn release<C: Run>(
    statements: &Statements,
    connection: &mut C,
    claims: &[Claim],
    now: Timestamp,
) -> Result<Vec<Settled>, Fault> {
    let moves: Vec<_> = claims
        .iter()
        .map(|claim| Move {
            id: claim.id().get(),
            fence: claim.fence(),
            state: claim.progress().after_release(now),
            attempts: claim.progress().attempts,
            lost: claim.progress().lost,
        })
        .collect();
    let moved = apply(statements, connection, &moves).await?;
    Ok(answers(claims.iter().map(|claim| (claim.id().get(), claim.fence())), &moved))
}

/// Moves those that are still held under their fence, and says which they were, by id and fence:
/// after a long outage one batch may hold the answers of two holds on one delivery.
async fn apply<C: Run>(
    statements: &Statements,
    connection: &mut C,
    moves: &[Move],
) -> Result<HashSet<(i64, i64)>, Fault> {
    let bind = |one: &Move, args: &mut Vec<Arg>| {
        args.extend([
            one.id.into(),
            one.fence.into(),
            one.state.name().into(),
            one.state.due_at().map(Timestamp::as_millis).into(),
            one.state.class().map(DeadLetterClass::as_str).into(),
            i64::from(one.attempts).into(),
            i64::from(one.lost).into(),
        ]);
    };
    // In one order, so that two batches never wait for each other.
    let mut moves: Vec<_> = moves.iter().collect();
    moves.sort_by_key(|one| one.id);
    let rows = statements.apply.fetch(connection, &moves, |one, args| bind(one, args)).await?;
    Ok(rows.iter().map(|row| Ok((row.int(0)?, row.int(1)?))).collect::<sqlx::Result<_>>()?)
}

fn answers(holds: impl Iterator<Item = (i64, i64)>, moved: &HashSet<(i64, i64)>) -> Vec<Settled> {
    holds.map(|hold| if moved.contains(&hold) { Settled::Done } else { Settled::Fenced }).collect()
}

fn duration_ms(settlement: &Settlement) -> i64 {
    i64::try_from(settlement.duration.as_millis()).unwrap_or(i64::MAX)
}

fn bind_attempt(settlement: &Settlement, args: &mut Vec<Arg>) {
    args.extend([
        settlement.id.get().into(),
        settlement.fence.into(),
        i64::from(settlement.round).into(),
        i64::from(settlement.number).into(),
        settlement.started_at.as_millis().into(),
        duration_ms(settlement).into(),
        settlement.outcome.as_str().into(),
        settlement.status.map(i64::from).into(),
        settlement.error.as_deref().into(),
        settlement.excerpt.as_deref().into(),
    ]);
}
