//! The keys outside tables, and `[admin]`.

use std::net::SocketAddr;
use std::path::PathBuf;

use stripe_guard::settings::Database;
use stripe_guard::store::{NotAPostgresUrl, Pooler, PostgresUrl};
use toml::Value;

use super::problem::Wrong;
use super::section::{Section, number, text};

/// Takes `database`, `table_prefix` and `[postgres]` out of the root.
pub(super) fn database(root: &mut Section<'_>) -> Option<Database> {
    let place = root.take("database", place);
    let table_prefix = root.take("table_prefix", table_prefix);
    let postgres = root.table("postgres").and_then(postgres);
    match place? {
        Place::File(path) => Some(Database::Sqlite { path, table_prefix: table_prefix? }),
        Place::Server(url) => {
            let Postgres { schema, pooler, require_replica, connections } = postgres?;
            Some(Database::Postgres { url, schema, pooler, require_replica, connections })
        }
    }
}

enum Place {
    File(PathBuf),
    Server(PostgresUrl),
}

struct Postgres {
    schema: String,
    pooler: Pooler,
    require_replica: bool,
    connections: u32,
}

fn postgres(mut section: Section<'_>) -> Option<Postgres> {
    let schema = section.take("schema", schema);
    let pooler = section.take("pooler", |value| match text(value)? {
        "none" => Ok(Pooler::None),
        "transaction" => Ok(Pooler::Transaction),
        _ => Err(Wrong::new("is no kind of pooler", "write \"none\" or \"transaction\"")),
    });
    let require_replica = section.take("require_replica", |value| {
        value.as_bool().ok_or_else(|| Wrong::new("is neither true nor false", "write true or false, without quotes"))
    });
    let connections = section.take("connections", |value| number(value, 1_u32, 1_000));
    section.finish();
    Some(Postgres { schema: schema?, pooler: pooler?, require_replica: require_replica?, connections: connections? })
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

/// Never quotes the value: the URL of a database may hold a password.
fn place(value: &Value) -> Result<Place, Wrong> {
    let remedy =
        "write \"sqlite://\" and the path of a file, such as \"sqlite://stripe-guard.db\", or \"postgres://…\"";
    let raw = text(value)?.trim();
    if raw.starts_with("postgres://") || raw.starts_with("postgresql://") {
        let wrong = |error: NotAPostgresUrl| Wrong::new(error.to_string(), "see docs/postgresql.md for its form");
        return raw.parse().map(Place::Server).map_err(wrong);
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
    Ok(Place::File(PathBuf::from(path)))
}

fn schema(value: &Value) -> Result<String, Wrong> {
    let name = text(value)?;
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let begins_well = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_');
    // PostgreSQL keeps these for itself.
    if name.len() > 40 || !begins_well || !name.bytes().all(plain) || name.starts_with("pg_") {
        return Err(Wrong::new("is no name for a schema", "use 1 to 40 of a-z, 0-9 and _, with a letter first"));
    }
    Ok(name.to_owned())
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
