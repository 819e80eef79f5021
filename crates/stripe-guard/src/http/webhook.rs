//! `POST /webhooks/{source}`: limits, signature, store, answer. Nothing else.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use stripe_guard_core::{Inbound, SignatureError, signature};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::{debug, warn};

use super::health::Health;
use super::refusals::Refusals;
use crate::clock::Clock;
use crate::registry::{Registry, SourceEntry};
use crate::store::{Arrival, Ingested};
use crate::telemetry::SourceMetrics;
use crate::writer::{NotStored, Writer};

/// An event that Stripe waits on: the app's own answer decides a card payment (Stripe's "Issuing
/// authorization webhooks" page), and an inbox answers before the app does.
const ANSWERED_BY_THE_APP: &str = "issuing_authorization.request";

/// What a delivery of ours carries; see `deliver`.
const INSTANCE: HeaderName = HeaderName::from_static("stripe-guard-instance");

/// A stored event's bytes are taken up to this size at first; more is taken as it comes.
const BODY_GUESS_MAX: usize = 64 * 1024;

/// What the webhook endpoint works with.
pub struct Gateway {
    /// Sources and where they lead.
    pub registry: Registry,
    /// The way into the store.
    pub writer: Writer,
    /// The machine's time, which signatures are judged by.
    pub clock: Arc<dyn Clock>,
    /// The time that all processes agree on, which an event arrives at.
    pub store_clock: Arc<dyn Clock>,
    /// What was turned away.
    pub refusals: Refusals,
    /// By source name.
    pub metrics: std::collections::HashMap<String, SourceMetrics>,
    /// The largest body, in bytes.
    pub body_bytes: usize,
    /// From the end of the headers to the end of the body.
    pub body_timeout: Duration,
    /// Bytes of bodies that are being read: what unverified requests may make us hold together.
    pub reading: Arc<Semaphore>,
    /// This inbox's own id.
    pub instance: Arc<str>,
}

/// The size of [`Gateway::reading`].
pub const READING_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Why a request was not stored, and what its sender is told. The reason is counted, not told: it
/// would help nobody but a forger.
#[derive(Debug)]
enum Refused {
    UnknownPath,
    Method,
    Loop,
    Encoding,
    Busy,
    Slow,
    CutOff,
    TooLarge,
    Signature(SignatureError),
    NotStored(NotStored),
}

impl Refused {
    fn status(&self) -> StatusCode {
        match self {
            Self::UnknownPath => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Loop => StatusCode::LOOP_DETECTED,
            Self::Encoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::CutOff | Self::Signature(_) => StatusCode::BAD_REQUEST,
            Self::Busy | Self::NotStored(_) => StatusCode::SERVICE_UNAVAILABLE, // Stripe sends it again.
        }
    }

    fn class(&self) -> &'static str {
        match self {
            Self::UnknownPath => "unknown_path",
            Self::Method => "method",
            Self::Loop => "own_delivery",
            Self::Encoding => "content_encoding",
            Self::Busy => "too_much_at_once",
            Self::Slow => "slow_body",
            Self::CutOff => "cut_off",
            Self::TooLarge => "too_large",
            Self::Signature(error) => error.class(),
            Self::NotStored(reason) => reason.class(),
        }
    }

    fn skew_seconds(&self) -> Option<i64> {
        match self {
            Self::Signature(SignatureError::OutsideTolerance { skew_seconds }) => Some(*skew_seconds),
            _ => None,
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        match self {
            // What is left of the body is not read, so the connection cannot be used again.
            Self::TooLarge | Self::Slow | Self::Encoding | Self::Busy => {
                response.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
            }
            Self::Method => {
                response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static("POST"));
            }
            _ => {}
        }
        response
    }
}

/// The ingest listener's routes.
pub fn router(gateway: Arc<Gateway>, health: Health) -> Router {
    Router::new()
        .route("/healthz", get(|| async { StatusCode::OK }))
        .route("/readyz", get(|| async move { health.ready().await }))
        .fallback(receive)
        .with_state(gateway)
}

async fn receive(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    let table = gateway.registry.table();
    let entry = table.source_at(request.uri().path());
    let answer = match entry {
        Some(entry) => gateway.take(entry, request).await,
        None => Err(Refused::UnknownPath),
    };
    match answer {
        Ok(status) => status.into_response(),
        Err(refused) => {
            let source = entry.map_or("", |entry| entry.source.name.as_str());
            debug!(source.name = source, reason = refused.class(), "a request was refused");
            gateway.refusals.count(source, refused.class(), gateway.clock.now(), refused.skew_seconds());
            refused.into_response()
        }
    }
}

