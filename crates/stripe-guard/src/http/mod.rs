//! The two listeners: Stripe's requests, and administration.

mod admin;
mod health;
mod listen;
mod refusals;
mod webhook;

pub use admin::{Admin, router as admin_router};
pub use health::Health;
pub use listen::{HttpLimits, Listener};
pub use refusals::Refusals;
pub use webhook::{Gateway, READING_BYTES_MAX, router as webhook_router};
