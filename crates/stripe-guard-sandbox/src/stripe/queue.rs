//! What is to be sent next, and when: the plan's steps at their pace, and retries when they are due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::iter::Peekable;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Step, Steps};
use crate::clock;
use crate::shapes::Event;

/// An event that was not acknowledged, and is to be sent again.
#[derive(Debug)]
pub(super) struct Retry {
    pub(super) event: Event,
    /// 1 is the first retry.
    pub(super) number: u32,
    pub(super) first_at: Instant,
    pub(super) due_at: Instant,
}

/// What a worker is to do.
#[derive(Debug)]
pub(super) enum Job {
    Step(Step),
    Retry(Retry),
}

/// Shared by the workers. One of them at a time waits for what comes next, so that an idle crowd
/// is not woken for each event.
#[derive(Debug)]
pub(super) struct Queue {
    turn: tokio::sync::Mutex<Turn>,
    open: Mutex<Open>,
    changed: Notify,
}

#[derive(Debug)]
struct Turn {
    steps: Peekable<Steps>,
    pause: Duration,
    next_at: Instant,
}

#[derive(Debug, Default)]
struct Open {
    retries: BinaryHeap<Reverse<Retry>>,
    in_hand: usize,
}

enum Next {
    Job(Job),
    At(Instant),
    WhenOthersAreDone,
    Over,
}

impl Queue {
    /// A queue that hands out `steps`, each `pause` after the one before.
    pub(super) fn new(steps: Steps, pause: Duration) -> Self {
        let turn = Turn { steps: steps.peekable(), pause, next_at: clock::instant() };
        Self { turn: tokio::sync::Mutex::new(turn), open: Mutex::default(), changed: Notify::new() }
    }

    /// Waits for the next job; `None` when everything is done, or `stop` says so. Each job must be
    /// followed by a call of [`Queue::done`].
    pub(super) async fn next(&self, stop: &CancellationToken) -> Option<Job> {
        let mut turn = self.turn.lock().await;
        while !stop.is_cancelled() {
            match self.look(&mut turn) {
                Next::Job(job) => return Some(job),
                Next::At(at) => tokio::select! {
                    () = stop.cancelled() => {}
                    () = self.changed.notified() => {}
                    () = clock::sleep_until(at) => {}
                },
                Next::WhenOthersAreDone => tokio::select! {
                    () = stop.cancelled() => {}
                    () = self.changed.notified() => {}
                },
                Next::Over => return None,
            }
        }
        None
    }

    /// Ends a job, with a retry if there is to be one.
    pub(super) fn done(&self, retry: Option<Retry>) {
        let mut open = self.lock();
        open.in_hand -= 1;
        open.retries.extend(retry.map(Reverse));
        drop(open);
        self.changed.notify_one();
    }

    fn look(&self, turn: &mut Turn) -> Next {
        let mut open = self.lock();
        let retry_at = open.retries.peek().map(|Reverse(retry)| retry.due_at);
        let step_at = turn.steps.peek().map(|_| turn.next_at);
        let Some(first) = [retry_at, step_at].into_iter().flatten().min() else {
            return if open.in_hand == 0 { Next::Over } else { Next::WhenOthersAreDone };
        };
        if (retry_at.is_some() || !turn.pause.is_zero()) && first > clock::instant() {
            return Next::At(first);
        }
        let job = if retry_at == Some(first) {
            open.retries.pop().map(|Reverse(retry)| Job::Retry(retry))
        } else {
            turn.next_at += turn.pause;
            turn.steps.next().map(Job::Step)
        };
        open.in_hand += 1;
        job.map_or(Next::WhenOthersAreDone, Next::Job)
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The earliest first; of equals the lower number.
impl Ord for Retry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due_at, self.event.number).cmp(&(other.due_at, other.event.number))
    }
}

impl PartialOrd for Retry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Retry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Retry {}
