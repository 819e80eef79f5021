//! One destination's worker: claim what is due, send it, hand the outcome to the settler.

use std::sync::Arc;
use std::time::Duration;

use stripe_guard_core::{Situation, Timestamp};
use tokio::sync::{Notify, OwnedRwLockReadGuard, RwLock};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::deliver::{Deliver, Report};
use crate::failure::Failure;
use crate::registry::Registry;
use crate::settings::Destination;
use crate::settler::{Ending, Endings};
use crate::slots::{Slot, Slots};
use crate::store::{Claim, ClaimRequest, Settlement, Store, StoreError, Watermark};
use crate::telemetry::DestinationMetrics;

/// The most claims of one transaction: its bodies are held in memory until they are sent.
pub const CLAIM_BATCH_MAX: u32 = 64;

/// How often a claimer begins at the front again.
const SWEEP: Duration = Duration::from_secs(10);

/// The watermark stays this far behind: a writer may commit a due time a little in the past.
const WATERMARK_SLACK: Duration = Duration::from_secs(2);

/// What all workers of a process share.
#[derive(Clone)]
pub struct Shared {
    /// The inbox.
    pub store: Arc<dyn Store>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where the store's failures go.
    pub failure: Failure,
    /// What is configured.
    pub registry: Registry,
    /// Sends.
    pub deliver: Deliver,
    /// Where claims end.
    pub endings: Endings,
    /// This process, by an id that is fresh at each start.
    pub owner: Arc<str>,
    /// How long a claim lasts.
    pub lease: Duration,
    /// How often to look without being woken.
    pub poll: Duration,
    /// Held for reading by every delivery, and alone by one that may take the process with it.
    pub gate: Arc<RwLock<()>>,
    /// Requests that are under way.
    pub tasks: TaskTracker,
    /// Cuts off what is still under way when the time for stopping is over.
    pub cut: CancellationToken,
}

/// What a round did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// There was work; there may be more.
    Worked,
    /// There was none.
    Idle,
}

/// Delivers to one destination.
pub struct Worker {
    shared: Shared,
    name: String,
    bell: Arc<Notify>,
    slots: Arc<Slots>,
    metrics: Arc<DestinationMetrics>,
    watermark: Watermark,
    swept_at: Option<Timestamp>,
    suspects_left: bool,
    odd_to_retries: bool,
}

impl Worker {
    /// A worker for a destination; `bell` rings when there is something fresh.
    pub fn new(
        shared: Shared,
        destination: &Destination,
        bell: Arc<Notify>,
        slots: Arc<Slots>,
        metrics: Arc<DestinationMetrics>,
    ) -> Self {
        Self {
            shared,
            name: destination.name.clone(),
            bell,
            slots,
            metrics,
            watermark: Watermark::START,
            swept_at: None,
            suspects_left: false,
            odd_to_retries: false,
        }
    }

