//! What holds always: rules for what a world may be, and rules for what a step may do.

use std::time::Duration;

use stateright::Property;
use stripe_guard_core::{Budget, DeadLetterClass, LOST_LEASES_MAX, Outcome, State};

use crate::protocol::{Action, Inbox};
use crate::world::{Columns, Delivery, Hold, NOW, Stage, World};

pub(crate) const ACKNOWLEDGED_IS_STORED: &str = "an acknowledged event is stored";
pub(crate) const ONE_SUCCESS: &str = "a delivery has one recorded success in a round at most, and it ends the round";
pub(crate) const YES_IS_THE_END: &str = "no attempt follows a yes of the app that was settled in time";
pub(crate) const LEGAL: &str = "state, due time, parked and class make a state";
pub(crate) const CLASS: &str = "a dead letter has the class of its last attempt";
pub(crate) const BUDGET: &str = "attempts are the counted failures of the round, within the budget while open";
pub(crate) const LOST: &str = "lost is the run of lost leases, under five while open";
pub(crate) const ONE_CLAIM: &str = "no two workers hold a valid claim on one delivery";
pub(crate) const LANE: &str = "one delivery of a lane is on its way, and the parked wait behind it";
pub(crate) const NEIGHBOUR: &str = "the neighbour of a poison event does not crash";
pub(crate) const ENDS: &str = "with a healthy app and one worker every delivery ends";

pub(crate) const FENCE_GROWS: &str = "a fence only grows";
pub(crate) const ATTEMPT_STAYS: &str = "an attempt is written once, but a lost one may become late";
pub(crate) const SUCCESS_IS_CURRENT: &str = "a success is recorded under the current fence only";
pub(crate) const FENCED_MOVES_NOTHING: &str = "a fenced answer or release moves nothing";
pub(crate) const ANSWER_IS_KEPT: &str = "an answer that is settled moves its delivery or is kept as late";
pub(crate) const ENDED_STAYS: &str = "an ended delivery is moved by an operator only";
pub(crate) const ROUND_AFTER_END: &str = "a round begins only after the end of the last";
pub(crate) const CLAIM_IS_KEPT: &str = "a claim ends by its settle, its release, or a claim after its lease";
pub(crate) const OVERDUE_ENDS: &str = "a counted failure after the time budget ends its round";

/// The rules for steps; the number of each is its bit in `World::violated`.
const STEPS: &[&str] = &[
    FENCE_GROWS,
    ATTEMPT_STAYS,
    SUCCESS_IS_CURRENT,
    FENCED_MOVES_NOTHING,
    ANSWER_IS_KEPT,
    ENDED_STAYS,
    ROUND_AFTER_END,
    CLAIM_IS_KEPT,
    OVERDUE_ENDS,
];

fn bit(rule: &str) -> u16 {
    1 << STEPS.iter().position(|name| *name == rule).unwrap()
}

type Holds = fn(&Inbox, &World) -> bool;

fn always(name: &'static str, holds: Holds) -> Property<Inbox> {
    Property::always(name, holds)
}

