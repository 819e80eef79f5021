//! The bodies of answers: whole, dripping, huge, or broken off.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Sleep;

use super::gauge::Held;
use crate::clock;

/// What a huge body is made of.
static ZEROS: [u8; 64 * 1024] = [b'0'; 64 * 1024];

/// The app breaks off: hyper closes the connection.
#[derive(Debug)]
pub(super) struct BrokenOff;

impl fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the pretend app breaks off")
    }
}

impl std::error::Error for BrokenOff {}

impl From<Infallible> for BrokenOff {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

#[derive(Debug)]
pub(super) enum Content {
    Whole(Bytes),
    Drip { left: u64, every: Duration, timer: Pin<Box<Sleep>> },
    Huge { left: u64 },
    CutShort(Cut),
}

/// How far an answer has come that is going to be cut short.
#[derive(Debug)]
pub(super) enum Cut {
    AfterHalf,
    WhenFlushed,
    Now,
}

/// The body of an answer; the request counts as in flight until it is dropped.
#[derive(Debug)]
pub(super) struct AnswerBody {
    content: Content,
    _held: Held,
}

impl AnswerBody {
    pub(super) fn new(content: Content, held: Held) -> Self {
        Self { content, _held: held }
    }
}

impl Content {
    pub(super) fn drip(left: u64, every: Duration) -> Self {
        Self::Drip { left, every, timer: Box::pin(clock::sleep_until(clock::instant() + every)) }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let next = match &mut self.content {
            Content::Whole(bytes) if bytes.is_empty() => None,
            Content::Whole(bytes) => Some(Ok(std::mem::take(bytes))),
            Content::Drip { left: 0, .. } | Content::Huge { left: 0 } => None,
            Content::Drip { left, every, timer } => {
                ready!(timer.as_mut().poll(cx));
                *left -= 1;
                timer.as_mut().reset(clock::instant() + *every);
                Some(Ok(Bytes::from_static(b".")))
            }
            Content::Huge { left } => {
                let bytes = usize::try_from(*left).unwrap_or(usize::MAX).min(ZEROS.len());
                *left -= bytes as u64;
                Some(Ok(Bytes::from_static(&ZEROS[..bytes])))
            }
            Content::CutShort(cut) => match std::mem::replace(cut, Cut::Now) {
                Cut::AfterHalf => {
                    *cut = Cut::WhenFlushed;
                    Some(Ok(Bytes::from_static(b"{\"half\":")))
                }
                // hyper writes out what it has while it waits, and forgets it after an error.
                Cut::WhenFlushed => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Cut::Now => Some(Err(BrokenOff)),
            },
        };
        Poll::Ready(next.map(|bytes| bytes.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.content, Content::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Drip { left, .. } | Content::Huge { left } => SizeHint::with_exact(*left),
            Content::CutShort(_) => SizeHint::default(),
        }
    }
}
