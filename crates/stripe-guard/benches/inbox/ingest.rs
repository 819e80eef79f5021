//! Ingest beside its ceilings, in turns.

use std::sync::Arc;
use std::time::Duration;

use stripe_guard_sandbox::{Plan, Report, Sender, Shapes, Traffic};
use tokio_util::sync::CancellationToken;

use crate::child::{Child, Kind, Order};
use crate::machine::{cpu_seconds, flush_time, folder, median, written_bytes};
use crate::options::Options;
use crate::servers::secret;

const KINDS: [Kind; 4] = [Kind::Verify, Kind::Same, Kind::Bare, Kind::Guard];

/// A round in which the flush time moved by more than this is not counted.
const FLUSH_MOVED: f64 = 2.0;

#[derive(Clone, Copy)]
struct Figures {
    per_second: f64,
    cpu_micros: f64,
    bytes: f64,
    p50: Duration,
    p99: Duration,
    max: Duration,
}

/// Sends the events of one seed to an address as fast as it takes them.
pub async fn send(url: &str, seed: u64, events: u64, connections: usize) -> (Report, Arc<Traffic>) {
    let sender = Sender::new(url, [secret()], connections).unwrap();
    let traffic = Arc::new(Traffic::new(sender, Shapes::new(seed), Plan::tidy(seed, events)));
    let report = traffic.run(CancellationToken::new()).await;
    assert_eq!(report.acknowledged as u64, events, "not every event was acknowledged: {report}");
    (report, traffic)
}

pub async fn run(options: &Options) {
    let Options { rounds, events, connections, .. } = options;
    println!("ingest: {events} events to each, {connections} connections, {rounds} rounds; CPU is the server's own");
    let folder = folder();
    let children = KINDS.map(|kind| {
        let database = folder.path().join(format!("{}.db", kind.word()));
        Child::start(&Order { kind, database, app: "http://127.0.0.1:9/".to_owned(), concurrency: 1 })
    });
    for child in &children {
        send(&child.url(), 1, events / 4, *connections).await;
    }
    let (mut counted, mut unsteady, mut round) = (Vec::new(), Vec::new(), 0);
    while counted.len() < *rounds && round < rounds * 3 {
        let before = flush_time();
        let mut figures = [None; KINDS.len()];
        for turn in 0..KINDS.len() {
            // Another order each time, so that a busy neighbour hits all alike.
            let place = if round % 2 == 0 {
                (turn + round / 2) % KINDS.len()
            } else {
                (KINDS.len() * 2 + round / 2 - turn) % KINDS.len()
            };
            figures[place] = Some(measure(&children[place], 2 + round as u64, options).await);
        }
        let after = flush_time();
        let moved = after.max(before).as_secs_f64() / after.min(before).as_secs_f64();
        let figures = figures.map(Option::unwrap);
        println!(
            "round {round}: {} events/s; flush {before:?} and {after:?}{}",
            figures.map(|one| format!("{:.0}", one.per_second)).join(", "),
            if moved > FLUSH_MOVED { ": not counted" } else { "" }
        );
        if moved > FLUSH_MOVED {
            unsteady.push(figures);
        } else {
            counted.push(figures);
        }
        round += 1;
    }
    println!("{} rounds counted, {} not", counted.len(), unsteady.len());
    if counted.is_empty() {
        println!("the machine is too busy: the figures are of the rounds that should not count");
        counted = unsteady;
    }
    show(&counted, options);
}

async fn measure(child: &Child, seed: u64, options: &Options) -> Figures {
    let (cpu, bytes) = (cpu_seconds(child.pid()), written_bytes(child.pid()));
    let (report, _) = send(&child.url(), seed, options.events, options.connections).await;
    let events = options.events as f64;
    Figures {
        per_second: events / report.elapsed.as_secs_f64(),
        cpu_micros: (cpu_seconds(child.pid()) - cpu) * 1e6 / events,
        bytes: (written_bytes(child.pid()) - bytes) / events,
        p50: report.p50,
        p99: report.p99,
        max: report.max,
    }
}

fn show(counted: &[[Figures; KINDS.len()]], options: &Options) {
    println!("\n{:<8} {:>9} {:>8} {:>8} {:>9} {:>9} {:>9}", "", "events/s", "CPU µs", "bytes", "p50", "p99", "max");
    for (place, kind) in KINDS.iter().enumerate() {
        let of = |figure: fn(&Figures) -> f64| median(counted.iter().map(|round| figure(&round[place])).collect());
        let ms = |figure: fn(&Figures) -> f64| format!("{:.2} ms", of(figure) * 1e3);
        println!(
            "{:<8} {:>9.0} {:>8.1} {:>8.0} {:>9} {:>9} {:>9}",
            kind.word(),
            of(|one| one.per_second),
            of(|one| one.cpu_micros),
            of(|one| one.bytes),
            ms(|one| one.p50.as_secs_f64()),
            ms(|one| one.p99.as_secs_f64()),
            ms(|one| one.max.as_secs_f64()),
        );
    }
    let guard = KINDS.len() - 1;
    for (place, name, aim) in
        [(0, "(a) verify only", 0.35), (1, "(b) the same tables", 0.85), (2, "(c) one bare table", f64::NAN)]
    {
        let ratio = |figure: fn(&Figures) -> f64| {
            median(counted.iter().map(|round| figure(&round[guard]) / figure(&round[place])).collect())
        };
        let rate = ratio(|one| one.per_second);
        let aim = if aim.is_nan() { String::new() } else { format!(" (aim {aim})") };
        println!("guard is {rate:.2} of {name}{aim}; its CPU time {:.2} x", ratio(|one| one.cpu_micros));
        assert!(!options.quick || rate > 0.05, "something is grossly slow");
    }
    println!();
}
