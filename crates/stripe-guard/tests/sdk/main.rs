//! Apps that use Stripe's official SDKs, behind a running engine: their code stays as it is.
//!
//! The secret is being rolled in all of it: Stripe and the guard sign with both, the Python app
//! still knows the old one only and the Node app knows the new one only.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod app;
mod guard;
#[cfg(feature = "stripe-mock")]
mod stripe_mock;
mod vectors;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use stripe_guard::clock::{Clock as _, SystemClock};
use stripe_guard_core::{Outcome, State, Timestamp};

use crate::app::{App, Request, Sdk};
use crate::guard::{Behind, Guard, NEW, OLD, down, stripe_to, to};
use crate::vectors::Vector;

/// How many bodies there are.
const BODIES: usize = 60;
/// How many events they are: one is there twice, and one comes in two envelopes.
const EVENTS: usize = 58;
/// As long as Stripe itself would try.
const THREE_DAYS: Duration = Duration::from_hours(72);

async fn apps() -> [App; 2] {
    [App::start(Sdk::Python, OLD).await, App::start(Sdk::Node, NEW).await]
}

/// Of each event, the body that comes first.
fn first_arrivals(vectors: &[Vector]) -> HashMap<&str, &Vector> {
    vectors.iter().rev().map(|vector| (vector.id.as_str(), vector)).collect()
}

