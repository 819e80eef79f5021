//! The pretend Stripe, the pretend app, and the demonstration.

use std::io::{BufRead as _, BufReader, Read as _};

use crate::inbox::{app, body, folder};
use crate::support::{CANARY, Folder, check};

/// Leaves its temporary files where a test can see whether any stay.
fn own_temporary_folder() -> Folder {
    let folder = folder();
    let path = folder.path().display().to_string();
    folder.with_variable("TMPDIR", &path)
}

#[test]
fn the_demonstration_adds_up_and_leaves_nothing_behind() {
    let folder = own_temporary_folder();
    let run = folder.run(&["demo", "--events", "120", "--rate", "200", "--json"]);
    check(&run, 0, &["\"event\":\"started\"", "\"event\":\"progress\""]);
    let account: serde_json::Value = serde_json::from_str(run.stdout.lines().last().unwrap()).unwrap();
    let number = |name: &str| account[name].as_u64().unwrap();
    assert_eq!(account["adds_up"], true, "{account}");
    assert_eq!((number("stored"), number("waiting"), number("confirmed_twice")), (120, 0, 0));
    assert!(number("copies") > 0 && number("requests_to_app") > 120, "{account}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_demonstration_stops_cleanly_when_it_is_told_to() {
    let folder = own_temporary_folder();
    let mut child = folder.spawn(&["demo"]);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    for _ in 0..3 {
        out.read_line(&mut line).unwrap();
    }
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{line}{rest}");
    assert!(rest.contains("Stopped early; it adds up."), "{rest}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_body_can_be_sent_to_this_machine_and_nowhere_else() {
    let app = app(200).await;
    let folder = folder().with_file("body.json", body("evt_1", "invoice.paid"));
    check(&folder.run(&["sign", "body.json", "--send", &app.url()]), 0, &["t=", "The receiver answered 200."]);
    assert_eq!(app.successes_of("evt_1"), 1);
    let refused =
        folder.run(&["sign", "body.json", "--secret", "whsec_of_somebody_else", "--send", &app.url(), "--json"]);
    assert_eq!((refused.code, refused.json()["status"].as_u64()), (1, Some(400)));
    check(&folder.run(&["sign", "body.json", "--send", "https://example.com/x"]), 2, &["this machine only"]);
    check(&folder.run(&["sign", "body.json", "--send", "http://127.0.0.1:9/"]), 1, &["gave no answer: no connection"]);
}

#[test]
fn the_pretend_stripe_sends_until_the_pretend_app_takes_it() {
    let folder = folder();
    let secret = ["--secret", "env:STRIPE_WEBHOOK_SECRET"];
    let mut child =
        folder.spawn(&[&["sandbox", "app", "--port", "0", "--behaviour", "flaky", "--json"], &secret[..]].concat());
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    out.read_line(&mut first).unwrap();
    let started: serde_json::Value = serde_json::from_str(&first).unwrap();
    let send =
        ["sandbox", "stripe", "--events", "10", "--rate", "500", "--duplicates", "0", "--retry-every", "20ms", "--to"];
    let run = folder.run(&[&send[..], &[started["url"].as_str().unwrap(), "--json"]].concat());
    check(&run, 0, &["\"acknowledged\":10", "\"event\":\"done\""]);
    let sent = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(rest.lines().count() >= 30 && rest.contains("\"signature\":\"good\"") && !rest.contains(CANARY), "{rest}");
}
