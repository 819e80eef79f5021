//! The keys outside tables, and `[admin]`.

use std::net::SocketAddr;
use std::path::PathBuf;

use stripe_guard::settings::Database;
use toml::Value;

use super::problem::Wrong;
use super::section::{Section, text};

/// Takes `database` and `table_prefix` out of the root.
pub(super) fn database(root: &mut Section<'_>) -> Option<Database> {
    let path = root.take("database", database_path);
    let table_prefix = root.take("table_prefix", table_prefix);
    Some(Database::Sqlite { path: path?, table_prefix: table_prefix? })
}

/// Takes `listen` out of a table.
pub(super) fn listen(section: &mut Section<'_>) -> Option<SocketAddr> {
    section.take("listen", |value| {
        text(value)?.trim().parse().map_err(|_| {
            Wrong::new("is not an address with a port", "write one such as \"127.0.0.1:4747\" or \"[::1]:4747\"")
        })
    })
}

/// Reads the host names of `[admin]`.
pub(super) fn hosts(section: &mut Section<'_>) -> Option<Vec<String>> {
    section.list("hosts", |value| {
        let host = text(value)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        if host.is_empty() || host.len() > 253 || !host.chars().all(plain) {
            let remedy = "write the name only, such as \"guard.example.com\", without scheme, port or path";
            return Err(Wrong::new("is not a host name", remedy));
        }
        Ok(host.to_ascii_lowercase())
    })
}

/// Never quotes the value: the URL of another database may hold a password.
fn database_path(value: &Value) -> Result<PathBuf, Wrong> {
    let remedy = "write \"sqlite://\" and the path of a file, such as \"sqlite://stripe-guard.db\"";
    let raw = text(value)?.trim();
    if raw.starts_with("postgres://") || raw.starts_with("postgresql://") {
        return Err(Wrong::new("names PostgreSQL, which is not in this build yet", remedy));
    }
    if raw == "sqlite::memory:" || raw == "sqlite://:memory:" {
        return Err(Wrong::new("is in memory, where no event would outlive the process", remedy));
    }
    let Some(path) = raw.strip_prefix("sqlite://") else {
        return Err(Wrong::new("is not a database that we know", remedy));
    };
    if path.is_empty() || path.ends_with('/') {
        return Err(Wrong::new("names no file", remedy));
    }
    if path.contains(['?', '#']) || path.chars().any(char::is_control) {
        return Err(Wrong::new("has options or control characters in its path", remedy));
    }
    Ok(PathBuf::from(path))
}

fn table_prefix(value: &Value) -> Result<String, Wrong> {
    let prefix = text(value)?;
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let begins_well = prefix.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_');
    // SQLite keeps this one for itself.
    if prefix.len() > 40 || !begins_well || !prefix.bytes().all(plain) || prefix.starts_with("sqlite_") {
        return Err(Wrong::new("cannot begin a table's name", "use 1 to 40 of a-z, 0-9 and _, with a letter first"));
    }
    Ok(prefix.to_owned())
}
