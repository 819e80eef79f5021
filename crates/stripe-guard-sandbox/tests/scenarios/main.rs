//! The pretend Stripe and the pretend app over real sockets.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod app;
mod common;
mod sender;
mod traffic;
