//! Faults that people met with webhooks, each as a test that is named by its number.

mod delivery;
mod duplicates;
mod http_edge;
mod keeping;
mod signatures;
mod storage;
mod stripe_sends;
