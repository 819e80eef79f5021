//! What the pretend app does with a request.

use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::http::{HeaderName, HeaderValue};
use tokio_util::sync::CancellationToken;

use super::Arrival;

/// A plain answer.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: Bytes,
}

impl Reply {
    /// An answer of this status with an empty body.
    ///
    /// # Panics
    ///
    /// If the status is not from 200 to 999.
    pub fn new(status: u16) -> Self {
        assert!(status >= 200, "a status below 200 is no answer");
        let status = StatusCode::from_u16(status).expect("a status has three digits");
        Self { status, headers: Vec::new(), body: Bytes::new() }
    }

    /// With this header, such as `Retry-After` or `Location`.
    ///
    /// # Panics
    ///
    /// If the name or the value cannot stand in a header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        let value = HeaderValue::from_str(value).expect("a header's value is visible ASCII");
        self.headers.push((HeaderName::from_static(name), value));
        self
    }

    /// With this body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }
}

/// What the pretend app does with a request that it has read.
#[derive(Clone, Debug)]
pub enum Behaviour {
    /// Answers at once.
    Answer(Reply),
    /// Answers after a while; not at all to a client that has gone away by then.
    Slow {
        /// How long it takes.
        wait: Duration,
        /// The answer.
        reply: Reply,
    },
    /// Answers when the test says so, by cancelling the token.
    Held {
        /// What to wait for.
        until: CancellationToken,
        /// The answer.
        reply: Reply,
    },
    /// Keeps the connection open and never answers.
    Hang,
    /// Begins to answer at once and sends the body byte by byte.
    Drip {
        /// The status, in time.
        status: u16,
        /// How many bytes.
        bytes: u64,
        /// The pause before each byte.
        every: Duration,
    },
    /// Answers with a body of this size, made as it is read.
    Huge {
        /// The status.
        status: u16,
        /// How many bytes.
        bytes: u64,
    },
    /// Closes the connection without an answer.
    Cut,
    /// Does its work, which the ledger shows as this status, and closes the connection before the
    /// answer is out.
    LoseAnswer {
        /// The status that nobody sees.
        status: u16,
    },
    /// Closes the connection in the middle of the answer's body.
    CutShort {
        /// The status, which arrives.
        status: u16,
    },
    /// Answers, and closes the kept-alive connection unasked when it has been idle for so long.
    CloseAfterIdle {
        /// How long it stays open.
        idle: Duration,
        /// The answer.
        reply: Reply,
    },
}

impl Behaviour {
    /// Answers with this status after a while.
    pub fn slow(wait: Duration, status: u16) -> Self {
        Self::Slow { wait, reply: Reply::new(status) }
    }

    /// A body of 2 GB.
    pub const fn huge(status: u16) -> Self {
        Self::Huge { status, bytes: 2_000_000_000 }
    }

    /// A long body, one byte a second.
    pub const fn drip(status: u16) -> Self {
        Self::Drip { status, bytes: 3600, every: Duration::from_secs(1) }
    }
}

impl From<u16> for Behaviour {
    /// Answers with this status at once.
    fn from(status: u16) -> Self {
        Self::Answer(Reply::new(status))
    }
}

impl From<Reply> for Behaviour {
    fn from(reply: Reply) -> Self {
        Self::Answer(reply)
    }
}

type Rule = dyn Fn(&Arrival) -> Behaviour + Send + Sync;

/// Chooses a behaviour for each request. A rule that is added later wins over those before.
///
/// ```
/// use stripe_guard_sandbox::{Behaviour, Reply, Script};
///
/// let script = Script::always(200)
///     .on_attempts(..=2, Reply::new(503).header("retry-after", "1"))
///     .on_type("charge.refunded", Behaviour::Hang)
///     .on_event("evt_1", 410);
/// # let _ = script;
/// ```
#[derive(Clone)]
pub struct Script(Arc<Rule>);

impl Script {
    /// The same for every request.
    pub fn always(behaviour: impl Into<Behaviour>) -> Self {
        let behaviour = behaviour.into();
        Self::new(move |_| behaviour.clone())
    }

    /// Whatever `rule` says.
    pub fn new(rule: impl Fn(&Arrival) -> Behaviour + Send + Sync + 'static) -> Self {
        Self(Arc::new(rule))
    }

    /// Something else for events of this type.
    #[must_use]
    pub fn on_type(self, event_type: &str, behaviour: impl Into<Behaviour>) -> Self {
        let event_type = event_type.to_owned();
        self.when(move |arrival| arrival.event_type.as_ref() == Some(&event_type), behaviour)
    }

    /// Something else for this event.
    #[must_use]
    pub fn on_event(self, id: &str, behaviour: impl Into<Behaviour>) -> Self {
        let id = id.to_owned();
        self.when(move |arrival| arrival.event_id.as_ref() == Some(&id), behaviour)
    }

    /// Something else for these attempts at an event, as the app counts them; 1 is the first.
    #[must_use]
    pub fn on_attempts(
        self,
        attempts: impl RangeBounds<u32> + Send + Sync + 'static,
        behaviour: impl Into<Behaviour>,
    ) -> Self {
        self.when(move |arrival| attempts.contains(&arrival.attempt), behaviour)
    }

    /// Something else for the requests that `condition` picks.
    #[must_use]
    pub fn when(
        self,
        condition: impl Fn(&Arrival) -> bool + Send + Sync + 'static,
        behaviour: impl Into<Behaviour>,
    ) -> Self {
        let behaviour = behaviour.into();
        Self::new(move |arrival| if condition(arrival) { behaviour.clone() } else { self.choose(arrival) })
    }

    pub(super) fn choose(&self, arrival: &Arrival) -> Behaviour {
        (self.0)(arrival)
    }
}

impl<B: Into<Behaviour>> From<B> for Script {
    fn from(behaviour: B) -> Self {
        Self::always(behaviour)
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Script")
    }
}
