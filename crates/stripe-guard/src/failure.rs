//! Failures of the store: logged and counted where they are swallowed, and fatal where only a new
//! start can tell what the disk holds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::store::StoreError;
use crate::telemetry;

/// A failure of one kind is logged at most this often for each verb: an outage is one story, and
/// on a full disk the log would feed it.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Where every loop reports what the store answered.
#[derive(Clone, Debug, Default)]
pub struct Failure {
    fatal: CancellationToken,
    told: Arc<Mutex<HashMap<(&'static str, &'static str), Told>>>,
}

/// When a failure was logged last, and how many were not since.
#[derive(Debug, Default)]
struct Told {
    at: Option<Instant>,
    untold: u64,
}

impl Failure {
    /// Counts a failure, and logs it within its rate.
    pub fn report(&self, doing: &'static str, reason: &StoreError) {
        let kind = match reason {
            StoreError::Unavailable(_) => "unavailable",
            StoreError::Data(_) => "data",
            StoreError::Fatal(_) => "fatal",
            StoreError::Corrupt { .. } => "corrupt",
            StoreError::Open(_) => "open",
            StoreError::Task(_) => "task",
        };
        telemetry::store_error(kind);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let told = told.entry((doing, kind)).or_default();
        if told.at.is_none_or(|at| at.elapsed() >= LOG_EVERY) {
            let untold = std::mem::take(&mut told.untold);
            told.at = Some(Instant::now());
            error!(doing, kind, untold, error = reason as &dyn std::error::Error, "the store failed");
        } else {
            told.untold += 1;
        }
        if matches!(reason, StoreError::Fatal(_)) {
            self.fatal.cancel();
        }
    }

    /// Whether nothing may be promised any more.
    pub fn is_fatal(&self) -> bool {
        self.fatal.is_cancelled()
    }

    /// Returns once the process must start anew.
    pub async fn fatal(&self) {
        self.fatal.cancelled().await;
    }
}
