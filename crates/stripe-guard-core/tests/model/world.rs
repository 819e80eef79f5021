//! What Stripe, the store, the workers and the app know at one moment.
//!
//! The present is always [`NOW`]: when time passes, everything else moves towards the past, and
//! what is past already stays where it is. Two worlds that differ only in their age are one.

use std::time::Duration;

use stripe_guard_core::{DeadLetterClass, DeliveryId, Outcome, Progress, State, Timestamp};

pub(crate) const NOW: Timestamp = Timestamp::from_secs(1_000_000);

/// Time passes in steps; a wait between two attempts is one of them.
pub(crate) const STEP: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) events: Vec<Event>,
    /// The store. A delivery is written with its event, so it says that the event is stored.
    pub(crate) deliveries: Vec<Option<Delivery>>,
    pub(crate) workers: Vec<Worker>,
    /// How often the app has said yes to a delivery in its present round: 0, 1, or 2 and more.
    pub(crate) confirmed: Vec<u8>,
    pub(crate) breaker_open: bool,
    /// How long the breaker has been open, in all.
    pub(crate) held: Duration,
    /// The rules for steps that have been broken on the way here.
    pub(crate) violated: u16,
}

/// An event as Stripe sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Event {
    pub(crate) sends: u8,
    /// Requests under way and not yet committed.
    pub(crate) arrived: u8,
    /// Requests committed and not yet answered.
    pub(crate) committed: u8,
    pub(crate) acknowledged: bool,
}

/// A row of `deliveries` with its rows of `attempts`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Delivery {
    pub(crate) columns: Columns,
    pub(crate) fence: u32,
    pub(crate) progress: Progress,
    /// In the order of their fences.
    pub(crate) attempts: Vec<Attempt>,
}

/// A state as the store holds it, so that a broken rule can write what no state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Columns {
    pub(crate) name: &'static str,
    pub(crate) due_at: Option<Timestamp>,
    pub(crate) parked: bool,
    pub(crate) class: Option<DeadLetterClass>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Attempt {
    pub(crate) fence: u32,
    pub(crate) round: u32,
    pub(crate) outcome: Outcome,
    pub(crate) status: Option<u16>,
    pub(crate) counted: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Worker {
    pub(crate) holds: Vec<Hold>,
    /// What it found due and has not yet taken: only in a variant whose claim is not atomic.
    pub(crate) found: Option<usize>,
}

/// What a worker remembers of a claim; the store may have moved on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hold {
    pub(crate) delivery: usize,
    pub(crate) fence: u32,
    pub(crate) lease_until: Timestamp,
    pub(crate) progress: Progress,
    pub(crate) stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    Claimed,
    Sent { counted: bool },
    Answered { outcome: Outcome, status: Option<u16>, counted: bool },
}

impl World {
    pub(crate) fn stored(&self) -> impl Iterator<Item = &Delivery> {
        self.deliveries.iter().flatten()
    }

    pub(crate) fn holds(&self) -> impl Iterator<Item = &Hold> {
        self.workers.iter().flat_map(|worker| &worker.holds)
    }

    /// Workers are alike, so only what they hold tells them apart; the idle ones come last.
    pub(crate) fn forget_who_is_who(&mut self) {
        self.workers
            .sort_by_key(|worker| worker.holds.first().map_or((usize::MAX, 0), |hold| (hold.delivery, hold.fence)));
    }
}

impl Delivery {
    pub(crate) fn new(number: usize, state: State, held: Duration) -> Self {
        Self {
            columns: Columns::of(&state),
            fence: 0,
            progress: Progress {
                id: DeliveryId::new(i64::try_from(number).unwrap()),
                round: 1,
                round_started_at: NOW,
                held_at_start: held,
                attempts: 0,
                lost: 0,
            },
            attempts: Vec::new(),
        }
    }

    pub(crate) fn state(&self) -> Option<State> {
        let Columns { name, due_at, parked, class } = self.columns;
        State::from_columns(name, due_at, parked, class)
    }

    pub(crate) fn put(&mut self, state: &State) {
        self.columns = Columns::of(state);
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.state().is_some_and(|state| state.is_ended())
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state().is_some_and(|state| !state.is_ended())
    }

    pub(crate) fn is_processing(&self) -> bool {
        matches!(self.state(), Some(State::Processing { .. }))
    }

    /// The attempts of its present round.
    pub(crate) fn of_this_round(&self) -> impl DoubleEndedIterator<Item = &Attempt> {
        self.attempts.iter().filter(|attempt| attempt.round == self.progress.round)
    }

    pub(crate) fn attempt(&self, fence: u32) -> Option<&Attempt> {
        self.attempts.iter().find(|attempt| attempt.fence == fence)
    }

    /// Writes the row of its fence.
    pub(crate) fn record(&mut self, attempt: Attempt) {
        self.attempts.retain(|other| other.fence != attempt.fence);
        self.attempts.push(attempt);
        self.attempts.sort_by_key(|attempt| attempt.fence);
    }
}

impl Columns {
    pub(crate) fn of(state: &State) -> Self {
        Self { name: state.name(), due_at: state.due_at(), parked: state.is_parked(), class: state.class() }
    }
}

impl Attempt {
    /// Whether the app said yes, whatever was made of it.
    pub(crate) fn is_a_yes(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }

    pub(crate) fn is_a_lost_lease(&self) -> bool {
        matches!(self.outcome, Outcome::Lost | Outcome::Late)
    }

    pub(crate) fn is_a_failure(&self) -> bool {
        !self.is_a_lost_lease() && !matches!(self.outcome, Outcome::Delivered | Outcome::Rejected | Outcome::Internal)
    }
}
