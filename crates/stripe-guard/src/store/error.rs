//! What can go wrong with the store, by what a caller can do about it.

/// A store's failure.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database cannot do it now: busy, full, away. Nothing was stored; ask again later.
    #[error("the database is not available: {0}")]
    Unavailable(#[source] sqlx::Error),
    /// A row of the batch cannot be stored as it is.
    #[error("the database refuses the data: {0}")]
    Data(#[source] sqlx::Error),
    /// A write or flush failed, so what the disk holds is unknown. The process must start anew.
    #[error("the disk failed under the database, and only a new start can tell what it holds: {0}")]
    Fatal(#[source] sqlx::Error),
    /// A stored row is not what we write.
    #[error("{table} row {id} is corrupt: {problem}")]
    Corrupt {
        /// The table, without prefix.
        table: &'static str,
        /// Its number.
        id: i64,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The database cannot be opened; the text says why and what to do.
    #[error("{0}")]
    Open(String),
    /// The task that did the work ended abnormally.
    #[error("the store's task ended abnormally")]
    Task(#[source] tokio::task::JoinError),
}
