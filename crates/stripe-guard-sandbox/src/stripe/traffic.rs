//! Runs a plan: sends, notes the answers, and sends again what was not acknowledged.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use stripe_guard_core::SigningSecret;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::queue::{Job, Queue, Retry};
use super::{Plan, RetrySchedule, SendError, Sender, Step, Why};
use crate::clock;
use crate::latency::Latency;
use crate::ledger::Ledger;
use crate::shapes::{Event, Shapes};

/// As long may a request that is on its way still take when the traffic is stopped.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// A pretend Stripe at work: the events of a series, sent according to a plan.
///
/// It sends over as many connections as its [`Sender`] has, as fast as the answers come, or at a
/// given rate. An answer that is not 2xx, and no answer, are followed by retries.
#[derive(Debug)]
pub struct Traffic {
    sender: Sender,
    shapes: Shapes,
    plan: Plan,
    schedule: RetrySchedule,
    pause: Duration,
    new_secret: Option<SigningSecret>,
    ledger: Ledger,
    counts: Counts,
    latency: Latency,
}

#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    retried: AtomicU64,
    given_up: AtomicU64,
    unreachable: AtomicU64,
    broken: AtomicU64,
    timed_out: AtomicU64,
}

impl Traffic {
    /// The events of `shapes`, sent through `sender` according to `plan`, without retries and as
    /// fast as possible.
    pub fn new(sender: Sender, shapes: Shapes, plan: Plan) -> Self {
        Self {
            sender,
            shapes,
            plan,
            schedule: RetrySchedule::NONE,
            pause: Duration::ZERO,
            new_secret: None,
            ledger: Ledger::new(),
            counts: Counts::default(),
            latency: Latency::default(),
        }
    }

    /// With retries on this schedule.
    #[must_use]
    pub fn retries(mut self, schedule: RetrySchedule) -> Self {
        self.schedule = schedule;
        self
    }

    /// At so many sends a second, retries not counted. What the connections cannot take in time
    /// is sent late, and all of it.
    #[must_use]
    pub fn rate(mut self, per_second: u32) -> Self {
        self.pause = Duration::from_secs(1) / per_second.max(1);
        self
    }

    /// With the secret that the plan rolls to.
    #[must_use]
    pub fn rolling_to(mut self, secret: SigningSecret) -> Self {
        self.new_secret = Some(secret);
        self
    }

    /// With a ledger that keeps a file.
    #[must_use]
    pub fn ledger_in(mut self, ledger: Ledger) -> Self {
        self.ledger = ledger;
        self
    }

    /// What was answered.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What sends.
    pub fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Runs until everything is sent and either acknowledged or given up, or until `stop`.
    pub async fn run(self: &Arc<Self>, stop: CancellationToken) -> Report {
        let started = clock::instant();
        let queue = Arc::new(Queue::new(self.plan.steps(), self.pause));
        let mut workers = JoinSet::new();
        for _ in 0..self.sender.connections() {
            let (traffic, queue, stop) = (Arc::clone(self), Arc::clone(&queue), stop.clone());
            workers.spawn(async move {
                while let Some(job) = queue.next(&stop).await {
                    queue.done(traffic.work(job, &stop).await);
                }
            });
        }
        workers.join_all().await;
        Report { elapsed: started.elapsed(), ..self.report() }
    }

    /// The counts as they are now, also while it runs; the elapsed time is known at the end.
    pub fn report(&self) -> Report {
        let of = |count: &AtomicU64| count.load(Relaxed);
        Report {
            sent: of(&self.counts.sent),
            acknowledged: self.ledger.events(),
            retried: of(&self.counts.retried),
            given_up: of(&self.counts.given_up),
            unreachable: of(&self.counts.unreachable),
            broken: of(&self.counts.broken),
            timed_out: of(&self.counts.timed_out),
            statuses: self.ledger.statuses(),
            elapsed: Duration::ZERO,
            p50: self.latency.percentile(50),
            p99: self.latency.percentile(99),
            max: self.latency.percentile(100),
        }
    }

