//! A process that stands still, and a second one beside it.

use std::time::Duration;

use rustix::process::Signal;
use stripe_guard_sandbox::{App, AppOptions, Behaviour, Reply, Script, Shapes};
use tokio_util::sync::CancellationToken;

use crate::guard::{Folder, LEASE, PATIENCE, pause, program, secret};
use crate::inbox::Inbox;

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_slept_through_its_leases_records_one_success_for_each() {
    let until = CancellationToken::new();
    let held = Behaviour::Held { until: until.clone(), reply: Reply::new(200) };
    let script = Script::always(200).on_attempts(..=1, held);
    let app = App::start(AppOptions { script, ..AppOptions::verifying([secret()]) }).await.unwrap();
    let folder = Folder::for_app(&app);
    let mut guard = folder.serve();
    guard.wait_until_started();
    let stripe = folder.stripe(4);
    for number in 0..8 {
        assert_eq!(stripe.send(Shapes::new(18).event(number).body).await.unwrap(), 200);
    }
    assert!(app.wait_for_requests(8, PATIENCE).await);
    guard.signal(Signal::STOP);
    // The app answers, and nobody reads it until the leases are long over.
    until.cancel();
    tokio::task::spawn_blocking(|| pause(1500 + u64::try_from(LEASE.as_millis()).unwrap())).await.unwrap();
    guard.signal(Signal::CONT);

    let mut inbox = Inbox::beside(folder.path()).await;
    inbox.drained(Duration::from_secs(30)).await;
    inbox.check(&std::collections::HashMap::new(), "after the sleep").await;
    assert_eq!(inbox.number("SELECT count(*) FROM a WHERE outcome = 'delivered'").await, 8);
    assert!(guard.stop().success());
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
