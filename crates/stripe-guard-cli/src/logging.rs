//! The log: on standard error, so that standard output stays for answers.

use std::io::IsTerminal as _;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::config::Environment;
use crate::failure::Failure;

/// How much of other people's code is ever logged. Below it, a library may write what passes
/// through it, such as headers, addresses with their queries, or statements with their values, and
/// its next release may write more. No setting may ask for that.
const OTHERS_MAX: LevelFilter = LevelFilter::INFO;

/// Starts the log at the level of STRIPE_GUARD_LOG, `info` unless it is set.
pub(crate) fn start(environment: &Environment) -> Result<(), Failure> {
    let usage = |why: String| Failure::Usage(format!("STRIPE_GUARD_LOG {why}; write a level such as info or debug"));
    let setting = environment
        .setting("STRIPE_GUARD_LOG")
        .map_err(|wrong| usage(wrong.at("STRIPE_GUARD_LOG").problem))?
        .unwrap_or("info");
    let filter = EnvFilter::try_new(setting).map_err(|error| usage(format!("is no log filter ({error})")))?;
    let lines =
        tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    let bounded = tracing_subscriber::filter::filter_fn(|what| is_ours(what.target()) || *what.level() <= OTHERS_MAX);
    // A second start in one process keeps the first.
    _ = tracing_subscriber::registry().with(filter).with(lines.with_filter(bounded)).try_init();
    Ok(())
}

fn is_ours(target: &str) -> bool {
    target == "stripe_guard" || target.starts_with("stripe_guard::") || target.starts_with("stripe_guard_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_peoples_code_is_known_by_its_target() {
        assert!(["stripe_guard", "stripe_guard::worker", "stripe_guard_core::x"].into_iter().all(is_ours));
        assert!(!["hyper", "sqlx::sqlite", "stripe", "stripe_guardian"].into_iter().any(is_ours));
    }
}
