//! The order of flush and answer, under strace; and a flush that fails.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use stripe_guard_sandbox::{App, AppOptions, Behaviour, Plan, Report, RetrySchedule, Script, Shapes, Traffic};
use tokio_util::sync::CancellationToken;

use crate::guard::{Folder, Guard, LEASE, PATIENCE, program, secret, wait_until};
use crate::inbox::Inbox;
use crate::scale;
use crate::trace::{Seen, TRACER};
use crate::unflushed;

const CONNECTIONS: usize = 8;

/// Fewer are made by one thread at the first start, which ends with an error if one of them fails.
const FIRST_START_FLUSHES: u64 = 16;

/// From a failed flush to the first answer of the new start, strace and a debug build included.
const OUTAGE_MAX: f64 = 6.0;

/// strace and its arguments.
fn tracer(folder: &Folder, inject: Option<&str>) -> Vec<String> {
    let there = Command::new("strace").arg("--version").output().is_ok_and(|output| output.status.success());
    assert!(there, "this drill needs strace; run scripts/test, which installs it");
    let mut tracer: Vec<_> = TRACER.iter().map(|&word| word.to_owned()).collect();
    tracer.extend(["-o".to_owned(), folder.path().join("trace.txt").display().to_string()]);
    tracer.extend(inject.map(|what| format!("--inject={what}")));
    tracer.push("--".to_owned());
    tracer
}

fn ids(seed: u64, events: u64) -> HashSet<String> {
    (0..events).map(|number| Shapes::new(seed).event(number).id).collect()
}

/// Some posts one after the other, then many at once, each until it is acknowledged.
async fn send(folder: &Folder, seed: u64, alone: u64, events: u64) -> Arc<Traffic> {
    let stripe = folder.stripe(1);
    for number in 0..alone {
        assert_eq!(stripe.send(Shapes::new(seed).event(number).body).await.unwrap(), 200);
    }
    let traffic = Traffic::new(folder.stripe(CONNECTIONS), Shapes::new(seed), Plan::untidy(seed, events))
        .retries(RetrySchedule::every(Duration::from_millis(60)));
    let traffic = Arc::new(traffic);
    let report = tokio::time::timeout(PATIENCE, traffic.run(CancellationToken::new())).await;
    println!("flush: {}", report.expect("not all was acknowledged in time"));
    traffic
}

/// Ends the server and waits until strace has written all down.
fn end(mut guard: Guard, folder: &Folder) {
    guard.signal(Signal::TERM);
    guard.wait();
    written_down(folder.path(), guard.id());
}

fn written_down(folder: &Path, id: u32) {
    let last = [format!("{id} "), " +++ ".to_owned()];
    wait_until("strace has ended", || {
        let trace = std::fs::read(folder.join("trace.txt")).unwrap();
        let tail = String::from_utf8_lossy(&trace[trace.len().saturating_sub(2000)..]).into_owned();
        tail.lines().any(|line| line.starts_with(&last[0]) && line.contains(&last[1]))
    });
}

