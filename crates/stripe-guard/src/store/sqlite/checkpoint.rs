//! Moving the write-ahead log into the file, in one place and beside the writer.

use std::path::PathBuf;
use std::time::SystemTime;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, Row as _};

use super::dialect::SqliteDialect;
use super::{BUSY_TIMEOUT, PAGE_BYTES, StoreError};
use crate::store::sql::Dialect as _;

/// Above this the write-ahead log is made to begin anew, because a checkpoint beside the writer
/// never catches up with it. Its file is cut to this length then.
pub(super) const WAL_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The same in frames, each a page.
const WAL_FRAMES_MAX: i64 = WAL_BYTES_MAX.cast_signed() / PAGE_BYTES as i64;

/// A reader in the way of a new log is waited for this long, in milliseconds; ingest waits meanwhile.
/// The next checkpoint tries again.
const BUSY_BRIEFLY: &str = "PRAGMA busy_timeout = 20";

/// Below this a checkpoint is not worth its flush.
const WAL_BYTES_MIN: u64 = 4 * 1024 * 1024;

/// Moves the log into the file beside the writer, and through the writer has it begin anew once it
/// is too long.
///
/// The file of the log keeps its length: a flush of blocks that the file has already is cheaper
/// than one of blocks that are new to it.
pub(super) struct Checkpointer {
    options: SqliteConnectOptions,
    write: sqlx::SqlitePool,
    wal: PathBuf,
    /// When the log had last changed as it was wholly in the file.
    done: Option<SystemTime>,
}

impl Checkpointer {
    /// A checkpointer of the file that these options open.
    pub(super) fn new(options: SqliteConnectOptions, write: sqlx::SqlitePool, wal: PathBuf) -> Self {
        Self { options, write, wal, done: None }
    }

    pub(super) async fn run_once(&mut self) -> Result<(), StoreError> {
        let Ok(log) = std::fs::metadata(&self.wal) else { return Ok(()) };
        let changed = log.modified().ok();
        if log.len() < WAL_BYTES_MIN || (changed.is_some() && changed == self.done) {
            return Ok(());
        }
        let mut beside = self.options.connect().await.map_err(SqliteDialect::classify)?;
        // Twice: the first takes long, and what was written meanwhile should not be left to the writer.
        checkpoint(&mut beside, "PRAGMA wal_checkpoint(PASSIVE)").await?;
        let (frames, moved) = checkpoint(&mut beside, "PRAGMA wal_checkpoint(PASSIVE)").await?;
        beside.close().await.map_err(SqliteDialect::classify)?;
        self.done = changed.filter(|_| frames == moved);
        if frames > WAL_FRAMES_MAX {
            let mut writer = self.write.acquire().await.map_err(SqliteDialect::classify)?;
            writer.execute(BUSY_BRIEFLY).await.map_err(SqliteDialect::classify)?;
            let answer = checkpoint(&mut writer, "PRAGMA wal_checkpoint(RESTART)").await;
            let usual = AssertSqlSafe(format!("PRAGMA busy_timeout = {}", BUSY_TIMEOUT.as_millis()));
            writer.execute(usual).await.map_err(SqliteDialect::classify)?;
            answer?;
        }
        Ok(())
    }
}

/// Runs a checkpoint, and says how many frames the log has and how many of them are in the file.
async fn checkpoint(connection: &mut SqliteConnection, sql: &'static str) -> Result<(i64, i64), StoreError> {
    let row = connection.fetch_one(sql).await.map_err(SqliteDialect::classify)?;
    let cell = |column: usize| row.try_get::<i64, _>(column).map_err(SqliteDialect::classify);
    Ok((cell(1)?, cell(2)?))
}
