//! Keeping house: proof of life, and removing old bodies.

use stripe_guard_core::Timestamp;

use super::Fault;
use super::dialect::{Arg, Cells, Run};
use super::statements::Statements;
use crate::store::{PRUNE_BATCH_MAX, Pruned, RefusalRecord, Result};

pub(super) async fn beat<C: Run>(
    statements: &Statements,
    connection: &mut C,
    owner: &str,
    now: Timestamp,
) -> Result<(), Fault> {
    let now = now.as_millis();
    let args = vec![owner.into(), now.into(), now.into(), env!("CARGO_PKG_VERSION").into()];
    connection.fetch(statements.beat.clone(), args).await?;
    Ok(())
}

pub(super) async fn count_refusals<C: Run>(
    statements: &Statements,
    connection: &mut C,
    refusals: &[RefusalRecord],
) -> Result<(), Fault> {
    let bind = |one: &RefusalRecord, args: &mut Vec<Arg>| {
        args.extend([
            one.source.as_str().into(),
            one.reason.as_str().into(),
            one.count.into(),
            one.last_at.as_millis().into(),
            one.skew_seconds.into(),
        ]);
    };
    statements.count_refusals.fetch(connection, refusals, bind).await?;
    Ok(())
}

pub(super) async fn prune<C: Run>(
    statements: &Statements,
    connection: &mut C,
    cutoff: Timestamp,
    from: i64,
) -> Result<Pruned, Fault> {
    let args = vec![from.into(), i64::from(PRUNE_BATCH_MAX).into()];
    let rows = connection.fetch(statements.prune_candidates.clone(), args).await?;
    let mut old = Vec::with_capacity(rows.len());
    // By keyset, so that bodies which must stay never hide what lies behind them.
    let mut next = None;
    for row in &rows {
        let (seq, received_at, needed_by) = (row.int(0)?, row.int(1)?, row.int(2)?);
        if received_at >= cutoff.as_millis() {
            next = None;
            break;
        }
        if needed_by == 0 {
            old.push(seq);
        }
        next = Some(seq + 1);
    }
    if rows.len() < PRUNE_BATCH_MAX as usize {
        next = None;
    }
    let bind = |seq: &i64, args: &mut Vec<Arg>| args.push((*seq).into());
    statements.delete_bodies.fetch(connection, &old, bind).await?;
    Ok(Pruned { removed: old.len() as u64, next })
}
