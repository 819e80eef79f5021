//! Stripe's webhook signature scheme, both ways.
//!
//! The rules are those of Stripe's "Receive Stripe events in your webhook endpoint" page, made
//! strict where the official libraries disagree; `testdata/vectors` holds the verdicts.

use std::{fmt, fmt::Write as _, time::Duration};

use bytes::Bytes;
use hmac::Mac;

use crate::{SigningSecret, Timestamp};

/// What one unverified header may make us read. Stripe's has about 80 bytes for each active secret.
pub const HEADER_BYTES_MAX: usize = 16 * 1024;

/// Why a signature proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// There is no `Stripe-Signature` header, or it is empty.
    #[error("there is no Stripe-Signature header")]
    HeaderMissing,
    /// Longer than [`HEADER_BYTES_MAX`].
    #[error("the Stripe-Signature header is longer than {HEADER_BYTES_MAX} bytes")]
    HeaderTooLong,
    /// CR, LF or NUL in the header, no `t`, a `t` that is no plain number, or no `v1` of 64 hex digits.
    #[error("the Stripe-Signature header is malformed")]
    Malformed,
    /// Two different times.
    #[error("the Stripe-Signature header holds two different times")]
    Ambiguous,
    /// No signature was made with a configured secret over these bytes.
    #[error("no configured secret matches")]
    NoSecretMatches,
    /// A configured secret signed it, too long ago or too far ahead.
    #[error("the timestamp is outside the tolerance: our clock minus Stripe's is {skew_seconds} s")]
    OutsideTolerance {
        /// Our time minus the signed time, in seconds. Proven, since the signature matched.
        skew_seconds: i64,
    },
}

impl SignatureError {
    /// The reason's class in metrics and output.
    pub const fn class(self) -> &'static str {
        match self {
            Self::HeaderMissing => "header_missing",
            Self::HeaderTooLong => "header_too_long",
            Self::Malformed => "header_malformed",
            Self::Ambiguous => "header_ambiguous",
            Self::NoSecretMatches => "no_secret_matches",
            Self::OutsideTolerance { .. } => "outside_tolerance",
        }
    }
}

/// How far the signed time may be from ours, in either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tolerance(i64);

impl Tolerance {
    /// The check of the time is off; that of the signature is not.
    pub const OFF: Self = Self(0);

    /// A tolerance in whole seconds; zero switches the check off, as Stripe documents it.
    pub fn from_secs(secs: u32) -> Self {
        Self(i64::from(secs))
    }

    /// As a duration.
    pub fn as_duration(self) -> Duration {
        Duration::from_secs(self.0.unsigned_abs())
    }
}

impl Default for Tolerance {
    /// 300 s, the default of Stripe's libraries.
    fn default() -> Self {
        Self(300)
    }
}

/// Bytes whose origin is proven. Only [`verify`] makes one.
#[derive(Clone)]
pub struct Verified {
    body: Bytes,
    label: String,
    skew_seconds: i64,
}

impl fmt::Debug for Verified {
    /// Without the body, which no log may hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verified({} bytes by {})", self.body.len(), self.label)
    }
}

impl Verified {
    /// The bytes as received.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The label of the secret that matched.
    pub fn secret_label(&self) -> &str {
        &self.label
    }

    /// Our time minus the signed time, in seconds: how far the clocks are apart, transport included.
    pub fn skew_seconds(&self) -> i64 {
        self.skew_seconds
    }

    pub(crate) fn into_parts(self) -> (Bytes, String) {
        (self.body, self.label)
    }
}

