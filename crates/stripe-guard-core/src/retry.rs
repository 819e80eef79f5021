//! When the next attempt is, and when there is none.

use std::time::Duration;

use crate::DeliveryId;

/// How long a delivery may fail before it is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// This long from the start of the round, without the time its destination was held.
    Time(Duration),
    /// This many counted failures.
    Attempts(u32),
}

/// The retry schedule of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// When to give up.
    pub budget: Budget,
    /// No wait is shorter, except by the cap.
    pub floor: Duration,
    /// No wait is longer. Applied last.
    pub cap: Duration,
}

impl Default for RetryPolicy {
    /// The schedule of the article with the patience of Stripe: 72 hours, as its webhooks page
    /// says of live mode.
    fn default() -> Self {
        Self {
            budget: Budget::Time(Duration::from_hours(72)),
            floor: Duration::from_millis(500),
            cap: Duration::from_hours(1),
        }
    }
}

impl RetryPolicy {
    /// `preset = "article"`: five attempts instead of 72 hours.
    pub fn article() -> Self {
        Self { budget: Budget::Attempts(5), ..Self::default() }
    }

    /// The wait after the n-th counted failure of a round: 2^n seconds, spread by ±20 %, floor
    /// first, cap last, saturating all the way.
    ///
    /// Where in the spread is a hash of delivery, round and n: no generator, the same everywhere,
    /// and drawn once because it cannot be drawn twice.
    pub fn delay(&self, id: DeliveryId, round: u32, n: u32) -> Duration {
        let millis = 1000_u64.saturating_mul(2_u64.saturating_pow(n));
        // In parts per million, 800,000 to 1,200,000 inclusive.
        let parts = 800_000 + spread(id, round, n) % 400_001;
        let jittered = u64::try_from(u128::from(millis) * u128::from(parts) / 1_000_000).unwrap_or(u64::MAX);
        Duration::from_millis(jittered).max(self.floor).min(self.cap)
    }
}

/// SplitMix64 over the three numbers, each mixed in by a round of its own.
pub fn spread(id: DeliveryId, round: u32, n: u32) -> u64 {
    let seed = split_mix(split_mix(id.get().cast_unsigned()) ^ u64::from(round));
    split_mix(seed ^ u64::from(n))
}

fn split_mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(n: u32, least: u64, most: u64) {
        let policy = RetryPolicy::default();
        let mut seen = (Duration::MAX, Duration::ZERO);
        for id in 1..2000 {
            let wait = policy.delay(DeliveryId::new(id), 1, n);
            seen = (seen.0.min(wait), seen.1.max(wait));
        }
        assert!(seen.0 >= Duration::from_millis(least) && seen.1 <= Duration::from_millis(most), "n = {n}: {seen:?}");
        // The whole of the spread is used, within 1 %.
        let width = most - least;
        assert!(seen.0 <= Duration::from_millis(least + width / 100), "n = {n}: {seen:?}");
        assert!(seen.1 >= Duration::from_millis(most - width / 100), "n = {n}: {seen:?}");
    }

    #[test]
    fn the_wait_is_two_to_the_n_seconds_spread_by_a_fifth_in_every_bound() {
        check(0, 800, 1200);
        check(1, 1600, 2400);
        check(5, 25_600, 38_400);
        check(11, 1_638_400, 2_457_600);
        // 4,096 s × 0.8 = 3,277 s: the cap cuts the upper part off.
        check(12, 3_276_800, 3_600_000);
        for n in [13, 31, 32, 63, 64, 1 << 31, u32::MAX] {
            check(n, 3_600_000, 3_600_000);
        }
    }

    #[test]
    fn article_83_the_cap_comes_last_and_the_floor_is_real() {
        let floor = RetryPolicy { floor: Duration::from_secs(5), ..RetryPolicy::default() };
        assert_eq!(floor.delay(DeliveryId::new(1), 1, 0), Duration::from_secs(5));
        let low_cap = RetryPolicy { cap: Duration::from_millis(100), ..RetryPolicy::default() };
        assert_eq!(low_cap.delay(DeliveryId::new(1), 1, 0), Duration::from_millis(100));
    }

    #[test]
    fn article_68_a_wait_is_drawn_once() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.delay(DeliveryId::new(9), 1, 4), policy.delay(DeliveryId::new(9), 1, 4));
        assert_ne!(policy.delay(DeliveryId::new(9), 1, 4), policy.delay(DeliveryId::new(9), 2, 4));
        assert_ne!(policy.delay(DeliveryId::new(9), 1, 4), policy.delay(DeliveryId::new(8), 1, 4));
    }

    proptest! {
        #[test]
        fn no_wait_leaves_its_bounds(id in any::<i64>(), round in any::<u32>(), n in any::<u32>()) {
            let wait = RetryPolicy::default().delay(DeliveryId::new(id), round, n);
            prop_assert!(wait >= Duration::from_millis(500) && wait <= Duration::from_hours(1));
        }
    }
}
