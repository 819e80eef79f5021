//! What the sender promises.

use std::time::Duration;

use crate::common::{LIMIT, app, new, old, sender_to};
use bytes::Bytes;
use stripe_guard_core::SignatureError;
use stripe_guard_sandbox::{App, AppOptions, Behaviour, Reply, SendError, Sender, Shapes};

#[tokio::test]
async fn a_request_carries_stripes_headers_and_the_exact_bytes_and_verifies() {
    let app = app().await;
    let event = Shapes::new(1).event(0);
    assert_eq!(sender_to(&app, 1).send(event.body.clone()).await.unwrap(), 200);

    let arrival = &app.requests()[0];
    assert_eq!(arrival.verdict, Some(Ok("old".to_owned())));
    assert_eq!(arrival.header("user-agent"), Some("Stripe/1.0 (+https://stripe.com/docs/webhooks)"));
    assert_eq!(arrival.header("content-type"), Some("application/json; charset=utf-8"));
    assert_eq!((arrival.method.as_str(), arrival.path.as_str()), ("POST", "/webhooks"));
    assert_eq!(arrival.event_id.as_deref(), Some(event.id.as_str()));
    assert_eq!(arrival.event_type.as_deref(), Some(event.shape.event_type()));
    assert_eq!(arrival.body.as_ref(), Some(&event.body));
    assert_eq!(app.successes_of(&event.id), 1);
}

#[tokio::test]
async fn connections_are_kept_alive_and_as_many_as_allowed() {
    let app = app().await;
    let sender = sender_to(&app, 1);
    for number in 0..20 {
        sender.send(Shapes::new(1).event(number).body).await.unwrap();
    }
    assert_eq!((app.arrivals(), app.connections(), app.max_in_flight()), (20, 1, 1));
    drop(sender);
    assert!(app.wait_until(LIMIT, |app| app.open_connections() == 0).await, "a dropped sender hangs up");
}

#[tokio::test]
async fn a_connection_that_the_app_closed_while_idle_is_replaced_without_a_failure() {
    let app = app().await;
    app.set_behaviour(Behaviour::CloseAfterIdle { idle: Duration::from_millis(5), reply: Reply::new(200) });
    let sender = sender_to(&app, 1);
    for number in 0..5 {
        assert_eq!(sender.send(Shapes::new(1).event(number).body).await.unwrap(), 200);
        assert!(app.wait_until(LIMIT, |app| app.open_connections() == 0).await);
    }
    assert_eq!((app.arrivals(), app.connections()), (5, 5));
}

#[tokio::test]
async fn a_rolled_secret_signs_twice_and_then_with_the_new_one_only() {
    let app = App::start(AppOptions::verifying([new()])).await.unwrap();
    let sender = sender_to(&app, 1);
    let body = Shapes::new(1).event(0).body;
    assert_eq!(sender.send(body.clone()).await.unwrap(), 400);
    sender.use_secrets([old(), new()]);
    assert_eq!(sender.sign(&body).matches("v1=").count(), 2);
    assert_eq!(sender.send(body.clone()).await.unwrap(), 200);
    sender.use_secrets([new()]);
    assert_eq!(sender.sign(&body).matches("v1=").count(), 1);
    assert_eq!(sender.send(body).await.unwrap(), 200);
}

#[tokio::test]
async fn bad_missing_and_skewed_signatures_can_be_sent() {
    let app = app().await;
    let sender = sender_to(&app, 1);
    let body = Shapes::new(1).event(0).body;
    assert_eq!(sender.send_signed(body.clone(), "").await.unwrap(), 400);
    assert_eq!(sender.send_signed(body.clone(), "t=1,v1=00").await.unwrap(), 400);
    assert!(matches!(sender.send_signed(body.clone(), "\n").await, Err(SendError::BadHeader)));
    assert_eq!(sender_to(&app, 1).skewed(1000).send(body.clone()).await.unwrap(), 400);

    let verdicts: Vec<_> = app.requests().iter().map(|arrival| arrival.verdict.clone().unwrap()).collect();
    assert_eq!(verdicts[0], Err(SignatureError::HeaderMissing));
    assert_eq!(verdicts[1], Err(SignatureError::Malformed));
    assert!(matches!(verdicts[2], Err(SignatureError::OutsideTolerance { skew_seconds: -1001..=-990 })));
    assert_eq!(app.arrivals_of(&Shapes::new(1).event(0).id), 0, "refused ones do not count");
}

#[tokio::test]
async fn failures_have_names() {
    let app = app().await;
    let (url, body) = (app.url(), Bytes::from_static(b"{}"));
    let sender = Sender::new(&url, [old()], 2).unwrap().timeout(Duration::from_millis(50));

    app.set_behaviour(Behaviour::Hang);
    assert!(matches!(sender.send(body.clone()).await, Err(SendError::TimedOut)));
    app.set_behaviour(Behaviour::Cut);
    assert!(matches!(sender.send(body.clone()).await, Err(SendError::Broken(_))));
    assert_eq!(app.arrivals(), 2, "what may have left is not sent again");
    app.set_behaviour(Reply::new(302).header("location", "http://127.0.0.1:1/"));
    assert_eq!(sender.send(body.clone()).await.unwrap(), 302, "no redirect is followed");
    app.stop().await;
    assert!(matches!(sender.send(body).await, Err(SendError::Unreachable(_))));
}

#[tokio::test]
async fn an_answer_that_is_too_long_costs_its_connection_and_no_memory() {
    let app = app().await;
    app.set_behaviour(Behaviour::huge(200));
    let sender = sender_to(&app, 1);
    for _ in 0..2 {
        assert_eq!(sender.send(Bytes::from_static(b"{}")).await.unwrap(), 200);
    }
    assert_eq!(app.connections(), 2);
}
