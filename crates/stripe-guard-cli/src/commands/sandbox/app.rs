//! `stripe-guard sandbox app`.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueEnum};
use serde_json::json;
use stripe_guard_core::SigningSecret;
use stripe_guard_sandbox::{App, AppOptions, Arrival, Behaviour, Script};

use crate::commands::human;
use crate::commands::signals::StopSignals;
use crate::config::ConfigError;
use crate::config::Environment;
use crate::config::secret::resolve;
use crate::failure::Failure;
use crate::output::{Output, escape};

/// Requests that are kept until they are shown.
const SHOWN_AT_ONCE: usize = 1000;

/// How long `slow` takes.
const SLOW: Duration = Duration::from_secs(5);

/// Receives events on 127.0.0.1 and shows each, until it is stopped.
#[derive(Args, Debug)]
pub(super) struct PretendApp {
    /// Its port; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 3000)]
    port: u16,
    /// A secret to verify with: env:NAME, file:PATH, or the text itself; without any it does not verify
    #[arg(long = "secret", value_name = "SECRET")]
    secrets: Vec<String>,
    /// What it answers
    #[arg(long, value_name = "STATUS", default_value_t = 200, value_parser = clap::value_parser!(u16).range(200..=599))]
    status: u16,
    /// How it behaves
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Manner::Plain)]
    behaviour: Manner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Manner {
    /// Answers at once
    Plain,
    /// Answers after 5 s
    Slow,
    /// Answers 500 to the first two requests of each event
    Flaky,
    /// Never answers
    Hang,
    /// Closes the connection without an answer
    Cut,
    /// Does its work and closes the connection before the answer is out
    LoseAnswer,
    /// Answers byte by byte, one a second
    Drip,
    /// Answers with 2 GB
    Huge,
}

impl PretendApp {
    pub(super) fn run(&self, environment: &Environment, output: Output) -> Result<(), Failure> {
        let secrets = self.secrets(environment)?;
        let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
        let verifies = !secrets.is_empty();
        let options = AppOptions {
            port: self.port,
            script: self.script(),
            arrivals_kept: SHOWN_AT_ONCE,
            ..AppOptions::verifying(secrets)
        };
        runtime.block_on(async {
            let mut signals = StopSignals::new().context("cannot wait for signals")?;
            let app = App::start(options).await.map_err(|error| {
                anyhow!("cannot listen on 127.0.0.1:{}: {error}; is another program using it?", self.port)
            })?;
            output.answer(&json!({ "event": "started", "url": app.url(), "verifies": verifies }), || {
                let how = if verifies { "and verifying" } else { "without verifying" };
                format!("Receiving at {} {how}", app.url())
            });
            show(&app, &mut signals, output).await;
            app.stop().await;
            Ok(())
        })
    }

    fn secrets(&self, environment: &Environment) -> Result<Vec<SigningSecret>, Failure> {
        let mut found = Vec::new();
        for reference in &self.secrets {
            let secrets = resolve(reference, environment)
                .map_err(|wrong| ConfigError { problems: vec![wrong.at("--secret")] })?;
            found.extend(secrets.into_iter().map(|secret| secret.signing));
        }
        Ok(found)
    }

    fn script(&self) -> Script {
        let status = self.status;
        match self.behaviour {
            Manner::Plain => Script::always(status),
            Manner::Slow => Script::always(Behaviour::slow(SLOW, status)),
            Manner::Flaky => Script::always(status).on_attempts(..=2, 500),
            Manner::Hang => Script::always(Behaviour::Hang),
            Manner::Cut => Script::always(Behaviour::Cut),
            Manner::LoseAnswer => Script::always(Behaviour::LoseAnswer { status }),
            Manner::Drip => Script::always(Behaviour::drip(status)),
            Manner::Huge => Script::always(Behaviour::huge(status)),
        }
    }
}

/// Shows each request once, until told to stop.
async fn show(app: &App, signals: &mut StopSignals, output: Output) {
    let mut shown = 0;
    loop {
        tokio::select! {
            () = signals.wait() => return,
            came = app.wait_for_requests(shown + 1, Duration::from_hours(1)) => if !came { continue },
        }
        let (requests, all) = (app.requests(), app.arrivals());
        let fresh = usize::try_from(all - shown).unwrap_or(usize::MAX).min(requests.len());
        for arrival in &requests[requests.len() - fresh..] {
            line(arrival, output);
        }
        shown = all;
    }
}

fn line(arrival: &Arrival, output: Output) {
    let verdict = match &arrival.verdict {
        None => "not checked".to_owned(),
        Some(Ok(_)) => "good".to_owned(),
        Some(Err(error)) => error.class().to_owned(),
    };
    let value = json!({
        "event": "request",
        "at": arrival.at.to_string(),
        "event_id": arrival.event_id,
        "type": arrival.event_type,
        "attempt": arrival.attempt,
        "signature": verdict,
    });
    output.answer(&value, || {
        let of = |text: &Option<String>| escape(&human::or_dash(text.as_deref()));
        let (id, event_type) = (of(&arrival.event_id), of(&arrival.event_type));
        format!("{}  {event_type}  {id}  attempt {}  signature {verdict}", human::time(arrival.at), arrival.attempt)
    });
}
