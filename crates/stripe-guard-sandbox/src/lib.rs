//! A pretend Stripe and a pretend app, to put stripe-guard, or any other webhook receiver, between.
//!
//! - [`Shapes`] makes events from a seed, byte for byte as Stripe writes them.
//! - [`Sender`] sends signed webhooks; [`Traffic`] runs a [`Plan`] with Stripe's duplicates,
//!   reorderings, resends, rolled secrets and retries, and keeps a [`Ledger`] of the answers.
//! - [`App`] receives, verifies, remembers, and behaves as badly as its [`Script`] says.
//!
//! Everything stays on 127.0.0.1. What is sent is a function of the seed; how requests interleave
//! on several connections is not.
//!
//! ```
//! use std::sync::Arc;
//!
//! use stripe_guard_core::SigningSecret;
//! use stripe_guard_sandbox::{App, AppOptions, DEMO_SECRET, Plan, Sender, Shapes, Traffic};
//! use tokio_util::sync::CancellationToken;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let secret = SigningSecret::parse(DEMO_SECRET)?;
//! let app = App::start(AppOptions::verifying([secret.clone()])).await?;
//!
//! let sender = Sender::new(&app.url(), [secret], 4)?;
//! let traffic = Arc::new(Traffic::new(sender, Shapes::new(1), Plan::untidy(1, 100)));
//! let report = traffic.run(CancellationToken::new()).await;
//!
//! assert_eq!(report.acknowledged, 100);
//! assert!(app.arrivals() > 100, "some came more than once");
//! app.stop().await;
//! # Ok(())
//! # }
//! ```

mod app;
mod clock;
mod latency;
mod ledger;
mod rng;
mod shapes;
mod stripe;

pub use app::{ARRIVALS_KEPT, App, AppOptions, Arrival, BODY_BYTES_MAX, Behaviour, Reply, Script};
pub use latency::Latency;
pub use ledger::Ledger;
pub use rng::Rng;
pub use shapes::{API_VERSION, EVENTS_PER_ORDER, Event, Shape, Shapes};
pub use stripe::{NotATarget, Plan, Report, RetrySchedule, Roll, SendError, Sender, Step, Steps, Target, Traffic, Why};

/// A signing secret for demonstrations and tests, known to everybody.
pub const DEMO_SECRET: &str = "whsec_sandbox_8fKq2LxV7mTzR4cWpY9dHn3B";

/// The secret that [`DEMO_SECRET`] is rolled to.
pub const DEMO_SECRET_NEXT: &str = "whsec_sandbox_Jt5Gs1UaE6vQb0NkXw7CyD4M";
