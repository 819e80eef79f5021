//! How a command can fail, and the exit code of each way.

use std::process::ExitCode;

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
}

impl Failure {
    /// Says why, and gives the exit code: 1 failed, 2 configuration or usage.
    pub(crate) fn report(&self, output: Output) -> ExitCode {
        match self {
            Self::Answered => {}
            Self::Failed(_) => output.failed("failed", &self.to_string(), &[]),
            Self::Config(error) => output.failed("config", &self.to_string(), &error.problems),
            Self::Usage(_) => output.failed("usage", &self.to_string(), &[]),
        }
        match self {
            Self::Answered | Self::Failed(_) => ExitCode::from(1),
            Self::Config(_) | Self::Usage(_) => ExitCode::from(2),
        }
    }
}
