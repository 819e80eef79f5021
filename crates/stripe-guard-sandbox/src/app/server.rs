//! The pretend app as a server on this machine.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use stripe_guard_core::{SigningSecret, Tolerance};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::debug;

use super::answer::{AnswerBody, BrokenOff, Content, Cut};
use super::arrival::{Arrival, BODY_BYTES_MAX};
use super::behaviour::{Behaviour, Reply, Script};
use super::connection::Link;
use super::gauge::{Gauge, Held};
use crate::clock;
use crate::ledger::Ledger;

/// As many requests are kept unless told otherwise; of more, the oldest are dropped. The counts by
/// event have no such limit.
pub const ARRIVALS_KEPT: usize = 100_000;

/// How a pretend app is set up.
#[derive(Clone, Debug)]
pub struct AppOptions {
    /// The port on 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// The secrets to verify with; without any the app does not verify.
    pub secrets: Vec<SigningSecret>,
    /// How far the signed time may be off.
    pub tolerance: Tolerance,
    /// What it does with a request; one with a bad signature is answered 400 and never gets there.
    pub script: Script,
    /// How many requests it keeps to be looked at, [`ARRIVALS_KEPT`] by default.
    pub arrivals_kept: usize,
    /// Whether it keeps their bodies as well.
    pub keep_bodies: bool,
    /// A file that its ledger appends to, for another process to read.
    pub ledger: Option<PathBuf>,
}

impl Default for AppOptions {
    fn default() -> Self {
        Self {
            port: 0,
            secrets: Vec::new(),
            tolerance: Tolerance::default(),
            script: Script::always(200),
            arrivals_kept: ARRIVALS_KEPT,
            keep_bodies: false,
            ledger: None,
        }
    }
}

impl AppOptions {
    /// Verifies with these secrets and answers 200.
    pub fn verifying(secrets: impl IntoIterator<Item = SigningSecret>) -> Self {
        Self { secrets: secrets.into_iter().collect(), ..Self::default() }
    }
}

/// A pretend app, listening on 127.0.0.1 until it is stopped or dropped.
#[derive(Debug)]
pub struct App {
    shared: Arc<Shared>,
    address: SocketAddr,
    stop: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Debug)]
struct Shared {
    secrets: Vec<SigningSecret>,
    tolerance: Tolerance,
    arrivals_kept: usize,
    keep_bodies: bool,
    script: RwLock<Script>,
    seen: Mutex<Seen>,
    ledger: Ledger,
    in_flight: Arc<Gauge>,
    open: Arc<Gauge>,
    accepted: AtomicU64,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Seen {
    arrivals: VecDeque<Arc<Arrival>>,
    by_event: HashMap<String, u32>,
    all: u64,
}

impl App {
    /// Starts an app. It needs a tokio runtime to live in.
    pub async fn start(options: AppOptions) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await?;
        let address = listener.local_addr()?;
        let ledger = match &options.ledger {
            Some(path) => Ledger::appending_to(path)?,
            None => Ledger::new(),
        };
        let shared = Arc::new(Shared {
            secrets: options.secrets,
            tolerance: options.tolerance,
            arrivals_kept: options.arrivals_kept,
            keep_bodies: options.keep_bodies,
            script: RwLock::new(options.script),
            seen: Mutex::default(),
            ledger,
            in_flight: Arc::default(),
            open: Arc::default(),
            accepted: AtomicU64::new(0),
            changed: Notify::new(),
        });
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        tasks.spawn(accept(listener, Arc::clone(&shared), stop.clone(), tasks.clone()));
        Ok(Self { shared, address, stop, tasks })
    }

