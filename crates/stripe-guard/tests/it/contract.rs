//! What every store promises, written once against `Arc<dyn Store>` and run on each database.

use std::sync::Arc;
use std::time::Duration;

use stripe_guard::store::{DeliveryFilter, EventFilter, Ingested, Operated, RefusalRecord, Settled, Store, Watermark};
use stripe_guard_core::{Budget, DeadLetterClass, DeliveryId, Intake, Outcome, RetryPolicy, State, Timestamp};

use crate::support::{LEASE, T0, arrival, arrival_for, body, inbound, operator, request, settlement, settlement_by};

macro_rules! on_every_database {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                let inbox = crate::support::sqlite().await;
                super::$test(std::sync::Arc::clone(&inbox.store)).await;
            })+
        }

        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                let inbox = crate::support::postgres().await;
                super::$test(std::sync::Arc::clone(&inbox.store)).await;
            })+
        }
    };
}

on_every_database! {
    what_is_taken_in_comes_out_byte_for_byte,
    a_second_arrival_is_a_duplicate_and_is_recorded_beside_the_first,
    two_equal_keys_in_one_batch_are_one_event,
    copies_beyond_twenty_are_counted,
    through_two_sources_an_app_gets_the_first_arrival_once,
    an_event_goes_to_every_destination_that_takes_it,
    a_claim_takes_what_is_due_and_no_more_than_asked,
    retries_and_fresh_deliveries_share_a_claim,
    retries_and_fresh_deliveries_take_turns_at_a_single_slot,
    what_was_pruned_is_not_sent_again,
    no_delivery_is_claimed_twice_at_once,
    an_expired_lease_fences_the_old_worker,
    two_holds_on_one_delivery_in_one_batch_are_told_apart,
    late_is_done_as_long_as_nobody_claimed_it_again,
    a_released_claim_is_due_at_once_and_counts_nothing,
    five_lost_leases_in_a_row_are_a_crash,
    a_settled_outcome_resets_lost_leases,
    a_suspect_is_claimed_alone,
    a_watermark_hides_nothing_that_is_due_after_it,
    failures_are_counted_until_the_budget_is_over,
    a_replay_opens_a_new_round_and_keeps_history,
    an_open_delivery_is_not_replayed_but_brought_forward,
    a_discard_takes_what_no_worker_holds,
    an_unwanted_event_is_kept_and_can_be_let_go,
    an_unreadable_body_is_kept_under_its_digest,
    old_bodies_are_pruned_and_identities_stay,
    pruning_walks_past_bodies_that_must_stay,
    lists_are_pages_in_arrival_order,
    counts_and_ages_are_told_by_destination,
    refusals_add_up,
}

type Shared = Arc<dyn Store>;

async fn take(store: &Shared, n: u32, at: Timestamp) {
    store.ingest(Arc::new(vec![arrival(n, at)])).await.unwrap();
}

async fn state_of(store: &Shared, id: DeliveryId) -> State {
    store.delivery(id).await.unwrap().unwrap().state
}

async fn outcomes_of(store: &Shared, id: DeliveryId) -> Vec<Outcome> {
    store.attempts(id).await.unwrap().iter().map(|attempt| attempt.outcome).collect()
}

async fn what_is_taken_in_comes_out_byte_for_byte(store: Shared) {
    let odd = inbound(
        "stripe",
        (&b"\xEF\xBB\xBF{\"id\":\"evt_odd\",\"type\":\"x\",\"nul\":\"\\u0000\",\"raw\":\"\xFF\"}\n"[..]).into(),
        T0,
    );
    let digest = *odd.digest();
    let bytes = odd.body().to_vec();
    let arrival = stripe_guard::store::Arrival {
        inbound: odd,
        intake: Intake::Accepted,
        destinations: Arc::new(["app".to_owned()]),
    };
    let answers = store.ingest(Arc::new(vec![arrival])).await.unwrap();
    let [Ingested::New { seq }] = answers[..] else { panic!("{answers:?}") };
    assert_eq!(store.body(seq).await.unwrap(), Some(bytes.clone()));
    let claim = store.claim(request(T0, 1)).await.unwrap().remove(0);
    assert_eq!(claim.intact_body().unwrap().as_ref(), bytes);
    let event = claim.event().unwrap();
    assert_eq!((event.seq, event.key.as_str(), event.digest, event.received_at), (seq, "evt_odd", digest, T0));
}

