//! The HTTP edge.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use stripe_guard::clock::{Clock as _, SystemClock};
use stripe_guard_core::signature;
use stripe_guard_sandbox::Behaviour;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::rig::{Rig, exchange};
use crate::support::{body, secret};

fn signed(event: &[u8]) -> String {
    signature::sign(&[&secret()], SystemClock.now(), event)
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_12_chunked_bodies_over_http_1_and_2() {
    let rig = Rig::start().await;
    let event = body("evt_1", "invoice.paid");
    let mut request = format!(
        "POST /webhooks/stripe HTTP/1.1\r\nhost: guard\r\nconnection: close\r\ntransfer-encoding: chunked\r\nstripe-signature: {}\r\n\r\n",
        signed(&event)
    )
    .into_bytes();
    for piece in event.chunks(7) {
        request.extend(format!("{:x}\r\n", piece.len()).into_bytes());
        request.extend(piece);
        request.extend(b"\r\n");
    }
    request.extend(b"0\r\n\r\n");
    assert_eq!(exchange(rig.engine().ingest_address(), &request).await, 200);

    let second = body("evt_2", "invoice.paid");
    let stream = TcpStream::connect(rig.engine().ingest_address()).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let pieces: Vec<_> =
        second.chunks(5).map(|piece| Ok::<_, std::io::Error>(Frame::data(Bytes::copy_from_slice(piece)))).collect();
    let request = hyper::Request::post("http://guard/webhooks/stripe")
        .header("stripe-signature", signed(&second))
        .body(StreamBody::new(futures_util::stream::iter(pieces)).boxed())
        .unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), 200);

    for (id, sent) in [("evt_1", event), ("evt_2", second)] {
        let stored = rig.event(id).await;
        assert_eq!(rig.store().body(stored.seq).await.unwrap().unwrap(), sent);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_13_a_compressed_body_is_refused_unopened() {
    let rig = Rig::start().await;
    let event = body("evt_1", "invoice.paid");
    let signature = signed(&event);
    for coding in ["gzip", "br", "deflate", "x-unknown"] {
        let headers = [("stripe-signature", signature.as_str()), ("content-encoding", coding)];
        assert_eq!(rig.raw("/webhooks/stripe", &headers, b"\x1f\x8b\x08\x00bomb").await, 415);
    }
    let headers = [("stripe-signature", signature.as_str()), ("content-encoding", "identity")];
    assert_eq!(rig.raw("/webhooks/stripe", &headers, &event).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_14_a_slash_more_or_less_and_unknown_paths() {
    let rig = Rig::start().await;
    for (id, path) in
        [("evt_1", "/webhooks/stripe"), ("evt_2", "/webhooks/stripe/"), ("evt_3", "/webhooks/stripe//?x=1")]
    {
        let event = body(id, "invoice.paid");
        assert_eq!(rig.raw(path, &[("stripe-signature", &signed(&event))], &event).await, 200, "{path}");
    }
    for path in ["/", "/webhooks", "/webhooks/other", "/webhooks/stripe/more"] {
        assert_eq!(rig.raw(path, &[], b"{}").await, 404, "{path}");
    }
    for _ in 0..300 {
        if rig.store().refusals().await.unwrap().iter().any(|one| one.reason == "unknown_path" && one.count == 4) {
            return;
        }
        crate::rig::pause().await;
    }
    panic!("the unknown paths are not shown");
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_16_a_burst_is_stored_and_the_app_is_not_overrun() {
    let rig = Rig::start_with(|settings| settings.destinations[0].concurrency = 4).await;
    rig.app.set_behaviour(Behaviour::slow(Duration::from_millis(20), 200));
    let stripe = std::sync::Arc::new(rig.stripe_with([secret()], 32));
    let posts: Vec<_> = (0..600)
        .map(|n| {
            let stripe = std::sync::Arc::clone(&stripe);
            tokio::spawn(async move {
                let began = SystemClock.now();
                let status = stripe.send(body(&format!("evt_{n}"), "invoice.paid")).await.unwrap();
                (status, SystemClock.now().since(began))
            })
        })
        .collect();
    for post in posts {
        let (status, took) = post.await.unwrap();
        assert_eq!(status, 200);
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
    rig.settled(600).await;
    assert!(rig.app.max_in_flight() <= 4, "{}", rig.app.max_in_flight());
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_17_idle_connections_do_not_hold_up_a_stop() {
    let mut rig = Rig::start().await;
    let address = rig.engine().ingest_address();
    let mut connections = Vec::new();
    for n in 0..20 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let event = body(&format!("evt_{n}"), "invoice.paid");
        let head = format!(
            "POST /webhooks/stripe HTTP/1.1\r\nhost: guard\r\nstripe-signature: {}\r\ncontent-length: {}\r\n\r\n",
            signed(&event),
            event.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        // Half of them are idle after an answer, half are in the middle of a request.
        let (first, rest) = event.split_at(if n % 2 == 0 { event.len() } else { 10 });
        stream.write_all(first).await.unwrap();
        if rest.is_empty() {
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"HTTP/1.1 200");
        }
        connections.push((stream, rest.to_vec()));
    }
    // A request is in progress once its head has been read.
    SystemClock.sleep(Duration::from_millis(200)).await;
    let began = SystemClock.now();
    let stop = tokio::spawn(async move {
        rig.stop().await;
        rig
    });
    SystemClock.sleep(Duration::from_millis(100)).await;
    for (stream, rest) in connections.iter_mut().filter(|(_, rest)| !rest.is_empty()) {
        stream.write_all(rest).await.unwrap();
        let mut answer = Vec::new();
        let end = stream.read_to_end(&mut answer).await;
        assert!(answer.starts_with(b"HTTP/1.1 200"), "a request in progress is answered: {end:?} {answer:?}");
    }
    stop.await.unwrap();
    assert!(SystemClock.now().since(began) < Duration::from_secs(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_over_the_limit_is_413_and_a_slow_one_408() {
    let rig = Rig::start_with(|settings| {
        settings.limits.body_bytes = 1000;
        settings.limits.body_timeout = Duration::from_millis(300);
    })
    .await;
    assert_eq!(rig.raw("/webhooks/stripe", &[("stripe-signature", "t=1,v1=00")], &[b'x'; 1001]).await, 413);
    let chunked = format!(
        "POST /webhooks/stripe HTTP/1.1\r\nhost: guard\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{}\r\n0\r\n\r\n",
        1001,
        "x".repeat(1001)
    );
    assert_eq!(exchange(rig.engine().ingest_address(), chunked.as_bytes()).await, 413);
    let unfinished = b"POST /webhooks/stripe HTTP/1.1\r\nhost: guard\r\ncontent-length: 10\r\n\r\nxx";
    assert_eq!(exchange(rig.engine().ingest_address(), unfinished).await, 408);
    let get = b"GET /webhooks/stripe HTTP/1.1\r\nhost: guard\r\nconnection: close\r\n\r\n";
    assert_eq!(exchange(rig.engine().ingest_address(), get).await, 405);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_its_headers_slowly_is_hung_up_on() {
    let rig = Rig::start_with(|settings| settings.limits.header_timeout = Duration::from_millis(300)).await;
    let mut stream = TcpStream::connect(rig.engine().ingest_address()).await.unwrap();
    stream.write_all(b"POST /webhooks/stripe HTTP/1.1\r\nhost: gu").await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "the connection is closed");
    // And one that says nothing at all, or only how an HTTP/2 client begins.
    let mut half = TcpStream::connect(rig.engine().ingest_address()).await.unwrap();
    half.write_all(b"PRI * HT").await.unwrap();
    let read = tokio::time::timeout(Duration::from_secs(5), half.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "half a preface is no reason to wait");
    let mut idle = TcpStream::connect(rig.engine().ingest_address()).await.unwrap();
    let read = tokio::time::timeout(Duration::from_secs(5), idle.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "an idle connection is closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_admin_listener_answers_only_to_names_it_knows() {
    let rig = Rig::start_with(|settings| settings.admin_hosts = vec!["guard.internal".to_owned()]).await;
    let ask = |host: &str| format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").into_bytes();
    let address = rig.engine().admin_address();
    for (host, expected) in [
        ("localhost", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:80", 200),
        ("guard.internal", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
    ] {
        assert_eq!(exchange(address, &ask(host)).await, expected, "{host}");
    }
}