impl Gateway {
    async fn take(&self, entry: &SourceEntry, request: Request) -> Result<StatusCode, Refused> {
        if request.method() != Method::POST {
            return Err(Refused::Method);
        }
        let (parts, body) = request.into_parts();
        // A delivery of ours that leads back here would be taken for a copy, and count as delivered.
        if parts.headers.get(INSTANCE).is_some_and(|id| id.as_bytes() == self.instance.as_bytes()) {
            return Err(Refused::Loop);
        }
        if parts.headers.get(header::CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
            return Err(Refused::Encoding);
        }
        let read = self.read(body, announced_length(&parts.headers));
        let (body, reading) = tokio::time::timeout(self.body_timeout, read).await.map_err(|_| Refused::Slow)??;
        let began = tokio::time::Instant::now();
        let now = self.clock.now();
        let source = &entry.source;
        let header = signature_header(&parts.headers);
        let verified =
            signature::verify(body, &header, &source.secrets, now, source.tolerance).map_err(Refused::Signature)?;
        // From here on the writer's queue bounds what is held.
        drop(reading);
        let skew = verified.skew_seconds();
        let inbound = Inbound::webhook(&source.name, verified, self.store_clock.now());
        let (intake, destinations) = entry.route(inbound.envelope());
        let note = inbound.envelope().is_none_or(|envelope| envelope.event_type.as_str() == ANSWERED_BY_THE_APP);
        let noted = note.then(|| inbound.key().clone());
        let ingested =
            self.writer.accept(Arrival { inbound, intake, destinations }).await.map_err(Refused::NotStored)?;
        if let Some(metrics) = self.metrics.get(&source.name) {
            metrics.skew(skew);
            match ingested {
                Ingested::New { .. } => metrics.stored(intake, began.elapsed()),
                Ingested::Duplicate { .. } => metrics.duplicate(began.elapsed()),
            }
        }
        if let (Some(key), Ingested::New { .. }) = (noted, ingested) {
            let name = source.name.clone();
            // On a task of its own: a log that is slow to take a line must not hold up the answer.
            tokio::spawn(async move {
                warn!(source.name = %name, event.key = %key, intake = intake.as_str(), "stored a request that is no event, or one that Stripe expects the app itself to answer");
            });
        }
        Ok(StatusCode::OK)
    }

    async fn read(&self, mut body: Body, announced: Option<usize>) -> Result<(Bytes, Held), Refused> {
        if announced.is_some_and(|length| length > self.body_bytes) {
            return Err(Refused::TooLarge);
        }
        // The usual body comes in one piece and is passed on as it came, without a copy.
        let mut whole: Option<Bytes> = None;
        let mut pieces = BytesMut::new();
        let mut held = Held(None);
        while let Some(frame) = body.frame().await {
            let Ok(piece) = frame.map_err(|_| Refused::CutOff)?.into_data() else { continue };
            if pieces.len() + whole.as_ref().map_or(0, Bytes::len) + piece.len() > self.body_bytes {
                return Err(Refused::TooLarge);
            }
            held.add(&self.reading, piece.len())?;
            if whole.is_none() && pieces.is_empty() {
                whole = Some(piece);
                continue;
            }
            if let Some(first) = whole.take() {
                pieces.reserve(
                    announced
                        .unwrap_or(0)
                        .clamp(first.len() + piece.len(), BODY_GUESS_MAX.max(first.len() + piece.len())),
                );
                pieces.extend_from_slice(&first);
            }
            pieces.extend_from_slice(&piece);
        }
        Ok((whole.unwrap_or_else(|| pieces.freeze()), held))
    }
}

/// A request's part of [`Gateway::reading`], given back when it goes.
struct Held(Option<OwnedSemaphorePermit>);

impl Held {
    fn add(&mut self, reading: &Arc<Semaphore>, bytes: usize) -> Result<(), Refused> {
        let bytes = u32::try_from(bytes).map_err(|_| Refused::TooLarge)?;
        let more = Arc::clone(reading).try_acquire_many_owned(bytes).map_err(|_| Refused::Busy)?;
        match &mut self.0 {
            Some(permit) => permit.merge(more),
            none => *none = Some(more),
        }
        Ok(())
    }
}

fn announced_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Lines of one name are one list (RFC 9110, 5.3), also when a proxy has split it.
fn signature_header(headers: &HeaderMap) -> Vec<u8> {
    const NAME: HeaderName = HeaderName::from_static("stripe-signature");
    let mut joined = Vec::new();
    for line in headers.get_all(NAME) {
        if !joined.is_empty() {
            joined.push(b',');
        }
        joined.extend_from_slice(line.as_bytes());
    }
    joined
}