async fn a_second_arrival_is_a_duplicate_and_is_recorded_beside_the_first(store: Shared) {
    take(&store, 1, T0).await;
    let other = inbound("stripe", body("evt_1", "invoice.paid ").into_iter().chain(*b" ").collect(), T0);
    let other = stripe_guard::store::Arrival { inbound: other, ..arrival(1, T0) };
    let answers = store.ingest(Arc::new(vec![arrival(1, T0.plus(LEASE)), other])).await.unwrap();
    let event = store.events_by_key("evt_1").await.unwrap().remove(0);
    assert_eq!(answers, [Ingested::Duplicate { seq: event.seq }; 2]);
    assert_eq!((event.copies, event.differing_copies), (2, 1), "other bytes under one key leave a mark");
    let copies = store.copies(event.seq).await.unwrap();
    assert_eq!(copies[0].received_at, T0.plus(LEASE));
    assert_ne!(copies[1].digest, event.digest);
    assert_eq!(store.deliveries_of("evt_1").await.unwrap().len(), 1);
}

async fn two_equal_keys_in_one_batch_are_one_event(store: Shared) {
    let answers = store.ingest(Arc::new(vec![arrival(1, T0), arrival(2, T0), arrival(1, T0)])).await.unwrap();
    assert!(
        matches!(answers[..], [Ingested::New { seq: first }, Ingested::New { .. }, Ingested::Duplicate { seq: again }] if first == again),
        "{answers:?}"
    );
    assert_eq!(store.events(&EventFilter { limit: 10, ..EventFilter::default() }).await.unwrap().len(), 2);
}

async fn copies_beyond_twenty_are_counted(store: Shared) {
    store.ingest(Arc::new((0..31).map(|_| arrival(1, T0)).collect())).await.unwrap();
    let event = store.events_by_key("evt_1").await.unwrap().remove(0);
    assert_eq!(event.copies, 30);
    assert_eq!(store.copies(event.seq).await.unwrap().len(), 20);
}

async fn through_two_sources_an_app_gets_the_first_arrival_once(store: Shared) {
    let both = vec![arrival_for("one", "evt_1", &["app"], T0), arrival_for("two", "evt_1", &["app"], T0)];
    let answers = store.ingest(Arc::new(both)).await.unwrap();
    assert!(
        answers.iter().all(|answer| matches!(answer, Ingested::New { .. })),
        "each source has its event: {answers:?}"
    );
    assert_eq!(store.events_by_key("evt_1").await.unwrap().len(), 2);
    let deliveries = store.deliveries_of("evt_1").await.unwrap();
    assert_eq!(deliveries.len(), 1);
    let claim = store.claim(request(T0, 10)).await.unwrap().remove(0);
    assert_eq!(claim.event().unwrap().source, "one");
}

async fn an_event_goes_to_every_destination_that_takes_it(store: Shared) {
    store.ingest(Arc::new(vec![arrival_for("stripe", "evt_1", &["app", "ledger"], T0)])).await.unwrap();
    let names: Vec<_> = store.deliveries_of("evt_1").await.unwrap().into_iter().map(|one| one.destination).collect();
    assert_eq!(names, ["app", "ledger"]);
}

async fn a_claim_takes_what_is_due_and_no_more_than_asked(store: Shared) {
    store
        .ingest(Arc::new((0..100).map(|n| arrival(n, T0.plus(Duration::from_millis(n.into())))).collect()))
        .await
        .unwrap();
    assert_eq!(store.claim(request(T0.minus(LEASE), 10)).await.unwrap().len(), 0);
    for expected in [70, 30, 0] {
        assert_eq!(store.claim(request(T0.plus(LEASE / 2), 70)).await.unwrap().len(), expected);
    }
}

