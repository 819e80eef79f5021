//! The engine of stripe-guard, a durable inbox for Stripe webhooks.
//!
//! [`Engine::start`] runs the whole; [`store::open_sqlite`] and
//! [`store::open_postgres`] open an inbox to look into.

#[cfg(not(all(feature = "sqlite", feature = "postgres")))]
compile_error!("the engine opens inboxes in both databases: enable the features `sqlite` and `postgres`");

mod chores;
pub mod clock;
mod deliver;
mod engine;
mod failure;
mod http;
mod open;
mod registry;
pub mod settings;
mod settler;
mod slots;
pub mod store;
mod store_clock;
mod telemetry;
mod wake;
mod worker;
mod writer;

pub use engine::{Ended, Engine, StartError};
pub use open::open;

/// Private parts, for the benches of this workspace. Unstable: anything here may change in any release.
#[cfg(feature = "testing")]
pub mod testing {
    pub use crate::chores::Chores;
    pub use crate::failure::Failure;
    pub use crate::http::{Gateway, Health, HttpLimits, Listener, READING_BYTES_MAX, Refusals, webhook_router};
    pub use crate::registry::Registry;
    pub use crate::slots::Slots;
    pub use crate::store_clock::StoreClock;
    pub use crate::telemetry::{SourceMetrics, recorder};
    pub use crate::wake::Wakers;
    pub use crate::writer::{Writer, WriterLoop};
}
