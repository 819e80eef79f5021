//! The commands that look into the inbox and repair it, with the server and without.

use std::time::Duration;

use bytes::Bytes;
use stripe_guard_core::SigningSecret;
use stripe_guard_sandbox::{App, AppOptions, Behaviour, Script, Sender};

use crate::support::{CANARY, Folder, Run, Server, check};

pub(crate) fn secret() -> SigningSecret {
    SigningSecret::parse(CANARY).unwrap()
}

pub(crate) fn sender(server: &Server) -> Sender {
    Sender::new(&server.url(), [secret()], 4).unwrap()
}

/// An event of this id and type, with something in it that no log may show.
pub(crate) fn body(id: &str, event_type: &str) -> Bytes {
    format!(
        r#"{{"id":"{id}","object":"event","type":"{event_type}","created":1796083200,"livemode":false,"api_version":"2026-06-24.dahlia","data":{{"object":{{"id":"in_1","object":"invoice","customer_email":"canary-person@example.com"}}}}}}"#
    )
    .into()
}

pub(crate) fn folder() -> Folder {
    Folder::new().with_variable("STRIPE_WEBHOOK_SECRET", CANARY).with_variable("USER", "alice")
}

pub(crate) async fn app(script: impl Into<Script>) -> App {
    App::start(AppOptions { script: script.into(), ..AppOptions::verifying([secret()]) }).await.unwrap()
}

/// A file for one source and this app, which gives up at the first failure.
pub(crate) fn impatient(app: &App, more: &str) -> String {
    format!("[sources.stripe]\n{more}\n[destinations.app]\nurl = \"{}\"\nretry = {{ budget = 1 }}\n", app.url())
}

