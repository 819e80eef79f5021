//! Many at work on one database.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use stripe_guard::clock::{Clock as _, SystemClock};
use stripe_guard_core::Outcome;
use stripe_guard_test_postgres::database;
use tokio::time::Instant;

use super::{opened, take};
use crate::rig::{PATIENCE, Rig};
use crate::support::{T0, arrival, body, operator, request, settlement};

#[tokio::test(flavor = "multi_thread")]
async fn fault_40_a_claim_takes_no_more_than_its_limit_under_any_plan() {
    let database = database();
    let store = opened(&database.url()).await.store;
    for chunk in 0..20_u32 {
        store.ingest(Arc::new((0..100).map(|n| arrival(chunk * 100 + n, T0)).collect())).await.unwrap();
    }
    let claimers: Vec<_> = (0..8)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let mut got = Vec::new();
                loop {
                    let claims = store.claim(request(T0, 7)).await.unwrap();
                    assert!(claims.len() <= 7, "{} were taken", claims.len());
                    if claims.is_empty() {
                        return got;
                    }
                    got.extend(claims.iter().map(stripe_guard::store::Claim::id));
                }
            })
        })
        .collect();
    let mut all = Vec::new();
    for claimer in claimers {
        all.extend(claimer.await.unwrap());
    }
    let distinct: HashSet<_> = all.iter().collect();
    assert_eq!((all.len(), distinct.len()), (2000, 2000), "each once");
    assert_eq!(database.psql("SELECT count(*) FROM stripe_guard.deliveries WHERE fence = 1").trim(), "2000");
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_41_batches_in_any_order_never_deadlock() {
    let database = database();
    let store = opened(&database.url()).await.store;
    let before = database.psql("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
    let began = Instant::now();
    let tasks: Vec<_> = (0..8_u32)
        .map(|task| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for round in 0..10_u32 {
                    // The same events, each time in another order.
                    let mut batch: Vec<_> = (0..100).map(|n| arrival(round * 100 + n, T0)).collect();
                    batch.rotate_left((task * 13) as usize);
                    if task % 2 == 1 {
                        batch.reverse();
                    }
                    store.ingest(Arc::new(batch)).await.unwrap();
                    let claims = store.claim(request(T0, 60)).await.unwrap();
                    let ids: Vec<_> = claims.iter().map(stripe_guard::store::Claim::id).collect();
                    let mut done: Vec<_> =
                        claims.iter().map(|claim| settlement(claim, Outcome::Rejected, T0)).collect();
                    if task % 2 == 1 {
                        done.reverse();
                    }
                    store.settle(done).await.unwrap();
                    store.replay(ids, operator(), T0).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    println!("8 × 10 × 100 events in {:.2?}", began.elapsed());
    // The statistics come late.
    SystemClock.sleep(Duration::from_millis(1500)).await;
    assert_eq!(database.psql("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"), before);
    assert_eq!(database.psql("SELECT count(*) FROM stripe_guard.events").trim(), "1000");
    assert_eq!(database.psql("SELECT sum(copies) FROM stripe_guard.copy_counts").trim(), "7000");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_somebody_holds_is_passed_by() {
    let database = database();
    let store = opened(&database.url()).await.store;
    for n in 0..3 {
        take(&store, n).await.unwrap();
    }
    let mut holder = <sqlx::PgConnection as sqlx::Connection>::connect(&database.url()).await.unwrap();
    sqlx::raw_sql("BEGIN; SELECT id FROM stripe_guard.deliveries WHERE id = 1 FOR UPDATE")
        .execute(&mut holder)
        .await
        .unwrap();
    let claims = store.claim(request(T0, 10)).await.unwrap();
    let ids: Vec<_> = claims.iter().map(|claim| claim.id().get()).collect();
    assert_eq!(ids, [2, 3]);
    sqlx::raw_sql("ROLLBACK").execute(&mut holder).await.unwrap();
    assert_eq!(store.claim(request(T0, 10)).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_65_a_nul_in_an_event_costs_no_row() {
    let database = database();
    let store = opened(&database.url()).await.store;
    let body = bytes::Bytes::from_static(
        b"{\"id\":\"evt_nul\",\"object\":\"event\",\"type\":\"invoice.paid\",\"account\":\"acct\\u0000x\",\"data\":{\"object\":{\"id\":\"in\\u0000\"}},\"livemode\":false,\"created\":1796083200}",
    );
    let one =
        stripe_guard::store::Arrival { inbound: crate::support::inbound("stripe", body.clone(), T0), ..arrival(1, T0) };
    store.ingest(Arc::new(vec![one])).await.unwrap();
    let event = store.events_by_key("evt_nul").await.unwrap().remove(0);
    assert_eq!(store.body(event.seq).await.unwrap().unwrap(), body);
    let claim = store.claim(request(T0, 1)).await.unwrap().remove(0);
    let failed = stripe_guard::store::Settlement {
        error: Some("an \0 in it".to_owned()),
        excerpt: Some("\0".to_owned()),
        ..settlement(&claim, Outcome::Failed, T0)
    };
    store.settle(vec![failed]).await.unwrap();
    assert_eq!(store.attempts(claim.id()).await.unwrap()[0].excerpt.as_deref(), Some("\u{FFFD}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_45_a_wrong_clock_of_one_machine_moves_no_lease() {
    let database = database();
    // Far enough to be seen, and within what a signature may be off.
    let rig = Rig::start_on_postgres(&database, |_| {}).await;
    rig.clock.set(200);
    rig.post(body("evt_1", "invoice.paid")).await;
    rig.settled(1).await;
    let off = rig.event("evt_1").await.received_at.as_millis() - SystemClock.now().as_millis();
    assert!(off.abs() < 5_000, "it arrived at a time that is {off} ms off");
    let began = Instant::now();
    while !rig.admin("/metrics").await.1.contains("stripe_guard_database_clock_skew_seconds 200") {
        assert!(began.elapsed() < PATIENCE, "the skew is not told: {}", rig.admin("/metrics").await.1);
        SystemClock.sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destinations_concurrency_holds_for_all_processes_together() {
    let database = database();
    let rig = Rig::start_on_postgres(&database, |settings| settings.destinations[0].concurrency = 6).await;
    let mut others = Vec::new();
    for _ in 0..2 {
        let machine = Arc::new(SystemClock);
        others.push(stripe_guard::Engine::start(&rig.settings, machine).await.unwrap());
    }
    // Until each has its part: the first had all, and gave up two thirds.
    let shares = "SELECT string_agg(slots::text, ' ' ORDER BY slots) FROM stripe_guard.shares";
    let began = Instant::now();
    while database.psql(shares).trim() != "2 2 2" {
        assert!(began.elapsed() < PATIENCE, "dealt out: {}", database.psql(shares));
        SystemClock.sleep(Duration::from_millis(100)).await;
    }
    rig.app.set_behaviour(stripe_guard_sandbox::Behaviour::slow(Duration::from_millis(50), 200));
    for n in 0..120 {
        rig.post(body(&format!("evt_{n}"), "invoice.paid")).await;
    }
    rig.settled(120).await;
    let most = rig.app.max_in_flight();
    assert!((4..=6).contains(&most), "{most} at once");
    // Whoever stops leaves its part to the others.
    for other in others {
        other.stop().await;
    }
    let began = Instant::now();
    while database.psql(shares).trim() != "6" {
        assert!(began.elapsed() < Duration::from_mins(1), "dealt out: {}", database.psql(shares));
        SystemClock.sleep(Duration::from_millis(200)).await;
    }
}
