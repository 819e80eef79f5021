//! One keep-alive connection that lives inside the task that uses it: no task of its own, no wake-ups between tasks.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::{SendError, Target};

/// What is read of an answer before its connection is given up instead.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

type Driver = http1::Connection<TokioIo<TcpStream>, Full<Bytes>>;

#[derive(Debug)]
pub(super) struct Connection {
    requests: http1::SendRequest<Full<Bytes>>,
    driver: Pin<Box<Driver>>,
    over: bool,
}

/// Why there is no answer.
pub(super) enum Failure {
    /// The connection was already gone: the request never left and may be sent on another one.
    Unsent(Box<Request<Full<Bytes>>>),
    /// It broke after the request may have left.
    Broken(hyper::Error),
}

impl Connection {
    pub(super) async fn open(target: &Target) -> Result<Self, SendError> {
        let stream = TcpStream::connect(target.address).await.map_err(SendError::Unreachable)?;
        stream.set_nodelay(true).map_err(SendError::Unreachable)?;
        let (requests, driver) = http1::handshake(TokioIo::new(stream)).await.map_err(SendError::Broken)?;
        Ok(Self { requests, driver: Box::pin(driver), over: false })
    }

    /// Whether the connection can take a request, as far as this side can tell by now.
    pub(super) async fn is_usable(&mut self) -> bool {
        let Self { driver, over, .. } = self;
        poll_fn(|cx| {
            *over = *over || driver.as_mut().poll(cx).is_ready();
            Poll::Ready(())
        })
        .await;
        !self.over && self.requests.is_ready()
    }

    /// Sends a request and reads its answer; says the status and whether the connection may be
    /// used again.
    pub(super) async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<(u16, bool), Failure> {
        let Self { requests, driver, over } = self;
        let answer = requests.try_send_request(request);
        let answer = match drive(driver, over, answer).await {
            Ok(answer) => answer,
            Err(mut error) => {
                return Err(match error.take_message() {
                    Some(request) => Failure::Unsent(Box::new(request)),
                    None => Failure::Broken(error.into_error()),
                });
            }
        };
        let status = answer.status().as_u16();
        let read = drive(driver, over, read_to_end(answer.into_body())).await;
        Ok((status, read && !self.over))
    }
}

/// Reads the answer's body away; false if it is too long or breaks off.
async fn read_to_end(mut body: Incoming) -> bool {
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame.as_ref().ok().and_then(|frame| frame.data_ref()).map_or(0, Bytes::len);
        if frame.is_err() || bytes > ANSWER_BYTES_MAX {
            return false;
        }
    }
    true
}

/// Lets the connection work until `wanted` is there.
async fn drive<T>(driver: &mut Pin<Box<Driver>>, over: &mut bool, wanted: impl Future<Output = T>) -> T {
    let mut wanted = std::pin::pin!(wanted);
    poll_fn(|cx| {
        if let Poll::Ready(value) = wanted.as_mut().poll(cx) {
            return Poll::Ready(value);
        }
        if *over {
            return Poll::Pending;
        }
        // What the connection just did may be what is wanted, and is worth a look at once.
        *over = driver.as_mut().poll(cx).is_ready();
        wanted.as_mut().poll(cx)
    })
    .await
}
