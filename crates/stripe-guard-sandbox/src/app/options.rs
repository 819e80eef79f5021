//! How a pretend app is set up.

use std::path::PathBuf;

use stripe_guard_core::{SigningSecret, Tolerance};

use super::Script;

/// As many requests are kept unless told otherwise; of more, the oldest are dropped. The counts by
/// event have no such limit.
pub const ARRIVALS_KEPT: usize = 100_000;

/// How a pretend app is set up.
#[derive(Clone, Debug)]
pub struct AppOptions {
    /// The port on 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// The secrets to verify with; without any the app does not verify.
    pub secrets: Vec<SigningSecret>,
    /// How far the signed time may be off.
    pub tolerance: Tolerance,
    /// What it does with a request; one with a bad signature is answered 400 and never gets there.
    pub script: Script,
    /// How many requests it keeps to be looked at, [`ARRIVALS_KEPT`] by default.
    pub arrivals_kept: usize,
    /// Whether it keeps their bodies as well.
    pub keep_bodies: bool,
    /// A file that its ledger appends to, for another process to read.
    pub ledger: Option<PathBuf>,
}

impl Default for AppOptions {
    fn default() -> Self {
        Self {
            port: 0,
            secrets: Vec::new(),
            tolerance: Tolerance::default(),
            script: Script::always(200),
            arrivals_kept: ARRIVALS_KEPT,
            keep_bodies: false,
            ledger: None,
        }
    }
}

impl AppOptions {
    /// Verifies with these secrets and answers 200.
    pub fn verifying(secrets: impl IntoIterator<Item = SigningSecret>) -> Self {
        Self { secrets: secrets.into_iter().collect(), ..Self::default() }
    }
}