pub(crate) fn properties() -> Vec<Property<Inbox>> {
    fn step<const BIT: u16>(_: &Inbox, world: &World) -> bool {
        world.violated & BIT == 0
    }
    vec![
        always(ACKNOWLEDGED_IS_STORED, |_, world| {
            world.events.iter().zip(&world.deliveries).all(|(event, stored)| !event.acknowledged || stored.is_some())
        }),
        always(ONE_SUCCESS, |_, world| world.stored().all(one_success)),
        always(YES_IS_THE_END, |_, world| world.stored().all(yes_is_the_end)),
        always(LEGAL, |_, world| {
            world.stored().all(|delivery| delivery.state().is_some_and(|state| Columns::of(&state) == delivery.columns))
        }),
        always(CLASS, |_, world| world.stored().all(class_is_true)),
        always(BUDGET, |inbox, world| world.stored().all(|delivery| within_budget(inbox, delivery))),
        always(LOST, |_, world| world.stored().all(lost_is_true)),
        always(ONE_CLAIM, |_, world| one_claim(world)),
        always(LANE, |inbox, world| !inbox.bounds.lane || lane_is_in_order(world)),
        always(NEIGHBOUR, |inbox, world| {
            !inbox.bounds.poison
                || world
                    .deliveries
                    .iter()
                    .skip(1)
                    .flatten()
                    .all(|it| it.columns.class != Some(DeadLetterClass::Crashed))
        }),
        always(ENDS, Inbox::ends),
        always(STEPS[0], step::<{ 1 << 0 }>),
        always(STEPS[1], step::<{ 1 << 1 }>),
        always(STEPS[2], step::<{ 1 << 2 }>),
        always(STEPS[3], step::<{ 1 << 3 }>),
        always(STEPS[4], step::<{ 1 << 4 }>),
        always(STEPS[5], step::<{ 1 << 5 }>),
        always(STEPS[6], step::<{ 1 << 6 }>),
        always(STEPS[7], step::<{ 1 << 7 }>),
        always(STEPS[8], step::<{ 1 << 8 }>),
    ]
}

fn one_success(delivery: &Delivery) -> bool {
    let successes = |round| {
        let of_round = delivery.attempts.iter().filter(|attempt| attempt.round == round);
        of_round.filter(|attempt| attempt.outcome == Outcome::Delivered).count()
    };
    let present = delivery.progress.round;
    (1..present).all(|round| successes(round) <= 1)
        && successes(present) == usize::from(delivery.state() == Some(State::Processed))
}

fn yes_is_the_end(delivery: &Delivery) -> bool {
    delivery.attempts.iter().filter(|attempt| attempt.is_a_yes() && attempt.outcome != Outcome::Late).all(|yes| {
        let last = delivery.attempts.iter().rfind(|attempt| attempt.round == yes.round);
        last == Some(yes) && (yes.round < delivery.progress.round || delivery.is_ended())
    })
}

fn class_is_true(delivery: &Delivery) -> bool {
    let Some(State::DeadLetter { class }) = delivery.state() else { return delivery.columns.class.is_none() };
    delivery.of_this_round().next_back().is_some_and(|last| match last.outcome {
        Outcome::Rejected => class == DeadLetterClass::Rejected,
        Outcome::Failed | Outcome::Overloaded | Outcome::Misconfigured => class == DeadLetterClass::Exhausted,
        Outcome::TimedOut | Outcome::Unreachable => class == DeadLetterClass::Unreachable,
        Outcome::Internal => class == DeadLetterClass::Internal,
        Outcome::Lost | Outcome::Late => class == DeadLetterClass::Crashed && delivery.progress.lost == LOST_LEASES_MAX,
        Outcome::Delivered => false,
    })
}

fn within_budget(inbox: &Inbox, delivery: &Delivery) -> bool {
    let counted = delivery.of_this_round().filter(|attempt| attempt.counted && attempt.is_a_failure()).count();
    let attempts = delivery.progress.attempts;
    let within = match inbox.bounds.budget {
        Budget::Attempts(most) => attempts < most || (attempts == most && !delivery.is_open()),
        Budget::Time(_) => true,
    };
    usize::try_from(attempts) == Ok(counted) && within
}

fn lost_is_true(delivery: &Delivery) -> bool {
    let run = delivery.of_this_round().rev().take_while(|attempt| attempt.is_a_lost_lease()).count();
    let lost = delivery.progress.lost;
    usize::try_from(lost) == Ok(run) && (lost < LOST_LEASES_MAX || !delivery.is_open())
}

/// A claim is valid to its worker until its lease is over or its answer is settled.
fn one_claim(world: &World) -> bool {
    let is_valid = |hold: &Hold, delivery: &Delivery| {
        let is_settled = delivery.attempt(hold.fence).is_some_and(|attempt| !attempt.is_a_lost_lease());
        hold.lease_until > NOW && !(is_settled && matches!(hold.stage, Stage::Answered { .. }))
    };
    world.deliveries.iter().enumerate().all(|(number, stored)| {
        let holds = world.holds().filter(|hold| hold.delivery == number);
        stored.as_ref().is_none_or(|delivery| holds.filter(|hold| is_valid(hold, delivery)).count() <= 1)
    })
}

