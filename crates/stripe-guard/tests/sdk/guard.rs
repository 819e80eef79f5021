//! A running engine, and time that is behind.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stripe_guard::clock::{Clock, SystemClock};
use stripe_guard::settings::{Database, Destination, Limits, Retention, Settings, Source, TABLE_PREFIX};
use stripe_guard::store::{DeliveryFilter, DeliveryRecord, PAGE_MAX, Store};
use stripe_guard::{Ended, Engine};
use stripe_guard_core::{Mode, RetryPolicy, SigningSecret, State, Timestamp, Tolerance, TypeFilter};
use stripe_guard_sandbox::{DEMO_SECRET, DEMO_SECRET_NEXT, Sender};
use url::Url;

use crate::app::{App, LIMIT};

/// A signing secret as an app is given it.
#[derive(Clone, Copy)]
pub struct Secret(pub &'static str);

/// The secret that is being rolled.
pub const OLD: Secret = Secret(DEMO_SECRET);
/// What it is rolled to. Both are good for now.
pub const NEW: Secret = Secret(DEMO_SECRET_NEXT);

fn secrets() -> [SigningSecret; 2] {
    [OLD, NEW].map(|secret| SigningSecret::parse(secret.0).unwrap())
}

/// A pretend Stripe that signs with both secrets and sends to `url`.
pub fn stripe_to(url: &str) -> Sender {
    Sender::new(url, secrets(), 4).unwrap()
}

/// The machine's clock, that long behind.
pub struct Behind(pub Duration);

#[async_trait]
impl Clock for Behind {
    fn now(&self) -> Timestamp {
        SystemClock.now().minus(self.0)
    }

    async fn sleep_until(&self, due: Timestamp) {
        SystemClock.sleep_until(due.plus(self.0)).await;
    }
}

/// A running engine with the source `stripe`.
pub struct Guard(Engine);

impl Guard {
    /// Starts on an inbox in `folder`, new or not, and delivers to these.
    pub async fn start(folder: &Path, destinations: Vec<Destination>, clock: impl Clock + 'static) -> Self {
        let settings = Settings {
            database: Database::Sqlite { path: folder.join("inbox.db"), table_prefix: TABLE_PREFIX.to_owned() },
            listen: ([127, 0, 0, 1], 0).into(),
            admin_listen: ([127, 0, 0, 1], 0).into(),
            admin_hosts: Vec::new(),
            sources: vec![Source {
                name: "stripe".to_owned(),
                path: "/webhooks/stripe".to_owned(),
                secrets: secrets().to_vec(),
                mode: Mode::Any,
                accounts: Vec::new(),
                api_version: None,
                tolerance: Tolerance::default(),
            }],
            destinations,
            limits: Limits::default(),
            retention: Retention::default(),
        };
        Self(Engine::start(&settings, Arc::new(clock)).await.unwrap())
    }

    /// Its source's address.
    pub fn url(&self) -> String {
        format!("http://{}/webhooks/stripe", self.0.ingest_address())
    }

    /// Its inbox.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(self.0.store())
    }

    /// Waits until there are `count` deliveries and the condition holds for each.
    pub async fn wait_for_deliveries(
        &self,
        count: usize,
        condition: impl Fn(&DeliveryRecord) -> bool,
    ) -> Vec<DeliveryRecord> {
        let mut deliveries = Vec::new();
        let done = async {
            loop {
                deliveries = self
                    .store()
                    .deliveries(&DeliveryFilter { limit: PAGE_MAX, ..DeliveryFilter::default() })
                    .await
                    .unwrap();
                if deliveries.len() == count && deliveries.iter().all(&condition) {
                    return;
                }
                SystemClock.sleep(Duration::from_millis(20)).await;
            }
        };
        let in_time = tokio::time::timeout(LIMIT, done).await.is_ok();
        assert!(in_time, "after {LIMIT:?}: {:#?}", deliveries.iter().filter(|one| !condition(one)).collect::<Vec<_>>());
        deliveries
    }

    /// Waits until all of `count` deliveries have been made.
    pub async fn wait_until_processed(&self, count: usize) -> Vec<DeliveryRecord> {
        self.wait_for_deliveries(count, |delivery| matches!(delivery.state, State::Processed)).await
    }

    /// Stops.
    pub async fn stop(self) {
        assert_eq!(self.0.stop().await, Ended::Stopped);
    }
}

/// An app as a destination, with the source's secrets.
pub fn to(app: &App) -> Destination {
    destination(app.sdk.name(), app.url.clone())
}

/// A destination of this name where nobody listens: no program may take this port by chance.
pub fn down(name: &str) -> Destination {
    destination(name, "http://127.0.0.1:1/webhooks".parse().unwrap())
}

fn destination(name: &str, url: Url) -> Destination {
    Destination {
        name: name.to_owned(),
        url,
        sources: Vec::new(),
        types: vec![TypeFilter::parse("*").unwrap()],
        secrets: Vec::new(),
        concurrency: 10,
        timeout: Duration::from_secs(30),
        first_byte_timeout: Duration::from_secs(30),
        connect_timeout: Duration::from_secs(5),
        final_statuses: vec![410],
        retry: RetryPolicy::default(),
    }
}
