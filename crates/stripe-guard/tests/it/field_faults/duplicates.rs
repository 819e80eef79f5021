//! Duplicates and repeats.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use stripe_guard::clock::{Clock as _, SystemClock};
use stripe_guard_core::{Outcome, SigningSecret, State, TEST_EVENT_ID};
use stripe_guard_sandbox::{Behaviour, Script};
use tokio_util::sync::CancellationToken;

use crate::rig::{Rig, destination, source};
use crate::support::{LEASE, OTHER_SECRET, T0, arrival, body, operator, request, secret};

#[tokio::test(flavor = "multi_thread")]
async fn fault_22_a_duplicate_is_never_an_error() {
    let rig = Rig::start().await;
    let held = CancellationToken::new();
    rig.app.set_behaviour(Behaviour::Held { until: held.clone(), reply: stripe_guard_sandbox::Reply::new(410) });
    let stripe = Arc::new(rig.stripe_with([secret()], 20));
    let copies: Vec<_> = (0..20)
        .map(|_| {
            let stripe = Arc::clone(&stripe);
            tokio::spawn(async move { stripe.send(body("evt_1", "invoice.paid")).await.unwrap() })
        })
        .collect();
    for copy in copies {
        assert_eq!(copy.await.unwrap(), 200);
    }
    rig.app_has(1).await;
    rig.post(body("evt_1", "invoice.paid")).await; // In delivery.
    held.cancel();
    let dead = rig.settled(1).await.remove(0);
    rig.post(body("evt_1", "invoice.paid")).await; // A dead letter.
    rig.app.set_behaviour(200);
    rig.store().replay(vec![dead.id], operator(), SystemClock.now()).await.unwrap();
    rig.settled(1).await;
    rig.post(body("evt_1", "invoice.paid")).await; // Processed.
    let event = rig.event("evt_1").await;
    assert_eq!((event.copies, event.differing_copies), (22, 0));
    assert_eq!((rig.deliveries().await.len(), rig.app.successes_of("evt_1")), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn article_2_a_duplicate_of_a_processed_event_is_200_at_once() {
    let rig = Rig::start().await;
    rig.post(body("evt_1", "invoice.paid")).await;
    rig.settled(1).await;
    rig.post(body("evt_1", "invoice.paid")).await;
    assert_eq!(rig.app.arrivals(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn article_9_a_resend_of_a_retryable_event_does_not_let_a_second_worker_in() {
    let rig =
        Rig::start_with(|settings| settings.destinations[0].retry = stripe_guard_core::RetryPolicy::default()).await;
    rig.app.set_behaviour(500);
    rig.post(body("evt_1", "invoice.paid")).await;
    rig.app_has(1).await;
    for _ in 0..10 {
        rig.post(body("evt_1", "invoice.paid")).await;
    }
    SystemClock.sleep(Duration::from_millis(300)).await;
    let delivery = rig.deliveries().await.remove(0);
    assert_eq!((delivery.state.name(), delivery.attempts, rig.app.arrivals()), ("retryable", 1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn article_10_a_resend_of_a_dead_letter_is_counted_and_changes_nothing() {
    let rig = Rig::start().await;
    rig.app.set_behaviour(410);
    rig.post(body("evt_1", "invoice.paid")).await;
    rig.settled(1).await;
    rig.post(body("evt_1", "invoice.paid")).await;
    SystemClock.sleep(Duration::from_millis(200)).await;
    assert_eq!((rig.settled(1).await[0].state.name(), rig.app.arrivals()), ("dead_letter", 1));
    assert_eq!(rig.event("evt_1").await.copies, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_25_the_ledger_of_duplicates_survives_a_restart() {
    let mut rig = Rig::start().await;
    rig.post(body("evt_1", "invoice.paid")).await;
    rig.settled(1).await;
    rig.stop().await;
    rig.start_again().await;
    rig.post(body("evt_1", "invoice.paid")).await;
    SystemClock.sleep(Duration::from_millis(200)).await;
    assert_eq!((rig.app.arrivals(), rig.event("evt_1").await.copies), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_26_claimed_then_crashed() {
    let mut rig = Rig::start().await;
    rig.stop().await;
    // A process that stores and claims, and is never heard of again.
    let opened = stripe_guard::store::open_sqlite(&crate::support::sqlite_file(&rig.path)).await.unwrap();
    let now = SystemClock.now();
    opened.store.ingest(Arc::new(vec![arrival(1, now)])).await.unwrap();
    assert_eq!(opened.store.claim(request(now, 1)).await.unwrap().len(), 1);
    opened.store.close().await;
    rig.start_again().await;
    rig.post(body("evt_1", "invoice.paid")).await;
    SystemClock.sleep(Duration::from_millis(300)).await;
    assert_eq!(rig.app.arrivals(), 0, "the lease still runs");
    rig.age(i64::try_from(LEASE.as_secs()).unwrap()).await;
    let delivery = rig.settled(1).await.remove(0);
    assert_eq!((delivery.state.name(), rig.app.successes_of("evt_1")), ("processed", 1));
    let outcomes: Vec<_> = rig.store().attempts(delivery.id).await.unwrap().iter().map(|one| one.outcome).collect();
    assert_eq!(outcomes, [Outcome::Lost, Outcome::Delivered]);
}

/// An inbox in which a process has stored an event and claimed it, and is never heard of again; and
/// the next process on its file.
async fn crashed_while_claimed() -> (crate::support::Inbox, stripe_guard::store::Opened) {
    let inbox = crate::support::sqlite().await;
    inbox.store.ingest(Arc::new(vec![arrival(1, T0)])).await.unwrap();
    assert_eq!(inbox.store.claim(request(T0, 1)).await.unwrap().len(), 1);
    let next = stripe_guard::store::open_sqlite(&crate::support::sqlite_file(&inbox.path)).await.unwrap();
    (inbox, next)
}

#[tokio::test(flavor = "multi_thread")]
async fn article_5_an_abandoned_claim_ends_with_its_lease() {
    let (_inbox, next) = crashed_while_claimed().await;
    let just_before = T0.plus(LEASE).minus(Duration::from_millis(1));
    assert_eq!(next.store.claim(request(just_before, 1)).await.unwrap().len(), 0);
    assert_eq!(next.store.claim(request(T0.plus(LEASE), 1)).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn article_6_a_crash_leaves_the_event_in_the_store() {
    let (_inbox, next) = crashed_while_claimed().await;
    let event = next.store.events_by_key("evt_1").await.unwrap().remove(0);
    assert_eq!(event.copies, 0);
    assert_eq!(next.store.body(event.seq).await.unwrap().unwrap(), body("evt_1", "invoice.paid"));
    let delivery = next.store.deliveries_of("evt_1").await.unwrap().remove(0);
    assert_eq!(delivery.state, State::Processing { lease_until: T0.plus(LEASE) });
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_27_a_failed_event_counts_as_done_only_when_it_is() {
    let rig = Rig::start().await;
    rig.app.set_behaviour(Script::always(200).on_attempts(..=2, 500));
    rig.post(body("evt_1", "invoice.paid")).await;
    rig.app_has(1).await;
    rig.post(body("evt_1", "invoice.paid")).await;
    let delivery = rig.settled(1).await.remove(0);
    let attempts = rig.store().attempts(delivery.id).await.unwrap();
    let outcomes: Vec<_> = attempts.iter().map(|one| (one.number, one.outcome)).collect();
    assert_eq!(outcomes, [(1, Outcome::Failed), (2, Outcome::Failed), (3, Outcome::Delivered)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_28_test_events_of_one_fixed_id_are_told_apart() {
    let rig = Rig::start().await;
    let test_event = |event_type: &str, created: u32| -> Bytes {
        format!("{{\"id\":\"{TEST_EVENT_ID}\",\"object\":\"event\",\"created\":{created},\"data\":{{\"object\":{{}}}},\"type\":\"{event_type}\"}}").into()
    };
    rig.post(test_event("invoice.paid", 1)).await;
    rig.post(test_event("charge.succeeded", 1)).await;
    rig.post(test_event("invoice.paid", 2)).await;
    rig.post(test_event("invoice.paid", 2)).await;
    assert_eq!(rig.settled(3).await.len(), 3);
    assert_eq!(rig.app.arrivals(), 3);
    assert_eq!(rig.store().events_by_key(TEST_EVENT_ID).await.unwrap().len(), 3, "the common id finds them all");
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_29_two_endpoints_at_one_address() {
    let other = SigningSecret::parse(OTHER_SECRET).unwrap().labelled("second");
    let first = secret().labelled("first");
    let rig = Rig::start_with(|settings| settings.sources[0].secrets = vec![first.clone(), other.clone()]).await;
    let (one, two) = (rig.stripe_with([first], 1), rig.stripe_with([other], 1));
    let event = body("evt_1", "invoice.paid");
    let (a, b) = tokio::join!(one.send(event.clone()), two.send(event.clone()));
    assert_eq!((a.unwrap(), b.unwrap()), (200, 200));
    rig.settled(1).await;
    let stored = rig.event("evt_1").await;
    let copies = rig.store().copies(stored.seq).await.unwrap();
    let mut labels = [stored.secret_label.unwrap(), copies[0].secret_label.clone().unwrap()];
    labels.sort();
    assert_eq!((labels, rig.app.arrivals()), (["first".to_owned(), "second".to_owned()], 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sources_feed_one_app_once() {
    let other = SigningSecret::parse(OTHER_SECRET).unwrap();
    let rig = Rig::start_with(|settings| settings.sources.push(source("connect", vec![other.clone()]))).await;
    let connect = stripe_guard_sandbox::Sender::new(&rig.url("connect"), [other], 1).unwrap();
    rig.post(body("evt_1", "invoice.paid")).await;
    assert_eq!(connect.send(body("evt_1", "invoice.paid")).await.unwrap(), 200);
    rig.settled(1).await;
    assert_eq!((rig.store().events_by_key("evt_1").await.unwrap().len(), rig.app.arrivals()), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_31_an_idempotency_key_is_no_key_of_an_event() {
    let rig = Rig::start().await;
    for n in 0..3 {
        rig.post(format!("{{\"id\":\"evt_{n}\",\"object\":\"event\",\"type\":\"x\",\"data\":{{}},\"request\":{{\"id\":\"req_1\",\"idempotency_key\":\"same\"}}}}").into()).await;
    }
    rig.post(body("evt_3", "invoice.paid")).await;
    assert_eq!(rig.settled(4).await.len(), 4);
    rig.app_has(4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_32_a_resend_is_recognised_after_the_body_is_gone() {
    let rig = Rig::start().await;
    rig.post(body("evt_1", "invoice.paid")).await;
    rig.settled(1).await;
    rig.age(20 * 86_400).await;
    let cutoff = SystemClock.now().minus(Duration::from_hours(240));
    assert_eq!(rig.store().prune(cutoff, 0).await.unwrap().removed, 1);
    rig.post(body("evt_1", "invoice.paid")).await;
    SystemClock.sleep(Duration::from_millis(200)).await;
    assert_eq!((rig.app.arrivals(), rig.event("evt_1").await.copies), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_54_of_several_destinations_only_the_failing_one_is_tried_again() {
    let app = stripe_guard_sandbox::App::start(stripe_guard_sandbox::AppOptions::verifying([secret()])).await.unwrap();
    let url = app.url();
    let rig = Rig::start_with(|settings| settings.destinations.push(destination("second", &url))).await;
    rig.app.set_behaviour(Script::always(200).on_attempts(..=4, 500));
    rig.post(body("evt_1", "invoice.paid")).await;
    rig.settled(2).await;
    assert_eq!((rig.app.arrivals(), app.arrivals()), (5, 1));
}
