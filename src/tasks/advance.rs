//! Time in the host's hands: the tasks live through a stretch of a clock that only moves when told.

use std::time::{Duration, Instant};

use crate::clock::{Clock, Deadline, SystemClock};
use crate::tasks::driver::Engine;

/// Chosen: how often a look is taken at tasks whose actions another thread executes.
const LOOK: Duration = Duration::from_millis(1);

impl Engine {
    /// Moves the clock (which is this engine's) to `end`, from one due time to the next: what fell due has been asked and
    /// answered before time goes on, as it would in the real world, where servers answer in no time. False where answers
    /// did not come by the deadline (by the system's clock): the clock went to the end without them.
    pub(crate) fn live_until(&self, end: Instant, advance: &dyn Fn(Duration), deadline: Deadline) -> bool {
        let go_to = |at: Instant| {
            advance(at.saturating_duration_since(self.clock().now()));
            self.step(self.clock().now());
        };
        let mut settled = self.settle(deadline);
        while let Some(due) = self.next_due().filter(|due| settled && *due <= end) {
            go_to(due);
            settled = self.settle(deadline);
        }
        go_to(end);
        self.settle(deadline)
    }

    /// Waits until nothing is under way. False where the deadline came first.
    fn settle(&self, deadline: Deadline) -> bool {
        loop {
            // In this order: who executes a task's actions may ask for a round trip. The wait is bounded, since nobody
            // rings when the last action is done.
            let at_rest = self.at_rest(LOOK);
            if self.letters().wait_quiet(LOOK) && self.pool().wait_quiet(LOOK) && at_rest {
                return true;
            }
            if deadline.left(SystemClock.now()).is_err() {
                return false;
            }
        }
    }
}
