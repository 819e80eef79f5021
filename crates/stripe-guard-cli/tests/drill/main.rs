//! Drills: the real binary under load, killed, stopped, without its flush, without its disk.
//!
//! The ordinary test run makes a slice of each; `scripts/drill` makes the whole. See `docs/drills.md`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a drill says what it measured")]

mod flush;
mod full_disk;
mod guard;
mod inbox;
mod kill;
mod scale;
mod storm;
mod suspended;
mod trace;
mod unflushed;
