//! kill -9 at random moments.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use stripe_guard_core::Timestamp;
use stripe_guard_sandbox::{
    App, AppOptions, Behaviour, Ledger, Plan, Reply, RetrySchedule, Rng, Script, Shapes, Traffic,
};
use tokio::runtime::Runtime;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::guard::{Folder, LEASE, PATIENCE, pause, secret};
use crate::inbox::Inbox;
use crate::scale;

/// Kills on one file; then it is drained and the next one begins, so that first starts are hit too.
const KILLS_OF_A_FILE: u32 = 40;

const CONNECTIONS: usize = 16;
const EVENTS_A_SECOND: u32 = 150;

/// A load that never ends by itself.
const ENDLESS: u64 = 10_000_000;

/// Where in its life the process was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Moment {
    StartUp,
    Load,
    Shutdown,
}

#[test]
fn fault_18_every_id_answered_2xx_outlives_a_kill_at_any_moment() {
    let (seed, mut rng) = scale::rng("kill");
    let kills = scale::scaled(12, 200);
    let (mut left, mut total) = (kills, HashMap::<Moment, u32>::new());
    let began = Instant::now();
    while left > 0 {
        let here = left.min(KILLS_OF_A_FILE);
        left -= here;
        for (moment, count) in drill(seed ^ u64::from(left), here, &mut rng) {
            *total.entry(moment).or_default() += count;
        }
    }
    println!("kill: {kills} kills survived in {:.1?}: {total:?}", began.elapsed());
}

/// Kills the process so many times on one file, and demands that all is well in the end.
fn drill(seed: u64, kills: u32, rng: &mut Rng) -> HashMap<Moment, u32> {
    let runtime = Runtime::new().unwrap();
    let options = AppOptions { script: moody(seed), ..AppOptions::verifying([secret()]) };
    let app = runtime.block_on(App::start(options)).unwrap();
    let folder = Folder::for_app(&app);
    let witness = folder.path().join("acknowledged.txt");
    let traffic = Traffic::new(folder.stripe(CONNECTIONS), Shapes::new(seed), Plan::untidy(seed, ENDLESS))
        .retries(RetrySchedule::every(Duration::from_millis(60)))
        .rate(EVENTS_A_SECOND)
        .ledger_in(Ledger::appending_to(&witness).unwrap());
    let (traffic, stop) = (Arc::new(traffic), CancellationToken::new());
    let sending = runtime.spawn({
        let (traffic, stop) = (Arc::clone(&traffic), stop.clone());
        async move { traffic.run(stop).await }
    });

    let (mut moments, mut start_up) = (HashMap::<Moment, u32>::new(), Duration::from_millis(50));
    for number in 0..kills {
        let moment = kill_once(&folder, rng, &mut start_up);
        *moments.entry(moment).or_default() += 1;
        let acknowledged = traffic.ledger().successes();
        let context = format!("seed {seed}, kill {number}, {moment:?}");
        match runtime.block_on(Inbox::copy_of(folder.path())) {
            Some(mut left) => runtime.block_on(left.check(&acknowledged, &context)),
            None => {
                assert!(acknowledged.is_empty(), "no table, and {} ids answered 2xx; {context}", acknowledged.len());
            }
        }
    }

    let mut guard = folder.serve();
    guard.wait_until_started();
    pause(500);
    stop.cancel();
    let sent = runtime.block_on(sending).unwrap();
    assert_eq!(
        (traffic.ledger().failed_writes(), Ledger::read(&witness).unwrap().len() >= sent.acknowledged),
        (0, true)
    );
    runtime.block_on(async {
        let mut inbox = Inbox::beside(folder.path()).await;
        inbox.drained(LEASE * 2 + PATIENCE).await;
    });
    assert!(guard.stop().success());
    runtime.block_on(judge(&folder, &traffic, &app, seed));
    println!("kill: {sent}; {moments:?}");
    moments
}

/// Starts the process and kills it, somewhere in its life.
fn kill_once(folder: &Folder, rng: &mut Rng, start_up: &mut Duration) -> Moment {
    let mut guard = folder.serve();
    let moment = match rng.below(10) {
        0..3 => Moment::StartUp,
        3..8 => Moment::Load,
        _ => Moment::Shutdown,
    };
    if moment == Moment::StartUp {
        let within = u64::try_from(start_up.as_micros()).unwrap() * 5 / 4;
        std::thread::sleep(Duration::from_micros(rng.below(within)));
    } else {
        *start_up = guard.wait_until_started();
        pause(rng.below(500));
    }
    if moment == Moment::Shutdown {
        guard.signal(Signal::TERM);
        std::thread::sleep(Duration::from_micros(rng.below(60_000)));
    }
    guard.kill();
    moment
}

/// The last word, on a file at rest.
async fn judge(folder: &Folder, traffic: &Traffic, app: &App, seed: u64) {
    let acknowledged = traffic.ledger().successes();
    let mut inbox = Inbox::copy_of(folder.path()).await.unwrap();
    inbox.check(&acknowledged, &format!("seed {seed}, at the end")).await;
    inbox.check_bodies().await;
    let (events, processed) = (inbox.number("SELECT count(*) FROM e").await, inbox.states().await);
    assert_eq!(processed, HashMap::from([("processed".to_owned(), events)]), "seed {seed}");
    // At least once, and a success on record is a success of the app.
    for key in inbox.keys().await {
        assert!(app.successes_of(&key) > 0, "{key} is processed and the app never took it; seed {seed}");
    }
    let outcomes = inbox.number("SELECT count(*) FROM a").await;
    let lost = inbox.number("SELECT count(*) FROM a WHERE outcome IN ('lost', 'late')").await;
    let twice = acknowledged.keys().filter(|id| app.successes_of(id) > 1).count();
    println!(
        "kill: {} ids answered 2xx, {events} stored and processed, {outcomes} attempts, {lost} of them lost or late, \
         {twice} ids taken by the app more than once",
        acknowledged.len()
    );
    assert!(app.requests().iter().all(|request| request.is_verified() && request.at > Timestamp::from_secs(0)));
}

/// An app that mostly succeeds, at once; its failures are a function of the seed and the request.
fn moody(seed: u64) -> Script {
    Script::new(move |request| {
        let id = request.event_id.as_deref().unwrap_or_default();
        let mixed = id.bytes().fold(seed, |sum, byte| Rng::new(sum ^ u64::from(byte)).next_u64());
        let mut rng = Rng::new(mixed ^ u64::from(request.attempt));
        match rng.below(100) {
            _ if request.attempt > 4 => Behaviour::from(200),
            0..8 => Behaviour::from(500),
            8..11 => Behaviour::from(Reply::new(503)),
            11..14 => Behaviour::Cut,
            14..16 => Behaviour::LoseAnswer { status: 200 },
            16..20 => Behaviour::slow(Duration::from_millis(80), 200),
            _ => Behaviour::from(200),
        }
    })
}
