//! When Stripe tries again.

use std::time::Duration;

use crate::rng::{Rng, mix};

/// Stripe's retries after an answer that is not 2xx, or none at all.
///
/// Stripe publishes no intervals: exponential, for up to three days in live mode and three times
/// over a few hours in a sandbox. Here the waits are 5 minutes, doubling up to 12 hours, each
/// spread by ±20 %; all of it can be scaled down so that a test sees three days in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetrySchedule {
    first: Duration,
    longest: Duration,
    window: Duration,
    retries_max: u32,
}

impl RetrySchedule {
    /// No retries.
    pub const NONE: Self =
        Self { first: Duration::ZERO, longest: Duration::ZERO, window: Duration::ZERO, retries_max: 0 };

    /// Live mode: up to three days.
    pub const fn live() -> Self {
        Self {
            first: Duration::from_mins(5),
            longest: Duration::from_hours(12),
            window: Duration::from_hours(72),
            retries_max: 16,
        }
    }

    /// A sandbox account: three retries.
    pub const fn sandbox() -> Self {
        Self { retries_max: 3, ..Self::live() }
    }

    /// Not Stripe's: again and again, about `wait` apart, until there is a 2xx. For drills.
    pub const fn every(wait: Duration) -> Self {
        Self { first: wait, longest: wait, window: Duration::MAX, retries_max: u32::MAX }
    }

    /// The same schedule this many times faster; 100,000 makes three days 2.6 seconds.
    #[must_use]
    pub fn faster(self, times: u32) -> Self {
        let times = times.max(1);
        Self {
            first: self.first / times,
            longest: self.longest / times,
            window: self.window / times,
            retries_max: self.retries_max,
        }
    }

    /// The same schedule with another bound on the number of retries.
    #[must_use]
    pub const fn retries_max(mut self, retries_max: u32) -> Self {
        self.retries_max = retries_max;
        self
    }

    /// The wait before retry `retry` (1 is the first), `since_first` after the first attempt;
    /// `None` when it is given up. The spread is a function of `seed` and `retry`.
    pub fn wait(&self, seed: u64, retry: u32, since_first: Duration) -> Option<Duration> {
        if retry == 0 || retry > self.retries_max {
            return None;
        }
        let doubled = self.first.saturating_mul(2_u32.saturating_pow(retry - 1)).min(self.longest);
        let per_mille = 800 + Rng::new(mix(seed, u64::from(retry))).below(401);
        let wait = doubled.saturating_mul(u32::try_from(per_mille).unwrap_or(1000)) / 1000;
        (since_first.saturating_add(wait) <= self.window).then_some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(schedule: RetrySchedule, seed: u64) -> Vec<Duration> {
        let mut since_first = Duration::ZERO;
        (1..)
            .map_while(|retry| {
                let wait = schedule.wait(seed, retry, since_first)?;
                since_first += wait;
                Some(wait)
            })
            .collect()
    }

    #[test]
    fn live_retries_grow_and_end_within_three_days() {
        for seed in 0..100 {
            let waits = waits(RetrySchedule::live(), seed);
            assert!((10..=16).contains(&waits.len()), "{}", waits.len());
            let all: Duration = waits.iter().sum();
            assert!(all <= Duration::from_hours(72) && all > Duration::from_hours(50), "{all:?}");
            assert!(waits[..7].is_sorted());
        }
    }

    #[test]
    fn a_faster_schedule_is_the_same_one_in_less_time() {
        let slow = waits(RetrySchedule::live(), 9);
        let fast = waits(RetrySchedule::live().faster(1000), 9);
        assert_eq!(slow.len(), fast.len());
        assert!(slow.iter().zip(&fast).all(|(slow, fast)| (*slow / 1000).abs_diff(*fast) < Duration::from_millis(1)));
    }

    #[test]
    fn a_sandbox_retries_three_times_and_none_never() {
        assert_eq!(waits(RetrySchedule::sandbox(), 1).len(), 3);
        assert_eq!(waits(RetrySchedule::NONE, 1).len(), 0);
    }
}
