//! What only PostgreSQL can do to us, on real servers that the tests start and end.

mod failover;
mod many;
mod opening;
mod parts;

use std::sync::Arc;

use stripe_guard::store::{Opened, PostgresInbox, Store, StoreError, open_postgres};

use crate::support::{arrival, postgres_at};

/// Opens an inbox that must not open, and says why it did not.
async fn refused(inbox: &PostgresInbox) -> String {
    let why = match open_postgres(inbox).await {
        Err(StoreError::Open(why)) => why,
        Err(other) => panic!("not said in words: {other:?}"),
        Ok(_) => panic!("it was opened"),
    };
    assert!(!why.contains("canary"), "{why}");
    why
}

/// Opens the inbox at a URL.
async fn opened(url: &str) -> Opened {
    open_postgres(&postgres_at(url)).await.unwrap()
}

/// Takes one event in.
async fn take(store: &Arc<dyn Store>, n: u32) -> Result<(), StoreError> {
    store.ingest(Arc::new(vec![arrival(n, crate::support::T0)])).await.map(drop)
}
