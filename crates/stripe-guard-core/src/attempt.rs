//! What can come of an attempt, and why a delivery can be given up.

use crate::event::words;

words! {
    /// What came of one attempt.
    Outcome {
        /// The app answered 2xx.
        Delivered = "delivered",
        /// The app answered a status that its destination calls final, 410 by default.
        Rejected = "rejected",
        /// Any other answer; redirects too.
        Failed = "failed",
        /// 429 or 503.
        Overloaded = "overloaded",
        /// 401, 403 or 404.
        Misconfigured = "misconfigured",
        /// No whole answer within the time-out.
        TimedOut = "timed_out",
        /// Name, connect, TLS, or cut off.
        Unreachable = "unreachable",
        /// The lease ran out before anything was settled.
        Lost = "lost",
        /// A fenced worker's answer: a possible duplicate, never a success.
        Late = "late",
        /// Our own fault: body missing, digest wrong, corrupt row.
        Internal = "internal",
    }
}

impl Outcome {
    /// The outcome of an answer with this status, where `finals` are the statuses that end a delivery.
    pub fn of_status(status: u16, finals: &[u16]) -> Self {
        match status {
            200..=299 => Self::Delivered,
            _ if finals.contains(&status) => Self::Rejected,
            429 | 503 => Self::Overloaded,
            401 | 403 | 404 => Self::Misconfigured,
            _ => Self::Failed,
        }
    }
}

words! {
    /// Why a delivery was given up by policy.
    DeadLetterClass {
        /// The app refused it for good.
        Rejected = "rejected",
        /// The budget is over, and the last answer came from the app.
        Exhausted = "exhausted",
        /// The budget is over, and there was no answer.
        Unreachable = "unreachable",
        /// Five leases in a row were lost: it takes its worker with it.
        Crashed = "crashed",
        /// Our own fault.
        Internal = "internal",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_one_outcome_and_a_final_one_wins() {
        let of = |status| Outcome::of_status(status, &[410, 404]);
        assert_eq!([200, 204, 299].map(of), [Outcome::Delivered; 3]);
        assert_eq!([410, 404].map(of), [Outcome::Rejected; 2]);
        assert_eq!([429, 503].map(of), [Outcome::Overloaded; 2]);
        assert_eq!([401, 403].map(of), [Outcome::Misconfigured; 2]);
        assert_eq!([100, 301, 400, 409, 500, 502, 599].map(of), [Outcome::Failed; 7]);
    }
}
