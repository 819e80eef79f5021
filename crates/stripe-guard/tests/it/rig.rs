//! A running engine between the pretend Stripe and the pretend app.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, Row as _};
use stripe_guard::clock::{Clock, SystemClock};
pub use stripe_guard::settings::Destination;
use stripe_guard::settings::{Database, Limits, Retention, Settings, Source};
use stripe_guard::store::{DeliveryRecord, EventRecord, Pooler, Store};
use stripe_guard::{Ended, Engine};
use stripe_guard_core::{Mode, RetryPolicy, SigningSecret, Timestamp, Tolerance, TypeFilter};
use stripe_guard_sandbox::{App, AppOptions, Sender};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::secret;

/// Nothing in a test takes longer, or it fails.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The machine's clock, set wrong by as much as a test likes.
#[derive(Default)]
pub struct SkewedClock(AtomicI64);

impl SkewedClock {
    /// So many seconds ahead of the machine, or behind.
    pub fn set(&self, seconds: i64) {
        self.0.store(seconds * 1000, Ordering::SeqCst);
    }
}

#[async_trait]
impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(SystemClock.now().as_millis() + self.0.load(Ordering::SeqCst))
    }

    async fn sleep_until(&self, due: Timestamp) {
        while self.now() < due {
            SystemClock.sleep(Duration::from_millis(5)).await;
        }
    }

    async fn sleep(&self, wait: Duration) {
        SystemClock.sleep(wait).await;
    }
}

/// The parts of a scenario.
pub struct Rig {
    /// The engine, until it is stopped.
    pub engine: Option<Engine>,
    /// What the engine was started with.
    pub settings: Settings,
    /// The app.
    pub app: App,
    /// The engine's clock.
    pub clock: Arc<SkewedClock>,
    /// The database.
    pub path: PathBuf,
    _folder: tempfile::TempDir,
}

/// A policy that tries again at once, for ever.
pub fn eager() -> RetryPolicy {
    RetryPolicy { floor: Duration::from_millis(20), cap: Duration::from_millis(20), ..RetryPolicy::default() }
}

/// A destination at an address.
pub fn destination(name: &str, url: &str) -> Destination {
    Destination {
        name: name.to_owned(),
        url: url.parse().unwrap(),
        sources: Vec::new(),
        types: vec![TypeFilter::All],
        secrets: Vec::new(),
        concurrency: 10,
        timeout: Duration::from_secs(5),
        first_byte_timeout: Duration::from_secs(5),
        connect_timeout: Duration::from_secs(2),
        final_statuses: vec![410],
        retry: eager(),
    }
}

/// A source with secrets.
pub fn source(name: &str, secrets: Vec<SigningSecret>) -> Source {
    Source {
        name: name.to_owned(),
        path: format!("/webhooks/{name}"),
        secrets,
        mode: Mode::Any,
        accounts: Vec::new(),
        api_version: None,
        tolerance: Tolerance::default(),
    }
}

impl Rig {
    /// The one-command case: source `stripe`, destination `app`, retries at once.
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// The same, changed before it starts.
    pub async fn start_with(change: impl FnOnce(&mut Settings)) -> Self {
        let options = AppOptions { keep_bodies: true, ..AppOptions::verifying([secret()]) };
        let app = App::start(options).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inbox.db");
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let mut settings = Settings {
            database: Database::Sqlite { path: path.clone(), table_prefix: "stripe_guard_".to_owned() },
            listen: any,
            admin_listen: any,
            admin_hosts: Vec::new(),
            sources: vec![source("stripe", vec![secret()])],
            destinations: vec![destination("app", &app.url())],
            limits: Limits { poll: Duration::from_millis(50), grace: Duration::from_secs(5), ..Limits::default() },
            retention: Retention::default(),
        };
        change(&mut settings);
        let clock = Arc::new(SkewedClock::default());
        let engine = Engine::start(&settings, Arc::clone(&clock) as Arc<dyn Clock>).await.unwrap();
        Self { engine: Some(engine), settings, app, clock, path, _folder: folder }
    }

    /// The same on PostgreSQL.
    pub async fn start_on_postgres(
        database: &stripe_guard_test_postgres::Database,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        Self::start_with(|settings| {
            settings.database = Database::Postgres {
                url: database.url().parse().unwrap(),
                schema: "stripe_guard".to_owned(),
                pooler: Pooler::None,
                require_replica: false,
                connections: 8,
            };
            change(settings);
        })
        .await
    }

