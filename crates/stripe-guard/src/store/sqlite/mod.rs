//! SQLite: one file, one writer, a write-ahead log that is flushed at every commit.

mod access;
mod checkpoint;
mod dialect;

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqlitePoolOptions, SqliteRow, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _, Row as _, SqlSafeStr as _};

use super::sql::{Dialect as _, SqlStore, check_schema, migrate};
use super::{BUSY_TIMEOUT, Opened, StoreError};
use access::{BEGIN, SqliteAccess};
use checkpoint::{Checkpointer, WAL_BYTES_MAX};
use dialect::{SqliteDialect, primary_code};

/// The first SQLite without the WAL-reset fault (sqlite.org, "WAL-reset bug"), which could corrupt a database.
const VERSION_MIN: i64 = 3_051_003;

/// Connections that read beside the writer.
const READERS: u32 = 4;

/// Bodies of usual events lie in one page, three or so of them.
const PAGE_BYTES: u32 = 8192;

/// Pages in memory for the one connection that writes, in KiB.
const WRITER_CACHE: &str = "-16384";

/// The same for each one that reads: more buys nothing, since the system holds the file's pages too.
const READER_CACHE: &str = "-2048";

/// How long several processes that open a new file wait for each other.
const OPEN_PATIENCE: Duration = Duration::from_secs(20);

/// How long a command that only looks waits for `serve` to make its tables.
const LOOK_PATIENCE: Duration = Duration::from_secs(2);

/// Where a SQLite inbox is.
#[derive(Clone, Debug)]
pub struct SqliteFile {
    /// The file.
    pub path: PathBuf,
    /// What every table's name begins with.
    pub table_prefix: String,
    /// Make the file if there is none. A command that only looks does not.
    pub create: bool,
    /// Take the file for this process alone, as `serve` does.
    pub exclusive: bool,
}

/// Opens an inbox, checks what durability rests on, and brings the schema up to date.
pub async fn open_sqlite(file: &SqliteFile) -> Result<Opened, StoreError> {
    open_with(file, SqliteSynchronous::Full).await
}

/// Opens an inbox that loses what it acknowledged when the machine stops: the control of the drill
/// that shows that an ordinary one does not.
#[cfg(feature = "testing")]
pub async fn open_sqlite_unflushed(file: &SqliteFile) -> Result<Opened, StoreError> {
    open_with(file, SqliteSynchronous::Off).await
}

async fn open_with(file: &SqliteFile, synchronous: SqliteSynchronous) -> Result<Opened, StoreError> {
    let shown = file.path.display();
    if !file.create && !file.path.exists() {
        return Err(StoreError::Open(format!(
            "there is no database at {shown}; start `stripe-guard serve` once to make it, or name another with --database"
        )));
    }
    let lock = if file.exclusive { Some(lock(&file.path)?) } else { None };
    let options = SqliteConnectOptions::from_str("sqlite:")
        .map_err(StoreError::Unavailable)?
        .filename(&file.path)
        .create_if_missing(file.create)
        .busy_timeout(BUSY_TIMEOUT)
        .synchronous(synchronous)
        .page_size(PAGE_BYTES)
        .statement_cache_capacity(256)
        // A whole answer of a batch, so that SQLite's thread never waits for its reader.
        .row_buffer_size(256)
        // One place checkpoints, so that no commit pays for it by surprise.
        .pragma("wal_autocheckpoint", "0")
        .pragma("journal_size_limit", WAL_BYTES_MAX.to_string())
        .pragma("cache_size", READER_CACHE)
        .pragma("mmap_size", "0")
        .foreign_keys(false)
        .disable_statement_logging();
    let cannot = |error: sqlx::Error| StoreError::Open(format!("cannot open the database {shown}: {}", plain(&error)));
    let mut first = connect_patiently(&options).await.map_err(cannot)?;
    check(&mut first, synchronous).await?;
    let prepared = if file.create {
        migrated(&mut first, &file.table_prefix).await
    } else {
        check_patiently(&mut first, &file.table_prefix).await
    };
    prepared.map_err(|error| match error {
        StoreError::Open(_) => error,
        other => StoreError::Open(format!("cannot prepare the database {shown}: {other}")),
    })?;
    if file.exclusive {
        empty_log(&mut first).await?;
    }
    first.close().await.map_err(cannot)?;
    let pool = |connections| {
        SqlitePoolOptions::new()
            .max_connections(connections)
            .test_before_acquire(false)
            .idle_timeout(None)
            .max_lifetime(None)
            .acquire_timeout(Duration::from_secs(30))
    };
    let write = pool(1).after_release(|connection, _| Box::pin(is_at_rest(connection)));
    let write = write.connect_with(options.clone().pragma("cache_size", WRITER_CACHE)).await.map_err(cannot)?;
    let read = pool(READERS).connect_lazy_with(options.clone().pragma("query_only", "1"));
    let checkpoint = Checkpointer::new(options, write.clone(), wal_of(&file.path));
    let store = SqlStore::new(SqliteAccess::new(write, read, checkpoint), &file.table_prefix);
    Ok(Opened::new(Arc::new(store)).locked(lock))
}

