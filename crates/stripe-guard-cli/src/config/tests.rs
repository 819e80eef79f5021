//! What the configuration takes and refuses, through the one door that the commands use.

use std::path::PathBuf;
use std::time::Duration;

use stripe_guard::settings::{Database, Limits, Retention, TABLE_PREFIX};
use stripe_guard_core::{Budget, Mode, RetryPolicy, Tolerance, TypeFilter};

use super::*;

/// Long enough, no placeholder, and easy to find in an output it must not be in.
const CANARY: &str = "whsec_canary7kQm3VxB9nRt2LpYc5HdWf8Zg";

/// The one-command case.
fn one_command<const N: usize>(more: [(&str, &str); N]) -> Inputs {
    let mut inputs = of_file("", more);
    inputs.flags.config = None;
    inputs.flags.forward_to = Some("http://127.0.0.1:3000/webhook".to_owned());
    inputs
}

/// A file, and an environment with the usual secret.
fn of_file<const N: usize>(text: &str, more: [(&str, &str); N]) -> Inputs {
    let mut environment: std::collections::BTreeMap<&str, &str> = [("STRIPE_WEBHOOK_SECRET", CANARY)].into();
    environment.extend(more);
    let environment = Environment::from_pairs(environment);
    let dir = tempfile::tempdir().unwrap().keep();
    let path = dir.join("test.toml");
    std::fs::write(&path, text).unwrap();
    Inputs { flags: Flags { config: Some(path), ..Flags::default() }, environment }
}

fn loaded(inputs: &Inputs) -> Loaded {
    load(inputs).unwrap_or_else(|error| panic!("{error}"))
}

/// The smallest whole file, with more lines behind it.
fn app_and(more: &str) -> String {
    format!("[destinations.app]\nurl = \"http://127.0.0.1:3000/webhook\"\n{more}")
}

/// This file is refused with exactly these problems, each given as the beginning of its line.
#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let Err(error) = load(&of_file(text, [])) else { panic!("accepted:\n{text}") };
    let shown: Vec<String> = error.problems.iter().map(ToString::to_string).collect();
    assert!(!shown.join("\n").contains("canary"), "{shown:?}");
    assert_eq!(shown.len(), expected.len(), "{shown:#?}");
    for (found, wanted) in shown.iter().zip(expected) {
        assert!(found.starts_with(wanted), "found    {found}\nexpected {wanted}");
    }
}

/// As [`check`], for more lines of the destination.
#[track_caller]
fn check_app(more: &str, expected: &str) {
    check(&app_and(more), &[expected]);
}

/// This file is taken, with exactly these warnings.
#[track_caller]
fn check_warnings(text: &str, expected: &[&str]) {
    let warnings = loaded(&of_file(text, [])).warnings;
    assert_eq!(warnings.len(), expected.len(), "{warnings:#?}");
    for (found, wanted) in warnings.iter().zip(expected) {
        assert!(found.starts_with(wanted), "found    {found}\nexpected {wanted}");
    }
}

#[test]
fn the_default_file_says_the_defaults_of_the_engine() {
    let Settings { database, listen, admin_listen, admin_hosts, sources, destinations, limits, retention } =
        loaded(&one_command([])).settings;
    let path = PathBuf::from("stripe-guard.db");
    assert_eq!(database, Database::Sqlite { path, table_prefix: TABLE_PREFIX.to_owned() });
    assert_eq!((listen.to_string().as_str(), admin_listen.to_string().as_str()), ("127.0.0.1:4747", "127.0.0.1:4748"));
    assert!(admin_hosts.is_empty());
    assert_eq!(limits, Limits::default());
    assert_eq!(retention, Retention::default());
    let source = &sources[0];
    assert_eq!((source.name.as_str(), source.path.as_str(), source.mode), ("stripe", "/webhooks/stripe", Mode::Any));
    assert_eq!((source.tolerance, source.api_version.as_deref()), (Tolerance::default(), None));
    assert!(source.accounts.is_empty());
    let app = &destinations[0];
    assert_eq!((app.name.as_str(), app.url.as_str()), ("app", "http://127.0.0.1:3000/webhook"));
    assert_eq!((app.types.as_slice(), app.final_statuses.as_slice()), (&[TypeFilter::All][..], &[410][..]));
    assert_eq!((app.timeout, app.connect_timeout), (Duration::from_secs(30), Duration::from_secs(5)));
    assert_eq!((app.concurrency, app.retry), (10, RetryPolicy::default()));
    assert!(app.sources.is_empty() && app.secrets.is_empty());
}

