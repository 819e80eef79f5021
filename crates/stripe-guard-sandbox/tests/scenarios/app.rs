//! What the pretend app's behaviours do, seen by a bare client.

use std::time::Duration;

use crate::common::{LIMIT, RawClient, app};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use stripe_guard_sandbox::{App, AppOptions, Behaviour, Event, Ledger, Reply, Script, Shape, Shapes};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

fn event(number: u64) -> Event {
    Shapes::new(8).event(number)
}

#[tokio::test]
async fn it_listens_on_the_loopback_interface_and_the_port_is_free_after_a_stop() {
    let first = app().await;
    let port = first.port();
    assert!(first.url().starts_with("http://127.0.0.1:"));
    let mut client = RawClient::connect(&first).await;
    client.post(event(0).body).await.unwrap();
    first.stop().await;
    assert!(client.is_closed().await, "a stop closes what is open");

    let again = App::start(AppOptions { port, ..AppOptions::default() }).await.unwrap();
    assert_eq!(again.port(), port);
}

#[tokio::test]
async fn a_dropped_app_stops_by_itself() {
    let app = app().await;
    let mut client = RawClient::connect(&app).await;
    client.post(event(0).body).await.unwrap();
    drop(app);
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn it_answers_a_status_with_headers_and_a_body() {
    let app = app().await;
    app.set_behaviour(Reply::new(503).header("retry-after", "7").body("busy"));
    let answer = RawClient::connect(&app).await.post(event(0).body).await.unwrap();
    assert_eq!((answer.status().as_u16(), &answer.headers()["retry-after"]), (503, &"7".parse().unwrap()));
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "busy");
    assert_eq!((app.successes_of(&event(0).id), app.arrivals_of(&event(0).id)), (0, 1));
    assert_eq!(app.requests()[0].path, "/hook?x=1");
}

#[tokio::test]
async fn a_script_tells_types_events_and_attempts_apart() {
    let app = app().await;
    let (special, failing, plain) = (event(0), Shapes::new(8).event_of(Shape::PayoutPaid, 1), event(2));
    app.set_behaviour(
        Script::always(200)
            .on_attempts(..=2, 500)
            .on_type("payout.paid", 410)
            .on_event(&special.id, 202)
            .when(|arrival| arrival.header("host").is_none(), 418),
    );
    let mut client = RawClient::connect(&app).await;
    for (event, statuses) in [(&special, [202, 202, 202]), (&failing, [410, 410, 410]), (&plain, [500, 500, 200])] {
        for status in statuses {
            assert_eq!(client.post(event.body.clone()).await.unwrap().status().as_u16(), status, "{}", event.id);
        }
    }
    assert_eq!(app.successes_of(&special.id), 3);
    assert_eq!((app.successes_of(&plain.id), app.arrivals_of(&plain.id)), (1, 3));
    assert_eq!(app.requests().iter().map(|arrival| arrival.attempt).collect::<Vec<_>>(), [1, 2, 3, 1, 2, 3, 1, 2, 3]);
}

#[tokio::test]
async fn slow_answers_late_and_hang_never() {
    let app = app().await;
    let mut client = RawClient::connect(&app).await;
    let wait = Duration::from_millis(80);
    app.set_behaviour(Behaviour::slow(wait, 200));
    let start = Instant::now();
    client.post(event(0).body).await.unwrap();
    assert!(start.elapsed() >= wait);

    app.set_behaviour(Behaviour::Hang);
    assert!(timeout(wait, client.post(event(1).body)).await.is_err());
    assert_eq!((app.successes_of(&event(1).id), app.in_flight()), (0, 1));
    drop(client);
    assert!(app.wait_until(LIMIT, |app| app.in_flight() == 0).await, "a client that goes away is let go");
}

#[tokio::test]
async fn held_answers_when_the_test_says_so() {
    let app = app().await;
    let until = CancellationToken::new();
    app.set_behaviour(Behaviour::Held { until: until.clone(), reply: Reply::new(200) });
    let release = async {
        assert!(app.wait_until(LIMIT, |app| app.in_flight() == 2).await);
        assert_eq!(app.ledger().events(), 0);
        until.cancel();
    };
    assert_eq!(tokio::join!(post(&app, 0), post(&app, 1), release), (200, 200, ()));
}

