//! The command `stripe-guard`: reads the configuration, wires the engine, and looks into the inbox.

mod cli;
mod clock;
mod commands;
mod config;
mod diagnose;
mod failure;
mod logging;
mod output;

use std::process::ExitCode;

use clap::Parser as _;

use cli::{Cli, Command};
use commands::operate::Verb;
use config::Environment;
use output::Output;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let output = Output::new(cli.global.json);
    let environment = Environment::of_process();
    let done = match &cli.command {
        Command::Serve(serve) => serve.run(&cli.global, environment, output),
        Command::Check(check) => check.run(&cli.global, environment, output),
        Command::Init(init) => init.run(&cli.global, output),
        Command::Events(events) => events.run(&cli.global, environment, output),
        Command::Attempts(attempts) => attempts.run(&cli.global, environment, output),
        Command::DeadLetters(letters) => letters.run(&cli.global, environment, output),
        Command::Replay(many) => many.run(Verb::Replay, &cli.global, environment, output),
        Command::RetryNow(retry) => retry.run(&cli.global, environment, output),
        Command::Discard(many) => many.run(Verb::Discard, &cli.global, environment, output),
        Command::Stats(stats) => stats.run(&cli.global, environment, output),
        Command::Demo(demo) => demo.run(&environment, output),
        Command::Sandbox(sandbox) => sandbox.run(&cli.global, environment, output),
        Command::Sign(sign) => sign.run(&cli.global, environment, output),
        Command::Verify(verify) => verify.run(&cli.global, environment, output),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(output),
    }
}
