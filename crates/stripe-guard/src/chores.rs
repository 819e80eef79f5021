//! What happens now and then beside the traffic: pruning, checkpoints, gauges, counts of refusals.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::clock::Clock;
use crate::failure::Failure;
use crate::http::Refusals;
use crate::registry::Registry;
use crate::slots::Slots;
use crate::store::{DestinationStats, Share, Store, StoreError};
use crate::store_clock::StoreClock;
use crate::telemetry;

/// Between two looks at the write-ahead log and at what was refused.
const OFTEN: Duration = Duration::from_secs(1);

/// Between two looks at counts and ages.
const STATS_EVERY: u32 = 5;

/// Between two signs of life, in rounds of [`OFTEN`].
const BEAT_EVERY: u32 = 10;

/// Between two deals of the destinations' slots, in rounds of [`OFTEN`].
const SHARE_EVERY: u32 = 5;

/// Between two looks at the database's clock, in rounds of [`OFTEN`].
const TIME_EVERY: u32 = 10;

/// From this difference between two clocks on, somebody is told: signatures are judged by the
/// machine's, leases by the database's.
const SKEW_MAX: f64 = 5.0;

/// Between two passes of pruning, in rounds of [`OFTEN`].
const PRUNE_EVERY: u32 = 600;

/// Between two short transactions of pruning, so that ingest always gets its turn.
const PRUNE_PAUSE: Duration = Duration::from_millis(20);

/// The chores of a process.
pub struct Chores {
    /// The inbox.
    pub store: Arc<dyn Store>,
    /// The time that all processes agree on.
    pub clock: Arc<StoreClock>,
    /// The slots of each destination, to be dealt anew now and then.
    pub slots: Arc<HashMap<String, Arc<Slots>>>,
    /// Where the store's failures go.
    pub failure: Failure,
    /// What is configured.
    pub registry: Registry,
    /// What was turned away.
    pub refusals: Refusals,
    /// How long bodies are kept.
    pub keep_bodies: Duration,
    /// This process, by its id in the store.
    pub owner: Arc<str>,
}

/// What the chores remember from round to round.
#[derive(Default)]
pub struct Memory {
    /// Destinations that were complained of already.
    warned: HashSet<String>,
    /// Whether the machine's clock was complained of.
    skewed: bool,
    /// Destinations that have gauges: one that is drained must show zero, not its last figure.
    shown: HashSet<String>,
}

impl Chores {
    /// Rounds until told to stop.
    pub async fn run(self, stop: CancellationToken) {
        let mut memory = Memory::default();
        let mut round = 0_u32;
        while !stop.is_cancelled() {
            self.run_once(round, &mut memory, &stop).await;
            round = round.wrapping_add(1);
            tokio::select! {
                () = stop.cancelled() => (),
                () = self.clock.sleep(OFTEN) => (),
            }
        }
        self.refusals.flush(&*self.store, &self.failure, self.clock.now()).await;
    }

    /// What is due in this round.
    pub async fn run_once(&self, round: u32, memory: &mut Memory, stop: &CancellationToken) {
        self.refusals.flush(&*self.store, &self.failure, self.clock.now()).await;
        telemetry::fold();
        self.swallow("checkpoint", self.store.checkpoint().await);
        if round.is_multiple_of(STATS_EVERY) {
            self.swallow("stats", self.gauges(memory).await);
        }
        if round.is_multiple_of(TIME_EVERY) {
            self.swallow("time", self.look_at_the_clock(memory).await);
        }
        if round.is_multiple_of(BEAT_EVERY) {
            self.swallow("beat", self.store.beat(&self.owner, self.clock.now()).await);
        }
        if round.is_multiple_of(SHARE_EVERY) {
            self.swallow("share", self.share().await);
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

    async fn look_at_the_clock(&self, memory: &mut Memory) -> Result<(), StoreError> {
        let Some(ahead) = self.clock.sample(&*self.store).await? else { return Ok(()) };
        telemetry::database_clock_skew(ahead);
        let skewed = ahead.abs() > SKEW_MAX;
        if skewed && !memory.skewed {
            warn!(
                skew_seconds = ahead,
                "this machine's clock and the database's differ; signatures are judged by this machine's, so correct whichever is wrong"
            );
        }
        if memory.skewed && !skewed {
            info!(skew_seconds = ahead, "this machine's clock and the database's agree again");
        }
        memory.skewed = skewed;
        Ok(())
    }

    /// Takes this process's part of each destination's concurrency.
    pub async fn share(&self) -> Result<(), StoreError> {
        let table = self.registry.table();
        let shares: Vec<_> = self
            .slots
            .iter()
            .filter_map(|(name, slots)| {
                let concurrency = table.destination(name)?.concurrency;
                Some(Share { destination: name.clone(), concurrency, present: slots.present() })
            })
            .collect();
        let granted = self.store.share(&self.owner, shares.clone(), self.clock.now()).await?;
        for (share, count) in shares.iter().zip(granted) {
            if let Some(slots) = self.slots.get(&share.destination) {
                slots.resize(count);
            }
            telemetry::slots(&share.destination, count);
        }
        Ok(())
    }

    async fn gauges(&self, memory: &mut Memory) -> Result<(), StoreError> {
        let stats = self.store.stats().await?;
        let now = self.clock.now();
        let table = self.registry.table();
        if let Some(last) = stats.last_received_at {
            telemetry::last_received(last.as_secs());
        }
        memory.shown.extend(table.destination_names().map(str::to_owned));
        memory.shown.extend(stats.destinations.iter().map(|one| one.destination.clone()));
        for name in &memory.shown {
            if !stats.destinations.iter().any(|one| one.destination == *name) {
                let none = ["received", "processing", "retryable", "dead_letter"].map(|state| (state, 0));
                telemetry::deliveries(name, none, Duration::ZERO, true);
            }
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
            if !configured && open > 0 && memory.warned.insert(destination.clone()) {
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