    /// Where to deliver to. Every path of the app does the same.
    pub fn url(&self) -> String {
        format!("http://{}/webhooks", self.address)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// From the next request on it behaves like this.
    pub fn set_behaviour(&self, script: impl Into<Script>) {
        *self.shared.script.write().unwrap_or_else(PoisonError::into_inner) = script.into();
    }

    /// The requests that it has read and kept, in the order of reading.
    pub fn requests(&self) -> Vec<Arc<Arrival>> {
        self.shared.seen().arrivals.iter().cloned().collect()
    }

    /// How many requests it has read.
    pub fn arrivals(&self) -> u64 {
        self.shared.seen().all
    }

    /// How many requests with this event it has read, refused ones left out.
    pub fn arrivals_of(&self, event_id: &str) -> u32 {
        self.shared.seen().by_event.get(event_id).copied().unwrap_or(0)
    }

    /// How many times it answered 2xx to this event: how often the effect took place.
    pub fn successes_of(&self, event_id: &str) -> u32 {
        self.shared.ledger.successes_of(event_id)
    }

    /// What it answered. An answer is noted just before it is sent.
    pub fn ledger(&self) -> &Ledger {
        &self.shared.ledger
    }

    /// The most requests that were in flight at once: from their head until their answer was out.
    pub fn max_in_flight(&self) -> usize {
        self.shared.in_flight.most()
    }

    /// How many requests are in flight now.
    pub fn in_flight(&self) -> usize {
        self.shared.in_flight.now()
    }

    /// How many TCP connections it has accepted.
    pub fn connections(&self) -> u64 {
        self.shared.accepted.load(SeqCst)
    }

    /// How many TCP connections are open now.
    pub fn open_connections(&self) -> usize {
        self.shared.open.now()
    }

    /// Waits until `condition` holds, looking after each arrival, each answer and each end of a
    /// connection; false if it does not hold within `limit`.
    pub async fn wait_until(&self, limit: Duration, condition: impl Fn(&Self) -> bool) -> bool {
        let wait = async {
            loop {
                let changed = self.shared.changed.notified();
                let mut changed = std::pin::pin!(changed);
                changed.as_mut().enable();
                if condition(self) {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(limit, wait).await.is_ok() || condition(self)
    }

    /// Waits until it has read so many requests; false if they do not come within `limit`.
    pub async fn wait_for_requests(&self, count: u64, limit: Duration) -> bool {
        self.wait_until(limit, |app| app.arrivals() >= count).await
    }

    /// Stops as a killed app does: connections are closed at once, requests in flight get no
    /// answer, and the port is free when this returns.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// How long to leave the system alone when it refuses a connection, such as for want of handles.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

async fn accept(listener: TcpListener, shared: Arc<Shared>, stop: CancellationToken, tasks: TaskTracker) {
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let number = shared.accepted.fetch_add(1, SeqCst) + 1;
                tasks.spawn(serve(stream, Arc::new(Link::new(number)), Arc::clone(&shared), stop.clone()));
            }
            Err(error) => {
                debug!(%error, "the pretend app could not accept a connection");
                clock::sleep_until(clock::instant() + ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, link: Arc<Link>, shared: Arc<Shared>, stop: CancellationToken) {
    let held = shared.open.hold();
    let service = service_fn(|request| answer(Arc::clone(&shared), Arc::clone(&link), request));
    let builder = auto::Builder::new(TokioExecutor::new());
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "the pretend app could not switch Nagle's algorithm off");
    }
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = link.idle_too_long() => {}
        ended = builder.serve_connection(TokioIo::new(stream), service) => {
            if let Err(error) = ended {
                debug!(error = error.as_ref(), "a connection of the pretend app ended early");
            }
        }
    }
    drop(held);
    shared.changed.notify_waiters();
}

async fn answer(
    shared: Arc<Shared>,
    link: Arc<Link>,
    request: Request<Incoming>,
) -> Result<Response<AnswerBody>, BrokenOff> {
    let held = shared.in_flight.hold();
    link.is_busy();
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, BODY_BYTES_MAX).collect().await.map_err(|_| BrokenOff)?.to_bytes();
    let mut arrival = Arrival::read(parts, &body, &shared.secrets, shared.tolerance, clock::now());
    arrival.connection = link.number;
    let arrival = shared.keep(arrival, body);
    let behaviour = if arrival.is_refused() {
        Reply::new(400).body("the signature does not verify").into()
    } else {
        let script = shared.script.read().unwrap_or_else(PoisonError::into_inner).clone();
        script.choose(&arrival)
    };
    let (reply, content) = match behaviour {
        Behaviour::Answer(reply) => (reply, None),
        Behaviour::Slow { wait, reply } => {
            clock::sleep_until(clock::instant() + wait).await;
            (reply, None)
        }
        Behaviour::Hang => std::future::pending().await,
        Behaviour::Drip { status, bytes, every } => (Reply::new(status), Some(Content::drip(bytes, every))),
        Behaviour::Huge { status, bytes } => (Reply::new(status), Some(Content::Huge { left: bytes })),
        Behaviour::Cut => return Err(BrokenOff),
        Behaviour::CutShort { status } => (Reply::new(status), Some(Content::CutShort(Cut::AfterHalf))),
        Behaviour::CloseAfterIdle { idle, reply } => {
            link.close_after(idle);
            (reply, None)
        }
    };
    Ok(shared.respond(&arrival, reply, content, held))
}

impl Shared {
    fn keep(&self, mut arrival: Arrival, body: Bytes) -> Arc<Arrival> {
        let mut seen = self.seen();
        seen.all += 1;
        if let Some(id) = arrival.event_id.as_ref().filter(|_| !arrival.is_refused()) {
            arrival.attempt = if let Some(count) = seen.by_event.get_mut(id) {
                *count += 1;
                *count
            } else {
                seen.by_event.insert(id.clone(), 1);
                1
            };
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

    fn respond(&self, arrival: &Arrival, reply: Reply, content: Option<Content>, held: Held) -> Response<AnswerBody> {
        self.ledger.record(arrival.event_id.as_deref().unwrap_or("-"), reply.status.as_u16());
        self.changed.notify_waiters();
        let content = content.unwrap_or(Content::Whole(reply.body));
        let mut response = Response::new(AnswerBody::new(content, held));
        *response.status_mut() = reply.status;
        response.headers_mut().extend(reply.headers);
        response
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
