//! Built with the feature `stripe-mock` only: a running one is needed, whose address is in
//! STRIPE_MOCK_URL. The weekly workflow has it.

use bytes::Bytes;
use stripe_guard::clock::SystemClock;
use stripe_guard_core::Digest;

use crate::apps;
use crate::guard::{Guard, stripe_to, to};

/// stripe-mock is made from Stripe's newest API description, so its event shows early how events
/// are going to look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_event_of_the_newest_stripe_mock_goes_through() {
    let address = std::env::var("STRIPE_MOCK_URL").unwrap();
    let list = std::process::Command::new("curl")
        .args(["-sSf", "-H", "Authorization: Bearer sk_test_123", &format!("{address}/v1/events")])
        .output()
        .unwrap();
    assert!(list.status.success(), "{}", String::from_utf8_lossy(&list.stderr));
    let list: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
    let event = &list["data"][0];
    let body = Bytes::from(serde_json::to_vec_pretty(event).unwrap());

    let folder = tempfile::tempdir().unwrap();
    let mut apps = apps().await;
    let guard = Guard::start(folder.path(), apps.iter().map(to).collect(), SystemClock).await;
    assert_eq!(stripe_to(&guard.url()).send(body.clone()).await.unwrap(), 200);
    for app in &mut apps {
        let request = app.take(1).await.remove(0);
        assert_eq!(request.sha256, Digest::of(&body).to_string());
        assert_eq!(
            (request.id.as_deref(), request.verdict.as_str()),
            (event["id"].as_str(), "accepted"),
            "{request:?}"
        );
    }
    guard.stop().await;
}