/// Brings the schema up to date, alone: whoever else starts waits.
async fn migrated(connection: &mut SqliteConnection, prefix: &str) -> Result<(), StoreError> {
    let mut tx = connection.begin_with(BEGIN.into_sql_str()).await.map_err(SqliteDialect::classify)?;
    migrate::<SqliteDialect, _>(&mut *tx, prefix).await?;
    tx.commit().await.map_err(SqliteDialect::classify)
}

/// One `serve` for each file: two would each believe to be the only checkpointer and scheduler.
fn lock(path: &Path) -> Result<File, StoreError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    let cannot = |error: std::io::Error| {
        StoreError::Open(format!("cannot write {}: {error}; the folder must exist and be writable", name.display()))
    };
    let file = File::options().create(true).truncate(false).write(true).open(&name).map_err(cannot)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Open(format!(
            "another stripe-guard serves {} already; stop it first, or name another database",
            path.display()
        ))),
        Err(TryLockError::Error(error)) => Err(cannot(error)),
    }
}

/// Checks the schema; a file without one may be new, and `serve` at work on it.
async fn check_patiently(connection: &mut SqliteConnection, prefix: &str) -> Result<(), StoreError> {
    let mut left = LOOK_PATIENCE;
    loop {
        match check_schema::<SqliteDialect, _>(connection, prefix).await {
            Err(StoreError::Open(_)) if !left.is_zero() => {
                let nap = Duration::from_millis(100);
                left = left.saturating_sub(nap);
                nap_between_tries(nap).await;
            }
            answer => return answer,
        }
    }
}

