//! Events as Stripe writes them, made from a seed and a number.

mod facts;
mod shape;
mod template;

use std::time::Duration;

use bytes::Bytes;
use stripe_guard_core::Timestamp;

pub use self::facts::API_VERSION;
use self::facts::Facts;
pub use self::shape::Shape;
use crate::rng::mix;

/// As many events belong to one order: they tell one story about one customer.
pub const EVENTS_PER_ORDER: u64 = 8;

/// A made-up event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number in the series.
    pub number: u64,
    /// Its id, as in the body.
    pub id: String,
    /// Its shape, which names its type.
    pub shape: Shape,
    /// The bytes to send.
    pub body: Bytes,
}

/// A series of events: number `n` is always the same event, byte for byte.
///
/// The numbers 0 to 7 belong to one order of one customer, 8 to 15 to the next, and so on, so that
/// customers and objects occur in more than one event.
///
/// ```
/// use stripe_guard_core::envelope;
/// use stripe_guard_sandbox::Shapes;
///
/// let event = Shapes::new(42).event(3);
/// assert_eq!(envelope::read(&event.body).unwrap().id.as_str(), event.id);
/// assert_eq!(event, Shapes::new(42).event(3));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Shapes {
    seed: u64,
    start: Timestamp,
    spacing: Duration,
    livemode: bool,
    customers: u64,
}

impl Shapes {
    /// A series in test mode that begins on 1 December 2026, four events a second, 100 customers.
    pub const fn new(seed: u64) -> Self {
        Self {
            seed,
            start: Timestamp::from_secs(1_796_083_200),
            spacing: Duration::from_millis(250),
            livemode: false,
            customers: 100,
        }
    }

    /// The same series with the first event created at `start` and each next one `spacing` later.
    #[must_use]
    pub const fn created(mut self, start: Timestamp, spacing: Duration) -> Self {
        (self.start, self.spacing) = (start, spacing);
        self
    }

    /// The same series in live or in test mode.
    #[must_use]
    pub const fn livemode(mut self, livemode: bool) -> Self {
        self.livemode = livemode;
        self
    }

    /// The same series about so many customers; at least one.
    #[must_use]
    pub const fn customers(mut self, customers: u64) -> Self {
        self.customers = if customers == 0 { 1 } else { customers };
        self
    }

    /// Event `number` of the series.
    pub fn event(&self, number: u64) -> Event {
        self.event_of(self.shape(number), number)
    }

    /// Event `number` of a series in which every event has this shape.
    pub fn event_of(&self, shape: Shape, number: u64) -> Event {
        self.make(shape, number, 1)
    }

    /// Event `number` as a later delivery carries it: the same id, and other bytes where the body
    /// says how many deliveries are pending. Thin events do not say, so theirs are the same.
    pub fn resent(&self, number: u64) -> Event {
        self.make(self.shape(number), number, 0)
    }

    /// The shape of event `number`.
    pub fn shape(&self, number: u64) -> Shape {
        Shape::of_story(mix(self.seed, number / EVENTS_PER_ORDER), number % EVENTS_PER_ORDER)
    }

    fn make(&self, shape: Shape, number: u64, pending: u32) -> Event {
        let order = number / EVENTS_PER_ORDER;
        let facts = Facts {
            seed: self.seed,
            number,
            order,
            customer: mix(!self.seed, order) % self.customers,
            created: self.created_at(number),
            order_created: self.created_at(order * EVENTS_PER_ORDER),
            livemode: self.livemode,
            pending,
        };
        let body = shape.template().fill(|slot, out| facts.fill(slot, out));
        Event { number, id: id_of(&body).to_owned(), shape, body: body.into() }
    }

    fn created_at(&self, number: u64) -> Timestamp {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        self.start.plus(self.spacing.saturating_mul(number))
    }
}

/// The id, which stands at the beginning of every template.
fn id_of(body: &str) -> &str {
    body.split('"').nth(3).unwrap_or_default()
}

#[cfg(test)]
mod tests;