async fn retries_and_fresh_deliveries_share_a_claim(store: Shared) {
    store.ingest(Arc::new((0..20).map(|n| arrival(n, T0)).collect())).await.unwrap();
    let claims = store.claim(request(T0, 20)).await.unwrap();
    store.settle(claims.iter().map(|claim| settlement(claim, Outcome::Failed, T0)).collect()).await.unwrap();
    store.ingest(Arc::new((20..40).map(|n| arrival(n, T0)).collect())).await.unwrap();
    let claims = store.claim(request(T0.plus(LEASE), 10)).await.unwrap();
    let retries = claims.iter().filter(|claim| matches!(claim.was(), State::Retryable { .. })).count();
    assert_eq!((claims.len(), retries), (10, 5));
}

async fn retries_and_fresh_deliveries_take_turns_at_a_single_slot(store: Shared) {
    store.ingest(Arc::new((0..20).map(|n| arrival(n, T0)).collect())).await.unwrap();
    let claims = store.claim(request(T0, 20)).await.unwrap();
    store.settle(claims.iter().map(|claim| settlement(claim, Outcome::Failed, T0)).collect()).await.unwrap();
    store.ingest(Arc::new((20..40).map(|n| arrival(n, T0)).collect())).await.unwrap();
    let mut retries = 0;
    for round in 0..20 {
        let turn = stripe_guard::store::ClaimRequest { odd_to_retries: round % 2 == 0, ..request(T0.plus(LEASE), 1) };
        let claim = store.claim(turn).await.unwrap().remove(0);
        retries += usize::from(matches!(claim.was(), State::Retryable { .. }));
    }
    assert_eq!(retries, 10);
}

async fn what_was_pruned_is_not_sent_again(store: Shared) {
    take(&store, 1, T0).await;
    store.ingest(Arc::new(vec![arrival_for("stripe", "evt_2", &[], T0)])).await.unwrap();
    let claim = store.claim(request(T0, 1)).await.unwrap().remove(0);
    store.settle(vec![settlement(&claim, Outcome::Delivered, T0)]).await.unwrap();
    assert_eq!(store.prune(T0.plus(LEASE), 0).await.unwrap().removed, 2);
    assert_eq!(store.replay(vec![claim.id()], operator(), T0).await.unwrap(), [Operated::BodyGone]);
    let kept = store.events_by_key("evt_2").await.unwrap().remove(0);
    assert_eq!(store.deliver(kept.seq, vec!["app".to_owned()], operator(), T0).await.unwrap(), 0);
    assert_eq!(store.event(kept.seq).await.unwrap().unwrap().intake, Intake::Unwanted);
}

async fn no_delivery_is_claimed_twice_at_once(store: Shared) {
    store.ingest(Arc::new((0..200).map(|n| arrival(n, T0)).collect())).await.unwrap();
    let claimers: Vec<_> = (0..8)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let mut ids = Vec::new();
                while let Ok(claims) = store.claim(request(T0, 7)).await
                    && !claims.is_empty()
                {
                    ids.extend(claims.iter().map(stripe_guard::store::Claim::id));
                }
                ids
            })
        })
        .collect();
    let mut ids = Vec::new();
    for claimer in claimers {
        ids.extend(claimer.await.unwrap());
    }
    let distinct: std::collections::HashSet<_> = ids.iter().collect();
    assert_eq!((ids.len(), distinct.len()), (200, 200));
}

async fn an_expired_lease_fences_the_old_worker(store: Shared) {
    take(&store, 1, T0).await;
    let old = store.claim(request(T0, 1)).await.unwrap().remove(0);
    assert!(store.claim(request(T0.plus(LEASE).minus(Duration::from_millis(1)), 1)).await.unwrap().is_empty());
    let new = store.claim(request(T0.plus(LEASE), 1)).await.unwrap().remove(0);
    assert_eq!((old.id(), new.fence()), (new.id(), old.fence() + 1));
    assert_eq!(outcomes_of(&store, old.id()).await, [Outcome::Lost]);
    let later = T0.plus(LEASE);
    let answers = store.settle(vec![settlement(&old, Outcome::Delivered, later)]).await.unwrap();
    assert_eq!(answers, [Settled::Fenced]);
    assert_eq!(state_of(&store, new.id()).await.name(), "processing", "the new hold is not touched");
    let answers = store.settle(vec![settlement(&new, Outcome::Delivered, later)]).await.unwrap();
    assert_eq!(answers, [Settled::Done]);
    let attempts = store.attempts(new.id()).await.unwrap();
    assert_eq!((attempts[0].outcome, attempts[0].status), (Outcome::Late, Some(200)), "a possible duplicate, shown");
    assert_eq!(attempts[1].outcome, Outcome::Delivered);
    assert_eq!(store.settle(vec![settlement(&new, Outcome::Failed, later)]).await.unwrap(), [Settled::Fenced]);
    assert_eq!(state_of(&store, new.id()).await, State::Processed, "what is processed stays so");
}

