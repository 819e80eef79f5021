//! The command, run as a user runs it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test waits for another process, which no Clock governs")]

mod commands;
mod inbox;
mod sandbox;
mod serve;
mod support;
