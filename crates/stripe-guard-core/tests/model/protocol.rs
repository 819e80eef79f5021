//! The verbs of the inbox: what each does to the world. What an outcome, a lost lease or an
//! operator leads to is asked of the core.

use stripe_guard_core::{Budget, DeadLetterClass, LeaseOver, Outcome, SUSPECT_AT, Situation, State, Timestamp};

use crate::bounds::{Answer, Bounds};
use crate::sights::Seen;
use crate::variants::Broken;
use crate::world::{Attempt, Columns, Delivery, Hold, NOW, STEP, Stage, World};

pub(crate) struct Inbox {
    pub(crate) bounds: Bounds,
    /// The rule that this inbox does not keep.
    pub(crate) broken: Option<Broken>,
    pub(crate) seen: Seen,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    StripeSends {
        event: usize,
    },
    /// The request is answered 503, or dies before its commit.
    RequestFails {
        event: usize,
    },
    Commit {
        event: usize,
    },
    Acknowledge {
        event: usize,
    },
    AcknowledgementIsLost {
        event: usize,
    },
    /// A worker sees that a delivery is due, and does no more: only in a variant.
    Find {
        worker: usize,
        delivery: usize,
    },
    Claim {
        worker: usize,
        batch: Vec<usize>,
    },
    Send {
        worker: usize,
        hold: usize,
    },
    Answer {
        worker: usize,
        hold: usize,
        answer: Answer,
    },
    Settle {
        worker: usize,
        hold: usize,
        answer_is_lost: bool,
    },
    Release {
        worker: usize,
        hold: usize,
    },
    Crash {
        worker: usize,
    },
    TimePasses,
    BreakerTurns,
    /// By a copy from Stripe or by an operator's `retry-now`.
    Hurry {
        delivery: usize,
    },
    Replay {
        delivery: usize,
    },
    Discard {
        delivery: usize,
    },
}

impl Inbox {
    pub(crate) fn new(bounds: Bounds, broken: Option<Broken>) -> Self {
        Self { bounds, broken, seen: Seen::default() }
    }

    pub(crate) fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    pub(crate) fn apply(&self, world: &mut World, action: &Action) {
        match *action {
            Action::StripeSends { event } => {
                world.events[event].sends = world.events[event].sends.saturating_add(1);
                world.events[event].arrived += 1;
            }
            Action::RequestFails { event } => {
                world.events[event].arrived -= 1;
                world.events[event].acknowledged |= self.is(Broken::AnyErrorIsADuplicate);
            }
            Action::Commit { event } => self.commit(world, event),
            Action::Acknowledge { event } => {
                let under_way = &mut world.events[event];
                under_way.committed = under_way.committed.saturating_sub(1);
                under_way.acknowledged = true;
            }
            Action::AcknowledgementIsLost { event } => world.events[event].committed -= 1,
            Action::Find { worker, delivery } => world.workers[worker].found = Some(delivery),
            Action::Claim { worker, ref batch } => {
                for &delivery in batch {
                    self.claim(world, worker, delivery);
                }
            }
            Action::Send { worker, hold } => {
                let counted = !world.breaker_open;
                world.workers[worker].holds[hold].stage = Stage::Sent { counted };
            }
            Action::Answer { worker, hold, answer } => self.answer(world, worker, hold, answer),
            Action::Settle { worker, hold, answer_is_lost } => {
                self.settle(world, worker, hold);
                if !answer_is_lost {
                    world.workers[worker].holds.remove(hold);
                }
            }
            Action::Release { worker, hold } => {
                let hold = world.workers[worker].holds.remove(hold);
                self.release(world, &hold);
            }
            Action::Crash { worker } => world.workers[worker].holds.clear(),
            Action::TimePasses => self.time_passes(world),
            Action::BreakerTurns => world.breaker_open = !world.breaker_open,
            Action::Hurry { delivery } => self.hurry(world, delivery),
            Action::Replay { delivery } => self.replay(world, delivery),
            Action::Discard { delivery } => {
                put(world, delivery, &State::Discarded);
                self.let_the_next_go(world, Broken::DiscardLeavesTheLaneParked);
            }
        }
    }

    fn commit(&self, world: &mut World, event: usize) {
        world.events[event].arrived -= 1;
        let copy_of = world.deliveries[event].as_ref().and_then(Delivery::state);
        if copy_of.is_none() || !self.is(Broken::ACopyIsRefused) {
            world.events[event].committed += 1;
        }
        let fresh = State::Received { due_at: Some(NOW) };
        match copy_of {
            None => {
                let state = if self.bounds.lane { behind_the_head(world) } else { fresh };
                world.deliveries[event] = Some(Delivery::new(event, state, world.held));
            }
            Some(_) if self.is(Broken::ACopyStartsAnew) => put(world, event, &fresh),
            Some(State::DeadLetter { .. }) if self.is(Broken::ACopyRevivesADeadLetter) => put(world, event, &fresh),
            Some(State::Retryable { .. }) if self.is(Broken::ACopyGoesOnWithoutAClaim) => {
                if let Some(worker) = world.workers.iter().position(|worker| worker.holds.is_empty()) {
                    self.hold(world, worker, event);
                }
            }
            Some(_) => (),
        }
    }