async fn two_holds_on_one_delivery_in_one_batch_are_told_apart(store: Shared) {
    take(&store, 1, T0).await;
    let old = store.claim(request(T0, 1)).await.unwrap().remove(0);
    let later = T0.plus(LEASE);
    let new = store.claim(request(later, 1)).await.unwrap().remove(0);
    let both = vec![settlement(&old, Outcome::Delivered, later), settlement(&new, Outcome::Failed, later)];
    assert_eq!(store.settle(both).await.unwrap(), [Settled::Fenced, Settled::Done]);
    assert_eq!(outcomes_of(&store, new.id()).await, [Outcome::Late, Outcome::Failed]);
}

async fn late_is_done_as_long_as_nobody_claimed_it_again(store: Shared) {
    take(&store, 1, T0).await;
    let claim = store.claim(request(T0, 1)).await.unwrap().remove(0);
    let late = T0.plus(LEASE * 10);
    assert_eq!(store.settle(vec![settlement(&claim, Outcome::Delivered, late)]).await.unwrap(), [Settled::Done]);
}

async fn a_released_claim_is_due_at_once_and_counts_nothing(store: Shared) {
    take(&store, 1, T0).await;
    let claim = store.claim(request(T0, 1)).await.unwrap().remove(0);
    assert_eq!(store.release(vec![claim.clone()], T0).await.unwrap(), [Settled::Done]);
    let record = store.delivery(claim.id()).await.unwrap().unwrap();
    assert_eq!((record.state, record.attempts, record.lost), (State::Received { due_at: Some(T0) }, 0, 0));
    assert!(outcomes_of(&store, claim.id()).await.is_empty());
    let again = store.claim(request(T0, 1)).await.unwrap().remove(0);
    assert_eq!(again.fence(), claim.fence() + 1);
    assert_eq!(store.release(vec![claim], T0).await.unwrap(), [Settled::Fenced]);
}

async fn five_lost_leases_in_a_row_are_a_crash(store: Shared) {
    take(&store, 1, T0).await;
    let mut now = T0;
    let mut last = None;
    for lost in 0..5 {
        let request = stripe_guard::store::ClaimRequest { suspects: lost >= 2, ..request(now, 10) };
        let claim = store.claim(request).await.unwrap().remove(0);
        assert_eq!(claim.progress().lost, lost);
        last = Some(claim);
        now = now.plus(LEASE);
    }
    let request = stripe_guard::store::ClaimRequest { suspects: true, ..request(now, 10) };
    assert!(store.claim(request).await.unwrap().is_empty());
    let last = last.unwrap();
    assert_eq!(state_of(&store, last.id()).await, State::DeadLetter { class: DeadLetterClass::Crashed });
    assert_eq!(outcomes_of(&store, last.id()).await, [Outcome::Lost; 5]);
    assert_eq!(store.settle(vec![settlement(&last, Outcome::Delivered, now)]).await.unwrap(), [Settled::Fenced]);
    assert_eq!(outcomes_of(&store, last.id()).await[4], Outcome::Late);
}

async fn a_settled_outcome_resets_lost_leases(store: Shared) {
    take(&store, 1, T0).await;
    store.claim(request(T0, 1)).await.unwrap();
    let claim = store.claim(request(T0.plus(LEASE), 1)).await.unwrap().remove(0);
    assert_eq!(claim.progress().lost, 1);
    store.settle(vec![settlement(&claim, Outcome::Failed, T0.plus(LEASE))]).await.unwrap();
    let record = store.delivery(claim.id()).await.unwrap().unwrap();
    assert_eq!((record.lost, record.attempts, record.state.name()), (0, 1, "retryable"));
}

