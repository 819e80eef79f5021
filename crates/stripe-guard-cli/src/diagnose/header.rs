//! What a header says, and in which way it is malformed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use stripe_guard_core::{Tolerance, signature::HEADER_BYTES_MAX};

use super::Finding;

/// The parts of a header that count.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// The text of `t`.
    pub(super) time: Vec<u8>,
    /// Every `v1`.
    pub(super) signatures: Vec<Vec<u8>>,
}

/// Takes off what copying adds: the header's name, quotes, a line end.
pub(super) fn unwrap(raw: &[u8]) -> (&[u8], Vec<Finding>) {
    const NAME: &[u8] = b"stripe-signature:";
    let mut header = raw.trim_ascii();
    let mut findings = Vec::new();
    if header.len() >= NAME.len() && header[..NAME.len()].eq_ignore_ascii_case(NAME) {
        header = header[NAME.len()..].trim_ascii();
    }
    if let Some(inner) = header.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) {
        header = inner;
        findings.push(Finding::new("header_quoted", "The header is in quotes; they are left out here."));
    }
    (header, findings)
}

/// Reads a header that the check could read.
pub(super) fn read(header: &[u8]) -> Reading {
    let mut reading = Reading::default();
    for (name, value) in items(header) {
        match name {
            b"t" => reading.time = value.to_vec(),
            b"v1" => reading.signatures.extend(of_hex(value)),
            _ => {}
        }
    }
    reading
}

fn items(header: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    header.split(|byte| *byte == b',').filter_map(|item| {
        let item = item.trim_ascii();
        let equals = item.iter().position(|byte| *byte == b'=')?;
        Some((&item[..equals], &item[equals + 1..]))
    })
}

fn of_hex(text: &[u8]) -> Option<Vec<u8>> {
    if text.len() != 64 {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    text.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

/// In which way a header cannot be read.
pub(super) fn explain(header: &[u8]) -> Vec<Finding> {
    let malformed = |message: String| Finding::new("header_malformed", message);
    if header.is_empty() {
        let message = "Stripe sends a Stripe-Signature header with every event: either a proxy or framework dropped \
                       it, or the request is not from Stripe.";
        return vec![Finding::new("header_missing", message)];
    }
    if header.len() > HEADER_BYTES_MAX {
        return vec![malformed(format!(
            "The header has {} bytes; Stripe's has about 80 for each secret.",
            header.len()
        ))];
    }
    if header.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
        return vec![malformed(
            "There is a line end or NUL inside the header: it was cut or put together wrongly.".to_owned(),
        )];
    }
    let found: Vec<_> = items(header).collect();
    let of_name =
        |wanted: &[u8]| found.iter().filter(|(name, _)| *name == wanted).map(|(_, value)| *value).collect::<Vec<_>>();
    let (times, signatures) = (of_name(b"t"), of_name(b"v1"));
    let mut findings = Vec::new();
    match times.as_slice() {
        [] => findings.push(malformed("There is no t=… in the header: it is not whole, or not Stripe's.".to_owned())),
        [first, rest @ ..] if rest.iter().any(|other| other != first) => findings.push(Finding::new(
            "header_ambiguous",
            "There are two different times: the headers of two requests were joined.",
        )),
        [time, ..] => findings.extend(problem_of_time(time).map(|problem| malformed(format!("Its t {problem}.")))),
    }
    if signatures.is_empty() {
        let others: Vec<_> = found.iter().filter(|(name, _)| name.starts_with(b"v")).collect();
        findings.push(malformed(if others.is_empty() {
            "There is no v1=… in the header: it is not whole, or not Stripe's.".to_owned()
        } else {
            "There is no v1=… in the header, only signatures of other schemes; v0 is for Stripe's own tests.".to_owned()
        }));
    } else if signatures.iter().all(|value| of_hex(value).is_none()) {
        findings.push(malformed(format!("Its v1 {}.", problem_of_signature(signatures[0]))));
    }
    findings
}

fn problem_of_time(time: &[u8]) -> Option<&'static str> {
    match time {
        [] => Some("is empty"),
        [b'-' | b'+', ..] => Some("has a sign"),
        [b'0', _, ..] => Some("begins with a zero"),
        _ if time.contains(&b'.') => Some("has a fraction: Stripe writes whole seconds"),
        _ if !time.iter().all(u8::is_ascii_digit) => Some("is not a plain number"),
        _ if time.len() > 18 => Some("is far too big for seconds since 1970"),
        _ => None,
    }
}

fn problem_of_signature(value: &[u8]) -> String {
    if BASE64.decode(value).is_ok_and(|bytes| bytes.len() == 32) {
        return "is in base64: Stripe writes it as 64 hex digits".to_owned();
    }
    if value.iter().all(u8::is_ascii_hexdigit) {
        return format!("has {} hex digits instead of 64: it was cut", value.len());
    }
    "is not 64 hex digits".to_owned()
}

/// What a signed time that is too far away means.
pub(super) fn of_skew(skew_seconds: i64, tolerance: Tolerance) -> Finding {
    let (off, allowed) = (skew_seconds.unsigned_abs(), tolerance.as_duration().as_secs());
    // In milliseconds the time lies more than 50,000 years ahead.
    if skew_seconds < -1_000_000_000_000 {
        return Finding::new("time_in_milliseconds", "Its t is in milliseconds: Stripe writes seconds.");
    }
    if skew_seconds < 0 {
        let message = format!(
            "The signature is right, and was made {off} s in the receiver's future ({allowed} s are allowed): set the \
             receiver's clock, which is behind."
        );
        return Finding::new("clock_behind", message);
    }
    let message = format!(
        "The signature is right, and was made {off} s ago ({allowed} s are allowed): the event waited or was replayed \
         with its old header, or the receiver's clock is ahead. Pass the receiver's time with --now to check a \
         recorded request."
    );
    Finding::new("signature_old", message)
}
