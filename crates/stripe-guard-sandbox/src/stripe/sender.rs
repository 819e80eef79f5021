//! Sends one signed request at a time over each of a few connections.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, Request};
use stripe_guard_core::{SigningSecret, Timestamp, signature};
use tokio::sync::Semaphore;

use super::connection::{Connection, Failure};
use super::{NotATarget, Target};
use crate::clock;

const SIGNATURE: HeaderName = HeaderName::from_static("stripe-signature");

/// Why a request was not answered.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// Nobody listens.
    #[error("no connection")]
    Unreachable(#[source] io::Error),
    /// The connection broke before the whole head of an answer came.
    #[error("the connection broke")]
    Broken(#[source] hyper::Error),
    /// There was no answer in time.
    #[error("no answer in time")]
    TimedOut,
    /// The given signature cannot stand in a header.
    #[error("the signature cannot stand in a header")]
    BadHeader,
}

/// Sends webhooks to one address as Stripe does: HTTP/1.1 with keep-alive, Stripe's headers, and a
/// signature that is made anew for each attempt.
///
/// It follows no redirects and sends nothing a second time by itself, except a request that had
/// not left when its kept-alive connection turned out to be closed.
#[derive(Debug)]
pub struct Sender {
    target: Target,
    host: HeaderValue,
    secrets: RwLock<Arc<[SigningSecret]>>,
    idle: Mutex<Vec<Connection>>,
    permits: Semaphore,
    connections: usize,
    timeout: Duration,
    skew_seconds: i64,
}

impl Sender {
    /// A sender to `url`, which signs with each of `secrets` and opens up to `connections`.
    pub fn new(
        url: &str,
        secrets: impl IntoIterator<Item = SigningSecret>,
        connections: usize,
    ) -> Result<Self, NotATarget> {
        let target: Target = url.parse()?;
        let connections = connections.clamp(1, Semaphore::MAX_PERMITS);
        Ok(Self {
            host: HeaderValue::try_from(target.address.to_string()).map_err(|_| NotATarget)?,
            target,
            secrets: RwLock::new(secrets.into_iter().collect()),
            idle: Mutex::new(Vec::with_capacity(connections.min(1024))),
            permits: Semaphore::new(connections),
            connections,
            timeout: Duration::from_secs(20),
            skew_seconds: 0,
        })
    }

    /// The same sender with another limit than 20 s for one attempt.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The same sender with a clock that is ahead by this much, or behind if negative.
    #[must_use]
    pub fn skewed(mut self, seconds: i64) -> Self {
        self.skew_seconds = seconds;
        self
    }

    /// How many requests can be on their way at once.
    pub fn connections(&self) -> usize {
        self.connections
    }

    /// From now on signs with these secrets: two while one is being rolled, then the new one.
    pub fn use_secrets(&self, secrets: impl IntoIterator<Item = SigningSecret>) {
        *self.secrets.write().unwrap_or_else(PoisonError::into_inner) = secrets.into_iter().collect();
    }

    /// The secrets in use.
    pub fn secrets(&self) -> Arc<[SigningSecret]> {
        self.secrets.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends `body` once, freshly signed, and says the status of the answer, whatever it is.
    pub async fn send(&self, body: Bytes) -> Result<u16, SendError> {
        self.attempt(body, None).await
    }

    /// Sends `body` once under a given `Stripe-Signature`, good or bad; without the header if it is empty.
    pub async fn send_signed(&self, body: Bytes, signature: &str) -> Result<u16, SendError> {
        self.attempt(body, Some(signature)).await
    }

    /// The signature that [`Sender::send`] would use now.
    pub fn sign(&self, body: &[u8]) -> String {
        let secrets = self.secrets();
        let secrets: Vec<&SigningSecret> = secrets.iter().collect();
        let now = Timestamp::from_secs(clock::now().as_secs().saturating_add(self.skew_seconds));
        signature::sign(&secrets, now, body)
    }

    async fn attempt(&self, body: Bytes, signature: Option<&str>) -> Result<u16, SendError> {
        let _permit = self.permits.acquire().await.map_err(|_| SendError::TimedOut)?;
        let signature = match signature {
            Some(signature) => HeaderValue::from_str(signature),
            None => HeaderValue::try_from(self.sign(&body)),
        };
        let request = self.request(body, signature.map_err(|_| SendError::BadHeader)?);
        tokio::time::timeout(self.timeout, self.exchange(request)).await.unwrap_or(Err(SendError::TimedOut))
    }

    fn request(&self, body: Bytes, signature: HeaderValue) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.target.uri.clone();
        let headers = request.headers_mut();
        headers.reserve(8);
        headers.insert(HOST, self.host.clone());
        headers.insert(USER_AGENT, HeaderValue::from_static("Stripe/1.0 (+https://stripe.com/docs/webhooks)"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
        headers.insert(ACCEPT, HeaderValue::from_static("*/*; q=0.5, application/xml"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if !signature.is_empty() {
            headers.insert(SIGNATURE, signature);
        }
        request
    }

    async fn exchange(&self, mut request: Request<Full<Bytes>>) -> Result<u16, SendError> {
        loop {
            let mut connection = match self.idle_connection().await {
                Some(connection) => connection,
                None => Connection::open(&self.target).await?,
            };
            match connection.exchange(request).await {
                Ok((status, may_be_used_again)) => {
                    if may_be_used_again {
                        self.idle().push(connection);
                    }
                    return Ok(status);
                }
                // Bounded by the time-out of the attempt.
                Err(Failure::Unsent(unsent)) => request = *unsent,
                Err(Failure::Broken(error)) => return Err(SendError::Broken(error)),
            }
        }
    }

    async fn idle_connection(&self) -> Option<Connection> {
        loop {
            let mut connection = self.idle().pop()?;
            if connection.is_usable().await {
                return Some(connection);
            }
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
