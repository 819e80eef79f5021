//! The transition function: what an outcome, a lost lease or an operator leads to.

use std::fmt;
use std::time::Duration;

use crate::{Budget, DeadLetterClass, Outcome, RetryPolicy, State, Timestamp};

/// As many leases in a row may be lost before the delivery is held to crash its worker.
pub const LOST_LEASES_MAX: u32 = 5;

/// From this many lost leases on a delivery is claimed alone, so that what it does to its worker
/// does not count against its neighbours.
pub const SUSPECT_AT: u32 = 2;

/// A delivery's number in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeliveryId(i64);

impl DeliveryId {
    /// From the store's number.
    pub const fn new(id: i64) -> Self {
        Self(id)
    }

    /// The store's number.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How far a delivery has come in its present round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Progress {
    /// Which delivery.
    pub id: DeliveryId,
    /// 1 at first; +1 at each replay.
    pub round: u32,
    /// When the round began.
    pub round_started_at: Timestamp,
    /// How long its destination had been held, in all, when the round began.
    pub held_at_start: Duration,
    /// Counted failures in this round.
    pub attempts: u32,
    /// Leases lost in a row.
    pub lost: u32,
}

/// What the transition must know beside the outcome.
#[derive(Clone, Copy, Debug)]
pub struct Situation {
    /// When the outcome is settled.
    pub now: Timestamp,
    /// How long the destination has been held (paused, or its breaker open), in all.
    pub held: Duration,
    /// Whether a failure counts: not when the request was sent while the breaker was not closed.
    pub counted: bool,
    /// The app's `Retry-After`, already limited to what is obeyed.
    pub retry_after: Option<Duration>,
}

/// What an outcome leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// The state.
    pub state: State,
    /// Counted failures from now on.
    pub attempts: u32,
    /// Lost leases in a row from now on.
    pub lost: u32,
}

/// What a lease that ran out leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseOver {
    /// Claim it again, with this count of lost leases.
    Claim {
        /// Leases lost in a row, this one included.
        lost: u32,
        /// Whether it must be claimed alone.
        alone: bool,
    },
    /// Give it up as `crashed`.
    Crashed {
        /// Leases lost in a row, this one included.
        lost: u32,
    },
}

impl Progress {
    /// The one place that decides what an outcome leads to.
    ///
    /// `lost` and `late` are never settled: they are what a claim makes of a lease that ran out and
    /// of an answer that came after it. Given here, they leave the delivery due at once.
    pub fn after(&self, outcome: Outcome, policy: &RetryPolicy, situation: &Situation) -> Next {
        let ended = |state| Next { state, attempts: self.attempts, lost: 0 };
        match outcome {
            Outcome::Delivered => ended(State::Processed),
            Outcome::Rejected => ended(State::DeadLetter { class: DeadLetterClass::Rejected }),
            Outcome::Internal => ended(State::DeadLetter { class: DeadLetterClass::Internal }),
            Outcome::Failed | Outcome::Overloaded | Outcome::Misconfigured => {
                self.after_failure(DeadLetterClass::Exhausted, policy, situation)
            }
            Outcome::TimedOut | Outcome::Unreachable => {
                self.after_failure(DeadLetterClass::Unreachable, policy, situation)
            }
            Outcome::Lost | Outcome::Late => {
                Next { state: State::Retryable { due_at: situation.now }, attempts: self.attempts, lost: self.lost }
            }
        }
    }

    fn after_failure(&self, class: DeadLetterClass, policy: &RetryPolicy, situation: &Situation) -> Next {
        let attempts = self.attempts.saturating_add(u32::from(situation.counted));
        let wait = policy.delay(self.id, self.round, attempts.max(1));
        let wait = situation.retry_after.map_or(wait, |asked| wait.max(asked));
        let state = if situation.counted && self.is_over(attempts, policy, situation) {
            State::DeadLetter { class }
        } else {
            State::Retryable { due_at: situation.now.plus(wait) }
        };
        Next { state, attempts, lost: 0 }
    }

    fn is_over(&self, attempts: u32, policy: &RetryPolicy, situation: &Situation) -> bool {
        match policy.budget {
            Budget::Attempts(most) => attempts >= most,
            Budget::Time(most) => {
                let held = situation.held.saturating_sub(self.held_at_start);
                situation.now.since(self.round_started_at).saturating_sub(held) >= most
            }
        }
    }

    /// Whether it may take its worker with it, so that it must be claimed alone.
    pub fn is_suspect(&self) -> bool {
        self.lost >= SUSPECT_AT
    }

    /// What a claim makes of this delivery when it finds its lease over.
    pub fn after_lost_lease(&self) -> LeaseOver {
        let lost = self.lost.saturating_add(1);
        if lost >= LOST_LEASES_MAX {
            LeaseOver::Crashed { lost }
        } else {
            LeaseOver::Claim { lost, alone: Self { lost, ..*self }.is_suspect() }
        }
    }

    /// What handing a claim back unused leads to: due at once, and nothing counted.
    ///
    /// Before the first counted failure it is fresh again, after one it is a retry again.
    pub fn after_release(&self, now: Timestamp) -> State {
        if self.attempts == 0 { State::Received { due_at: Some(now) } } else { State::Retryable { due_at: now } }
    }