/// Runs a command until its JSON satisfies the condition.
#[track_caller]
pub(crate) fn eventually(folder: &Folder, command: &[&str], holds: impl Fn(&serde_json::Value) -> bool) -> Run {
    for _ in 0..500 {
        let run = folder.run(&[command, &["--json"]].concat());
        if run.code == 0 && holds(&run.json()) {
            return run;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("it never came: {:?}", folder.run(command));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_given_up_is_found_and_replayed_while_the_server_runs() {
    let app = app(Script::always(200).on_type("charge.refunded", 410)).await;
    let folder = folder().with_file("stripe-guard.toml", impatient(&app, ""));
    let server = folder.serve(&[]);
    let sender = sender(&server);
    for (id, event_type) in
        [("evt_good", "invoice.paid"), ("evt_dead", "charge.refunded"), ("evt_good", "invoice.paid")]
    {
        assert_eq!(sender.send(body(id, event_type)).await.unwrap(), 200);
    }
    let dead = eventually(&folder, &["dead-letters"], |answer| answer["dead_letters"][0]["key"] == "evt_dead").json();
    assert_eq!(dead["dead_letters"][0]["class"], "rejected");
    let number = dead["dead_letters"][0]["delivery"].to_string();

    check(&folder.run(&["events", "list"]), 0, &["SEQ", "evt_good", "invoice.paid", "accepted", " ago"]);
    let list = folder.run(&["events", "list", "--type", "invoice.paid", "--json"]).json();
    assert_eq!((list["events"].as_array().unwrap().len(), list["events"][0]["copies"].as_i64()), (1, Some(1)));
    let first = folder.run(&["events", "list", "--limit", "1", "--json"]).json();
    let next = first["next_before"].to_string();
    let second = folder.run(&["events", "list", "--limit", "1", "--before", &next, "--json"]).json();
    assert_eq!(
        (first["events"][0]["key"].as_str(), second["events"][0]["key"].as_str()),
        (Some("evt_dead"), Some("evt_good"))
    );

    let shown = folder.run(&["events", "show", "evt_dead"]);
    check(&shown, 0, &["dead_letter (rejected)", "2026-06-24.dahlia", "HTTP 410"]);
    check(&folder.run(&["attempts", "evt_dead"]), 0, &["rejected", "410", "dead_letter (rejected)"]);
    check(&folder.run(&["attempts", &number]), 0, &["evt_dead"]);
    check(&folder.run(&["dead-letters"]), 0, &["evt_dead", "rejected", "charge.refunded", " ago"]);
    check(&folder.run(&["dead-letters", "--class", "exhausted"]), 0, &["No dead letters."]);
    check(&folder.run(&["stats"]), 0, &["app", "DEAD", "last event received", "Nothing was refused"]);

    app.set_behaviour(200);
    check(&folder.run(&["replay", "--dead-letters"]), 2, &["--dry-run", "--yes"]);
    check(
        &folder.run(&["replay", "--dead-letters", "--dry-run"]),
        0,
        &["1 dead letter (1 rejected) would be replayed"],
    );
    check(&folder.run(&["replay", "--dead-letters", "--yes", "--class", "crashed"]), 1, &["0 of 0 dead letters"]);
    check(
        &folder.run(&["replay", "--dead-letters", "--yes", "--reason", "fixed"]),
        0,
        &["1 of 1 dead letter (1 rejected)"],
    );
    let replayed =
        eventually(&folder, &["attempts", "evt_dead"], |answer| answer["deliveries"][0]["state"] == "processed");
    assert_eq!(replayed.json()["deliveries"][0]["attempt_records"][1]["round"], 2);
    check(&folder.run(&["replay", "evt_good", "--destination", "app"]), 0, &["replayed"]);
    eventually(&folder, &["attempts", "evt_good"], |answer| answer["deliveries"][0]["round"] == 2);
    assert_eq!(server.stop().code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_work_while_the_server_is_down() {
    let app = app(Script::always(Behaviour::from(500))).await;
    let folder = folder();
    let server = folder.serve(&["--forward-to", &app.url()]);
    assert_eq!(sender(&server).send(body("evt_1", "invoice.paid")).await.unwrap(), 200);
    eventually(&folder, &["attempts", "evt_1"], |answer| answer["deliveries"][0]["state"] == "retryable");
    assert_eq!(server.stop().code, 0);

    check(&folder.run(&["replay", "evt_1"]), 1, &["still open", "stripe-guard retry-now 1"]);
    let brought = folder.run(&["retry-now", "evt_1", "--json"]);
    check(&brought, 0, &["\"answer\":\"done\"", "\"done\":1"]);
    check(&folder.run(&["stats"]), 0, &["app", "RETRYABLE"]);
    check(&folder.run(&["discard", "1", "--reason", "a test"]), 0, &["discarded"]);
    check(&folder.run(&["discard", "1"]), 1, &["it has ended already"]);
    check(&folder.run(&["retry-now", "1"]), 1, &["it has ended; stripe-guard replay opens it again"]);
    check(&folder.run(&["replay", "1", "no_such_event"]), 3, &["no delivery has the number or event id no_such_event"]);
    let state = folder.run(&["attempts", "1", "--json"]).json();
    assert_eq!(state["deliveries"][0]["state"], "discarded", "with one unknown name nothing is done");
    check(&folder.run(&["replay", "1"]), 0, &["replayed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_printed_as_it_came_and_a_differing_copy_is_marked() {
    let app = app(200).await;
    let folder = folder().with_file("stripe-guard.toml", impatient(&app, "api_version = \"2020-08-27\""));
    let server = folder.serve(&[]);
    let first = body("evt_1", "invoice.paid");
    let other = body("evt_1", "invoice.paid ");
    for body in [&first, &first, &other] {
        assert_eq!(sender(&server).send(body.clone()).await.unwrap(), 200);
    }
    assert_eq!(server.stop().code, 0);
    assert_eq!(folder.run_for_bytes(&["events", "show", "evt_1", "--body"]), first);
    assert_eq!(folder.run_for_bytes(&["events", "show", "1", "--body", "--json"]), first);
    let words = ["2 copies, 1 with other bytes", "same bytes", "BYTES DIFFER", "the source expects 2020-08-27"];
    check(&folder.run(&["events", "show", "evt_1"]), 0, &words);
    let shown = folder.run(&["events", "show", "evt_1", "--json"]).json();
    let copies = &shown["events"][0]["copy_records"];
    assert_eq!((copies[0]["bytes_differ"].as_bool(), copies[1]["bytes_differ"].as_bool()), (Some(false), Some(true)));
    assert!(!folder.run(&["events", "show", "evt_1"]).stdout.contains("canary-person"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_kept_back_can_be_let_go() {
    let app = app(200).await;
    let folder = folder().with_file("stripe-guard.toml", impatient(&app, "mode = \"live\""));
    let server = folder.serve(&[]);
    assert_eq!(sender(&server).send(body("evt_test", "invoice.paid")).await.unwrap(), 200);
    check(&folder.run(&["events", "list", "--intake", "quarantined"]), 0, &["evt_test"]);
    check(&folder.run(&["events", "list", "--intake", "odd"]), 2, &["quarantined"]);
    check(&folder.run(&["replay", "evt_test"]), 3, &["has no delivery", "events deliver evt_test"]);
    check(&folder.run(&["events", "deliver", "evt_test"]), 2, &["--reason"]);
    check(&folder.run(&["events", "deliver", "evt_test", "--reason", "x", "--to", "b"]), 2, &["there is: app"]);
    check(&folder.run(&["events", "deliver", "evt_test", "--reason", "x"]), 0, &["1 new delivery of evt_test to app"]);
    eventually(&folder, &["attempts", "evt_test"], |answer| answer["deliveries"][0]["state"] == "processed");
    check(&folder.run(&["events", "deliver", "evt_test", "--reason", "x"]), 1, &["Nothing was done"]);
    assert_eq!(server.stop().code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_through_two_sources_is_shown_with_its_one_delivery() {
    let app = app(200).await;
    let sources = "[sources.a]\nsecrets = [\"env:STRIPE_WEBHOOK_SECRET\"]\n[sources.b]\nsecrets = [\"env:STRIPE_WEBHOOK_SECRET\"]\n";
    let folder =
        folder().with_file("stripe-guard.toml", format!("{sources}[destinations.app]\nurl = \"{}\"\n", app.url()));
    let server = folder.serve(&[]);
    let (a, b) = (server.url(), server.url().replace("/webhooks/a", "/webhooks/b"));
    for url in [a, b] {
        let sender = Sender::new(&url, [secret()], 1).unwrap();
        assert_eq!(sender.send(body("evt_1", "invoice.paid")).await.unwrap(), 200);
    }
    check(&folder.run(&["events", "show", "evt_1"]), 0, &["app (as seq 1)", "source       a", "source       b"]);
    let only = folder.run(&["events", "show", "evt_1", "--source", "b", "--json"]).json();
    assert_eq!((only["events"].as_array().unwrap().len(), only["events"][0]["seq"].as_i64()), (1, Some(2)));
    let deliver = ["events", "deliver", "evt_1", "--reason", "x"];
    check(&folder.run(&deliver), 2, &["choose one with --source: a, b"]);
    check(&folder.run(&[&deliver[..], &["--source", "b"]].concat()), 1, &["Nothing was done: app has evt_1 already"]);
    check(&folder.run(&["events", "show", "evt_1", "--source", "c"]), 3, &["came through c has the id"]);
    assert_eq!(server.stop().code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destination_that_left_the_configuration_is_shown() {
    let folder = folder();
    let server = folder.serve(&["--forward-to", "http://127.0.0.1:9/nobody"]);
    assert_eq!(sender(&server).send(body("evt_1", "invoice.paid")).await.unwrap(), 200);
    assert_eq!(server.stop().code, 0);
    let other = "[destinations.other]\nurl = \"http://127.0.0.1:9/x\"\n";
    let folder = folder.with_file("stripe-guard.toml", other);
    check(&folder.run(&["stats"]), 0, &["not configured: put it back", "other"]);
    let stats = folder.run(&["stats", "--json"]).json();
    assert_eq!(stats["destinations"][0]["configured"], false);
    assert_eq!(stats["destinations"][1]["configured"], true);
}

#[test]
fn what_is_not_there_is_said_in_one_sentence() {
    let folder = folder();
    for command in [&["stats"][..], &["events", "list"], &["replay", "evt_1"], &["dead-letters"]] {
        let run = folder.run(command);
        check(&run, 1, &["error: there is no database at stripe-guard.db; start `stripe-guard serve` once"]);
        assert_eq!(run.stderr.lines().count(), 1, "{run:?}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "a command that looks makes nothing");
    folder.serve(&["--forward-to", "http://127.0.0.1:9/nobody"]).stop();
    check(&folder.run(&["events", "show", "evt_1"]), 3, &["no event has the id, key or number evt_1"]);
    check(&folder.run(&["events", "show", "7"]), 3, &["no event has the id, key or number 7"]);
    check(&folder.run(&["attempts", "7"]), 3, &["no delivery has the number or event id 7"]);
    let run = folder.run(&["attempts", "7", "--json"]);
    let error: serde_json::Value = serde_json::from_str(&run.stderr).unwrap();
    assert_eq!(error["error"]["class"], "not_found");
    check(&folder.run(&["replay"]), 2, &["ID"]);
    let folder = folder.with_file("stripe-guard.toml", "databse = \"sqlite://x.db\"\n");
    check(&folder.run(&["stats"]), 2, &["databse: is not a known key; did you mean database?"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_6_a_wrong_secret_shows_its_reason_and_its_last_time() {
    let folder = folder();
    let server = folder.serve(&["--forward-to", "http://127.0.0.1:9/nobody"]);
    let stranger =
        Sender::new(&server.url(), [SigningSecret::parse("whsec_of_somebody_else_entirely").unwrap()], 4).unwrap();
    for number in 0..30 {
        assert_eq!(stranger.send(body(&format!("evt_{number}"), "invoice.paid")).await.unwrap(), 400);
    }
    let late = sender(&server).skewed(-360);
    assert_eq!(late.send(body("evt_late", "invoice.paid")).await.unwrap(), 400);
    let metrics = crate::support::get(&server.admin(), "/metrics");
    let counter = "stripe_guard_requests_total{source=\"stripe\",answer=\"no_secret_matches\"} 30";
    assert!(metrics.contains(counter), "{metrics}");
    let stats = eventually(&folder, &["stats"], |answer| answer["refusals"].as_array().unwrap().len() == 2).json();
    assert_eq!(
        (stats["refusals"][0]["reason"].as_str(), stats["refusals"][0]["count"].as_i64()),
        (Some("no_secret_matches"), Some(30))
    );
    assert!(stats["refusals"][0]["last_at"].is_string());
    let words = ["no_secret_matches", "30", " ago", "outside_tolerance", "clock is ahead by about 36"];
    check(&folder.run(&["stats"]), 0, &words);
    assert_eq!(server.stop().code, 0);
}
