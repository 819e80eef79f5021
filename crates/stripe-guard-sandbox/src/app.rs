//! The pretend app: receives what is delivered, verifies it as Stripe's libraries do, and answers
//! as it is told to.

mod answer;
mod arrival;
mod behaviour;
mod connection;
mod gauge;
mod server;

pub use self::arrival::{Arrival, BODY_BYTES_MAX};
pub use self::behaviour::{Behaviour, Reply, Script};
pub use self::server::{ARRIVALS_KEPT, App, AppOptions};
