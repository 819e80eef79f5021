//! The types of events that the sandbox can make.

use std::sync::LazyLock;

use super::EVENTS_PER_ORDER;
use super::template::Template;

macro_rules! shapes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal, $file:literal, $words:expr;)+) => {
        /// A type of event, with a body of its own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Shape { $($(#[$doc])* $variant),+ }

        impl Shape {
            /// Every shape.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The event type that Stripe gives to it.
            pub const fn event_type(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            pub(super) fn template(self) -> &'static Template {
                match self {
                    $(Self::$variant => {
                        static TEMPLATE: LazyLock<Template> = LazyLock::new(|| {
                            let mut words = vec![("type", $text)];
                            words.extend_from_slice($words);
                            Template::parse(include_str!(concat!("data/", $file, ".json")), &words)
                        });
                        &TEMPLATE
                    })+
                }
            }
        }
    };
}

const ACTIVE: &[(&str, &str)] = &[("status", "active"), ("canceled_at", "null"), ("previous", "")];
const RENEWED: &[(&str, &str)] = &[
    ("status", "active"),
    ("canceled_at", "null"),
    ("previous", ",\n    \"previous_attributes\": {\n      \"latest_invoice\": \"{{in_1@customer}}\"\n    }"),
];
const ENDED: &[(&str, &str)] = &[("status", "canceled"), ("canceled_at", "{{created}}"), ("previous", "")];

const DRAFT: &[(&str, &str)] = &[
    ("status", "draft"),
    ("amount_paid", "0"),
    ("amount_remaining", "{{amount}}"),
    ("attempt_count", "0"),
    ("attempted", "false"),
    ("finalized_at", "null"),
    ("paid_at", "null"),
];
const OPEN: &[(&str, &str)] = &[
    ("status", "open"),
    ("amount_paid", "0"),
    ("amount_remaining", "{{amount}}"),
    ("attempt_count", "0"),
    ("attempted", "false"),
    ("finalized_at", "{{order_created}}"),
    ("paid_at", "null"),
];
const PAID: &[(&str, &str)] = &[
    ("status", "paid"),
    ("amount_paid", "{{amount}}"),
    ("amount_remaining", "0"),
    ("attempt_count", "1"),
    ("attempted", "true"),
    ("finalized_at", "{{order_created}}"),
    ("paid_at", "{{created}}"),
];
const UNPAID: &[(&str, &str)] = &[
    ("status", "open"),
    ("amount_paid", "0"),
    ("amount_remaining", "{{amount}}"),
    ("attempt_count", "1"),
    ("attempted", "true"),
    ("finalized_at", "{{order_created}}"),
    ("paid_at", "null"),
];

const NEW_CUSTOMER: &[(&str, &str)] = &[("delinquent", "false"), ("previous", "")];
const LATE_CUSTOMER: &[(&str, &str)] =
    &[("delinquent", "true"), ("previous", ",\n    \"previous_attributes\": {\n      \"delinquent\": false\n    }")];

const RECEIVED: &[(&str, &str)] =
    &[("status", "succeeded"), ("amount_received", "{{amount}}"), ("last_payment_error", "null")];
const DECLINED: &[(&str, &str)] = &[
    ("status", "requires_payment_method"),
    ("amount_received", "0"),
    (
        "last_payment_error",
        "{\n        \"charge\": \"{{ch_3@order}}\",\n        \"code\": \"card_declined\",\n        \
         \"decline_code\": \"insufficient_funds\",\n        \"message\": \"Your card has insufficient funds.\",\n        \
         \"type\": \"card_error\"\n      }",
    ),
];

const CHARGED: &[(&str, &str)] = &[("amount_refunded", "0"), ("refunded", "false"), ("previous", "")];
const REFUNDED: &[(&str, &str)] = &[
    ("amount_refunded", "{{amount}}"),
    ("refunded", "true"),
    ("previous", ",\n    \"previous_attributes\": {\n      \"amount_refunded\": 0,\n      \"refunded\": false\n    }"),
];

