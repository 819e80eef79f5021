//! The log: on standard error, so that standard output stays for answers.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::config::Environment;
use crate::failure::Failure;

/// Starts the log at the level of STRIPE_GUARD_LOG, `info` unless it is set.
pub(crate) fn start(environment: &Environment) -> Result<(), Failure> {
    let usage = |why: String| Failure::Usage(format!("STRIPE_GUARD_LOG {why}; write a level such as info or debug"));
    let setting = environment
        .setting("STRIPE_GUARD_LOG")
        .map_err(|wrong| usage(wrong.at("STRIPE_GUARD_LOG").problem))?
        .unwrap_or("info");
    let filter = EnvFilter::try_new(setting).map_err(|error| usage(format!("is no log filter ({error})")))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second start in one process keeps the first.
    _ = log.with_ansi(std::io::stderr().is_terminal()).try_init();
    Ok(())
}