fn lane_is_in_order(world: &World) -> bool {
    let parked = world.stored().filter(|delivery| delivery.columns.parked).count();
    let on_their_way = world.stored().filter(|delivery| delivery.is_open() && !delivery.columns.parked).count();
    on_their_way == 1 || (on_their_way == 0 && parked == 0)
}

/// Which rules for steps this one breaks.
pub(crate) fn broken_by(inbox: &Inbox, before: &World, action: &Action, after: &World) -> u16 {
    // The passing of time moves every row, and only in its times.
    if *action == Action::TimePasses {
        return 0;
    }
    let mut broken = 0;
    for (number, rows) in before.deliveries.iter().zip(&after.deliveries).enumerate() {
        if let (Some(old), Some(new)) = rows {
            let mut check = |rule: &str, kept: bool| broken |= if kept { 0 } else { bit(rule) };
            check(FENCE_GROWS, old.fence <= new.fence);
            check(ATTEMPT_STAYS, attempts_stay(old, new));
            check(SUCCESS_IS_CURRENT, success_is_current(old, new));
            let moved = (old.columns, old.progress) != (new.columns, new.progress);
            let by_operator = matches!(action, Action::Replay { .. } | Action::Discard { .. });
            check(ENDED_STAYS, !old.is_ended() || !moved || by_operator);
            check(ROUND_AFTER_END, old.progress.round == new.progress.round || old.is_ended());
            check_claim(before, action, number, (old, new), &mut check);
            check(OVERDUE_ENDS, overdue_ends(inbox, before.held, old, new));
        }
    }
    broken
}

fn attempts_stay(old: &Delivery, new: &Delivery) -> bool {
    old.attempts.iter().all(|was| {
        new.attempt(was.fence).is_some_and(|is| {
            let became_late = was.outcome == Outcome::Lost && is.outcome == Outcome::Late;
            is == was || (became_late && (is.round, is.counted) == (was.round, was.counted))
        })
    })
}

fn success_is_current(old: &Delivery, new: &Delivery) -> bool {
    new.attempts
        .iter()
        .filter(|is| is.outcome == Outcome::Delivered && old.attempt(is.fence) != Some(*is))
        .all(|is| old.is_processing() && old.fence == is.fence && old.progress.round == is.round)
}

fn check_claim(
    before: &World,
    action: &Action,
    number: usize,
    (old, new): (&Delivery, &Delivery),
    check: &mut impl FnMut(&str, bool),
) {
    let moved = (old.columns, old.progress, old.fence) != (new.columns, new.progress, new.fence);
    let acting = match *action {
        Action::Settle { worker, hold, .. } | Action::Release { worker, hold } => {
            Some(before.workers[worker].holds[hold]).filter(|hold| hold.delivery == number)
        }
        _ => None,
    };
    let is_current = acting.is_some_and(|hold| old.is_processing() && old.fence == hold.fence);
    if let Some(hold) = acting {
        check(FENCED_MOVES_NOTHING, is_current || !moved);
        if matches!(action, Action::Settle { .. }) {
            check(ANSWER_IS_KEPT, new.attempt(hold.fence).is_some() && !(is_current && new.is_processing()));
        }
    }
    if let Some(State::Processing { lease_until }) = old.state() {
        let taken = matches!(action, Action::Claim { batch, .. } if batch.contains(&number)) && lease_until <= NOW;
        check(CLAIM_IS_KEPT, !moved || is_current || taken);
    }
}

fn overdue_ends(inbox: &Inbox, held: Duration, old: &Delivery, new: &Delivery) -> bool {
    let Budget::Time(most) = inbox.bounds.budget else { return true };
    let lived = NOW.since(old.progress.round_started_at) + old.progress.held_at_start;
    new.progress.attempts <= old.progress.attempts || lived < held + most || new.is_ended()
}