async fn a_suspect_is_claimed_alone(store: Shared) {
    take(&store, 1, T0).await;
    store.claim(request(T0, 1)).await.unwrap();
    store.claim(request(T0.plus(LEASE), 1)).await.unwrap();
    take(&store, 2, T0).await;
    take(&store, 3, T0).await;
    let now = T0.plus(LEASE * 2);
    assert!(store.has_suspects("app", now).await.unwrap());
    let ordinary = store.claim(request(now, 10)).await.unwrap();
    assert_eq!(ordinary.len(), 2, "the suspect is left where it is");
    let suspects = store.claim(stripe_guard::store::ClaimRequest { suspects: true, ..request(now, 10) }).await.unwrap();
    assert_eq!(
        (suspects.len(), suspects[0].event().unwrap().key.as_str(), suspects[0].progress().is_suspect()),
        (1, "evt_1", true)
    );
    assert!(!store.has_suspects("app", now).await.unwrap());
}

async fn a_watermark_hides_nothing_that_is_due_after_it(store: Shared) {
    take(&store, 1, T0).await;
    take(&store, 2, T0.plus(LEASE)).await;
    let from = Watermark { received: T0.plus(LEASE), retryable: T0.plus(LEASE), processing: T0 };
    let claims = store.claim(stripe_guard::store::ClaimRequest { from, ..request(T0.plus(LEASE), 10) }).await.unwrap();
    assert_eq!(claims.len(), 1);
    let swept = store.claim(request(T0.plus(LEASE), 10)).await.unwrap();
    assert_eq!(swept[0].event().unwrap().key, "evt_1", "a sweep from the front finds the rest");
}

async fn failures_are_counted_until_the_budget_is_over(store: Shared) {
    let policy = RetryPolicy { budget: Budget::Attempts(3), ..RetryPolicy::default() };
    take(&store, 1, T0).await;
    let mut now = T0;
    for number in 1..=3 {
        let claim = store.claim(request(now, 1)).await.unwrap().remove(0);
        assert_eq!(claim.progress().attempts + 1, number);
        store.settle(vec![settlement_by(&claim, Outcome::TimedOut, &policy, now)]).await.unwrap();
        now = now.plus(Duration::from_hours(1));
    }
    let dead = store
        .deliveries(&DeliveryFilter { state: Some("dead_letter".to_owned()), limit: 9, ..DeliveryFilter::default() })
        .await
        .unwrap();
    assert_eq!(dead[0].state, State::DeadLetter { class: DeadLetterClass::Unreachable });
    assert_eq!(dead[0].last_error.as_deref(), Some("made timed_out by a test"));
}

async fn a_replay_opens_a_new_round_and_keeps_history(store: Shared) {
    take(&store, 1, T0).await;
    let claim = store.claim(request(T0, 1)).await.unwrap().remove(0);
    store.settle(vec![settlement(&claim, Outcome::Rejected, T0)]).await.unwrap();
    let later = T0.plus(LEASE);
    assert_eq!(store.replay(vec![claim.id()], operator(), later).await.unwrap(), [Operated::Done]);
    assert_eq!(store.replay(vec![claim.id()], operator(), later).await.unwrap(), [Operated::AlreadyOpen]);
    let again = store.claim(request(later, 1)).await.unwrap().remove(0);
    assert_eq!((again.progress().round, again.progress().attempts, again.fence()), (2, 0, 2));
    assert_eq!(again.progress().round_started_at, later, "the budget is fresh");
    store.settle(vec![settlement(&again, Outcome::Delivered, later)]).await.unwrap();
    assert_eq!(outcomes_of(&store, claim.id()).await, [Outcome::Rejected, Outcome::Delivered]);
}