/// Proves that `body` was signed by the holder of one of `secrets`, not longer than `tolerance`
/// ago or ahead.
///
/// Every `v1` is tried with every secret, in constant time; the signature is judged before the
/// time, so that only the holder of a secret learns anything about our clock.
pub fn verify<'s>(
    body: Bytes,
    header: &[u8],
    secrets: impl IntoIterator<Item = &'s SigningSecret>,
    now: Timestamp,
    tolerance: Tolerance,
) -> Result<Verified, SignatureError> {
    let header = Header::parse(header)?;
    let mut matched = None;
    for secret in secrets {
        let mut mac = secret.mac();
        mac.update(header.time_text);
        mac.update(b".");
        mac.update(&body);
        for signature in &header.signatures {
            let good = mac.clone().verify_slice(signature).is_ok();
            if good && matched.is_none() {
                matched = Some(secret);
            }
        }
    }
    let label = matched.ok_or(SignatureError::NoSecretMatches)?.label().to_owned();
    let skew_seconds = now.as_secs().saturating_sub(header.time);
    if tolerance != Tolerance::OFF && skew_seconds.saturating_abs() > tolerance.0 {
        return Err(SignatureError::OutsideTolerance { skew_seconds });
    }
    Ok(Verified { body, label, skew_seconds })
}

/// The value of a `Stripe-Signature` header over `body`: one `v1` for every secret, as Stripe
/// sends while a secret is being rolled.
pub fn sign(secrets: &[&SigningSecret], now: Timestamp, body: &[u8]) -> String {
    let time = now.as_secs().to_string();
    let mut header = String::with_capacity(16 + 69 * secrets.len());
    header.push_str("t=");
    header.push_str(&time);
    for secret in secrets {
        let mut mac = secret.mac();
        mac.update(time.as_bytes());
        mac.update(b".");
        mac.update(body);
        header.push_str(",v1=");
        for byte in mac.finalize().into_bytes() {
            write!(header, "{byte:02x}").expect("a String takes any text");
        }
    }
    header
}

struct Header<'h> {
    time_text: &'h [u8],
    time: i64,
    signatures: Vec<[u8; 32]>,
}

impl<'h> Header<'h> {
    fn parse(header: &'h [u8]) -> Result<Self, SignatureError> {
        if header.trim_ascii().is_empty() {
            return Err(SignatureError::HeaderMissing);
        }
        if header.len() > HEADER_BYTES_MAX {
            return Err(SignatureError::HeaderTooLong);
        }
        if header.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
            return Err(SignatureError::Malformed);
        }
        let mut time_text = None;
        let mut signatures = Vec::with_capacity(2);
        for item in header.split(|byte| *byte == b',') {
            let item = trim_blanks(item);
            let Some(equals) = item.iter().position(|byte| *byte == b'=') else { continue };
            let (name, value) = (&item[..equals], &item[equals + 1..]);
            match name {
                b"t" if time_text.is_some_and(|first| first != value) => return Err(SignatureError::Ambiguous),
                b"t" => time_text = Some(value),
                b"v1" => signatures.extend(digest_of_hex(value)),
                _ => {}
            }
        }
        let time_text = time_text.ok_or(SignatureError::Malformed)?;
        let time = plain_number(time_text).ok_or(SignatureError::Malformed)?;
        if signatures.is_empty() {
            return Err(SignatureError::Malformed);
        }
        Ok(Self { time_text, time, signatures })
    }
}

fn trim_blanks(mut item: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = item {
        item = rest;
    }
    item
}

/// ASCII digits without sign, blank or leading zero. What is signed is the text, so two spellings
/// of one number must not exist.
fn plain_number(text: &[u8]) -> Option<i64> {
    let plain = !text.is_empty() && text.iter().all(u8::is_ascii_digit) && (text.len() == 1 || text[0] != b'0');
    if plain { std::str::from_utf8(text).ok()?.parse().ok() } else { None }
}