#[test]
fn the_default_file_with_all_its_keys_is_a_configuration_and_each_key_has_a_comment() {
    let mut whole = String::new();
    let mut before = "";
    for line in DEFAULTS.lines() {
        let bare = line.strip_prefix('#').filter(|rest| !rest.is_empty() && !rest.starts_with(' ')).unwrap_or(line);
        let is_setting = bare.contains(" = ") && !bare.starts_with('#');
        // Two queue limits share a comment.
        let shares = bare.starts_with("queue_bytes");
        assert!(!is_setting || shares || before.starts_with("# "), "no comment above {line}");
        whole.push_str(bare);
        whole.push('\n');
        before = line;
    }
    let settings = loaded(&of_file(&whole, [])).settings;
    assert_eq!(settings.destinations[0].retry, RetryPolicy::article());
    assert!(settings.sources[0].api_version.is_some());
}

#[test]
fn a_flag_goes_over_the_environment_over_the_file_over_the_default() {
    let file = app_and("[admin]\nlisten = \"127.0.0.1:5002\"\nhosts = [\"guard.example.com\"]\n");
    let file = format!("database = \"sqlite://file.db\"\nlisten = \"127.0.0.1:5001\"\n{file}");
    let mut inputs = of_file(
        &file,
        [
            ("STRIPE_GUARD_LISTEN", "127.0.0.1:6001"),
            ("STRIPE_GUARD_ADMIN_LISTEN", "127.0.0.1:6002"),
            ("STRIPE_GUARD_DATABASE", ""),
            ("STRIPE_GUARD_FORWARD_TO", "http://127.0.0.1:6003/hook"),
        ],
    );
    inputs.flags.listen = Some("127.0.0.1:7001".to_owned());
    let settings = loaded(&inputs).settings;
    assert_eq!(settings.listen.port(), 7001);
    assert_eq!(settings.admin_listen.port(), 6002);
    assert_eq!(settings.admin_hosts, ["guard.example.com"], "one key of a table leaves the others");
    assert_eq!(settings.destinations[0].url.as_str(), "http://127.0.0.1:6003/hook");
    let Database::Sqlite { path, .. } = settings.database else { panic!("not a file") };
    assert_eq!(path, PathBuf::from("file.db"), "an empty variable is not set");
}

#[test]
fn every_problem_is_named_at_once_with_its_key_and_remedy() {
    check(
        "listen = \"4747\"\nlimit = 3\n[sources.stripe]\nmode = \"prod\"\n[destinations.app]\nurl = \"app:3000\"\ntime_out = \"3s\"\n",
        &[
            "sources.stripe.mode: is not a mode; write \"live\"",
            "listen: is not an address with a port; write",
            "limit: is not a known key; did you mean limits?",
            "destinations.app.url: is neither http nor https; write a whole address",
            "destinations.app.time_out: is not a known key; did you mean timeout?",
        ],
    );
    check("[destinations.app]\n", &["destinations.app.url: is missing; write the address"]);
    check("", &["destinations: there is none; give --forward-to URL"]);
}

#[test]
fn a_problem_of_a_flag_or_variable_names_it() {
    let error = load(&one_command([("STRIPE_GUARD_LISTEN", "x")])).map(|_| ()).unwrap_err();
    assert!(error.to_string().starts_with("listen (from STRIPE_GUARD_LISTEN): is not an address"), "{error}");
    let mut inputs = one_command([]);
    inputs.flags.forward_to = Some("localhost:3000".to_owned());
    let error = load(&inputs).map(|_| ()).unwrap_err();
    assert!(error.to_string().starts_with("destinations.app.url (from --forward-to): is neither"), "{error}");
}

#[test]
fn a_file_that_is_no_toml_is_refused_with_its_place_and_without_its_text() {
    let inputs = of_file(&format!("listen = \"x\"\n[sources.stripe]\nsecrets = [\"{CANARY}\"\nmode = 1\n"), []);
    let error = load(&inputs).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("test.toml:4:1: is not TOML ("), "{error}");
    assert!(!error.contains("canary"), "{error}");
    let mut inputs = one_command([]);
    inputs.flags.config = Some(PathBuf::from("/nowhere/at.toml"));
    let error = load(&inputs).map(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with("/nowhere/at.toml: cannot be read ("), "{error}");
}

