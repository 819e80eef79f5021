//! Signatures, secrets and time.

use stripe_guard_core::{SigningSecret, Timestamp, signature};

use crate::rig::Rig;
use crate::support::{OTHER_SECRET, body, secret};

fn other() -> SigningSecret {
    SigningSecret::parse(OTHER_SECRET).unwrap()
}

fn now() -> Timestamp {
    use stripe_guard::clock::Clock as _;
    stripe_guard::clock::SystemClock.now()
}

/// `t` and `v1` of a header of ours.
fn parts(header: &str) -> (String, String) {
    let (t, v1) = header.split_once(',').unwrap();
    (t.to_owned(), v1.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_1_header_spelling() {
    let rig = Rig::start().await;
    let event = body("evt_1", "invoice.paid");
    let (t, v1) = parts(&signature::sign(&[&secret()], now(), &event));
    let spelled = format!(" {t} , x=1,\t{v1},");
    assert_eq!(rig.raw("/webhooks/stripe", &[("stripe-signature", &spelled)], &event).await, 200);
    let only_v0 = format!("{t},{}", v1.replace("v1", "v0"));
    assert_eq!(rig.raw("/webhooks/stripe", &[("stripe-signature", &only_v0)], &event).await, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_2_header_duplicated_or_split_by_proxies() {
    let rig = Rig::start().await;
    let event = body("evt_1", "invoice.paid");
    let (t, v1) = parts(&signature::sign(&[&secret()], now(), &event));
    let split = [("stripe-signature", t.as_str()), ("Stripe-Signature", v1.as_str())];
    assert_eq!(rig.raw("/webhooks/stripe", &split, &event).await, 200);
    let two_times = [("stripe-signature", t.as_str()), ("stripe-signature", v1.as_str()), ("stripe-signature", "t=5")];
    assert_eq!(rig.raw("/webhooks/stripe", &two_times, &event).await, 400);
    refused(&rig, "header_ambiguous", 1).await;
}

/// Waits until the store shows so many refusals for a reason; gives the skew.
async fn refused(rig: &Rig, reason: &str, count: i64) -> Option<i64> {
    let mut refusals = Vec::new();
    for _ in 0..500 {
        refusals = rig.store().refusals().await.unwrap();
        if let Some(found) = refusals.iter().find(|one| one.reason == reason && one.count == count) {
            return found.skew_seconds;
        }
        crate::rig::pause().await;
    }
    panic!("{reason} was not refused {count} times: {refusals:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_4_a_caller_cannot_choose_the_secret() {
    let rig = Rig::start().await;
    let event = body("evt_1", "invoice.paid");
    let header = signature::sign(&[&other()], now(), &event);
    let headers = [
        ("stripe-signature", header.as_str()),
        ("stripe-webhook-secret", OTHER_SECRET),
        ("x-stripe-secret", OTHER_SECRET),
        ("authorization", OTHER_SECRET),
    ];
    let path = format!("/webhooks/stripe?secret={OTHER_SECRET}&webhook_secret={OTHER_SECRET}");
    assert_eq!(rig.raw(&path, &headers, &event).await, 400);
    assert_eq!(rig.number("SELECT COUNT(*) FROM stripe_guard_events").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_5_several_secrets_and_their_rotation() {
    let (old, new) = (secret().labelled("old"), other().labelled("new"));
    let both = vec![old.clone(), new.clone()];
    let mut rig = Rig::start_with(|settings| settings.sources[0].secrets = vec![new.clone()]).await;
    for (id, pair) in [("evt_1", [&old, &new]), ("evt_2", [&new, &old])] {
        let event = body(id, "invoice.paid");
        let header = signature::sign(&pair, now(), &event);
        assert_eq!(rig.raw("/webhooks/stripe", &[("stripe-signature", &header)], &event).await, 200);
        assert_eq!(rig.event(id).await.secret_label.as_deref(), Some("new"));
    }
    rig.settings.sources[0].secrets = both;
    rig.engine().reload(&rig.settings);
    assert_eq!(rig.stripe_with([old.clone()], 1).send(body("evt_3", "x")).await.unwrap(), 200);
    assert_eq!(rig.event("evt_3").await.secret_label.as_deref(), Some("old"));
    rig.settings.sources[0].secrets = vec![new];
    rig.engine().reload(&rig.settings);
    assert_eq!(rig.stripe_with([old], 1).send(body("evt_4", "x")).await.unwrap(), 400, "the old secret is retired");
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_6_a_wrong_secret_is_not_silent() {
    let rig = Rig::start().await;
    let wrong = rig.stripe_with([other()], 1);
    for n in 0..30 {
        assert_eq!(wrong.send(body(&format!("evt_{n}"), "invoice.paid")).await.unwrap(), 400);
    }
    refused(&rig, "no_secret_matches", 30).await;
    let shown = rig.store().refusals().await.unwrap();
    assert!(now().since(shown[0].last_at).as_secs() < 30);
    let (status, metrics) = rig.admin("/metrics").await;
    assert_eq!(status, 200);
    assert!(metrics.contains("answer=\"no_secret_matches\""));
    assert!(!metrics.contains("whsec_"));
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_7_the_time_is_checked_on_both_sides() {
    let rig = Rig::start().await;
    let event = body("evt_1", "invoice.paid");
    for (offset, expected) in [(3600, 400), (-3600, 400), (299, 200), (-299, 200)] {
        let time = Timestamp::from_secs(now().as_secs() + offset);
        let header = signature::sign(&[&secret()], time, &event);
        assert_eq!(rig.raw("/webhooks/stripe", &[("stripe-signature", &header)], &event).await, expected, "{offset}");
    }
    refused(&rig, "outside_tolerance", 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_8_a_wrong_clock_is_told_from_a_wrong_secret() {
    let rig = Rig::start().await;
    rig.clock.set(360);
    for n in 0..20 {
        assert_eq!(rig.stripe().send(body(&format!("evt_{n}"), "invoice.paid")).await.unwrap(), 400);
    }
    let skew = refused(&rig, "outside_tolerance", 20).await.unwrap();
    assert!((359..=362).contains(&skew), "{skew}");
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_9_age_is_judged_at_the_door_only() {
    let mut rig = Rig::start().await;
    rig.app.stop().await;
    for n in 0..100 {
        rig.post(body(&format!("evt_{n}"), "invoice.paid")).await;
    }
    rig.age(2 * 3600).await;
    rig.app.start_again().await.unwrap();
    let deliveries = rig.settled(100).await;
    assert!(deliveries.iter().all(|one| one.state.name() == "processed"));
    assert!(rig.app.requests().iter().all(|request| request.is_verified()));
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_10_every_attempt_carries_a_fresh_signature_over_the_same_bytes() {
    let mut rig = Rig::start().await;
    rig.app.stop().await;
    let event = body("evt_1", "invoice.paid");
    rig.post(event.clone()).await;
    // Twenty minutes, and the app's tolerance is five.
    rig.age(20 * 60).await;
    rig.app.start_again().await.unwrap();
    rig.settled(1).await;
    let request = &rig.app.requests()[0];
    assert!(request.is_verified(), "{:?}", request.verdict);
    assert_eq!(request.body.as_ref(), Some(&event));
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_11_hostile_times_and_headers_are_refused_at_once() {
    let rig = Rig::start().await;
    let event = body("evt_1", "invoice.paid");
    let (_, v1) = parts(&signature::sign(&[&secret()], now(), &event));
    for t in ["abc", "-1", "99999999999999999999999", "", "1e9", "\u{661}", "+1"] {
        let header = format!("t={t},{v1}");
        assert_eq!(rig.raw("/webhooks/stripe", &[("stripe-signature", &header)], &event).await, 400, "{t}");
    }
    assert_eq!(rig.raw("/webhooks/stripe", &[("stripe-signature", &v1)], &event).await, 400);
    assert_eq!(rig.raw("/webhooks/stripe", &[], &event).await, 400);
    let long = format!("t=1,{}", "v1=00,".repeat(11_000));
    let status = rig.raw("/webhooks/stripe", &[("stripe-signature", &long)], &event).await;
    assert!([400, 431].contains(&status), "{status}");
    rig.post(event).await;
}
