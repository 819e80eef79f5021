//! One connection, and what it is asked before it is used.

use std::future::Future;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _, SqlStr};

use super::dialect::{arguments, code};
use crate::store::sql::{Arg, Run};

/// How long a host may take to let us in, TLS and password included.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// How long one statement may take before its connection counts as lost: a peer that vanished says
/// nothing, and a webhook's sender waits for us.
const STATEMENT_LIMIT: Duration = Duration::from_secs(10);

/// What every transaction of ours runs under, each an assignment.
///
/// A lock that is not had soon is an error, and tried again. The plans are those that the indexes
/// were made for, whatever the statistics of the moment say: a claim that is planned as a scan
/// while the table is still small stays one when it is not.
const SETTINGS: &[&str] = &[
    "lock_timeout = '2s'",
    "enable_seqscan = off",
    "enable_bitmapscan = off",
    "enable_hashjoin = off",
    "enable_mergejoin = off",
    "jit = off",
    "plan_cache_mode = force_generic_plan",
    "default_transaction_isolation = 'read committed'",
];

/// How statements reach the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooler {
    /// Directly, or through a pooler that keeps a server's session for each of ours.
    None,
    /// Through a pooler that hands out a server's session for each transaction.
    Transaction,
}

/// One connection.
pub(in crate::store) struct Session {
    connection: PgConnection,
    pooler: Pooler,
    /// An answer is still on its way, or the peer is gone.
    lost: bool,
    /// How often all connections had been given up when this one was made.
    pub(super) generation: u64,
}

/// Why a server is not used.
#[derive(Debug)]
pub(super) enum Unfit {
    /// It cannot be reached, or turns us away.
    Away(sqlx::Error),
    /// It takes no writes; another host may.
    ReadOnly,
    /// It may lose what it has acknowledged, or is too old.
    Refused(String),
}

impl From<sqlx::Error> for Unfit {
    fn from(error: sqlx::Error) -> Self {
        Self::Away(error)
    }
}

impl Session {
    /// Connects to one host, checks what durability rests on, and settles how to work.
    pub(super) async fn open(options: &PgConnectOptions, pooler: Pooler, generation: u64) -> Result<Self, Unfit> {
        let options = options.clone().extra_float_digits(None).disable_statement_logging();
        let connection = within(CONNECT_LIMIT, options.connect()).await?;
        let mut session = Self { connection, pooler, lost: false, generation };
        session.check().await?;
        if pooler == Pooler::None {
            session.command(&format!("SET {}", SETTINGS.join("; SET "))).await?;
        }
        Ok(session)
    }

    /// What is refused may be another server's setting after a failover, so every connection asks.
    async fn check(&mut self) -> Result<(), Unfit> {
        let names = ["server_version_num", "fsync", "full_page_writes", "synchronous_commit", "transaction_read_only"];
        let list = names.map(|name| format!("current_setting('{name}')")).join(", ");
        let row = self.row(&format!("SELECT {list}, CAST(pg_is_in_recovery() AS TEXT)")).await?;
        let cell = |column: usize| row.try_get::<String, _>(column);
        let version: i64 = cell(0)?.parse().unwrap_or_default();
        if version < 150_000 {
            return Err(Unfit::Refused(format!(
                "the server is PostgreSQL {}; stripe-guard needs 15 or later",
                version / 10_000
            )));
        }
        if cell(4)? == "on" || cell(5)? == "true" {
            return Err(Unfit::ReadOnly);
        }
        for (name, value) in names.iter().zip([cell(0)?, cell(1)?, cell(2)?, cell(3)?]).skip(1) {
            if value == "off" {
                return Err(Unfit::Refused(format!(
                    "the server has {name} = off, so it may lose an event that was acknowledged to Stripe; \
                     set {name} = on for the server, or for this role with ALTER ROLE … SET"
                )));
            }
        }
        Ok(())
    }

    /// Begins a transaction.
    pub(super) async fn begin(&mut self) -> sqlx::Result<()> {
        match self.pooler {
            Pooler::None => self.command("BEGIN").await,
            // The server's session is another one each time, so each is told.
            Pooler::Transaction => self.command(&format!("BEGIN; SET LOCAL {}", SETTINGS.join("; SET LOCAL "))).await,
        }
    }

    /// Runs a text of ours that answers nothing.
    pub(super) async fn command(&mut self, sql: &str) -> sqlx::Result<()> {
        self.command_within(STATEMENT_LIMIT, sql).await
    }

    /// The same with a limit of its own.
    pub(super) async fn command_within(&mut self, limit: Duration, sql: &str) -> sqlx::Result<()> {
        let run = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut self.connection);
        let answer = within(limit, run).await;
        self.noted(answer).map(drop)
    }

    /// Asks a text of ours for one row, in the simple protocol: every column must be a text.
    pub(super) async fn row(&mut self, sql: &str) -> sqlx::Result<PgRow> {
        let run = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_one(&mut self.connection);
        let answer = within(STATEMENT_LIMIT, run).await;
        self.noted(answer)
    }

    /// The same for any number of rows.
    pub(super) async fn rows(&mut self, sql: &str) -> sqlx::Result<Vec<PgRow>> {
        let run = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_all(&mut self.connection);
        let answer = within(STATEMENT_LIMIT, run).await;
        self.noted(answer)
    }

    /// How it reaches the server.
    pub(super) fn pooler(&self) -> Pooler {
        self.pooler
    }

    /// Whether it may be used again.
    pub(super) fn is_usable(&self) -> bool {
        !self.lost
    }

    /// Says goodbye, briefly.
    pub(super) async fn close(self) {
        drop(within(Duration::from_secs(1), self.connection.close()).await);
    }

    fn noted<T>(&mut self, answer: sqlx::Result<T>) -> sqlx::Result<T> {
        if let Err(error) = &answer {
            self.lost |= ends_connection(error);
        }
        answer
    }
}

impl Run for Session {
    type Row = PgRow;

    async fn fetch(&mut self, sql: SqlStr, args: Vec<Arg>) -> sqlx::Result<Vec<PgRow>> {
        let query = sqlx::query_with(sql, arguments(&args)?).persistent(self.pooler == Pooler::None);
        let answer = within(STATEMENT_LIMIT, query.fetch_all(&mut self.connection)).await;
        self.noted(answer)
    }

    async fn change(&mut self, sql: SqlStr, args: Vec<Arg>) -> sqlx::Result<u64> {
        let query = sqlx::query_with(sql, arguments(&args)?).persistent(self.pooler == Pooler::None);
        let answer = within(STATEMENT_LIMIT, query.execute(&mut self.connection)).await;
        Ok(self.noted(answer)?.rows_affected())
    }
}

/// Whether a connection is of no use after this error: it is gone, or leads to a server that
/// stops, starts or has become a standby.
pub(super) fn ends_connection(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(_) => {
            code(error).is_some_and(|code| code == "25006" || code.starts_with("57P") || code.starts_with("08"))
        }
        // The row's or the text's own fault, found on our side of the wire.
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Encode(_) | sqlx::Error::RowNotFound => false,
        _ => true,
    }
}

async fn within<T>(limit: Duration, work: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    let late = |_| {
        let text = format!("no answer within {} s", limit.as_secs());
        sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, text))
    };
    tokio::time::timeout(limit, work).await.unwrap_or_else(|elapsed| Err(late(elapsed)))
}
