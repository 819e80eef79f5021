//! An exhaustive model of the inbox: Stripe, the store, the workers, the app and an operator, every
//! order of their steps within bounds, and every crash between two of them.
//!
//! What an outcome, a lost lease, a release or a replay leads to is asked of the functions that
//! production calls. The rules are in `model/rules.rs`, the bounds of each world in
//! `model/bounds.rs`. One of the rules is checked by running on from every world that is reached:
//! with a healthy app and one worker, every delivery ends. `model/variants.rs` lists inboxes that
//! break one rule each; a variant in which no property fails makes the test fail, and so does a
//! sight of `model/sights.rs` that the correct inbox never has.
//!
//! `STRIPE_GUARD_MODEL=large` makes every world larger; it wants `--release`:
//!
//! ```text
//! STRIPE_GUARD_MODEL=large cargo test --release -p stripe-guard-core --test model -- --nocapture
//! ```
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "model/actions.rs"]
mod actions;
#[path = "model/bounds.rs"]
mod bounds;
#[path = "model/drain.rs"]
mod drain;
#[path = "model/protocol.rs"]
mod protocol;
#[path = "model/rules.rs"]
mod rules;
#[path = "model/sights.rs"]
mod sights;
#[path = "model/variants.rs"]
mod variants;
#[path = "model/world.rs"]
mod world;

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model};

use crate::bounds::{Bounds, WORLDS};
use crate::protocol::Inbox;
use crate::variants::VARIANTS;

const THREADS: usize = 2;

fn is_large() -> bool {
    std::env::var("STRIPE_GUARD_MODEL").is_ok_and(|size| size == "large")
}

#[test]
fn every_rule_holds_in_every_order_of_steps() {
    let mut unseen: BTreeSet<_> = sights::all().map(|(name, _)| *name).collect();
    for bounds in WORLDS {
        let bounds = if is_large() { bounds.large() } else { *bounds };
        let checker = Inbox::new(bounds, None).checker().threads(THREADS).spawn_bfs().join();
        println!("{}: {} unique states, depth {}", bounds.name, checker.unique_state_count(), checker.max_depth());
        if let Some((rule, path)) = checker.discoveries().into_iter().next() {
            panic!("{}: not so: {rule}\n{path}", bounds.name);
        }
        checker.model().seen.names().for_each(|name| _ = unseen.remove(name));
    }
    assert!(unseen.is_empty(), "never seen: {unseen:#?}");
}

#[test]
fn every_broken_variant_is_found_out() {
    for variant in VARIANTS {
        let inbox = Inbox::new(Bounds::named(variant.world), Some(variant.broken));
        let found = HasDiscoveries::AllOf([variant.violates].into());
        let checker = inbox.checker().finish_when(found).spawn_bfs().join();
        let Some(path) = checker.discovery(variant.violates) else {
            panic!("{}: no counterexample to: {}", variant.name, variant.violates);
        };
        let steps = path.into_actions().len();
        println!("{}: after {steps} steps not so: {}", variant.name, variant.violates);
    }
}
