//! What the pretend Stripe does over a whole run.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{LIMIT, app, new, old, sender_to};
use stripe_guard_sandbox::{
    App, AppOptions, Behaviour, Ledger, Plan, RetrySchedule, Roll, Script, Shapes, Traffic, Why,
};
use stripe_guard_sandbox::{Sender, Step};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const EVENTS: u64 = 200;

fn traffic(app: &App, connections: usize, plan: Plan) -> Traffic {
    Traffic::new(sender_to(app, connections), Shapes::new(plan.seed), plan)
}

async fn run(traffic: Traffic) -> (Arc<Traffic>, stripe_guard_sandbox::Report) {
    let traffic = Arc::new(traffic);
    let report = tokio::time::timeout(LIMIT, traffic.run(CancellationToken::new())).await.unwrap();
    (traffic, report)
}

#[tokio::test]
async fn over_one_connection_the_order_is_the_plans() {
    let plan = Plan::untidy(11, EVENTS);
    let expected: Vec<String> = plan
        .steps()
        .filter_map(|step| match step {
            Step::Send { number, .. } => Some(Shapes::new(11).event(number).id),
            _ => None,
        })
        .collect();
    for _ in 0..2 {
        let app = app().await;
        let (_, report) = run(traffic(&app, 1, plan)).await;
        let ids: Vec<String> = app.requests().iter().filter_map(|arrival| arrival.event_id.clone()).collect();
        assert_eq!(ids, expected);
        assert_eq!((report.sent, report.acknowledged), (expected.len() as u64, 200));
    }
}

#[tokio::test]
async fn duplicates_have_the_same_bytes_and_resends_others() {
    let app = app().await;
    let plan = Plan::untidy(12, EVENTS);
    run(traffic(&app, 1, plan)).await;
    let mut digests: HashMap<String, Vec<_>> = HashMap::new();
    for arrival in app.requests() {
        digests.entry(arrival.event_id.clone().unwrap()).or_default().push(arrival.digest);
    }
    let mut seen: HashMap<u64, usize> = HashMap::new();
    for step in plan.steps() {
        let Step::Send { number, why } = step else { continue };
        let event = Shapes::new(12).event(number);
        let place = seen.entry(number).or_default();
        let digest = digests[&event.id][*place];
        *place += 1;
        let resent_bytes = why == Why::Resend && !event.shape.event_type().starts_with('v');
        assert_eq!(digest != stripe_guard_core::Digest::of(&event.body), resent_bytes);
    }
}

#[tokio::test]
async fn what_is_not_acknowledged_is_sent_again_until_it_is() {
    let app = app().await;
    app.set_behaviour(Script::always(200).on_attempts(..=1, 500).on_attempts(2..=2, Behaviour::Cut));
    let (traffic, report) =
        run(traffic(&app, 4, Plan::tidy(13, 50)).retries(RetrySchedule::live().faster(1_000_000))).await;
    assert_eq!((report.sent, report.acknowledged, report.retried, report.given_up), (150, 50, 100, 0));
    assert_eq!((report.broken, report.statuses), (50, [(200, 50), (500, 50)].into()));
    for number in 0..50 {
        let id = Shapes::new(13).event(number).id;
        assert_eq!((traffic.ledger().successes_of(&id), app.arrivals_of(&id), app.successes_of(&id)), (1, 3, 1));
    }
}

#[tokio::test]
async fn retries_end_with_the_schedule() {
    let app = app().await;
    app.set_behaviour(500);
    let schedule = RetrySchedule::sandbox().faster(1_000_000);
    let (_, report) = run(traffic(&app, 4, Plan::tidy(14, 10)).retries(schedule)).await;
    assert_eq!((report.sent, report.acknowledged, report.given_up), (40, 0, 10));
}

#[tokio::test]
async fn an_app_that_comes_back_gets_everything() {
    let mut app = app().await;
    let sender = sender_to(&app, 4);
    app.stop().await;
    let plan = Plan::untidy(15, 60);
    let again = Traffic::new(sender, Shapes::new(15), plan).retries(RetrySchedule::every(Duration::from_millis(5)));
    let running = tokio::spawn(run(again));
    tokio::time::timeout(Duration::from_millis(50), std::future::pending::<()>()).await.unwrap_err();
    app.start_again().await.unwrap();
    let (_, report) = running.await.unwrap();
    assert!(report.unreachable > 0);
    assert_eq!(report.acknowledged, 60);
    assert_eq!(app.ledger().events(), 60);
}

#[tokio::test]
async fn a_secret_rolled_in_the_middle_is_never_refused_by_an_app_that_has_both() {
    let app = App::start(AppOptions::verifying([new(), old()])).await.unwrap();
    let plan = Plan { roll: Some(Roll { both_from: 32, new_from: 64 }), ..Plan::tidy(16, 96) };
    let (_, report) = run(traffic(&app, 1, plan).rolling_to(new())).await;
    assert_eq!(report.statuses, [(200, 96)].into());
    let signatures = |at: usize| {
        let arrival = &app.requests()[at];
        (arrival.verdict.clone().unwrap().unwrap(), arrival.header("stripe-signature").unwrap().matches("v1=").count())
    };
    assert_eq!(signatures(31), ("old".into(), 1));
    assert_eq!(signatures(32), ("new".into(), 2));
    assert_eq!(signatures(95), ("new".into(), 1));
}

#[tokio::test]
async fn a_rate_is_kept() {
    let app = app().await;
    let start = Instant::now();
    let (_, report) = run(traffic(&app, 8, Plan::tidy(17, 41)).rate(200)).await;
    assert!(start.elapsed() >= Duration::from_millis(195), "{report}");
    assert_eq!(report.acknowledged, 41);
}

#[tokio::test]
async fn many_connections_are_used_at_once() {
    let app = app().await;
    app.set_behaviour(Behaviour::slow(Duration::from_millis(20), 200));
    run(traffic(&app, 6, Plan::tidy(18, 60))).await;
    assert_eq!((app.connections(), app.max_in_flight()), (6, 6));
}

#[tokio::test]
async fn a_stop_ends_the_run_even_when_nobody_answers() {
    let app = app().await;
    app.set_behaviour(Behaviour::Hang);
    let traffic = Arc::new(traffic(&app, 3, Plan::tidy(19, u64::MAX)));
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (traffic, stop) = (Arc::clone(&traffic), stop.clone());
        async move { traffic.run(stop).await }
    });
    assert!(app.wait_for_requests(3, LIMIT).await);
    stop.cancel();
    let report = tokio::time::timeout(LIMIT, running).await.unwrap().unwrap();
    assert_eq!((report.sent, report.acknowledged), (3, 0));
}

#[tokio::test]
async fn the_ledger_file_says_what_was_answered() {
    let path = std::env::temp_dir().join(format!("stripe-guard-traffic-ledger-{}.txt", std::process::id()));
    let app = app().await;
    app.set_behaviour(Script::always(200).on_attempts(..=1, 503));
    let sender = Sender::new(&app.url(), [old()], 2).unwrap();
    let traffic = Traffic::new(sender, Shapes::new(20), Plan::tidy(20, 10))
        .retries(RetrySchedule::every(Duration::from_millis(1)))
        .ledger_in(Ledger::appending_to(&path).unwrap());
    run(traffic).await;
    let read = Ledger::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(read.len(), 10);
    assert!(read.values().all(|statuses| statuses[..] == [503, 200]));
}