    /// Whether a claim takes it now.
    pub(crate) fn is_due(&self, delivery: &Delivery) -> bool {
        let excluded = match (self.broken, delivery.state()) {
            (Some(Broken::ExhaustedIsNeverClaimed), Some(State::Retryable { .. })) => {
                matches!(self.bounds.budget, Budget::Attempts(most) if delivery.progress.attempts >= most)
            }
            (Some(Broken::CrashLeavesProcessing), Some(State::Processing { .. })) => true,
            _ => false,
        };
        !excluded && delivery.state().and_then(|state| state.due_at()).is_some_and(|due_at| due_at <= NOW)
    }

    /// Whether a claim must take nothing beside it.
    pub(crate) fn is_suspect(&self, delivery: &Delivery) -> bool {
        let lost = match delivery.progress.after_lost_lease() {
            LeaseOver::Claim { alone, .. } if delivery.is_processing() => alone,
            LeaseOver::Crashed { .. } if delivery.is_processing() => true,
            _ => delivery.progress.lost >= SUSPECT_AT,
        };
        lost && !self.is(Broken::SuspectsAreClaimedTogether)
    }

    fn claim(&self, world: &mut World, worker: usize, number: usize) {
        world.workers[worker].found = None;
        let Some(delivery) = world.deliveries[number].as_mut() else { return };
        if delivery.is_processing() && self.is_due(delivery) {
            delivery.record(Attempt {
                fence: delivery.fence,
                round: delivery.progress.round,
                outcome: Outcome::Lost,
                status: None,
                counted: false,
            });
            match delivery.progress.after_lost_lease() {
                _ if self.is(Broken::LostLeasesAreNotCounted) => (),
                LeaseOver::Claim { lost, .. } => delivery.progress.lost = lost,
                LeaseOver::Crashed { lost } => {
                    delivery.progress.lost = lost;
                    delivery.fence += 1;
                    delivery.put(&State::DeadLetter { class: DeadLetterClass::Crashed });
                    return self.let_the_next_go(world, Broken::CrashLeavesTheLaneParked);
                }
            }
        }
        delivery.fence += 1;
        if !self.is(Broken::StateStaysWhileSending) {
            delivery.put(&State::Processing { lease_until: self.end_of_lease() });
        }
        delivery.progress.attempts += u32::from(self.is(Broken::AttemptCountsAtClaim));
        self.hold(world, worker, number);
    }

    fn hold(&self, world: &mut World, worker: usize, number: usize) {
        let Some(delivery) = &world.deliveries[number] else { return };
        world.workers[worker].holds.push(Hold {
            delivery: number,
            fence: delivery.fence,
            lease_until: self.end_of_lease(),
            progress: delivery.progress,
            stage: Stage::Claimed,
        });
    }

    fn end_of_lease(&self) -> Timestamp {
        NOW.plus(STEP * self.bounds.lease)
    }

    fn answer(&self, world: &mut World, worker: usize, hold: usize, answer: Answer) {
        let hold = &mut world.workers[worker].holds[hold];
        let counted = !matches!(hold.stage, Stage::Sent { counted: false });
        let status = answer.status();
        let outcome = if self.is(Broken::Only200IsSuccess) && answer == Answer::Status(204) {
            Outcome::Failed
        } else {
            answer.outcome()
        };
        hold.stage = Stage::Answered { outcome, status, counted };
        let round = world.deliveries[hold.delivery].as_ref().map(|delivery| delivery.progress.round);
        if status.is_some_and(|status| (200..300).contains(&status)) && round == Some(hold.progress.round) {
            world.confirmed[hold.delivery] = 2.min(world.confirmed[hold.delivery] + 1);
        }
    }

