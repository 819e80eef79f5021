//! `stripe-guard serve`.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use stripe_guard::clock::{Clock, SystemClock};
use stripe_guard::settings::Settings;
use stripe_guard::{Ended, Engine};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info, warn};

use super::signals::StopSignals;
use crate::cli::{Global, Overrides};
use crate::config::{self, Environment, Inputs, Loaded};
use crate::failure::Failure;
use crate::logging;
use crate::output::Output;

/// Before a start anew after a failed disk: if the fault lasts, this keeps it from spinning.
const PAUSE_BEFORE_RESTART: Duration = Duration::from_secs(1);

/// Takes Stripe's events in and delivers them to the app, until told to stop.
///
/// SIGTERM and SIGINT stop it, SIGHUP reads the configuration and its secrets again.
#[derive(Args, Debug)]
pub(crate) struct Serve {
    #[command(flatten)]
    overrides: Overrides,
}

impl Serve {
    /// Runs the command.
    pub(crate) fn run(&self, global: &Global, environment: Environment, output: Output) -> Result<(), Failure> {
        logging::start(&environment)?;
        let inputs = Inputs { flags: global.flags_with(&self.overrides), environment };
        let loaded = config::load(&inputs)?;
        let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
        match runtime.block_on(serve(&inputs, loaded, output))? {
            Ended::Stopped => Ok(()),
            Ended::MustRestart => Err(start_anew()),
        }
    }
}

async fn serve(inputs: &Inputs, loaded: Loaded, output: Output) -> Result<Ended, Failure> {
    // Before anything is promised, so that a signal in between is not lost.
    let mut stop = StopSignals::new().context("cannot wait for signals")?;
    let mut reloads = signal(SignalKind::hangup()).context("cannot wait for signals")?;
    let Loaded { settings, warnings, .. } = loaded;
    for warning in &warnings {
        warn!("{warning}");
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let engine = Engine::start(&settings, Arc::clone(&clock)).await.map_err(anyhow::Error::from)?;
    announce(&settings, &engine, output);
    loop {
        tokio::select! {
            () = stop.wait() => {
                info!("stopping");
                // Told to stop, it stops, even if the disk fails at the last moment.
                engine.stop().await;
                return Ok(Ended::Stopped);
            }
            _ = reloads.recv() => reload(inputs, &settings, &engine),
            () = engine.fatal() => {
                let ended = engine.stop().await;
                tokio::select! {
                    // Also if it was told so while it stopped.
                    () = stop.wait() => return Ok(Ended::Stopped),
                    () = clock.sleep(PAUSE_BEFORE_RESTART) => return Ok(ended),
                }
            }
        }
    }
}

fn announce(settings: &Settings, engine: &Engine, output: Output) {
    let (ingest, admin) = (engine.ingest_address(), engine.admin_address());
    let addresses: Vec<_> = settings.sources.iter().map(|source| format!("http://{ingest}{}", source.path)).collect();
    let line = format!("Taking events at {}; health and metrics at http://{admin}", addresses.join(", "));
    let value =
        json!({ "event": "started", "sources": addresses, "listen": ingest.to_string(), "admin": admin.to_string() });
    output.answer(&value, || line);
}

/// Secrets, filters, addresses and schedules change at once; what is bound or opened at the start
/// does not. A configuration with a problem changes nothing.
fn reload(inputs: &Inputs, old: &Settings, engine: &Engine) {
    match config::load(inputs) {
        Err(error) => error!(error = %error, "the configuration was not read again: {}", problems(&error)),
        Ok(Loaded { settings, warnings, .. }) => {
            for warning in &warnings {
                warn!("{warning}");
            }
            if needs_restart(old, &settings) {
                warn!(
                    "a change of addresses, database, limits, or of which sources and destinations there are takes a restart"
                );
            }
            engine.reload(&settings);
            info!("the configuration was read again");
        }
    }
}

fn problems(error: &config::ConfigError) -> String {
    error.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn needs_restart(old: &Settings, new: &Settings) -> bool {
    let names = |settings: &Settings| {
        let sources = settings.sources.iter().map(|source| source.name.clone());
        let destinations = settings.destinations.iter().map(|one| format!("{} x {}", one.name, one.concurrency));
        sources.chain(destinations).collect::<Vec<_>>()
    };
    (old.listen, old.admin_listen, &old.database, &old.limits)
        != (new.listen, new.admin_listen, &new.database, &new.limits)
        || names(old) != names(new)
}

/// Replaces this process by a fresh one of the same command: after a failed flush only that can
/// tell what the disk holds. The process id stays, so whoever supervises us sees no end.
fn start_anew() -> Failure {
    use std::os::unix::process::CommandExt as _;
    let mut arguments = std::env::args_os();
    let program = std::env::current_exe().ok().or_else(|| arguments.next().map(Into::into)).unwrap_or_default();
    error!("starting anew, because the disk failed under the database");
    let error = std::process::Command::new(program).args(std::env::args_os().skip(1)).stdin(Stdio::null()).exec();
    Failure::Failed(anyhow::Error::new(error).context("cannot start anew after the disk failed"))
}
