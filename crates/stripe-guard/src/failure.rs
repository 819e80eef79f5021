//! Failures of the store: logged and counted where they are swallowed, and fatal where only a new
//! start can tell what the disk holds.

use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::store::StoreError;
use crate::telemetry;

/// Where every loop reports what the store answered.
#[derive(Clone, Debug, Default)]
pub struct Failure {
    fatal: CancellationToken,
}

impl Failure {
    /// Logs and counts a failure.
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
        error!(doing, kind, error = reason as &dyn std::error::Error, "the store failed");
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
