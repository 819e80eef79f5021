//! The server as a process: starting, refusing to start, reloading, stopping.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use stripe_guard_core::SigningSecret;
use stripe_guard_sandbox::{Script, Sender};

use crate::inbox::{app, body, eventually, folder, impatient, secret, sender};
use crate::support::{CANARY, Folder, check};

const NOBODY: &str = "http://127.0.0.1:9/nobody";

/// This command fails to start with this code and one sentence, and leaves nothing behind.
#[track_caller]
fn check_refused(folder: &Folder, arguments: &[&str], code: i32, sentence: &str) {
    let files = || std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect::<Vec<_>>();
    let before = files();
    let run = folder.run(&[&["serve"], arguments].concat());
    check(&run, code, &[sentence]);
    assert_eq!(run.stdout, "", "nothing was announced");
    assert_eq!(run.stderr.lines().count(), 1, "one sentence: {run:?}");
    assert_eq!(files(), before, "nothing was half started");
}

#[test]
fn what_cannot_start_says_why_in_one_sentence_and_starts_nothing() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let free = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    let with = |more: &[&'static str]| [&free[..], more].concat();
    let to = ["--forward-to", NOBODY];
    let folder = folder().with_file("file", "no folder");

    let listen = ["--listen", &taken, "--admin-listen", "127.0.0.1:0", to[0], to[1]];
    check_refused(&folder, &listen, 1, &format!("error: cannot listen on {taken}: Address already in use"));
    let admin = ["--listen", "127.0.0.1:0", "--admin-listen", &taken, to[0], to[1]];
    check_refused(&folder, &admin, 1, &format!("error: cannot listen on {taken}: Address already in use"));
    check_refused(
        &folder,
        &with(&["--forward-to", "app:3000"]),
        2,
        "destinations.app.url (from --forward-to): is neither http nor https",
    );
    check_refused(
        &folder,
        &with(&["--forward-to", "http://"]),
        2,
        "destinations.app.url (from --forward-to): is not a URL",
    );
    let missing = [to[0], to[1], "--database", "sqlite://no/such/folder/x.db"];
    check_refused(&folder, &with(&missing), 1, "error: cannot write no/such/folder/x.db.lock");
    let no_folder = [to[0], to[1], "--database", "sqlite://file/x.db"];
    check_refused(&folder, &with(&no_folder), 1, "the folder must exist and be writable");
    let no_secret = Folder::new();
    check_refused(&no_secret, &with(&to), 2, "the environment variable STRIPE_WEBHOOK_SECRET is not set");
    let empty = Folder::new().with_variable("STRIPE_WEBHOOK_SECRET", " ");
    check_refused(&empty, &with(&to), 2, "is empty");
    check_refused(&folder, &with(&[]), 2, "destinations: there is none; give --forward-to URL");
    let folder = folder.with_variable("STRIPE_GUARD_LOG", "a=b=c");
    check_refused(&folder, &with(&to), 2, "STRIPE_GUARD_LOG is no log filter");
}