    async fn work(&self, job: Job, stop: &CancellationToken) -> Option<Retry> {
        let (event, retry, first_at) = match job {
            Job::Step(Step::Send { number, why: Why::Resend }) => (self.shapes.resent(number), 0, None),
            Job::Step(Step::Send { number, .. }) => (self.shapes.event(number), 0, None),
            Job::Step(Step::RollBegins) => return self.roll(true),
            Job::Step(Step::RollEnds) => return self.roll(false),
            Job::Retry(Retry { event, number, first_at, .. }) => {
                self.counts.retried.fetch_add(1, Relaxed);
                (event, number, Some(first_at))
            }
        };
        let started = clock::instant();
        let acknowledged = self.attempt(&event, started, stop).await;
        if acknowledged { None } else { self.again(event, retry + 1, first_at.unwrap_or(started)) }
    }

    /// True if the event was acknowledged, and when it does not matter any more.
    async fn attempt(&self, event: &Event, started: Instant, stop: &CancellationToken) -> bool {
        self.counts.sent.fetch_add(1, Relaxed);
        let mut sending = std::pin::pin!(self.sender.send(event.body.clone()));
        let answer = tokio::select! {
            biased;
            answer = &mut sending => answer,
            () = stop.cancelled() => match timeout(STOP_GRACE, sending).await {
                Ok(answer) => answer,
                Err(_) => return true,
            },
        };
        match answer {
            Ok(status) => {
                self.latency.add(started.elapsed());
                self.ledger.record(&event.id, status);
                return (200..300).contains(&status);
            }
            Err(SendError::Unreachable(_)) => &self.counts.unreachable,
            Err(SendError::Broken(_) | SendError::BadHeader) => &self.counts.broken,
            Err(SendError::TimedOut) => &self.counts.timed_out,
        }
        .fetch_add(1, Relaxed);
        false
    }

    fn again(&self, event: Event, retry: u32, first_at: Instant) -> Option<Retry> {
        let now = clock::instant();
        let since_first = now.saturating_duration_since(first_at);
        if let Some(wait) = self.schedule.wait(self.plan.seed ^ event.number, retry, since_first) {
            Some(Retry { event, number: retry, first_at, due_at: now + wait })
        } else {
            self.counts.given_up.fetch_add(1, Relaxed);
            None
        }
    }

    fn roll(&self, keep_old: bool) -> Option<Retry> {
        if let Some(new) = &self.new_secret {
            let old = self.sender.secrets();
            let old = old.iter().take(if keep_old { old.len() } else { 0 }).cloned();
            self.sender.use_secrets(old.chain([new.clone()]));
        }
        None
    }
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Requests, retries included.
    pub sent: u64,
    /// Events with at least one 2xx.
    pub acknowledged: usize,
    /// Requests that were retries.
    pub retried: u64,
    /// Sends whose retries came to an end without a 2xx.
    pub given_up: u64,
    /// Requests that found nobody listening.
    pub unreachable: u64,
    /// Requests whose connection broke.
    pub broken: u64,
    /// Requests without an answer in time.
    pub timed_out: u64,
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
    /// How long the run took.
    pub elapsed: Duration,
    /// Half of the answers came within this time.
    pub p50: Duration,
    /// 99 of 100 answers came within this time.
    pub p99: Duration,
    /// All answers came within this time.
    pub max: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} requests, {} events acknowledged", self.sent, self.acknowledged)?;
        for (status, count) in &self.statuses {
            write!(f, ", {count} × {status}")?;
        }
        write!(f, ", {} retries, {} given up", self.retried, self.given_up)?;
        write!(f, ", {} unreachable, {} broken, {} timed out", self.unreachable, self.broken, self.timed_out)?;
        write!(f, "; p50 {:?}, p99 {:?}, max {:?}; {:.1?}", self.p50, self.p99, self.max, self.elapsed)
    }
}
