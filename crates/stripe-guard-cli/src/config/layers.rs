//! Flag over environment over file over default, merged deeply.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::problem::{Report, Wrong};
use super::section::kind;
use super::{DEFAULTS, Inputs};

/// The file that is read when none is named and it is there.
pub(crate) const FILE: &str = "stripe-guard.toml";

/// The destination that `--forward-to` speaks of.
pub(super) const FORWARD_DESTINATION: &str = "app";

/// The source of the one-command case.
pub(super) const DEFAULT_SOURCE: &str = "stripe";

/// All layers in one: every source and destination has its defaults in it.
pub(super) struct Layers {
    /// The configuration without sources and destinations.
    pub(super) top: Table,
    /// `sources.NAME`.
    pub(super) sources: Table,
    /// `destinations.NAME`.
    pub(super) destinations: Table,
    /// The file that was read.
    pub(super) file: Option<PathBuf>,
}

/// Puts the layers together; `None` when the file cannot be read, which is then reported.
pub(super) fn gather(inputs: &Inputs, report: &mut Report) -> Option<Layers> {
    let mut top: Table = DEFAULTS.parse().expect("the default configuration is tested to be TOML");
    let default_sources = take_table(&mut top, "sources");
    let default_destinations = take_table(&mut top, "destinations");

    let file = find_file(inputs).map_err(|wrong| report.wrong("STRIPE_GUARD_CONFIG", wrong)).ok()?;
    let mut written = match &file {
        Some(path) => read_file(path, report)?,
        None => Table::new(),
    };
    let mut sources = named_tables(&mut written, "sources", report)?;
    let mut destinations = named_tables(&mut written, "destinations", report)?;
    merge(&mut top, written);

    let forward_to = apply_overrides(&mut top, inputs, report);
    if let Some(url) = forward_to {
        let app = destinations.entry(FORWARD_DESTINATION).or_insert_with(|| Value::Table(Table::new()));
        if let Value::Table(app) = app {
            app.insert("url".to_owned(), url);
        }
    }
    if sources.is_empty() {
        sources.insert(DEFAULT_SOURCE.to_owned(), Value::Table(Table::new()));
    }
    Some(Layers {
        top,
        sources: with_defaults(sources, &default_sources, |name, key| {
            name != DEFAULT_SOURCE && matches!(key, "path" | "secrets")
        }),
        // The url in the defaults is an example: nothing is sent where nobody said.
        destinations: with_defaults(destinations, &default_destinations, |_, key| key == "url"),
        file,
    })
}

/// Lays each named table over the defaults, without the keys that cannot be shared.
fn with_defaults(named: Table, defaults: &Table, is_its_own: impl Fn(&str, &str) -> bool) -> Table {
    let template = defaults.values().find_map(Value::as_table).cloned().unwrap_or_default();
    let layered = named.into_iter().map(|(name, value)| {
        let Value::Table(written) = value else { return (name, value) };
        let shared = template.iter().filter(|(key, _)| !is_its_own(&name, key));
        let mut table: Table = shared.map(|(key, value)| (key.clone(), value.clone())).collect();
        merge(&mut table, written);
        (name, Value::Table(table))
    });
    layered.collect()
}

/// Lays `over` over `table`: tables are merged, everything else is replaced.
pub(super) fn merge(table: &mut Table, over: Table) {
    for (key, value) in over {
        match (table.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => merge(below, above),
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
}

fn take_table(table: &mut Table, name: &str) -> Table {
    match table.remove(name) {
        Some(Value::Table(inner)) => inner,
        _ => Table::new(),
    }
}

fn named_tables(table: &mut Table, name: &str, report: &Report) -> Option<Table> {
    match table.remove(name) {
        None => Some(Table::new()),
        Some(Value::Table(inner)) => Some(inner),
        Some(other) => {
            let wrong = Wrong::new(format!("is {}, not tables", kind(&other)), format!("write [{name}.NAME]"));
            report.wrong(name, wrong);
            None
        }
    }
}

/// Flags and variables; gives back the address to forward to.
fn apply_overrides(top: &mut Table, inputs: &Inputs, report: &mut Report) -> Option<Value> {
    let flags = &inputs.flags;
    let forward_to_key = "destinations.app.url";
    let mut forward_to = None;
    for (key, flag, flag_name, variable) in [
        ("database", &flags.database, "--database", "STRIPE_GUARD_DATABASE"),
        ("listen", &flags.listen, "--listen", "STRIPE_GUARD_LISTEN"),
        ("admin.listen", &flags.admin_listen, "--admin-listen", "STRIPE_GUARD_ADMIN_LISTEN"),
        (forward_to_key, &flags.forward_to, "--forward-to", "STRIPE_GUARD_FORWARD_TO"),
    ] {
        let (value, origin) = match (flag, inputs.environment.setting(variable)) {
            (Some(value), _) => (value.clone(), flag_name),
            (None, Ok(Some(value))) => (value.to_owned(), variable),
            (None, Ok(None)) => continue,
            (None, Err(wrong)) => {
                report.wrong(key, wrong);
                continue;
            }
        };
        report.came_from(key, origin);
        if key == forward_to_key {
            forward_to = Some(Value::String(value));
        } else {
            insert_at(top, key, Value::String(value));
        }
    }
    forward_to
}

fn insert_at(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
        }
        Some((outer, inner)) => {
            // A wrong kind of value there is left as it is: reading it reports it.
            if let Some(Value::Table(inside)) = table.get_mut(outer) {
                insert_at(inside, inner, value);
            }
        }
    }
}

/// The file to read, if any.
fn find_file(inputs: &Inputs) -> Result<Option<PathBuf>, Wrong> {
    if let Some(path) = &inputs.flags.config {
        return Ok(Some(path.clone()));
    }
    if let Some(path) = inputs.environment.setting("STRIPE_GUARD_CONFIG")? {
        return Ok(Some(PathBuf::from(path)));
    }
    Ok(Path::new(FILE).exists().then(|| PathBuf::from(FILE)))
}

fn read_file(path: &Path, report: &Report) -> Option<Table> {
    let key = path.display().to_string();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            let remedy = "correct the path, or write a file with stripe-guard init";
            report.wrong(&key, Wrong::new(format!("cannot be read ({})", error.kind()), remedy));
            return None;
        }
    };
    match text.parse() {
        Ok(table) => Some(table),
        Err(error) => {
            report.wrong(
                &place_in(&key, &text, &error),
                Wrong::new(format!("is not TOML ({})", one_line(error.message())), "correct that line"),
            );
            None
        }
    }
}

/// File, line and column of a syntax error. The error's own text quotes the line, which may hold
/// a secret.
fn place_in(file: &str, text: &str, error: &toml::de::Error) -> String {
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else { return file.to_owned() };
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
    format!("{file}:{line}:{column}")
}

fn one_line(message: &str) -> String {
    message.split('\n').map(str::trim).collect::<Vec<_>>().join(", ")
}
