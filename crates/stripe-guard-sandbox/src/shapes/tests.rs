use std::collections::{BTreeMap, HashSet};

use serde_json::Value;
use stripe_guard_core::{Form, envelope};

use super::*;

fn every_shape() -> impl Iterator<Item = Event> {
    let shapes = Shapes::new(7).livemode(true);
    Shape::ALL.iter().flat_map(move |&shape| (0..40).map(move |n| shapes.event_of(shape, n)))
}

#[test]
fn every_shape_is_an_event_that_the_core_can_read() {
    for event in every_shape() {
        let envelope = envelope::read(&event.body).unwrap();
        assert_eq!(envelope.id.as_str(), event.id);
        assert_eq!(envelope.event_type.as_str(), event.shape.event_type());
        assert_eq!(envelope.livemode, Some(true));
        assert!(envelope.created.is_some(), "{}", event.shape.event_type());
        assert!(envelope.object_id.is_some(), "{}", event.shape.event_type());
        let thin = event.shape.event_type().starts_with('v');
        assert_eq!(envelope.form, if thin { Form::Thin } else { Form::Snapshot });
        assert_eq!(envelope.api_version.as_deref(), (!thin).then_some(API_VERSION));
        assert_eq!(envelope.customer.is_some(), !thin && event.shape != Shape::PayoutPaid);
    }
}

#[test]
fn a_body_is_written_as_stripe_writes_it() {
    for event in every_shape() {
        let text = std::str::from_utf8(&event.body).unwrap();
        assert!((250..8 * 1024).contains(&text.len()), "{} bytes", text.len());
        assert!(text.starts_with("{\n  \"id\": \"evt_") && text.ends_with('}'), "{text}");
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(lines(text), lines(&serde_json::to_string_pretty(&value).unwrap()), "two spaces, raw UTF-8");
        if !event.shape.event_type().starts_with('v') {
            assert_keys_in_order(text);
        }
    }
}

/// The lines of a pretty text without regard to the order of keys.
fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().map(|line| line.trim_end_matches(',')).collect();
    lines.sort_unstable();
    lines
}

#[track_caller]
fn assert_keys_in_order(text: &str) {
    let mut last: BTreeMap<usize, (u8, String)> = BTreeMap::new();
    for line in text.lines() {
        let depth = line.len() - line.trim_start().len();
        last.retain(|&known, _| known <= depth);
        if let Some((key, _)) = line.trim_start().split_once("\": ") {
            let rank = match key {
                "\"id" => 0,
                "\"object" => 1,
                _ => 2,
            };
            let next = (rank, key.to_owned());
            assert!(last.get(&depth).is_none_or(|before| *before < next), "{key} in {text}");
            last.insert(depth, next);
        } else if line.trim_start().starts_with('{') {
            last.remove(&(depth + 2));
        }
    }
}

#[test]
fn ids_are_unique_and_the_same_each_time() {
    let ids = |seed| (0..20_000).map(|n| Shapes::new(seed).event(n).id).collect::<Vec<_>>();
    let (first, other) = (ids(1), ids(2));
    assert_eq!(first, ids(1));
    assert_eq!(first.iter().chain(&other).collect::<HashSet<_>>().len(), 40_000);
}

#[test]
fn a_series_has_every_shape_about_two_kilobytes_and_some_japanese() {
    let events: Vec<Event> = (0..800).map(|n| Shapes::new(3).event(n)).collect();
    assert_eq!(events.iter().map(|event| event.shape).collect::<HashSet<_>>().len(), Shape::ALL.len());
    let mean = events.iter().map(|event| event.body.len()).sum::<usize>() / events.len();
    assert!((1_500..3_000).contains(&mean), "{mean}");
    assert!(events.iter().any(|event| std::str::from_utf8(&event.body).unwrap().contains("山田 太郎")));
}

#[test]
fn a_resent_event_has_its_id_and_other_bytes_unless_it_is_thin() {
    let shapes = Shapes::new(5);
    for number in 0..64 {
        let (first, again) = (shapes.event(number), shapes.resent(number));
        assert_eq!(first.id, again.id);
        assert_eq!(first.body == again.body, first.shape.event_type().starts_with('v'));
    }
}

#[test]
fn the_events_of_one_order_are_about_one_customer() {
    let shapes = Shapes::new(5).customers(3);
    let customer = |number| envelope::read(&shapes.event(number).body).unwrap().customer;
    let of_order = |order: u64| (order * 8..order * 8 + 8).filter_map(customer).collect::<HashSet<_>>();
    assert!((0..20).all(|order| of_order(order).len() == 1));
    assert_eq!((0..20).flat_map(of_order).collect::<HashSet<_>>().len(), 3);
}
