//! The commands that need no database, run as a user runs them.

use crate::support::{CANARY, Folder, check};

const BODY: &[u8] = include_bytes!("../../../../testdata/vectors/events/invoice.paid.json");

fn with_secret() -> Folder {
    Folder::new().with_variable("STRIPE_WEBHOOK_SECRET", CANARY)
}

#[test]
fn help_and_version_are_there_and_a_wrong_command_is_a_usage_error() {
    let folder = Folder::new();
    check(&folder.run(&["--help"]), 0, &["check", "init", "sign", "verify", "Exit codes: 0 ok"]);
    check(&folder.run(&["--version"]), 0, &["stripe-guard 0."]);
    check(&folder.run(&["frobnicate"]), 2, &["unrecognized subcommand"]);
    check(&folder.run(&[]), 2, &["Usage"]);
}

#[test]
fn init_writes_a_file_that_check_takes_and_never_overwrites() {
    let folder = with_secret();
    check(&folder.run(&["init"]), 0, &["Wrote stripe-guard.toml", "STRIPE_WEBHOOK_SECRET"]);
    check(&folder.run(&["check"]), 0, &["stripe-guard.toml", "/webhooks/stripe", "The configuration is good."]);
    check(&folder.run(&["init"]), 1, &["is there already; move it away"]);
    check(&folder.run(&["init", "other.toml", "--json"]), 0, &["{\"written\":\"other.toml\"}"]);
    check(&folder.run(&["init", "no/such/folder.toml"]), 1, &["cannot be written ("]);
}