async fn an_open_delivery_is_not_replayed_but_brought_forward(store: Shared) {
    take(&store, 1, T0).await;
    let claim = store.claim(request(T0, 1)).await.unwrap().remove(0);
    assert_eq!(
        store.retry_now(vec![claim.id()], operator(), T0).await.unwrap(),
        [Operated::NotAllowed],
        "a worker holds it"
    );
    store.settle(vec![settlement(&claim, Outcome::Failed, T0)]).await.unwrap();
    assert_eq!(store.replay(vec![claim.id()], operator(), T0).await.unwrap(), [Operated::AlreadyOpen]);
    assert!(store.claim(request(T0, 1)).await.unwrap().is_empty());
    assert_eq!(store.retry_now(vec![claim.id()], operator(), T0).await.unwrap(), [Operated::Done]);
    let again = store.claim(request(T0, 1)).await.unwrap().remove(0);
    assert_eq!(again.progress().attempts, 1, "the budget goes on");
}

async fn a_discard_takes_what_no_worker_holds(store: Shared) {
    take(&store, 1, T0).await;
    let claim = store.claim(request(T0, 1)).await.unwrap().remove(0);
    assert_eq!(store.discard(vec![claim.id()], operator(), T0).await.unwrap(), [Operated::NotAllowed]);
    store.release(vec![claim.clone()], T0).await.unwrap();
    assert_eq!(store.discard(vec![claim.id()], operator(), T0).await.unwrap(), [Operated::Done]);
    assert_eq!(store.discard(vec![claim.id()], operator(), T0).await.unwrap(), [Operated::NotAllowed]);
    assert!(store.claim(request(T0, 1)).await.unwrap().is_empty());
    assert_eq!(store.replay(vec![claim.id()], operator(), T0).await.unwrap(), [Operated::Done]);
    assert_eq!(store.discard(vec![DeliveryId::new(4711)], operator(), T0).await.unwrap(), [Operated::NotFound]);
}

async fn an_unwanted_event_is_kept_and_can_be_let_go(store: Shared) {
    store.ingest(Arc::new(vec![arrival_for("stripe", "evt_1", &[], T0)])).await.unwrap();
    let event = store.events_by_key("evt_1").await.unwrap().remove(0);
    assert_eq!(event.intake, Intake::Unwanted);
    assert!(store.claim(request(T0, 1)).await.unwrap().is_empty());
    let deliver = || store.deliver(event.seq, vec!["app".to_owned()], operator(), T0);
    assert_eq!((deliver().await.unwrap(), deliver().await.unwrap()), (1, 0));
    assert_eq!(store.events_by_key("evt_1").await.unwrap()[0].intake, Intake::Accepted);
    assert_eq!(store.claim(request(T0, 1)).await.unwrap().len(), 1);
}

async fn an_unreadable_body_is_kept_under_its_digest(store: Shared) {
    let nothing = inbound("stripe", b"\x00\xFFno event".as_slice().into(), T0);
    let key = nothing.key().as_str().to_owned();
    let arrival = || stripe_guard::store::Arrival {
        inbound: nothing.clone(),
        intake: Intake::Unreadable,
        destinations: Arc::new([]),
    };
    store.ingest(Arc::new(vec![arrival(), arrival()])).await.unwrap();
    let event = store.events_by_key(&key).await.unwrap().remove(0);
    assert!(key.starts_with("unreadable:"));
    assert_eq!((event.intake, event.event_id, event.copies), (Intake::Unreadable, None, 1));
    assert_eq!(store.body(event.seq).await.unwrap().unwrap(), b"\x00\xFFno event");
    assert_eq!(store.deliver(event.seq, vec!["app".to_owned()], operator(), T0).await.unwrap(), 0);
}

async fn old_bodies_are_pruned_and_identities_stay(store: Shared) {
    take(&store, 1, T0).await;
    let claim = store.claim(request(T0, 1)).await.unwrap().remove(0);
    store.settle(vec![settlement(&claim, Outcome::Delivered, T0)]).await.unwrap();
    let day = Duration::from_hours(24);
    assert_eq!(store.prune(T0, 0).await.unwrap().removed, 0, "not past its retention");
    assert_eq!(store.prune(T0.plus(day), 0).await.unwrap().removed, 1);
    assert_eq!(store.body(claim.event_seq()).await.unwrap(), None);
    let answers = store.ingest(Arc::new(vec![arrival(1, T0.plus(day * 20))])).await.unwrap();
    assert_eq!(answers, [Ingested::Duplicate { seq: claim.event_seq() }]);
    assert!(store.claim(request(T0.plus(day * 20), 9)).await.unwrap().is_empty());
}

