//! What the commands read that look into an inbox: where it is, and what is configured round it.
//!
//! No secret is read, since an operator's shell seldom has those of the server; and a mistake in
//! a source or destination must not stand between an operator and the inbox.

use std::collections::BTreeMap;

use stripe_guard::settings::{Database, Destination};
use toml::{Table, Value};

use super::problem::Report;
use super::section::Section;
use super::{ConfigError, Inputs, destinations, layers, top};

/// An inbox's place, and what is configured round it.
pub(crate) struct Surroundings {
    /// Where the inbox is.
    pub(crate) database: Database,
    /// The API version that each source expects, where it names one.
    pub(crate) api_versions: BTreeMap<String, String>,
    /// The destinations, without their secrets; `None` when there is no telling.
    pub(crate) destinations: Option<Vec<Destination>>,
}

/// Reads the place strictly, and the rest as far as it can be read.
pub(crate) fn surroundings(inputs: &Inputs) -> Result<Surroundings, ConfigError> {
    let mut report = Report::default();
    let Some(layers) = layers::gather(inputs, &mut report) else { return Err(report.into_error()) };
    let retry = layers.top.get("retry").and_then(Value::as_table).cloned().unwrap_or_default();
    let mut root = Section::new("", layers.top, &report);
    let database = top::database(&mut root);
    for other in ["listen", "admin", "retry", "retention", "limits"] {
        root.raw(other);
    }
    // A misspelt `database` must not lead to another inbox.
    root.finish();
    let Some(database) = database else { return Err(report.into_error()) };
    report.close()?;
    let api_versions = layers.sources.iter().filter_map(|(name, source)| {
        let version = source.get("api_version")?.as_str()?;
        Some((name.clone(), version.to_owned()))
    });
    Ok(Surroundings {
        database,
        api_versions: api_versions.collect(),
        destinations: destinations_in(layers.destinations, &retry, inputs),
    })
}

fn destinations_in(mut tables: Table, retry: &Table, inputs: &Inputs) -> Option<Vec<Destination>> {
    for table in tables.iter_mut().filter_map(|(_, value)| value.as_table_mut()) {
        table.insert("secrets".to_owned(), Value::Array(Vec::new()));
    }
    let report = Report::default();
    let found = destinations::read_all(tables, retry, &inputs.environment, &report);
    report.close().is_ok().then_some(found)
}
