//! A request as the pretend app saw it.

use bytes::Bytes;
use hyper::http::HeaderMap;
use hyper::http::request::Parts;
use stripe_guard_core::{Digest, SignatureError, SigningSecret, Timestamp, Tolerance, envelope, signature};

/// What the pretend app reads of one body.
pub const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A request as the pretend app saw it.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// When it had been read.
    pub at: Timestamp,
    /// Which of the accepted connections it came over; 1 is the first.
    pub connection: u64,
    /// Its method.
    pub method: String,
    /// Its path, with the query.
    pub path: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// What the signature proved: the label of the secret that matched, or why not. `None` when
    /// the app has no secrets and does not verify.
    pub verdict: Option<Result<String, SignatureError>>,
    /// The event's id as the body has it.
    pub event_id: Option<String>,
    /// The event's type as the body has it.
    pub event_type: Option<String>,
    /// How many requests with this event have come by now, this one included.
    pub attempt: u32,
    /// The digest of the body.
    pub digest: Digest,
    /// The body, if the app keeps bodies.
    pub body: Option<Bytes>,
}

impl Arrival {
    pub(super) fn read(
        parts: Parts,
        body: &Bytes,
        secrets: &[SigningSecret],
        tolerance: Tolerance,
        at: Timestamp,
    ) -> Self {
        let verdict = (!secrets.is_empty()).then(|| {
            let header = parts.headers.get("stripe-signature").map_or(&b""[..], |value| value.as_bytes());
            let verified = signature::verify(body.clone(), header, secrets, at, tolerance)?;
            Ok(verified.secret_label().to_owned())
        });
        let (event_id, event_type) = envelope::read(body)
            .map(|envelope| (envelope.id.as_str().to_owned(), envelope.event_type.as_str().to_owned()))
            .unzip();
        Self {
            at,
            connection: 0,
            method: parts.method.as_str().to_owned(),
            path: parts.uri.path_and_query().map_or_else(String::new, ToString::to_string),
            headers: parts.headers,
            verdict,
            event_id,
            event_type,
            attempt: 1,
            digest: Digest::of(body),
            body: None,
        }
    }

    /// A header's value, if it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Whether the signature was checked and good.
    pub fn is_verified(&self) -> bool {
        matches!(self.verdict, Some(Ok(_)))
    }

    /// Whether the signature was checked and bad.
    pub fn is_refused(&self) -> bool {
        matches!(self.verdict, Some(Err(_)))
    }
}