    /// The running engine.
    pub fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    /// The inbox.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.engine().store()
    }

    /// Stops the engine.
    pub async fn stop(&mut self) -> Ended {
        self.engine.take().unwrap().stop().await
    }

    /// Starts it again on the same file, at free ports.
    pub async fn start_again(&mut self) {
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        self.engine = Some(Engine::start(&self.settings, clock).await.unwrap());
    }

    /// The ingest address of a source.
    pub fn url(&self, source: &str) -> String {
        format!("http://{}/webhooks/{source}", self.engine().ingest_address())
    }

    /// A pretend Stripe that signs for source `stripe`.
    pub fn stripe(&self) -> Sender {
        self.stripe_with([secret()], 8)
    }

    /// One with other secrets and connections.
    pub fn stripe_with(&self, secrets: impl IntoIterator<Item = SigningSecret>, connections: usize) -> Sender {
        Sender::new(&self.url("stripe"), secrets, connections).unwrap()
    }

    /// Posts an event and demands 200.
    pub async fn post(&self, body: Bytes) {
        assert_eq!(self.stripe().send(body).await.unwrap(), 200);
    }

    /// Posts bytes with the headers given and nothing else, and answers the status.
    pub async fn raw(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> u16 {
        let mut all = vec![("content-length", body.len().to_string())];
        all.extend(headers.iter().map(|(name, value)| (*name, (*value).to_owned())));
        let head = all.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect::<Vec<_>>().concat();
        let request =
            [format!("POST {path} HTTP/1.1\r\nhost: guard\r\nconnection: close\r\n{head}\r\n").as_bytes(), body]
                .concat();
        exchange(self.engine().ingest_address(), &request).await
    }

    /// Waits until every delivery has ended, and gives them.
    pub async fn settled(&self, count: usize) -> Vec<DeliveryRecord> {
        let mut deliveries = Vec::new();
        for _ in 0..PATIENCE.as_millis() / 10 {
            deliveries = self.deliveries().await;
            if deliveries.len() >= count && deliveries.iter().all(|one| one.state.is_ended()) {
                return deliveries;
            }
            SystemClock.sleep(Duration::from_millis(10)).await;
        }
        panic!("not settled: {deliveries:#?}");
    }

    /// All deliveries, newest first.
    pub async fn deliveries(&self) -> Vec<DeliveryRecord> {
        let all = stripe_guard::store::DeliveryFilter { limit: 1000, ..Default::default() };
        self.store().deliveries(&all).await.unwrap()
    }

    /// The event of a key.
    pub async fn event(&self, key: &str) -> EventRecord {
        self.store().events_by_key(key).await.unwrap().remove(0)
    }

    /// Asks the admin listener.
    pub async fn admin(&self, path: &str) -> (u16, String) {
        let address = self.engine().admin_address();
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let answer = exchange_text(address, request.as_bytes()).await;
        (status_of(&answer), answer.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_owned()))
    }

    /// Runs SQL on the file beside the engine.
    pub async fn sql(&self, sql: &str) {
        let mut connection = self.connection().await;
        connection.execute(AssertSqlSafe(sql.to_owned())).await.unwrap();
        connection.close().await.unwrap();
    }

    /// One number out of the file.
    pub async fn number(&self, sql: &str) -> i64 {
        let mut connection = self.connection().await;
        let row = connection.fetch_one(AssertSqlSafe(sql.to_owned())).await.unwrap();
        row.try_get(0).unwrap()
    }

    /// A connection of its own to the file.
    pub async fn connection(&self) -> sqlx::SqliteConnection {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&self.path);
        options.busy_timeout(Duration::from_secs(10)).connect().await.unwrap()
    }

    /// Makes everything in the store this much older, as if the time had passed.
    pub async fn age(&self, seconds: i64) {
        let by = seconds * 1000;
        self.sql(&format!(
            "UPDATE stripe_guard_events SET received_at = received_at - {by};
             UPDATE stripe_guard_deliveries SET due_at = due_at - {by}, round_started_at = round_started_at - {by}, claimed_at = claimed_at - {by}"
        ))
        .await;
    }

    /// Waits until the app has so many requests.
    pub async fn app_has(&self, requests: u64) {
        assert!(self.app.wait_for_requests(requests, PATIENCE).await, "the app has {} requests", self.app.arrivals());
    }
}

/// Sends bytes and reads the status of the answer.
pub async fn exchange(address: SocketAddr, request: &[u8]) -> u16 {
    status_of(&exchange_text(address, request).await)
}

async fn exchange_text(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A refusal may come before all is sent; what it says still counts.
    _ = stream.write_all(request).await;
    let mut answer = Vec::new();
    _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

fn status_of(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("no answer: {answer:?}"))
}

/// A short wait between two looks at something that happens on its own.
pub async fn pause() {
    SystemClock.sleep(Duration::from_millis(20)).await;
}
