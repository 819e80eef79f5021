//! Whether this process can do its work now.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use stripe_guard_core::Timestamp;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::failure::Failure;
use crate::store::Store;

/// An answer is used again for this long, so that no prober makes us write at its pace.
const FRESH: Duration = Duration::from_secs(1);

/// A store that has not written by then cannot be said to.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Readiness by doing: a row is written.
#[derive(Clone)]
pub struct Health {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    failure: Failure,
    owner: Arc<str>,
    stop: CancellationToken,
    last: Arc<Mutex<Option<(Timestamp, bool)>>>,
}

impl Health {
    /// The health of a process that calls itself `owner` in the store.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        failure: Failure,
        owner: &str,
        stop: CancellationToken,
    ) -> Self {
        Self { store, clock, failure, owner: owner.into(), stop, last: Arc::default() }
    }

    /// 200 when an event could be stored now, else 503, within two seconds.
    pub async fn ready(&self) -> StatusCode {
        let able = !self.stop.is_cancelled() && !self.failure.is_fatal() && self.can_write().await;
        if able { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
    }

    async fn can_write(&self) -> bool {
        let Ok(mut last) = tokio::time::timeout(PATIENCE, self.last.lock()).await else { return false };
        let now = self.clock.now();
        if let Some((at, able)) = *last
            && at <= now
            && now.since(at) < FRESH
        {
            return able;
        }
        let able = match tokio::time::timeout(PATIENCE, self.store.beat(&self.owner, now)).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                self.failure.report("readiness", &error);
                false
            }
            Err(_) => false,
        };
        *last = Some((self.clock.now(), able));
        able
    }
}