/// Opens the first connection and switches to the write-ahead log. SQLite does not wait for
/// that switch by itself, so several processes with a new file would fail each other.
async fn connect_patiently(options: &SqliteConnectOptions) -> Result<SqliteConnection, sqlx::Error> {
    let mut left = OPEN_PATIENCE;
    loop {
        match connect_in_wal_mode(options).await {
            Err(error) if is_busy(&error) && !left.is_zero() => {
                let nap = Duration::from_millis(50);
                left = left.saturating_sub(nap);
                nap_between_tries(nap).await;
            }
            answer => return answer,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "before there is a store there is nothing that a Clock would govern")]
async fn nap_between_tries(nap: Duration) {
    tokio::time::sleep(nap).await;
}

async fn connect_in_wal_mode(options: &SqliteConnectOptions) -> Result<SqliteConnection, sqlx::Error> {
    let mut connection = options.connect().await?;
    let mode = |row: SqliteRow| row.try_get::<String, _>(0);
    if mode(connection.fetch_one("PRAGMA journal_mode").await?)? != "wal" {
        mode(connection.fetch_one("PRAGMA journal_mode = wal").await?)?;
    }
    Ok(connection)
}

/// Moves the log that a former process left into the file, and flushes that.
///
/// After a failed flush the kernel may hold pages that never reached the disk and that it takes for
/// clean: the log reads well, no later flush would write it, and a copy of such an event would be
/// acknowledged as stored. Copied into the file, its pages are written anew. A reader in another
/// process is in the way of that, so it is waited for.
async fn empty_log(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    let mut left = OPEN_PATIENCE;
    while !left.is_zero() {
        let row = connection.fetch_one("PRAGMA wal_checkpoint(TRUNCATE)").await.map_err(SqliteDialect::classify)?;
        let cell = |column: usize| row.try_get::<i64, _>(column).map_err(SqliteDialect::classify);
        if cell(0)? == 0 && cell(1)? == cell(2)? {
            return Ok(());
        }
        let nap = Duration::from_millis(200);
        left = left.saturating_sub(nap + BUSY_TIMEOUT);
        nap_between_tries(nap).await;
    }
    Err(StoreError::Open(
        "another program reads the database and keeps its log from being moved into the file; end it and start again"
            .to_owned(),
    ))
}

/// Whether the writer's connection can be used again.
///
/// SQLite ends a transaction by itself when the disk is full. The driver does not see it and
/// counts it as open for ever, and so would refuse to begin another: only a new connection helps.
async fn is_at_rest(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    if !connection.is_in_transaction() {
        return Ok(true);
    }
    // A rollback may be on its way; it is done when this has been answered.
    connection.ping().await?;
    Ok(!connection.is_in_transaction())
}

fn is_busy(error: &sqlx::Error) -> bool {
    matches!(primary_code(error), Some(5 | 6))
}

fn plain(error: &sqlx::Error) -> String {
    match (primary_code(error), error) {
        (Some(14), _) => "the folder must exist and be writable".to_owned(),
        (Some(26), _) => "the file is no SQLite database".to_owned(),
        (Some(8), _) => "it is read-only".to_owned(),
        (_, sqlx::Error::Database(error)) => error.message().to_owned(),
        (_, error) => error.to_string(),
    }
}

/// Reads back what durability rests on: what was set and what holds are two things.
async fn check(connection: &mut SqliteConnection, synchronous: SqliteSynchronous) -> Result<(), StoreError> {
    let version = i64::from(libsqlite3_sys::SQLITE_VERSION_NUMBER);
    if version < VERSION_MIN {
        return Err(StoreError::Open(format!(
            "this build has SQLite {version}; versions before 3.51.3 can corrupt a database in WAL mode"
        )));
    }
    let text = text_of(connection, "SELECT sqlite_version()").await?;
    let running = text.split('.').filter_map(|part| part.parse::<i64>().ok()).fold(0, |sum, part| sum * 1000 + part);
    if running < VERSION_MIN {
        return Err(StoreError::Open(format!(
            "SQLite {text} is running; versions before 3.51.3 can corrupt a database in WAL mode"
        )));
    }
    let mode = text_of(connection, "PRAGMA journal_mode").await?;
    let level = int_of(connection, "PRAGMA synchronous").await?;
    let wanted = if matches!(synchronous, SqliteSynchronous::Full) { 2 } else { level };
    if mode != "wal" || level != wanted {
        return Err(StoreError::Open(format!(
            "the database does not keep what it is told: journal_mode is {mode} (must be wal), synchronous is {level} (must be 2). \
             Is it on a file system without shared memory, such as a network share?"
        )));
    }
    Ok(())
}

async fn text_of(connection: &mut SqliteConnection, sql: &'static str) -> Result<String, StoreError> {
    let row = connection.fetch_one(sql).await.map_err(SqliteDialect::classify)?;
    row.try_get(0).map_err(SqliteDialect::classify)
}

async fn int_of(connection: &mut SqliteConnection, sql: &'static str) -> Result<i64, StoreError> {
    let row = connection.fetch_one(sql).await.map_err(SqliteDialect::classify)?;
    row.try_get(0).map_err(SqliteDialect::classify)
}

fn wal_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}
