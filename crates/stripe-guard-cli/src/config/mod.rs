//! The configuration: flag over environment over file over default, read strictly, with every
//! problem named at once.

mod between;
mod destinations;
mod environment;
mod layers;
mod limits;
mod problem;
mod retry;
pub(crate) mod secret;
mod section;
mod sources;
mod surroundings;
#[cfg(test)]
mod tests;
mod top;
mod units;

use std::path::PathBuf;

use stripe_guard::settings::Settings;
use toml::Table;

pub(crate) use environment::Environment;
pub(crate) use layers::FILE;
pub(crate) use problem::{ConfigError, Problem, Wrong};
pub(crate) use section::is_name;
pub(crate) use surroundings::{Surroundings, surroundings};
pub(crate) use units::{duration, show_duration};

use problem::Report;
use secret::Secret;
use section::Section;

/// The default, the manual and what `init` writes, in one.
pub(crate) const DEFAULTS: &str = include_str!("default.toml");

/// What the command line says of the configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags {
    /// `--config`.
    pub(crate) config: Option<PathBuf>,
    /// `--database`.
    pub(crate) database: Option<String>,
    /// `--listen`.
    pub(crate) listen: Option<String>,
    /// `--admin-listen`.
    pub(crate) admin_listen: Option<String>,
    /// `--forward-to`.
    pub(crate) forward_to: Option<String>,
}

/// Everything a configuration is made of, beside the files: kept, so that a reload asks again.
#[derive(Clone, Default)]
pub(crate) struct Inputs {
    /// The command line.
    pub(crate) flags: Flags,
    /// The environment.
    pub(crate) environment: Environment,
}

/// A configuration that can be used.
pub(crate) struct Loaded {
    /// For the engine.
    pub(crate) settings: Settings,
    /// What an operator should know, and what stops nothing.
    pub(crate) warnings: Vec<String>,
    /// The file that was read, if any.
    pub(crate) file: Option<PathBuf>,
}

/// Reads the configuration, files and secrets included. A reload is a second call.
pub(crate) fn load(inputs: &Inputs) -> Result<Loaded, ConfigError> {
    let mut report = Report::default();
    let Some(layers) = layers::gather(inputs, &mut report) else { return Err(report.into_error()) };
    let file = layers.file;
    match read(layers.top, layers.sources, layers.destinations, &inputs.environment, &report) {
        Some(settings) => Ok(Loaded { settings, warnings: report.close()?, file }),
        None => Err(report.into_error()),
    }
}

/// The signing secrets of one source, or of all: for the commands that need no destination.
pub(crate) fn source_secrets(inputs: &Inputs, source: Option<&str>) -> Result<Vec<Secret>, ConfigError> {
    let mut report = Report::default();
    let Some(mut layers) = layers::gather(inputs, &mut report) else { return Err(report.into_error()) };
    if let Some(name) = source {
        layers.sources.retain(|other, _| other == name);
        if layers.sources.is_empty() {
            report.wrong(&format!("sources.{name}"), Wrong::new("there is none", "name a source of the configuration"));
        }
    }
    let found = sources::read_all(layers.sources, &inputs.environment, &report);
    report.close()?;
    Ok(found.into_iter().flat_map(|one| one.secrets).collect())
}

fn read(
    top: Table,
    sources: Table,
    destinations: Table,
    environment: &Environment,
    report: &Report,
) -> Option<Settings> {
    let names: Vec<String> = sources.keys().cloned().collect();
    let sources: Vec<_> = sources::read_all(sources, environment, report).into_iter().map(|one| one.source).collect();

    let mut root = Section::new("", top, report);
    let database = top::database(&mut root);
    let listen = top::listen(&mut root);
    let (admin_listen, admin_hosts) = root.table("admin").map_or((None, None), |mut admin| {
        let found = (top::listen(&mut admin), top::hosts(&mut admin));
        admin.finish();
        found
    });
    let common_retry = root.table("retry");
    let retry_table = common_retry.as_ref().map(|section| section.as_table().clone()).unwrap_or_default();
    let retry = common_retry.and_then(retry::read);
    let retention = root.table("retention").and_then(limits::read_retention);
    let limits = root.table("limits").and_then(limits::read);
    root.finish();

    let destinations = destinations::read_all(destinations, &retry_table, environment, report);
    between::feeding(&names, &sources, &destinations, report);
    if let Some(limits) = &limits {
        between::lease(limits, &destinations, report);
    }
    if let Some(listen) = listen {
        between::own_address(listen, &sources, &destinations, report);
        if let Some(admin) = admin_listen {
            between::listeners(listen, admin, report);
        }
    }
    retry?;
    Some(Settings {
        database: database?,
        listen: listen?,
        admin_listen: admin_listen?,
        admin_hosts: admin_hosts?,
        sources,
        destinations,
        limits: limits?,
        retention: retention?,
    })
}
