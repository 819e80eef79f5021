//! One request to the app: what is sent, and what came of it.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER, USER_AGENT};
use stripe_guard_core::{Outcome, Timestamp, signature};

use crate::clock::Clock;
use crate::registry::Registry;
use crate::settings::Destination;
use crate::store::{Claim, EventRecord};

/// An answer longer than this is not read to its end: its status is the answer.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// As much is kept of where a redirect leads.
const LOCATION_CHARS_MAX: usize = 200;

/// A `Retry-After` is obeyed up to this long.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);

/// An idle connection is kept this long: less than the common 60 s of servers, so that we close
/// first and no request meets a closing door; also how long a moved host name goes unnoticed.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// The headers that carry the story of a delivery. An app may read them; none needs to.
mod names {
    use reqwest::header::HeaderName;

    macro_rules! names {
        ($($name:ident = $text:literal),+ $(,)?) => { $(pub(super) const $name: HeaderName = HeaderName::from_static($text);)+ };
    }

    names! {
        SIGNATURE = "stripe-signature",
        EVENT = "stripe-guard-event",
        DELIVERY = "stripe-guard-delivery",
        ATTEMPT = "stripe-guard-attempt",
        ROUND = "stripe-guard-round",
        FENCE = "stripe-guard-fence",
        SEQ = "stripe-guard-seq",
        SOURCE = "stripe-guard-source",
        ACCOUNT = "stripe-guard-account",
        OBJECT = "stripe-guard-object",
        CREATED = "stripe-guard-created",
        RECEIVED_AT = "stripe-guard-received-at",
        ORIGIN = "stripe-guard-origin",
        REPLAY = "stripe-guard-replay",
        VERSION_DIFFERS = "stripe-guard-version-differs",
        INSTANCE = "stripe-guard-instance",
        ANSWER = "stripe-guard-answer",
    }
}

/// What came of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The outcome.
    pub outcome: Outcome,
    /// The app's status, if it answered.
    pub status: Option<u16>,
    /// Why it failed, in words.
    pub error: Option<String>,
    /// The beginning of the app's answer.
    pub excerpt: Option<String>,
    /// How long the app asks us to wait, limited.
    pub retry_after: Option<Duration>,
}

impl Report {
    fn without_answer(outcome: Outcome, error: impl Into<String>) -> Self {
        Self { outcome, status: None, error: Some(error.into()), excerpt: None, retry_after: None }
    }
}

/// Sends claims to apps. One client, and its connections, for the life of the process; another for
/// each other connect time-out.
#[derive(Clone)]
pub struct Deliver {
    clients: Arc<Mutex<HashMap<Duration, reqwest::Client>>>,
    registry: Registry,
    clock: Arc<dyn Clock>,
    instance: Arc<str>,
    excerpt_bytes: usize,
}

impl Deliver {
    /// Signs with what the registry holds and names the inbox `instance`; keeps `excerpt_bytes` of
    /// each answer.
    pub fn new(registry: Registry, clock: Arc<dyn Clock>, instance: Arc<str>, excerpt_bytes: usize) -> Self {
        Self { clients: Arc::default(), registry, clock, instance, excerpt_bytes }
    }

    /// Makes one attempt. Never fails: what goes wrong is the outcome.
    pub async fn send(&self, destination: &Destination, claim: &Claim) -> Report {
        let (Some(event), Some(body)) = (claim.event(), claim.intact_body()) else {
            return Report::without_answer(
                Outcome::Internal,
                "the stored body is missing, or is not the one that was received",
            );
        };
        let headers = match self.headers(destination, claim, event, body) {
            Ok(headers) => headers,
            Err(problem) => return Report::without_answer(Outcome::Internal, problem),
        };
        let client = match self.client(destination.connect_timeout) {
            Ok(client) => client,
            Err(error) => return Report::without_answer(Outcome::Internal, reason(&error)),
        };
        let request = client.post(destination.url.clone()).headers(headers).body(body.clone());
        self.exchange(destination, request).await
    }

