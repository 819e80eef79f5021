//! Group commit: one writer takes whatever queued while the last commit ran.
//!
//! There is no timer. A lonely event waits for nothing, and a burst forms batches by itself.

use std::sync::Arc;

use stripe_guard_core::Intake;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tracing::error;

use crate::failure::Failure;
use crate::store::{Arrival, Ingested, Store, StoreError};
use crate::telemetry;
use crate::wake::Wakers;

/// The most events of one commit: beyond this a bigger batch saves nothing that one can measure.
const BATCH_EVENTS_MAX: usize = 256;

/// The most bytes of bodies in one commit, so that a burst of large events does not make all
/// others wait for one long write.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Why an event was not stored. All are 503 to Stripe, which sends it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStored {
    /// Too many events or bytes wait already.
    QueueFull,
    /// The store cannot do it now, or will not have it.
    StoreFailed,
    /// The process is about to stop.
    Stopping,
}

impl NotStored {
    /// The reason's word in metrics.
    pub const fn class(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::StoreFailed => "store_failed",
            Self::Stopping => "stopping",
        }
    }
}

struct Job {
    arrival: Arrival,
    answer: oneshot::Sender<Result<Ingested, NotStored>>,
    bytes: OwnedSemaphorePermit,
}

/// The way into the store for events.
#[derive(Clone)]
pub struct Writer {
    jobs: mpsc::Sender<Job>,
    bytes: Arc<Semaphore>,
}

impl Writer {
    /// A writer and the loop that does its work; bounded by events and by bytes of bodies.
    pub fn new(
        store: Arc<dyn Store>,
        wakers: Wakers,
        failure: Failure,
        queue_events: usize,
        queue_bytes: usize,
    ) -> (Self, WriterLoop) {
        let (jobs, queue) = mpsc::channel(queue_events.max(1));
        let bytes = Arc::new(Semaphore::new(queue_bytes.min(Semaphore::MAX_PERMITS)));
        (Self { jobs, bytes }, WriterLoop { store, wakers, failure, queue })
    }

    /// Stores an event and answers after the commit. Never waits for room in the queue.
    pub async fn accept(&self, arrival: Arrival) -> Result<Ingested, NotStored> {
        let size = u32::try_from(arrival.inbound.body().len()).map_err(|_| NotStored::QueueFull)?;
        let bytes = Arc::clone(&self.bytes).try_acquire_many_owned(size).map_err(|_| NotStored::QueueFull)?;
        let (answer, answered) = oneshot::channel();
        self.jobs.try_send(Job { arrival, answer, bytes }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => NotStored::QueueFull,
            mpsc::error::TrySendError::Closed(_) => NotStored::Stopping,
        })?;
        answered.await.unwrap_or(Err(NotStored::Stopping))
    }
}

/// The writer's loop. It ends when every [`Writer`] is gone and the queue is empty.
pub struct WriterLoop {
    store: Arc<dyn Store>,
    wakers: Wakers,
    failure: Failure,
    queue: mpsc::Receiver<Job>,
}

impl WriterLoop {
    /// Steps until there is nothing more to come.
    pub async fn run(mut self) {
        while self.run_once().await {}
    }

    /// Stores what has queued, waiting for the first; `false` when there is nothing more to come.
    pub async fn run_once(&mut self) -> bool {
        let mut jobs = Vec::new();
        if self.queue.recv_many(&mut jobs, BATCH_EVENTS_MAX).await == 0 {
            return false;
        }
        let mut jobs = jobs.into_iter().peekable();
        while jobs.peek().is_some() {
            let (mut batch, mut answers, mut held, mut size) = (Vec::new(), Vec::new(), Vec::new(), 0);
            while let Some(job) =
                jobs.next_if(|job| batch.is_empty() || size + job.arrival.inbound.body().len() <= BATCH_BYTES_MAX)
            {
                size += job.arrival.inbound.body().len();
                batch.push(job.arrival);
                answers.push(job.answer);
                held.push(job.bytes);
            }
            self.store_batch(Arc::new(batch), answers).await;
        }
        true
    }

    async fn store_batch(&self, batch: Arc<Vec<Arrival>>, answers: Vec<oneshot::Sender<Result<Ingested, NotStored>>>) {
        telemetry::batch(batch.len());
        match self.store.ingest(Arc::clone(&batch)).await {
            Ok(ingested) => {
                // Nothing stands between the commit and the answers, not even the wake-up.
                for (answer, ingested) in answers.into_iter().zip(&ingested) {
                    _ = answer.send(Ok(*ingested));
                }
                self.wake(&batch, &ingested);
            }
            Err(StoreError::Data(reason)) if batch.len() > 1 => {
                error!(error = %reason, "a batch was refused for its data; storing its {} events one by one", batch.len());
                for (arrival, answer) in batch.iter().zip(answers) {
                    Box::pin(self.store_batch(Arc::new(vec![arrival.clone()]), vec![answer])).await;
                }
            }
            Err(reason) => {
                self.failure.report("ingest", &reason);
                for answer in answers {
                    _ = answer.send(Err(NotStored::StoreFailed));
                }
            }
        }
    }

    fn wake(&self, batch: &[Arrival], ingested: &[Ingested]) {
        for (arrival, ingested) in batch.iter().zip(ingested) {
            if arrival.intake == Intake::Accepted && matches!(ingested, Ingested::New { .. }) {
                arrival.destinations.iter().for_each(|destination| self.wakers.wake(destination));
            }
        }
    }
}
