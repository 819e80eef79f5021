//! The engine of stripe-guard, a durable inbox for Stripe webhooks.

pub mod settings;
