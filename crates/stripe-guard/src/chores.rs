//! What happens now and then beside the traffic: pruning, checkpoints, gauges, counts of refusals.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::clock::Clock;
use crate::failure::Failure;
use crate::http::Refusals;
use crate::registry::Registry;
use crate::store::{DestinationStats, Store, StoreError};
use crate::telemetry;

/// Between two looks at the write-ahead log and at what was refused.
const OFTEN: Duration = Duration::from_secs(1);

/// Between two looks at counts and ages.
const STATS_EVERY: u32 = 5;

/// Between two passes of pruning, in rounds of [`OFTEN`].
const PRUNE_EVERY: u32 = 600;

/// Between two short transactions of pruning, so that ingest always gets its turn.
const PRUNE_PAUSE: Duration = Duration::from_millis(20);

/// The chores of a process.
pub struct Chores {
    /// The inbox.
    pub store: Arc<dyn Store>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where the store's failures go.
    pub failure: Failure,
    /// What is configured.
    pub registry: Registry,
    /// What was turned away.
    pub refusals: Refusals,
    /// How long bodies are kept.
    pub keep_bodies: Duration,
}

impl Chores {
    /// Rounds until told to stop.
    pub async fn run(self, stop: CancellationToken) {
        let mut warned = HashSet::new();
        let mut round = 0_u32;
        while !stop.is_cancelled() {
            self.run_once(round, &mut warned, &stop).await;
            round = round.wrapping_add(1);
            tokio::select! {
                () = stop.cancelled() => (),
                () = self.clock.sleep(OFTEN) => (),
            }
        }
        self.refusals.flush(&*self.store, &self.failure, self.clock.now()).await;
    }

    /// What is due in this round; `warned` holds the destinations already complained of.
    pub async fn run_once(&self, round: u32, warned: &mut HashSet<String>, stop: &CancellationToken) {
        self.refusals.flush(&*self.store, &self.failure, self.clock.now()).await;
        self.swallow("checkpoint", self.store.checkpoint().await);
        if round.is_multiple_of(STATS_EVERY) {
            self.swallow("stats", self.gauges(warned).await);
        }
        if round.is_multiple_of(PRUNE_EVERY) {
            self.swallow("prune", self.prune(stop).await);
        }
    }

    fn swallow(&self, doing: &'static str, answer: Result<(), StoreError>) {
        if let Err(error) = answer {
            self.failure.report(doing, &error);
        }
    }

    async fn gauges(&self, warned: &mut HashSet<String>) -> Result<(), StoreError> {
        let stats = self.store.stats().await?;
        let now = self.clock.now();
        let table = self.registry.table();
        if let Some(last) = stats.last_received_at {
            telemetry::last_received(last.as_secs());
        }
        for one in &stats.destinations {
            let DestinationStats { destination, received, processing, retryable, dead_letter, oldest_open, .. } = one;
            let counts = [
                ("received", *received),
                ("processing", *processing),
                ("retryable", *retryable),
                ("dead_letter", *dead_letter),
            ];
            let configured = table.destination(destination).is_some();
            telemetry::deliveries(
                destination,
                counts,
                oldest_open.map_or(Duration::ZERO, |at| now.since(at)),
                configured,
            );
            let open = received + processing + retryable;
            if !configured && open > 0 && warned.insert(destination.clone()) {
                warn!(
                    destination.name = %destination,
                    open,
                    "deliveries wait for a destination that is not configured; put it back, or discard them"
                );
            }
        }
        Ok(())
    }

    async fn prune(&self, stop: &CancellationToken) -> Result<(), StoreError> {
        let cutoff = self.clock.now().minus(self.keep_bodies);
        let (mut from, mut removed) = (0, 0);
        while !stop.is_cancelled() {
            let step = self.store.prune(cutoff, from).await?;
            removed += step.removed;
            telemetry::pruned(step.removed);
            let Some(next) = step.next else { break };
            from = next;
            self.clock.sleep(PRUNE_PAUSE).await;
        }
        if removed > 0 {
            info!(removed, "removed bodies past their retention");
        }
        Ok(())
    }
}
