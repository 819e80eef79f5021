//! Each fault is made, and must be found.

use stripe_guard_core::signature::sign;

use super::*;
use crate::config::Environment;
use crate::config::secret::resolve;

const SECRET: &str = "whsec_7kQm3VxB9nRt2LpYc5HdWf8Zg4sAe6U=";
const NOW: Timestamp = Timestamp::from_secs(1_798_765_300);
const INVOICE: &[u8] = include_bytes!("../../../../testdata/vectors/events/invoice.paid.json");
const JAPANESE: &[u8] = include_bytes!("../../../../testdata/vectors/events/customer.created.ja.json");

fn secret(text: &str) -> Secret {
    resolve(text, &Environment::default()).map_err(|wrong| wrong.at("secret").to_string()).unwrap().remove(0)
}

fn ask(body: &[u8], header: &str, secret: &Secret) -> Diagnosis {
    diagnose(&Question {
        body: &Bytes::copy_from_slice(body),
        header: header.as_bytes(),
        secrets: std::slice::from_ref(secret),
        now: NOW,
        tolerance: Tolerance::default(),
    })
}

fn signed(body: &[u8]) -> String {
    sign(&[&secret(SECRET).signing], NOW, body)
}

fn hmac(key: &[u8], message: &[u8]) -> String {
    use hmac::{Hmac, KeyInit as _, Mac as _};
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(key).unwrap();
    mac.update(message);
    mac.finalize().into_bytes().iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

fn signed_with_key(key: &[u8], body: &[u8]) -> String {
    let message = [NOW.as_secs().to_string().as_bytes(), b".", body].concat();
    format!("t={},v1={}", NOW.as_secs(), hmac(key, &message))
}

/// This body, header and secret give exactly these findings.
#[track_caller]
fn check(body: &[u8], header: &str, key: &str, expected: &[&str]) {
    let diagnosis = ask(body, header, &secret(key));
    let found: Vec<_> = diagnosis.findings.iter().map(|finding| finding.class).collect();
    assert_eq!(found, expected, "{diagnosis:?}");
    let shown = serde_json::to_string(&diagnosis).unwrap();
    assert!(!shown.contains("7kQm3VxB9nRt"), "{shown}");
}

/// What was signed, and what arrived.
#[track_caller]
fn check_body(sent: &[u8], arrived: &[u8], expected: &[&str]) {
    check(arrived, &signed(sent), SECRET, expected);
}

#[test]
fn a_good_signature_is_good() {
    let diagnosis = ask(INVOICE, &signed(INVOICE), &secret(SECRET));
    assert!(diagnosis.verified && diagnosis.findings.is_empty());
    assert_eq!(diagnosis.skew_seconds, Some(0));
    assert!(ask(INVOICE, &format!("Stripe-Signature: {}\n", signed(INVOICE)), &secret(SECRET)).verified);
}

#[test]
fn a_body_that_was_written_again_is_found() {
    for original in [INVOICE, JAPANESE] {
        let value: serde_json::Value = serde_json::from_slice(original).unwrap();
        let compact = serde_json::to_vec(&value).unwrap();
        check_body(original, &compact, &["body_reserialised"]);
        check_body(original, &serde_json::to_vec_pretty(&value).unwrap(), &["body_reserialised"]);
        check_body(&compact, original, &["body_reserialised"]);
    }
    let ascii = br#"{"a": "\u6771\u4eac", "b": [1, {}]}"#;
    check_body(ascii, "{\"b\":[1,{}],\"a\":\"東京\"}".as_bytes(), &["body_reserialised", "body_no_event"]);
    let php = r#"{"url":"https:\/\/x"}"#.as_bytes();
    check_body(php, br#"{"url":"https://x"}"#, &["body_reserialised", "body_no_event"]);
}

#[test]
fn a_body_with_another_beginning_end_or_line_end_is_found() {
    let bom = [b"\xEF\xBB\xBF", INVOICE].concat();
    let newline = [INVOICE, b"\n"].concat();
    let crlf = String::from_utf8(INVOICE.to_vec()).unwrap().replace('\n', "\r\n").into_bytes();
    check_body(INVOICE, &newline, &["trailing_newline_added"]);
    check_body(&newline, INVOICE, &["trailing_newline_removed"]);
    check_body(INVOICE, &bom, &["bom_added"]);
    check_body(&bom, INVOICE, &["bom_removed"]);
    check_body(INVOICE, &crlf, &["line_ends_changed"]);
    check_body(&crlf, INVOICE, &["line_ends_changed"]);
    let all = [b"\xEF\xBB\xBF", crlf.as_slice(), b"\r\n"].concat();
    check_body(INVOICE, &all, &["bom_added", "line_ends_changed", "trailing_newline_added"]);
}

#[test]
fn a_body_inside_something_else_is_found() {
    use base64::Engine as _;
    let base64 = base64::engine::general_purpose::STANDARD.encode(INVOICE);
    check_body(INVOICE, base64.as_bytes(), &["body_base64", "body_no_event"]);
    let quoted = serde_json::to_vec(std::str::from_utf8(INVOICE).unwrap()).unwrap();
    check_body(INVOICE, &quoted, &["body_quoted", "body_no_event"]);
    let twice: String = JAPANESE.iter().map(|byte| char::from(*byte)).collect();
    check_body(JAPANESE, twice.as_bytes(), &["body_encoding"]);
    check_body(INVOICE, b"", &["other_secret", "body_empty"]);
    check_body(INVOICE, b"\x1f\x8b\x08\x00", &["other_secret", "body_compressed", "body_no_event"]);
    let lossy = String::from_utf8_lossy(&JAPANESE[..JAPANESE.len() - 1]).replace('東', "\u{FFFD}").into_bytes();
    assert!(ask(&lossy, &signed(JAPANESE), &secret(SECRET)).findings.iter().any(|one| one.class == "other_secret"));
}

#[test]
fn a_key_made_wrongly_of_the_secret_is_found() {
    use base64::Engine as _;
    let bare = &SECRET["whsec_".len()..];
    let decodable = "whsec_c2VjcmV0LWluLWJhc2U2NC1mb3JtLW9rCg==";
    let decoded = base64::engine::general_purpose::STANDARD.decode(&decodable["whsec_".len()..]).unwrap();
    check(INVOICE, &signed_with_key(bare.as_bytes(), INVOICE), SECRET, &["secret_prefix_stripped"]);
    check(INVOICE, &signed(INVOICE), bare, &["secret_prefix_stripped"]);
    check(INVOICE, &signed_with_key(&decoded, INVOICE), decodable, &["secret_base64_decoded"]);
    let with_end = format!("{SECRET}\n");
    check(INVOICE, &signed_with_key(with_end.as_bytes(), INVOICE), SECRET, &["secret_white_space"]);
    check(INVOICE, &signed(INVOICE), &with_end, &["secret_white_space"]);
    check(INVOICE, &signed(INVOICE), &format!("\"{SECRET}\""), &["secret_quoted"]);
    check(INVOICE, &signed(INVOICE), "whsec_another_9nRt2LpYc5HdWf8Zg", &["other_secret"]);
}

#[test]
fn another_message_than_stripes_is_found() {
    let header = |message: &[u8]| format!("t={},v1={}", NOW.as_secs(), hmac(SECRET.as_bytes(), message));
    check(INVOICE, &header(INVOICE), SECRET, &["signed_without_timestamp"]);
    let no_dot = [NOW.as_secs().to_string().as_bytes(), INVOICE].concat();
    check(INVOICE, &header(&no_dot), SECRET, &["signed_without_timestamp"]);
}

#[test]
fn a_malformed_header_says_how() {
    let good = signed(INVOICE);
    let v1 = &good[good.find(",v1=").unwrap() + 4..];
    for (header, class, word) in [
        (String::new(), "header_missing", "proxy"),
        (format!("v1={v1}"), "header_malformed", "no t="),
        ("t=1".to_owned(), "header_malformed", "no v1="),
        (format!("t=1,v0={v1}"), "header_malformed", "other schemes"),
        (format!("t=,v1={v1}"), "header_malformed", "is empty"),
        (format!("t=-5,v1={v1}"), "header_malformed", "sign"),
        (format!("t=007,v1={v1}"), "header_malformed", "zero"),
        (format!("t=1.5,v1={v1}"), "header_malformed", "fraction"),
        (format!("t=now,v1={v1}"), "header_malformed", "plain number"),
        (format!("t={},v1={v1}", "9".repeat(30)), "header_malformed", "too big"),
        (format!("t=1,v1={}", &v1[1..]), "header_malformed", "63 hex digits"),
        ("t=1,v1=q83vASNFZ4mrze8BI0VniavN7wEjRWeJq83vASNFZ4k=".to_owned(), "header_malformed", "base64"),
        (format!("t=1,\nv1={v1}"), "header_malformed", "line end"),
        (format!("{good},t=5"), "header_ambiguous", "two different"),
        ("x".repeat(20_000), "header_malformed", "20000 bytes"),
    ] {
        let diagnosis = ask(INVOICE, &header, &secret(SECRET));
        let [finding] = diagnosis.findings.as_slice() else { panic!("{header:?}: {diagnosis:?}") };
        assert_eq!(finding.class, class, "{header:?}");
        assert!(finding.message.contains(word), "{header:?}: {}", finding.message);
        assert!(!finding.message.contains(&v1[2..]), "a signature is not repeated");
    }
}

#[test]
fn a_clock_that_is_off_is_measured() {
    let at = |seconds: i64| sign(&[&secret(SECRET).signing], Timestamp::from_secs(NOW.as_secs() + seconds), INVOICE);
    check(INVOICE, &at(3600), SECRET, &["clock_behind"]);
    check(INVOICE, &at(-400), SECRET, &["signature_old"]);
    check(INVOICE, &at(-300), SECRET, &[]);
    let millis = sign(&[&secret(SECRET).signing], Timestamp::from_secs(NOW.as_millis()), INVOICE);
    check(INVOICE, &millis, SECRET, &["time_in_milliseconds"]);
    let newline = [INVOICE, b"\n"].concat();
    check(&newline, &at(-400), SECRET, &["trailing_newline_added", "signature_old"]);
    let diagnosis = ask(INVOICE, &at(-400), &secret(SECRET));
    assert_eq!((diagnosis.verified, diagnosis.skew_seconds), (false, Some(400)));
}

#[test]
fn the_dashboards_test_event_is_named() {
    let body = br#"{"id":"evt_00000000000000","object":"event","type":"invoice.paid","data":{"object":{}}}"#;
    check(body, &signed(body), SECRET, &["test_event"]);
}
