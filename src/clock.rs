//! Time as a trait, and the deadline that travels through a whole operation.
//!
//! This is the only file that asks the system for the time. Decisions elsewhere take `now` as an argument, so that a
//! test can drive them without waiting.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Condvar, Mutex, MutexGuard};

/// Where the time comes from.
pub trait Clock: Send + Sync {
    /// Monotonic time, for deadlines and schedules. May stand still while the machine sleeps.
    fn now(&self) -> Instant;
    /// Wall time, for what outlives the process.
    fn wall(&self) -> SystemTime;
    /// Time since boot including sleep, for the life of a task. Only differences mean anything.
    fn boot(&self) -> Duration;
}

/// The system's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[allow(clippy::disallowed_methods, reason = "the one place that asks the system")]
impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn boot(&self) -> Duration {
        crate::os::boot_time()
    }
}

/// The system's clock, shared.
#[must_use]
pub fn system() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}

/// The clock that tasks live by and kept answers age by: the system's, until the host takes it into its hands for a test
/// (`mcp_clock_hold`). One for the process. What bounds real work (connections, calls, waits) goes by [`SystemClock`].
#[derive(Clone, Copy, Debug, Default)]
pub struct LifeClock;

/// The times at which the host's clock stands.
#[derive(Clone, Copy)]
struct Stand {
    now: Instant,
    wall: SystemTime,
    boot: Duration,
}

static HELD: Mutex<Option<Stand>> = Mutex::new(None);

impl LifeClock {
    /// The clock stands still from now on. False where it does already.
    #[must_use]
    pub fn hold() -> bool {
        let mut held = HELD.lock();
        let first = held.is_none();
        held.get_or_insert_with(|| Stand {
            now: SystemClock.now(),
            wall: SystemClock.wall(),
            boot: SystemClock.boot(),
        });
        first
    }

    /// Moves all times of the held clock forward. One that would leave what its type holds stands where it is.
    pub fn advance(by: Duration) {
        let mut held = HELD.lock();
        if let Some(stand) = held.as_mut() {
            stand.now = stand.now.checked_add(by).unwrap_or(stand.now);
            stand.wall = stand.wall.checked_add(by).unwrap_or(stand.wall);
            stand.boot = stand.boot.saturating_add(by);
        }
    }

    /// Whether it is held.
    #[must_use]
    pub fn is_held() -> bool {
        HELD.lock().is_some()
    }

    /// Follows the system's clock again. False where it did.
    #[must_use]
    pub fn release() -> bool {
        HELD.lock().take().is_some()
    }
}

impl Clock for LifeClock {
    fn now(&self) -> Instant {
        HELD.lock().map_or_else(|| SystemClock.now(), |stand| stand.now)
    }

    fn wall(&self) -> SystemTime {
        HELD.lock().map_or_else(|| SystemClock.wall(), |stand| stand.wall)
    }

    fn boot(&self) -> Duration {
        HELD.lock().map_or_else(|| SystemClock.boot(), |stand| stand.boot)
    }
}

/// Which time limit a deadline stands for, so that a timeout can say which one ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// The whole call.
    Total,
    /// Making a connection.
    Connect,
    /// Silence on an open answer.
    Idle,
    /// Finding out the server's era.
    Probe,
    /// The grace at closing.
    Grace,
    /// The host's own wait.
    Wait,
}

impl Budget {
    /// The option of the settings that holds this limit, for messages.
    #[must_use]
    pub fn option(self) -> &'static str {
        match self {
            Self::Total => "total_ms",
            Self::Connect => "connect_ms",
            Self::Idle => "idle_ms",
            Self::Probe => "probe_ms",
            Self::Grace => "close_ms",
            Self::Wait => "the wait",
        }
    }
}

/// The time has passed; says which limit it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired(pub Budget);

/// The end of an operation. One value travels through all of it, clean-up included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// No limit.
    Never,
    /// At this moment, for this reason.
    At(Instant, Budget),
}

