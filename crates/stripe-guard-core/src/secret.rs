//! Signing secrets: loaded strictly, never shown.

use std::fmt;

use hmac::{Hmac, KeyInit};
use sha2::{Digest as _, Sha256};

/// The fewest characters of a secret. Stripe's have 38; below this a guess is feasible.
pub const SECRET_CHARS_MIN: usize = 12;

/// Why a text cannot serve as a signing secret. Never holds the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSecret {
    /// Nothing is left after trimming.
    #[error("is empty")]
    Empty,
    /// Shorter than [`SECRET_CHARS_MIN`].
    #[error("is shorter than {SECRET_CHARS_MIN} characters")]
    TooShort,
    /// It is an example from a manual, not a secret.
    #[error("is a placeholder, not a secret: copy the signing secret from Stripe's dashboard")]
    Placeholder,
    /// Control characters inside: two secrets in one, or a broken file.
    #[error("has control characters inside")]
    ControlCharacters,
}

/// A signing secret, ready for use: the keyed HMAC state, computed once, and a label.
///
/// It cannot be printed, serialised or compared.
#[derive(Clone)]
pub struct SigningSecret {
    keyed: Hmac<Sha256>,
    label: String,
    trimmed: bool,
}

impl SigningSecret {
    /// Reads a secret. White space and line ends around it are dropped; the key is all of the
    /// rest as UTF-8, `whsec_` included. Its label is a fingerprint of 8 hex digits.
    pub fn parse(raw: &str) -> Result<Self, BadSecret> {
        let text = raw.trim();
        if text.is_empty() {
            return Err(BadSecret::Empty);
        }
        if text.chars().any(char::is_control) {
            return Err(BadSecret::ControlCharacters);
        }
        if is_placeholder(text) {
            return Err(BadSecret::Placeholder);
        }
        if text.chars().count() < SECRET_CHARS_MIN {
            return Err(BadSecret::TooShort);
        }
        Ok(Self {
            keyed: Hmac::new_from_slice(text.as_bytes()).expect("HMAC takes a key of any length"),
            label: fingerprint(text),
            trimmed: text.len() != raw.len(),
        })
    }

    /// The same secret under a name that an operator chose.
    #[must_use]
    pub fn labelled(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// What the records call this secret.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Whether white space around it was dropped, which deserves a line in the start-up log.
    pub fn was_trimmed(&self) -> bool {
        self.trimmed
    }

    pub(crate) fn mac(&self) -> Hmac<Sha256> {
        self.keyed.clone()
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(redacted)")
    }
}

/// Four bytes of a hash in a domain of its own: enough to tell two secrets apart in a list, too
/// few to confirm a guess.
fn fingerprint(text: &str) -> String {
    let hash = Sha256::new().chain_update(b"stripe-guard secret label\0").chain_update(text.as_bytes()).finalize();
    format!("{:08x}", u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]))
}

fn is_placeholder(text: &str) -> bool {
    const MARKS: &[&str] = &[
        "your_",
        "your-",
        "_here",
        "changeme",
        "change_me",
        "change-me",
        "replace_me",
        "replaceme",
        "placeholder",
        "example",
        "...",
        "…",
        "xxxxxx",
        "****",
        "<",
        ">",
        "{",
        "}",
        "insert_",
    ];
    // Stripe's secrets are letters and digits. The marks made of those alone are long enough that a
    // real one has one of them by chance once in hundreds of millions.
    let lower = text.to_lowercase();
    let bare = lower.strip_prefix("whsec_").unwrap_or(&lower);
    let uniform = bare.chars().next().is_none_or(|first| bare.chars().all(|c| c == first));
    uniform
        || matches!(
            bare,
            "secret"
                | "test"
                | "none"
                | "null"
                | "undefined"
                | "default"
                | "todo"
                | "fallback_secret"
                | "default_secret"
                | "test_secret"
        )
        || MARKS.iter().any(|mark| lower.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(raw: &str, expected: Result<(), BadSecret>) {
        assert_eq!(SigningSecret::parse(raw).map(|_| ()), expected, "{raw:?}");
    }

    #[test]
    fn article_26_no_empty_blank_short_or_placeholder_secret_is_taken() {
        check("", Err(BadSecret::Empty));
        check(" \t\r\n", Err(BadSecret::Empty));
        check("whsec_short", Err(BadSecret::TooShort));
        check("whsec_", Err(BadSecret::Placeholder));
        check("whsec_...", Err(BadSecret::Placeholder));
        check("whsec_…", Err(BadSecret::Placeholder));
        check("whsec_xxxxxxxxxxxxxxxxxxxx", Err(BadSecret::Placeholder));
        check("whsec_your_signing_secret", Err(BadSecret::Placeholder));
        check("<your webhook secret>", Err(BadSecret::Placeholder));
        check("${STRIPE_WEBHOOK_SECRET}", Err(BadSecret::Placeholder));
        check("whsec_0000000000000000", Err(BadSecret::Placeholder));
        check("whsec_fallback_secret", Err(BadSecret::Placeholder));
        check("whsec_one_one_one\nwhsec_two_two_two", Err(BadSecret::ControlCharacters));
    }

    #[test]
    fn a_real_secret_is_taken_with_stray_white_space_round_it() {
        let secret = SigningSecret::parse("whsec_test_7kQm3VxB9nRt2LpYc5HdWf8ZgJ4sAe6U\n").unwrap();
        assert!(secret.was_trimmed());
        check("no-prefix-needed-at-all", Ok(()));
    }

    #[test]
    fn a_secret_does_not_print_itself() {
        let secret = SigningSecret::parse("whsec_test_7kQm3VxB9nRt2LpYc5HdWf8ZgJ4sAe6U").unwrap();
        assert_eq!(format!("{secret:?}"), "SigningSecret(redacted)");
        assert_eq!(secret.label().len(), 8);
    }
}
