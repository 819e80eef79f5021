//! In which order what is sent: a function of the seed.

use std::collections::VecDeque;

use crate::rng::{Rng, mix};

/// As many events are shuffled among themselves.
const BLOCK: u64 = 16;

/// What the pretend Stripe is going to send: how many events, and how untidily.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Everything below is drawn from it.
    pub seed: u64,
    /// How many different events; they are numbered from 0.
    pub events: u64,
    /// How many events of a hundred are sent twice, byte for byte, close together.
    pub duplicate_percent: u8,
    /// How many blocks of 16 events of a hundred are sent in reverse.
    pub reverse_percent: u8,
    /// How many events of a hundred are followed by a much older one, sent again.
    pub resend_percent: u8,
    /// Whether and when the secret is rolled.
    pub roll: Option<Roll>,
}

/// The rolling of a secret, by numbers of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roll {
    /// From the block of this event on both secrets sign.
    pub both_from: u64,
    /// From the block of this event on only the new one does.
    pub new_from: u64,
}

/// One thing that the pretend Stripe does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Sends an event.
    Send {
        /// The event's number.
        number: u64,
        /// Why.
        why: Why,
    },
    /// Begins to sign with the new secret as well.
    RollBegins,
    /// Ceases to sign with the old secret.
    RollEnds,
}

/// Why an event is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is new.
    First,
    /// The same bytes again, close to the first ones.
    Duplicate,
    /// Again much later, with another count of pending deliveries in its body.
    Resend,
}

impl Plan {
    /// So many events, each once and in order.
    pub const fn tidy(seed: u64, events: u64) -> Self {
        Self { seed, events, duplicate_percent: 0, reverse_percent: 0, resend_percent: 0, roll: None }
    }

    /// So many events with everything that Stripe does not promise to spare its receivers, except
    /// a rolled secret.
    pub const fn untidy(seed: u64, events: u64) -> Self {
        Self { duplicate_percent: 10, reverse_percent: 30, resend_percent: 5, ..Self::tidy(seed, events) }
    }

    /// The steps, lazily: a plan of any length takes no memory.
    pub fn steps(&self) -> Steps {
        Steps { plan: *self, block: 0, ready: VecDeque::new() }
    }

    /// The steps of one block, which depend on nothing but the seed and the block's number.
    fn block(&self, block: u64) -> VecDeque<Step> {
        let mut rng = Rng::new(mix(self.seed, block));
        let start = block.saturating_mul(BLOCK);
        let numbers = start..start.saturating_add(BLOCK).min(self.events);
        let send = |number, why| Step::Send { number, why };
        let mut steps: VecDeque<Step> = numbers.clone().map(|number| send(number, Why::First)).collect();
        if rng.percent(self.reverse_percent) {
            steps.make_contiguous().reverse();
        }
        for number in numbers.clone() {
            if rng.percent(self.duplicate_percent) {
                let first = steps.iter().position(|step| *step == send(number, Why::First)).unwrap_or(0) as u64;
                let behind = first + 1 + rng.below(steps.len() as u64 - first);
                steps.insert(usize::try_from(behind).unwrap_or(0), send(number, Why::Duplicate));
            }
            if rng.percent(self.resend_percent) && start > 0 {
                let at = usize::try_from(rng.below(steps.len() as u64 + 1)).unwrap_or(0);
                steps.insert(at, send(rng.below(start), Why::Resend));
            }
        }
        if let Some(roll) = self.roll {
            if numbers.contains(&roll.new_from) {
                steps.push_front(Step::RollEnds);
            }
            if numbers.contains(&roll.both_from) {
                steps.push_front(Step::RollBegins);
            }
        }
        steps
    }
}

/// The steps of a [`Plan`], in order.
#[derive(Clone, Debug)]
pub struct Steps {
    plan: Plan,
    block: u64,
    ready: VecDeque<Step>,
}

impl Iterator for Steps {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.ready.is_empty() && self.block.saturating_mul(BLOCK) < self.plan.events {
            self.ready = self.plan.block(self.block);
            self.block += 1;
        }
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(plan: &Plan, wanted: Why) -> Vec<u64> {
        plan.steps()
            .filter_map(|step| match step {
                Step::Send { number, why } if why == wanted => Some(number),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn a_tidy_plan_sends_each_event_once_in_order() {
        assert_eq!(numbers(&Plan::tidy(1, 50), Why::First), (0..50).collect::<Vec<_>>());
        assert_eq!(Plan::tidy(1, 50).steps().count(), 50);
        assert_eq!(Plan::tidy(1, 0).steps().count(), 0);
    }

    #[test]
    fn the_same_seed_gives_the_same_untidy_sequence_and_another_seed_another() {
        let steps = |seed| Plan::untidy(seed, 1000).steps().collect::<Vec<_>>();
        assert_eq!(steps(5), steps(5));
        assert_ne!(steps(5), steps(6));
    }

    #[test]
    fn an_untidy_plan_sends_every_event_and_has_duplicates_resends_and_reversals() {
        let plan = Plan::untidy(3, 2000);
        let mut first = numbers(&plan, Why::First);
        assert!(!first.is_sorted());
        first.sort_unstable();
        assert_eq!(first, (0..2000).collect::<Vec<_>>());
        assert!((140..260).contains(&numbers(&plan, Why::Duplicate).len()));
        assert!((60..140).contains(&numbers(&plan, Why::Resend).len()));
    }

    #[test]
    fn nothing_is_duplicated_or_resent_before_it_was_sent() {
        let mut sent = std::collections::HashSet::new();
        for step in Plan::untidy(4, 2000).steps() {
            match step {
                Step::Send { number, why: Why::First } => assert!(sent.insert(number)),
                Step::Send { number, .. } => assert!(sent.contains(&number)),
                Step::RollBegins | Step::RollEnds => panic!("no roll was asked for"),
            }
        }
    }

    #[test]
    fn a_secret_is_rolled_in_two_steps() {
        let plan = Plan { roll: Some(Roll { both_from: 20, new_from: 40 }), ..Plan::tidy(1, 100) };
        let at = |wanted| plan.steps().position(|step| step == wanted);
        assert_eq!((at(Step::RollBegins), at(Step::RollEnds)), (Some(16), Some(33)));
    }
}
