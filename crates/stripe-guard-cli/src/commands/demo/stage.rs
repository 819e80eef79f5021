//! Who takes part in the demonstration, and how it goes.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use serde_json::{Value, json};
use stripe_guard::Engine;
use stripe_guard::clock::SystemClock;
use stripe_guard::settings::{Database, Destination, Limits, Retention, Settings, Source, TABLE_PREFIX};
use stripe_guard_core::{Budget, Digest, Mode, RetryPolicy, SigningSecret, Tolerance, TypeFilter};
use stripe_guard_sandbox::{
    App, AppOptions, Arrival, Behaviour, DEMO_SECRET, DEMO_SECRET_NEXT, Plan, RetrySchedule, Roll, Script, Sender,
    Shape, Shapes, Traffic,
};
use url::Url;

use crate::clock;
use crate::failure::Failure;

/// Where the inbox takes events.
pub(super) const PATH: &str = "/webhooks/stripe";

/// What the forger signs with.
const FORGED_SECRET: &str = "whsec_the_forger_does_not_know_ours";

/// The inbox gives up on a request after this long, so that a hung app is seen within seconds.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The inbox's schedule, quickened: five attempts, at most 1.5 s apart.
const RETRY: RetryPolicy =
    RetryPolicy { budget: Budget::Attempts(5), floor: Duration::from_millis(200), cap: Duration::from_millis(1500) };

/// All who take part.
pub(super) struct Stage {
    pub(super) engine: Engine,
    pub(super) app: App,
    pub(super) traffic: Arc<Traffic>,
    forger: Sender,
    shapes: Shapes,
    pub(super) forged: AtomicU64,
    pub(super) forged_refused: AtomicU64,
}

impl Stage {
    /// Starts the app and the inbox, and makes the traffic ready.
    pub(super) async fn set(folder: &Path, seed: u64, events: u64, rate: u32) -> Result<Self, Failure> {
        let secret =
            |text| SigningSecret::parse(text).map_err(|error| anyhow!("a secret of the demonstration: {error}"));
        let (old, new) = (secret(DEMO_SECRET)?.labelled("old"), secret(DEMO_SECRET_NEXT)?.labelled("new"));
        let options = AppOptions {
            script: Script::new(behave),
            arrivals_kept: 0,
            ..AppOptions::verifying([old.clone(), new.clone()])
        };
        let app = App::start(options).await.context("cannot start the pretend app")?;
        let url = app.url().parse().context("the address of the pretend app")?;
        let settings = settings(folder, url, vec![old.clone(), new.clone()]);
        let engine = Engine::start(&settings, Arc::new(SystemClock)).await.map_err(anyhow::Error::from)?;
        let target = format!("http://{}{PATH}", engine.ingest_address());
        let sender = |secret| Sender::new(&target, [secret], 8).map_err(anyhow::Error::from);
        let shapes = Shapes::new(seed).created(clock::now(), Duration::from_millis(40));
        let roll = Some(Roll { both_from: events / 3, new_from: events / 3 * 2 });
        let plan = Plan { roll, ..Plan::untidy(seed, events) };
        // Stripe's live schedule, three days in some twenty seconds.
        let retries = RetrySchedule::live().faster(12_000);
        let traffic = Traffic::new(sender(old)?, shapes, plan).rolling_to(new).rate(rate).retries(retries);
        Ok(Self {
            app,
            traffic: Arc::new(traffic),
            forger: sender(secret(FORGED_SECRET)?)?,
            shapes,
            engine,
            forged: AtomicU64::new(0),
            forged_refused: AtomicU64::new(0),
        })
    }

    /// Somebody without the secret posts an event of their own.
    pub(super) async fn forge(&self) {
        let number = self.forged.fetch_add(1, Relaxed);
        let body = self.shapes.event_of(Shape::InvoicePaid, u64::MAX / 2 + number).body;
        if matches!(self.forger.send(body).await, Ok(400)) {
            self.forged_refused.fetch_add(1, Relaxed);
        }
    }

