//! `stripe-guard sign`.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use bytes::Bytes;
use clap::Args;
use serde_json::json;
use stripe_guard_core::{Digest, signature};
use stripe_guard_sandbox::Sender;

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
    /// Also post it, to a receiver on this machine: http://127.0.0.1:PORT/PATH
    #[arg(long, value_name = "URL")]
    send: Option<String>,
}

impl Sign {
    /// Runs the command.
    pub(crate) fn run(&self, global: &Global, environment: Environment, output: Output) -> Result<(), Failure> {
        let time = input::time(self.time.as_deref(), "--time")?;
        let secrets = self.secrets.read(global, environment)?;
        let body = input::body(&self.body)?;
        let signing: Vec<_> = secrets.iter().map(|secret| &secret.signing).collect();
        let header = signature::sign(&signing, time, &body);
        let status = self.send.as_deref().map(|url| send(url, body.clone(), &header)).transpose()?;
        let answer = json!({
            "header": header,
            "time": time.as_secs(),
            "bytes": body.len(),
            "sha256": Digest::of(&body).to_string(),
            "secrets": signing.iter().map(|secret| secret.label()).collect::<Vec<_>>(),
            "sent_to": self.send,
            "status": status,
        });
        output.answer(&answer, || match status {
            Some(status) => format!("{header}\nThe receiver answered {status}."),
            None => header,
        });
        if status.is_none_or(|status| (200..300).contains(&status)) { Ok(()) } else { Err(Failure::Answered) }
    }
}

/// Posts the body as Stripe does, and gives the status of the answer.
fn send(url: &str, body: Bytes, header: &str) -> Result<u16, Failure> {
    let sender = Sender::new(url, [], 1).map_err(|error| Failure::Usage(format!("--send: {error}")))?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the runtime")?;
    let answer = runtime.block_on(sender.send_signed(body, header));
    Ok(answer.map_err(|error| anyhow!("{url} gave no answer: {error}"))?)
}
