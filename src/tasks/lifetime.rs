//! A task's time to live: a back-stop, measured on the boot-time clock from our own receipt of the task.
//!
//! The server's `createdAt` is not used: its clock may be hours away from ours (BR-36). `ttlMs` counts from creation,
//! so a changed value moves the same end, it does not start a new one.

use std::time::{Duration, Instant};

use crate::protocol::task::Ttl;
use crate::tasks::pace::Moment;

/// What the server told about the time to live, and whether it has passed.
#[derive(Clone, Debug)]
pub(crate) struct Lifetime {
    /// The last value told; an answer without one changes nothing.
    told: Ttl,
    /// When we began to count.
    start: Moment,
    /// How old the task was then (a task of an earlier process).
    age: Duration,
    /// When to look again; `None` where there is no limit, or the host was told already.
    wake: Option<Instant>,
    /// The host was told: once per process life, even if the server moves the end later.
    told_host: bool,
}

impl Lifetime {
    /// Begins to count, `age` after the task was received.
    pub(crate) fn new(at: Moment, age: Duration) -> Self {
        Self { told: Ttl::Absent, start: at, age, wake: None, told_host: false }
    }

    /// The last value told.
    pub(crate) fn told(&self) -> Ttl {
        self.told
    }

    /// Takes in what an answer says about it. True where it changed.
    pub(crate) fn tell(&mut self, told: Ttl, at: Moment) -> bool {
        if told == Ttl::Absent || told == self.told {
            return false;
        }
        self.told = told;
        self.arm(at);
        true
    }

    /// True where the time to live has passed.
    pub(crate) fn passed(&self, at: Moment) -> bool {
        self.left(at).is_some_and(|left| left.is_zero())
    }

    /// When to look again.
    pub(crate) fn wake(&self) -> Option<Instant> {
        self.wake
    }

    /// True exactly once: when the time to live is found to have passed and the host does not know yet.
    pub(crate) fn newly_passed(&mut self, at: Moment) -> bool {
        if self.told_host {
            return false;
        }
        if !self.passed(at) {
            // The two clocks may drift apart; a wake-up that came early is set anew.
            if self.wake.is_some_and(|wake| wake <= at.now) {
                self.arm(at);
            }
            return false;
        }
        self.told_host = true;
        self.wake = None;
        true
    }

    fn arm(&mut self, at: Moment) {
        self.wake = match self.left(at) {
            Some(left) if !self.told_host => at.now.checked_add(left),
            _ => None,
        };
    }

    /// What is left; `None` is no limit.
    fn left(&self, at: Moment) -> Option<Duration> {
        match self.told {
            Ttl::Absent | Ttl::Unlimited => None,
            Ttl::Limited(ttl) => {
                let lived = self.age.saturating_add(at.boot.saturating_sub(self.start.boot));
                Some(ttl.saturating_sub(lived))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock as _, ManualClock};

    fn at(start: Instant, awake: u64, boot: u64) -> Moment {
        Moment { now: start + Duration::from_secs(awake), boot: Duration::from_secs(1_000 + boot) }
    }

    #[test]
    fn it_passes_once_and_a_changed_value_moves_the_same_end() {
        let start = ManualClock::new().now();
        let mut life = Lifetime::new(at(start, 0, 0), Duration::ZERO);
        assert!(life.tell(Ttl::Limited(Duration::from_secs(10)), at(start, 0, 0)));
        assert!(!life.tell(Ttl::Absent, at(start, 1, 1)));
        assert_eq!(life.wake(), Some(start + Duration::from_secs(10)));
        assert!(life.tell(Ttl::Limited(Duration::from_secs(20)), at(start, 5, 5)));
        assert_eq!(life.wake(), Some(start + Duration::from_secs(20)));
        assert!(!life.newly_passed(at(start, 19, 19)));
        assert!(life.newly_passed(at(start, 20, 20)));
        assert!(!life.newly_passed(at(start, 30, 30)));
        assert!(life.passed(at(start, 30, 30)));
        assert!(life.tell(Ttl::Unlimited, at(start, 31, 31)));
        assert!(!life.passed(at(start, 99, 99)));
    }

    #[test]
    fn corner17_sleep_counts_although_the_monotonic_clock_stood_still() {
        let start = ManualClock::new().now();
        let mut life = Lifetime::new(at(start, 0, 0), Duration::ZERO);
        life.tell(Ttl::Limited(Duration::from_secs(60)), at(start, 0, 0));
        assert!(life.newly_passed(at(start, 1, 3600)));
    }

    #[test]
    fn an_earlier_process_counts_too() {
        let start = ManualClock::new().now();
        let mut life = Lifetime::new(at(start, 0, 0), Duration::from_secs(50));
        life.tell(Ttl::Limited(Duration::from_secs(60)), at(start, 0, 0));
        assert_eq!(life.wake(), Some(start + Duration::from_secs(10)));
        let mut life = Lifetime::new(at(start, 0, 0), Duration::from_secs(61));
        life.tell(Ttl::Limited(Duration::from_secs(60)), at(start, 0, 0));
        assert!(life.newly_passed(at(start, 0, 0)));
    }
}
