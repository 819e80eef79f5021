//! A small seeded generator: the same seed gives the same numbers, everywhere and for ever.

/// SplitMix64. Good enough to vary test data; never for secrets.
#[derive(Clone, Debug)]
pub struct Rng(u64);

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl Rng {
    /// A generator that begins at this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        finish(self.0)
    }

    /// A number from 0 up to and without `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(end);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// True in this many cases of a hundred.
    pub fn percent(&mut self, percent: u8) -> bool {
        self.below(100) < u64::from(percent)
    }
}

/// One number of a numbered series: for a fixed `seed`, different `n` give different numbers.
pub(crate) fn mix(seed: u64, n: u64) -> u64 {
    finish(finish(seed.wrapping_add(STEP)).wrapping_add(n.wrapping_mul(STEP)))
}

/// A bijection, so that what goes in different comes out different.
const fn finish(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        let mut rng = Rng::new(1_234_567);
        let numbers: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(numbers, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn a_number_below_an_end_is_below_it() {
        let mut rng = Rng::new(7);
        assert!((0..1000).all(|_| rng.below(3) < 3));
        assert_eq!(rng.below(0), 0);
        let hits = (0..10_000).filter(|_| rng.percent(30)).count();
        assert!((2_800..3_200).contains(&hits), "{hits}");
    }
}