shapes! {
    /// A Checkout session was paid.
    CheckoutCompleted = "checkout.session.completed", "checkout_session", &[];
    /// A customer is new.
    CustomerCreated = "customer.created", "customer", NEW_CUSTOMER;
    /// A customer became delinquent.
    CustomerUpdated = "customer.updated", "customer", LATE_CUSTOMER;
    /// A subscription is new.
    SubscriptionCreated = "customer.subscription.created", "subscription", ACTIVE;
    /// A subscription was renewed.
    SubscriptionUpdated = "customer.subscription.updated", "subscription", RENEWED;
    /// A subscription has ended.
    SubscriptionDeleted = "customer.subscription.deleted", "subscription", ENDED;
    /// An invoice is being drafted.
    InvoiceCreated = "invoice.created", "invoice", DRAFT;
    /// An invoice is final.
    InvoiceFinalized = "invoice.finalized", "invoice", OPEN;
    /// An invoice is paid.
    InvoicePaid = "invoice.paid", "invoice", PAID;
    /// An invoice could not be collected.
    InvoicePaymentFailed = "invoice.payment_failed", "invoice", UNPAID;
    /// A payment came through.
    PaymentSucceeded = "payment_intent.succeeded", "payment_intent", RECEIVED;
    /// A payment was declined.
    PaymentFailed = "payment_intent.payment_failed", "payment_intent", DECLINED;
    /// A card was charged.
    ChargeSucceeded = "charge.succeeded", "charge", CHARGED;
    /// A charge was paid back.
    ChargeRefunded = "charge.refunded", "charge", REFUNDED;
    /// Money reached the bank.
    PayoutPaid = "payout.paid", "payout", &[];
    /// A thin event: a subscription changed.
    ThinSubscriptionUpdated = "v1.customer.subscription.updated", "thin_subscription", &[];
    /// A thin event: an event destination was tested.
    ThinPing = "v2.core.event_destination.ping", "thin_ping", &[];
}

const _: () = assert!(STORIES[0].len() as u64 == EVENTS_PER_ORDER);

/// What can happen to a customer, as the events that tell of it, in Stripe's usual order.
const STORIES: [[Shape; 8]; 4] = {
    use Shape as S;
    [
        // A new subscriber.
        [
            S::CustomerCreated,
            S::PaymentSucceeded,
            S::ChargeSucceeded,
            S::CheckoutCompleted,
            S::SubscriptionCreated,
            S::InvoiceCreated,
            S::InvoiceFinalized,
            S::InvoicePaid,
        ],
        // A renewal.
        [
            S::InvoiceCreated,
            S::InvoiceFinalized,
            S::PaymentSucceeded,
            S::ChargeSucceeded,
            S::InvoicePaid,
            S::SubscriptionUpdated,
            S::ThinSubscriptionUpdated,
            S::PayoutPaid,
        ],
        // A renewal that fails.
        [
            S::InvoiceCreated,
            S::InvoiceFinalized,
            S::PaymentFailed,
            S::InvoicePaymentFailed,
            S::CustomerUpdated,
            S::SubscriptionUpdated,
            S::ThinSubscriptionUpdated,
            S::ThinPing,
        ],
        // A customer who leaves.
        [
            S::PaymentSucceeded,
            S::ChargeSucceeded,
            S::CustomerUpdated,
            S::ChargeRefunded,
            S::SubscriptionDeleted,
            S::ThinSubscriptionUpdated,
            S::PayoutPaid,
            S::ThinPing,
        ],
    ]
};

impl Shape {
    /// The event at place `at` of the story that `hash` picks.
    pub(super) fn of_story(hash: u64, at: u64) -> Self {
        let [story, ..] = hash.to_le_bytes();
        let at = usize::try_from(at % EVENTS_PER_ORDER).unwrap_or(0);
        STORIES[usize::from(story) % STORIES.len()][at]
    }
}
