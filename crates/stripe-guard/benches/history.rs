//! Whether claim and settle stay flat while history grows.
//!
//! `cargo bench -p stripe-guard --bench history -- [ROWS]` makes two inboxes, one with 10 thousand
//! ended deliveries and one with ROWS (10 million unless told otherwise), and measures claim and
//! settle on both in turns. The rows of history are made in SQL.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement, not the product"
)]

#[path = "../tests/it/support.rs"]
#[allow(dead_code, reason = "a part of the tests' support is enough here")]
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _};
use stripe_guard::store::Store;
use stripe_guard_core::Outcome;
use support::{Inbox, T0, arrival, request, settlement};

const SMALL: u64 = 10_000;
const BATCH: u32 = 64;
const BATCHES: u32 = 50;
const ROUNDS: u32 = 9;

#[tokio::main]
async fn main() {
    let large = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(10_000_000);
    println!("making {SMALL} and {large} rows of history");
    let inboxes = [with_history(SMALL).await, with_history(large).await];
    let mut ratios = Vec::new();
    for round in 0..ROUNDS {
        let mut took = [Duration::ZERO; 2];
        // In turns, and the order changed each time, so that a busy neighbour hits both.
        for place in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            took[place] = claim_and_settle(&inboxes[place].store, round).await;
        }
        let per_delivery = took.map(|took| took.as_secs_f64() * 1e6 / f64::from(BATCH * BATCHES));
        println!("round {round}: {:.1} µs and {:.1} µs for each delivery", per_delivery[0], per_delivery[1]);
        ratios.push(per_delivery[1] / per_delivery[0]);
    }
    ratios.sort_by(f64::total_cmp);
    println!(
        "claim + settle at {large} rows of history: {:.2} x that at {SMALL} (median of {ROUNDS} rounds)",
        ratios[ratios.len() / 2]
    );
}

async fn claim_and_settle(store: &Arc<dyn Store>, round: u32) -> Duration {
    let first = round * BATCH * BATCHES;
    for batch in 0..BATCHES {
        let events = (0..BATCH).map(|n| arrival(first + batch * BATCH + n, T0)).collect();
        store.ingest(Arc::new(events)).await.unwrap();
    }
    let began = Instant::now();
    for _ in 0..BATCHES {
        let claims = store.claim(request(T0, BATCH)).await.unwrap();
        assert_eq!(claims.len(), BATCH as usize);
        let ends = claims.iter().map(|claim| settlement(claim, Outcome::Delivered, T0)).collect();
        store.settle(ends).await.unwrap();
    }
    began.elapsed()
}

async fn with_history(rows: u64) -> Inbox {
    let inbox = support::sqlite().await;
    let mut connection = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(&inbox.path)
        .pragma("synchronous", "off")
        .pragma("cache_size", "-4000000")
        .connect()
        .await
        .unwrap();
    // Keys in no order, as Stripe's ids are.
    let numbers = format!("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) ");
    let key = "printf('evt_%016x', (i * 40503 + (i * 2654435761) % 4294967296) % 1099511627776 * 10000000 + i)";
    let statements = [
        "BEGIN".to_owned(),
        format!("{numbers} INSERT INTO stripe_guard_events (seq, source, key, event_id, type, form, origin, intake, received_at, digest) \
            SELECT i, 'stripe', {key}, {key}, 'invoice.paid', 'snapshot', 'webhook', 'accepted', 1790000000000 + i, zeroblob(32) FROM n"),
        "INSERT INTO stripe_guard_deliveries (id, event_seq, key, destination, state, fence, round_started_at) \
            SELECT seq, seq, key, 'app', 'processed', 1, received_at FROM stripe_guard_events".to_owned(),
        "INSERT INTO stripe_guard_attempts (delivery_id, fence, round, number, started_at, duration_ms, outcome, status) \
            SELECT id, 1, 1, 1, round_started_at, 12, 'delivered', 200 FROM stripe_guard_deliveries".to_owned(),
        "COMMIT".to_owned(),
        "PRAGMA wal_checkpoint(TRUNCATE)".to_owned(),
    ];
    for statement in statements {
        connection.execute(AssertSqlSafe(statement)).await.unwrap();
    }
    connection.close().await.unwrap();
    inbox
}
