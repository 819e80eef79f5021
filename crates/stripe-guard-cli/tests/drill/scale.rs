//! How much of a drill is run, and from which seed.

use stripe_guard_sandbox::Rng;

/// Whether the whole is asked for, by `STRIPE_GUARD_DRILL=full`.
pub(crate) fn is_full() -> bool {
    std::env::var("STRIPE_GUARD_DRILL").is_ok_and(|scale| scale == "full")
}

/// A number for the slice, or the one for the whole.
pub(crate) fn scaled(slice: u32, full: u32) -> u32 {
    if is_full() { full } else { slice }
}

/// A generator from `STRIPE_GUARD_DRILL_SEED`, or else from a seed of its own; either is printed.
pub(crate) fn rng(drill: &str) -> (u64, Rng) {
    let given = std::env::var("STRIPE_GUARD_DRILL_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = given.unwrap_or_else(|| Rng::new(u64::from(std::process::id())).next_u64() >> 32);
    println!("{drill}: STRIPE_GUARD_DRILL_SEED={seed}");
    (seed, Rng::new(seed))
}
