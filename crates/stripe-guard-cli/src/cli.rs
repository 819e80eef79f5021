//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands;
use crate::config::Flags;

/// A durable inbox for Stripe webhooks.
#[derive(Parser, Debug)]
#[command(name = "stripe-guard", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 ok, 1 failed, 2 configuration or usage, 3 not found.";

/// What every command takes.
#[derive(Args, Debug)]
pub(crate) struct Global {
    /// The configuration file; else STRIPE_GUARD_CONFIG, else ./stripe-guard.toml if it is there
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where the inbox is kept, such as sqlite://stripe-guard.db; else STRIPE_GUARD_DATABASE
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) database: Option<String>,
    /// Answer in JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// What the commands take that start or check the server.
#[derive(Args, Debug, Default)]
pub(crate) struct Overrides {
    /// Forward events to this address, as the destination "app"; else STRIPE_GUARD_FORWARD_TO
    #[arg(long, value_name = "URL")]
    pub(crate) forward_to: Option<String>,
    /// Take Stripe's requests here; else STRIPE_GUARD_LISTEN
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Answer health, metrics and administration here; else STRIPE_GUARD_ADMIN_LISTEN
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) admin_listen: Option<String>,
}

impl Global {
    /// The flags of the configuration, without overrides of a server.
    pub(crate) fn flags(&self) -> Flags {
        Flags { config: self.config.clone(), database: self.database.clone(), ..Flags::default() }
    }

    /// The flags of the configuration, with a server's.
    pub(crate) fn flags_with(&self, overrides: &Overrides) -> Flags {
        Flags {
            listen: overrides.listen.clone(),
            admin_listen: overrides.admin_listen.clone(),
            forward_to: overrides.forward_to.clone(),
            ..self.flags()
        }
    }
}

/// The commands, one module each.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Take Stripe's events in and deliver them to the app
    Serve(commands::serve::Serve),
    /// Read the configuration as serve would, and say what is wrong with it
    Check(commands::check::Check),
    /// Write a commented configuration file
    Init(commands::init::Init),
    /// Look at stored events
    Events(commands::events::Events),
    /// Show the attempts at a delivery or an event
    Attempts(commands::attempts::Attempts),
    /// List what was given up
    DeadLetters(commands::dead_letters::DeadLetters),
    /// Deliver again what has ended: a new round with a fresh budget
    Replay(commands::operate::Many),
    /// Try at once what waits for its next attempt
    RetryNow(commands::operate::RetryNow),
    /// Give deliveries up
    Discard(commands::operate::Many),
    /// Show counts and ages
    Stats(commands::stats::StatsCommand),
    /// Show the whole at work: a pretend Stripe, the inbox, a pretend app
    Demo(commands::demo::Demo),
    /// Run a pretend Stripe or a pretend app alone
    Sandbox(commands::sandbox::Sandbox),
    /// Sign a body as Stripe does, and print the header
    Sign(commands::sign::Sign),
    /// Check a body's signature, and say why it fails
    Verify(commands::verify::Verify),
}
