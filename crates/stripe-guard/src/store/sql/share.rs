//! A destination's concurrency, dealt out among the processes of the installation.

use stripe_guard_core::Timestamp;

use super::Fault;
use super::dialect::{Cells, Run};
use super::statements::Statements;
use crate::store::{PROCESS_GONE_AFTER, Share};

/// Deals the caller its slots: an equal part of what is configured, and never more than the others
/// leave. Others see on their next turn that there is one more, and give up theirs.
pub(super) async fn share<C: Run>(
    statements: &Statements,
    connection: &mut C,
    owner: &str,
    shares: &[Share],
    now: Timestamp,
) -> Result<Vec<u32>, Fault> {
    if !statements.concurrent {
        return Ok(shares.iter().map(|share| share.concurrency).collect());
    }
    // One after the other, or two would both see what is left.
    connection.fetch(statements.lock_shares.clone(), Vec::new()).await?;
    let gone = now.minus(PROCESS_GONE_AFTER).as_millis();
    connection.fetch(statements.drop_shares.clone(), vec![gone.into(), owner.into()]).await?;
    let mut granted = Vec::with_capacity(shares.len());
    for share in shares {
        let rows = connection.fetch(statements.shares.clone(), vec![share.destination.as_str().into()]).await?;
        let mut others = Vec::with_capacity(rows.len());
        for row in &rows {
            if row.text_ref(0)? != owner {
                let slots =
                    u32::try_from(row.int(1)?).map_err(|_| Fault::corrupt("shares", 0, "slots is out of range"))?;
                others.push((row.text_ref(0)? < owner, slots));
            }
        }
        let grant = deal(share.concurrency, &others);
        let args = vec![share.destination.as_str().into(), owner.into(), i64::from(grant.max(share.present)).into()];
        connection.fetch(statements.set_share.clone(), args).await?;
        granted.push(grant);
    }
    Ok(granted)
}

/// What one process gets of so many slots: its equal part, the odd ones to those first in the
/// order of owners, as far as the others leave it. `others` says of each whether it comes before,
/// and what it has.
fn deal(concurrency: u32, others: &[(bool, u32)]) -> u32 {
    let processes = u32::try_from(others.len()).unwrap_or(u32::MAX).saturating_add(1);
    let before = u32::try_from(others.iter().filter(|(before, _)| *before).count()).unwrap_or(u32::MAX);
    let part = concurrency / processes + u32::from(before < concurrency % processes);
    let taken = others.iter().fold(0_u32, |sum, (_, slots)| sum.saturating_add(*slots));
    part.min(concurrency.saturating_sub(taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_equal_and_never_more_than_is_left() {
        assert_eq!(deal(10, &[]), 10);
        assert_eq!(deal(10, &[(true, 10)]), 0, "the other has not given up its part yet");
        assert_eq!(deal(10, &[(true, 5)]), 5);
        assert_eq!(deal(10, &[(true, 4), (true, 3)]), 3);
        assert_eq!(deal(10, &[(false, 3), (false, 3)]), 4, "the odd one goes to the first");
        assert_eq!(deal(1, &[(true, 1)]), 0, "more processes than slots");
        assert_eq!(deal(1, &[(false, 0)]), 1);
    }
}
