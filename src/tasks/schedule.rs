//! The schedule: which slot is due when. A heap with generations, pure.
//!
//! A slot has one time at most. Setting it anew leaves the old heap entry behind as stale: it is skipped when it comes
//! up, and swept out when stale entries are the larger part. So each step costs O(log n). The next time is whatever
//! the caller says, counted from *now*: a machine that slept makes no burst of missed turns.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Instant;

/// The number of a scheduled thing.
pub(crate) type Slot = u64;

/// Slots by the time they are due.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    heap: BinaryHeap<Reverse<(Instant, u64, Slot)>>,
    /// The generation that counts, per slot.
    live: HashMap<Slot, u64>,
    generation: u64,
}

impl Schedule {
    /// Sets or moves a slot's time. True where it is now the earliest of all, so that a sleeper must be woken.
    pub(crate) fn set(&mut self, slot: Slot, at: Instant) -> bool {
        let earliest = self.next().is_none_or(|next| at < next);
        // One counter for all: equal times come up in the order they were set.
        self.generation += 1;
        self.live.insert(slot, self.generation);
        self.heap.push(Reverse((at, self.generation, slot)));
        if self.heap.len() > 64 + 2 * self.live.len() {
            let live = &self.live;
            self.heap.retain(|Reverse((_, generation, slot))| live.get(slot) == Some(generation));
        }
        earliest
    }

    /// Takes a slot out.
    pub(crate) fn clear(&mut self, slot: Slot) {
        self.live.remove(&slot);
    }

    /// The earliest time.
    pub(crate) fn next(&mut self) -> Option<Instant> {
        while let Some(Reverse((at, generation, slot))) = self.heap.peek() {
            if self.live.get(slot) == Some(generation) {
                return Some(*at);
            }
            self.heap.pop();
        }
        None
    }

    /// Takes out the earliest slot that is due, if any.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Slot> {
        if self.next()? > now {
            return None;
        }
        let Reverse((_, _, slot)) = self.heap.pop()?;
        self.live.remove(&slot);
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock as _, ManualClock};
    use std::time::Duration;

    /// A list that does the same without cleverness.
    #[derive(Default)]
    struct Naive(Vec<(Slot, Instant, u64)>, u64);

    impl Naive {
        fn set(&mut self, slot: Slot, at: Instant) {
            self.1 += 1;
            self.0.retain(|(have, ..)| *have != slot);
            self.0.push((slot, at, self.1));
        }

        fn pop_due(&mut self, now: Instant) -> Option<Slot> {
            let first = self.0.iter().filter(|(_, at, _)| *at <= now).min_by_key(|(_, at, order)| (*at, *order))?.0;
            self.0.retain(|(have, ..)| *have != first);
            Some(first)
        }
    }

    #[test]
    fn the_heap_does_what_a_naive_list_does() {
        let start = ManualClock::new().now();
        for seed in 0..20u64 {
            println!("seed {seed}");
            let chance = crate::tasks::pace::Chance::new(seed);
            let draw = |below: u64| u64::from(chance.jitter().0) % below;
            let (mut heap, mut naive, mut now) = (Schedule::default(), Naive::default(), start);
            for _ in 0..2_000 {
                match draw(10) {
                    0..=5 => {
                        let (slot, at) = (draw(40), now + Duration::from_millis(draw(50)));
                        heap.set(slot, at);
                        naive.set(slot, at);
                    }
                    6 => {
                        let slot = draw(40);
                        heap.clear(slot);
                        naive.0.retain(|(have, ..)| *have != slot);
                    }
                    7 => now += Duration::from_millis(draw(20)),
                    _ => assert_eq!(heap.pop_due(now), naive.pop_due(now), "seed {seed}"),
                }
                assert_eq!(heap.next(), naive.0.iter().map(|(_, at, _)| *at).min(), "seed {seed}");
                assert!(heap.heap.len() <= 65 + 2 * 40);
            }
        }
    }

    #[test]
    fn setting_an_earlier_time_than_all_asks_for_a_wake_up() {
        let now = ManualClock::new().now();
        let mut schedule = Schedule::default();
        assert!(schedule.set(1, now + Duration::from_secs(5)));
        assert!(!schedule.set(2, now + Duration::from_secs(6)));
        assert!(schedule.set(2, now + Duration::from_secs(4)));
        assert_eq!(schedule.pop_due(now), None);
        assert_eq!(schedule.pop_due(now + Duration::from_secs(4)), Some(2));
        schedule.clear(1);
        assert_eq!(schedule.next(), None);
    }
}
