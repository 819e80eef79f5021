//! Acknowledging and keeping.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{Connection as _, Executor as _};
use stripe_guard::clock::{Clock as _, SystemClock};
use stripe_guard_core::Outcome;
use stripe_guard_sandbox::{Behaviour, Script};
use tokio_util::sync::CancellationToken;

use crate::rig::{PATIENCE, Rig, pause};
use crate::support::{arrival, body, secret};

#[tokio::test(flavor = "multi_thread")]
async fn fault_19_a_lost_wake_up_costs_one_poll() {
    let mut rig = Rig::start().await;
    // Into the store without the writer: nobody rings.
    rig.store().ingest(Arc::new(vec![arrival(1, SystemClock.now())])).await.unwrap();
    rig.app_has(1).await;
    rig.stop().await;
    let opened = stripe_guard::store::open_sqlite(&crate::support::sqlite_file(&rig.path)).await.unwrap();
    opened.store.ingest(Arc::new(vec![arrival(2, SystemClock.now())])).await.unwrap();
    opened.store.close().await;
    rig.start_again().await;
    rig.app_has(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_event_waits_for_no_poll() {
    let rig = Rig::start_with(|settings| settings.limits.poll = Duration::from_mins(1)).await;
    // The first look finds nothing; from then on only the bell can tell.
    SystemClock.sleep(Duration::from_millis(300)).await;
    for n in 0..5 {
        let began = SystemClock.now();
        rig.post(body(&format!("evt_{n}"), "invoice.paid")).await;
        rig.app_has(n + 1).await;
        assert!(SystemClock.now().since(began) < Duration::from_secs(2));
        SystemClock.sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_20_a_slow_app_is_not_called_twice_and_stripe_does_not_wait_for_it() {
    let rig = Rig::start().await;
    rig.app.set_behaviour(Behaviour::slow(Duration::from_secs(3), 200));
    for _ in 0..2 {
        let began = SystemClock.now();
        rig.post(body("evt_1", "invoice.paid")).await;
        assert!(SystemClock.now().since(began) < Duration::from_secs(1));
        SystemClock.sleep(Duration::from_millis(700)).await;
    }
    rig.settled(1).await;
    assert_eq!(rig.app.arrivals(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_21_the_apps_failures_are_not_shown_to_stripe() {
    let rig = Rig::start().await;
    rig.app.set_behaviour(500);
    for n in 0..50 {
        rig.post(body(&format!("evt_{n}"), "invoice.paid")).await;
    }
    rig.app_has(60).await;
    assert!(rig.deliveries().await.iter().all(|one| !one.state.is_ended()));
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_23_a_failure_never_hides_behind_a_success() {
    let rig = Rig::start().await;
    rig.sql("CREATE TRIGGER refuse BEFORE INSERT ON stripe_guard_events BEGIN SELECT RAISE(ABORT, 'no'); END").await;
    assert_eq!(rig.stripe().send(body("evt_1", "invoice.paid")).await.unwrap(), 503);
    rig.sql("DROP TRIGGER refuse").await;
    rig.app.set_behaviour(Script::always(200).on_attempts(..=1, Behaviour::Cut));
    rig.post(body("evt_1", "invoice.paid")).await;
    let delivery = rig.settled(1).await.remove(0);
    let attempts = rig.store().attempts(delivery.id).await.unwrap();
    assert_eq!(attempts[0].outcome, Outcome::Unreachable);
    assert!(attempts[0].error.as_ref().unwrap().contains("cut off"), "{attempts:?}");
    assert_eq!(attempts.last().unwrap().outcome, Outcome::Delivered);
}

#[tokio::test(flavor = "multi_thread")]
async fn article_13_only_the_unique_key_makes_a_duplicate() {
    let rig = Rig::start().await;
    // Any other refusal of the database is no duplicate: it must not be answered as one.
    rig.sql("CREATE TRIGGER refuse BEFORE INSERT ON stripe_guard_deliveries BEGIN SELECT RAISE(ABORT, 'no'); END")
        .await;
    assert_eq!(rig.stripe().send(body("evt_1", "invoice.paid")).await.unwrap(), 503);
    assert_eq!(rig.number("SELECT COUNT(*) FROM stripe_guard_events").await, 0, "all of it or nothing");
    rig.sql("DROP TRIGGER refuse").await;
    rig.post(body("evt_1", "invoice.paid")).await;
    rig.app_has(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_event_does_not_take_its_batch_with_it() {
    let rig = Rig::start().await;
    rig.sql("CREATE TRIGGER refuse BEFORE INSERT ON stripe_guard_events WHEN new.key = 'evt_7' BEGIN SELECT RAISE(ABORT, 'no'); END").await;
    let stripe = Arc::new(rig.stripe_with([secret()], 16));
    let posts: Vec<_> = (0..16)
        .map(|n| {
            let stripe = Arc::clone(&stripe);
            tokio::spawn(async move { (n, stripe.send(body(&format!("evt_{n}"), "invoice.paid")).await.unwrap()) })
        })
        .collect();
    for post in posts {
        let (n, status) = post.await.unwrap();
        assert_eq!(status, if n == 7 { 503 } else { 200 }, "{n}");
    }
    rig.settled(15).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_24_readiness_tells_the_truth_and_recovers() {
    let rig = Rig::start().await;
    assert_eq!(rig.admin("/readyz").await.0, 200);
    let mut other = rig.connection().await;
    other.execute("BEGIN IMMEDIATE").await.unwrap();
    SystemClock.sleep(Duration::from_millis(1100)).await;
    let began = SystemClock.now();
    assert_eq!(rig.admin("/readyz").await.0, 503);
    assert!(SystemClock.now().since(began) < Duration::from_secs(2));
    assert_eq!(rig.admin("/healthz").await.0, 200, "the process itself lives");
    assert_eq!(rig.stripe().send(body("evt_1", "invoice.paid")).await.unwrap(), 503);
    other.execute("ROLLBACK").await.unwrap();
    other.close().await.unwrap();
    for _ in 0..500 {
        if rig.admin("/readyz").await.0 == 200 {
            rig.post(body("evt_1", "invoice.paid")).await;
            return;
        }
        pause().await;
    }
    panic!("readiness did not recover");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_is_503_at_once_and_bounded_by_bytes_too() {
    let rig = Rig::start_with(|settings| settings.limits.queue_bytes = 6000).await;
    let mut other = rig.connection().await;
    other.execute("BEGIN IMMEDIATE").await.unwrap();
    let held = CancellationToken::new();
    let stripe = Arc::new(rig.stripe_with([secret()], 4));
    let big = |n: u32| body(&format!("evt_{n}{}", "x".repeat(200)), &"t".repeat(250));
    let waiting: Vec<_> = (0..3)
        .map(|n| {
            let (stripe, held) = (Arc::clone(&stripe), held.clone());
            tokio::spawn(async move {
                let status = stripe.send([big(n), vec![b' '; 1200].into()].concat().into()).await.unwrap();
                held.cancel();
                status
            })
        })
        .collect();
    SystemClock.sleep(Duration::from_millis(300)).await;
    let began = SystemClock.now();
    assert_eq!(rig.stripe().send([big(9), vec![b' '; 1200].into()].concat().into()).await.unwrap(), 503);
    assert!(SystemClock.now().since(began) < Duration::from_millis(500), "refused at once");
    assert!(!held.is_cancelled(), "the others still wait");
    other.execute("ROLLBACK").await.unwrap();
    for post in waiting {
        assert_eq!(post.await.unwrap(), 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_finishes_what_is_open_and_hands_back_the_rest() {
    let mut rig = Rig::start_with(|settings| {
        settings.limits.grace = Duration::from_millis(800);
        settings.destinations[0].timeout = Duration::from_secs(10);
        settings.destinations[0].first_byte_timeout = Duration::from_secs(10);
    })
    .await;
    let quick = Behaviour::slow(Duration::from_millis(500), 200);
    rig.app.set_behaviour(Script::always(Behaviour::Hang).on_event("evt_quick", quick));
    rig.post(body("evt_quick", "invoice.paid")).await;
    rig.post(body("evt_hangs", "invoice.paid")).await;
    rig.app_has(2).await;
    let began = SystemClock.now();
    rig.stop().await;
    assert!(SystemClock.now().since(began) < Duration::from_secs(3));
    let state = |key: &str| format!("SELECT COUNT(*) FROM stripe_guard_deliveries WHERE key = '{key}'");
    assert_eq!(rig.number(&format!("{} AND state = 'processed'", state("evt_quick"))).await, 1);
    let handed_back = "AND state = 'received' AND attempts = 0 AND lost = 0";
    assert_eq!(rig.number(&format!("{} {handed_back}", state("evt_hangs"))).await, 1);
    rig.app.set_behaviour(200);
    rig.start_again().await;
    assert!(rig.app.wait_until(PATIENCE, |app| app.successes_of("evt_hangs") == 1).await);
}
