//! A process that stands still, and a second one beside it.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use stripe_guard::clock::{Clock as _, SystemClock};
use stripe_guard::settings::TABLE_PREFIX;
use stripe_guard::store::{Claim, ClaimRequest, Settled, Settlement, SqliteFile, Watermark, open_sqlite};
use stripe_guard_core::{Outcome, RetryPolicy, Situation};
use stripe_guard_sandbox::{App, AppOptions, Behaviour, Reply, Script, Shapes};
use tokio_util::sync::CancellationToken;

use crate::guard::{Folder, Guard, LEASE, PATIENCE, pause, program, secret};
use crate::inbox::Inbox;

const EVENTS: u32 = 8;
const ALL: i64 = EVENTS as i64;

/// Stops the process while the app holds a request for each event, and lets the app answer.
async fn suspended() -> (App, Folder, Guard) {
    let until = CancellationToken::new();
    let held = Behaviour::Held { until: until.clone(), reply: Reply::new(200) };
    let script = Script::always(200).on_attempts(..=1, held);
    let app = App::start(AppOptions { script, ..AppOptions::verifying([secret()]) }).await.unwrap();
    let folder = Folder::for_app(&app);
    let mut guard = folder.serve();
    guard.wait_until_started();
    let stripe = folder.stripe(4);
    for number in 0..EVENTS {
        assert_eq!(stripe.send(Shapes::new(18).event(number.into()).body).await.unwrap(), 200);
    }
    assert!(app.wait_for_requests(EVENTS.into(), PATIENCE).await);
    guard.signal(Signal::STOP);
    let mut inbox = Inbox::beside(folder.path()).await;
    while !inbox.can_be_written().await {
        // It was stopped with the write lock in its hands, and must put it down.
        guard.signal(Signal::CONT);
        SystemClock.sleep(Duration::from_millis(5)).await;
        guard.signal(Signal::STOP);
    }
    until.cancel();
    // Until the leases are over.
    let nap = u64::try_from(LEASE.as_millis()).unwrap() + 500;
    tokio::task::spawn_blocking(move || pause(nap)).await.unwrap();
    (app, folder, guard)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_slept_through_its_leases_records_one_success_for_each() {
    let (_app, folder, guard) = suspended().await;
    guard.signal(Signal::CONT);
    let mut inbox = Inbox::beside(folder.path()).await;
    inbox.drained(Duration::from_secs(30)).await;
    inbox.check(&HashMap::new(), "after the sleep").await;
    assert_eq!(inbox.number("SELECT count(*) FROM a WHERE outcome = 'delivered'").await, ALL);
    assert!(guard.stop().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_slept_while_another_took_over_comes_late_and_changes_nothing() {
    let (_app, folder, guard) = suspended().await;
    take_over(folder.path()).await;
    guard.signal(Signal::CONT);
    let mut inbox = Inbox::beside(folder.path()).await;
    let late = "SELECT count(*) FROM a WHERE outcome = 'late' AND fence = 1";
    let until = SystemClock.now().plus(Duration::from_secs(10));
    while inbox.number(late).await < ALL {
        assert!(SystemClock.now() < until, "{} of {EVENTS} answers came late", inbox.number(late).await);
        SystemClock.sleep(Duration::from_millis(50)).await;
    }
    inbox.check(&HashMap::new(), "after the other").await;
    assert_eq!(inbox.number("SELECT count(*) FROM d WHERE state = 'processed' AND fence = 2").await, ALL);
    assert_eq!(inbox.number("SELECT count(*) FROM a WHERE outcome = 'delivered' AND fence = 2").await, ALL);
    assert!(guard.stop().success());
}

/// Does what another process would do: claims what is due, and delivers it.
async fn take_over(folder: &Path) {
    let path = folder.join("inbox.db");
    let file = SqliteFile { path, table_prefix: TABLE_PREFIX.to_owned(), create: false, exclusive: false };
    let opened = open_sqlite(&file).await.unwrap();
    let request = ClaimRequest {
        destination: "app".to_owned(),
        owner: "another".to_owned(),
        now: SystemClock.now(),
        lease: LEASE,
        limit: EVENTS,
        from: Watermark::START,
        odd_to_retries: false,
        suspects: false,
    };
    let claims = opened.store.claim(request).await.unwrap();
    let settlements: Vec<_> = claims.iter().map(delivered).collect();
    assert_eq!(opened.store.settle(settlements).await.unwrap(), vec![Settled::Done; 8]);
    opened.store.close().await;
}

fn delivered(claim: &Claim) -> Settlement {
    let now = SystemClock.now();
    let situation = Situation { now, held: Duration::ZERO, counted: true, retry_after: None };
    Settlement {
        id: claim.id(),
        fence: claim.fence(),
        next: claim.progress().after(Outcome::Delivered, &RetryPolicy::default(), &situation),
        round: claim.progress().round,
        number: claim.progress().attempts + 1,
        started_at: now,
        duration: Duration::ZERO,
        outcome: Outcome::Delivered,
        status: Some(200),
        error: None,
        excerpt: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_serve_on_one_file_says_why_not_and_harms_nothing() {
    let app = App::start(AppOptions::verifying([secret()])).await.unwrap();
    let (folder, other) = (Folder::for_app(&app), Folder::for_app(&app));
    let mut first = folder.serve();
    first.wait_until_started();
    let mut second = other.spawn(program(&other.command_line(folder.path())));
    assert_eq!(second.wait().code(), Some(1));
    assert!(second.log_tail().contains("another stripe-guard serves"), "{}", second.log_tail());
    assert_eq!(folder.stripe(1).send(Shapes::new(1).event(0).body).await.unwrap(), 200);
    assert!(first.stop().success());
}
