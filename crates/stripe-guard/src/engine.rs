//! The running whole: opens, binds, starts, and stops in order.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::RwLock;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::chores::Chores;
use crate::clock::Clock;
use crate::deliver::Deliver;
use crate::failure::Failure;
use crate::http::{Admin, Gateway, Health, HttpLimits, Listener, Refusals, admin_router, webhook_router};
use crate::registry::Registry;
use crate::settings::{Database, Settings};
use crate::settler::Settler;
use crate::store::{Opened, SqliteFile, Store, StoreError, open_sqlite};
use crate::telemetry::{self, DestinationMetrics, SourceMetrics};
use crate::wake::Wakers;
use crate::worker::{Shared, Worker};
use crate::writer::Writer;

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The inbox.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An address.
    #[error("cannot listen on {address}: {reason}; is another program using it?")]
    Bind {
        /// Which.
        address: SocketAddr,
        /// Why.
        reason: std::io::Error,
    },
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// As told, with everything finished or handed back.
    Stopped,
    /// The disk failed under the database: the process must start anew.
    MustRestart,
}

/// What stops when told to, beside the requests under way.
struct Parts {
    loops: TaskTracker,
    workers: TaskTracker,
    settler: tokio::task::JoinHandle<()>,
    writer: tokio::task::JoinHandle<()>,
    chores: tokio::task::JoinHandle<()>,
    stop_chores: CancellationToken,
}

/// A running engine.
pub struct Engine {
    opened: Opened,
    registry: Registry,
    ingest_address: SocketAddr,
    admin_address: SocketAddr,
    failure: Failure,
    stop: CancellationToken,
    deliveries: TaskTracker,
    cut: CancellationToken,
    grace: Duration,
    parts: Parts,
}

/// Opens an inbox as the settings say.
pub async fn open(database: &Database, exclusive: bool, create: bool) -> Result<Opened, StoreError> {
    let Database::Sqlite { path, table_prefix } = database;
    open_sqlite(&SqliteFile { path: path.clone(), table_prefix: table_prefix.clone(), create, exclusive }).await
}

