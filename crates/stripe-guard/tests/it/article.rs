//! What the design article's code gets wrong, each as a test that is named by its row. Rows that
//! lie in the core, in the contract or in a field fault are tested there, under the same names.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};
use stripe_guard_core::{DeadLetterClass, Digest, RetryPolicy, State};
use stripe_guard_sandbox::{Arrival, Behaviour};

use crate::rig::{Rig, pause};
use crate::support::body;

const HOUR: i64 = 3600;

async fn attempts_of(rig: &Rig, key: &str, count: u32) -> stripe_guard::store::DeliveryRecord {
    for _ in 0..1000 {
        let delivery = rig.store().deliveries_of(key).await.unwrap().remove(0);
        if delivery.attempts == count && delivery.state.name() != "processing" {
            return delivery;
        }
        pause().await;
    }
    panic!("{key} was not tried {count} times");
}

#[tokio::test(flavor = "multi_thread")]
async fn article_s2_an_event_is_tried_for_three_days() {
    let rig = Rig::start_with(|settings| settings.destinations[0].retry = RetryPolicy::default()).await;
    rig.app.set_behaviour(500);
    rig.post(body("evt_1", "invoice.paid")).await;
    attempts_of(&rig, "evt_1", 1).await;
    rig.age(71 * HOUR).await;
    let delivery = attempts_of(&rig, "evt_1", 2).await;
    assert_eq!(delivery.state.name(), "retryable");
    rig.age(HOUR).await;
    let delivery = attempts_of(&rig, "evt_1", 3).await;
    assert_eq!(delivery.state, State::DeadLetter { class: DeadLetterClass::Exhausted });
}

#[tokio::test(flavor = "multi_thread")]
async fn article_s3_the_first_write_holds_all_that_a_later_attempt_needs() {
    let mut rig = Rig::start().await;
    rig.app.stop().await;
    let sent = body("evt_1", "invoice.paid");
    rig.post(sent.clone()).await;
    rig.stop().await;
    let whole = "SELECT COUNT(*) FROM stripe_guard_events e JOIN stripe_guard_bodies b ON b.seq = e.seq \
        JOIN stripe_guard_deliveries d ON d.event_seq = e.seq WHERE e.source = 'stripe' AND e.key = 'evt_1' AND e.event_id = 'evt_1' \
        AND e.type = 'invoice.paid' AND e.form = 'snapshot' AND e.created = 1796083200000 AND e.livemode = 0 AND e.object_id = 'in_1' \
        AND e.received_at > 0 AND e.secret_label IS NOT NULL AND d.destination = 'app' AND d.due_at > 0 AND d.round_started_at > 0";
    assert_eq!(rig.number(whole).await, 1);
    assert_eq!(
        rig.number(&format!("SELECT COUNT(*) FROM stripe_guard_events WHERE digest = x'{}'", Digest::of(&sent))).await,
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn article_s4_no_row_can_be_in_a_state_that_nothing_leaves() {
    let mut rig = Rig::start_with(|settings| settings.destinations[0].retry = RetryPolicy::default()).await;
    rig.app.stop().await;
    rig.post(body("evt_1", "invoice.paid")).await;
    attempts_of(&rig, "evt_1", 1).await;
    rig.stop().await;
    let mut connection = rig.connection().await;
    for limbo in [
        "state = 'pending'",
        "state = NULL",
        "due_at = NULL",
        "state = 'processing', due_at = NULL",
        "state = 'processing', owner = NULL",
        "state = 'processed'",
        "state = 'dead_letter', due_at = NULL",
        "state = 'dead_letter', due_at = NULL, class = 'unknown'",
        "state = 'received', due_at = NULL",
        "parked = 1",
        "fence = -1",
        "lost = 6",
    ] {
        let update = format!("UPDATE stripe_guard_deliveries SET {limbo}");
        assert!(
            connection.execute(AssertSqlSafe(update)).await.is_err(),
            "the schema lets a delivery be in limbo: {limbo}"
        );
    }
    connection.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn article_4_what_is_half_written_is_seen_by_nobody_and_what_is_written_by_all_at_once() {
    const ALL: &str = "SELECT (SELECT COUNT(*) FROM stripe_guard_events) + (SELECT COUNT(*) FROM stripe_guard_bodies) \
        + (SELECT COUNT(*) FROM stripe_guard_deliveries)";
    let mut rig = Rig::start().await;
    rig.app.set_behaviour(500);
    // Event and body are in when the delivery fails.
    rig.sql(
        "CREATE TRIGGER half_way BEFORE INSERT ON stripe_guard_deliveries BEGIN SELECT RAISE(ABORT, 'half-way'); END",
    )
    .await;
    assert_eq!(rig.stripe().send(body("evt_1", "invoice.paid")).await.unwrap(), 503);
    assert_eq!(rig.number(ALL).await, 0);
    rig.stop().await;
    assert_eq!(rig.number(ALL).await, 0, "nothing was left for a stop to commit");
    rig.start_again().await;
    assert_eq!(rig.number(ALL).await, 0);
    rig.sql("DROP TRIGGER half_way").await;
    rig.post(body("evt_1", "invoice.paid")).await;
    assert_eq!(rig.number(ALL).await, 3);
    rig.stop().await;
    assert_eq!(rig.number(ALL).await, 3);
}

/// An app that always fails in this way leaves a dead letter with an error.
async fn is_seen_in_the_end(behaviour: impl Into<Behaviour>) {
    let rig = Rig::start_with(|settings| {
        let app = &mut settings.destinations[0];
        app.retry =
            RetryPolicy { cap: Duration::from_millis(10), floor: Duration::from_millis(10), ..RetryPolicy::article() };
        (app.timeout, app.first_byte_timeout) = (Duration::from_millis(150), Duration::from_millis(150));
    })
    .await;
    rig.app.set_behaviour(behaviour.into());
    rig.post(body("evt_1", "invoice.paid")).await;
    let delivery = rig.settled(1).await.remove(0);
    assert_eq!((delivery.state.name(), delivery.attempts), ("dead_letter", 5));
    assert!(delivery.last_error.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn article_54_an_answer_that_is_no_success_ends_where_a_person_sees_it() {
    is_seen_in_the_end(500).await;
    is_seen_in_the_end(301).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn article_55_no_answer_at_all_ends_where_a_person_sees_it() {
    is_seen_in_the_end(Behaviour::Hang).await;
    is_seen_in_the_end(Behaviour::Cut).await;
}

/// The app's only request, when what was sent first reaches it after three days less an hour: beyond
/// any tolerance, within the budget.
async fn request_after_days(sent: Bytes) -> Arc<Arrival> {
    let mut rig = Rig::start_with(|settings| settings.destinations[0].retry = RetryPolicy::default()).await;
    rig.app.stop().await;
    rig.post(sent).await;
    attempts_of(&rig, "evt_1", 1).await;
    rig.app.start_again().await.unwrap();
    rig.age(71 * HOUR).await;
    rig.settled(1).await;
    rig.app.requests().remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn article_59_a_late_attempt_has_the_first_bytes() {
    let sent = body("evt_1", "invoice.paid");
    assert_eq!(request_after_days(sent.clone()).await.body, Some(sent));
}

#[tokio::test(flavor = "multi_thread")]
async fn article_60_a_late_attempt_has_a_signature_of_its_own() {
    let request = request_after_days(body("evt_1", "invoice.paid")).await;
    assert!(request.is_verified(), "{:?}", request.verdict);
}
