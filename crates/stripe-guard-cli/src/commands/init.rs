//! `stripe-guard init`.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Args;
use serde_json::json;

use crate::cli::Global;
use crate::config::{DEFAULTS, FILE};
use crate::failure::Failure;
use crate::output::Output;

/// Writes a commented configuration file, and never over an existing one.
#[derive(Args, Debug)]
pub(crate) struct Init {
    /// The file to write [default: stripe-guard.toml]
    #[arg(value_name = "FILE")]
    path: Option<PathBuf>,
}

impl Init {
    /// Runs the command.
    pub(crate) fn run(&self, global: &Global, output: Output) -> Result<(), Failure> {
        let path = self.path.as_deref().or(global.config.as_deref()).unwrap_or(Path::new(FILE));
        let shown = path.display().to_string();
        // Not looked for first: between a look and a write another could write.
        let mut file =
            OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => anyhow!("{shown} is there already; move it away, or name another file"),
                kind => anyhow!("{shown} cannot be written ({kind})"),
            })?;
        file.write_all(template().as_bytes()).with_context(|| format!("{shown} cannot be written"))?;
        output.answer(&json!({ "written": shown }), || {
            format!(
                "Wrote {shown}. Set STRIPE_WEBHOOK_SECRET to the endpoint's signing secret, correct the destination's \
                 url, and try: stripe-guard check"
            )
        });
        Ok(())
    }
}

/// What a new configuration says itself; all else is shown as a comment, so that a later default
/// reaches it.
const WRITTEN: &[&str] = &["path", "secrets", "mode", "url", "types"];

/// The default file with every other key as a comment.
fn template() -> String {
    let mut text = String::with_capacity(DEFAULTS.len() + 100);
    let mut in_list = false;
    for line in DEFAULTS.lines() {
        if line.starts_with('[') {
            in_list = line.starts_with("[sources.") || line.starts_with("[destinations.");
        }
        let key = line.split(" = ").next().unwrap_or_default();
        let is_setting = line.contains(" = ") && !line.starts_with('#');
        if is_setting && !(in_list && WRITTEN.contains(&key) && !line.ends_with("[]")) {
            text.push('#');
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_says_itself_only_what_has_no_common_default() {
        let said: toml::Table = template().parse().unwrap();
        assert_eq!(said["limits"].as_table().unwrap().len(), 0);
        assert!(!said.contains_key("database"));
        let keys = |group: &str, name: &str| said[group][name].as_table().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys("sources", "stripe"), ["mode", "path", "secrets"]);
        assert_eq!(keys("destinations", "app"), ["types", "url"]);
    }
}
