//! Fair turns: which waiting job runs next. Pure.
//!
//! Jobs stand in lanes, one per client and origin, and lanes take turns. An origin that already holds `n` places gets
//! another only while more than `n` of all places are free. So one slow server alone fills half of them, two fill a
//! third each, and so on: whatever the number of slow servers, places are left for the next one, and nobody starves.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Whose job it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lane {
    /// The server's origin.
    pub origin: Arc<str>,
    /// The client.
    pub group: u64,
}

/// Jobs that wait, and how many of each origin run.
#[derive(Debug)]
pub(crate) struct FairQueue<J> {
    lanes: HashMap<Lane, VecDeque<J>>,
    turns: VecDeque<Lane>,
    running: HashMap<Arc<str>, usize>,
    total: usize,
    waiting: usize,
}

impl<J> FairQueue<J> {
    /// Nothing waits, nothing runs.
    pub(crate) fn new() -> Self {
        Self { lanes: HashMap::new(), turns: VecDeque::new(), running: HashMap::new(), total: 0, waiting: 0 }
    }

    /// Adds a job at the end of its lane.
    pub(crate) fn push(&mut self, lane: Lane, job: J) {
        self.waiting += 1;
        match self.lanes.get_mut(&lane) {
            Some(jobs) => jobs.push_back(job),
            None => {
                self.lanes.insert(lane.clone(), VecDeque::from([job]));
                self.turns.push_back(lane);
            }
        }
    }

    /// Takes the next job that may run; the caller reports its end with [`Self::done`].
    pub(crate) fn take(&mut self) -> Option<(Lane, J)> {
        for _ in 0..self.turns.len() {
            let lane = self.turns.pop_front()?;
            if !self.may_run(&lane.origin) {
                self.turns.push_back(lane);
                continue;
            }
            let jobs = self.lanes.get_mut(&lane)?;
            let job = jobs.pop_front()?;
            if jobs.is_empty() {
                self.lanes.remove(&lane);
            } else {
                self.turns.push_back(lane.clone());
            }
            *self.running.entry(lane.origin.clone()).or_default() += 1;
            self.total += 1;
            self.waiting -= 1;
            return Some((lane, job));
        }
        None
    }

    /// A job that was taken has ended.
    pub(crate) fn done(&mut self, lane: &Lane) {
        if let Some(running) = self.running.get_mut(&lane.origin) {
            *running -= 1;
            self.total -= 1;
            if *running == 0 {
                self.running.remove(&lane.origin);
            }
        }
    }

    /// Takes out all that wait.
    pub(crate) fn drain(&mut self) -> Vec<J> {
        self.turns.clear();
        self.waiting = 0;
        std::mem::take(&mut self.lanes).into_values().flatten().collect()
    }

    /// How many jobs wait, whether they may run or not.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    fn may_run(&self, origin: &str) -> bool {
        let held = self.running.get(origin).copied().unwrap_or(0);
        held < MAX_PER_ORIGIN && held < MAX_RUNNING - self.total
    }
}

/// Round trips at once, in all (design section 5).
pub(crate) const MAX_RUNNING: usize = 32;
/// Round trips at once to one origin (design section 5).
pub(crate) const MAX_PER_ORIGIN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(origin: &str, group: u64) -> Lane {
        Lane { origin: origin.into(), group }
    }

    #[test]
    fn one_origin_gets_sixteen_places_and_others_run_at_once() {
        let mut queue = FairQueue::new();
        for job in 0..100 {
            queue.push(lane("slow", 1), job);
        }
        assert_eq!(std::iter::from_fn(|| queue.take()).count(), MAX_PER_ORIGIN);
        queue.push(lane("fast", 2), 100);
        assert_eq!(queue.take().map(|(lane, job)| (lane.group, job)), Some((2, 100)));
        assert_eq!(queue.waiting(), 84);
    }

    #[test]
    fn corner19_many_slow_origins_leave_a_place_for_the_next() {
        let mut queue = FairQueue::new();
        for origin in 0..20 {
            for job in 0..50 {
                queue.push(lane(&format!("slow{origin}"), origin), job);
            }
        }
        let taken = std::iter::from_fn(|| queue.take()).count();
        assert!(taken < MAX_RUNNING, "{taken}");
        queue.push(lane("fast", 99), 7);
        assert_eq!(queue.take().map(|(lane, _)| lane.group), Some(99));
    }

    #[test]
    fn clients_of_one_origin_take_turns() {
        let mut queue = FairQueue::new();
        for job in 0..50 {
            queue.push(lane("o", 1), job);
        }
        queue.push(lane("o", 2), 0);
        let order: Vec<u64> = (0..3).filter_map(|_| queue.take()).map(|(lane, _)| lane.group).collect();
        assert_eq!(order, [1, 2, 1]);
    }

    #[test]
    fn an_ended_job_frees_its_place() {
        let mut queue = FairQueue::new();
        for job in 0..17 {
            queue.push(lane("o", 1), job);
        }
        let taken: Vec<_> = std::iter::from_fn(|| queue.take()).collect();
        assert_eq!(taken.len(), 16);
        queue.done(&taken[0].0);
        assert_eq!(queue.take().map(|(_, job)| job), Some(16));
        assert_eq!(queue.drain(), Vec::<i32>::new());
    }
}
