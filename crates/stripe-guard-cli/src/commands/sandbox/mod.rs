//! `stripe-guard sandbox`.

mod app;
mod stripe;

use clap::{Args, Subcommand};

use crate::cli::Global;
use crate::config::Environment;
use crate::failure::Failure;
use crate::output::Output;

/// Runs a pretend Stripe or a pretend app alone, on this machine.
#[derive(Args, Debug)]
pub(crate) struct Sandbox {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Send signed events as Stripe does: repeated, reordered, and again until they are taken
    Stripe(stripe::Stripe),
    /// Receive events as an app does, and behave badly on request
    App(app::PretendApp),
}

impl Sandbox {
    /// Runs the command.
    pub(crate) fn run(&self, global: &Global, environment: Environment, output: Output) -> Result<(), Failure> {
        match &self.command {
            Command::Stripe(stripe) => stripe.run(global, environment, output),
            Command::App(app) => app.run(&environment, output),
        }
    }
}
