//! The engine's tests: real databases, real HTTP, the sandbox on both sides.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod article;
mod contract;
mod field_faults;
mod postgres;
mod rig;
mod support;
mod tidy;
