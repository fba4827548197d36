//! When a peer that ended may be started (or dialled) again. Pure: the time is an argument.
//!
//! A start is made only when a request needs it, so a server that always ends at once is not started in a loop; the
//! backoff and the bound hold where the host asks again and again (BR-06).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The rules; options under `restart`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RestartPolicy {
    /// `max`: restarts within the window; 0: none at all.
    pub max: usize,
    /// `window_ms`.
    pub window: Duration,
    /// `backoff_ms`: the wait before the second restart of a window; it doubles with each further one. The first is
    /// made at once: most servers that ended did so for the first time.
    pub backoff: Duration,
    /// `max_backoff_ms`: the longest wait.
    pub longest: Duration,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            max: 5,
            window: Duration::from_secs(60),
            backoff: Duration::from_millis(500),
            longest: Duration::from_secs(10),
        }
    }
}

/// What to do with the wish for a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Now.
    Now,
    /// Not before this moment.
    At(Instant),
    /// Not at all, for the time being.
    Refused,
}

/// The restarts of one peer.
#[derive(Debug)]
pub(crate) struct Restarts {
    policy: RestartPolicy,
    started_before: bool,
    /// The restarts that are still inside the window.
    recent: VecDeque<Instant>,
}

impl Restarts {
    pub(crate) fn new(policy: RestartPolicy) -> Self {
        Self { policy, started_before: false, recent: VecDeque::new() }
    }

    /// Somebody needs the peer, and it is not there.
    pub(crate) fn on_wanted(&mut self, now: Instant) -> Start {
        if !self.started_before {
            return Start::Now;
        }
        while self.recent.front().is_some_and(|at| now.saturating_duration_since(*at) >= self.policy.window) {
            self.recent.pop_front();
        }
        if self.recent.len() >= self.policy.max {
            return Start::Refused;
        }
        let (Some(last), count) = (self.recent.back(), self.recent.len()) else {
            return Start::Now;
        };
        let doubled = 1u32.checked_shl(count.saturating_sub(1).try_into().unwrap_or(u32::MAX)).unwrap_or(u32::MAX);
        let wait = self.policy.backoff.saturating_mul(doubled).min(self.policy.longest);
        match last.checked_add(wait).filter(|at| *at > now) {
            Some(at) => Start::At(at),
            None => Start::Now,
        }
    }

    /// A start is being made.
    pub(crate) fn on_start(&mut self, now: Instant) {
        if std::mem::replace(&mut self.started_before, true) {
            self.recent.push_back(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, ManualClock};

    enum Do {
        Want(Start2),
        Start,
        Pass(u64),
    }
    enum Start2 {
        Now,
        In(u64),
        Refused,
    }
    use Do::{Pass, Start as Go, Want};
    use Start2::{In, Now, Refused};

    #[test]
    fn br_06_the_table_of_restarts() {
        let policy = RestartPolicy { max: 3, ..RestartPolicy::default() };
        let rows: [(&str, RestartPolicy, Vec<Do>); 4] = [
            ("the first start is no restart", policy, vec![Want(Now), Go, Want(Now)]),
            (
                "the wait doubles, then the bound holds until the window has passed",
                policy,
                vec![
                    Go,
                    Go,
                    Want(In(500)),
                    Pass(500),
                    Want(Now),
                    Go,
                    Want(In(1000)),
                    Pass(1000),
                    Go,
                    Want(Refused),
                    Pass(58_499),
                    Want(Refused),
                    Pass(1),
                    Want(Now),
                ],
            ),
            ("no restart at all", RestartPolicy { max: 0, ..policy }, vec![Want(Now), Go, Want(Refused)]),
            (
                "the wait has a ceiling",
                RestartPolicy { max: 100, window: Duration::from_secs(1000), ..policy },
                vec![Go, Go, Go, Go, Go, Go, Go, Go, Go, Want(In(10_000))],
            ),
        ];
        for (name, policy, steps) in rows {
            let (clock, mut restarts) = (ManualClock::new(), Restarts::new(policy));
            for (at, step) in steps.into_iter().enumerate() {
                let now = clock.now();
                match step {
                    Want(want) => {
                        let want = match want {
                            Now => Start::Now,
                            In(ms) => Start::At(now + Duration::from_millis(ms)),
                            Refused => Start::Refused,
                        };
                        assert_eq!(restarts.on_wanted(now), want, "{name}, step {at}");
                    }
                    Go => restarts.on_start(now),
                    Pass(ms) => clock.advance(Duration::from_millis(ms)),
                }
            }
        }
    }
}
