//! `stripe-guard sandbox stripe`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::Args;
use serde_json::{Value, json};
use stripe_guard::clock::{Clock as _, SystemClock};
use stripe_guard_sandbox::{Plan, Report, RetrySchedule, Sender, Shapes, Traffic};
use tokio_util::sync::CancellationToken;

use crate::cli::Global;
use crate::commands::input::{self, SecretArgs};
use crate::commands::signals::StopSignals;
use crate::config::Environment;
use crate::failure::Failure;
use crate::output::Output;

/// Connections that it sends over.
const CONNECTIONS: usize = 8;

/// Between two lines about how it goes.
const EVERY: Duration = Duration::from_secs(1);

/// Sends signed events to a receiver on this machine until all are acknowledged, or until it is
/// stopped. What is sent is a function of the seed.
#[derive(Args, Debug)]
pub(super) struct Stripe {
    /// The receiver: http://127.0.0.1:PORT/PATH
    #[arg(long, value_name = "URL")]
    to: String,
    #[command(flatten)]
    secrets: SecretArgs,
    /// How many different events
    #[arg(long, value_name = "N", default_value_t = 100)]
    events: u64,
    /// Sends a second
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: u32,
    /// How many events of a hundred come twice
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u8).range(0..=100))]
    duplicates: u8,
    /// What everything is drawn from
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// How soon what was not acknowledged is sent again, about
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    retry_every: String,
}

impl Stripe {
    pub(super) fn run(&self, global: &Global, environment: Environment, output: Output) -> Result<(), Failure> {
        let wait = input::duration(&self.retry_every, "--retry-every")?;
        let secrets = self.secrets.read(global, environment)?.into_iter().map(|secret| secret.signing);
        let sender =
            Sender::new(&self.to, secrets, CONNECTIONS).map_err(|error| Failure::Usage(format!("--to: {error}")))?;
        let plan = Plan { duplicate_percent: self.duplicates, ..Plan::untidy(self.seed, self.events) };
        let traffic =
            Traffic::new(sender, Shapes::new(self.seed), plan).rate(self.rate).retries(RetrySchedule::every(wait));
        let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
        let report = runtime.block_on(send(Arc::new(traffic), output))?;
        let whole = report.acknowledged as u64 == self.events;
        output.answer(&as_json(&report, "done"), || report.to_string());
        if whole { Ok(()) } else { Err(Failure::Answered) }
    }
}

async fn send(traffic: Arc<Traffic>, output: Output) -> Result<Report, Failure> {
    let mut signals = StopSignals::new().context("cannot wait for signals")?;
    let stop = CancellationToken::new();
    let mut running = tokio::spawn({
        let (traffic, stop) = (Arc::clone(&traffic), stop.clone());
        async move { traffic.run(stop).await }
    });
    loop {
        tokio::select! {
            report = &mut running => {
                output.end_progress();
                return report.map_err(|error| anyhow!("the traffic ended abnormally: {error}").into());
            }
            () = signals.wait() => stop.cancel(),
            () = SystemClock.sleep(EVERY) => {
                let report = traffic.report();
                output.progress(&as_json(&report, "progress"), || {
                    format!("sent {}, acknowledged {}, sent again {}", report.sent, report.acknowledged, report.retried)
                });
            }
        }
    }
}

fn as_json(report: &Report, event: &str) -> Value {
    json!({
        "event": event,
        "sent": report.sent,
        "acknowledged": report.acknowledged,
        "retried": report.retried,
        "given_up": report.given_up,
        "unreachable": report.unreachable,
        "broken": report.broken,
        "timed_out": report.timed_out,
        "statuses": report.statuses,
    })
}