#[test]
fn two_servers_never_share_a_file() {
    let folder = folder();
    let first = folder.serve(&["--forward-to", NOBODY]);
    let ports = ["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--forward-to", NOBODY];
    let second = folder.run(&ports);
    check(&second, 1, &["another stripe-guard serves stripe-guard.db already"]);
    assert_eq!(first.stop().code, 0);
    folder.serve(&["--forward-to", NOBODY]).stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_3_white_space_round_a_secret_is_dropped_and_said_once() {
    let app = app(200).await;
    let folder = folder()
        .with_file("secret", format!("{CANARY}\n"))
        .with_file("stripe-guard.toml", impatient(&app, "secrets = [\"file:secret\"]"));
    let server = folder.serve(&[]);
    assert_eq!(sender(&server).send(body("evt_1", "invoice.paid")).await.unwrap(), 200);
    let log = server.stop().stderr;
    assert_eq!(log.matches("white space round the secret").count(), 1, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_takes_a_rolled_secret_and_loses_no_request() {
    const NEXT: &str = "whsec_canary7kQm3VxB9nRt2LpYc5HdWf8Zg_next";
    let app = app(200).await;
    let folder = folder()
        .with_file("secret", CANARY)
        .with_file("stripe-guard.toml", impatient(&app, "secrets = [\"file:secret\"]"));
    let server = folder.serve(&[]);
    let next = SigningSecret::parse(NEXT).unwrap();
    // While a secret is rolled, Stripe signs with both; these must all be taken, whatever we know.
    let both = Arc::new(Sender::new(&server.url(), [secret(), next.clone()], 4).unwrap());
    let (stop, taken) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let posting = tokio::spawn({
        let (both, stop, taken) = (Arc::clone(&both), Arc::clone(&stop), Arc::clone(&taken));
        async move {
            while !stop.load(Ordering::SeqCst) {
                let number = taken.fetch_add(1, Ordering::SeqCst);
                assert_eq!(both.send(body(&format!("evt_{number}"), "invoice.paid")).await.unwrap(), 200);
            }
        }
    });
    let (old, new) = (sender(&server), Sender::new(&server.url(), [next], 1).unwrap());
    assert_eq!(old.send(body("evt_old", "invoice.paid")).await.unwrap(), 200);
    assert_eq!(new.send(body("evt_new", "invoice.paid")).await.unwrap(), 400);

    // A file that cannot be used changes nothing.
    std::fs::write(folder.path().join("secret"), "short").unwrap();
    server.signal("HUP");
    server.wait_for_log("the configuration was not read again");
    assert_eq!(old.send(body("evt_old", "invoice.paid")).await.unwrap(), 200);

    std::fs::write(folder.path().join("secret"), NEXT).unwrap();
    server.signal("HUP");
    server.wait_for_log("the configuration was read again");
    assert_eq!(new.send(body("evt_new", "invoice.paid")).await.unwrap(), 200);
    assert_eq!(old.send(body("evt_old_again", "invoice.paid")).await.unwrap(), 400);

    tokio::time::sleep(Duration::from_millis(200)).await;
    stop.store(true, Ordering::SeqCst);
    posting.await.unwrap();
    let all = i64::try_from(taken.load(Ordering::SeqCst)).unwrap() + 2;
    let stats = folder.run(&["stats", "--json"]).json();
    assert_eq!(stats["last_seq"].as_i64(), Some(all), "every request that was posted is stored");
    assert_eq!(server.stop().code, 0);
}

#[test]
fn fault_60_processes_that_open_a_new_file_at_once_never_find_it_locked() {
    for with_file in [true, false, true, false] {
        let folder = if with_file { folder().with_file("stripe-guard.db", "") } else { folder() };
        let look = |command: &'static [&'static str]| (0..3).map(move |_| command);
        let commands = look(&["stats"]).chain(look(&["events", "list"]));
        std::thread::scope(|scope| {
            let server = scope.spawn(|| folder.serve(&["--forward-to", NOBODY]));
            let looks: Vec<_> = commands.map(|command| scope.spawn(|| folder.run(command))).collect();
            for look in looks {
                let run = look.join().unwrap();
                // A command that comes before the file says so; none makes one.
                let too_early = !with_file && run.code == 1 && run.stderr.contains("there is no database");
                assert!(run.code == 0 || too_early, "{run:?}");
            }
            assert_eq!(server.join().unwrap().stop().code, 0);
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_76_the_most_detailed_log_shows_no_secret_no_signature_and_no_body() {
    const PERSON: &str = "canary-person";
    let app = app(Script::always(200).on_type("charge.refunded", 410)).await;
    let key = "canaryKeyOfTheLedgerDestination";
    let file = format!(
        "[destinations.app]\nurl = \"{}?token=canary-token\"\nretry = {{ budget = 1 }}\n\
         [destinations.gone]\nurl = \"http://127.0.0.1:9/nobody\"\nsecrets = [\"{key}\"]\nretry = {{ budget = 1 }}\n",
        app.url()
    );
    let folder = folder().with_variable("STRIPE_GUARD_LOG", "trace").with_file("stripe-guard.toml", file);
    let server = folder.serve(&[]);
    let sender = sender(&server);
    let mut signatures = Vec::new();
    for (id, event_type) in [("evt_1", "invoice.paid"), ("evt_2", "charge.refunded")] {
        let body = body(id, event_type);
        let signature = sender.sign(&body);
        assert_eq!(sender.send_signed(body, &signature).await.unwrap(), 200);
        signatures.push(signature);
    }
    let forged = "t=1796083200,v1=00ca7a51000000000000000000000000000000000000000000000000000000ff";
    assert_eq!(sender.send_signed(body("evt_3", "invoice.paid"), forged).await.unwrap(), 400);
    signatures.push(forged.to_owned());
    let url = server.url();
    let address = url.trim_start_matches("http://").split('/').next().unwrap().to_owned();
    let mut said = vec![
        raw(&address, "POST /webhooks/nowhere HTTP/1.1", forged),
        raw(&address, "POST /webhooks/stripe HTTP/1.1", forged),
    ];
    assert!(said.iter().all(|answer| answer.starts_with("HTTP/1.1 4")), "{said:?}");
    eventually(&folder, &["dead-letters"], |answer| answer["dead_letters"].as_array().unwrap().len() == 3);

    said.push(crate::support::get(&server.admin(), "/metrics"));
    for command in [
        &["check"][..],
        &["stats"],
        &["events", "list"],
        &["events", "show", "evt_1"],
        &["dead-letters"],
        &["attempts", "evt_2"],
    ] {
        for json in [&["--json"][..], &[]] {
            let run = folder.run(&[command, json].concat());
            said.push(run.stdout + &run.stderr);
        }
    }
    for arrival in app.requests() {
        signatures.push(arrival.header("stripe-signature").unwrap().to_owned());
    }
    let run = server.stop();
    assert!(
        run.stderr.contains("settled delivery") && run.stderr.contains("a request was refused"),
        "the log is detailed: {}",
        run.stderr
    );
    said.push(run.stdout + &run.stderr);

    let said = said.join("\n");
    let hashes = signatures.iter().flat_map(|header| header.split("v1=").skip(1).map(|hash| &hash[..64]));
    let hidden = hashes.chain([CANARY, &CANARY[6..], key, PERSON, "canary-token", "\"object\":\"invoice\""]);
    for secret in hidden {
        let at = said.find(secret).map(|at| said[at.saturating_sub(300)..at + secret.len()].to_owned());
        assert_eq!(at, None, "{secret} was shown");
    }
}

/// One request by hand, with a body that no log may show, and its answer.
fn raw(address: &str, line: &str, signature: &str) -> String {
    use std::io::{Read as _, Write as _};
    let body = body("evt_raw", "invoice.paid");
    let mut connection = std::net::TcpStream::connect(address).unwrap();
    let head = format!(
        "{line}\r\nHost: {address}\r\nStripe-Signature: {signature}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    connection.write_all(&[head.as_bytes(), &body].concat()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}