#[tokio::test]
async fn drip_sends_the_head_in_time_and_the_body_byte_by_byte() {
    let app = app().await;
    app.set_behaviour(Behaviour::Drip { status: 200, bytes: 3, every: Duration::from_millis(20) });
    let start = Instant::now();
    let mut answer = RawClient::connect(&app).await.post(event(0).body).await.unwrap();
    for _ in 0..3 {
        let frame = answer.body_mut().frame().await.unwrap().unwrap();
        assert_eq!(frame.data_ref().unwrap().len(), 1);
    }
    assert!(answer.body_mut().frame().await.is_none());
    assert!(start.elapsed() >= Duration::from_millis(60));
}

#[tokio::test]
async fn huge_promises_two_gigabytes_and_makes_them_as_they_are_read() {
    let app = app().await;
    app.set_behaviour(Behaviour::huge(200));
    let mut answer = RawClient::connect(&app).await.post(event(0).body).await.unwrap();
    assert_eq!(answer.headers()["content-length"], "2000000000");
    let mut read = 0;
    while read < 1_000_000 {
        read += answer.body_mut().frame().await.unwrap().unwrap().data_ref().unwrap().len();
    }
    drop(answer);
    assert!(app.wait_until(LIMIT, |app| app.open_connections() == 0).await, "it stops when nobody reads");
    assert_eq!(app.in_flight(), 0);
}

#[tokio::test]
async fn cut_breaks_before_the_answer_and_cut_short_inside_it() {
    let app = app().await;
    app.set_behaviour(Behaviour::Cut);
    assert!(RawClient::connect(&app).await.post(event(0).body).await.is_err());
    assert_eq!((app.arrivals_of(&event(0).id), app.successes_of(&event(0).id)), (1, 0));

    app.set_behaviour(Behaviour::LoseAnswer { status: 200 });
    assert!(RawClient::connect(&app).await.post(event(2).body).await.is_err());
    assert_eq!(app.successes_of(&event(2).id), 1, "it took effect, and the client cannot know");

    app.set_behaviour(Behaviour::CutShort { status: 200 });
    let answer = RawClient::connect(&app).await.post(event(1).body).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(answer.into_body().collect().await.is_err());
}

#[tokio::test]
async fn close_after_idle_closes_a_kept_alive_connection_unasked() {
    let app = app().await;
    app.set_behaviour(Behaviour::CloseAfterIdle { idle: Duration::from_millis(20), reply: Reply::new(204) });
    let mut client = RawClient::connect(&app).await;
    assert_eq!(client.post(event(0).body).await.unwrap().status(), 204);
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn it_counts_what_is_in_flight_at_once() {
    let app = app().await;
    app.set_behaviour(Behaviour::slow(Duration::from_millis(100), 200));
    let (a, b, c) = tokio::join!(post(&app, 0), post(&app, 1), post(&app, 2));
    assert_eq!((a, b, c), (200, 200, 200));
    assert_eq!((app.max_in_flight(), app.connections()), (3, 3));
    assert!(app.wait_until(LIMIT, |app| app.in_flight() == 0).await);
}

async fn post(app: &App, number: u64) -> u16 {
    RawClient::connect(app).await.post(event(number).body).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn it_keeps_no_more_than_it_is_told_to_and_counts_all() {
    let app = App::start(AppOptions { arrivals_kept: 2, ..AppOptions::default() }).await.unwrap();
    let mut client = RawClient::connect(&app).await;
    for number in 0..5 {
        client.post(event(number).body).await.unwrap();
    }
    let kept: Vec<_> = app.requests().iter().filter_map(|arrival| arrival.event_id.clone()).collect();
    assert_eq!(kept, [event(3).id, event(4).id]);
    assert_eq!((app.arrivals(), app.successes_of(&event(0).id)), (5, 1));
    assert!(app.requests()[0].body.is_none() && app.requests()[0].verdict.is_none());
}

#[tokio::test]
async fn its_ledger_can_be_read_by_another_process() {
    let path = std::env::temp_dir().join(format!("stripe-guard-app-ledger-{}.txt", std::process::id()));
    let app = App::start(AppOptions { ledger: Some(path.clone()), ..AppOptions::default() }).await.unwrap();
    let mut client = RawClient::connect(&app).await;
    client.post(event(0).body).await.unwrap();
    client.post(Bytes::from_static(b"no event")).await.unwrap();
    let read = Ledger::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(read, [(event(0).id, vec![200]), ("-".to_owned(), vec![200])].into());
}
