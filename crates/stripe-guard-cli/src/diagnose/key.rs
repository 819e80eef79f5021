//! The keys that people make of a secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::Finding;
use crate::config::secret::Secret;

/// A key, and what it means if the signature was made with it.
pub(super) struct Candidate {
    /// The bytes that the HMAC is keyed with.
    pub(super) key: Vec<u8>,
    /// What to say then; nothing for the right key.
    pub(super) finding: Option<Finding>,
}

const PREFIX: &str = "whsec_";

/// The right key first, then the wrong ones.
pub(super) fn candidates(secret: &Secret) -> Vec<Candidate> {
    let text = secret.raw.trim();
    let mut all = vec![Candidate { key: text.as_bytes().to_vec(), finding: None }];
    let mut add = |key: Vec<u8>, class, message: &str| {
        all.push(Candidate { key, finding: Some(Finding::new(class, message)) });
    };
    if let Some(bare) = text.strip_prefix(PREFIX) {
        let message = "The signature was made with the secret without its whsec_: the key is the whole text.";
        add(bare.as_bytes().to_vec(), "secret_prefix_stripped", message);
    } else {
        let message = "The signature matches with whsec_ in front of the secret: give the whole text, whsec_ included.";
        add(format!("{PREFIX}{text}").into_bytes(), "secret_prefix_stripped", message);
    }
    let bare = text.strip_prefix(PREFIX).unwrap_or(text);
    if let Ok(decoded) = BASE64.decode(bare) {
        let message = "The signature was made with the secret decoded from base64, as Standard Webhooks does: for \
                       Stripe the key is the text itself.";
        add(decoded, "secret_base64_decoded", message);
    }
    let white_space =
        "The signature was made with white space as a part of the secret: trim it where the signer reads it.";
    if secret.raw != text {
        add(secret.raw.as_bytes().to_vec(), "secret_white_space", white_space);
    }
    for end in ["\n", "\r\n", " "] {
        add(format!("{text}{end}").into_bytes(), "secret_white_space", white_space);
    }
    let quotes = "The signature was made with quotes as a part of the secret, or without those given here.";
    for quote in ['"', '\''] {
        add(format!("{quote}{text}{quote}").into_bytes(), "secret_quoted", quotes);
        if let Some(inner) = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            add(inner.as_bytes().to_vec(), "secret_quoted", quotes);
        }
    }
    all
}