async fn pruning_walks_past_bodies_that_must_stay(store: Shared) {
    for chunk in 0..6 {
        store.ingest(Arc::new((0..200).map(|n| arrival(chunk * 200 + n, T0)).collect())).await.unwrap();
    }
    // The first 600 stay open; the others end.
    let stay = store.claim(request(T0, 600)).await.unwrap();
    let rest = store.claim(request(T0, 600)).await.unwrap();
    assert_eq!((stay.len(), rest.len()), (600, 600));
    store.settle(rest.iter().map(|claim| settlement(claim, Outcome::Delivered, T0)).collect()).await.unwrap();
    let dead: Vec<_> = stay.iter().take(5).map(|claim| settlement(claim, Outcome::Rejected, T0)).collect();
    store.settle(dead).await.unwrap();
    let (mut removed, mut from, mut steps) = (0, Some(0), 0);
    while let Some(at) = from {
        let step = store.prune(T0.plus(LEASE), at).await.unwrap();
        (removed, from, steps) = (removed + step.removed, step.next, steps + 1);
    }
    assert_eq!((removed, steps), (600, 3));
    assert!(store.body(stay[0].event_seq()).await.unwrap().is_some(), "a dead letter keeps its body");
}

async fn lists_are_pages_in_arrival_order(store: Shared) {
    store.ingest(Arc::new((0..25).map(|n| arrival(n, T0)).collect())).await.unwrap();
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let page = store
            .events(&EventFilter {
                before,
                limit: 10,
                event_type: Some("invoice.paid".to_owned()),
                ..EventFilter::default()
            })
            .await
            .unwrap();
        let Some(last) = page.last() else { break };
        before = Some(last.seq);
        seen.extend(page.iter().map(|event| event.seq));
    }
    assert_eq!(seen.len(), 25);
    assert!(seen.is_sorted_by(|a, b| a > b));
    let none = store
        .events(&EventFilter { limit: 10, source: Some("other".to_owned()), ..EventFilter::default() })
        .await
        .unwrap();
    assert!(none.is_empty());
}

async fn counts_and_ages_are_told_by_destination(store: Shared) {
    store.ingest(Arc::new((0..4).map(|n| arrival(n, T0)).collect())).await.unwrap();
    let claims = store.claim(request(T0, 3)).await.unwrap();
    let ends = [Outcome::Failed, Outcome::Rejected];
    store
        .settle(claims.iter().zip(ends).map(|(claim, outcome)| settlement(claim, outcome, T0)).collect())
        .await
        .unwrap();
    let stats = store.stats().await.unwrap();
    let app = &stats.destinations[0];
    assert_eq!((app.received, app.processing, app.retryable, app.dead_letter), (1, 1, 1, 1));
    assert_eq!((app.oldest_open, stats.last_received_at), (Some(T0), Some(T0)));
    store.release(vec![claims[2].clone()], T0.plus(LEASE)).await.unwrap();
    let ids = store.deliveries_of("evt_3").await.unwrap().iter().map(|one| one.id).collect();
    store.retry_now(ids, operator(), T0.plus(LEASE)).await.unwrap();
    let stats = store.stats().await.unwrap();
    assert_eq!(
        stats.destinations[0].oldest_open,
        Some(T0),
        "what is brought forward or handed back is as old as before"
    );
}

async fn refusals_add_up(store: Shared) {
    let record = |count, at, skew_seconds| RefusalRecord {
        source: "stripe".to_owned(),
        reason: "no_secret_matches".to_owned(),
        count,
        last_at: at,
        skew_seconds,
    };
    store.count_refusals(vec![record(3, T0, None)]).await.unwrap();
    store.count_refusals(vec![record(4, T0.plus(LEASE), Some(360))]).await.unwrap();
    assert_eq!(store.refusals().await.unwrap(), [record(7, T0.plus(LEASE), Some(360))]);
}
