//! How long to wait before the next try: the server's interval, the host's minimum, backoff, Retry-After and jitter.
//!
//! Pure arithmetic on foreign numbers: everything saturates, and a moment beyond the end of the clock is no moment.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::clock::Clock;

/// One reading of both clocks: the monotonic one for schedules, the boot-time one (it runs on while the machine
/// sleeps) for a task's time to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Monotonic.
    pub now: Instant,
    /// Since boot, sleep included.
    pub boot: Duration,
}

impl Moment {
    /// Reads the clocks.
    pub(crate) fn of(clock: &dyn Clock) -> Self {
        Self { now: clock.now(), boot: clock.boot() }
    }
}

/// A share of the allowed jitter, from none (0) to all of it (`u16::MAX`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Jitter(pub u16);

impl Jitter {
    /// This share of `span`.
    fn of(self, span: Duration) -> Duration {
        span.saturating_mul(u32::from(self.0)) / u32::from(u16::MAX)
    }
}

/// Where jitter comes from: splitmix64, seeded by whoever makes the engine. Spreading polls needs no secrecy.
#[derive(Debug)]
pub(crate) struct Chance(AtomicU64);

impl Chance {
    /// The sequence of this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// The next share.
    pub(crate) fn jitter(&self) -> Jitter {
        const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.0.fetch_add(GAMMA, Ordering::Relaxed).wrapping_add(GAMMA);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Jitter((z >> 48) as u16)
    }
}

/// The time between two polls of one task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The server's wish, the last one told: an answer without one changes nothing.
    told: Option<Duration>,
    /// The host's own minimum.
    min: Duration,
}

impl Pace {
    /// Nothing told yet.
    pub(crate) fn new(min: Duration) -> Self {
        Self { told: None, min }
    }

    /// The server's wish, as far as it told one.
    pub(crate) fn told(&self) -> Option<Duration> {
        self.told
    }

    /// Takes in what an answer says about it.
    pub(crate) fn tell(&mut self, told: Option<Duration>) {
        self.told = told.or(self.told);
    }

    /// The wait without faults.
    pub(crate) fn interval(&self) -> Duration {
        self.told.unwrap_or(DEFAULT_INTERVAL).max(self.min).max(FLOOR)
    }

    /// When to poll next after a good answer at `now`; `None` is never. A task that is pushed is polled seldom.
    pub(crate) fn next(&self, now: Instant, pushed: bool, jitter: Jitter) -> Option<Instant> {
        let least = if pushed { BACK_STOP } else { Duration::ZERO };
        later(now, self.interval().max(least), jitter)
    }

    /// When to poll next after the `streak`th failure in a row.
    pub(crate) fn retry(
        &self,
        now: Instant,
        streak: u32,
        retry_after: Option<Duration>,
        jitter: Jitter,
    ) -> Option<Instant> {
        let wait = retry_after.unwrap_or_else(|| backoff(streak));
        later(now, self.interval().max(wait), jitter)
    }
}

/// `wait` from now, and a little more: jitter only ever makes later.
pub(crate) fn later(now: Instant, wait: Duration, jitter: Jitter) -> Option<Instant> {
    let span = (wait / 25).min(MAX_JITTER);
    now.checked_add(wait.saturating_add(jitter.of(span)))
}

/// Our own wait after the `streak`th failure in a row (from 1): doubling, capped.
pub(crate) fn backoff(streak: u32) -> Duration {
    let doubled = 1u32.checked_shl(streak.saturating_sub(1)).unwrap_or(u32::MAX);
    FIRST_BACKOFF.saturating_mul(doubled).min(MAX_BACKOFF)
}

