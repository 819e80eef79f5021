//! Claims, leases, and what the app sees.

use std::sync::Arc;
use std::time::Duration;

use stripe_guard::clock::{Clock as _, SystemClock};
use stripe_guard::store::{ClaimRequest, Settled, open_sqlite};
use stripe_guard_core::{Budget, Outcome, RetryPolicy, State};
use stripe_guard_sandbox::{Behaviour, Reply, Script};
use tokio_util::sync::CancellationToken;

use crate::rig::{Rig, eager};
use crate::support::{LEASE, T0, arrival, arrival_for, body, operator, request, settlement, sqlite, sqlite_file};

#[tokio::test(flavor = "multi_thread")]
async fn fault_36_an_app_that_needs_nearly_all_the_time_sees_one_request_at_once() {
    let rig = Rig::start_with(|settings| {
        settings.destinations[0].timeout = Duration::from_secs(2);
        settings.destinations[0].first_byte_timeout = Duration::from_secs(2);
        settings.limits.lease = Duration::from_secs(7);
    })
    .await;
    rig.app.set_behaviour(Behaviour::slow(Duration::from_millis(1800), 200));
    rig.post(body("evt_1", "invoice.paid")).await;
    rig.settled(1).await;
    assert_eq!((rig.app.arrivals(), rig.app.max_in_flight()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_with_too_little_lease_left_is_not_sent_but_handed_back() {
    let rig = Rig::start_with(|settings| settings.limits.lease = Duration::from_secs(4)).await;
    // The configuration refuses a lease under the time-out; here it stands for a long pause.
    rig.post(body("evt_1", "invoice.paid")).await;
    SystemClock.sleep(Duration::from_millis(500)).await;
    let delivery = rig.deliveries().await.remove(0);
    assert_eq!((rig.app.arrivals(), delivery.attempts, delivery.lost), (0, 0, 0));
    assert!(delivery.fence > 0, "it was claimed");
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_37_a_late_finish_and_the_taker_of_the_lease_do_not_undo_each_other() {
    let inbox = sqlite().await;
    let store = &inbox.store;
    store.ingest(Arc::new(vec![arrival(1, T0), arrival(2, T0)])).await.unwrap();
    let old = store.claim(request(T0, 2)).await.unwrap();
    let late = T0.plus(LEASE);
    // One finishes before the other is taken over; both settle after their leases.
    assert_eq!(store.settle(vec![settlement(&old[0], Outcome::Delivered, late)]).await.unwrap(), [Settled::Done]);
    let taken = store.claim(request(late, 9)).await.unwrap();
    assert_eq!((taken.len(), taken[0].id()), (1, old[1].id()));
    assert_eq!(store.settle(vec![settlement(&old[1], Outcome::Delivered, late)]).await.unwrap(), [Settled::Fenced]);
    assert_eq!(store.delivery(old[0].id()).await.unwrap().unwrap().state, State::Processed);
    let held = store.delivery(old[1].id()).await.unwrap().unwrap();
    assert_eq!((held.state, held.fence), (State::Processing { lease_until: late.plus(LEASE) }, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn article_50_two_workers_never_hold_one_delivery() {
    let inbox = sqlite().await;
    inbox.store.ingest(Arc::new(vec![arrival(1, T0)])).await.unwrap();
    let (one, two) = tokio::join!(inbox.store.claim(request(T0, 1)), inbox.store.claim(request(T0, 1)));
    assert_eq!(one.unwrap().len() + two.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn article_51_what_is_being_sent_is_seen_as_being_sent() {
    let rig = Rig::start().await;
    let held = CancellationToken::new();
    rig.app.set_behaviour(Behaviour::Held { until: held.clone(), reply: Reply::new(200) });
    rig.post(body("evt_1", "invoice.paid")).await;
    rig.app_has(1).await;
    assert_eq!(rig.deliveries().await[0].state.name(), "processing");
    held.cancel();
    assert_eq!(rig.settled(1).await[0].state, State::Processed);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_38_rows_of_another_destination_do_not_hide_what_is_due() {
    let inbox = sqlite().await;
    let crowd = (0..2000).map(|n| arrival_for("stripe", &format!("evt_other_{n}"), &["gone"], T0)).collect();
    inbox.store.ingest(Arc::new(crowd)).await.unwrap();
    inbox.store.ingest(Arc::new(vec![arrival(1, T0)])).await.unwrap();
    assert_eq!(inbox.store.claim(request(T0, 10)).await.unwrap().len(), 1, "in the same pass");
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_39_an_old_lease_is_never_taken_for_our_own() {
    let mut rig = Rig::start().await;
    rig.app.set_behaviour(Behaviour::Hang);
    rig.stop().await;
    // The process before this one, which ended without a word.
    let before = open_sqlite(&sqlite_file(&rig.path)).await.unwrap();
    let now = SystemClock.now();
    before.store.ingest(Arc::new(vec![arrival(1, now)])).await.unwrap();
    let claim = ClaimRequest { owner: "old-host".to_owned(), ..request(now, 1) };
    assert_eq!(before.store.claim(claim).await.unwrap().len(), 1);
    before.store.close().await;
    rig.start_again().await;
    SystemClock.sleep(Duration::from_millis(300)).await;
    assert_eq!(rig.app.arrivals(), 0, "the old lease still runs");
    rig.age(i64::try_from(LEASE.as_secs()).unwrap()).await;
    rig.app_has(1).await;
    let mine = "SELECT COUNT(*) FROM stripe_guard_deliveries d JOIN stripe_guard_processes p ON p.owner = d.owner \
        WHERE d.state = 'processing' AND d.fence = 2 AND d.owner <> 'old-host'";
    assert_eq!(rig.number(mine).await, 1, "it is held under another name");
    assert_eq!(rig.number("SELECT COUNT(DISTINCT owner) FROM stripe_guard_processes").await, 2, "each start has one");
    rig.app.set_behaviour(200);
    rig.stop().await;
    rig.start_again().await;
    assert_eq!(rig.settled(1).await[0].state, State::Processed);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_56_attempts_can_be_told_apart_and_their_event_cannot() {
    let rig = Rig::start().await;
    rig.app.set_behaviour(Script::always(200).on_attempts(..=2, 500));
    rig.post(body("evt_1", "invoice.paid")).await;
    let delivery = rig.settled(1).await.remove(0);
    rig.store().replay(vec![delivery.id], operator(), SystemClock.now()).await.unwrap();
    rig.app_has(4).await;
    rig.settled(1).await;
    let requests = rig.app.requests();
    let all = |name: &str| requests.iter().map(|one| one.header(name).unwrap_or("-").to_owned()).collect::<Vec<_>>();
    assert!(requests.iter().all(|one| one.digest == requests[0].digest && one.is_verified()));
    assert_eq!(all("stripe-guard-event"), ["evt_1"; 4]);
    assert_eq!(all("stripe-guard-delivery"), vec![delivery.id.to_string(); 4]);
    assert_eq!(all("stripe-guard-attempt"), ["1", "2", "3", "1"]);
    assert_eq!(all("stripe-guard-round"), ["1", "1", "1", "2"]);
    assert_eq!(all("stripe-guard-fence"), ["1", "2", "3", "4"]);
    assert_eq!(all("stripe-guard-replay"), ["-", "-", "-", "true"]);
    assert_eq!(all("stripe-guard-source"), ["stripe"; 4]);
    assert_eq!(all("stripe-guard-origin"), ["webhook"; 4]);
    assert_eq!(all("stripe-guard-object"), ["in_1"; 4]);
    assert_eq!(all("stripe-guard-created"), ["2026-12-01T00:00:00.000Z"; 4]);
    assert_eq!(all("content-type"), ["application/json; charset=utf-8"; 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_57_connections_are_used_again() {
    let rig = Rig::start().await;
    let stripe = rig.stripe();
    for n in 0..2000 {
        assert_eq!(stripe.send(body(&format!("evt_{n}"), "invoice.paid")).await.unwrap(), 200);
    }
    rig.app_has(2000).await;
    assert!(rig.app.connections() <= 20, "{} connections for ten slots", rig.app.connections());
}

#[track_caller]
fn check(outcomes: &[Outcome], expected: Outcome) {
    assert!(!outcomes.is_empty() && outcomes.iter().all(|one| *one == expected), "{outcomes:?}");
}

/// What comes of an app's behaviour with a budget of three attempts; and that a replay works
/// afterwards and keeps the history.
async fn ends(behaviour: impl Into<Script>, outcome: Outcome, attempts: usize, state: &str, class: Option<&str>) {
    let rig = Rig::start_with(|settings| {
        let app = &mut settings.destinations[0];
        app.retry = RetryPolicy { budget: Budget::Attempts(3), ..eager() };
        (app.timeout, app.first_byte_timeout) = (Duration::from_millis(400), Duration::from_millis(400));
    })
    .await;
    rig.app.set_behaviour(behaviour);
    rig.post(body("evt_1", "invoice.paid")).await;
    let delivery = rig.settled(1).await.remove(0);
    let history = rig.store().attempts(delivery.id).await.unwrap();
    let outcomes: Vec<_> = history.iter().map(|one| one.outcome).collect();
    check(&outcomes, outcome);
    assert_eq!((history.len(), delivery.state.name()), (attempts, state));
    assert_eq!(delivery.state.class().map(stripe_guard_core::DeadLetterClass::as_str), class);
    assert!(outcome == Outcome::Delivered || history[0].error.is_some(), "{history:?}");
    rig.app.set_behaviour(200);
    rig.store().replay(vec![delivery.id], operator(), SystemClock.now()).await.unwrap();
    assert_eq!(rig.settled(1).await[0].state, State::Processed);
    assert_eq!(rig.store().attempts(delivery.id).await.unwrap().len(), attempts + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_answers_any_2xx_has_taken_it() {
    ends(200, Outcome::Delivered, 1, "processed", None).await;
    ends(204, Outcome::Delivered, 1, "processed", None).await;
    ends(299, Outcome::Delivered, 1, "processed", None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_answers_500_exhausts_its_budget() {
    ends(500, Outcome::Failed, 3, "dead_letter", Some("exhausted")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_hangs_is_unreachable_in_the_end() {
    ends(Behaviour::Hang, Outcome::TimedOut, 3, "dead_letter", Some("unreachable")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_one_byte_a_second_is_judged_by_its_head() {
    ends(Behaviour::drip(200), Outcome::Delivered, 1, "processed", None).await;
    ends(Behaviour::drip(500), Outcome::Failed, 3, "dead_letter", Some("exhausted")).await;
    ends(Behaviour::CutShort { status: 201 }, Outcome::Delivered, 1, "processed", None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_leads_back_here_fails_instead_of_counting_as_done() {
    // By a name that the configuration cannot know for its own.
    let rig = Rig::start().await;
    let mut settings = rig.settings.clone();
    settings.destinations[0].url = rig.url("stripe").parse().unwrap();
    settings.destinations[0].retry = RetryPolicy { budget: Budget::Attempts(2), ..eager() };
    rig.engine().reload(&settings);
    rig.post(body("evt_1", "invoice.paid")).await;
    let delivery = rig.settled(1).await.remove(0);
    assert_eq!(delivery.state.class().map(stripe_guard_core::DeadLetterClass::as_str), Some("exhausted"));
    assert_eq!(rig.store().attempts(delivery.id).await.unwrap()[0].status, Some(508));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_claimed_after_the_stop() {
    let mut rig = Rig::start_with(|settings| settings.destinations[0].concurrency = 2).await;
    rig.app.set_behaviour(Behaviour::slow(Duration::from_millis(600), 200));
    for n in 0..20 {
        rig.post(body(&format!("evt_{n}"), "invoice.paid")).await;
    }
    rig.app_has(2).await;
    rig.stop().await;
    assert_eq!(rig.app.arrivals(), 2, "the slots that came free were left so");
    assert_eq!(
        rig.number("SELECT COUNT(*) FROM stripe_guard_deliveries WHERE state = 'received' AND fence = 0").await,
        18
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_destination_shows_zero() {
    let rig = Rig::start().await;
    let shows = async |line: &str| {
        for _ in 0..1000 {
            if rig.admin("/metrics").await.1.contains(line) {
                return;
            }
            crate::rig::pause().await;
        }
        panic!("the metrics do not show {line}");
    };
    let held = tokio_util::sync::CancellationToken::new();
    rig.app.set_behaviour(Behaviour::Held { until: held.clone(), reply: Reply::new(200) });
    rig.post(body("evt_1", "invoice.paid")).await;
    shows("stripe_guard_deliveries{destination=\"app\",state=\"processing\"} 1").await;
    held.cancel();
    shows("stripe_guard_deliveries{destination=\"app\",state=\"processing\"} 0").await;
    shows("stripe_guard_oldest_undelivered_seconds{destination=\"app\"} 0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_cuts_the_connection_is_unreachable() {
    ends(Behaviour::Cut, Outcome::Unreachable, 3, "dead_letter", Some("unreachable")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_answers_410_has_the_last_word() {
    ends(410, Outcome::Rejected, 1, "dead_letter", Some("rejected")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_answers_404_looks_misconfigured_and_is_tried_again() {
    ends(404, Outcome::Misconfigured, 3, "dead_letter", Some("exhausted")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_two_gigabytes_is_not_read() {
    ends(Behaviour::huge(200), Outcome::Delivered, 1, "processed", None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_a_failure_and_is_not_followed() {
    let reply = Reply::new(307).header("location", "http://169.254.169.254/latest");
    ends(reply, Outcome::Failed, 3, "dead_letter", Some("exhausted")).await;
    let rig = Rig::start().await;
    rig.app
        .set_behaviour(Script::always(200).on_attempts(..=1, Reply::new(302).header("location", "http://10.0.0.1/x")));
    rig.post(body("evt_1", "invoice.paid")).await;
    let delivery = rig.settled(1).await.remove(0);
    let error = rig.store().attempts(delivery.id).await.unwrap()[0].error.clone().unwrap();
    assert!(error.contains("http://10.0.0.1/x"), "the location is recorded: {error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overloaded_app_is_left_alone_as_long_as_it_asks() {
    let rig = Rig::start().await;
    rig.app.set_behaviour(Script::always(200).on_attempts(..=1, Reply::new(429).header("retry-after", "2")));
    let began = SystemClock.now();
    rig.post(body("evt_1", "invoice.paid")).await;
    let delivery = rig.settled(1).await.remove(0);
    assert!(SystemClock.now().since(began) >= Duration::from_secs(2));
    let history = rig.store().attempts(delivery.id).await.unwrap();
    assert_eq!((history[0].outcome, history[0].status), (Outcome::Overloaded, Some(429)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_refuses_connections_is_unreachable_and_is_served_when_it_returns() {
    let mut rig = Rig::start().await;
    rig.app.stop().await;
    rig.post(body("evt_1", "invoice.paid")).await;
    SystemClock.sleep(Duration::from_millis(300)).await;
    rig.app.start_again().await.unwrap();
    let delivery = rig.settled(1).await.remove(0);
    let history = rig.store().attempts(delivery.id).await.unwrap();
    assert_eq!(history[0].outcome, Outcome::Unreachable);
    assert!(history[0].error.as_ref().unwrap().contains("cannot connect"), "{:?}", history[0].error);
    assert_eq!(delivery.state, State::Processed);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wait_between_attempts_is_the_articles() {
    let rig = Rig::start_with(|settings| settings.destinations[0].retry = RetryPolicy::default()).await;
    rig.app.set_behaviour(500);
    rig.post(body("evt_1", "invoice.paid")).await;
    rig.app_has(1).await;
    for _ in 0..500 {
        let delivery = rig.deliveries().await.remove(0);
        if let State::Retryable { due_at } = delivery.state {
            let attempt = rig.store().attempts(delivery.id).await.unwrap().remove(0);
            let wait = due_at.since(attempt.started_at).saturating_sub(attempt.duration.unwrap());
            let expected = RetryPolicy::default().delay(delivery.id, 1, 1);
            assert!(wait.abs_diff(expected) < Duration::from_millis(100), "{wait:?} is not {expected:?}");
            return;
        }
        crate::rig::pause().await;
    }
    panic!("no retry was planned");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_or_altered_body_is_our_fault_and_is_never_sent() {
    for damage in ["DELETE FROM stripe_guard_bodies", "UPDATE stripe_guard_bodies SET bytes = x'7b7d'"] {
        let mut rig = Rig::start_with(|settings| settings.destinations[0].retry = RetryPolicy::default()).await;
        rig.app.stop().await;
        rig.post(body("evt_1", "invoice.paid")).await;
        while rig.number("SELECT COUNT(*) FROM stripe_guard_attempts").await == 0 {
            crate::rig::pause().await;
        }
        rig.sql(damage).await;
        rig.app.start_again().await.unwrap();
        rig.age(60).await;
        let delivery = rig.settled(1).await.remove(0);
        assert_eq!(delivery.state.class().map(stripe_guard_core::DeadLetterClass::as_str), Some("internal"));
        assert_eq!(rig.app.arrivals(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_whose_destination_left_the_configuration_waits_and_is_shown() {
    let mut rig = Rig::start_with(|settings| {
        let mut old = crate::rig::destination("old", "http://127.0.0.1:9/");
        old.retry = RetryPolicy::default();
        settings.destinations.push(old);
    })
    .await;
    rig.post(body("evt_1", "invoice.paid")).await;
    rig.app_has(1).await;
    rig.stop().await;
    let old = rig.settings.destinations.pop().unwrap();
    rig.start_again().await;
    rig.age(3600).await;
    for _ in 0..500 {
        let (_, metrics) = rig.admin("/metrics").await;
        if metrics.contains("stripe_guard_orphaned_deliveries{destination=\"old\"} 1") {
            break;
        }
        crate::rig::pause().await;
    }
    let stats = rig.store().stats().await.unwrap();
    let waiting = stats.destinations.iter().find(|one| one.destination == "old").unwrap();
    assert_eq!(waiting.received + waiting.retryable + waiting.processing, 1);
    rig.stop().await;
    rig.settings.destinations.push(crate::rig::Destination { url: rig.app.url().parse().unwrap(), ..old });
    rig.start_again().await;
    rig.settled(2).await;
}
