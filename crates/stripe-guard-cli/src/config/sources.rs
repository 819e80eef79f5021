//! `[sources.NAME]`.

use std::time::Duration;

use stripe_guard::settings::Source;
use stripe_guard_core::{Mode, Tolerance};
use toml::{Table, Value};

use super::environment::Environment;
use super::problem::{Report, Wrong};
use super::secret::{self, Secret};
use super::section::{self, text};
use super::units;

/// A source, and its secrets with their texts.
pub(super) struct ReadSource {
    /// As the engine takes it.
    pub(super) source: Source,
    /// As the commands `sign` and `verify` take them.
    pub(super) secrets: Vec<Secret>,
}

/// Reads every source; those with a problem are reported and left out.
pub(super) fn read_all(sources: Table, environment: &Environment, report: &Report) -> Vec<ReadSource> {
    let found: Vec<ReadSource> =
        sources.into_iter().filter_map(|(name, value)| read(&name, value, environment, report)).collect();
    for (index, one) in found.iter().enumerate() {
        if let Some(other) = found[..index].iter().find(|other| other.source.path == one.source.path) {
            let problem = format!("is the path of the source {}, too", other.source.name);
            let key = format!("sources.{}.path", one.source.name);
            report.wrong(&key, Wrong::new(problem, "give each source a path of its own"));
        }
    }
    found
}

fn read(name: &str, value: Value, environment: &Environment, report: &Report) -> Option<ReadSource> {
    let mut section = section::named("sources", name, value, report)?;
    let path = if section.has("path") { section.take("path", path) } else { Some(format!("/webhooks/{name}")) };
    let remedy = "list the endpoint's signing secrets, such as [\"env:STRIPE_WEBHOOK_SECRET\"]";
    let secrets =
        section.must_have("secrets", remedy).then(|| secret::take_list(&mut section, "secrets", environment)).flatten();
    if secrets.as_ref().is_some_and(Vec::is_empty) {
        report.wrong(&section.key_of("secrets"), Wrong::new("is empty", remedy));
    }
    let mode = section.take("mode", mode);
    let accounts = section.list("accounts", account);
    let api_version =
        if section.has("api_version") { section.take("api_version", api_version).map(Some) } else { Some(None) };
    let tolerance = section.take("tolerance", tolerance);
    if tolerance == Some(Tolerance::OFF) {
        report.warn(format!("{}: 0 switches the check of a signature's age off", section.key_of("tolerance")));
    }
    section.finish();
    let secrets = secrets?;
    let source = Source {
        name: name.to_owned(),
        path: path?,
        secrets: secrets.iter().map(|secret| secret.signing.clone()).collect(),
        mode: mode?,
        accounts: accounts?,
        api_version: api_version?,
        tolerance: tolerance?,
    };
    Some(ReadSource { source, secrets })
}

/// A path as the endpoint has it, plain enough to be the same before and after every proxy.
fn path(value: &Value) -> Result<String, Wrong> {
    let remedy = "write one such as \"/webhooks/stripe\", of letters, digits, - _ . ~ and single slashes";
    let raw = text(value)?;
    let Some(path) = raw.strip_suffix('/').unwrap_or(raw).strip_prefix('/') else {
        return Err(Wrong::new("does not begin with a slash and go on", remedy));
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~');
    let segment = |segment: &str| !matches!(segment, "" | "." | "..") && segment.chars().all(plain);
    if !path.split('/').all(segment) {
        return Err(Wrong::new("is not a plain path", remedy));
    }
    if matches!(path, "healthz" | "readyz") {
        return Err(Wrong::new("is a path that health checks use", remedy));
    }
    Ok(format!("/{path}"))
}

fn mode(value: &Value) -> Result<Mode, Wrong> {
    text(value)?.parse().map_err(|_| Wrong::new("is not a mode", "write \"live\", \"test\" or \"any\""))
}

fn account(value: &Value) -> Result<String, Wrong> {
    let account = text(value)?;
    let plain = !account.is_empty() && account.len() <= 255 && account.chars().all(|c| c.is_ascii_graphic());
    if !plain {
        return Err(Wrong::new("is not an account", "write its id (\"acct_…\"), or \"self\" for your own account"));
    }
    Ok(account.to_owned())
}

fn api_version(value: &Value) -> Result<String, Wrong> {
    let version = text(value)?;
    let begins_with_a_date = version.get(..10).is_some_and(|date| {
        date.bytes()
            .enumerate()
            .all(|(at, byte)| if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() })
    });
    let plain = version.len() <= 64 && version.chars().all(|c| c.is_ascii_graphic());
    if !(begins_with_a_date && plain) {
        return Err(Wrong::new("is not an API version", "copy it from the endpoint in Stripe's dashboard"));
    }
    Ok(version.to_owned())
}

/// Signatures that are older than this prove nothing about when they were sent.
const TOLERANCE_MAX: Duration = Duration::from_hours(7 * 24);

fn tolerance(value: &Value) -> Result<Tolerance, Wrong> {
    let found = units::duration(value, Duration::ZERO..=TOLERANCE_MAX)?;
    let seconds = u32::try_from(found.as_secs()).unwrap_or(u32::MAX);
    // Rounding half a second down would switch the check off.
    if found.subsec_nanos() != 0 {
        return Err(Wrong::new("is not in whole seconds", "write whole seconds, such as \"300s\""));
    }
    Ok(Tolerance::from_secs(seconds))
}
