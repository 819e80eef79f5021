//! Many posts of few events at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use stripe_guard_sandbox::{App, AppOptions, Shapes};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::guard::{Folder, PATIENCE, secret};
use crate::inbox::Inbox;
use crate::scale;

const EVENTS: u64 = 1000;
const POSTS_OF_EACH: usize = 10;
const CONNECTIONS: usize = 64;

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_posts_of_a_thousand_ids_are_a_thousand_rows_and_a_thousand_deliveries() {
    let (seed, mut rng) = scale::rng("storm");
    let app = App::start(AppOptions::verifying([secret()])).await.unwrap();
    let folder = Folder::for_app(&app);
    let mut guard = folder.serve();
    guard.wait_until_started();

    let events: Vec<_> = (0..EVENTS).map(|number| Shapes::new(seed).event(number)).collect();
    let mut posts: Vec<_> = events.iter().flat_map(|event| vec![event.body.clone(); POSTS_OF_EACH]).collect();
    for last in (1..posts.len()).rev() {
        posts.swap(last, usize::try_from(rng.below(last as u64 + 1)).unwrap());
    }
    let (posts, next) = (Arc::new(posts), Arc::new(AtomicUsize::new(0)));
    let stripe = Arc::new(folder.stripe(CONNECTIONS));
    let began = Instant::now();
    let mut lanes = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (posts, next, stripe) = (Arc::clone(&posts), Arc::clone(&next), Arc::clone(&stripe));
        lanes.spawn(async move {
            while let Some(body) = posts.get(next.fetch_add(1, Ordering::Relaxed)) {
                assert_eq!(stripe.send(body.clone()).await.unwrap(), 200);
            }
        });
    }
    lanes.join_all().await;
    let posted = began.elapsed();
    let mut inbox = Inbox::beside(folder.path()).await;
    inbox.drained(PATIENCE).await;
    println!("storm: {} posts answered 200 in {posted:.2?}, all processed after {:.2?}", posts.len(), began.elapsed());

    inbox.check(&events.iter().map(|event| (event.id.clone(), 1)).collect(), "after the storm").await;
    inbox.check_bodies().await;
    assert_eq!(inbox.number("SELECT count(*) FROM e").await, 1000);
    assert_eq!(inbox.number("SELECT count(*) FROM d WHERE state = 'processed' AND fence = 1").await, 1000);
    assert_eq!(inbox.number("SELECT count(*) FROM a WHERE outcome = 'delivered'").await, 1000);
    assert_eq!(inbox.number("SELECT sum(copies) FROM stripe_guard_copy_counts").await, 9000);
    assert!(events.iter().all(|event| app.arrivals_of(&event.id) == 1), "an event was delivered twice, or not at all");
    assert_eq!(app.ledger().statuses().into_iter().collect::<Vec<_>>(), [(200, 1000)]);
    assert!(guard.stop().success());
    tokio::time::timeout(Duration::from_secs(5), app.stop()).await.unwrap();
}
