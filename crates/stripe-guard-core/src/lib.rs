//! The pure heart of stripe-guard: what a signature proves, what an event says of itself, which
//! states a delivery has, what an outcome leads to, and when the next attempt is.
//!
//! Nothing here does I/O, reads a clock or draws a random number: time is an argument and jitter
//! is a hash. The same functions are called by production, by the exhaustive model and by tests.
//!
//! ```
//! use bytes::Bytes;
//! use stripe_guard_core::{SigningSecret, Timestamp, Tolerance, envelope, signature};
//!
//! let secret = SigningSecret::parse("whsec_8fKq2LxV7mTzR4cWpY9dHn3B").unwrap();
//! let body = Bytes::from_static(br#"{"id":"evt_1","type":"invoice.paid","object":"event"}"#);
//! let now = Timestamp::from_secs(1_796_083_200);
//! let header = signature::sign(&[&secret], now, &body);
//!
//! let verified = signature::verify(body, header.as_bytes(), [&secret], now, Tolerance::default()).unwrap();
//! let envelope = envelope::read(verified.body()).unwrap();
//! assert_eq!(envelope.id.as_str(), "evt_1");
//! ```

mod attempt;
mod delivery;
pub mod envelope;
mod event;
mod inbound;
mod retry;
mod secret;
pub mod signature;
mod state;
mod time;
mod type_filter;

pub use attempt::{DeadLetterClass, Outcome};
pub use delivery::{DeliveryId, LOST_LEASES_MAX, LeaseOver, Next, Progress, SUSPECT_AT, Situation};
pub use envelope::{Envelope, Form};
pub use event::{EventId, EventType, Intake, Key, Mode, NotAnEventId, NotAnEventType, Origin, TEST_EVENT_ID};
pub use inbound::{Digest, Inbound, intake_of};
pub use retry::{Budget, RetryPolicy, spread};
pub use secret::{BadSecret, SECRET_CHARS_MIN, SigningSecret};
pub use signature::{SignatureError, Tolerance, Verified};
pub use state::State;
pub use time::{NotATimestamp, Timestamp};
pub use type_filter::{NotATypeFilter, TypeFilter};