impl Engine {
    /// Starts everything, or nothing: the addresses are bound and the inbox is open before any
    /// part runs.
    pub async fn start(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        let bind = |address| Listener::bind(address).map_err(|reason| StartError::Bind { address, reason });
        let (ingest, admin) = (bind(settings.listen)?, bind(settings.admin_listen)?);
        let opened = open(&settings.database, true, true).await?;
        let metrics = telemetry::recorder();
        let store = Arc::clone(&opened.store);
        let registry = Registry::new(&settings.sources, &settings.destinations);
        let (failure, stop, cut, deliveries) =
            (Failure::default(), CancellationToken::new(), CancellationToken::new(), TaskTracker::new());
        let owner = fresh_owner(&*clock);
        store.beat(&owner, clock.now()).await?;
        let limits = &settings.limits;
        let wakers = Wakers::new(settings.destinations.iter().map(|destination| destination.name.as_str()));

        let (writer, writer_loop) =
            Writer::new(Arc::clone(&store), wakers.clone(), failure.clone(), limits.queue_events, limits.queue_bytes);
        let of_destination: HashMap<_, _> = settings
            .destinations
            .iter()
            .map(|destination| (destination.name.clone(), DestinationMetrics::new(&destination.name)))
            .collect();
        let (endings, settler) = Settler::new(
            Arc::clone(&store),
            Arc::clone(&clock),
            failure.clone(),
            wakers.clone(),
            Arc::new(of_destination),
        );
        let shared = Shared {
            store: Arc::clone(&store),
            clock: Arc::clone(&clock),
            failure: failure.clone(),
            registry: registry.clone(),
            deliver: Deliver::new(registry.clone(), Arc::clone(&clock), limits.excerpt_bytes),
            endings,
            owner: owner.as_str().into(),
            lease: limits.lease,
            poll: limits.poll,
            gate: Arc::new(RwLock::new(())),
            tasks: deliveries.clone(),
            cut: cut.clone(),
        };
        let refusals = Refusals::default();
        let gateway = Gateway {
            registry: registry.clone(),
            writer,
            clock: Arc::clone(&clock),
            refusals: refusals.clone(),
            metrics: settings
                .sources
                .iter()
                .map(|source| (source.name.clone(), SourceMetrics::new(&source.name)))
                .collect(),
            body_bytes: limits.body_bytes,
            body_timeout: limits.body_timeout,
        };
        let health = Health::new(Arc::clone(&store), Arc::clone(&clock), failure.clone(), &owner, stop.clone());
        let http = HttpLimits { header_timeout: limits.header_timeout, connections: limits.connections };
        let (ingest_address, admin_address) = (ingest.address(), admin.address());
        let admin_router = admin_router(Admin {
            health: health.clone(),
            metrics,
            hosts: settings.admin_hosts.clone().into(),
            address: admin_address,
        });
        let chores = Chores {
            store,
            clock: Arc::clone(&clock),
            failure: failure.clone(),
            registry: registry.clone(),
            refusals,
            keep_bodies: settings.retention.bodies,
        };

        let (loops, workers, stop_chores) = (TaskTracker::new(), TaskTracker::new(), CancellationToken::new());
        let writer = tokio::spawn(writer_loop.run());
        let settler = tokio::spawn(settler.run());
        let chores = tokio::spawn(chores.run(stop_chores.clone()));
        for destination in &settings.destinations {
            let metrics = Arc::new(DestinationMetrics::new(&destination.name));
            let worker = Worker::new(shared.clone(), destination, wakers.bell(&destination.name), metrics);
            workers.spawn(worker.run(stop.clone()));
        }
        drop(shared);
        loops.spawn(ingest.serve(webhook_router(Arc::new(gateway), health), http, Arc::clone(&clock), stop.clone()));
        loops.spawn(admin.serve(admin_router, http, clock, stop.clone()));
        loops.close();
        workers.close();
        let parts = Parts { loops, workers, settler, writer, chores, stop_chores };
        Ok(Self {
            opened,
            registry,
            ingest_address,
            admin_address,
            failure,
            stop,
            deliveries,
            cut,
            grace: limits.grace,
            parts,
        })
    }

    /// Where Stripe's requests are taken, in fact.
    pub fn ingest_address(&self) -> SocketAddr {
        self.ingest_address
    }

    /// Where health and metrics are answered, in fact.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// The inbox.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.opened.store
    }

    /// Takes new secrets, filters and addresses of known sources and destinations from the next
    /// request on; requests under way keep what they began with.
    pub fn reload(&self, settings: &Settings) {
        self.registry.replace(&settings.sources, &settings.destinations);
    }

    /// Returns when the disk has failed under the database, and not before.
    pub async fn fatal(&self) {
        self.failure.fatal().await;
    }

    /// Stops: no new request, no new claim; what is open may finish within the grace time, and
    /// the rest is handed back.
    pub async fn stop(self) -> Ended {
        self.stop.cancel();
        self.deliveries.close();
        let finish = async {
            self.parts.loops.wait().await;
            self.parts.workers.wait().await;
            self.deliveries.wait().await;
        };
        if tokio::time::timeout(self.grace, finish).await.is_err() {
            warn!(open = self.deliveries.len(), "the time for stopping is over; what is open is handed back");
            self.cut.cancel();
        }
        let hand_back = async {
            self.parts.workers.wait().await;
            self.deliveries.wait().await;
            drop(self.parts.settler.await);
            self.parts.stop_chores.cancel();
            drop(self.parts.chores.await);
        };
        if tokio::time::timeout(STOP_MARGIN, hand_back).await.is_err() {
            warn!("deliveries were cut off; they are due again when their leases end");
        }
        self.parts.writer.abort();
        self.opened.store.close().await;
        info!("stopped");
        if self.failure.is_fatal() { Ended::MustRestart } else { Ended::Stopped }
    }
}

/// How long handing back may take once the grace time is over.
const STOP_MARGIN: Duration = Duration::from_secs(5);

/// An id that no other start of any process has: a fixed host name must not make an old lease look
/// like our own.
fn fresh_owner(clock: &dyn Clock) -> String {
    format!("{:x}-{:x}", clock.now().as_millis(), std::process::id())
}
