//! What was turned away at the door: counted in memory, written and logged in passing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stripe_guard_core::Timestamp;
use tracing::warn;

use crate::failure::Failure;
use crate::store::{RefusalRecord, Store};
use crate::telemetry;

/// A reason is logged at most this often for each source: a forger must not fill the log.
const LOG_EVERY: Duration = Duration::from_mins(1);

#[derive(Clone, Default)]
struct Tally {
    unsaved: i64,
    unlogged: i64,
    last_at: Timestamp,
    skew_seconds: Option<i64>,
    logged_at: Option<Timestamp>,
}

/// Counts of refusals by source and reason. Both are words of ours, so the map stays small.
#[derive(Clone, Default)]
pub struct Refusals {
    tallies: Arc<Mutex<HashMap<(String, &'static str), Tally>>>,
}

impl Refusals {
    /// Counts one; `source` is empty for an unknown path.
    pub fn count(&self, source: &str, reason: &'static str, now: Timestamp, skew_seconds: Option<i64>) {
        telemetry::request_refused(source, reason);
        let mut tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = tallies.entry((source.to_owned(), reason)).or_default();
        tally.unsaved += 1;
        tally.unlogged += 1;
        tally.last_at = now;
        tally.skew_seconds = skew_seconds;
    }

    /// Writes what was counted since the last time, and logs it within its rate.
    pub async fn flush(&self, store: &dyn Store, failure: &Failure, now: Timestamp) {
        let fresh = self.take(now);
        if fresh.is_empty() {
            return;
        }
        if let Err(error) = store.count_refusals(fresh.clone()).await {
            failure.report("count refusals", &error);
            let mut tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
            for record in fresh {
                let same =
                    |(source, reason): &&(String, &'static str)| *source == record.source && *reason == record.reason;
                if let Some(key) = tallies.keys().find(same).cloned() {
                    tallies.entry(key).or_default().unsaved += record.count;
                }
            }
        }
    }

    fn take(&self, now: Timestamp) -> Vec<RefusalRecord> {
        let mut tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fresh = Vec::new();
        for ((source, reason), tally) in tallies.iter_mut().filter(|(_, tally)| tally.unsaved > 0) {
            if tally.logged_at.is_none_or(|last| now.since(last) >= LOG_EVERY) {
                log(source, reason, tally);
                tally.logged_at = Some(now);
                tally.unlogged = 0;
            }
            fresh.push(RefusalRecord {
                source: source.clone(),
                reason: (*reason).to_owned(),
                count: std::mem::take(&mut tally.unsaved),
                last_at: tally.last_at,
                skew_seconds: tally.skew_seconds,
            });
        }
        fresh
    }
}

fn log(source: &str, reason: &str, tally: &Tally) {
    let count = tally.unlogged;
    if let Some(skew) = tally.skew_seconds {
        warn!(
            source.name = source,
            reason,
            count,
            skew_seconds = skew,
            "requests were refused for their time although a secret of ours signed them: our clock minus Stripe's is about {skew} s; is this machine's clock right?"
        );
    } else {
        warn!(source.name = source, reason, count, "requests were refused");
    }
}
