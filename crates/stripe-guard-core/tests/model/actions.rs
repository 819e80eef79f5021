//! Which steps a world can take.

use std::time::Duration;

use stateright::{Model, Property};

use crate::bounds::Answer;
use crate::protocol::{Action, Inbox};
use crate::rules;
use crate::variants::Broken;
use crate::world::{Delivery, Event, Hold, NOW, STEP, Stage, Worker, World};

impl Model for Inbox {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let mut world = World {
            events: vec![Event::default(); self.bounds.events],
            deliveries: vec![None; self.bounds.events],
            workers: vec![Worker::default(); self.bounds.workers],
            confirmed: vec![0; self.bounds.events],
            breaker_open: false,
            held: Duration::ZERO,
            violated: 0,
        };
        if self.bounds.sends_max == 0 {
            (0..self.bounds.events).for_each(|event| self.take_in(&mut world, event));
        }
        vec![world]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        // Asked once for each world, unlike `next_state`.
        self.seen.look(&self.bounds, world);
        for (event, under_way) in world.events.iter().enumerate() {
            self.of_stripe(event, under_way, actions);
        }
        for (number, worker) in world.workers.iter().enumerate() {
            for (hold, claim) in worker.holds.iter().enumerate() {
                self.of_a_hold(number, hold, claim, actions);
            }
            if !worker.holds.is_empty() && !self.bounds.poison {
                actions.push(Action::Crash { worker: number });
            }
        }
        self.claims(world, actions);
        for (delivery, stored) in world.deliveries.iter().enumerate() {
            if let Some(stored) = stored {
                self.of_an_operator(delivery, stored, actions);
            }
        }
        let is_held_out = world.held >= STEP * self.bounds.held_max;
        let workers_are_prompt = self.bounds.poison && world.holds().next().is_some();
        if !(workers_are_prompt || world.breaker_open && is_held_out) {
            actions.push(Action::TimePasses);
        }
        if world.breaker_open || !is_held_out {
            actions.push(Action::BreakerTurns);
        }
    }

    fn next_state(&self, before: &World, action: Action) -> Option<World> {
        let mut after = before.clone();
        self.apply(&mut after, &action);
        after.violated |= rules::broken_by(self, before, &action, &after);
        after.forget_who_is_who();
        (after != *before).then_some(after)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        rules::properties()
    }
}

impl Inbox {
    fn of_stripe(&self, event: usize, under_way: &Event, actions: &mut Vec<Action>) {
        if under_way.sends < self.bounds.sends_max {
            actions.push(Action::StripeSends { event });
        }
        if under_way.arrived > 0 {
            actions.extend([Action::RequestFails { event }, Action::Commit { event }]);
        }
        if under_way.committed > 0 {
            actions.extend([Action::Acknowledge { event }, Action::AcknowledgementIsLost { event }]);
        } else if under_way.arrived > 0 && self.is(Broken::AckBeforeCommit) {
            actions.push(Action::Acknowledge { event });
        }
    }

    fn of_a_hold(&self, worker: usize, hold: usize, claim: &Hold, actions: &mut Vec<Action>) {
        match claim.stage {
            Stage::Claimed => {
                if self.bounds.poison && claim.delivery == 0 {
                    return actions.push(Action::Crash { worker });
                }
                // Nothing is sent when the lease left is too short for it.
                if claim.lease_until > NOW {
                    actions.push(Action::Send { worker, hold });
                }
                if self.bounds.answers.contains(&Answer::BodyMissing) {
                    actions.push(Action::Answer { worker, hold, answer: Answer::BodyMissing });
                }
                if self.bounds.operator {
                    actions.push(Action::Release { worker, hold });
                }
            }
            Stage::Sent { .. } => {
                let answers = self.bounds.answers.iter().filter(|answer| **answer != Answer::BodyMissing);
                actions.extend(answers.map(|&answer| Action::Answer { worker, hold, answer }));
                // Cut off when the process stops.
                if self.bounds.operator {
                    actions.push(Action::Release { worker, hold });
                }
            }
            Stage::Answered { .. } => {
                actions.extend([false, true].map(|answer_is_lost| Action::Settle { worker, hold, answer_is_lost }));
            }
        }
    }

    /// Any due ones up to a batch, but a suspect alone.
    fn claims(&self, world: &World, actions: &mut Vec<Action>) {
        let is_idle = |worker: &Worker| worker.holds.is_empty();
        if self.is(Broken::ClaimIsNotAtomic) {
            for (worker, it) in world.workers.iter().enumerate().filter(|(_, it)| is_idle(it)) {
                actions.extend(it.found.map(|delivery| Action::Claim { worker, batch: vec![delivery] }));
                let due = self.due(world).map(|(delivery, _)| Action::Find { worker, delivery });
                actions.extend(due.filter(|_| it.found.is_none()));
            }
            return;
        }
        let Some(worker) = world.workers.iter().position(is_idle) else { return };
        actions.extend(self.due(world).map(|(delivery, _)| Action::Claim { worker, batch: vec![delivery] }));
        let together: Vec<_> = self.due(world).filter(|(_, it)| !self.is_suspect(it)).map(|(it, _)| it).collect();
        if self.bounds.batch > 1 && together.len() > 1 {
            actions.push(Action::Claim { worker, batch: together });
        }
    }

    fn due<'w>(&self, world: &'w World) -> impl Iterator<Item = (usize, &'w Delivery)> {
        let stored = world.deliveries.iter().enumerate().filter_map(|(number, it)| Some((number, it.as_ref()?)));
        stored.filter(|(_, delivery)| self.is_due(delivery) && delivery.fence < self.bounds.fence_max)
    }

    fn of_an_operator(&self, number: usize, delivery: &Delivery, actions: &mut Vec<Action>) {
        let Some(state) = delivery.state() else { return };
        let is_replayed = state.is_ended() || self.is(Broken::ReplayOfAnOpen);
        if is_replayed && delivery.progress.round < self.bounds.rounds_max {
            actions.push(Action::Replay { delivery: number });
        }
        if self.bounds.operator {
            let against_the_rule = self.is(Broken::DiscardOfAProcessing) && delivery.is_processing();
            if state.may_be_discarded() || against_the_rule {
                actions.push(Action::Discard { delivery: number });
            }
            if !state.is_ended() {
                actions.push(Action::Hurry { delivery: number });
            }
        }
    }
}