#[test]
fn secrets_are_read_strictly_from_wherever_they_are() {
    let secrets = |list: &str| app_and(&format!("[sources.stripe]\nsecrets = {list}\n"));
    let at = "sources.stripe.secrets[0]";
    for (list, problem) in [
        ("[\"\"]", "is empty; copy the signing secret"),
        ("[\"whsec_…\"]", "is a placeholder, not a secret; copy"),
        ("[\"whsec_abc\"]", "is shorter than 12 characters; copy"),
        ("[\"a1b2c3d4e5f6\\na1b2c3d4e5f6\"]", "has control characters inside; put each"),
        ("[\"sk_live_canary12345678\"]", "is an API key, not a signing secret"),
        ("[\"we_1canary345678\"]", "is the id of an endpoint"),
        ("[\"STRIPE_WEBHOOK_SECRET\"]", "is the name of a variable, not a secret; write \"env:NAME\""),
        ("[\"env:NOT_SET\"]", "the environment variable NOT_SET is not set; set NOT_SET"),
        ("[\"file:/nowhere/secret\"]", "the file /nowhere/secret cannot be opened ("),
        ("[7]", "is a number, not a secret"),
        ("[{ label = \"old\" }]", "has no secret; write"),
        ("[{ label = \"a b\", secret = \"env:STRIPE_WEBHOOK_SECRET\" }]", "has a label with other characters"),
        ("[{ lable = \"a\", secret = \"env:STRIPE_WEBHOOK_SECRET\" }]", "has a key other than label"),
        (&format!("[{{ label = \"{CANARY}\", secret = \"{CANARY}\" }}]"), "has the secret itself as its label"),
    ] {
        check(&secrets(list), &[&format!("{at}: {problem}")]);
    }
    check(&secrets("[]"), &["sources.stripe.secrets: is empty; list the endpoint's"]);
    check(&secrets(&format!("\"{CANARY}\"")), &["sources.stripe.secrets: is a string, not a list"]);
    let elsewhere = app_and("[sources.connect]\n");
    check(&elsewhere, &["sources.connect.secrets: is missing; list the endpoint's"]);
    let error = load(&one_command([("STRIPE_WEBHOOK_SECRET", "whsec_your_secret_here")])).map(|_| ()).unwrap_err();
    let expected = "sources.stripe.secrets[0]: the secret in STRIPE_WEBHOOK_SECRET is a placeholder";
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[test]
fn several_secrets_have_labels_of_their_own() {
    let labels = |inputs: &Inputs| -> Vec<String> {
        loaded(inputs).settings.sources[0].secrets.iter().map(|secret| secret.label().to_owned()).collect()
    };
    let two = format!("{CANARY},whsec_second_9nRt2LpYc5HdWf8Zg");
    let found = labels(&one_command([("STRIPE_WEBHOOK_SECRET", &two)]));
    assert!(found.len() == 2 && found[0] != found[1] && found.iter().all(|label| label.len() == 8), "{found:?}");
    let list = "[\"env:STRIPE_WEBHOOK_SECRET\", { label = \"old\", secret = \"env:OLD\" }]";
    let file = app_and(&format!("[sources.stripe]\nsecrets = {list}\n"));
    assert_eq!(labels(&of_file(&file, [("OLD", &two[CANARY.len() + 1..])]))[1], "old");
    let twice = app_and(
        "[sources.stripe]\nsecrets = [{ label = \"a\", secret = \"first-of-two-secrets\" }, { label = \"a\", secret = \"other-of-two-secrets\" }]",
    );
    check(&twice, &["sources.stripe.secrets: the label a is used twice"]);
}

#[test]
fn fault_3_white_space_round_a_secret_is_dropped_and_said_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("secret");
    std::fs::write(&path, format!("{CANARY}\n")).unwrap();
    let file = app_and(&format!("[sources.stripe]\nsecrets = [\"file:{}\"]\n", path.display()));
    check_warnings(&file, &["sources.stripe.secrets: white space round the secret "]);
}

#[test]
fn a_reload_reads_secrets_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("secret");
    std::fs::write(&path, CANARY).unwrap();
    let inputs = of_file(&app_and(&format!("[sources.stripe]\nsecrets = [\"file:{}\"]\n", path.display())), []);
    let label = |inputs| loaded(inputs).settings.sources[0].secrets[0].label().to_owned();
    let first = label(&inputs);
    std::fs::write(&path, "whsec_rolled_9nRt2LpYc5HdWf8Zg").unwrap();
    assert_ne!(label(&inputs), first);
}

