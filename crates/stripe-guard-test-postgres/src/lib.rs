//! Throw-away PostgreSQL clusters for tests and benches, from the system's own programs.
//!
//! Everything listens on loopback alone, trusts whoever connects, and is gone when its users are: each server has a
//! keeper, a small shell that ends it and removes its folder when the process that asked for it has ended, however it
//! ended. What is missing on the machine is a panic that says what to install.

mod cluster;
mod folder;
mod keeper;
mod pooler;
mod programs;
mod psql;
mod shared;
mod tls;

pub use cluster::{Cluster, Stop};
pub use pooler::Pooler;
pub use programs::{as_server_user, binary};
pub use shared::{Database, database};
pub use tls::TlsFiles;

use std::time::Duration;

/// The superuser of every cluster here, and the owner of every database.
const USER: &str = "postgres";

/// How often a condition is looked at, and for how long altogether.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSES_MAX: u32 = 3_000;

/// Waits until there is an answer; panics with what was awaited when there is none for long.
#[track_caller]
fn await_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..PAUSES_MAX {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(PAUSE);
    }
    panic!("{what}: waited in vain");
}