fn acknowledged(report: &Report) -> (usize, u64) {
    (report.acknowledged, report.statuses.get(&200).copied().unwrap_or(0))
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_leaves_before_the_flush_that_covers_it() {
    let (seed, _) = scale::rng("flush");
    let events = u64::from(scale::scaled(150, 2000));
    let app = App::start(AppOptions::verifying([secret()])).await.unwrap();
    let folder = Folder::for_app(&app);
    let command_line = [tracer(&folder, None), folder.command_line(folder.path())].concat();
    let mut guard = folder.spawn(program(&command_line));
    guard.wait_until_started();
    let traffic = send(&folder, seed, 30, events).await;
    end(guard, &folder);

    let seen = Seen::read(&folder.path().join("trace.txt"), folder.ingest_port(), &ids(seed, events));
    let (early, (_, answered)) = (seen.early(), acknowledged(&traffic.report()));
    println!("flush: {} answers, {} flushes, {} early", seen.answers(), seen.flushes(), early.len());
    assert_eq!(seen.answers() as u64, 30 + answered, "the trace has not all answers");
    assert!(early.is_empty(), "answered before the flush: {early:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_check_fails_where_nothing_is_flushed() {
    let (seed, _) = scale::rng("flush, control");
    let app = App::start(AppOptions::verifying([secret()])).await.unwrap();
    let folder = Folder::for_app(&app);
    let mut guard = folder.spawn(unflushed::command(&folder, &tracer(&folder, None)));
    guard.wait_until_started();
    send(&folder, seed, 20, 50).await;
    end(guard, &folder);

    let seen = Seen::read(&folder.path().join("trace.txt"), folder.ingest_port(), &ids(seed, 50));
    println!("flush, control: {} answers, {} flushes, {} early", seen.answers(), seen.flushes(), seen.early().len());
    assert!(seen.answers() >= 70);
    assert_eq!(seen.early().len(), seen.answers(), "the check has not seen that nothing is flushed");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failed_flush_nothing_is_acknowledged_until_a_new_start() {
    let (seed, mut rng) = scale::rng("flush, failing");
    for round in 0..scale::scaled(2, 20) {
        let seed = seed ^ u64::from(round);
        let app = App::start(AppOptions::verifying([secret()])).await.unwrap();
        let folder = Folder::for_app(&app);
        let inject = format!("fsync,fdatasync:error=EIO:when={}", FIRST_START_FLUSHES + rng.below(24));
        let acknowledged = fail_the_flush(&folder, seed, &inject).await;

        // Without strace it comes to its end.
        let mut guard = folder.serve();
        guard.wait_until_started();
        let mut inbox = Inbox::beside(folder.path()).await;
        inbox.drained(LEASE * 2 + PATIENCE).await;
        inbox.check(&acknowledged, &inject).await;
        inbox.check_bodies().await;
        assert!(guard.stop().success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_flush_does_not_wait_for_the_app() {
    let (seed, _) = scale::rng("flush, failing, app hangs");
    let script = Script::always(200).on_event(&Shapes::new(seed).event(0).id, Behaviour::Hang);
    let app = App::start(AppOptions { script, ..AppOptions::verifying([secret()]) }).await.unwrap();
    let folder = Folder::for_patient(&app);
    fail_the_flush(&folder, seed, "fsync,fdatasync:error=EIO:when=30").await;
}

/// Sends while the n-th flush of each thread fails, in each life of the process anew, and gives
/// what was acknowledged.
async fn fail_the_flush(folder: &Folder, seed: u64, inject: &str) -> HashMap<String, u32> {
    let events = 120;
    let command_line = [tracer(folder, Some(inject)), folder.command_line(folder.path())].concat();
    let mut guard = folder.spawn(program(&command_line));
    guard.wait_until_started();
    let traffic = send(folder, seed, 0, events).await;
    let report = traffic.report();
    assert!(guard.is_running(), "{inject}: {}", guard.log_tail());
    end(guard, folder);

    let seen = Seen::read(&folder.path().join("trace.txt"), folder.ingest_port(), &ids(seed, events));
    println!(
        "flush, failing: {inject}: {} answers 200, {} flushes and {} failed, {} new starts, away for {:.1?} s",
        seen.answers(),
        seen.flushes(),
        seen.failures(),
        seen.restarts(),
        seen.outages()
    );
    assert!(seen.failures() > 0 && seen.restarts() > 0, "{inject} has not struck");
    assert!(report.statuses.keys().all(|status| [200, 503].contains(status)), "{inject}: {report}");
    assert!(report.statuses.contains_key(&503), "{inject}: nobody was told 503: {report}");
    assert_eq!(seen.early(), [""; 0], "{inject}: answered before the flush");
    assert_eq!(seen.after_a_failure(), [""; 0], "{inject}: answered after a failed flush");
    assert_eq!(seen.before_the_file_was_flushed(), [""; 0], "{inject}: answered before the file was flushed");
    assert!(seen.outages().iter().all(|&outage| outage < OUTAGE_MAX), "{inject}: away for {:?} s", seen.outages());
    traffic.ledger().successes()
}