#[test]
fn a_database_is_a_file() {
    let database = |url: &str| format!("database = \"{url}\"\n{}", app_and(""));
    for (url, problem) in [
        ("postgres://u:canary@h", "names no database"),
        ("mysql://u:canary@h/db", "is not a database that we know"),
        ("stripe-guard.db", "is not a database that we know; write \\\"sqlite://"),
        ("sqlite://", "names no file"),
        ("sqlite://:memory:", "is in memory, where no event"),
        ("sqlite://a.db?mode=ro", "has options"),
    ] {
        check(&database(url), &[&format!("database: {}", problem.replace("\\\"", "\""))]);
    }
    check(&format!("table_prefix = \"Guard-\"\n{}", app_and("")), &["table_prefix: cannot begin a table's name"]);
}

#[test]
fn a_source_has_a_path_of_its_own() {
    let source = |lines: &str| app_and(&format!("[sources.stripe]\n{lines}\n"));
    for path in ["webhooks", "", "/", "/a b", "/a//b", "/a/../b", "/a?b", "/{source}", "https://x.example/hook"] {
        let Err(error) = load(&of_file(&source(&format!("path = \"{path}\"")), [])) else { panic!("{path}") };
        assert_eq!(error.problems[0].key, "sources.stripe.path", "{path}");
    }
    check(&source("path = \"/healthz\""), &["sources.stripe.path: is a path that health checks use"]);
    let trimmed = loaded(&of_file(&source("path = \"/hooks/stripe/\""), [])).settings;
    assert_eq!(trimmed.sources[0].path, "/hooks/stripe");
    let two = "[sources.a]\nsecrets = [\"env:STRIPE_WEBHOOK_SECRET\"]\n[sources.b]\nsecrets = [\"env:STRIPE_WEBHOOK_SECRET\"]\n";
    let names = loaded(&of_file(&app_and(two), [])).settings.sources.iter().map(|s| s.path.clone()).collect::<Vec<_>>();
    assert_eq!(names, ["/webhooks/a", "/webhooks/b"]);
    check(
        &app_and(&format!("{two}path = \"/webhooks/a/\"\n")),
        &["sources.b.path: is the path of the source a, too; give each"],
    );
    check(&app_and("[sources.Live]\n"), &["sources.Live: is not a name that the store takes"]);
    check(&source("accounts = [\"\"]"), &["sources.stripe.accounts[0]: is not an account"]);
    check(&source("api_version = \"latest\""), &["sources.stripe.api_version: is not an API version"]);
    check(&source("tolerance = \"500ms\""), &["sources.stripe.tolerance: is not in whole seconds"]);
    check(&source("tolerance = 300"), &["sources.stripe.tolerance: is a duration without a unit"]);
    check_warnings(&source("tolerance = \"0s\""), &["sources.stripe.tolerance: 0 switches the check"]);
}

#[test]
fn a_destination_is_an_address_that_can_be_posted_to() {
    for (url, problem) in [
        ("http://", "is not a URL"),
        ("ftp://app/x", "is neither http nor https"),
        ("http://user:canary@app/x", "has a user name or password in it; leave it out"),
        ("http://app/x#y", "has a fragment"),
        ("http://app:0/x", "has port 0"),
    ] {
        check(&format!("[destinations.app]\nurl = \"{url}\"\n"), &[&format!("destinations.app.url: {problem}")]);
    }
    check_app("sources = [\"strip\"]", "destinations.app.sources[0]: is not a source; name one of: stripe");
    check_app("types = []", "destinations.app.types: is empty; write [\"*\"]");
    check_app("types = [\"*\", \"invoice*\"]", "destinations.app.types[1]: is not a type filter; write an exact");
    check_app("concurrency = 0", "destinations.app.concurrency: is out of range; write a whole number from 1 to 1024");
    check_app("concurrency = \"10\"", "destinations.app.concurrency: is a string, not a whole number");
    check_app("connect_timeout = \"31s\"", "destinations.app.connect_timeout: is longer than timeout");
    check_app("final_statuses = [410, 200]", "destinations.app.final_statuses[1]: is out of range");
    check_app("lane = \"customer\"", "destinations.app.lane: is not a known key; the keys here are: url, sources,");
}

