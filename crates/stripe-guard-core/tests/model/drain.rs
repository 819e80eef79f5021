//! From any world: all that is under way dies, everything heals, and every delivery must end.

use crate::bounds::Answer;
use crate::protocol::{Action, Inbox};
use crate::world::{Delivery, NOW, World};

/// Enough for two deliveries that lose every lease they may and then fail and wait in turn.
const STEPS_MAX: usize = 64;

impl Inbox {
    /// Whether every event that Stripe has sent is acknowledged, and every delivery ends, once the
    /// app is healthy, one worker lives and no operator helps.
    pub(crate) fn ends(&self, world: &World) -> bool {
        let mut world = world.clone();
        world.breaker_open = false;
        for worker in &mut world.workers {
            worker.holds.clear();
            worker.found = None;
        }
        for event in &mut world.events {
            (event.arrived, event.committed) = (0, 0);
        }
        for _ in 0..STEPS_MAX {
            self.stripe_resends(&mut world);
            let acknowledged = world.events.iter().all(|event| event.sends == 0 || event.acknowledged);
            if acknowledged && world.stored().all(Delivery::is_ended) {
                return true;
            }
            let due = |stored: &Option<Delivery>| stored.as_ref().is_some_and(|delivery| self.is_due(delivery));
            if let Some(number) = world.deliveries.iter().position(due) {
                self.deliver(&mut world, number);
            } else if world.stored().any(|delivery| delivery.columns.due_at.is_some_and(|due_at| due_at > NOW)) {
                self.apply(&mut world, &Action::TimePasses);
            } else if acknowledged {
                // Nothing is due, and nothing will be.
                return false;
            }
        }
        false
    }

    /// Stripe sends again what was not acknowledged.
    fn stripe_resends(&self, world: &mut World) {
        for event in 0..world.events.len() {
            if world.events[event].sends > 0 && !world.events[event].acknowledged {
                self.take_in(world, event);
            }
        }
    }

    /// One request that nothing happens to.
    pub(crate) fn take_in(&self, world: &mut World, event: usize) {
        self.apply(world, &Action::StripeSends { event });
        self.apply(world, &Action::Commit { event });
        if world.events[event].committed > 0 {
            self.apply(world, &Action::Acknowledge { event });
        }
    }

    fn deliver(&self, world: &mut World, number: usize) {
        let (worker, hold) = (0, 0);
        self.apply(world, &Action::Claim { worker, batch: vec![number] });
        if world.workers[worker].holds.is_empty() {
            return;
        }
        if self.bounds.poison && number == 0 {
            return self.apply(world, &Action::Crash { worker });
        }
        self.apply(world, &Action::Send { worker, hold });
        self.apply(world, &Action::Answer { worker, hold, answer: Answer::Status(200) });
        self.apply(world, &Action::Settle { worker, hold, answer_is_lost: false });
    }
}
