//! The servers: one accept loop, and behind it the subject or one of its ceilings.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use stripe_guard::Engine;
use stripe_guard::clock::{Clock, SystemClock};
use stripe_guard::settings::{Database, Destination, Limits, Retention, Settings, Source, TABLE_PREFIX};
use stripe_guard::store::{Opened, Store};
use stripe_guard::testing::{
    Chores, Failure, Gateway, Health, HttpLimits, Listener, READING_BYTES_MAX, Refusals, Registry, SourceMetrics,
    StoreClock, Wakers, Writer, recorder, webhook_router,
};
use stripe_guard_core::{Inbound, Mode, RetryPolicy, SigningSecret, Tolerance, TypeFilter, Verified, signature};
use stripe_guard_sandbox::DEMO_SECRET;
use tokio_util::sync::CancellationToken;

use crate::ceiling::{self, Ceiling};
use crate::child::{Kind, Order};

/// Between two looks at the log, as in the engine.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);

/// A server that runs.
pub struct Server {
    pub address: SocketAddr,
    engine: Option<Engine>,
    /// Held for as long as the server runs.
    _opened: Option<Opened>,
}

impl Server {
    pub async fn wait_settled(&self) {
        let Some(engine) = &self.engine else { return };
        loop {
            let stats = engine.store().stats().await.unwrap();
            if stats.destinations.iter().all(|one| one.received + one.processing + one.retryable == 0) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub async fn stop(self) {
        if let Some(engine) = self.engine {
            engine.stop().await;
        }
    }
}

pub fn secret() -> SigningSecret {
    SigningSecret::parse(DEMO_SECRET).unwrap()
}

/// Starts what is ordered.
pub async fn start(order: &Order) -> Server {
    match order.kind {
        Kind::Verify => serve(post(verified_only).with_state(Arc::new(secret())), None),
        Kind::Bare | Kind::Same => {
            // The engine makes the tables and their settings, and the ceiling fills them.
            let opened = open(&order.database).await;
            let ceiling = Arc::new(ceiling::start(order.kind, &order.database).await);
            every_second(Arc::clone(&opened.store));
            serve(post(stored_by_ceiling).with_state((Arc::new(secret()), ceiling)), Some(opened))
        }
        Kind::Guard => guard(order).await,
        Kind::Engine => {
            let engine = Engine::start(&settings(order), Arc::new(SystemClock)).await.unwrap();
            Server { address: engine.ingest_address(), engine: Some(engine), _opened: None }
        }
    }
}

async fn open(database: &Path) -> Opened {
    let database = Database::Sqlite { path: database.to_owned(), table_prefix: TABLE_PREFIX.to_owned() };
    stripe_guard::open(&database, false, true).await.unwrap()
}

fn serve(route: axum::routing::MethodRouter, opened: Option<Opened>) -> Server {
    listen(Router::new().route("/webhooks/stripe", route), opened)
}

fn listen(router: Router, opened: Option<Opened>) -> Server {
    let listener = Listener::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = listener.address();
    let limits = Limits::default();
    let limits = HttpLimits { header_timeout: limits.header_timeout, connections: limits.connections };
    tokio::spawn(listener.serve(router, limits, Arc::new(SystemClock), CancellationToken::new()));
    Server { address, engine: None, _opened: opened }
}

fn verify(secret: &SigningSecret, headers: &HeaderMap, body: Bytes) -> Option<Verified> {
    let header = headers.get("stripe-signature")?;
    signature::verify(body, header.as_bytes(), [secret], SystemClock.now(), Tolerance::default()).ok()
}

async fn verified_only(State(secret): State<Arc<SigningSecret>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    verify(&secret, &headers, body).map_or(StatusCode::BAD_REQUEST, |_| StatusCode::OK)
}

async fn stored_by_ceiling(
    State((secret, ceiling)): State<(Arc<SigningSecret>, Arc<Ceiling>)>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let Some(verified) = verify(&secret, &headers, body) else { return StatusCode::BAD_REQUEST };
    let stored = match &*ceiling {
        Ceiling::Bare(writer) => writer.store(verified.body().clone()).await,
        Ceiling::Same(writer) => writer.store(Inbound::webhook("stripe", verified, SystemClock.now())).await,
    };
    if stored { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

/// The gateway, the writer, the store and the chores of the engine, and nobody who delivers.
async fn guard(order: &Order) -> Server {
    let settings = settings(order);
    let opened = open(&order.database).await;
    recorder();
    let (store, clock): (_, Arc<dyn Clock>) = (Arc::clone(&opened.store), Arc::new(SystemClock));
    let store_clock = Arc::new(StoreClock::new(Arc::clone(&clock)));
    let (failure, refusals) = (Failure::default(), Refusals::default());
    let registry = Registry::new(&settings.sources, &settings.destinations);
    let limits = &settings.limits;
    let (writer, writer_loop) =
        Writer::new(Arc::clone(&store), Wakers::new(["app"]), failure.clone(), limits.queue_events, limits.queue_bytes);
    tokio::spawn(writer_loop.run());
    let health =
        Health::new(Arc::clone(&store), Arc::clone(&clock), failure.clone(), "bench", CancellationToken::new());
    let chores = Chores {
        store,
        clock: Arc::clone(&store_clock),
        slots: Arc::default(),
        failure,
        registry: registry.clone(),
        refusals: refusals.clone(),
        keep_bodies: settings.retention.bodies,
        owner: "bench".into(),
    };
    tokio::spawn(chores.run(CancellationToken::new()));
    let gateway = Gateway {
        registry,
        writer,
        clock,
        store_clock,
        refusals,
        metrics: [("stripe".to_owned(), SourceMetrics::new("stripe"))].into(),
        body_bytes: limits.body_bytes,
        body_timeout: limits.body_timeout,
        reading: Arc::new(tokio::sync::Semaphore::new(READING_BYTES_MAX)),
        instance: "bench".into(),
    };
    listen(webhook_router(Arc::new(gateway), health), Some(opened))
}

/// The ceilings' log is emptied as the engine's is.
fn every_second(store: Arc<dyn Store>) {
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(CHECKPOINT_EVERY).await;
            store.checkpoint().await.unwrap();
        }
    });
}

fn settings(order: &Order) -> Settings {
    let any = ([127, 0, 0, 1], 0).into();
    Settings {
        database: Database::Sqlite { path: order.database.clone(), table_prefix: TABLE_PREFIX.to_owned() },
        listen: any,
        admin_listen: any,
        admin_hosts: Vec::new(),
        sources: vec![Source {
            name: "stripe".to_owned(),
            path: "/webhooks/stripe".to_owned(),
            secrets: vec![secret()],
            mode: Mode::Any,
            accounts: Vec::new(),
            api_version: None,
            tolerance: Tolerance::default(),
        }],
        destinations: vec![Destination {
            name: "app".to_owned(),
            url: order.app.parse().unwrap(),
            sources: Vec::new(),
            types: vec![TypeFilter::parse("*").unwrap()],
            secrets: Vec::new(),
            concurrency: order.concurrency,
            timeout: Duration::from_secs(30),
            first_byte_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            final_statuses: vec![410],
            retry: RetryPolicy::default(),
        }],
        limits: Limits::default(),
        retention: Retention::default(),
    }
}
