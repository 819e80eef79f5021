//! What the app remembers, for whoever looks at it from outside.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use bytes::Bytes;
use stripe_guard_core::{SigningSecret, Tolerance};
use tokio::sync::Notify;

use super::gauge::Gauge;
use super::{AppOptions, Arrival, Script};
use crate::ledger::Ledger;

/// Everything that the app's connections share. It outlives a stop.
#[derive(Debug)]
pub(super) struct Records {
    pub(super) secrets: Vec<SigningSecret>,
    pub(super) tolerance: Tolerance,
    pub(super) ledger: Ledger,
    pub(super) in_flight: Arc<Gauge>,
    pub(super) open: Arc<Gauge>,
    pub(super) accepted: AtomicU64,
    pub(super) changed: Arc<Notify>,
    arrivals_kept: usize,
    keep_bodies: bool,
    script: RwLock<Script>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) arrivals: VecDeque<Arc<Arrival>>,
    pub(super) by_event: HashMap<String, u32>,
    pub(super) all: u64,
}

impl Records {
    pub(super) fn new(options: AppOptions) -> io::Result<Self> {
        let changed = Arc::new(Notify::new());
        Ok(Self {
            secrets: options.secrets,
            tolerance: options.tolerance,
            ledger: options.ledger.as_deref().map_or_else(|| Ok(Ledger::new()), Ledger::appending_to)?,
            in_flight: Gauge::new(&changed),
            open: Gauge::new(&changed),
            accepted: AtomicU64::new(0),
            changed,
            arrivals_kept: options.arrivals_kept,
            keep_bodies: options.keep_bodies,
            script: RwLock::new(options.script),
            seen: Mutex::default(),
        })
    }

    pub(super) fn script(&self) -> Script {
        self.script.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_script(&self, script: Script) {
        *self.script.write().unwrap_or_else(PoisonError::into_inner) = script;
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an arrival, and keeps it if there is room or an older one to drop.
    pub(super) fn keep(&self, mut arrival: Arrival, body: Bytes) -> Arc<Arrival> {
        let mut seen = self.seen();
        seen.all += 1;
        if let Some(id) = arrival.event_id.as_ref().filter(|_| !arrival.is_refused()) {
            arrival.attempt = seen.count(id);
        }
        arrival.body = self.keep_bodies.then_some(body);
        let arrival = Arc::new(arrival);
        if self.arrivals_kept > 0 {
            if seen.arrivals.len() >= self.arrivals_kept {
                seen.arrivals.pop_front();
            }
            seen.arrivals.push_back(Arc::clone(&arrival));
        }
        drop(seen);
        self.changed.notify_waiters();
        arrival
    }

    /// Notes an answer that is about to be sent.
    pub(super) fn answered(&self, arrival: &Arrival, status: u16) {
        self.ledger.record(arrival.event_id.as_deref().unwrap_or("-"), status);
        self.changed.notify_waiters();
    }
}

impl Seen {
    /// Counts one more of this event, and says how many that makes.
    fn count(&mut self, id: &str) -> u32 {
        if let Some(count) = self.by_event.get_mut(id) {
            *count += 1;
            return *count;
        }
        self.by_event.insert(id.to_owned(), 1);
        1
    }
}
