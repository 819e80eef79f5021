//! `[retry]`, and a destination's own.

use std::time::Duration;

use stripe_guard_core::{Budget, RetryPolicy};
use toml::{Table, Value};

use super::layers::merge;
use super::problem::Wrong;
use super::section::{Section, kind, number, text};
use super::units;

/// Later than this, nobody waits for the effect of a payment.
const BUDGET_MAX: Duration = Duration::from_hours(30 * 24);

const ATTEMPTS_MAX: u32 = 1000;

/// What a destination says of its own, over the common schedule. One that names a preset starts
/// from that preset, not from the common budget.
pub(super) fn layered(common: &Table, own: Table) -> Table {
    let mut table = common.clone();
    if own.contains_key("preset") {
        table.remove("budget");
    }
    merge(&mut table, own);
    table
}

/// Reads a schedule; `None` when something in it is wrong, which is then reported.
pub(super) fn read(mut section: Section<'_>) -> Option<RetryPolicy> {
    let preset = section.take("preset", preset);
    let budget = if section.has("budget") { section.take("budget", budget).map(Some) } else { Some(None) };
    let floor = section.take("floor", |value| units::duration(value, Duration::ZERO..=Duration::from_hours(1)));
    let cap_bounds = Duration::from_millis(100)..=Duration::from_hours(24);
    let cap = section.take("cap", |value| units::duration(value, cap_bounds));
    if cap < floor && cap.is_some() {
        let wrong = Wrong::new("is shorter than floor", "make it at least as long as floor");
        section.report().wrong(&section.key_of("cap"), wrong);
    }
    section.finish();
    let preset = preset?;
    Some(RetryPolicy { budget: budget?.unwrap_or(preset.budget), floor: floor?, cap: cap? })
}

fn preset(value: &Value) -> Result<RetryPolicy, Wrong> {
    match text(value)? {
        "stripe" => Ok(RetryPolicy::default()),
        "article" => Ok(RetryPolicy::article()),
        _ => Err(Wrong::new("is not a preset", "write \"stripe\" (72 hours) or \"article\" (five attempts)")),
    }
}

fn budget(value: &Value) -> Result<Budget, Wrong> {
    match value {
        Value::Integer(_) => number(value, 1, ATTEMPTS_MAX).map(Budget::Attempts),
        Value::String(_) => units::duration(value, Duration::from_secs(1)..=BUDGET_MAX).map(Budget::Time),
        other => {
            let remedy = "write a duration such as \"72h\", or a number of attempts such as 5";
            Err(Wrong::new(format!("is {}, not a budget", kind(other)), remedy))
        }
    }
}
