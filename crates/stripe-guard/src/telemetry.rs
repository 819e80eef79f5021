//! Every metric, by name, in one place.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use stripe_guard_core::{Intake, Outcome};

/// Requests to the ingest address, by source and answer: `new`, `duplicate`, or why not.
pub const RECEIVED: &str = "stripe_guard_requests_total";
/// Events stored, by source and intake.
pub const EVENTS: &str = "stripe_guard_events_total";
/// Events of one batch of the writer.
pub const BATCH: &str = "stripe_guard_ingest_batch_events";
/// From a request's last byte to its answer, in seconds.
pub const INGEST_SECONDS: &str = "stripe_guard_ingest_seconds";
/// Our clock minus the time of the last good signature, in seconds.
pub const CLOCK_SKEW: &str = "stripe_guard_clock_skew_seconds";
/// This machine's clock minus the database's, in seconds, where the database has one.
pub const DATABASE_CLOCK_SKEW: &str = "stripe_guard_database_clock_skew_seconds";
/// Requests at once that this process may have under way, by destination.
pub const SLOTS: &str = "stripe_guard_slots";
/// Attempts, by destination and outcome.
pub const ATTEMPTS: &str = "stripe_guard_attempts_total";
/// From sending a request to the end of its answer, in seconds, by destination.
pub const ATTEMPT_SECONDS: &str = "stripe_guard_attempt_seconds";
/// Requests in flight, by destination.
pub const IN_FLIGHT: &str = "stripe_guard_attempts_in_flight";
/// Outcomes that came too late for their claim.
pub const FENCED: &str = "stripe_guard_settlements_fenced_total";
/// Claims handed back unused.
pub const RELEASED: &str = "stripe_guard_claims_released_total";
/// Open and dead-lettered deliveries, by destination and state.
pub const DELIVERIES: &str = "stripe_guard_deliveries";
/// Open deliveries whose destination is not configured.
pub const ORPHANED: &str = "stripe_guard_orphaned_deliveries";
/// Age of the oldest undelivered event, in seconds, by destination.
pub const OLDEST: &str = "stripe_guard_oldest_undelivered_seconds";
/// When the last event arrived, in seconds since 1970.
pub const LAST_RECEIVED: &str = "stripe_guard_last_received_timestamp_seconds";
/// Bodies removed after their retention.
pub const PRUNED: &str = "stripe_guard_bodies_pruned_total";
/// Failures of the store, by kind.
pub const STORE_ERRORS: &str = "stripe_guard_store_errors_total";
/// Connections refused because too many are open.
pub const CONNECTIONS_REFUSED: &str = "stripe_guard_connections_refused_total";

/// Installs the recorder once for the process and gives what renders its text.
pub fn recorder() -> &'static PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    HANDLE.get_or_init(|| {
        let seconds = &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
        let events = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), seconds)
            .and_then(|builder| builder.set_buckets_for_metric(Matcher::Full(BATCH.to_owned()), events))
            .expect("the buckets are not empty")
            .build_recorder();
        let handle = recorder.handle();
        // A host program may have a recorder of its own; then ours stays empty and theirs fills.
        drop(metrics::set_global_recorder(recorder));
        handle
    })
}

/// Folds what the histograms have gathered: without it they grow until somebody scrapes them.
pub fn fold() {
    recorder().run_upkeep();
}

/// A failure of the store.
pub fn store_error(kind: &'static str) {
    counter!(STORE_ERRORS, "kind" => kind).increment(1);
}

/// A connection turned away.
pub fn connection_refused() {
    counter!(CONNECTIONS_REFUSED).increment(1);
}

/// A request that was not stored, for a reason.
pub fn request_refused(source: &str, reason: &'static str) {
    counter!(RECEIVED, "source" => source.to_owned(), "answer" => reason).increment(1);
}

/// Bodies removed.
pub fn pruned(bodies: u64) {
    counter!(PRUNED).increment(bodies);
}

/// A batch of the writer.
pub fn batch(events: usize) {
    histogram!(BATCH).record(u32::try_from(events).unwrap_or(u32::MAX));
}