impl Deadline {
    /// `limit` from now; `None` and what overflows mean no limit.
    #[must_use]
    pub fn after(now: Instant, limit: Option<Duration>, budget: Budget) -> Self {
        match limit.and_then(|limit| now.checked_add(limit)) {
            Some(at) => Self::At(at, budget),
            None => Self::Never,
        }
    }

    /// The earlier of the two.
    #[must_use]
    pub fn tighter(self, other: Self) -> Self {
        match (self, other) {
            (Self::Never, that) => that,
            (this, Self::Never) => this,
            (Self::At(a, _), Self::At(b, _)) => {
                if b < a {
                    other
                } else {
                    self
                }
            }
        }
    }

    /// The moment, where there is one.
    #[must_use]
    pub fn at(self) -> Option<Instant> {
        match self {
            Self::Never => None,
            Self::At(at, _) => Some(at),
        }
    }

    /// Waits for a condition, until it is told or the moment has come; false for the latter. The caller looks again
    /// either way: a condition may be told for nothing.
    pub fn wait<T: ?Sized>(self, condition: &Condvar, guard: &mut MutexGuard<'_, T>) -> bool {
        match self {
            Self::Never => {
                condition.wait(guard);
                true
            }
            Self::At(at, _) => !condition.wait_until(guard, at).timed_out(),
        }
    }

    /// What is left: `None` is no limit; never `Some(zero)`.
    ///
    /// # Errors
    /// [`Expired`] once the moment has come.
    pub fn left(self, now: Instant) -> Result<Option<Duration>, Expired> {
        match self {
            Self::Never => Ok(None),
            Self::At(at, budget) => match at.checked_duration_since(now) {
                Some(left) if !left.is_zero() => Ok(Some(left)),
                _ => Err(Expired(budget)),
            },
        }
    }
}

/// A clock that only moves when told, for tests.
#[derive(Debug)]
pub struct ManualClock {
    start: Instant,
    wall_start: SystemTime,
    passed: parking_lot::Mutex<Duration>,
}

impl ManualClock {
    /// A clock that stands at its start.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "the one place that asks the system")]
    pub fn new() -> Arc<Self> {
        Arc::new(Self { start: Instant::now(), wall_start: SystemTime::UNIX_EPOCH, passed: Default::default() })
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        *self.passed.lock() += by;
    }

    /// How far the clock has moved.
    #[must_use]
    pub fn passed(&self) -> Duration {
        *self.passed.lock()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        self.start + self.passed()
    }

    fn wall(&self) -> SystemTime {
        self.wall_start + self.passed()
    }

    fn boot(&self) -> Duration {
        self.passed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_never_leaves_zero() {
        let clock = ManualClock::new();
        let end = Deadline::after(clock.now(), Some(Duration::from_millis(5)), Budget::Total);
        assert_eq!(end.left(clock.now()), Ok(Some(Duration::from_millis(5))));
        clock.advance(Duration::from_millis(5));
        assert_eq!(end.left(clock.now()), Err(Expired(Budget::Total)));
        assert_eq!(Deadline::Never.left(clock.now()), Ok(None));
    }

    #[test]
    fn an_endless_limit_is_no_limit() {
        let now = ManualClock::new().now();
        assert_eq!(Deadline::after(now, Some(Duration::MAX), Budget::Total), Deadline::Never);
        assert_eq!(Deadline::after(now, None, Budget::Total), Deadline::Never);
    }

    #[test]
    fn the_tighter_deadline_keeps_its_reason() {
        let now = ManualClock::new().now();
        let short = Deadline::after(now, Some(Duration::from_secs(1)), Budget::Idle);
        let long = Deadline::after(now, Some(Duration::from_secs(2)), Budget::Total);
        assert_eq!(short.tighter(long), short);
        assert_eq!(long.tighter(short), short);
        assert_eq!(Deadline::Never.tighter(long), long);
    }
}
