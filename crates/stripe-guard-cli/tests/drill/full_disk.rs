//! A disk without room, and with room again.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use stripe_guard_sandbox::{App, AppOptions, Plan, RetrySchedule, Shapes, Traffic};
use tokio_util::sync::CancellationToken;

use crate::guard::{Folder, Guard, PATIENCE, program, secret, wait_until};
use crate::inbox::Inbox;
use crate::scale;

const EVENTS: u64 = 400;

/// Runs a shell's script with a view of its own on what is mounted where, which ends with it.
fn unshared(script: &str) -> Vec<String> {
    let mut words = vec!["unshare", "--mount"];
    if !rustix::process::geteuid().is_root() {
        words.push("--map-root-user");
    }
    words.extend(["sh", "-c", script]);
    words.into_iter().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_503_and_loses_nothing_and_ends_when_there_is_room() {
    let can = program(&unshared("mount -t tmpfs none /tmp")).output();
    let can = can.is_ok_and(|output| output.status.success());
    assert!(can, "a small disk is mounted for this: run as root, or allow user namespaces");
    let (seed, _) = scale::rng("full disk");
    let app = App::start(AppOptions::verifying([secret()])).await.unwrap();
    let folder = Folder::for_app(&app);
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=64m none {disk} && head -c 62M /dev/zero > {disk}/ballast && exec {serve}",
        disk = disk.display(),
        serve = folder.command_line(&disk).join(" ")
    );
    let mut guard = folder.spawn(program(&unshared(&script)));
    guard.wait_until_started();
    // The disk as the process sees it.
    let disk = PathBuf::from(format!("/proc/{}/root{}", guard.id(), disk.display()));

    let traffic = Traffic::new(folder.stripe(8), Shapes::new(seed), Plan::tidy(seed, EVENTS))
        .retries(RetrySchedule::every(Duration::from_millis(100)));
    let traffic = Arc::new(traffic);
    let sending = tokio::spawn({
        let traffic = Arc::clone(&traffic);
        async move { traffic.run(CancellationToken::new()).await }
    });
    let refused = || traffic.report().statuses.get(&503).copied().unwrap_or(0);
    wait_until("the disk is full", || refused() > 100);
    wait_until("it says that it is not ready", || folder.admin("/readyz") == 503);
    let stored = traffic.ledger().events();
    assert!(guard.is_running(), "{}", guard.log_tail());

    std::fs::remove_file(disk.join("ballast")).unwrap();
    let report = tokio::time::timeout(PATIENCE, sending).await.unwrap_or_else(|_| {
        panic!("there is room and it does not recover: {}\n{}", traffic.report(), guard.log_tail())
    });
    println!("full disk: {stored} of {EVENTS} events fitted; {}", report.unwrap());
    wait_until("it says that it is ready", || folder.admin("/readyz") == 200);
    assert_eq!(traffic.report().statuses.keys().copied().collect::<Vec<_>>(), [200, 503]);
    assert!(app.wait_until(PATIENCE, |app| app.ledger().events() as u64 == EVENTS).await, "not all was delivered");
    assert_eq!(guard.starts(), 0, "it started anew for a full disk");

    let mut inbox = settled(&guard, &disk).await;
    inbox.check(&traffic.ledger().successes(), "after a full disk").await;
    inbox.check_bodies().await;
    assert!(guard.stop().success());
}

/// Waits until all is processed, in copies that are made while the process stands still: the file
/// itself cannot be opened from outside.
async fn settled(guard: &Guard, disk: &std::path::Path) -> Inbox {
    let mut states = HashMap::new();
    for _ in 0..PATIENCE.as_secs() * 4 {
        guard.signal(Signal::STOP);
        let inbox = Inbox::copy_of(disk).await;
        guard.signal(Signal::CONT);
        let mut inbox = inbox.unwrap();
        states = inbox.states().await;
        if states == HashMap::from([("processed".to_owned(), i64::try_from(EVENTS).unwrap())]) {
            return inbox;
        }
        tokio::task::spawn_blocking(|| crate::guard::pause(250)).await.unwrap();
    }
    panic!("not all is processed: {states:?}\n{}", guard.log_tail());
}
