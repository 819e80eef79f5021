//! The engine of stripe-guard, a durable inbox for Stripe webhooks.
//!
//! [`Engine::start`] runs the whole; [`store::open_sqlite`] opens an inbox to look into.

mod chores;
pub mod clock;
mod deliver;
mod engine;
mod failure;
mod http;
mod registry;
pub mod settings;
mod settler;
pub mod store;
mod telemetry;
mod wake;
mod worker;
mod writer;

pub use engine::{Ended, Engine, StartError, open};

/// Private parts, for the benches of this workspace. Unstable: anything here may change in any release.
#[cfg(feature = "testing")]
pub mod testing {
    pub use crate::chores::Chores;
    pub use crate::failure::Failure;
    pub use crate::http::{Gateway, Health, HttpLimits, Listener, Refusals, webhook_router};
    pub use crate::registry::Registry;
    pub use crate::telemetry::{SourceMetrics, recorder};
    pub use crate::wake::Wakers;
    pub use crate::writer::{Writer, WriterLoop};
}
