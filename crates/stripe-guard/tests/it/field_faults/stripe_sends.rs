//! What Stripe sends.

use std::path::PathBuf;

use stripe_guard_core::{Intake, Mode, TypeFilter};

use crate::rig::Rig;
use crate::support::{body, operator};

fn vector(name: &str) -> Vec<u8> {
    std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/vectors/events").join(name)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_65_an_escaped_nul_and_a_lone_surrogate_pass_unharmed() {
    let rig = Rig::start().await;
    let lone = br#"{"id":"evt_lone","object":"event","type":"x","data":{"object":{"name":"\ud83d \u0000"}}}"#.to_vec();
    let mut sent = vec![vector("customer.created.nul.json"), lone];
    for event in &sent {
        rig.post(event.clone().into()).await;
    }
    rig.settled(2).await;
    let mut got: Vec<_> = rig.app.requests().iter().map(|one| one.body.clone().unwrap().to_vec()).collect();
    got.sort();
    sent.sort();
    assert_eq!(got, sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_66_unknown_types_versions_and_values_pass_unchanged() {
    let rig = Rig::start_with(|settings| settings.sources[0].api_version = Some("2026-10-28.endive".to_owned())).await;
    let names = [
        "future.unknown_type.json",
        "future.huge_number.json",
        "charge.succeeded.version-2016.json",
        "transfer.created.nulls.json",
        "customer.deleted.json",
        "invoice.paid.json",
    ];
    for name in names {
        rig.post(vector(name).into()).await;
    }
    rig.settled(names.len()).await;
    let requests = rig.app.requests();
    let differing: Vec<_> = requests.iter().filter_map(|one| one.header("stripe-guard-version-differs")).collect();
    assert_eq!(requests.len(), names.len());
    assert_eq!(differing.iter().filter(|version| **version == "2027-03-31.future").count(), 2);
    assert!(differing.contains(&"2016-07-06") && differing.len() == 3, "{differing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_67_a_test_event_at_a_live_source_is_kept_and_not_forwarded() {
    let rig = Rig::start_with(|settings| settings.sources[0].mode = Mode::Live).await;
    rig.post(vector("payment_intent.succeeded.connect-test-in-live.json").into()).await;
    rig.post(vector("payout.failed.json").into()).await;
    rig.settled(1).await;
    let kept = rig.event("evt_3TdGuardConnect0000000101").await;
    assert_eq!((kept.intake, kept.livemode, rig.app.arrivals()), (Intake::Quarantined, Some(false), 1));
    let made = rig.store().deliver(kept.seq, vec!["app".to_owned()], operator(), kept.received_at).await.unwrap();
    assert_eq!(made, 1);
    rig.app_has(2).await;
    assert_eq!(rig.number("SELECT COUNT(*) FROM stripe_guard_audit WHERE action = 'deliver'").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_68_the_connected_account_is_kept_filtered_by_and_passed_on() {
    let rig = Rig::start().await;
    rig.post(vector("account.updated.connect.json").into()).await;
    rig.post(vector("invoice.paid.json").into()).await;
    rig.settled(2).await;
    let of_account = stripe_guard::store::EventFilter {
        account: Some("acct_1TdConnectShop01".to_owned()),
        limit: 10,
        ..Default::default()
    };
    assert_eq!(rig.store().events(&of_account).await.unwrap().len(), 1);
    let mut accounts: Vec<_> =
        rig.app.requests().iter().map(|one| one.header("stripe-guard-account").map(str::to_owned)).collect();
    accounts.sort();
    assert_eq!(accounts, [None, Some("acct_1TdConnectShop01".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_no_destination_takes_is_kept_as_unwanted() {
    let rig =
        Rig::start_with(|settings| settings.destinations[0].types = vec![TypeFilter::parse("invoice.*").unwrap()])
            .await;
    rig.post(body("evt_1", "invoice.paid")).await;
    rig.post(body("evt_2", "charge.succeeded")).await;
    rig.settled(1).await;
    assert_eq!(rig.event("evt_2").await.intake, Intake::Unwanted);
    assert_eq!(rig.app.arrivals(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_body_that_is_no_event_is_kept_as_unreadable() {
    let rig = Rig::start().await;
    rig.post(bytes::Bytes::new()).await;
    rig.post(bytes::Bytes::from_static(b"hello")).await;
    let all = stripe_guard::store::EventFilter { intake: Some(Intake::Unreadable), limit: 10, ..Default::default() };
    assert_eq!(rig.store().events(&all).await.unwrap().len(), 2);
    let (_, metrics) = rig.admin("/metrics").await;
    assert!(metrics.contains("intake=\"unreadable\""));
    assert_eq!(rig.app.arrivals(), 0);
}
