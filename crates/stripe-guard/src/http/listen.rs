//! The accept loop: what a client may hold, and for how long.
//!
//! `axum::serve` installs no timer, so a client that sends its headers slowly would hold its
//! connection for ever.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::clock::Clock;
use crate::telemetry;

/// What one connection's headers may make us hold; Stripe's need about 1 KiB.
const HEADERS_BYTES_MAX: usize = 64 * 1024;

/// Requests at once on one HTTP/2 connection.
const STREAMS_MAX: u32 = 256;

/// Connections that the kernel keeps for us while we are busy.
const BACKLOG: u32 = 1024;

/// The pause after a failed accept: out of file handles, most likely.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Between two looks at a connection that has sent a part of HTTP/2's preface.
const PREFACE_PAUSE: Duration = Duration::from_millis(20);

/// Bounds of a listener.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// From the start of a connection, or the end of its last answer, to the end of the headers.
    pub header_timeout: Duration,
    /// Open connections at once.
    pub connections: usize,
}

/// A bound address.
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Binds an address; port 0 takes a free one.
    pub fn bind(address: SocketAddr) -> std::io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // A restart must not wait for old connections to be forgotten; a second process is still refused.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// The address in fact.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until told to stop, then answers the requests in progress and closes the rest.
    pub async fn serve(self, router: Router, limits: HttpLimits, clock: Arc<dyn Clock>, stop: CancellationToken) {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_timeout)
            .max_buf_size(HEADERS_BYTES_MAX)
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(Some(limits.header_timeout))
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(u32::try_from(HEADERS_BYTES_MAX).unwrap_or(u32::MAX));
        let builder = Arc::new(builder);
        let service = TowerToHyperService::new(router);
        let slots = Arc::new(Semaphore::new(limits.connections));
        let graceful = GracefulShutdown::new();
        let opening = Opening { header_timeout: limits.header_timeout, stop: stop.clone(), clock: Arc::clone(&clock) };
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    warn!(%error, "a connection could not be accepted");
                    clock.sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
                telemetry::connection_refused();
                continue;
            };
            serve_connection(stream, slot, &builder, service.clone(), &graceful, opening.clone());
        }
        drop(self.listener);
        graceful.shutdown().await;
    }
}

/// How long a connection may be silent at first, and what ends that sooner.
#[derive(Clone)]
struct Opening {
    header_timeout: Duration,
    stop: CancellationToken,
    clock: Arc<dyn Clock>,
}

fn serve_connection(
    stream: TcpStream,
    slot: tokio::sync::OwnedSemaphorePermit,
    builder: &Arc<auto::Builder<TokioExecutor>>,
    service: TowerToHyperService<Router>,
    graceful: &GracefulShutdown,
    opening: Opening,
) {
    // Answers are small and must not wait for more.
    drop(stream.set_nodelay(true));
    let builder = Arc::clone(builder);
    let watcher = graceful.watcher();
    tokio::spawn(async move {
        // hyper-util has no timer for the bytes that tell the versions apart.
        let spoke = tokio::select! {
            () = opening.stop.cancelled() => return,
            spoke = tokio::time::timeout(opening.header_timeout, version_is_clear(&stream, &*opening.clock)) => spoke,
        };
        if !matches!(spoke, Ok(Ok(()))) {
            return;
        }
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        if let Err(error) = watcher.watch(connection.into_owned()).await {
            debug!(error = &*error as &dyn std::error::Error, "a connection ended badly");
        }
        drop(slot);
    });
}

/// What an HTTP/2 client says first (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Returns once the client has sent enough to tell HTTP/2 from HTTP/1, or has hung up.
async fn version_is_clear(stream: &TcpStream, clock: &dyn Clock) -> std::io::Result<()> {
    let mut seen = [0; PREFACE.len()];
    loop {
        let count = stream.peek(&mut seen).await?;
        if count == 0 || count == PREFACE.len() || !PREFACE.starts_with(&seen[..count]) {
            return Ok(());
        }
        // A part of the preface is there and peeking does not wait for more; nobody but a test
        // or a foe sends it in pieces.
        clock.sleep(PREFACE_PAUSE).await;
    }
}
