//! The running whole: opens, binds, starts, and stops in order.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{RwLock, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::chores::Chores;
use crate::clock::Clock;
use crate::deliver::Deliver;
use crate::failure::Failure;
use crate::http::{
    Admin, Gateway, Health, HttpLimits, Listener, READING_BYTES_MAX, Refusals, admin_router, webhook_router,
};
use crate::open::open;
use crate::registry::Registry;
use crate::settings::{LEASE_MARGIN, Settings};
use crate::settler::Settler;
use crate::slots::Slots;
use crate::store::{Opened, Store, StoreError};
use crate::store_clock::StoreClock;
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
    clock: Arc<dyn Clock>,
    grace: Duration,
    lease: Duration,
    destinations: HashSet<String>,
    parts: Parts,
}

impl Engine {
    /// Starts everything, or nothing: the addresses are bound and the inbox is open before any
    /// part runs.
    pub async fn start(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        let bind = |address| Listener::bind(address).map_err(|reason| StartError::Bind { address, reason });
        let (ingest, admin) = (bind(settings.listen)?, bind(settings.admin_listen)?);
        let opened = open(&settings.database, true, true).await?;
        Self::start_with(settings, clock, opened, ingest, admin).await
    }

    /// Starts on an inbox that is open already, however it was opened.
    #[cfg(feature = "testing")]
    pub async fn start_on(opened: Opened, settings: &Settings, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        let bind = |address| Listener::bind(address).map_err(|reason| StartError::Bind { address, reason });
        let (ingest, admin) = (bind(settings.listen)?, bind(settings.admin_listen)?);
        Self::start_with(settings, clock, opened, ingest, admin).await
    }