    /// Once the head of an answer has come its status decides, whatever becomes of the body: a 2xx
    /// says that the app has taken the event, and asking again would have it done twice.
    async fn exchange(&self, destination: &Destination, request: reqwest::RequestBuilder) -> Report {
        let began = tokio::time::Instant::now();
        let patience = destination.first_byte_timeout.min(destination.timeout);
        let mut response = match tokio::time::timeout(patience, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Report::without_answer(Outcome::Unreachable, reason(&error)),
            Err(_) => {
                let error = format!("no answer within {} s", patience.as_secs_f64());
                return Report::without_answer(Outcome::TimedOut, error);
            }
        };
        let status = response.status().as_u16();
        let done = response.headers().get(names::ANSWER).is_some_and(|answer| answer == "done");
        let outcome = if done { Outcome::Delivered } else { Outcome::of_status(status, &destination.final_statuses) };
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| self.wait_asked(value));
        let location = response.headers().get(LOCATION).map(|at| shortened(at.as_bytes()));
        let left = destination.timeout.saturating_sub(began.elapsed());
        let read = read_answer(&mut response, self.excerpt_bytes);
        let excerpt = tokio::time::timeout(left, read).await.ok().and_then(Result::ok).flatten();
        let error = (outcome != Outcome::Delivered).then(|| match location {
            Some(location) if (300..400).contains(&status) => {
                format!("HTTP {status}, a redirect to {location}, which is not followed")
            }
            _ => format!("HTTP {status}"),
        });
        Report { outcome, status: Some(status), error, excerpt, retry_after }
    }

    /// The whole request's head, from this list and nothing else.
    fn headers(
        &self,
        destination: &Destination,
        claim: &Claim,
        event: &EventRecord,
        body: &Bytes,
    ) -> Result<HeaderMap, String> {
        let table = self.registry.table();
        let secrets = table.signing_secrets(&destination.name, &event.source);
        if secrets.is_empty() {
            return Err(format!(
                "nothing to sign with: source {} is not configured and destination {} has no secrets",
                event.source, destination.name
            ));
        }
        let pinned = table.source(&event.source).and_then(|entry| entry.source.api_version.clone());
        let mut headers = HeaderMap::with_capacity(20);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("stripe-guard/", env!("CARGO_PKG_VERSION"))));
        let mut add = |name: HeaderName, value: &str| {
            // Ids come from outside; one that no header can carry is left out rather than mangled.
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        add(names::SIGNATURE, &signature::sign(&secrets, self.clock.now(), body));
        add(names::INSTANCE, &self.instance);
        add(names::EVENT, &event.key);
        add(names::DELIVERY, &claim.id().to_string());
        add(names::ATTEMPT, &claim.progress().attempts.saturating_add(1).to_string());
        add(names::ROUND, &claim.progress().round.to_string());
        add(names::FENCE, &claim.fence().to_string());
        add(names::SEQ, &event.seq.to_string());
        add(names::SOURCE, &event.source);
        add(names::ORIGIN, event.origin.as_str());
        add(names::RECEIVED_AT, &event.received_at.to_string());
        event.account.as_deref().into_iter().for_each(|account| add(names::ACCOUNT, account));
        event.object_id.as_deref().into_iter().for_each(|object| add(names::OBJECT, object));
        event.created.into_iter().for_each(|created: Timestamp| add(names::CREATED, &created.to_string()));
        if claim.progress().round > 1 {
            add(names::REPLAY, "true");
        }
        if let (Some(pinned), Some(version)) = (pinned, &event.api_version)
            && pinned != *version
        {
            add(names::VERSION_DIFFERS, version);
        }
        Ok(headers)
    }

    /// `Retry-After` in seconds or as a date (RFC 9110, 10.2.3).
    fn wait_asked(&self, value: &HeaderValue) -> Option<Duration> {
        let text = value.to_str().ok()?.trim();
        let wait = match text.parse::<u64>() {
            Ok(seconds) => Duration::from_secs(seconds),
            Err(_) => http_date(text)?.since(self.clock.now()),
        };
        Some(wait.min(RETRY_AFTER_MAX))
    }

    fn client(&self, connect_timeout: Duration) -> reqwest::Result<reqwest::Client> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&connect_timeout) {
            return Ok(client.clone());
        }
        let client = client(connect_timeout)?;
        clients.insert(connect_timeout, client.clone());
        Ok(client)
    }
}

/// A client without redirects, proxies and cookies. Whole-request time-outs are each destination's.
fn client(connect_timeout: Duration) -> reqwest::Result<reqwest::Client> {
    // A second call finds the provider installed, which is as good.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .retry(reqwest::retry::never())
        .connect_timeout(connect_timeout)
        .pool_idle_timeout(IDLE_MAX)
        .tcp_nodelay(true)
        .build()
}

/// Reads the answer, so that the connection can be used again, and keeps its beginning.
async fn read_answer(response: &mut reqwest::Response, keep: usize) -> reqwest::Result<Option<String>> {
    let (mut kept, mut seen) = (Vec::new(), 0);
    while let Some(chunk) = response.chunk().await? {
        seen += chunk.len();
        let room = keep.saturating_sub(kept.len()).min(chunk.len());
        kept.extend_from_slice(&chunk[..room]);
        if seen > ANSWER_BYTES_MAX {
            break;
        }
    }
    // NUL is the one character that PostgreSQL's text cannot hold.
    Ok((!kept.is_empty()).then(|| String::from_utf8_lossy(&kept).replace('\0', "\u{FFFD}")))
}

/// A redirect's target as it may be kept: bounded, and without its query, which often holds a token.
fn shortened(location: &[u8]) -> String {
    let text = String::from_utf8_lossy(location);
    let place = text.split(['?', '#']).next().unwrap_or_default();
    place.chars().filter(|c| !c.is_control()).take(LOCATION_CHARS_MAX).collect()
}

/// The innermost causes of an error in words, without the address, which may hold credentials.
fn reason(error: &reqwest::Error) -> String {
    let mut causes: Vec<String> = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        // Wrappers repeat what they wrap.
        causes.retain(|known| !text.contains(known.as_str()) && !known.contains(text.as_str()));
        causes.push(text);
        source = cause.source();
    }
    let kind = if error.is_connect() && error.is_timeout() {
        "cannot connect in time"
    } else if error.is_connect() {
        "cannot connect"
    } else {
        "the connection was cut off"
    };
    if causes.is_empty() { kind.to_owned() } else { format!("{kind}: {}", causes.join(": ")) }
}

/// An HTTP date in its one current form, `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(text: &str) -> Option<Timestamp> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (_, rest) = text.split_once(", ")?;
    let mut parts = rest.split(' ');
    let (day, month, year, time) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    if parts.next() != Some("GMT") || day.len() != 2 || year.len() != 4 || time.len() != 8 {
        return None;
    }
    format!("{year}-{month:02}-{day}T{time}Z").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_http_date_is_read_and_nothing_like_it() {
        assert_eq!(http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Timestamp::from_secs(784_111_777)));
        for text in [
            "",
            "Sun, 06 Nov 1994",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun, 06 Foo 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 CET",
        ] {
            assert_eq!(http_date(text), None, "{text}");
        }
    }
}
