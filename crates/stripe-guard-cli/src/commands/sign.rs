//! `stripe-guard sign`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use stripe_guard_core::{Digest, signature};

use super::input::{self, SecretArgs};
use crate::cli::Global;
use crate::config::Environment;
use crate::failure::Failure;
use crate::output::Output;

/// Signs a body as Stripe does, and prints the value of the Stripe-Signature header: one `v1` for
/// each secret.
#[derive(Args, Debug)]
pub(crate) struct Sign {
    /// The file with the body, taken byte for byte; - for standard input
    #[arg(value_name = "BODY", default_value = "-")]
    body: PathBuf,
    #[command(flatten)]
    secrets: SecretArgs,
    /// The time to sign, in Unix seconds or as RFC 3339 [default: now]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    time: Option<String>,
}

impl Sign {
    /// Runs the command.
    pub(crate) fn run(&self, global: &Global, environment: Environment, output: Output) -> Result<(), Failure> {
        let time = input::time(self.time.as_deref(), "--time")?;
        let secrets = self.secrets.read(global, environment)?;
        let body = input::body(&self.body)?;
        let signing: Vec<_> = secrets.iter().map(|secret| &secret.signing).collect();
        let header = signature::sign(&signing, time, &body);
        let answer = json!({
            "header": header,
            "time": time.as_secs(),
            "bytes": body.len(),
            "sha256": Digest::of(&body).to_string(),
            "secrets": signing.iter().map(|secret| secret.label()).collect::<Vec<_>>(),
        });
        output.answer(&answer, || header);
        Ok(())
    }
}
