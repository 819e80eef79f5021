//! The project's vectors: signature verdicts and event bodies, all of them.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::PathBuf;

use bytes::Bytes;
use serde_json::Value;
use stripe_guard_core::{Digest, SigningSecret, Timestamp, Tolerance, envelope, signature};

fn vectors(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/vectors").join(path)
}

fn json(path: &str) -> Value {
    serde_json::from_slice(&std::fs::read(vectors(path)).unwrap()).unwrap()
}

fn base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        other => panic!("{other} is no base64"),
    };
    let (mut bits, mut held, mut out) = (0_u32, 0, Vec::new());
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        bits = bits << 6 | u32::from(digit(byte));
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push(u8::try_from(bits >> held & 0xFF).unwrap());
        }
    }
    out
}

fn payload(case: &Value) -> Vec<u8> {
    if let Some(text) = case["payload_b64"].as_str() {
        return base64(text);
    }
    let part = |name: &str| base64(case["payload_gen"][name].as_str().unwrap());
    let count = usize::try_from(case["payload_gen"]["count"].as_u64().unwrap()).unwrap();
    [part("prefix_b64"), part("fill_b64").repeat(count), part("suffix_b64")].concat()
}

#[test]
fn every_signature_case_has_its_verdict() {
    let cases = json("signatures.json");
    let cases = cases["cases"].as_array().unwrap();
    let mut wrong = Vec::new();
    for case in cases {
        let body = payload(case);
        assert_eq!(body.len() as u64, case["payload_len"].as_u64().unwrap());
        assert_eq!(Digest::of(&body).to_string(), case["payload_sha256"].as_str().unwrap());
        // A secret that does not load is never used: the process would not have started.
        let secrets: Vec<_> = case["secrets"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|text| SigningSecret::parse(text.as_str().unwrap()).ok())
            .collect();
        let verdict = signature::verify(
            Bytes::from(body),
            case["header"].as_str().unwrap().as_bytes(),
            &secrets,
            Timestamp::from_secs(case["now"].as_i64().unwrap()),
            Tolerance::from_secs(u32::try_from(case["tolerance"].as_u64().unwrap()).unwrap()),
        );
        if verdict.is_ok() != (case["expect"] == "accept") {
            wrong.push(format!("{}: {:?}", case["id"], verdict.map(|_| ())));
        }
    }
    assert_eq!(cases.len(), 85);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_event_body_is_read_as_the_index_says() {
    let index = json("events/index.json");
    let entries = index.as_array().unwrap();
    let mut ids = std::collections::HashSet::new();
    for entry in entries {
        let file = entry["file"].as_str().unwrap();
        let body = std::fs::read(vectors("events").join(file)).unwrap();
        assert_eq!(Digest::of(&body).to_string(), entry["sha256"].as_str().unwrap(), "{file}");
        let envelope = envelope::read(&body).unwrap_or_else(|| panic!("{file} is read as no event"));
        let text = |name: &str| entry[name].as_str().map(str::to_owned);
        let created = match &entry["created"] {
            Value::Number(secs) => Some(Timestamp::from_secs(secs.as_i64().unwrap())),
            Value::String(text) => Some(text.parse().unwrap()),
            _ => None,
        };
        assert_eq!(Some(envelope.id.as_str().to_owned()), text("id"), "{file}");
        assert_eq!(Some(envelope.event_type.as_str().to_owned()), text("type"), "{file}");
        assert_eq!(Some(envelope.form.as_str().to_owned()), text("form"), "{file}");
        assert_eq!(envelope.created, created, "{file}");
        assert_eq!(envelope.livemode, entry["livemode"].as_bool(), "{file}");
        assert_eq!(envelope.account, text("account"), "{file}");
        assert_eq!(envelope.context, text("context"), "{file}");
        assert_eq!(envelope.api_version, text("api_version"), "{file}");
        assert_eq!(envelope.object_id, text("object_id"), "{file}");
        ids.insert(envelope.id);
    }
    assert_eq!((entries.len(), ids.len()), (60, 58));
}
