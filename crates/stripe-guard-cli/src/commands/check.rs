//! `stripe-guard check`.

use clap::Args;
use serde_json::{Value, json};
use stripe_guard::settings::{Database, Destination, Settings, Source};
use stripe_guard_core::{Budget, RetryPolicy, SigningSecret};
use url::Url;

use crate::cli::{Global, Overrides};
use crate::config::{self, Environment, Inputs, Loaded, show_duration};
use crate::failure::Failure;
use crate::output::{Output, table};

/// Reads the configuration as `serve` would, and says what is wrong with it.
#[derive(Args, Debug)]
pub(crate) struct Check {
    #[command(flatten)]
    overrides: Overrides,
}

impl Check {
    /// Runs the command.
    pub(crate) fn run(&self, global: &Global, environment: Environment, output: Output) -> Result<(), Failure> {
        let inputs = Inputs { flags: global.flags_with(&self.overrides), environment };
        let loaded = config::load(&inputs)?;
        loaded.warnings.iter().for_each(|warning| output.warn(warning));
        output.answer(&as_json(&loaded), || as_text(&loaded));
        Ok(())
    }
}

fn as_json(loaded: &Loaded) -> Value {
    let Settings { listen, admin_listen, sources, destinations, .. } = &loaded.settings;
    json!({
        "ok": true,
        "file": loaded.file.as_ref().map(|path| path.display().to_string()),
        "database": database(&loaded.settings.database),
        "listen": listen.to_string(),
        "admin_listen": admin_listen.to_string(),
        "sources": sources.iter().map(|source| json!({
            "name": source.name,
            "path": source.path,
            "mode": source.mode.as_str(),
            "secrets": labels(source),
        })).collect::<Vec<_>>(),
        "destinations": destinations.iter().map(|destination| json!({
            "name": destination.name,
            "url": without_query(&destination.url),
            "sources": destination.sources,
            "types": types(destination),
            "gives_up_after": gives_up_after(&destination.retry),
        })).collect::<Vec<_>>(),
        "warnings": loaded.warnings,
    })
}

fn as_text(loaded: &Loaded) -> String {
    let Settings { listen, admin_listen, sources, destinations, .. } = &loaded.settings;
    let file = loaded.file.as_ref().map_or_else(|| "none".to_owned(), |path| path.display().to_string());
    let mut rows = vec![
        vec!["file".to_owned(), file],
        vec!["database".to_owned(), database(&loaded.settings.database)],
        vec!["listen".to_owned(), listen.to_string()],
        vec!["admin".to_owned(), admin_listen.to_string()],
    ];
    for source in sources {
        let secrets = labels(source).join(", ");
        rows.push(vec![
            format!("source {}", source.name),
            format!("{} (mode {}, secrets {secrets})", source.path, source.mode),
        ]);
    }
    for destination in destinations {
        let (types, end) = (types(destination).join(", "), gives_up_after(&destination.retry));
        rows.push(vec![
            format!("destination {}", destination.name),
            format!("{} (types {types}, gives up after {end})", without_query(&destination.url)),
        ]);
    }
    format!("{}The configuration is good.\n", table(&rows))
}

fn database(database: &Database) -> String {
    match database {
        Database::Sqlite { path, .. } => format!("sqlite://{}", path.display()),
        // Without user and password.
        Database::Postgres { url, .. } => url.to_string(),
    }
}

fn labels(source: &Source) -> Vec<&str> {
    source.secrets.iter().map(SigningSecret::label).collect()
}

fn types(destination: &Destination) -> Vec<String> {
    destination.types.iter().map(ToString::to_string).collect()
}

/// A query often carries a token.
fn without_query(url: &Url) -> String {
    let mut shown = url.clone();
    if shown.query().is_some() {
        shown.set_query(Some("…"));
        return shown.as_str().replace("?%E2%80%A6", "?…");
    }
    shown.into()
}

fn gives_up_after(policy: &RetryPolicy) -> String {
    match policy.budget {
        Budget::Time(time) => show_duration(time),
        Budget::Attempts(attempts) => format!("{attempts} attempts"),
    }
}
