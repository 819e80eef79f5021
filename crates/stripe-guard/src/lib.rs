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
