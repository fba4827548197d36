//! How a blocking function waits: on a condition of the object, or, on the thread that serves the client's manual
//! queue, by serving that queue meanwhile (design section 2.7).

use std::time::Duration;

use crate::clock::{Budget, Clock, Deadline};

/// The end of a wait of the host's: 0 does not wait, a negative number has no limit.
#[must_use]
pub fn wait_from_ms(clock: &dyn Clock, wait_ms: i64) -> Deadline {
    let limit = u64::try_from(wait_ms).ok().map(Duration::from_millis);
    Deadline::after(clock.now(), limit, Budget::Wait)
}
