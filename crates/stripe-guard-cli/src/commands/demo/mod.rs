//! `stripe-guard demo`.

mod account;
mod stage;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::Args;
use serde_json::json;
use stripe_guard::clock::{Clock as _, SystemClock};
use tokio_util::sync::CancellationToken;

use self::account::Account;
use self::stage::Stage;
use super::signals::StopSignals;
use crate::config::Environment;
use crate::failure::Failure;
use crate::logging;
use crate::output::Output;

/// Between two looks at how it goes.
const EVERY: Duration = Duration::from_secs(1);

/// Once everything is sent, as many looks may pass until nothing waits any more.
const PATIENCE: u32 = 60;

/// Shows the whole at work on this machine: a pretend Stripe that repeats, reorders, resends and
/// rolls its secret, a forger, the inbox on a temporary file, and a pretend app that fails.
#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// How many different events
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    events: u64,
    /// What everything is drawn from
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Sends a second
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
}

impl Demo {
    /// Runs the command.
    pub(crate) fn run(&self, environment: &Environment, output: Output) -> Result<(), Failure> {
        // The show is the output; the log is for those who ask for it.
        if environment.setting("STRIPE_GUARD_LOG").ok().flatten().is_some() {
            logging::start(environment)?;
        }
        let folder = tempfile::Builder::new().prefix("stripe-guard-demo-").tempdir();
        let folder = folder.map_err(|error| anyhow!("cannot make a temporary folder: {error}"))?;
        let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
        let account = runtime.block_on(self.perform(folder.path(), output));
        folder.close().map_err(|error| anyhow!("cannot remove the temporary folder: {error}"))?;
        let account = account?;
        output.answer(&account.as_json(), || account.to_string());
        if account.adds_up() { Ok(()) } else { Err(Failure::Answered) }
    }

    async fn perform(&self, folder: &std::path::Path, output: Output) -> Result<Account, Failure> {
        let mut signals = StopSignals::new().context("cannot wait for signals")?;
        let stage = Stage::set(folder, self.seed, self.events, self.rate).await?;
        let (guard, app) = (stage.engine.ingest_address(), stage.app.url());
        output.answer(&json!({ "event": "started", "guard": guard.to_string(), "app": app }), || {
            format!("pretend Stripe  →  inbox at http://{guard}{}  →  pretend app at {app}", stage::PATH)
        });
        let stop = CancellationToken::new();
        let traffic = tokio::spawn({
            let (traffic, stop) = (Arc::clone(&stage.traffic), stop.clone());
            async move { traffic.run(stop).await }
        });
        let (mut looks_since_sent, mut interrupted) = (0, false);
        while looks_since_sent < PATIENCE {
            tokio::select! {
                () = signals.wait() => {
                    interrupted = true;
                    break;
                }
                () = SystemClock.sleep(EVERY) => (),
            }
            let sent = traffic.is_finished();
            if !sent {
                stage.forge().await;
            }
            let scene = stage.look().await?;
            output.progress(&scene.as_json(), || scene.to_string());
            if sent && scene.waiting == 0 {
                break;
            }
            looks_since_sent += u32::from(sent);
        }
        output.end_progress();
        stop.cancel();
        let report = traffic.await.map_err(|error| anyhow!("the traffic ended abnormally: {error}"))?;
        let account = Account::draw(&stage, report, interrupted).await;
        stage.strike().await;
        account
    }
}
