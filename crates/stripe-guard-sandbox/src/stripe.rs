//! The pretend Stripe: sends signed webhooks, in the way Stripe does, to one address.

mod connection;
mod plan;
mod queue;
mod schedule;
mod sender;
mod target;
mod traffic;

pub use self::plan::{Plan, Roll, Step, Steps, Why};
pub use self::schedule::RetrySchedule;
pub use self::sender::{SendError, Sender};
pub use self::target::{NotATarget, Target};
pub use self::traffic::{Report, Traffic};
