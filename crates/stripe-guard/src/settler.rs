//! Ends claims in batches: one transaction for whatever ended while the last one ran.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use stripe_guard_core::Outcome;
use tokio::sync::mpsc;
use tracing::{debug, error};

use crate::clock::Clock;
use crate::failure::Failure;
use crate::store::{Claim, Settled, Settlement, Store, StoreError};
use crate::telemetry::DestinationMetrics;
use crate::wake::Wakers;

/// The most endings of one transaction.
const BATCH_MAX: usize = 128;

/// Endings that may wait; a worker that meets a full queue waits with its slot.
const QUEUE_MAX: usize = 1024;

/// Between two tries to record outcomes while the store is away.
const PAUSE: Duration = Duration::from_millis(250);

/// So often is a batch tried: for about a minute, which is longer than a lease. After that other
/// workers have taken the deliveries over.
const TRIES_MAX: u32 = 240;

/// How a claim ends.
pub enum Ending {
    /// With an outcome.
    Settle {
        /// Whose it is.
        destination: String,
        /// The outcome and what it leads to.
        settlement: Box<Settlement>,
    },
    /// Unused.
    Release(Box<Claim>),
}

/// The way in; the loop ends when every one is gone.
pub type Endings = mpsc::Sender<Ending>;

/// Records endings.
pub struct Settler {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    failure: Failure,
    wakers: Wakers,
    metrics: Arc<HashMap<String, Arc<DestinationMetrics>>>,
    queue: mpsc::Receiver<Ending>,
}

impl Settler {
    /// The settler and the way in.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        failure: Failure,
        wakers: Wakers,
        metrics: Arc<HashMap<String, Arc<DestinationMetrics>>>,
    ) -> (Endings, Self) {
        let (endings, queue) = mpsc::channel(QUEUE_MAX);
        (endings, Self { store, clock, failure, wakers, metrics, queue })
    }

    /// Steps until there is nothing more to come.
    pub async fn run(mut self) {
        while self.run_once().await {}
    }

    /// Records what has queued, waiting for the first; `false` when there is nothing more to come.
    pub async fn run_once(&mut self) -> bool {
        let mut endings = Vec::new();
        if self.queue.recv_many(&mut endings, BATCH_MAX).await == 0 {
            return false;
        }
        let (mut names, mut settlements, mut releases) = (Vec::new(), Vec::new(), Vec::new());
        for ending in endings {
            match ending {
                Ending::Settle { destination, settlement } => {
                    names.push(destination);
                    settlements.push(*settlement);
                }
                Ending::Release(claim) => releases.push(*claim),
            }
        }
        if !settlements.is_empty() {
            self.settle(&names, settlements).await;
        }
        if !releases.is_empty() {
            self.release(releases).await;
        }
        true
    }

    async fn settle(&self, names: &[String], settlements: Vec<Settlement>) {
        match self.patiently("settle", || self.store.settle(settlements.clone())).await {
            Some(Ok(answers)) => self.count(names, &settlements, &answers),
            Some(Err(())) if settlements.len() > 1 => {
                // One of them is refused for its data; the others must not share its fate.
                for (name, settlement) in names.iter().zip(settlements) {
                    Box::pin(self.settle(std::slice::from_ref(name), vec![settlement])).await;
                }
            }
            _ => error!(
                "{} outcomes could not be recorded; their deliveries are due again when their leases end",
                settlements.len()
            ),
        }
    }

    fn count(&self, names: &[String], settlements: &[Settlement], answers: &[Settled]) {
        for ((name, settlement), answer) in names.iter().zip(settlements).zip(answers) {
            let Some(metrics) = self.metrics.get(name) else { continue };
            let outcome = match answer {
                Settled::Done => settlement.outcome,
                Settled::Fenced => Outcome::Late,
            };
            metrics.attempt(outcome, settlement.duration);
            match answer {
                Settled::Done => debug!(
                    delivery.id = %settlement.id,
                    attempt.fence = settlement.fence,
                    outcome = settlement.outcome.as_str(),
                    state = settlement.next.state.name(),
                    "settled delivery {}", settlement.id
                ),
                Settled::Fenced => metrics.fenced(), // Ordinary after a slow delivery: no log line.
            }
        }
    }

    async fn release(&self, claims: Vec<Claim>) {
        let now = self.clock.now();
        if let Some(Ok(_)) = self.patiently("release", || self.store.release(claims.clone(), now)).await {
            for claim in &claims {
                if let Some(metrics) = self.metrics.get(claim.destination()) {
                    metrics.released();
                }
                self.wakers.wake(claim.destination());
            }
        }
    }

    /// Tries again while the store is away; `Some(Err(()))` when the data are refused, `None`
    /// when it is given up.
    async fn patiently<T, F>(&self, doing: &'static str, verb: impl Fn() -> F) -> Option<Result<T, ()>>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        for _ in 0..TRIES_MAX {
            match verb().await {
                Ok(answer) => return Some(Ok(answer)),
                Err(error) => {
                    self.failure.report(doing, &error);
                    if matches!(error, StoreError::Data(_)) {
                        return Some(Err(()));
                    }
                }
            }
            if self.failure.is_fatal() {
                return None;
            }
            self.clock.sleep(PAUSE).await;
        }
        None
    }
}
