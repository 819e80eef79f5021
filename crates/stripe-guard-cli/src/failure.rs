//! How a command can fail, and the exit code of each way.

use std::process::ExitCode;

use anyhow::anyhow;
use stripe_guard::store::StoreError;

use crate::config::ConfigError;
use crate::output::Output;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// It did its work, and the answer is no; it has been printed.
    #[error("the answer is no")]
    Answered,
    /// The work could not be done.
    #[error("{0:#}")]
    Failed(#[from] anyhow::Error),
    /// The configuration cannot be used.
    #[error("the configuration cannot be used")]
    Config(#[from] ConfigError),
    /// The command line cannot be used.
    #[error("{0}")]
    Usage(String),
    /// What was named is not there.
    #[error("{0}")]
    NotFound(String),
}

impl From<StoreError> for Failure {
    /// Its text says its causes already.
    fn from(error: StoreError) -> Self {
        Self::Failed(anyhow!("{error}"))
    }
}

impl Failure {
    /// Says why, and gives the exit code: 1 failed, 2 configuration or usage, 3 not found.
    pub(crate) fn report(&self, output: Output) -> ExitCode {
        match self {
            Self::Answered => {}
            Self::Failed(_) => output.failed("failed", &self.to_string(), &[]),
            Self::Config(error) => output.failed("config", &self.to_string(), &error.problems),
            Self::Usage(_) => output.failed("usage", &self.to_string(), &[]),
            Self::NotFound(_) => output.failed("not_found", &self.to_string(), &[]),
        }
        match self {
            Self::Answered | Self::Failed(_) => ExitCode::from(1),
            Self::Config(_) | Self::Usage(_) => ExitCode::from(2),
            Self::NotFound(_) => ExitCode::from(3),
        }
    }
}
