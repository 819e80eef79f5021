//! `stripe-guard events`.

mod deliver;
mod list;
mod show;

use clap::{Args, Subcommand};

use crate::cli::Global;
use crate::config::Environment;
use crate::failure::Failure;
use crate::output::Output;

/// Looks at stored events, and lets those go that were kept back.
#[derive(Args, Debug)]
pub(crate) struct Events {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// List events, newest first
    List(list::List),
    /// Show an event with its deliveries and copies
    Show(show::Show),
    /// Deliver an event that was kept back as unwanted or quarantined
    Deliver(deliver::Deliver),
}

impl Events {
    /// Runs the command.
    pub(crate) fn run(&self, global: &Global, environment: Environment, output: Output) -> Result<(), Failure> {
        match &self.command {
            Command::List(list) => list.run(global, environment, output),
            Command::Show(show) => show.run(global, environment, output),
            Command::Deliver(deliver) => deliver.run(global, environment, output),
        }
    }
}