    /// A new round by an operator: due now, with a fresh budget. `None` when the state is open.
    pub fn after_replay(&self, state: &State, now: Timestamp, held: Duration) -> Option<(State, Self)> {
        let fresh = Self {
            id: self.id,
            round: self.round.saturating_add(1),
            round_started_at: now,
            held_at_start: held,
            attempts: 0,
            lost: 0,
        };
        state.is_ended().then_some((State::Received { due_at: Some(now) }, fresh))
    }
}

impl State {
    /// Whether an operator may give it up now: not while a worker holds it, and not twice; what
    /// was processed stays so.
    pub fn may_be_discarded(&self) -> bool {
        matches!(self, Self::Received { .. } | Self::Retryable { .. } | Self::DeadLetter { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_secs(1_000_000);
    const HOUR: Duration = Duration::from_hours(1);

    fn progress(attempts: u32, lost: u32) -> Progress {
        Progress {
            id: DeliveryId::new(1),
            round: 1,
            round_started_at: START,
            held_at_start: Duration::ZERO,
            attempts,
            lost,
        }
    }

    fn at(now: Timestamp) -> Situation {
        Situation { now, held: Duration::ZERO, counted: true, retry_after: None }
    }

    #[track_caller]
    fn check(outcome: Outcome, now: Timestamp, expected: State) {
        let next = progress(3, 2).after(outcome, &RetryPolicy::default(), &at(now));
        assert_eq!((next.state, next.lost), (expected, 0), "{outcome}");
    }

    fn dead(class: DeadLetterClass) -> State {
        State::DeadLetter { class }
    }

    #[test]
    fn every_outcome_leads_to_one_state() {
        let retry = State::Retryable { due_at: START.plus(RetryPolicy::default().delay(DeliveryId::new(1), 1, 4)) };
        check(Outcome::Delivered, START, State::Processed);
        check(Outcome::Rejected, START, dead(DeadLetterClass::Rejected));
        check(Outcome::Internal, START, dead(DeadLetterClass::Internal));
        for outcome in
            [Outcome::Failed, Outcome::Overloaded, Outcome::Misconfigured, Outcome::TimedOut, Outcome::Unreachable]
        {
            check(outcome, START, retry);
        }
    }

    #[test]
    fn article_54_55_every_failing_outcome_ends_in_the_dead_letters_once_the_budget_is_over() {
        let over = START.plus(72 * HOUR);
        for outcome in [Outcome::Failed, Outcome::Overloaded, Outcome::Misconfigured] {
            check(outcome, over, dead(DeadLetterClass::Exhausted));
        }
        for outcome in [Outcome::TimedOut, Outcome::Unreachable] {
            check(outcome, over, dead(DeadLetterClass::Unreachable));
        }
    }

    #[test]
    fn article_s2_the_window_is_three_days_and_excludes_held_time() {
        let fail = |now, held, counted| {
            let situation = Situation { held, counted, ..at(now) };
            progress(40, 0).after(Outcome::Failed, &RetryPolicy::default(), &situation).state.is_ended()
        };
        assert!(!fail(START.plus(72 * HOUR).minus(Duration::from_millis(1)), Duration::ZERO, true));
        assert!(fail(START.plus(72 * HOUR), Duration::ZERO, true));
        assert!(!fail(START.plus(73 * HOUR), 2 * HOUR, true));
        assert!(fail(START.plus(74 * HOUR), 2 * HOUR, true));
        assert!(!fail(START.plus(1000 * HOUR), Duration::ZERO, false), "only a counted failure expires a delivery");
    }

    #[test]
    fn the_article_preset_gives_up_at_the_fifth_counted_failure() {
        let fail = |attempts| progress(attempts, 0).after(Outcome::Failed, &RetryPolicy::article(), &at(START));
        assert!(!fail(3).state.is_ended());
        assert_eq!(fail(4).state, dead(DeadLetterClass::Exhausted));
        assert_eq!(fail(4).attempts, 5);
    }

    #[test]
    fn a_longer_retry_after_is_obeyed_and_a_shorter_one_is_not() {
        let due = |asked| {
            let situation = Situation { retry_after: Some(Duration::from_secs(asked)), ..at(START) };
            progress(0, 0).after(Outcome::Overloaded, &RetryPolicy::default(), &situation).state.due_at()
        };
        assert_eq!(due(60), Some(START.plus(Duration::from_mins(1))));
        assert_eq!(due(0), Some(START.plus(RetryPolicy::default().delay(DeliveryId::new(1), 1, 1))));
    }

    #[test]
    fn a_lost_lease_is_counted_apart_and_the_fifth_in_a_row_crashes() {
        assert_eq!(progress(0, 0).after_lost_lease(), LeaseOver::Claim { lost: 1, alone: false });
        assert_eq!(progress(0, 1).after_lost_lease(), LeaseOver::Claim { lost: 2, alone: true });
        assert_eq!(progress(0, 3).after_lost_lease(), LeaseOver::Claim { lost: 4, alone: true });
        assert_eq!(progress(0, 4).after_lost_lease(), LeaseOver::Crashed { lost: 5 });
    }

    #[test]
    fn a_replay_opens_a_new_round_of_an_ended_delivery_only() {
        let later = START.plus(HOUR);
        assert_eq!(progress(9, 1).after_replay(&State::Retryable { due_at: START }, later, HOUR), None);
        let (state, fresh) = progress(9, 1).after_replay(&State::Processed, later, HOUR).unwrap();
        assert_eq!(state, State::Received { due_at: Some(later) });
        assert_eq!(
            (fresh.round, fresh.attempts, fresh.lost, fresh.held_at_start, fresh.round_started_at),
            (2, 0, 0, HOUR, later)
        );
    }
}
