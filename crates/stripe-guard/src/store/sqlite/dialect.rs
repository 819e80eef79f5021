//! What is SQLite's own.

use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{Arguments as _, Row as _, SqlStr, Sqlite};

use crate::store::StoreError;
use crate::store::sql::{Arg, Cells, Dialect, Run};

/// What is SQLite's own.
pub(in crate::store) struct SqliteDialect;

impl Dialect for SqliteDialect {
    const SKIP_LOCKED: &'static str = "";
    const ID: &'static str = "INTEGER PRIMARY KEY";
    /// Only this spelling is the row's own number; any other costs a second tree.
    const KEY: &'static str = "INTEGER PRIMARY KEY";
    /// Compared byte by byte unless told otherwise.
    const NAME: &'static str = "TEXT";
    const BYTES: &'static str = "BLOB";
    const RANDOM_ID: &'static str = "lower(hex(randomblob(16)))";
    const CONCURRENT: bool = false;
    const TIME: Option<&'static str> = None;
    const CLUSTERED: &'static str = "WITHOUT ROWID";
    const BODIES: &'static [&'static str] = &["CREATE TABLE {p}bodies (
        seq   {key},
        bytes {bytes} NOT NULL
    )"];

    /// Without numbers: SQLite looks a numbered one up by name, each time, one after the other.
    fn placeholder(_: usize) -> String {
        "?".to_owned()
    }

    fn rows_from_arrays(_: &str, _: &str) -> Option<String> {
        None
    }

    fn classify(error: sqlx::Error) -> StoreError {
        match primary_code(&error) {
            // The driver's thread is gone, and with it the answer to a commit.
            _ if matches!(error, sqlx::Error::WorkerCrashed) => StoreError::Fatal(error),
            // I/O error, corrupt, not a database: what the disk holds is unknown.
            Some(10 | 11 | 26) => StoreError::Fatal(error),
            // Too big, constraint, mismatch, range: the row's own fault.
            Some(18 | 19 | 20 | 25) => StoreError::Data(error),
            _ => StoreError::Unavailable(error),
        }
    }

    /// One writes at a time, and waits for its turn.
    fn is_contention(_: &sqlx::Error) -> bool {
        false
    }
}

impl Run for SqliteConnection {
    type Row = SqliteRow;

    async fn fetch(&mut self, sql: SqlStr, args: Vec<Arg>) -> sqlx::Result<Vec<SqliteRow>> {
        sqlx::query_with::<Sqlite, _>(sql, arguments(args)?).fetch_all(self).await
    }

    async fn change(&mut self, sql: SqlStr, args: Vec<Arg>) -> sqlx::Result<u64> {
        let done = sqlx::query_with::<Sqlite, _>(sql, arguments(args)?).execute(self).await?;
        Ok(done.rows_affected())
    }
}

fn arguments(args: Vec<Arg>) -> sqlx::Result<SqliteArguments> {
    let mut arguments = SqliteArguments::default();
    arguments.reserve(args.len(), 0);
    for arg in args {
        match arg {
            Arg::Int(value) => arguments.add(value),
            Arg::Text(value) => arguments.add(value),
            Arg::Bytes(value) => arguments.add(value),
            Arg::Array(_) => return Err(sqlx::Error::Encode("SQLite has no arrays".into())),
        }
        .map_err(sqlx::Error::Encode)?;
    }
    Ok(arguments)
}

impl Cells for SqliteRow {
    fn int(&self, column: usize) -> sqlx::Result<i64> {
        self.try_get(column)
    }

    fn opt_int(&self, column: usize) -> sqlx::Result<Option<i64>> {
        self.try_get(column)
    }

    fn text_ref(&self, column: usize) -> sqlx::Result<&str> {
        self.try_get(column)
    }

    fn text(&self, column: usize) -> sqlx::Result<String> {
        self.try_get(column)
    }

    fn opt_text(&self, column: usize) -> sqlx::Result<Option<String>> {
        self.try_get(column)
    }

    fn opt_bytes(&self, column: usize) -> sqlx::Result<Option<Vec<u8>>> {
        self.try_get(column)
    }
}

/// SQLite's primary result code, which is the low byte of the extended one.
pub(super) fn primary_code(error: &sqlx::Error) -> Option<i64> {
    let code = error.as_database_error()?.code()?.parse::<i64>().ok()?;
    Some(code & 0xFF)
}
