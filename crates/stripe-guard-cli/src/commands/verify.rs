//! `stripe-guard verify`.

use std::path::{Path, PathBuf};

use clap::Args;
use stripe_guard_core::Tolerance;

use super::input::{self, SecretArgs};
use crate::cli::Global;
use crate::config::Environment;
use crate::diagnose::{Diagnosis, Question, diagnose};
use crate::failure::Failure;
use crate::output::{Output, escape};

/// Checks a body's signature, and says why it fails.
#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// The file with the body as your code received it, byte for byte; - for standard input
    #[arg(value_name = "BODY", default_value = "-")]
    body: PathBuf,
    /// The value of the Stripe-Signature header, or file:PATH
    #[arg(long, value_name = "HEADER", default_value = "", hide_default_value = true)]
    header: String,
    #[command(flatten)]
    secrets: SecretArgs,
    /// The receiver's time, in Unix seconds or as RFC 3339 [default: now]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    now: Option<String>,
    /// How many seconds the signed time may be off; 0 switches this check off
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    tolerance: u32,
}

impl Verify {
    /// Runs the command.
    pub(crate) fn run(&self, global: &Global, environment: Environment, output: Output) -> Result<(), Failure> {
        let now = input::time(self.now.as_deref(), "--now")?;
        let secrets = self.secrets.read(global, environment)?;
        let header = match self.header.strip_prefix("file:") {
            Some(path) => input::body(Path::new(path))?,
            None => self.header.clone().into(),
        };
        let body = input::body(&self.body)?;
        let question = Question {
            body: &body,
            header: &header,
            secrets: &secrets,
            now,
            tolerance: Tolerance::from_secs(self.tolerance),
        };
        let diagnosis = diagnose(&question);
        output.answer(&diagnosis, || as_text(&diagnosis));
        if diagnosis.verified { Ok(()) } else { Err(Failure::Answered) }
    }
}

fn as_text(diagnosis: &Diagnosis) -> String {
    let mut lines = vec![match (&diagnosis.secret, diagnosis.skew_seconds) {
        (Some(label), Some(skew)) if diagnosis.verified => {
            format!("The signature is good: made with the secret {}, {}.", escape(label), ago(skew))
        }
        _ => format!("The signature is refused: {}.", diagnosis.problem.as_deref().unwrap_or("for no known reason")),
    }];
    for finding in &diagnosis.findings {
        lines.push(format!("- {}", escape(&finding.message)));
    }
    lines.join("\n")
}

fn ago(skew_seconds: i64) -> String {
    match skew_seconds {
        0.. => format!("{skew_seconds} s ago"),
        _ => format!("{} s in the future", skew_seconds.unsigned_abs()),
    }
}
