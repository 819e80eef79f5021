//! What the scenarios share.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use stripe_guard_core::SigningSecret;
use stripe_guard_sandbox::{App, AppOptions, DEMO_SECRET, DEMO_SECRET_NEXT, Sender};
use tokio::net::TcpStream;

/// Long enough for anything that is going to happen, on any machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);

pub(crate) fn old() -> SigningSecret {
    SigningSecret::parse(DEMO_SECRET).unwrap().labelled("old")
}

pub(crate) fn new() -> SigningSecret {
    SigningSecret::parse(DEMO_SECRET_NEXT).unwrap().labelled("new")
}

pub(crate) async fn app() -> App {
    App::start(AppOptions { keep_bodies: true, ..AppOptions::verifying([old()]) }).await.unwrap()
}

pub(crate) fn sender_to(app: &App, connections: usize) -> Sender {
    Sender::new(&app.url(), [old()], connections).unwrap()
}

/// Nothing but hyper between the test and the app.
pub(crate) struct RawClient(http1::SendRequest<Full<Bytes>>);

impl RawClient {
    pub(crate) async fn connect(app: &App) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", app.port())).await.unwrap();
        let (requests, driver) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(driver);
        Self(requests)
    }

    pub(crate) async fn post(&mut self, body: Bytes) -> hyper::Result<Response<Incoming>> {
        let now = sender_time();
        let request = Request::post("/hook?x=1")
            .header("host", "127.0.0.1")
            .header("stripe-signature", stripe_guard_core::signature::sign(&[&old()], now, &body))
            .body(Full::new(body))
            .unwrap();
        self.0.ready().await?;
        self.0.send_request(request).await
    }

    pub(crate) async fn is_closed(&mut self) -> bool {
        tokio::time::timeout(LIMIT, async {
            while !self.0.is_closed() {
                tokio::task::yield_now().await;
            }
        })
        .await
        .is_ok()
    }
}

#[expect(clippy::disallowed_methods, reason = "the signature is judged by the app's real clock")]
fn sender_time() -> stripe_guard_core::Timestamp {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    stripe_guard_core::Timestamp::from_millis(0).plus(now)
}