/// Every event came once, byte for byte as it arrived first, and the SDK has read it right.
#[track_caller]
fn check_accepted(sdk: Sdk, requests: &[Request], vectors: &[Vector]) {
    let mut expected = first_arrivals(vectors);
    for request in requests {
        let event = request.event.as_deref().unwrap();
        let vector = expected.remove(event).unwrap_or_else(|| panic!("{event} came twice to the {} app", sdk.name()));
        let shown = format!("{} in the {} app: {request:?}", vector.file, sdk.name());
        assert_eq!(request.sha256, vector.sha256, "{shown}");
        assert_eq!(request.parser, sdk.parser(vector.form()), "{shown}");
        // Neither SDK has a reason of its own to refuse any of these bodies.
        assert_eq!(request.verdict, "accepted", "{shown}");
        assert_eq!(request.id.as_ref(), Some(&vector.id), "{shown}");
        assert_eq!(request.event_type.as_ref(), Some(&vector.event_type), "{shown}");
    }
    assert!(expected.is_empty(), "did not come to the {} app: {:?}", sdk.name(), expected.keys());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_body_reaches_both_official_sdks_unchanged_and_is_accepted() {
    let (folder, vectors) = (tempfile::tempdir().unwrap(), vectors::all());
    assert_eq!((vectors.len(), first_arrivals(&vectors).len()), (BODIES, EVENTS));
    let mut apps = apps().await;
    let guard = Guard::start(folder.path(), apps.iter().map(to).collect(), SystemClock).await;
    let stripe = stripe_to(&guard.url());
    for vector in &vectors {
        assert_eq!(stripe.send(vector.body.clone()).await.unwrap(), 200, "{}", vector.file);
    }
    for app in &mut apps {
        check_accepted(app.sdk, &app.take(EVENTS).await, &vectors);
    }

    let deliveries = guard.wait_until_processed(EVENTS * apps.len()).await;
    let store = guard.store();
    for delivery in &deliveries {
        let attempts = store.attempts(delivery.id).await.unwrap();
        let outcomes: Vec<_> = attempts.iter().map(|attempt| (attempt.outcome, attempt.status)).collect();
        assert_eq!(outcomes, [(Outcome::Delivered, Some(200))], "{} to {}", delivery.key, delivery.destination);
    }
    let mut copies = 0;
    for (id, vector) in first_arrivals(&vectors) {
        let events = store.events_by_key(id).await.unwrap();
        let [event] = events.as_slice() else { panic!("{id} is {} events", events.len()) };
        assert_eq!(event.digest.to_string(), vector.sha256, "{id}");
        assert_eq!(store.body(event.seq).await.unwrap().as_deref(), Some(&vector.body[..]), "{id}");
        assert_eq!(event.differing_copies, event.copies, "{id}");
        copies += event.copies;
    }
    assert_eq!((store.stats().await.unwrap().last_seq, copies), (58, 2));
    guard.stop().await;
    assert!(apps.iter().all(App::is_quiet), "something came twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_three_days_the_sdks_accept_what_is_delivered_and_refuse_the_header_it_came_with() {
    let folder = tempfile::tempdir().unwrap();
    // Reversed, so that of what comes twice the other body is the first.
    let vectors: Vec<_> = vectors::all().into_iter().rev().collect();
    let mut apps = apps().await;

    // Three days ago, while the apps were down.
    let guard = Guard::start(folder.path(), Sdk::BOTH.map(|sdk| down(sdk.name())).into(), Behind(THREE_DAYS)).await;
    let stripe = stripe_to(&guard.url()).skewed(-i64::try_from(THREE_DAYS.as_secs()).unwrap());
    let mut original_headers = Vec::new();
    for vector in &vectors {
        let header = stripe.sign(&vector.body);
        assert_eq!(stripe.send_signed(vector.body.clone(), &header).await.unwrap(), 200, "{}", vector.file);
        original_headers.push(header);
    }
    let failed = |state: &State| matches!(state, State::Retryable { due_at } if is_three_days_old(*due_at));
    let deliveries = guard.wait_for_deliveries(EVENTS * apps.len(), |delivery| failed(&delivery.state)).await;
    for delivery in deliveries {
        assert!(is_three_days_old(delivery.round_started_at), "{delivery:?}");
    }
    guard.stop().await;

    // Today they are up.
    let guard = Guard::start(folder.path(), apps.iter().map(to).collect(), SystemClock).await;
    for app in &mut apps {
        let requests = app.take(EVENTS).await;
        check_accepted(app.sdk, &requests, &vectors);
        for request in requests {
            let received_at = request.received_at.as_deref().unwrap().parse().unwrap();
            assert!(is_three_days_old(received_at) && request.attempt.as_deref() != Some("1"), "{request:?}");
        }
    }
    guard.wait_until_processed(EVENTS * apps.len()).await;
    guard.stop().await;

    // The control: the same bodies to the same apps, under the headers that Stripe had sent.
    for app in &mut apps {
        let direct = stripe_to(app.url.as_str());
        for (vector, header) in vectors.iter().zip(&original_headers) {
            assert_eq!(direct.send_signed(vector.body.clone(), header).await.unwrap(), 400, "{}", vector.file);
            let refused = app.take(1).await.remove(0);
            let said = refused.error.as_deref().unwrap_or_default();
            assert!(said.contains("Timestamp outside the tolerance zone"), "{}: {refused:?}", vector.file);
        }
    }
}

fn is_three_days_old(at: Timestamp) -> bool {
    // What was drawn a few seconds ahead then is a few seconds short of it now.
    SystemClock.now().since(at) + Duration::from_mins(10) > THREE_DAYS
}

/// What the guard must not lose is one thing, what an app then reads is another. Here is what the
/// SDKs make of the odd ones; none of it concerns the bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_bodies_are_read_by_the_sdks_each_in_its_way() {
    const ODD: [(&str, &str, [&str; 2]); 7] = [
        // 1.0e+400 is legal JSON; neither language has such a number, and neither SDK minds.
        ("future.huge_number.json", "huge", ["inf", "Infinity"]),
        // 2^53 + 1: a double does not have it.
        ("future.unknown_type.json", "distance", ["9007199254740993", "9007199254740992"]),
        ("customer.created.nul.json", "name", ["Nul\0Inside"; 2]),
        // Before 2017-05-25 a request was a text.
        ("charge.succeeded.version-2016.json", "request", ["req_TdGuardOldReq1"; 2]),
        ("charge.succeeded.version-2016.json", "api_version", ["2016-07-06"; 2]),
        ("transfer.created.nulls.json", "api_version", ["null"; 2]),
        ("transfer.created.nulls.json", "request", ["null"; 2]),
    ];
    let folder = tempfile::tempdir().unwrap();
    let vectors: Vec<_> =
        vectors::all().into_iter().filter(|vector| ODD.iter().any(|(file, ..)| *file == vector.file)).collect();
    let mut apps = apps().await;
    let guard = Guard::start(folder.path(), apps.iter().map(to).collect(), SystemClock).await;
    let stripe = stripe_to(&guard.url());
    for vector in &vectors {
        assert_eq!(stripe.send(vector.body.clone()).await.unwrap(), 200, "{}", vector.file);
    }
    for (at, app) in apps.iter_mut().enumerate() {
        let requests = app.take(vectors.len()).await;
        check_accepted(app.sdk, &requests, &vectors);
        let read: BTreeMap<_, _> = requests.into_iter().map(|request| (request.sha256, request.read)).collect();
        for (file, field, expected) in ODD {
            let vector = vectors.iter().find(|vector| vector.file == file).unwrap();
            assert_eq!(read[&vector.sha256][field], expected[at], "{field} of {file} in the {} app", app.sdk.name());
        }
    }
    guard.stop().await;
}