/// A source's counters, looked up once.
pub struct SourceMetrics {
    new: Counter,
    duplicate: Counter,
    events: Vec<Counter>,
    seconds: Histogram,
    skew: Gauge,
}

impl SourceMetrics {
    /// Those of the source of this name.
    pub fn new(source: &str) -> Self {
        let received = |answer: &'static str| counter!(RECEIVED, "source" => source.to_owned(), "answer" => answer);
        Self {
            new: received("new"),
            duplicate: received("duplicate"),
            events: Intake::ALL
                .iter()
                .map(|intake| counter!(EVENTS, "source" => source.to_owned(), "intake" => intake.as_str()))
                .collect(),
            seconds: histogram!(INGEST_SECONDS, "source" => source.to_owned()),
            skew: gauge!(CLOCK_SKEW, "source" => source.to_owned()),
        }
    }

    /// An event is stored.
    pub fn stored(&self, intake: Intake, took: Duration) {
        self.new.increment(1);
        self.events[intake as usize].increment(1);
        self.seconds.record(took);
    }

    /// A copy is recorded.
    pub fn duplicate(&self, took: Duration) {
        self.duplicate.increment(1);
        self.seconds.record(took);
    }

    /// How far the clocks are apart.
    #[expect(clippy::cast_precision_loss, reason = "seconds within the tolerance")]
    pub fn skew(&self, seconds: i64) {
        self.skew.set(seconds as f64);
    }
}

/// A destination's counters, looked up once.
pub struct DestinationMetrics {
    attempts: Vec<Counter>,
    seconds: Histogram,
    in_flight: Gauge,
    fenced: Counter,
    released: Counter,
}

impl DestinationMetrics {
    /// Those of the destination of this name.
    pub fn new(destination: &str) -> Self {
        let name = || destination.to_owned();
        Self {
            attempts: Outcome::ALL
                .iter()
                .map(|outcome| counter!(ATTEMPTS, "destination" => name(), "outcome" => outcome.as_str()))
                .collect(),
            seconds: histogram!(ATTEMPT_SECONDS, "destination" => name()),
            in_flight: gauge!(IN_FLIGHT, "destination" => name()),
            fenced: counter!(FENCED, "destination" => name()),
            released: counter!(RELEASED, "destination" => name()),
        }
    }

    /// A request is sent.
    pub fn began(&self) {
        self.in_flight.increment(1.0);
    }

    /// It has an outcome, or was cut off.
    pub fn ended(&self) {
        self.in_flight.decrement(1.0);
    }

    /// An attempt is recorded.
    pub fn attempt(&self, outcome: Outcome, took: Duration) {
        self.attempts[outcome as usize].increment(1);
        self.seconds.record(took);
    }

    /// An outcome came too late.
    pub fn fenced(&self) {
        self.fenced.increment(1);
    }

    /// A claim went back unused.
    pub fn released(&self) {
        self.released.increment(1);
    }
}

/// The gauges of one destination's open and dead deliveries.
#[expect(clippy::cast_precision_loss, reason = "a count of rows stays far below 2^52")]
pub fn deliveries(destination: &str, counts: [(&'static str, i64); 4], oldest: Duration, configured: bool) {
    let mut open = 0;
    for (state, count) in counts {
        gauge!(DELIVERIES, "destination" => destination.to_owned(), "state" => state).set(count as f64);
        open += if state == "dead_letter" { 0 } else { count };
    }
    gauge!(OLDEST, "destination" => destination.to_owned()).set(oldest.as_secs_f64());
    let orphaned = if configured { 0 } else { open };
    gauge!(ORPHANED, "destination" => destination.to_owned()).set(orphaned as f64);
}

/// How far this machine's clock is ahead of the database's.
pub fn database_clock_skew(seconds: f64) {
    gauge!(DATABASE_CLOCK_SKEW).set(seconds);
}

/// What this process has of a destination's concurrency.
pub fn slots(destination: &str, count: u32) {
    gauge!(SLOTS, "destination" => destination.to_owned()).set(f64::from(count));
}

/// When the last event arrived.
#[expect(clippy::cast_precision_loss, reason = "seconds since 1970 stay far below 2^52")]
pub fn last_received(secs: i64) {
    gauge!(LAST_RECEIVED).set(secs as f64);
}
