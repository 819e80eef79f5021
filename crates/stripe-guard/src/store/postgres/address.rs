//! Where a PostgreSQL inbox is: the URL as users of libpq write it.

use std::fmt;
use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;

/// What may follow the question mark, beside `target_session_attrs`, which is ours to obey.
const PARAMETERS: &[&str] = &[
    "application_name",
    "dbname",
    "host",
    "hostaddr",
    "options",
    "password",
    "port",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "user",
];

/// The most hosts of one URL: each costs a time-out while it is away.
pub const HOSTS_MAX: usize = 8;

/// The address of a PostgreSQL database, as a URL: one host or several, separated by commas, of
/// which the one is used that takes writes.
///
/// It is never shown with its password.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl {
    /// One URL for each host, in the order given.
    hosts: Vec<String>,
    shown: String,
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for PostgresUrl {
    /// Without user, password and parameters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// Why a text is no address; says nothing of the text itself, which may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotAPostgresUrl(String);

impl FromStr for PostgresUrl {
    type Err = NotAPostgresUrl;

    fn from_str(text: &str) -> Result<Self, NotAPostgresUrl> {
        let wrong = |problem: &str| NotAPostgresUrl(problem.to_owned());
        let rest = text
            .strip_prefix("postgres://")
            .or_else(|| text.strip_prefix("postgresql://"))
            .ok_or_else(|| wrong("does not begin with postgres://"))?;
        if text.contains('#') || text.chars().any(|c| c.is_control() || c == ' ') {
            return Err(wrong("has a space, # or control character in it; write it percent-encoded, # as %23"));
        }
        let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = before.split_once('/').unwrap_or((before, ""));
        let (user, hosts) = authority.rsplit_once('@').map_or(("", authority), |(user, hosts)| (user, hosts));
        if user.contains('@') || user.contains('/') {
            return Err(wrong(
                "has an @ or / in its user or password; write them percent-encoded, @ as %40 and / as %2F",
            ));
        }
        let query = parameters(query)?;
        let names_database = !database.is_empty() || query.iter().any(|part| part.starts_with("dbname="));
        if !names_database || database.contains('/') {
            return Err(wrong("names no database; write postgres://user:password@host/database"));
        }
        let hosts: Vec<&str> = hosts.split(',').collect();
        if hosts.len() > HOSTS_MAX || (hosts.len() > 1 && hosts.iter().any(|host| host.is_empty())) {
            return Err(wrong("must name 1 to 8 hosts, separated by commas"));
        }
        let at = if user.is_empty() { String::new() } else { format!("{user}@") };
        let query = query.join("&");
        let urls = hosts.iter().map(|host| format!("postgres://{at}{host}/{database}?{query}")).collect();
        let this = Self { hosts: urls, shown: format!("postgres://{}/{database}", hosts.join(",")) };
        this.options().map_err(|error| NotAPostgresUrl(plain(&error)))?;
        Ok(this)
    }
}

/// What follows the question mark, without what we obey ourselves.
fn parameters(query: &str) -> Result<Vec<&str>, NotAPostgresUrl> {
    let mut kept = Vec::new();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        match (name, value) {
            ("target_session_attrs", "read-write" | "primary") | ("channel_binding", "prefer" | "disable") => {}
            ("target_session_attrs", _) => {
                return Err(NotAPostgresUrl(
                    "has a target_session_attrs other than read-write: an inbox needs a server that takes writes"
                        .to_owned(),
                ));
            }
            ("channel_binding", _) => {
                return Err(NotAPostgresUrl(
                    "has channel_binding=require, which is not supported; use sslmode=verify-full instead".to_owned(),
                ));
            }
            _ if PARAMETERS.contains(&name) => kept.push(part),
            _ => {
                return Err(NotAPostgresUrl(format!(
                    "has an unknown parameter {name:?}; known are target_session_attrs, {}",
                    PARAMETERS.join(", ")
                )));
            }
        }
    }
    Ok(kept)
}

/// The driver's reason, which repeats no part of the address that could be a password.
fn plain(error: &sqlx::Error) -> String {
    let text = error.to_string();
    let reason =
        ["invalid port", "invalid IPv6", "sslmode", "ssl_mode"].into_iter().find(|reason| text.contains(reason));
    match reason {
        Some("sslmode" | "ssl_mode") => {
            "has an unknown sslmode; known are disable, allow, prefer, require, verify-ca, verify-full".to_owned()
        }
        Some(reason) => format!("has an {reason}"),
        None => "cannot be read; write postgres://user:password@host/database".to_owned(),
    }
}

impl PostgresUrl {
    /// How to reach each host.
    pub(super) fn options(&self) -> sqlx::Result<Vec<PgConnectOptions>> {
        self.hosts.iter().map(|url| url.parse()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&str, &str>) {
        let parsed = text.parse::<PostgresUrl>();
        match (&parsed, expected) {
            (Ok(url), Ok(shown)) => assert_eq!(url.to_string(), shown),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            _ => panic!("{text}: {parsed:?}"),
        }
        assert!(!format!("{parsed:?}").contains("s3cret"), "{parsed:?}");
    }

    #[test]
    fn one_host_or_several_and_never_a_password_in_sight() {
        check("postgres://me:s3cret@db.example/inbox", Ok("postgres://db.example/inbox"));
        check("postgresql://me:s3cret@db:5433/inbox?sslmode=require", Ok("postgres://db:5433/inbox"));
        check(
            "postgres://me:s3cret@a:5432,b:5433/inbox?target_session_attrs=read-write",
            Ok("postgres://a:5432,b:5433/inbox"),
        );
        check("postgres://me:s3cret@[::1]:5432/inbox", Ok("postgres://[::1]:5432/inbox"));
        check("postgres:///inbox?host=/run/postgresql", Ok("postgres:///inbox"));
        let several: PostgresUrl = "postgres://me:s3cret@a:1,b:2/inbox".parse().unwrap();
        let options = several.options().unwrap();
        assert_eq!(
            options.iter().map(|one| (one.get_host().to_owned(), one.get_port())).collect::<Vec<_>>(),
            [("a".to_owned(), 1), ("b".to_owned(), 2)]
        );
    }

    #[test]
    fn what_is_wrong_is_said_in_words() {
        check("mysql://me:s3cret@db/inbox", Err("does not begin with postgres://"));
        check("postgres://me:s3cret@db", Err("names no database"));
        check("postgres://me:s3cret@db/a/b", Err("names no database"));
        check("postgres://me:s3cret@db:99999/inbox", Err("invalid port"));
        check("postgres://me:p@s3cret@db/inbox", Err("percent-encoded"));
        check("postgres://me:s3cret@db/inbox?sslmode=sure", Err("unknown sslmode"));
        check("postgres://me:s3cret@db/inbox?pool=3", Err("unknown parameter \"pool\""));
        check("postgres://me:s3cret@a,b/inbox?target_session_attrs=standby", Err("takes writes"));
        check("postgres://me:s3cret@db/inbox?channel_binding=require", Err("verify-full"));
        check("postgres://me:s3cret@a,,b/inbox", Err("1 to 8 hosts"));
        check("postgres://me:s3cret #@db/inbox", Err("percent-encoded"));
    }
}
