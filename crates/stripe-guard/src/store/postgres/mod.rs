//! PostgreSQL: many processes on one database, bodies in parts, claims that pass each other by.

mod access;
mod address;
mod dialect;
mod partitions;
mod replica;
mod session;

use std::sync::Arc;
use std::time::Duration;

use super::sql::{Dialect as _, SqlStore, check_schema, migrate};
use super::{Opened, Result, StoreError};
use access::{Hosts, PostgresAccess, READERS};
use dialect::{PostgresDialect, code};
use partitions::{Partitions, lock_of};
use session::{Session, Unfit};

pub use address::{NotAPostgresUrl, PostgresUrl};
pub use session::Pooler;

/// How long a start waits for others that migrate.
const MIGRATE_LIMIT: Duration = Duration::from_mins(5);

/// The second number of the advisory lock on migrating; see also [`partitions`].
const MIGRATING: i32 = 2;

/// Where a PostgreSQL inbox is, and how it is reached.
#[derive(Clone, Debug)]
pub struct PostgresInbox {
    /// The address.
    pub url: PostgresUrl,
    /// The schema that holds the tables: `[a-z_][a-z0-9_]{0,39}`.
    pub schema: String,
    /// What stands between us and the server.
    pub pooler: Pooler,
    /// Acknowledge only what a synchronous standby has flushed too.
    pub require_replica: bool,
    /// Connections that write; a few more read.
    pub connections: u32,
    /// Make the tables if there are none. A command that only looks does not.
    pub create: bool,
    /// How many arrival numbers each part of the bodies covers; `None` takes the usual.
    pub partition_events: Option<i64>,
}

/// Opens an inbox, checks what durability rests on, and brings the schema up to date.
pub async fn open_postgres(inbox: &PostgresInbox) -> Result<Opened> {
    let options = inbox.url.options().map_err(StoreError::Unavailable)?;
    let name = format!("stripe-guard {}", env!("CARGO_PKG_VERSION"));
    let options = options
        .into_iter()
        .map(|one| if one.get_application_name().is_none() { one.application_name(&name) } else { one })
        .collect();
    let hosts = Hosts::new(options, inbox.pooler);
    let cannot = |unfit| cannot_open(inbox, unfit);
    let mut first = hosts.connect(0).await.map_err(cannot)?;
    if inbox.pooler == Pooler::None {
        let mut second = hosts.connect(0).await.map_err(cannot)?;
        refuse_pooler(&mut first, &mut second).await?;
        second.close().await;
    }
    if inbox.require_replica {
        replica::check(&mut first).await?;
    }
    let qualifier = format!("\"{}\".", inbox.schema);
    let partitions = Partitions::new(&inbox.schema, inbox.partition_events);
    if inbox.create {
        migrated(&mut first, inbox, &qualifier).await?;
        partitions.ensure(&mut first).await.map_err(|error| cannot(Unfit::Away(error)))?;
    } else {
        first.begin().await.map_err(PostgresDialect::classify)?;
        check_schema::<PostgresDialect, _>(&mut first, &qualifier).await?;
    }
    first.close().await;
    let access = PostgresAccess::new(hosts, partitions, inbox.require_replica, inbox.connections);
    Ok(Opened::new(Arc::new(SqlStore::new(access, &qualifier))))
}

/// Brings the schema up to date, alone: whoever else starts waits for the lock, which ends with the
/// transaction, also when its holder is killed.
async fn migrated(session: &mut Session, inbox: &PostgresInbox, qualifier: &str) -> Result<()> {
    let (schema, lock) = (&inbox.schema, lock_of(&inbox.schema));
    let cannot = |error: sqlx::Error| cannot_open(inbox, Unfit::Away(error));
    session.begin().await.map_err(cannot)?;
    let alone = format!("SET LOCAL lock_timeout = 0; SELECT pg_advisory_xact_lock({lock}, {MIGRATING})");
    session.command_within(MIGRATE_LIMIT, &alone).await.map_err(cannot)?;
    let there = format!("SELECT CAST(to_regnamespace('\"{schema}\"') IS NOT NULL AS TEXT)");
    let there = session.row(&there).await.map_err(cannot)?;
    if sqlx::Row::try_get::<String, _>(&there, 0).map_err(cannot)? != "true" {
        session.command(&format!("CREATE SCHEMA \"{schema}\"")).await.map_err(cannot)?;
    }
    migrate::<PostgresDialect, _>(session, qualifier).await.map_err(|error| match error {
        StoreError::Unavailable(cause) | StoreError::Data(cause) => cannot(cause),
        other => other,
    })?;
    session.command("COMMIT").await.map_err(cannot)
}

/// Two connections of ours that reach one session of the server's are behind a pooler that hands
/// sessions out by transaction: named statements and settings would get lost there.
async fn refuse_pooler(first: &mut Session, second: &mut Session) -> Result<()> {
    for _ in 0..3 {
        let mut pids = Vec::with_capacity(2);
        for session in [&mut *first, &mut *second] {
            let row = session.row("SELECT CAST(pg_backend_pid() AS TEXT)").await.map_err(PostgresDialect::classify)?;
            pids.push(sqlx::Row::try_get::<String, _>(&row, 0).map_err(PostgresDialect::classify)?);
        }
        if pids[0] == pids[1] {
            return Err(StoreError::Open(
                "there is a pooler in transaction mode between stripe-guard and the database; set pooler = \"transaction\" \
                 under [postgres], or name the server itself"
                    .to_owned(),
            ));
        }
    }
    Ok(())
}

/// Why a start found no inbox, in words, with what to do. Never with the password.
fn cannot_open(inbox: &PostgresInbox, unfit: Unfit) -> StoreError {
    let error = match unfit {
        Unfit::Refused(why) => return StoreError::Open(format!("{}: {why}", inbox.url)),
        Unfit::ReadOnly => {
            return StoreError::Open(format!(
                "{} takes no writes: it is read-only or a standby; name the primary, or all hosts separated by commas",
                inbox.url
            ));
        }
        Unfit::Away(error) => error,
    };
    let most = inbox.connections + READERS;
    let remedy = match code(&error).as_deref() {
        Some("28P01" | "28000") => "check the user and password in the URL, and the server's pg_hba.conf".to_owned(),
        Some("3D000") => "create the database first: CREATE DATABASE".to_owned(),
        Some("42501") => format!(
            "the role needs to create its tables; as the database's owner run CREATE SCHEMA \"{}\" AUTHORIZATION with this role, \
             or GRANT CREATE ON DATABASE",
            inbox.schema
        ),
        Some("53300") => format!(
            "the server's connection limit is reached; this process takes up to {most} connections: raise max_connections, \
             lower connections under [postgres], or put a pooler between"
        ),
        Some(_) => "see the server's log".to_owned(),
        None if matches!(error, sqlx::Error::Tls(_)) || error.to_string().contains("certificate") => {
            "check sslmode and sslrootcert in the URL, and the server's certificate".to_owned()
        }
        None => "is the server running, and are host and port right?".to_owned(),
    };
    let reason = match &error {
        sqlx::Error::Database(error) => error.message().to_owned(),
        other => other.to_string(),
    };
    StoreError::Open(format!("cannot open the database {}: {reason}; {remedy}", inbox.url))
}