#[test]
fn check_names_key_problem_and_remedy_of_everything_at_once() {
    let file = "[sources.stripe]\nmode = \"prod\"\n[destinations.app]\nurl = \"x\"\n";
    let folder = with_secret().with_file("stripe-guard.toml", file);
    let run = folder.run(&["check"]);
    check(&run, 2, &["error: sources.stripe.mode: is not a mode; write", "error: destinations.app.url: is not a URL"]);
    assert_eq!(run.stdout, "");
    let run = folder.run(&["check", "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&run.stderr).unwrap();
    assert_eq!((run.code, answer["error"]["class"].as_str()), (2, Some("config")));
    let problem = &answer["error"]["problems"][0];
    assert_eq!(problem["key"], "sources.stripe.mode");
    assert_eq!(problem["problem"], "is not a mode");
    assert!(problem["remedy"].as_str().unwrap().contains("\"live\""));
}

#[test]
fn check_takes_the_one_command_case_without_a_file() {
    let run = with_secret().run(&["check", "--forward-to", "http://127.0.0.1:3000/hook?token=abc", "--json"]);
    check(&run, 0, &[]);
    let answer = run.json();
    assert_eq!(answer["ok"], true);
    assert_eq!(answer["sources"][0]["path"], "/webhooks/stripe");
    assert_eq!(answer["destinations"][0]["url"], "http://127.0.0.1:3000/hook?…");
    assert_eq!(answer["destinations"][0]["gives_up_after"], "3d");
    let missing = Folder::new().run(&["check", "--forward-to", "http://127.0.0.1:3000/hook"]);
    check(&missing, 2, &["sources.stripe.secrets[0]: the environment variable STRIPE_WEBHOOK_SECRET is not set; set"]);
    check(&with_secret().run(&["check"]), 2, &["destinations: there is none; give --forward-to URL"]);
}

#[test]
fn what_is_signed_verifies() {
    let folder = with_secret().with_file("body.json", BODY);
    let header = folder.run(&["sign", "body.json"]).stdout;
    check(&folder.run(&["verify", "body.json", "--header", header.trim()]), 0, &["The signature is good"]);
    let from_stdin = folder.run_with_input(&["verify", "--header", header.trim(), "--json"], BODY);
    assert_eq!(from_stdin.json()["verified"], true);
    let answer = folder.run(&["sign", "body.json", "--json", "--time", "2026-12-01T00:00:00Z"]).json();
    assert_eq!(answer["time"], 1_796_083_200);
    assert_eq!(answer["bytes"], BODY.len());
}

#[test]
fn verify_says_why_and_fails() {
    let folder = with_secret().with_file("body.json", BODY).with_file("newline.json", [BODY, b"\n"].concat());
    let header = folder.run(&["sign", "body.json"]).stdout;
    let run = folder.run(&["verify", "newline.json", "--header", header.trim()]);
    check(&run, 1, &["The signature is refused: no configured secret matches.", "- A line end or blank was added"]);
    let run = folder.run(&["verify", "newline.json", "--header", header.trim(), "--json"]);
    let answer = run.json();
    assert_eq!((run.code, answer["class"].as_str()), (1, Some("no_secret_matches")));
    assert_eq!(answer["findings"][0]["class"], "trailing_newline_added");
    let signature = header.trim().split("v1=").nth(1).unwrap();
    assert!(!run.stdout.contains(signature), "a signature was repeated");
    check(&folder.run(&["verify", "body.json"]), 1, &["there is no Stripe-Signature header", "a proxy or framework"]);
    let old = folder.run(&["sign", "body.json", "--time", "1796083200"]).stdout;
    let later = ["verify", "body.json", "--header", old.trim(), "--now", "1796083600"];
    check(&folder.run(&later), 1, &["made 400 s ago"]);
    check(&folder.run(&[&later[..], &["--tolerance", "500"]].concat()), 0, &["400 s ago"]);
}

#[test]
fn secrets_come_from_the_command_line_a_variable_a_file_or_the_configuration() {
    let folder = with_secret()
        .with_file("secret", format!("{CANARY}\n"))
        .with_file("body.json", BODY)
        .with_file("guard.toml", "[sources.a]\nsecrets = [\"env:STRIPE_WEBHOOK_SECRET\"]\n");
    let sign = |more: &[&str]| folder.run(&[&["sign", "body.json", "--time", "1796083200"][..], more].concat());
    let plain = sign(&[]);
    for more in [
        &["--secret", CANARY][..],
        &["--secret", "env:STRIPE_WEBHOOK_SECRET"],
        &["--secret", "file:secret"],
        &["--config", "guard.toml", "--source", "a"],
    ] {
        assert_eq!(sign(more).stdout, plain.stdout, "{more:?}");
    }
    let two = sign(&["--secret", CANARY, "--secret", "another-secret-of-a-test"]);
    assert_eq!(two.stdout.matches(",v1=").count(), 2);
    check(&sign(&["--secret", "whsec_canar"]), 2, &["--secret: is shorter than 12 characters"]);
    check(&sign(&["--config", "guard.toml", "--source", "b"]), 2, &["sources.b: there is none"]);
    check(&folder.run(&["sign", "nothing.json"]), 1, &["nothing.json cannot be read ("]);
    check(&folder.run(&["sign", "body.json", "--time", "noon"]), 2, &["--time: not a time"]);
}

#[test]
fn fault_76_no_secret_leaves_in_any_output() {
    // The runs themselves look for the canary.
    let misplaced = format!(
        "listen = \"{CANARY}\"\n{CANARY} = 1\n[sources.stripe]\nmode = \"{CANARY}\"\naccounts = \"{CANARY}\"\n\
         tolerance = \"{CANARY}\"\nsecrets = \"{CANARY}\"\n[destinations.app]\nurl = \"http://{CANARY}@app/x\"\n\
         types = [\"{CANARY}*\"]\nsources = [\"{CANARY}\"]\n[destinations.{CANARY}]\n"
    );
    let broken = format!("[sources.stripe]\nsecrets = [\"{CANARY}\n");
    for (name, file) in [("misplaced.toml", misplaced), ("broken.toml", broken)] {
        let folder = with_secret().with_file(name, file).with_file("body.json", BODY);
        for command in ["check", "sign", "verify"] {
            for json in [&["--json"][..], &[]] {
                let run = folder.run(&[&[command, "--config", name][..], json].concat());
                assert_eq!(run.code, 2, "{run:?}");
            }
        }
    }
    let folder = with_secret().with_file("body.json", BODY);
    for secret in [CANARY, &format!(" {CANARY}\n"), &CANARY[6..], &format!("\"{CANARY}\"")] {
        for header in [
            "",
            "t=1,v1=00",
            CANARY,
            "t=1796083200,v1=0000000000000000000000000000000000000000000000000000000000000000",
        ] {
            for json in [&["--json"][..], &[]] {
                let run = ["verify", "body.json", "--secret", secret, "--header", header];
                assert_eq!(folder.run(&[&run[..], json].concat()).code, 1);
            }
        }
    }
}
