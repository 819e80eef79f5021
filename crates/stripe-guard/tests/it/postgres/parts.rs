//! The parts of the table of bodies: made and removed beside the traffic.

use std::sync::Arc;
use std::time::Duration;

use stripe_guard::store::{Ingested, PostgresInbox, open_postgres};
use stripe_guard_core::Outcome;
use stripe_guard_test_postgres::database;
use tokio::time::Instant;

use super::take;
use crate::support::{T0, arrival, postgres_at, request, settlement};

#[tokio::test(flavor = "multi_thread")]
async fn parts_come_and_go_while_a_reader_stays_and_ingest_never_waits_for_it() {
    let database = database();
    let inbox = PostgresInbox { partition_events: Some(100), ..postgres_at(&database.url()) };
    let store = open_postgres(&inbox).await.unwrap().store;
    let parts = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'stripe_guard.bodies'::regclass";
    assert_eq!(database.psql(parts).trim(), "3", "the first, and two ahead");
    take(&store, 0).await.unwrap();
    // Somebody's open look at the table, as a report or a backup takes.
    let mut reader = <sqlx::PgConnection as sqlx::Connection>::connect(&database.url()).await.unwrap();
    sqlx::raw_sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM stripe_guard.bodies")
        .execute(&mut reader)
        .await
        .unwrap();
    let mut slowest = Duration::ZERO;
    for n in 1..600 {
        let began = Instant::now();
        take(&store, n).await.unwrap();
        slowest = slowest.max(began.elapsed());
        if n % 50 == 0 {
            store.checkpoint().await.unwrap();
        }
    }
    println!("with a reader open the slowest of 600 took {slowest:.2?}");
    assert!(slowest < Duration::from_secs(1), "ingest waited {slowest:?}");
    assert!(database.psql(parts).trim().parse::<u32>().unwrap() >= 7);
    // All but the last hundred are delivered; one of the second part is not.
    let claims = store.claim(request(T0, 500)).await.unwrap();
    let done: Vec<_> = claims
        .iter()
        .filter(|claim| claim.event_seq() != 150)
        .map(|claim| settlement(claim, Outcome::Delivered, T0))
        .collect();
    store.settle(done).await.unwrap();
    let cutoff = T0.plus(Duration::from_hours(1));
    let pruning = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.prune(cutoff, 0).await })
    };
    let mut n = 1000;
    let mut slowest = Duration::ZERO;
    while !pruning.is_finished() {
        let began = Instant::now();
        take(&store, n).await.unwrap();
        slowest = slowest.max(began.elapsed());
        n += 1;
    }
    pruning.await.unwrap().unwrap();
    println!("beside pruning with a reader open the slowest of {} took {slowest:.2?}", n - 1000);
    assert!(slowest < Duration::from_secs(1), "ingest waited {slowest:?} for pruning");
    // With the reader gone, the next pass finishes what it had to leave.
    sqlx::raw_sql("COMMIT").execute(&mut reader).await.unwrap();
    store.prune(cutoff, 0).await.unwrap();
    let left = database.psql(
        "SELECT string_agg(relname, ' ' ORDER BY oid) FROM pg_class WHERE relkind = 'r' AND relname ~ '^bodies_'",
    );
    assert!(!left.contains("bodies_0 ") && left.contains("bodies_100 "), "{left}");
    assert!(store.body(150).await.unwrap().is_some(), "a body that is still needed is gone");
    assert_eq!(store.body(50).await.unwrap(), None);
    // Its identity stays.
    let answers = store.ingest(Arc::new(vec![arrival(49, T0)])).await.unwrap();
    assert!(matches!(answers[0], Ingested::Duplicate { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_beyond_the_last_part_has_one_made() {
    let database = database();
    let inbox = PostgresInbox { partition_events: Some(1000), ..postgres_at(&database.url()) };
    let store = open_postgres(&inbox).await.unwrap().store;
    // Nobody keeps house meanwhile.
    for chunk in 0..10_u32 {
        store.ingest(Arc::new((0..500).map(|n| arrival(chunk * 500 + n, T0)).collect())).await.unwrap();
    }
    assert_eq!(database.psql("SELECT count(*) FROM stripe_guard.bodies").trim(), "5000");
}