fn digest_of_hex(hex: &[u8]) -> Option<[u8; 32]> {
    if hex.len() != 64 {
        return None;
    }
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(hex.chunks_exact(2)) {
        let nibble = |digit: u8| char::from(digit).to_digit(16).and_then(|n| u8::try_from(n).ok());
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_750_000_000);

    fn secret(text: &str) -> SigningSecret {
        SigningSecret::parse(text).unwrap()
    }

    #[track_caller]
    fn check(header: &str, expected: Result<(), SignatureError>) {
        let verdict = verify(
            Bytes::from_static(b"{}"),
            header.as_bytes(),
            [&secret("whsec_demo_alpha")],
            NOW,
            Tolerance::default(),
        );
        assert_eq!(verdict.map(|_| ()), expected, "{header:?}");
    }

    fn good() -> String {
        sign(&[&secret("whsec_demo_alpha")], NOW, b"{}")
    }

    #[test]
    fn a_header_says_why_it_is_refused() {
        check("", Err(SignatureError::HeaderMissing));
        check("  ", Err(SignatureError::HeaderMissing));
        check("v1=00", Err(SignatureError::Malformed));
        check("t=1,v1=00", Err(SignatureError::Malformed));
        check(&format!("{},t=5", good()), Err(SignatureError::Ambiguous));
        check(&"x".repeat(HEADER_BYTES_MAX + 1), Err(SignatureError::HeaderTooLong));
        check(&good(), Ok(()));
    }

    #[test]
    fn article_35_the_time_is_checked_on_both_sides() {
        for (offset, fine) in [(-301, false), (-300, true), (0, true), (300, true), (301, false)] {
            let time = Timestamp::from_secs(NOW.as_secs() + offset);
            let header = sign(&[&secret("whsec_demo_alpha")], time, b"{}");
            let expected = if fine { Ok(()) } else { Err(SignatureError::OutsideTolerance { skew_seconds: -offset }) };
            check(&header, expected);
        }
    }

    #[test]
    fn article_30_any_v1_made_with_any_secret_will_do_in_any_order() {
        let (old, new) = (secret("whsec_demo_alpha"), secret("whsec_demo_beta"));
        for pair in [[&old, &new], [&new, &old]] {
            let header = sign(&pair, NOW, b"{}");
            for known in [&old, &new] {
                let verified = verify(Bytes::from_static(b"{}"), header.as_bytes(), [known], NOW, Tolerance::default());
                assert_eq!(verified.unwrap().secret_label(), known.label());
            }
        }
    }

    #[test]
    fn the_sample_signature_of_the_field_faults_is_made() {
        let body = "{\"id\":\"evt_demo_0001\",\"object\":\"event\",\"type\":\"invoice.paid\",\"created\":1750000000,\"livemode\":false,\"pending_webhooks\":1,\"data\":{\"object\":{\"id\":\"in_demo_1\",\"object\":\"invoice\",\"note\":\"Café ☕ 東京\",\"rate\":1.0}}}";
        assert_eq!(
            sign(&[&secret("whsec_demo_alpha")], NOW, body.as_bytes()),
            "t=1750000000,v1=85a5cfa8753f3d2bf1ab561fa30deca4db82d09185e3f572fa2e26205fd5c98a"
        );
    }

    proptest! {
        #[test]
        fn no_header_makes_the_parser_panic_or_accept(header in prop::collection::vec(any::<u8>(), 0..300)) {
            let verdict = verify(Bytes::new(), &header, [&secret("whsec_demo_alpha")], NOW, Tolerance::OFF);
            prop_assert!(verdict.is_err());
        }

        #[test]
        fn what_is_signed_verifies_and_one_changed_byte_does_not(body in prop::collection::vec(any::<u8>(), 1..300), at in any::<prop::sample::Index>()) {
            let key = secret("whsec_demo_alpha");
            let header = sign(&[&key], NOW, &body);
            prop_assert!(verify(Bytes::from(body.clone()), header.as_bytes(), [&key], NOW, Tolerance::default()).is_ok());
            let mut changed = body;
            let at = at.index(changed.len());
            changed[at] ^= 1;
            prop_assert!(verify(Bytes::from(changed), header.as_bytes(), [&key], NOW, Tolerance::default()).is_err());
        }
    }
}