    /// How it goes.
    pub(super) async fn look(&self) -> Result<Scene, Failure> {
        let stats = self.engine.store().stats().await?;
        let report = self.traffic.report();
        let sum = |of: fn(&stripe_guard::store::DestinationStats) -> i64| {
            u64::try_from(stats.destinations.iter().map(of).sum::<i64>()).unwrap_or(0)
        };
        let received = u64::try_from(stats.last_seq).unwrap_or(0);
        let successes = self.app.ledger().events() as u64;
        let asked = self.app.arrivals();
        let acknowledged = report.statuses.get(&200).copied().unwrap_or(0);
        Ok(Scene {
            received,
            duplicates: acknowledged.saturating_sub(received),
            delivered: successes,
            retried: asked.saturating_sub(received),
            dead: sum(|one| one.dead_letter),
            waiting: sum(|one| one.received + one.processing + one.retryable),
            refused: self.forged_refused.load(Relaxed),
        })
    }

    /// Ends everything.
    pub(super) async fn strike(self) {
        self.engine.stop().await;
        self.app.stop().await;
    }
}

/// What the pretend app does: most events at once, some only after two failures, few after a hang,
/// and very few never; refunds it does not want.
fn behave(arrival: &Arrival) -> Behaviour {
    let id = arrival.event_id.as_deref().unwrap_or_default();
    let draw = Digest::of(id.as_bytes()).as_bytes()[0];
    match (draw, arrival.attempt) {
        _ if arrival.event_type.as_deref() == Some(Shape::ChargeRefunded.event_type()) => 410.into(),
        (0..26, ..=2) | (32..34, _) => 500.into(),
        (26..32, 1) => Behaviour::Hang,
        _ => 200.into(),
    }
}

fn settings(folder: &Path, url: Url, secrets: Vec<SigningSecret>) -> Settings {
    let free_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let source = Source {
        name: "stripe".to_owned(),
        path: PATH.to_owned(),
        secrets,
        mode: Mode::Any,
        accounts: Vec::new(),
        api_version: None,
        tolerance: Tolerance::default(),
    };
    let destination = Destination {
        name: "app".to_owned(),
        url,
        sources: Vec::new(),
        types: vec![TypeFilter::All],
        secrets: Vec::new(),
        concurrency: 16,
        timeout: TIMEOUT,
        first_byte_timeout: TIMEOUT,
        connect_timeout: TIMEOUT,
        final_statuses: vec![410],
        retry: RETRY,
    };
    let limits = Limits {
        lease: Duration::from_secs(10),
        poll: Duration::from_millis(200),
        grace: Duration::from_secs(3),
        ..Limits::default()
    };
    Settings {
        database: Database::Sqlite { path: folder.join("demo.db"), table_prefix: TABLE_PREFIX.to_owned() },
        listen: free_port,
        admin_listen: free_port,
        admin_hosts: Vec::new(),
        sources: vec![source],
        destinations: vec![destination],
        limits,
        retention: Retention::default(),
    }
}

/// How it goes, in numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    received: u64,
    duplicates: u64,
    delivered: u64,
    retried: u64,
    dead: u64,
    pub(super) waiting: u64,
    refused: u64,
}

impl Scene {
    pub(super) fn as_json(&self) -> Value {
        json!({
            "event": "progress",
            "received": self.received,
            "duplicates": self.duplicates,
            "delivered": self.delivered,
            "retried": self.retried,
            "dead": self.dead,
            "waiting": self.waiting,
            "refused": self.refused,
        })
    }
}

impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Short enough for a terminal of 80 columns; the forger has a line in the account.
        let Self { received, duplicates, delivered, retried, dead, waiting, .. } = self;
        write!(
            f,
            "received {received}  duplicates {duplicates}  delivered {delivered}  retried {retried}  dead {dead}  waiting {waiting}"
        )
    }
}
