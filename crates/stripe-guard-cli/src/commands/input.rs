//! What `sign` and `verify` read: a body, secrets, a time.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;
use bytes::Bytes;
use clap::Args;
use stripe_guard_core::Timestamp;

use crate::cli::Global;
use crate::clock;
use crate::config::secret::{Secret, resolve};
use crate::config::{self, ConfigError, Environment, Inputs};
use crate::failure::Failure;

/// Larger than any event by far; a wrong file is told from a body by it.
const BODY_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Where the secrets come from.
#[derive(Args, Debug)]
pub(crate) struct SecretArgs {
    /// A signing secret: env:NAME, file:PATH, or the text itself (which other users of this machine can see); may be given several times
    #[arg(long = "secret", value_name = "SECRET")]
    secrets: Vec<String>,
    /// Without --secret: the source of the configuration whose secrets count [default: all]
    #[arg(long, value_name = "NAME", conflicts_with = "secrets")]
    source: Option<String>,
}

impl SecretArgs {
    /// The secrets, from the command line or the configuration; at least one.
    pub(crate) fn read(&self, global: &Global, environment: Environment) -> Result<Vec<Secret>, Failure> {
        if self.secrets.is_empty() {
            let inputs = Inputs { flags: global.flags(), environment };
            return Ok(config::source_secrets(&inputs, self.source.as_deref())?);
        }
        let (mut found, mut problems) = (Vec::new(), Vec::new());
        for (index, reference) in self.secrets.iter().enumerate() {
            match resolve(reference, &environment) {
                Ok(secrets) => found.extend(secrets),
                Err(wrong) if self.secrets.len() == 1 => problems.push(wrong.at("--secret")),
                Err(wrong) => problems.push(wrong.at(format!("--secret ({})", index + 1))),
            }
        }
        if problems.is_empty() { Ok(found) } else { Err(ConfigError { problems }.into()) }
    }
}

/// Reads a body from a file, or from standard input for `-`.
pub(crate) fn body(path: &Path) -> Result<Bytes, Failure> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| anyhow!("{shown} cannot be read ({})", error.kind());
    let mut body = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().take(BODY_BYTES_MAX + 1).read_to_end(&mut body).map_err(unreadable)?;
    } else {
        let file = std::fs::File::open(path).map_err(unreadable)?;
        file.take(BODY_BYTES_MAX + 1).read_to_end(&mut body).map_err(unreadable)?;
    }
    if body.len() as u64 > BODY_BYTES_MAX {
        return Err(anyhow!("{shown} is longer than {BODY_BYTES_MAX} bytes, which no event is").into());
    }
    Ok(body.into())
}

/// Reads a time: Unix seconds or RFC 3339; now when there is none.
pub(crate) fn time(text: Option<&str>, flag: &str) -> Result<Timestamp, Failure> {
    let Some(text) = text else { return Ok(clock::now()) };
    if let Ok(seconds) = text.parse::<i64>() {
        return Ok(Timestamp::from_secs(seconds));
    }
    text.parse().map_err(|error| Failure::Usage(format!("{flag}: {error}, nor a number of seconds since 1970")))
}

/// Reads a duration such as "5s".
pub(crate) fn duration(text: &str, flag: &str) -> Result<Duration, Failure> {
    let value = toml::Value::String(text.to_owned());
    let bounds = Duration::from_millis(1)..=Duration::from_hours(24);
    config::duration(&value, bounds).map_err(|wrong| ConfigError { problems: vec![wrong.at(flag)] }.into())
}
