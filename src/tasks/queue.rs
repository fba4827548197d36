//! Fair turns: which waiting job runs next. Pure.
//!
//! Origins take turns, and within an origin its clients do. An origin that already holds `n` places gets another only
//! while more than `n` of all places are free. So one slow server alone fills half of them, two fill a third each, and
//! so on: whatever the number of slow servers, places are left for the next one, and nobody starves.

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
    origins: HashMap<Arc<str>, Origin<J>>,
    /// The origins with waiting jobs, in turn.
    turns: VecDeque<Arc<str>>,
    total: usize,
    /// The most that run.
    most: usize,
    waiting: usize,
}

#[derive(Debug)]
struct Origin<J> {
    running: usize,
    jobs: HashMap<u64, VecDeque<J>>,
    /// The clients with waiting jobs, in turn.
    turns: VecDeque<u64>,
}

impl<J> FairQueue<J> {
    /// Nothing waits, nothing runs; for as many as there are workers.
    pub(crate) fn new() -> Self {
        Self::of(MAX_RUNNING)
    }

    /// Of which so many run at once.
    pub(crate) fn of(most: usize) -> Self {
        Self { origins: HashMap::new(), turns: VecDeque::new(), total: 0, most, waiting: 0 }
    }

    /// Adds a job at the end of its lane.
    pub(crate) fn push(&mut self, lane: &Lane, job: J) {
        self.waiting += 1;
        let origin = self.origins.entry(lane.origin.clone()).or_insert_with(Origin::new);
        if origin.turns.is_empty() {
            self.turns.push_back(lane.origin.clone());
        }
        origin.push(lane.group, job);
    }

    /// Takes the next job that may run; the caller reports its end with [`Self::done`].
    pub(crate) fn take(&mut self) -> Option<(Lane, J)> {
        for _ in 0..self.turns.len() {
            let name = self.turns.pop_front()?;
            let free = self.most - self.total;
            let origin = self.origins.get_mut(&name)?;
            if !origin.may_run(free) {
                self.turns.push_back(name);
                continue;
            }
            let (group, job) = origin.take()?;
            if !origin.turns.is_empty() {
                self.turns.push_back(name.clone());
            }
            origin.running += 1;
            self.total += 1;
            self.waiting -= 1;
            return Some((Lane { origin: name, group }, job));
        }
        None
    }

    /// Whether [`Self::take`] would find a job.
    pub(crate) fn may_take(&self) -> bool {
        let free = self.most - self.total;
        self.turns.iter().any(|name| self.origins.get(name).is_some_and(|origin| origin.may_run(free)))
    }

    /// A job that was taken has ended.
    pub(crate) fn done(&mut self, lane: &Lane) {
        let Some(origin) = self.origins.get_mut(&lane.origin) else {
            return;
        };
        origin.running -= 1;
        self.total -= 1;
        if origin.running == 0 && origin.turns.is_empty() {
            self.origins.remove(&lane.origin);
        }
    }

    /// Takes out all that wait.
    pub(crate) fn drain(&mut self) -> Vec<J> {
        self.turns.clear();
        self.waiting = 0;
        let mut out = Vec::new();
        for origin in self.origins.values_mut() {
            origin.turns.clear();
            out.extend(std::mem::take(&mut origin.jobs).into_values().flatten());
        }
        self.origins.retain(|_, origin| origin.running > 0);
        out
    }

    /// How many jobs wait, whether they may run or not.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }
}

impl<J> Origin<J> {
    fn new() -> Self {
        Self { running: 0, jobs: HashMap::new(), turns: VecDeque::new() }
    }

    fn may_run(&self, free: usize) -> bool {
        self.running < MAX_PER_ORIGIN && self.running < free
    }

    fn push(&mut self, group: u64, job: J) {
        let jobs = self.jobs.entry(group).or_default();
        if jobs.is_empty() {
            self.turns.push_back(group);
        }
        jobs.push_back(job);
    }

    fn take(&mut self) -> Option<(u64, J)> {
        let group = self.turns.pop_front()?;
        let jobs = self.jobs.get_mut(&group)?;
        let job = jobs.pop_front()?;
        if jobs.is_empty() {
            self.jobs.remove(&group);
        } else {
            self.turns.push_back(group);
        }
        Some((group, job))
    }
}

/// Round trips at once, in all.
pub(crate) const MAX_RUNNING: usize = 32;
/// Round trips at once to one origin.
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
            queue.push(&lane("slow", 1), job);
        }
        assert_eq!(std::iter::from_fn(|| queue.take()).count(), MAX_PER_ORIGIN);
        assert!(!queue.may_take());
        queue.push(&lane("fast", 2), 100);
        assert!(queue.may_take());
        assert_eq!(queue.take().map(|(lane, job)| (lane.group, job)), Some((2, 100)));
        assert_eq!(queue.waiting(), 84);
    }

    #[test]
    fn corner19_many_slow_origins_leave_a_place_for_the_next() {
        let mut queue = FairQueue::new();
        for origin in 0..20 {
            for job in 0..50 {
                queue.push(&lane(&format!("slow{origin}"), origin), job);
            }
        }
        let taken = std::iter::from_fn(|| queue.take()).count();
        assert!(taken < MAX_RUNNING, "{taken}");
        queue.push(&lane("fast", 99), 7);
        assert_eq!(queue.take().map(|(lane, _)| lane.group), Some(99));
    }

    #[test]
    fn clients_of_one_origin_take_turns() {
        let mut queue = FairQueue::new();
        for job in 0..50 {
            queue.push(&lane("o", 1), job);
        }
        queue.push(&lane("o", 2), 0);
        let order: Vec<u64> = (0..3).filter_map(|_| queue.take()).map(|(lane, _)| lane.group).collect();
        assert_eq!(order, [1, 2, 1]);
    }

    #[test]
    fn an_ended_job_frees_its_place() {
        let mut queue = FairQueue::new();
        for job in 0..17 {
            queue.push(&lane("o", 1), job);
        }
        let taken: Vec<_> = std::iter::from_fn(|| queue.take()).collect();
        assert_eq!(taken.len(), 16);
        queue.done(&taken[0].0);
        assert_eq!(queue.take().map(|(_, job)| job), Some(16));
        assert_eq!(queue.drain(), Vec::<i32>::new());
    }
}
