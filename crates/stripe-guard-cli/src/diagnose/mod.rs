//! Why a signature fails, found by trying what usually goes wrong.
//!
//! Nothing said here holds a secret, a signature or a part of the body.

mod body;
mod cause;
mod forms;
mod header;
mod key;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use serde::Serialize;
use stripe_guard_core::{SignatureError, TEST_EVENT_ID, Timestamp, Tolerance, envelope, signature};

use crate::config::secret::Secret;

/// What is asked: these bytes, this header, these secrets.
pub(crate) struct Question<'q> {
    /// The body as it was received.
    pub(crate) body: &'q Bytes,
    /// The value of the header.
    pub(crate) header: &'q [u8],
    /// The secrets that may have signed.
    pub(crate) secrets: &'q [Secret],
    /// The receiver's time.
    pub(crate) now: Timestamp,
    /// How far the signed time may be from it.
    pub(crate) tolerance: Tolerance,
}

/// The answer. Its fields are stable output.
#[derive(Debug, Serialize)]
pub(crate) struct Diagnosis {
    /// Whether the signature is good.
    pub(crate) verified: bool,
    /// Why not: the class that the metrics count.
    pub(crate) class: Option<&'static str>,
    /// Why not, for people.
    pub(crate) problem: Option<String>,
    /// The label of the secret that signed.
    pub(crate) secret: Option<String>,
    /// The receiver's time minus the signed one.
    pub(crate) skew_seconds: Option<i64>,
    /// What explains it, and what else is worth knowing.
    pub(crate) findings: Vec<Finding>,
}

/// One thing found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// A stable word.
    pub(crate) class: &'static str,
    /// For people, with what to do.
    pub(crate) message: String,
}

impl Finding {
    fn new(class: &'static str, message: impl Into<String>) -> Self {
        Self { class, message: message.into() }
    }
}

/// Checks the signature as the server would, and explains a refusal.
pub(crate) fn diagnose(question: &Question<'_>) -> Diagnosis {
    let (header, mut findings) = header::unwrap(question.header);
    let signing = question.secrets.iter().map(|secret| &secret.signing);
    let verdict = signature::verify(question.body.clone(), header, signing, question.now, question.tolerance);
    let mut diagnosis = Diagnosis {
        verified: verdict.is_ok(),
        class: verdict.as_ref().err().map(|error| error.class()),
        problem: verdict.as_ref().err().map(ToString::to_string),
        secret: None,
        skew_seconds: None,
        findings: Vec::new(),
    };
    match verdict {
        Ok(verified) => {
            diagnosis.secret = Some(verified.secret_label().to_owned());
            diagnosis.skew_seconds = Some(verified.skew_seconds());
        }
        Err(SignatureError::OutsideTolerance { skew_seconds }) => {
            diagnosis.skew_seconds = Some(skew_seconds);
            findings.push(header::of_skew(skew_seconds, question.tolerance));
        }
        Err(SignatureError::NoSecretMatches) => findings.extend(cause::search(question, &header::read(header))),
        Err(_) => findings.extend(header::explain(header)),
    }
    findings.extend(notes(question));
    diagnosis.findings = findings;
    diagnosis
}

/// What is worth knowing whatever the verdict.
fn notes(question: &Question<'_>) -> Vec<Finding> {
    let mut notes = Vec::new();
    if question.secrets.iter().any(|secret| secret.signing.was_trimmed()) {
        let message =
            "There is white space round the secret. It is dropped here; a library that keeps it refuses every event.";
        notes.push(Finding::new("secret_white_space", message));
    }
    match envelope::read(question.body) {
        None if question.body.is_empty() => notes
            .push(Finding::new("body_empty", "The body is empty: a body parser has probably read it before you did.")),
        None => notes.push(Finding::new("body_no_event", "The body is no Stripe event: it has no id and type.")),
        Some(event) if event.id.as_str() == TEST_EVENT_ID => notes.push(Finding::new(
            "test_event",
            "This is the dashboard's test event: its id is the same every time, and its objects do not exist.",
        )),
        Some(_) => {}
    }
    notes
}