#[test]
fn types_that_the_app_must_answer_itself_are_refused_with_the_reason() {
    let reason = "takes issuing_authorization.request, for which Stripe waits for the app's own answer";
    for filter in ["issuing_authorization.request", "issuing_authorization.*"] {
        check_app(&format!("types = [\"{filter}\"]"), &format!("destinations.app.types[0]: {reason}"));
    }
    loaded(&of_file(&app_and("types = [\"issuing_authorization.created\", \"*\"]"), []));
}

#[test]
fn a_destination_that_is_our_own_address_is_refused_in_every_spelling() {
    for host in ["127.0.0.1", "localhost", "0.0.0.0", "[::1]", "127.1", "LOCALHOST", "[::ffff:127.0.0.1]"] {
        let file = format!("[destinations.app]\nurl = \"http://{host}:4747/webhooks/stripe/\"\n");
        check(&file, &["destinations.app.url: is our own address of the source stripe: events would go round"]);
    }
    let other_path = "[destinations.app]\nurl = \"http://127.0.0.1:4747/other\"\n";
    check_warnings(other_path, &["destinations.app.url: has the port that we listen on ourselves (4747)"]);
    loaded(&of_file("[destinations.app]\nurl = \"http://127.0.0.1:4700/webhooks/stripe\"\n", []));
    loaded(&of_file("[destinations.app]\nurl = \"http://app:4747/webhooks/stripe\"\n", []));
}

#[test]
fn values_that_contradict_each_other_are_refused() {
    check_app(
        "timeout = \"41s\"",
        "limits.lease: is not 5s longer than destinations.app.timeout: an event would be taken up again while its \
         request is running; make it at least \"46s\"",
    );
    check_app("[retention]\nbodies = \"34d\"", "retention.bodies: is too short: Stripe may send an event again");
    check_app("[limits]\nqueue_bytes = \"1MiB\"", "limits.queue_bytes: is less than body");
    check_app("[retry]\nfloor = \"2m\"\ncap = \"1m\"", "retry.cap: is shorter than floor");
    check_app("[admin]\nlisten = \"127.0.0.1:4747\"", "admin.listen: is the address of listen, too");
    check_app("[admin]\nhosts = [\"http://x\"]", "admin.hosts[0]: is not a host name");
    check_app("[limits]\nbody = \"2MB\"", "limits.body: is not a size; write a whole number with B, KiB");
    check(&format!("admin = 3\n{}", app_and("")), &["admin: is a number, not a table; write [admin]"]);
    let two_sources = "[sources.stripe]\n[sources.b]\nsecrets = [\"env:STRIPE_WEBHOOK_SECRET\"]\n";
    check_warnings(&app_and(&format!("sources = [\"b\"]\n{two_sources}")), &["sources.stripe: feeds no destination"]);
}

#[test]
fn a_schedule_is_a_preset_with_changes_and_a_destination_may_have_its_own() {
    let policies = |text: &str| -> Vec<RetryPolicy> {
        loaded(&of_file(text, [])).settings.destinations.iter().map(|one| one.retry).collect()
    };
    let hours = |hours: u64| Budget::Time(Duration::from_hours(hours));
    assert_eq!(policies(&app_and("[retry]\npreset = \"article\"")), [RetryPolicy::article()]);
    assert_eq!(policies(&app_and("[retry]\nbudget = 9"))[0].budget, Budget::Attempts(9));
    let text = app_and(
        "[destinations.b]\nurl = \"http://b/x\"\nretry = { preset = \"stripe\", floor = \"2s\" }\n\
         [destinations.c]\nurl = \"http://c/x\"\nretry = { cap = \"10m\" }\n[retry]\nbudget = \"9h\"\ncap = \"30m\"",
    );
    let found = policies(&text);
    assert_eq!((found[0].budget, found[0].cap), (hours(9), Duration::from_mins(30)));
    assert_eq!((found[1].budget, found[1].floor, found[1].cap), (hours(72), Duration::from_secs(2), found[0].cap));
    assert_eq!((found[2].budget, found[2].cap), (hours(9), Duration::from_mins(10)));
    check_app("[retry]\npreset = \"fast\"", "retry.preset: is not a preset; write \"stripe\"");
    check_app("retry = { budget = true }", "destinations.app.retry.budget: is true or false, not a budget");
}

#[test]
fn sign_and_verify_need_no_destination() {
    let found = source_secrets(&of_file("", []), None).map_err(|error| error.to_string());
    assert_eq!(found.unwrap().len(), 1);
    let error = source_secrets(&of_file("", []), Some("other")).map(|_| ()).unwrap_err();
    assert!(error.to_string().starts_with("sources.other: there is none"), "{error}");
}
