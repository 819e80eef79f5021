//! What the correct inbox must come to see, so that no rule holds for want of a case.

use std::sync::atomic::{AtomicU64, Ordering};

use stripe_guard_core::{Budget, DeadLetterClass, LOST_LEASES_MAX, Outcome, SUSPECT_AT, State};

use crate::bounds::Bounds;
use crate::world::{Delivery, Event, Hold, NOW, Stage, World};

/// A name, and how to know it.
pub(crate) type Sight = (&'static str, fn(&Bounds, &World) -> bool);

/// Every sight.
pub(crate) fn all() -> impl Iterator<Item = &'static Sight> {
    [STRIPE, WORKERS, DEAD_LETTERS, ROUNDS, SPECIAL].into_iter().flatten()
}

/// Which sights have been had, as bits in the order of [`all`].
#[derive(Default)]
pub(crate) struct Seen(AtomicU64);

impl Seen {
    pub(crate) fn look(&self, bounds: &Bounds, world: &World) {
        let seen = self.0.load(Ordering::Relaxed);
        for (number, (_, is_seen)) in all().enumerate() {
            if seen & 1 << number == 0 && is_seen(bounds, world) {
                self.0.fetch_or(1 << number, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        let seen = self.0.load(Ordering::Relaxed);
        all().enumerate().filter(move |(number, _)| seen & 1 << number != 0).map(|(_, (name, _))| *name)
    }
}

fn any(world: &World, seen: impl Fn(&Delivery) -> bool) -> bool {
    world.stored().any(seen)
}

fn any_with_event(world: &World, seen: impl Fn(&Event, &Delivery) -> bool) -> bool {
    world.events.iter().zip(&world.deliveries).any(|(event, stored)| stored.as_ref().is_some_and(|it| seen(event, it)))
}

fn any_with_hold(world: &World, seen: impl Fn(&Hold, &Delivery) -> bool) -> bool {
    world.holds().any(|hold| world.deliveries[hold.delivery].as_ref().is_some_and(|delivery| seen(hold, delivery)))
}

fn is_dead(delivery: &Delivery, class: DeadLetterClass) -> bool {
    delivery.state() == Some(State::DeadLetter { class })
}

const STRIPE: &[Sight] = &[
    ("a copy arrives while a worker is at it", |_, world| {
        any_with_event(world, |event, delivery| event.arrived > 0 && delivery.is_processing())
    }),
    ("a copy arrives for a processed delivery", |_, world| {
        any_with_event(world, |event, it| event.arrived > 0 && it.state() == Some(State::Processed))
    }),
    ("a copy arrives for a dead letter", |_, world| {
        any_with_event(world, |event, delivery| event.arrived > 0 && delivery.columns.class.is_some())
    }),
    ("a delivery is processed before Stripe has its answer", |_, world| {
        any_with_event(world, |event, it| !event.acknowledged && it.state() == Some(State::Processed))
    }),
];

const WORKERS: &[Sight] = &[
    ("a late answer", |_, world| {
        any(world, |delivery| delivery.attempts.iter().any(|attempt| attempt.outcome == Outcome::Late))
    }),
    ("a late yes beside the recorded success", |_, world| {
        any(world, |delivery| {
            let late_yes = |mut rows: std::slice::Iter<'_, _>| {
                rows.any(|row: &crate::world::Attempt| row.outcome == Outcome::Late && row.is_a_yes())
            };
            delivery.state() == Some(State::Processed) && late_yes(delivery.attempts.iter())
        })
    }),
    ("the app says yes twice in a round", |_, world| world.confirmed.contains(&2)),
    ("an answer waits past its lease, and nobody has claimed", |_, world| {
        any_with_hold(world, |hold, delivery| {
            let is_answered = matches!(hold.stage, Stage::Answered { .. });
            is_answered && hold.lease_until <= NOW && delivery.is_processing() && delivery.fence == hold.fence
        })
    }),
    ("a settle is asked for again after its answer was lost", |_, world| {
        any_with_hold(world, |hold, it| it.attempt(hold.fence).is_some_and(|row| !row.is_a_lost_lease()))
    }),
    ("a first claim is handed back", |_, world| {
        any(world, |it| it.fence > 0 && it.attempts.is_empty() && matches!(it.state(), Some(State::Received { .. })))
    }),
    ("a claim after a failure is handed back", |_, world| {
        any(world, |delivery| {
            let has_no_row = delivery.fence > 0 && delivery.attempt(delivery.fence).is_none();
            has_no_row && matches!(delivery.state(), Some(State::Retryable { .. }))
        })
    }),
    ("a settled outcome ends a run of lost leases", |_, world| {
        any(world, |delivery| {
            delivery.attempts.first().is_some_and(crate::world::Attempt::is_a_lost_lease)
                && delivery.progress.lost == 0
                && delivery.is_open()
        })
    }),
];

const DEAD_LETTERS: &[Sight] = &[
    ("rejected", |_, world| any(world, |it| is_dead(it, DeadLetterClass::Rejected))),
    ("exhausted", |_, world| any(world, |it| is_dead(it, DeadLetterClass::Exhausted))),
    ("unreachable", |_, world| any(world, |it| is_dead(it, DeadLetterClass::Unreachable))),
    ("internal", |_, world| any(world, |it| is_dead(it, DeadLetterClass::Internal))),
    ("crashed", |_, world| any(world, |it| is_dead(it, DeadLetterClass::Crashed))),
    ("a worker answers after its delivery has crashed", |_, world| {
        any(world, |delivery| {
            is_dead(delivery, DeadLetterClass::Crashed)
                && delivery.attempts.last().is_some_and(|attempt| attempt.outcome == Outcome::Late)
        })
    }),
    ("discarded after an attempt", |_, world| {
        any(world, |it| it.state() == Some(State::Discarded) && !it.attempts.is_empty())
    }),
];

const ROUNDS: &[Sight] = &[
    ("a replay after a dead letter succeeds", |_, world| {
        any(world, |delivery| {
            let first_success = delivery.attempts.iter().find(|attempt| attempt.outcome == Outcome::Delivered);
            first_success.is_some_and(|attempt| attempt.round > 1)
        })
    }),
    ("a replay after a success succeeds again", |_, world| {
        any(world, |it| it.attempts.iter().filter(|row| row.outcome == Outcome::Delivered).count() == 2)
    }),
    ("a worker of the last round answers in the new one", |_, world| {
        any_with_hold(world, |hold, delivery| {
            let is_answered = matches!(hold.stage, Stage::Answered { .. });
            is_answered && hold.progress.round < delivery.progress.round
        })
    }),
    ("a crashed delivery is claimed again after a replay", |_, world| {
        any(world, |delivery| {
            let in_first_round = delivery.attempts.iter().filter(|attempt| attempt.round == 1);
            let lost = in_first_round.filter(|attempt| attempt.is_a_lost_lease()).count();
            usize::try_from(LOST_LEASES_MAX) == Ok(lost) && delivery.progress.round > 1 && delivery.is_processing()
        })
    }),
];

const SPECIAL: &[Sight] = &[
    ("a failure does not count while the breaker is open", |_, world| {
        any(world, |delivery| delivery.attempts.iter().any(|attempt| attempt.is_a_failure() && !attempt.counted))
    }),
    ("the time budget is over", |bounds, world| {
        matches!(bounds.budget, Budget::Time(_)) && any(world, |it| is_dead(it, DeadLetterClass::Exhausted))
    }),
    ("a delivery outlives its time budget because it was held", |bounds, world| {
        let Budget::Time(most) = bounds.budget else { return false };
        any(world, |it| it.progress.attempts > 1 && it.is_open() && NOW.since(it.progress.round_started_at) >= most)
    }),
    ("two deliveries are held by one claim", |_, world| world.workers.iter().any(|worker| worker.holds.len() == 2)),
    ("a suspect is held alone beside a neighbour", |_, world| {
        let is_suspect = |it: &&Delivery| it.is_processing() && it.progress.lost >= SUSPECT_AT;
        world.stored().filter(is_suspect).count() == 1 && world.stored().count() == 2
    }),
    ("a follower is parked", |_, world| any(world, |delivery| delivery.columns.parked)),
    ("the head of a lane crashes and its follower is processed", |bounds, world| {
        bounds.lane
            && any(world, |it| is_dead(it, DeadLetterClass::Crashed))
            && any(world, |it| it.state() == Some(State::Processed))
    }),
    ("a follower is let go", |bounds, world| {
        bounds.lane
            && world.stored().count() == 2
            && any(world, Delivery::is_ended)
            && any(world, |delivery| delivery.is_open() && !delivery.columns.parked)
    }),
];