    async fn start_with(
        settings: &Settings,
        clock: Arc<dyn Clock>,
        opened: Opened,
        ingest: Listener,
        admin: Listener,
    ) -> Result<Self, StartError> {
        telemetry::recorder();
        let machine = clock;
        let clock = Arc::new(StoreClock::new(Arc::clone(&machine)));
        clock.sample(&*opened.store).await?;
        let owner = fresh_owner(&*clock);
        opened.store.beat(&owner, clock.now()).await?;
        let instance = opened.store.instance_id().await?.into();
        let start = Starting {
            instance,
            settings,
            store: Arc::clone(&opened.store),
            machine,
            clock,
            // None before the store has dealt them; see `Chores::share`.
            slots: Arc::new(
                settings.destinations.iter().map(|one| (one.name.clone(), Arc::new(Slots::new(0)))).collect(),
            ),
            owner,
            registry: Registry::new(&settings.sources, &settings.destinations),
            wakers: Wakers::new(settings.destinations.iter().map(|destination| destination.name.as_str())),
            refusals: Refusals::default(),
            failure: Failure::default(),
            stop: CancellationToken::new(),
            cut: CancellationToken::new(),
            deliveries: TaskTracker::new(),
        };
        let (ingest_address, admin_address) = (ingest.address(), admin.address());
        let chores = start.chores();
        chores.share().await?;
        let settler = start.spawn_workers();
        let parts = start.spawn_rest(ingest, admin, settler, chores);
        let Starting { clock, registry, failure, stop, cut, deliveries, .. } = start;
        let grace = settings.limits.grace;
        Ok(Self {
            opened,
            registry,
            ingest_address,
            admin_address,
            failure,
            stop,
            deliveries,
            cut,
            clock: clock as Arc<dyn Clock>,
            grace,
            lease: settings.limits.lease,
            destinations: settings.destinations.iter().map(|one| one.name.clone()).collect(),
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
    ///
    /// A destination that is new has no worker before the next start, so nothing is led to it; a
    /// time-out that the present lease does not cover is shortened to what it does.
    pub fn reload(&self, settings: &Settings) {
        let mut destinations = settings.destinations.clone();
        destinations.retain(|destination| self.destinations.contains(&destination.name));
        let longest = self.lease.saturating_sub(LEASE_MARGIN);
        for destination in &mut destinations {
            destination.timeout = destination.timeout.min(longest);
        }
        self.registry.replace(&settings.sources, &destinations);
    }

    /// Returns when the disk has failed under the database, and not before.
    pub async fn fatal(&self) {
        self.failure.fatal().await;
    }

    /// Stops: no new request, no new claim; what is open may finish within the grace time, and
    /// the rest is handed back. Once the disk has failed nothing can be recorded any more, so that
    /// nothing is waited for but the answers to the requests under way.
    pub async fn stop(self) -> Ended {
        self.stop.cancel();
        self.deliveries.close();
        let finish = async {
            self.parts.loops.wait().await;
            self.parts.workers.wait().await;
            self.deliveries.wait().await;
        };
        let over = async {
            let failed = tokio::time::timeout(self.grace, self.failure.fatal()).await;
            if failed.is_ok() {
                self.clock.sleep(FAILED_GRACE).await;
            }
        };
        let finished = tokio::select! {
            () = finish => true,
            () = over => false,
        };
        if !finished {
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
        let margin = if self.failure.is_fatal() { FAILED_GRACE } else { STOP_MARGIN };
        if tokio::time::timeout(margin, hand_back).await.is_err() {
            warn!("deliveries were cut off; they are due again when their leases end");
        }
        self.parts.writer.abort();
        if tokio::time::timeout(margin, self.opened.store.close()).await.is_err() {
            warn!("the store is still busy; whatever it does is left to the database to undo");
        }
        info!("stopped");
        if self.failure.is_fatal() { Ended::MustRestart } else { Ended::Stopped }
    }
}

/// How long handing back may take once the grace time is over.
const STOP_MARGIN: Duration = Duration::from_secs(5);

/// How long each step of stopping may take once the disk has failed: to be away is worse then than
/// to send something twice.
const FAILED_GRACE: Duration = Duration::from_secs(1);

/// An id that no other start of any process has: a fixed host name must not make an old lease look
/// like our own.
fn fresh_owner(clock: &dyn Clock) -> String {
    // Two containers may start in one millisecond, each as process 1: the hasher's keys are random.
    let random = RandomState::new().build_hasher().finish();
    format!("{:x}-{:x}-{random:x}", clock.now().as_millis(), std::process::id())
}

/// What the parts are made of.
struct Starting<'s> {
    settings: &'s Settings,
    store: Arc<dyn Store>,
    /// The machine's time.
    machine: Arc<dyn Clock>,
    /// The time that all processes agree on.
    clock: Arc<StoreClock>,
    slots: Arc<HashMap<String, Arc<Slots>>>,
    owner: String,
    instance: Arc<str>,
    registry: Registry,
    wakers: Wakers,
    refusals: Refusals,
    failure: Failure,
    stop: CancellationToken,
    cut: CancellationToken,
    deliveries: TaskTracker,
}

impl Starting<'_> {
    fn chores(&self) -> Chores {
        Chores {
            store: Arc::clone(&self.store),
            clock: Arc::clone(&self.clock),
            slots: Arc::clone(&self.slots),
            failure: self.failure.clone(),
            registry: self.registry.clone(),
            refusals: self.refusals.clone(),
            keep_bodies: self.settings.retention.bodies,
            owner: self.owner.as_str().into(),
        }
    }

    fn spawn_workers(&self) -> (TaskTracker, tokio::task::JoinHandle<()>) {
        let metrics: HashMap<_, _> = self
            .settings
            .destinations
            .iter()
            .map(|destination| (destination.name.clone(), Arc::new(DestinationMetrics::new(&destination.name))))
            .collect();
        let metrics = Arc::new(metrics);
        let (endings, settler) = Settler::new(
            Arc::clone(&self.store),
            Arc::clone(&self.clock) as Arc<dyn Clock>,
            self.failure.clone(),
            self.wakers.clone(),
            Arc::clone(&metrics),
        );
        let limits = &self.settings.limits;
        let shared = Shared {
            store: Arc::clone(&self.store),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            failure: self.failure.clone(),
            registry: self.registry.clone(),
            deliver: Deliver::new(
                self.registry.clone(),
                Arc::clone(&self.machine),
                Arc::clone(&self.instance),
                limits.excerpt_bytes,
            ),
            endings,
            owner: self.owner.as_str().into(),
            lease: limits.lease,
            poll: limits.poll,
            gate: Arc::new(RwLock::new(())),
            tasks: self.deliveries.clone(),
            cut: self.cut.clone(),
        };
        let workers = TaskTracker::new();
        for (destination, bell) in self.settings.destinations.iter().map(|one| (one, self.wakers.bell(&one.name))) {
            let metrics = Arc::clone(&metrics[&destination.name]);
            let slots = Arc::clone(&self.slots[&destination.name]);
            workers.spawn(Worker::new(shared.clone(), destination, bell, slots, metrics).run(self.stop.clone()));
        }
        workers.close();
        (workers, tokio::spawn(settler.run()))
    }

    fn spawn_rest(
        &self,
        ingest: Listener,
        admin: Listener,
        (workers, settler): (TaskTracker, tokio::task::JoinHandle<()>),
        chores: Chores,
    ) -> Parts {
        let limits = &self.settings.limits;
        let (writer, writer_loop) = Writer::new(
            Arc::clone(&self.store),
            self.wakers.clone(),
            self.failure.clone(),
            limits.queue_events,
            limits.queue_bytes,
        );
        let health = Health::new(
            Arc::clone(&self.store),
            Arc::clone(&self.clock) as Arc<dyn Clock>,
            self.failure.clone(),
            &self.owner,
            self.stop.clone(),
        );
        let of_source = |name: &String| (name.clone(), SourceMetrics::new(name));
        let gateway = Gateway {
            registry: self.registry.clone(),
            writer,
            clock: Arc::clone(&self.machine),
            store_clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            refusals: self.refusals.clone(),
            metrics: self.settings.sources.iter().map(|source| of_source(&source.name)).collect(),
            body_bytes: limits.body_bytes,
            body_timeout: limits.body_timeout,
            reading: Arc::new(Semaphore::new(READING_BYTES_MAX)),
            instance: Arc::clone(&self.instance),
        };
        let admin_routes = admin_router(Admin {
            health: health.clone(),
            metrics: telemetry::recorder(),
            hosts: self.settings.admin_hosts.clone().into(),
            address: admin.address(),
        });
        let http = HttpLimits { header_timeout: limits.header_timeout, connections: limits.connections };
        let (loops, stop_chores) = (TaskTracker::new(), CancellationToken::new());
        let ingest_routes = webhook_router(Arc::new(gateway), health);
        loops.spawn(ingest.serve(ingest_routes, http, Arc::clone(&self.machine), self.stop.clone()));
        loops.spawn(admin.serve(admin_routes, http, Arc::clone(&self.machine), self.stop.clone()));
        loops.close();
        let chores = tokio::spawn(chores.run(stop_chores.clone()));
        Parts { loops, workers, settler, writer: tokio::spawn(writer_loop.run()), chores, stop_chores }
    }
}
