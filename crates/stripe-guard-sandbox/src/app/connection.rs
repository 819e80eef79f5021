//! What the app knows of one accepted connection.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::clock;

/// One accepted connection.
#[derive(Debug)]
pub(super) struct Link {
    /// 1 is the first that the app accepted.
    pub(super) number: u64,
    close_at: Mutex<Option<Instant>>,
    changed: Notify,
}

impl Link {
    pub(super) fn new(number: u64) -> Self {
        Self { number, close_at: Mutex::new(None), changed: Notify::new() }
    }

    /// A request has come: the connection is not idle.
    pub(super) fn is_busy(&self) {
        self.set(None);
    }

    /// The connection is to be closed unless a request comes within `idle`.
    pub(super) fn close_after(&self, idle: Duration) {
        self.set(Some(clock::instant() + idle));
        self.changed.notify_one();
    }

    /// Waits until the connection has been idle for too long.
    pub(super) async fn idle_too_long(&self) {
        loop {
            let close_at = *self.close_at.lock().unwrap_or_else(PoisonError::into_inner);
            match close_at {
                Some(at) if at <= clock::instant() => return,
                Some(at) => tokio::select! {
                    () = clock::sleep_until(at) => {}
                    () = self.changed.notified() => {}
                },
                None => self.changed.notified().await,
            }
        }
    }

    fn set(&self, close_at: Option<Instant>) {
        *self.close_at.lock().unwrap_or_else(PoisonError::into_inner) = close_at;
    }
}