    /// Rounds until told to stop. What was sent by then goes on; see [`Shared::tasks`].
    pub async fn run(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            // Without a free slot nothing is claimed: a claim that waits only loses its lease.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.slots.wait() => (),
            }
            match self.run_once(&stop).await {
                Ok(Round::Worked) => continue,
                Ok(Round::Idle) => {}
                Err(error) => self.shared.failure.report("claim", &error),
            }
            tokio::select! {
                () = stop.cancelled() => (),
                () = self.bell.notified() => (),
                () = self.shared.clock.sleep(self.shared.poll) => (),
            }
        }
    }

    /// Claims what the free slots can take, and sends it on tasks of its own.
    pub async fn run_once(&mut self, stop: &CancellationToken) -> Result<Round, StoreError> {
        if self.shared.registry.table().destination(&self.name).is_none() {
            return Ok(Round::Idle);
        }
        if self.is_time_to_sweep() {
            self.watermark = Watermark::START;
            self.suspects_left = true;
        }
        if self.suspects_left {
            self.suspects_left = self.deliver_suspect().await?;
        }
        let guard = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(Round::Idle),
            guard = Arc::clone(&self.shared.gate).read_owned() => Arc::new(guard),
        };
        self.odd_to_retries = !self.odd_to_retries;
        // Taken before the claim: what is claimed must not wait for a slot that is gone meanwhile.
        let slots = self.slots.take(CLAIM_BATCH_MAX);
        let free = u32::try_from(slots.len()).unwrap_or(CLAIM_BATCH_MAX);
        if free == 0 {
            return Ok(Round::Worked);
        }
        let claims = self.claim(free, false).await?;
        self.advance(&claims, free);
        let round = if claims.is_empty() { Round::Idle } else { Round::Worked };
        for (claim, slot) in claims.into_iter().zip(slots) {
            self.send(claim, slot, Hold::Shared(Arc::clone(&guard)));
        }
        Ok(round)
    }

    fn is_time_to_sweep(&mut self) -> bool {
        let now = self.shared.clock.now();
        let due = self.swept_at.is_none_or(|last| now < last || now.since(last) >= SWEEP);
        if due {
            self.swept_at = Some(now);
        }
        due
    }

    /// A delivery that lost leases goes with nothing else under way in this process; one at a time,
    /// so that ordinary ones get their turn in between. Answers whether there was one.
    async fn deliver_suspect(&self) -> Result<bool, StoreError> {
        // Looked at first without the gate: in ordinary times there are none.
        if !self.shared.store.has_suspects(&self.name, self.shared.clock.now()).await? {
            return Ok(false);
        }
        let Some(slot) = self.slots.take(1).pop() else { return Ok(true) };
        let Some((claim, alone)) = self.claim_suspect().await? else { return Ok(false) };
        // Awaited, so that nothing of this destination is claimed beside it.
        let ended = self.send(claim, slot, Hold::Alone(alone)).await;
        Ok(ended.is_ok())
    }

    async fn claim_suspect(&self) -> Result<Option<(Claim, tokio::sync::OwnedRwLockWriteGuard<()>)>, StoreError> {
        let alone = Arc::clone(&self.shared.gate).write_owned().await;
        Ok(self.claim(1, true).await?.into_iter().next().map(|claim| (claim, alone)))
    }

    async fn claim(&self, limit: u32, suspects: bool) -> Result<Vec<Claim>, StoreError> {
        let request = ClaimRequest {
            destination: self.name.clone(),
            owner: self.shared.owner.to_string(),
            now: self.shared.clock.now(),
            lease: self.shared.lease,
            limit,
            from: self.watermark,
            odd_to_retries: self.odd_to_retries,
            suspects,
        };
        self.shared.store.claim(request).await
    }

    fn advance(&mut self, claims: &[Claim], asked: u32) {
        // Fewer than asked for: all that was due has been seen.
        let all = (claims.len() as u64) < u64::from(asked);
        for claim in claims {
            let due_at = claim.was().due_at().map(|at| at.minus(WATERMARK_SLACK));
            let mark = match claim.was() {
                stripe_guard_core::State::Received { .. } => &mut self.watermark.received,
                stripe_guard_core::State::Retryable { .. } => &mut self.watermark.retryable,
                stripe_guard_core::State::Processing { .. } => &mut self.watermark.processing,
                _ => continue,
            };
            *mark = due_at.map_or(*mark, |due_at| due_at.max(*mark));
        }
        if all {
            let seen = self.shared.clock.now().minus(WATERMARK_SLACK);
            self.watermark = Watermark {
                received: self.watermark.received.max(seen),
                retryable: self.watermark.retryable.max(seen),
                processing: self.watermark.processing.max(seen),
            };
        }
    }

    fn send(&self, claim: Claim, slot: Slot, hold: Hold) -> tokio::task::JoinHandle<()> {
        let (shared, metrics, bell) = (self.shared.clone(), Arc::clone(&self.metrics), Arc::clone(&self.bell));
        self.shared.tasks.spawn(async move {
            let ending = attempt(&shared, claim, &metrics).await;
            // A closed settler means that the process ends; the lease brings the delivery back.
            drop(shared.endings.send(ending).await);
            // After that, so that a settler that cannot keep up holds up what it is to settle.
            drop(slot);
            drop(hold);
            bell.notify_one();
        })
    }
}

/// What keeps suspects and all others apart; held until the outcome is on its way.
enum Hold {
    Shared(#[expect(dead_code, reason = "held, not read")] Arc<OwnedRwLockReadGuard<()>>),
    Alone(#[expect(dead_code, reason = "held, not read")] tokio::sync::OwnedRwLockWriteGuard<()>),
}

async fn attempt(shared: &Shared, claim: Claim, metrics: &DestinationMetrics) -> Ending {
    // As it is configured now: since the claim was asked for it may have been read again.
    let table = shared.registry.table();
    let Some(destination) = table.destination(claim.destination()) else { return Ending::Release(Box::new(claim)) };
    let started_at = shared.clock.now();
    // A request that may outlive its lease may meet its own successor at the app.
    if claim.lease_until().since(started_at) < destination.timeout {
        return Ending::Release(Box::new(claim));
    }
    let began = tokio::time::Instant::now();
    metrics.began();
    let report = tokio::select! {
        biased;
        report = shared.deliver.send(destination, &claim) => Some(report),
        () = shared.cut.cancelled() => None,
    };
    metrics.ended();
    match report {
        None => Ending::Release(Box::new(claim)),
        Some(report) => settlement(destination, &claim, report, started_at, began.elapsed(), shared.clock.now()),
    }
}

fn settlement(
    destination: &Destination,
    claim: &Claim,
    report: Report,
    started_at: Timestamp,
    duration: Duration,
    now: Timestamp,
) -> Ending {
    let progress = claim.progress();
    let situation = Situation { now, held: progress.held_at_start, counted: true, retry_after: report.retry_after };
    let settlement = Settlement {
        id: claim.id(),
        fence: claim.fence(),
        next: progress.after(report.outcome, &destination.retry, &situation),
        round: progress.round,
        number: progress.attempts.saturating_add(1),
        started_at,
        duration,
        outcome: report.outcome,
        status: report.status,
        error: report.error,
        excerpt: report.excerpt,
    };
    Ending::Settle { destination: claim.destination().to_owned(), settlement: Box::new(settlement) }
}
