//! Accepts, reads, and answers as the script says.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::debug;

use super::answer::{AnswerBody, BrokenOff, Content, Cut};
use super::arrival::{Arrival, BODY_BYTES_MAX};
use super::behaviour::{Behaviour, Reply};
use super::connection::Link;
use super::records::Records;
use crate::clock;

/// How long to leave the system alone when it refuses a connection, such as for want of handles.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Accepts connections until it is stopped.
pub(super) async fn accept(listener: TcpListener, records: Arc<Records>, stop: CancellationToken, tasks: TaskTracker) {
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let number = records.accepted.fetch_add(1, SeqCst) + 1;
                tasks.spawn(serve(stream, Arc::new(Link::new(number)), Arc::clone(&records), stop.clone()));
            }
            Err(error) => {
                debug!(%error, "the pretend app could not accept a connection");
                clock::sleep_until(clock::instant() + ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, link: Arc<Link>, records: Arc<Records>, stop: CancellationToken) {
    let held = records.open.hold();
    let service = service_fn(|request| answer(Arc::clone(&records), Arc::clone(&link), request));
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
}

async fn answer(
    records: Arc<Records>,
    link: Arc<Link>,
    request: Request<Incoming>,
) -> Result<Response<AnswerBody>, BrokenOff> {
    let held = records.in_flight.hold();
    link.is_busy();
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, BODY_BYTES_MAX).collect().await.map_err(|_| BrokenOff)?.to_bytes();
    let mut arrival = Arrival::read(parts, &body, &records.secrets, records.tolerance, clock::now());
    arrival.connection = link.number;
    let arrival = records.keep(arrival, body);
    let behaviour = if arrival.is_refused() {
        Reply::new(400).body("the signature does not verify").into()
    } else {
        records.script().choose(&arrival)
    };
    let (reply, content) = match behaviour {
        Behaviour::Answer(reply) => (reply, None),
        Behaviour::Slow { wait, reply } => {
            clock::sleep_until(clock::instant() + wait).await;
            (reply, None)
        }
        Behaviour::Held { until, reply } => {
            until.cancelled().await;
            (reply, None)
        }
        Behaviour::Hang => std::future::pending().await,
        Behaviour::Drip { status, bytes, every } => (Reply::new(status), Some(Content::drip(bytes, every))),
        Behaviour::Huge { status, bytes } => (Reply::new(status), Some(Content::Huge { left: bytes })),
        Behaviour::Cut => return Err(BrokenOff),
        Behaviour::LoseAnswer { status } => {
            records.answered(&arrival, status);
            return Err(BrokenOff);
        }
        Behaviour::CutShort { status } => (Reply::new(status), Some(Content::CutShort(Cut::AfterHalf))),
        Behaviour::CloseAfterIdle { idle, reply } => {
            link.close_after(idle);
            (reply, None)
        }
    };
    records.answered(&arrival, reply.status.as_u16());
    let mut response = Response::new(AnswerBody::new(content.unwrap_or(Content::Whole(reply.body)), held));
    *response.status_mut() = reply.status;
    response.headers_mut().extend(reply.headers);
    Ok(response)
}