    fn settle(&self, world: &mut World, worker: usize, hold: usize) {
        let Hold { delivery: number, fence, lease_until, progress, stage } = world.workers[worker].holds[hold];
        let Stage::Answered { outcome, status, counted } = stage else { return };
        let situation = Situation { now: NOW, held: world.held, counted, retry_after: None };
        let Some(delivery) = world.deliveries[number].as_mut() else { return };
        let settled = Attempt { fence, round: progress.round, outcome, status, counted };
        let same_fence = delivery.fence == fence || self.is(Broken::SettleWithoutFence);
        let in_state = delivery.is_processing() || self.is(Broken::SettleWithoutState);
        let in_time = lease_until > NOW || !self.is(Broken::SettleIsJudgedByTime);
        if !(same_fence && in_state && in_time) {
            let Some(row) = delivery.attempts.iter_mut().find(|attempt| attempt.fence == fence) else { return };
            if row.outcome == Outcome::Lost && outcome == Outcome::Delivered && self.is(Broken::LateIsASuccess) {
                *row = settled;
            } else if row.outcome == Outcome::Lost || self.is(Broken::LateOverwrites) {
                *row = Attempt { outcome: Outcome::Late, status, ..*row };
            }
            return;
        }
        let next = progress.after(outcome, &self.bounds.policy(), &situation);
        delivery.record(settled);
        delivery.put(&next.state);
        delivery.progress.attempts = next.attempts;
        delivery.progress.lost = next.lost;
        let exhausted = [Some(DeadLetterClass::Exhausted), Some(DeadLetterClass::Unreachable)];
        if exhausted.contains(&next.state.class()) {
            let due_at = if self.is(Broken::ExhaustedIsNeverClaimed) { Some(NOW) } else { None };
            if due_at.is_some() || self.is(Broken::ExhaustedHasNoDueTime) {
                delivery.columns = Columns { name: "retryable", due_at, parked: false, class: None };
            }
        }
        if delivery.is_ended() {
            self.let_the_next_go(world, Broken::SettleLeavesTheLaneParked);
        }
    }

    fn release(&self, world: &mut World, hold: &Hold) {
        let Some(delivery) = world.deliveries[hold.delivery].as_mut() else { return };
        let ours = delivery.fence == hold.fence && delivery.is_processing();
        if ours || self.is(Broken::ReleaseWithoutFence) {
            delivery.put(&hold.progress.after_release(NOW));
        }
    }

    fn hurry(&self, world: &mut World, number: usize) {
        match world.deliveries[number].as_ref().and_then(Delivery::state) {
            Some(State::Retryable { .. }) => put(world, number, &State::Retryable { due_at: NOW }),
            Some(State::Processing { .. }) if self.is(Broken::HurryOfAProcessing) => {
                put(world, number, &State::Processing { lease_until: NOW });
            }
            _ => (),
        }
    }

    fn replay(&self, world: &mut World, number: usize) {
        let Some(delivery) = &world.deliveries[number] else { return };
        let (Some(state), progress) = (delivery.state(), delivery.progress) else { return };
        let state = if self.is(Broken::ReplayOfAnOpen) { State::Processed } else { state };
        let Some((mut state, progress)) = progress.after_replay(&state, NOW, world.held) else { return };
        if self.bounds.lane {
            state = behind_the_head(world);
        }
        if let Some(delivery) = world.deliveries[number].as_mut() {
            delivery.put(&state);
            delivery.progress = progress;
            delivery.fence *= u32::from(!self.is(Broken::FenceStartsAnewAtReplay));
        }
        world.confirmed[number] = 0;
    }

    /// Un-parks the first follower when the head has ended.
    fn let_the_next_go(&self, world: &mut World, unless: Broken) {
        if !self.bounds.lane || self.is(unless) {
            return;
        }
        let is_parked = |delivery: &Delivery| delivery.state().is_some_and(|state| state.is_parked());
        if world.stored().any(|delivery| delivery.is_open() && !is_parked(delivery)) {
            return;
        }
        if let Some(next) = world.deliveries.iter_mut().flatten().find(|delivery| is_parked(delivery)) {
            next.put(&State::Received { due_at: Some(NOW) });
        }
    }

    fn time_passes(&self, world: &mut World) {
        let nearer = |time: Timestamp| time.minus(STEP).max(NOW);
        let held = world.held;
        let still_counts = |started: Timestamp, held_at_start| match self.bounds.budget {
            Budget::Time(most) => {
                world.breaker_open || NOW.since(started).saturating_sub(held.saturating_sub(held_at_start)) < most
            }
            Budget::Attempts(_) => false,
        };
        for delivery in world.deliveries.iter_mut().flatten() {
            delivery.columns.due_at = delivery.columns.due_at.map(nearer);
            let progress = &mut delivery.progress;
            if still_counts(progress.round_started_at, progress.held_at_start) {
                progress.round_started_at = progress.round_started_at.minus(STEP);
            }
        }
        for hold in world.workers.iter_mut().flat_map(|worker| &mut worker.holds) {
            hold.lease_until = nearer(hold.lease_until);
            if still_counts(hold.progress.round_started_at, hold.progress.held_at_start) {
                hold.progress.round_started_at = hold.progress.round_started_at.minus(STEP);
            }
        }
        if world.breaker_open {
            world.held += STEP;
        }
    }
}

/// Where a delivery of the lane begins: due, or parked while another is on its way.
fn behind_the_head(world: &World) -> State {
    let is_free = !world.stored().any(Delivery::is_open);
    State::Received { due_at: is_free.then_some(NOW) }
}

fn put(world: &mut World, delivery: usize, state: &State) {
    if let Some(delivery) = world.deliveries[delivery].as_mut() {
        delivery.put(state);
    }
}
