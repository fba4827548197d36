//! The host's waits, from its milliseconds to a deadline.

use std::time::Duration;

use crate::clock::{Budget, Clock, Deadline, LifeClock};

/// The end of a wait of the host's: 0 does not wait, a negative number has no limit.
#[must_use]
pub(crate) fn wait_from_ms(clock: &dyn Clock, wait_ms: i64) -> Deadline {
    let limit = u64::try_from(wait_ms).ok().map(Duration::from_millis);
    Deadline::after(clock.now(), limit, Budget::Wait)
}

/// Now on the clock of tasks, for what the host sees as "from now".
pub(crate) fn now() -> std::time::Instant {
    LifeClock.now()
}
