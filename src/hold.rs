//! Time that does not count: while the server waits for the host's answer, the limits of a call stand still.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::clock::{Budget, Deadline};

#[derive(Clone, Copy, Debug, Default)]
struct State {
    open: usize,
    since: Option<Instant>,
    /// What earlier holds took.
    held: Duration,
    /// When the last one ended.
    ended: Option<Instant>,
}

/// The holds of one call.
#[derive(Debug, Default)]
pub struct Hold(Mutex<State>);

impl Hold {
    /// A question was asked.
    pub fn begin(&self, now: Instant) {
        let mut state = self.0.lock();
        state.open += 1;
        state.since.get_or_insert(now);
    }

    /// A question needs no answer any more.
    pub fn end(&self, now: Instant) {
        let mut state = self.0.lock();
        state.open = state.open.saturating_sub(1);
        if let (0, Some(since)) = (state.open, state.since) {
            state.held = state.held.saturating_add(now.saturating_duration_since(since));
            state.since = None;
            state.ended = Some(now);
        }
    }

    /// A sign of life that came on another way than the answer.
    pub fn beat(&self, now: Instant) {
        let mut state = self.0.lock();
        state.ended = Some(state.ended.map_or(now, |ended| ended.max(now)));
    }

    /// From when on silence counts, for a wait that began at `since`.
    #[must_use]
    pub fn silent_since(&self, since: Instant, now: Instant) -> Instant {
        let state = self.0.lock();
        if state.since.is_some() { now } else { state.ended.map_or(since, |ended| ended.max(since)) }
    }

    /// The end of the call, moved by what did not count. The host's own wait is not moved: it is the host's.
    #[must_use]
    pub fn moved(&self, total: Deadline, now: Instant) -> Deadline {
        let Deadline::At(at, budget @ Budget::Total) = total else {
            return total;
        };
        let state = *self.0.lock();
        let held = state.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        at.checked_add(state.held.saturating_add(held)).map_or(Deadline::Never, |at| Deadline::At(at, budget))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, ManualClock};

    #[test]
    fn what_is_held_does_not_count() {
        let clock = ManualClock::new();
        let second = Duration::from_secs(1);
        let start = clock.now();
        let total = Deadline::after(start, Some(second * 10), Budget::Total);
        let hold = Hold::default();
        assert_eq!(hold.moved(total, start), total);
        assert_eq!(hold.silent_since(start, start), start);
        hold.begin(start + second);
        hold.begin(start + second * 2);
        // While it lasts the end is always as far away as it was, and silence begins anew.
        let later = start + second * 500;
        assert_eq!(hold.moved(total, later).left(later), Ok(Some(second * 9)));
        assert_eq!(hold.silent_since(start, later), later);
        hold.end(later);
        assert_eq!(hold.silent_since(start, later), later, "one is still open");
        hold.end(later + second);
        let after = later + second * 3;
        assert_eq!(hold.moved(total, after).left(after), Ok(Some(second * 7)));
        assert_eq!(hold.silent_since(start, after), later + second);
        hold.beat(after);
        assert_eq!(hold.silent_since(start, after + second), after);
        let wait = Deadline::after(start, Some(second), Budget::Wait);
        assert_eq!(hold.moved(wait, after), wait);
    }
}
