//! How large a world may grow, and what can happen in it.

use std::time::Duration;

use stripe_guard_core::{Budget, Outcome, RetryPolicy};

use crate::world::STEP;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) name: &'static str,
    pub(crate) events: usize,
    pub(crate) workers: usize,
    /// As many deliveries are taken by one claim at most.
    pub(crate) batch: usize,
    /// How long a claim lasts, in steps.
    pub(crate) lease: u32,
    /// No claim beyond this fence.
    pub(crate) fence_max: u32,
    /// No replay beyond this round.
    pub(crate) rounds_max: u32,
    /// Stripe sends an event this often at most, whether it was acknowledged or not; 0 begins with
    /// all of them stored.
    pub(crate) sends_max: u8,
    /// The breaker is open for this many steps at most, in all.
    pub(crate) held_max: u32,
    pub(crate) budget: Budget,
    pub(crate) answers: &'static [Answer],
    /// Whether an operator discards, brings forward and hands claims back.
    pub(crate) operator: bool,
    /// Whether all events are of one lane: one in flight, the others parked.
    pub(crate) lane: bool,
    /// The first event kills each worker that sends it; nothing else goes wrong with workers.
    pub(crate) poison: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Status(u16),
    /// No answer within the time-out.
    Hangs,
    /// Our own fault, seen before the request.
    BodyMissing,
}

impl Answer {
    pub(crate) fn status(self) -> Option<u16> {
        if let Self::Status(status) = self { Some(status) } else { None }
    }

    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self::Status(status) => Outcome::of_status(status, &[410]),
            Self::Hangs => Outcome::TimedOut,
            Self::BodyMissing => Outcome::Internal,
        }
    }
}

use Answer::{BodyMissing, Hangs, Status};

/// One event, and all that an app and an operator can do to it.
const ONE_EVENT: Bounds = Bounds {
    name: "one event",
    events: 1,
    workers: 2,
    batch: 1,
    lease: 1,
    fence_max: 3,
    rounds_max: 2,
    sends_max: 2,
    held_max: 0,
    budget: Budget::Attempts(2),
    answers: &[Status(204), Status(500)],
    operator: true,
    lane: false,
    poison: false,
};

/// All that an app can answer.
const EVERY_ANSWER: Bounds = Bounds {
    name: "every answer",
    rounds_max: 2,
    sends_max: 1,
    answers: &[Status(200), Status(204), Status(410), Status(500), Hangs, BodyMissing],
    operator: false,
    ..ONE_EVENT
};

/// Leases are lost again and again, to the fifth and beyond it.
const LOST_LEASES: Bounds =
    Bounds { name: "lost leases", fence_max: 7, sends_max: 0, answers: &[Status(200)], operator: false, ..ONE_EVENT };

/// The budget is time, and stands still while the breaker is open.
const TIME_BUDGET: Bounds = Bounds {
    name: "time budget",
    lease: 1,
    fence_max: 3,
    rounds_max: 2,
    sends_max: 0,
    held_max: 1,
    budget: Budget::Time(Duration::from_secs(2 * STEP.as_secs())),
    answers: &[Status(503)],
    operator: false,
    ..ONE_EVENT
};

/// Three workers, of which two may be behind the times.
const THREE_WORKERS: Bounds = Bounds {
    name: "three workers",
    workers: 3,
    fence_max: 4,
    rounds_max: 1,
    sends_max: 0,
    answers: &[Status(200), Status(500)],
    operator: false,
    ..ONE_EVENT
};

/// Two events that are claimed together or apart.
const TWO_EVENTS: Bounds = Bounds {
    name: "two events",
    events: 2,
    batch: 2,
    fence_max: 2,
    rounds_max: 1,
    sends_max: 0,
    answers: &[Status(200), Status(500)],
    operator: false,
    ..ONE_EVENT
};

/// Two events of one lane.
const LANE: Bounds = Bounds {
    name: "lane",
    rounds_max: 2,
    answers: &[Status(500)],
    budget: Budget::Attempts(1),
    lane: true,
    operator: true,
    ..TWO_EVENTS
};

/// An event that takes its worker with it, and its neighbour.
const POISON: Bounds =
    Bounds { name: "poison", batch: 2, fence_max: 6, poison: true, answers: &[Status(200), Status(500)], ..TWO_EVENTS };

/// Such an event at the head of a lane.
const POISON_LANE: Bounds = Bounds { name: "poison lane", lane: true, operator: true, ..POISON };

pub(crate) const WORLDS: &[Bounds] =
    &[ONE_EVENT, EVERY_ANSWER, LOST_LEASES, TIME_BUDGET, THREE_WORKERS, TWO_EVENTS, LANE, POISON, POISON_LANE];

impl Bounds {
    /// The world of this name.
    pub(crate) fn named(name: &str) -> Self {
        *WORLDS.iter().find(|bounds| bounds.name == name).unwrap()
    }

    /// As large as a release build checks in minutes.
    pub(crate) fn large(self) -> Self {
        Self { lease: 2, fence_max: self.fence_max + 1, ..self }
    }

    /// Every wait is one step, so that the number of attempts does not stretch time.
    pub(crate) fn policy(&self) -> RetryPolicy {
        RetryPolicy { budget: self.budget, floor: Duration::ZERO, cap: STEP }
    }
}
