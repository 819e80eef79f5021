//! What a body may have been when it was signed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::{Finding, forms};

/// Bytes that may have been signed, and what happened if they were.
pub(super) struct Candidate {
    /// The bytes.
    pub(super) bytes: Vec<u8>,
    /// What was done to them since.
    pub(super) findings: Vec<Finding>,
}

/// A body above this is tried in fewer forms: each costs a pass over it.
const FORMS_BYTES_MAX: usize = 4 * 1024 * 1024;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// All that are tried, the likeliest first.
pub(super) fn candidates(body: &[u8]) -> impl Iterator<Item = Candidate> {
    let small = if body.len() <= FORMS_BYTES_MAX { Some(body) } else { None };
    framings(body).chain(unwrapped(body)).chain(small.into_iter().flat_map(reserialised))
}

/// Byte-order mark, line ends and the end of the body, in every combination, one change first.
fn framings(body: &[u8]) -> impl Iterator<Item = Candidate> {
    let mut all: Vec<(usize, [usize; 3])> = Vec::new();
    for bom in 0..2 {
        for lines in 0..3 {
            for end in 0..4 {
                let changes = [bom, lines, end].iter().filter(|change| **change != 0).count();
                all.push((changes, [bom, lines, end]));
            }
        }
    }
    all.sort_unstable();
    all.into_iter().filter(|(changes, _)| *changes > 0).filter_map(|(_, change)| framed(body, change))
}

fn framed(body: &[u8], [bom, lines, end]: [usize; 3]) -> Option<Candidate> {
    let mut findings = Vec::new();
    let mut bytes = body.to_vec();
    if bom == 1 {
        if let Some(bare) = bytes.strip_prefix(BOM) {
            findings.push(Finding::new("bom_added", "A byte-order mark was put in front of the body after signing."));
            bytes = bare.to_vec();
        } else {
            findings.push(Finding::new("bom_removed", "The byte-order mark in front of the body was taken off."));
            bytes.splice(..0, BOM.iter().copied());
        }
    }
    match lines {
        1 => {
            findings.push(Finding::new("line_ends_changed", "The body's line ends were turned from LF into CRLF."));
            bytes = replace(&bytes, b"\r\n", b"\n")?;
        }
        2 => {
            findings.push(Finding::new("line_ends_changed", "The body's line ends were turned from CRLF into LF."));
            bytes = replace(&bytes, b"\n", b"\r\n").filter(|_| !bytes.contains(&b'\r'))?;
        }
        _ => {}
    }
    match end {
        1 => {
            let message = "A line end or blank was added at the end of the body, as editors, echo and loggers do.";
            findings.push(Finding::new("trailing_newline_added", message));
            let bare = bytes.trim_ascii_end().len();
            if bare == bytes.len() {
                return None;
            }
            bytes.truncate(bare);
        }
        2 | 3 => {
            let message = "The signed body ended in a line end, which was taken off.";
            findings.push(Finding::new("trailing_newline_removed", message));
            bytes.extend_from_slice(if end == 2 { b"\n" } else { b"\r\n" });
        }
        _ => {}
    }
    Some(Candidate { bytes, findings })
}

/// `None` when there is nothing to replace.
fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Option<Vec<u8>> {
    let mut replaced = Vec::with_capacity(bytes.len());
    let (mut at, mut count) = (0, 0_u32);
    while at < bytes.len() {
        if bytes[at..].starts_with(from) {
            replaced.extend_from_slice(to);
            at += from.len();
            count += 1;
        } else {
            replaced.push(bytes[at]);
            at += 1;
        }
    }
    (count > 0).then_some(replaced)
}

/// The body as the content of something else.
fn unwrapped(body: &[u8]) -> impl Iterator<Item = Candidate> {
    let one = |bytes: Option<Vec<u8>>, class, message: &str| {
        bytes.map(|bytes| Candidate { bytes, findings: vec![Finding::new(class, message)] })
    };
    let base64 = "The body is in base64, as API gateways pass it on: decode it before the check.";
    let quoted = "The body is a JSON string that holds the body: it was serialised twice.";
    let encoding = "The body's text was decoded with the wrong encoding and encoded again.";
    [
        one(BASE64.decode(body.trim_ascii()).ok(), "body_base64", base64),
        one(serde_json::from_slice::<String>(body).ok().map(String::into_bytes), "body_quoted", quoted),
        one(from_latin_1(body), "body_encoding", encoding),
    ]
    .into_iter()
    .flatten()
}

/// The bytes whose Latin-1 reading is this UTF-8 text.
fn from_latin_1(body: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(body).ok().filter(|text| !text.is_ascii())?;
    text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect()
}

/// The body as another program would write the same JSON.
fn reserialised(body: &[u8]) -> impl Iterator<Item = Candidate> {
    forms::all(body).flat_map(|form| {
        let message = format!(
            "The body was parsed and written again: the signed bytes are the same JSON {}. Check the raw bytes of the \
             request, before any parser.",
            form.name
        );
        let finding = Finding::new("body_reserialised", message);
        let mut with_end = form.bytes.clone();
        with_end.push(b'\n');
        [
            Candidate { bytes: form.bytes, findings: vec![finding.clone()] },
            Candidate { bytes: with_end, findings: vec![finding] },
        ]
    })
}

/// Marks of damage that no search can undo.
pub(super) fn marks(body: &[u8]) -> Vec<Finding> {
    let mut marks = Vec::new();
    if body.starts_with(&[0x1F, 0x8B]) {
        let message = "The body is compressed (gzip): check it after it is unpacked.";
        marks.push(Finding::new("body_compressed", message));
    } else if std::str::from_utf8(body).is_err() {
        marks.push(Finding::new("body_encoding", "The body is not UTF-8: it was written in another encoding."));
    }
    if body.windows(3).any(|three| three == "\u{FFFD}".as_bytes()) {
        let message =
            "The body holds replacement characters (U+FFFD): its bytes were decoded as text and some were lost.";
        marks.push(Finding::new("body_encoding", message));
    }
    marks
}
