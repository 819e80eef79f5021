//! What the two databases do not share.

use std::future::Future;
use std::sync::Arc;

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

/// A statement as the driver takes it.
pub(crate) type Statement = SqlStr;

/// A bound value: the three column types, and nothing else.
#[derive(Clone, Debug)]
pub(crate) enum Arg {
    /// A 64-bit integer or NULL.
    Int(Option<i64>),
    /// A text or NULL.
    Text(Option<Arc<str>>),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A column of many rows, all of one type.
    Array(Vec<Arg>),
}

impl Arg {
    /// The integer.
    pub(crate) fn as_int(&self) -> Option<i64> {
        if let Self::Int(value) = self { *value } else { None }
    }

    /// The text.
    pub(crate) fn as_text(&self) -> Option<&str> {
        if let Self::Text(value) = self { value.as_deref() } else { None }
    }

    /// The bytes.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        if let Self::Bytes(value) = self { value } else { &[] }
    }
}

impl From<i64> for Arg {
    fn from(value: i64) -> Self {
        Self::Int(Some(value))
    }
}

impl From<Option<i64>> for Arg {
    fn from(value: Option<i64>) -> Self {
        Self::Int(value)
    }
}

impl From<&str> for Arg {
    fn from(value: &str) -> Self {
        Self::Text(Some(value.into()))
    }
}

impl From<Option<&str>> for Arg {
    fn from(value: Option<&str>) -> Self {
        Self::Text(value.map(Arc::from))
    }
}

impl From<&[u8]> for Arg {
    fn from(value: &[u8]) -> Self {
        Self::Bytes(value.to_vec())
    }
}

/// A row's columns by position.
pub(crate) trait Cells: Send {
    /// An integer.
    fn int(&self, column: usize) -> sqlx::Result<i64>;
    /// An integer or NULL.
    fn opt_int(&self, column: usize) -> sqlx::Result<Option<i64>>;
    /// A text where it lies.
    fn text_ref(&self, column: usize) -> sqlx::Result<&str>;
    /// A text.
    fn text(&self, column: usize) -> sqlx::Result<String>;
    /// A text or NULL.
    fn opt_text(&self, column: usize) -> sqlx::Result<Option<String>>;
    /// Bytes or NULL.
    fn opt_bytes(&self, column: usize) -> sqlx::Result<Option<Vec<u8>>>;
}

/// A connection that runs statements.
pub(crate) trait Run: Send {
    /// Its rows.
    type Row: Cells;

    /// Runs a statement and gives its rows.
    fn fetch(&mut self, sql: SqlStr, args: Vec<Arg>) -> impl Future<Output = sqlx::Result<Vec<Self::Row>>> + Send;

    /// Runs a statement and says how many rows it changed.
    fn change(&mut self, sql: SqlStr, args: Vec<Arg>) -> impl Future<Output = sqlx::Result<u64>> + Send;
}

/// The differences between the databases.
pub(crate) trait Dialect: Send + Sync + 'static {
    /// What a selection of rows to claim ends in.
    const SKIP_LOCKED: &'static str;
    /// A key that numbers itself.
    const ID: &'static str;
    /// A 64-bit key that is given.
    const KEY: &'static str;
    /// The type of a text that is compared byte by byte.
    const NAME: &'static str;
    /// The type of bytes.
    const BYTES: &'static str;
    /// A text of 32 random hex digits.
    const RANDOM_ID: &'static str;
    /// Whether several transactions write at once, so that each must lock its rows in one order.
    const CONCURRENT: bool;
    /// Asks for the time in milliseconds, where processes on several machines share a database.
    const TIME: Option<&'static str>;
    /// What keeps a table in the order of its key.
    const CLUSTERED: &'static str;
    /// The table of bodies, with what it takes for a first one to go in.
    const BODIES: &'static [&'static str];

    /// The n-th placeholder, from 1 on.
    fn placeholder(n: usize) -> String;

    /// How rows come out of one array for each column, where the database can do that; otherwise
    /// they are written out. See [`super::batch::Batch::new`].
    fn rows_from_arrays(row: &str, types: &str) -> Option<String>;

    /// What an error means for the caller.
    fn classify(error: sqlx::Error) -> crate::store::StoreError;

    /// Whether the database ended this transaction for the sake of another, so that it may be
    /// tried again at once.
    fn is_contention(error: &sqlx::Error) -> bool;
}

/// Renders a text of ours for a dialect: `{p}` becomes the qualifier, `?` the n-th placeholder.
/// Its values are always bound, so nothing from outside can be in it but the qualifier, which
/// the configuration limits to letters, digits and underscores.
pub(crate) fn statement<D: Dialect>(text: &str, qualifier: &str) -> Statement {
    let mut sql = String::with_capacity(text.len() + 64);
    let mut number = 0;
    let mut pieces = text.split('?');
    sql.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        number += 1;
        sql.push_str(&D::placeholder(number));
        sql.push_str(piece);
    }
    let sql = sql
        .replace("{p}", qualifier)
        .replace("{index}", if qualifier.ends_with('.') { "" } else { qualifier })
        .replace("{skip_locked}", D::SKIP_LOCKED)
        .replace("{id}", D::ID)
        .replace("{key}", D::KEY)
        .replace("{name}", D::NAME)
        .replace("{bytes}", D::BYTES)
        .replace("{random_id}", D::RANDOM_ID)
        .replace("{clustered}", D::CLUSTERED);
    // Shared, because each use clones it.
    AssertSqlSafe(Arc::<str>::from(sql)).into_sql_str()
}