/// The wait where the server tells none.
pub(crate) const DEFAULT_INTERVAL: Duration = Duration::from_millis(1000);
/// The time between two polls of a task that is pushed, at least; each news of it counts as an answer.
pub(crate) const BACK_STOP: Duration = Duration::from_secs(30);
/// No server and no host can make us poll faster.
pub(crate) const FLOOR: Duration = Duration::from_millis(100);
/// Jitter is 4 %, and never more than this. Chosen: enough to spread what began together, and a poll at the usual
/// intervals (up to 5 s) is no more than a quarter of a second late, the round trip included.
pub(crate) const MAX_JITTER: Duration = Duration::from_secs(1);
/// Chosen, because a single reset is usually over in a second.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// Our own backoff never waits longer; a server's Retry-After may.
pub(crate) const MAX_BACKOFF: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    const NONE: Jitter = Jitter(0);
    const FULL: Jitter = Jitter(u16::MAX);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn br35_and_corner1_the_interval_is_the_largest_wish_and_never_under_the_floor() {
        for (name, told, min, want) in [
            ("absent means a second", None, 0, 1000),
            ("one millisecond meets the floor", Some(1), 0, 100),
            ("the server's wish", Some(3000), 100, 3000),
            ("the host's minimum", Some(200), 500, 500),
            ("one day is kept", Some(86_400_000), 0, 86_400_000),
        ] {
            let mut pace = Pace::new(ms(min));
            pace.tell(told.map(ms));
            assert_eq!(pace.interval(), ms(want), "{name}");
        }
    }

    #[test]
    fn an_answer_without_an_interval_keeps_the_last_one_told() {
        let mut pace = Pace::new(Duration::ZERO);
        pace.tell(Some(ms(3000)));
        pace.tell(None);
        assert_eq!(pace.interval(), ms(3000));
        pace.tell(Some(ms(500)));
        assert_eq!(pace.interval(), ms(500));
    }

    #[test]
    fn a_pushed_task_is_polled_seldom_and_never_too_seldom() {
        let now = ManualClock::new().now();
        for (told, want) in [(100, 30_000), (1000, 30_000), (5000, 30_000), (40_000, 40_000), (90_000, 90_000)] {
            let mut pace = Pace::new(Duration::ZERO);
            pace.tell(Some(ms(told)));
            assert_eq!(pace.next(now, true, NONE), Some(now + ms(want)), "{told}");
            assert_eq!(pace.next(now, false, NONE), Some(now + ms(told)), "{told}");
        }
    }

    #[test]
    fn jitter_is_upward_only_and_bounded() {
        let now = ManualClock::new().now();
        for (wait, most) in [(100, 104), (1000, 1040), (20_000, 20_800), (3_600_000, 3_601_000)] {
            assert_eq!(later(now, ms(wait), NONE), Some(now + ms(wait)));
            assert_eq!(later(now, ms(wait), FULL), Some(now + ms(most)), "{wait}");
        }
    }

    #[test]
    fn br35_a_huge_interval_overflows_nothing() {
        let now = ManualClock::new().now();
        let mut pace = Pace::new(Duration::ZERO);
        pace.tell(Some(ms(9_000_000_000_000_000)));
        assert!(pace.next(now, false, FULL).is_some());
        pace.tell(Some(Duration::MAX));
        assert_eq!(pace.next(now, false, FULL), None);
    }

    #[test]
    fn backoff_doubles_up_to_its_cap_and_retry_after_goes_beyond() {
        let waits: Vec<u64> = (1..=8).map(|streak| backoff(streak).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff(u32::MAX), MAX_BACKOFF);
        let now = ManualClock::new().now();
        let pace = Pace::new(Duration::ZERO);
        assert_eq!(pace.retry(now, 9, Some(ms(300_000)), NONE), Some(now + ms(300_000)));
        assert_eq!(pace.retry(now, 9, Some(ms(1)), NONE), Some(now + ms(1000)));
    }

    #[test]
    fn chance_repeats_under_its_seed() {
        let (a, b) = (Chance::new(7), Chance::new(7));
        let drawn: Vec<_> = (0..100).map(|_| a.jitter()).collect();
        assert_eq!(drawn, (0..100).map(|_| b.jitter()).collect::<Vec<_>>());
        assert!(drawn.iter().any(|j| j.0 > u16::MAX / 2) && drawn.iter().any(|j| j.0 < u16::MAX / 2));
    }
}
