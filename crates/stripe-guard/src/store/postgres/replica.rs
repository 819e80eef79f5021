//! Proof that a standby has what was committed.

use std::time::Duration;

use sqlx::Row as _;
use tokio::time::Instant;

use super::access::unavailable;
use super::dialect::PostgresDialect;
use super::session::Session;
use crate::store::sql::Dialect as _;
use crate::store::{Result, StoreError};

/// How long a standby may take to flush what the primary has committed.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two looks.
const LOOK_EVERY: &str = "SELECT CAST(pg_sleep(0.01) AS TEXT)";

/// Proves that a synchronous standby has flushed the log as far as the primary has now, so that our
/// commit, and that of whoever stored the event we saw a copy of, is on two machines.
///
/// A commit that waits for a standby can be cut short (`pg_cancel_backend`, a stopping server) and
/// still answers as done, only with a warning: PostgreSQL's manual, "Synchronous Replication". So
/// it is asked.
pub(super) async fn prove(session: &mut Session) -> Result<()> {
    let end =
        session.row("SELECT CAST(pg_current_wal_flush_lsn() AS TEXT)").await.map_err(PostgresDialect::classify)?;
    let end: String = end.try_get(0).map_err(PostgresDialect::classify)?;
    // The server's own word, but it goes into a statement.
    if !end.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'/') {
        return Err(unavailable("the server's log position cannot be read"));
    }
    let flushed = format!(
        "SELECT CAST(EXISTS (SELECT 1 FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum') AND flush_lsn >= CAST('{end}' AS pg_lsn)) AS TEXT)"
    );
    let began = Instant::now();
    loop {
        let row = session.row(&flushed).await.map_err(PostgresDialect::classify)?;
        if row.try_get::<String, _>(0).map_err(PostgresDialect::classify)? == "true" {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            return Err(unavailable("no synchronous standby has what was committed, and require_replica is set"));
        }
        session.row(LOOK_EVERY).await.map_err(PostgresDialect::classify)?;
    }
}

/// Checks at start that the proof can be had: the standby's state is hidden from most roles.
pub(super) async fn check(session: &mut Session) -> Result<()> {
    let row = session
        .row(
            "SELECT CAST(pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS TEXT), \
             current_setting('synchronous_standby_names'), CAST(current_user AS TEXT)",
        )
        .await
        .map_err(PostgresDialect::classify)?;
    let cell = |column: usize| row.try_get::<String, _>(column).map_err(PostgresDialect::classify);
    if cell(0)? != "true" {
        return Err(StoreError::Open(format!(
            "require_replica needs to see the standbys; run GRANT pg_read_all_stats TO \"{}\" as a superuser",
            cell(2)?
        )));
    }
    if cell(1)?.trim().is_empty() {
        return Err(StoreError::Open(
            "require_replica is set, but the server waits for no standby: synchronous_standby_names is empty"
                .to_owned(),
        ));
    }
    Ok(())
}
