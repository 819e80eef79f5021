//! The search: which change to body, secret or message makes the signature right.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use stripe_guard_core::envelope;

use super::header::Reading;
use super::{Finding, Question, body, header, key};

/// What made the signature fail although the header is well-formed. Never empty.
pub(super) fn search(question: &Question<'_>, reading: &Reading) -> Vec<Finding> {
    let mut findings = by_body(question, reading)
        .or_else(|| by_key(question, reading))
        .or_else(|| by_message(question, reading))
        .map_or_else(|| vec![unknown(question)], |found| [found, time(question, reading)].concat());
    findings.extend(body::marks(question.body));
    findings
}

/// The signature as it should be, for other bytes than those received.
fn by_body(question: &Question<'_>, reading: &Reading) -> Option<Vec<Finding>> {
    let keys: Vec<&[u8]> = question.secrets.iter().map(|secret| secret.raw.trim().as_bytes()).collect();
    body::candidates(question.body)
        .find(|candidate| keys.iter().any(|key| is_signed(reading, key, &[&reading.time, b".", &candidate.bytes])))
        .map(|candidate| candidate.findings)
}

/// The signature over the bytes received, by another key.
fn by_key(question: &Question<'_>, reading: &Reading) -> Option<Vec<Finding>> {
    let candidates = question.secrets.iter().flat_map(key::candidates);
    let mut fitting = candidates.filter(|one| is_signed(reading, &one.key, &[&reading.time, b".", question.body]));
    fitting.next()?.finding.map(|finding| vec![finding])
}

/// The signature over another message than time, dot and body.
fn by_message(question: &Question<'_>, reading: &Reading) -> Option<Vec<Finding>> {
    let messages: [(&[&[u8]], &str); 3] = [
        (&[question.body], "The signature was made over the body alone: Stripe signs the time, a dot and the body."),
        (&[&reading.time, question.body], "The signature was made without the dot between the time and the body."),
        (&[question.body, b".", &reading.time], "The signature was made over body and time in the wrong order."),
    ];
    for candidate in question.secrets.iter().flat_map(key::candidates) {
        for (message, explanation) in messages {
            if is_signed(reading, &candidate.key, message) {
                let found = Finding::new("signed_without_timestamp", explanation);
                return Some([Some(found), candidate.finding].into_iter().flatten().collect());
            }
        }
    }
    None
}

fn is_signed(reading: &Reading, key: &[u8], message: &[&[u8]]) -> bool {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    for part in message {
        mac.update(part);
    }
    reading.signatures.iter().any(|signature| mac.clone().verify_slice(signature).is_ok())
}

/// A time that is too far away besides.
fn time(question: &Question<'_>, reading: &Reading) -> Vec<Finding> {
    let signed = std::str::from_utf8(&reading.time).ok().and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
    let skew = question.now.as_secs().saturating_sub(signed);
    let allowed = question.tolerance.as_duration().as_secs();
    if allowed == 0 || skew.unsigned_abs() <= allowed {
        return Vec::new();
    }
    vec![header::of_skew(skew, question.tolerance)]
}

fn unknown(question: &Question<'_>) -> Finding {
    let mode = match envelope::read(question.body).and_then(|event| event.livemode) {
        Some(true) => " The event is a live one: take the secret of an endpoint of live mode.",
        Some(false) => " The event is a test one: take the secret of an endpoint of test mode or of that sandbox.",
        None => "",
    };
    Finding::new(
        "other_secret",
        format!(
            "No usual change of the body or the secret explains it: most likely the secret is another endpoint's. Each \
             endpoint has its own, test and live mode have different ones, stripe listen prints its own, and a rolled \
             secret ends.{mode} Else the body was changed in another way."
        ),
    )
}
