//! The workers: at most 32, gone after some idle seconds. One pool for the whole process.
//!
//! As few as the work needs: with a server that answers in a moment one worker makes many round trips in a row, which
//! costs a fraction of waking one for each. How many are needed follows from how long a round trip has taken lately;
//! where that was wrong, because a server has become slow, [`Pool::relieve`] doubles them until the queue moves.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::cancel::{CancelToken, Why};
use crate::clock::{Clock, Deadline};
use crate::error::{Error, Kind};
use crate::spawn::Spawn;
use crate::tasks::errand::Errand;
use crate::tasks::queue::{FairQueue, Lane, MAX_RUNNING};

/// Runs errands, in fair turns.
pub(crate) struct Pool {
    /// `None`: nobody runs; whoever drives the engine by hand takes the errands.
    spawn: Option<Arc<dyn Spawn>>,
    clock: Arc<dyn Clock>,
    floor: Mutex<Floor>,
    work: Condvar,
    gone: Condvar,
    /// The last round trip that was wanted is over.
    quiet: Condvar,
}

struct Floor {
    queue: FairQueue<Errand>,
    /// What runs now, so that a closing client can cut its own.
    flying: HashMap<u64, (u64, Arc<CancelToken>)>,
    next_flight: u64,
    workers: usize,
    /// Workers that wait; those that were told and have not woken yet count as busy.
    idle: usize,
    /// Workers that were told to wake and have not yet.
    told: usize,
    /// How long a round trip takes, by those of late.
    trip: Duration,
    /// When an errand was last taken.
    last_take: Option<Instant>,
    stopping: bool,
}

/// An errand that has a place. It must be given to [`Pool::finish`].
pub(crate) struct Flight {
    number: u64,
    lane: Lane,
    errand: Option<Errand>,
    token: Arc<CancelToken>,
}

impl Flight {
    /// Where the round trip goes.
    #[cfg(test)]
    pub(crate) fn origin(&self) -> &str {
        &self.lane.origin
    }

    /// Makes the round trip and tells the task.
    pub(crate) fn run(&mut self) {
        if let Some(errand) = self.errand.take() {
            errand.run(&self.token);
        }
    }
}

impl Pool {
    /// A pool without workers yet.
    pub(crate) fn new(spawn: Option<Arc<dyn Spawn>>, clock: Arc<dyn Clock>) -> Arc<Self> {
        let floor = Floor {
            queue: FairQueue::new(),
            flying: HashMap::new(),
            next_flight: 0,
            workers: 0,
            idle: 0,
            told: 0,
            trip: Duration::ZERO,
            last_take: None,
            stopping: false,
        };
        let (work, gone, quiet) = (Condvar::new(), Condvar::new(), Condvar::new());
        Arc::new(Self { spawn, clock, floor: Mutex::new(floor), work, gone, quiet })
    }

    /// Adds an errand. Never blocks. True where it waits and no worker was told: somebody has to [`Self::relieve`].
    #[must_use = "an errand may wait behind a worker that is held up"]
    pub(crate) fn submit(self: &Arc<Self>, lane: &Lane, errand: Errand) -> bool {
        {
            let mut floor = self.floor.lock();
            if floor.stopping {
                return false;
            }
            floor.queue.push(lane, errand);
        }
        self.staff();
        let floor = self.floor.lock();
        floor.queue.waiting() > floor.told
    }

    /// The next errand that may run.
    #[cfg(test)]
    pub(crate) fn take(&self) -> Option<Flight> {
        self.floor.lock().take(self.clock.now())
    }

    /// Gives the place back after a round trip that took so long.
    pub(crate) fn finish(&self, flight: &Flight, took: Duration) {
        let mut floor = self.floor.lock();
        floor.trip = (floor.trip * 7 + took) / 8;
        floor.queue.done(&flight.lane);
        floor.flying.remove(&flight.number);
        if floor.is_quiet() {
            self.quiet.notify_all();
        }
    }

    /// Waits until no round trip is wanted or under way, or so long; false for the latter.
    pub(crate) fn wait_quiet(&self, limit: Duration) -> bool {
        let mut floor = self.floor.lock();
        if !floor.is_quiet() {
            self.quiet.wait_for(&mut floor, limit);
        }
        floor.is_quiet()
    }

    /// Cuts the round trips of a client. Errands that wait find their task ended and do nothing.
    pub(crate) fn cut(&self, group: u64) {
        let tokens: Vec<_> = {
            let floor = self.floor.lock();
            floor.flying.values().filter(|(have, _)| *have == group).map(|(_, token)| token.clone()).collect()
        };
        for token in tokens {
            token.cancel(Why::Closing);
        }
    }

    /// Ends all workers. False where some are still at it at the deadline.
    pub(crate) fn stop(&self, deadline: Deadline) -> bool {
        let (waiting, tokens) = {
            let mut floor = self.floor.lock();
            floor.stopping = true;
            let tokens: Vec<_> = floor.flying.values().map(|(_, token)| token.clone()).collect();
            (floor.queue.drain(), tokens)
        };
        drop(waiting);
        for token in tokens {
            token.cancel(Why::Closing);
        }
        self.work.notify_all();
        let mut floor = self.floor.lock();
        while floor.workers > 0 {
            if !deadline.wait(&self.gone, &mut floor) && floor.workers > 0 {
                return false;
            }
        }
        true
    }

    /// The queue is looked after. Where no errand was taken for a while, the workers there are do not suffice: a server
    /// has become slow. While errands wait: how long until somebody has to look again.
    pub(crate) fn relieve(self: &Arc<Self>) -> Option<Duration> {
        let more = {
            let floor = self.floor.lock();
            if floor.queue.waiting() == 0 {
                return None;
            }
            if !floor.queue.may_take() {
                // Whoever comes back from a round trip takes the next one by itself.
                return Some(FULL);
            }
            let now = self.clock.now();
            let stuck = floor.last_take.is_none_or(|at| now.saturating_duration_since(at) >= STUCK);
            if stuck { floor.busy().max(1) } else { 0 }
        };
        self.staff_to(|floor| floor.busy() + more);
        Some(STUCK)
    }

    /// Sees to it that what may run is run: wakes idle workers, or starts some.
    fn staff(self: &Arc<Self>) {
        self.staff_to(Floor::needed);
    }

    /// Wakes or starts workers until so many are busy, or nothing more may run.
    fn staff_to(self: &Arc<Self>, wanted: impl FnOnce(&Floor) -> usize) {
        let Some(spawn) = &self.spawn else { return };
        let mut floor = self.floor.lock();
        let wanted = wanted(&floor).min(MAX_RUNNING);
        while !floor.stopping && floor.busy() < wanted && floor.queue.waiting() > floor.told && floor.queue.may_take() {
            if floor.idle > 0 {
                floor.idle -= 1;
                floor.told += 1;
                self.work.notify_one();
                continue;
            }
            let Some(flight) = floor.take(self.clock.now()) else { return };
            floor.workers += 1;
            drop(floor);
            if !self.hire(&**spawn, flight) {
                return;
            }
            floor = self.floor.lock();
        }
    }

    /// A new worker that begins with this flight. False where the system refuses the thread.
    fn hire(self: &Arc<Self>, spawn: &dyn Spawn, flight: Flight) -> bool {
        // The flight stays reachable from here: where the system refuses a thread, its task must hear of it.
        let parcel = Arc::new(Mutex::new(Some(flight)));
        let (pool, theirs) = (self.clone(), parcel.clone());
        let started = spawn.spawn(
            "mcp-poll",
            Box::new(move || {
                let first = theirs.lock().take();
                pool.work(first);
            }),
        );
        if let Err(error) = started {
            let flight = parcel.lock().take();
            self.refused(flight, &error);
            return false;
        }
        true
    }

    /// No thread was to be had. Other workers will come to what waits; where there are none, every task hears of a
    /// failed attempt and backs off, instead of waiting for an answer that never comes.
    fn refused(&self, flight: Option<Flight>, error: &Error) {
        let waiting = {
            let mut floor = self.floor.lock();
            floor.workers -= 1;
            self.gone.notify_all();
            if floor.workers == 0 { floor.queue.drain() } else { Vec::new() }
        };
        let own = flight.and_then(|mut flight| {
            self.finish(&flight, Duration::ZERO);
            flight.errand.take()
        });
        let error = Error::new(Kind::Memory, format!("no thread for a round trip: {}", error.message()));
        for errand in own.into_iter().chain(waiting) {
            errand.fail(&error);
        }
    }

    fn work(self: &Arc<Self>, first: Option<Flight>) {
        let mut next = first;
        while let Some(mut flight) = next {
            let begun = self.clock.now();
            // A panic in a wire, a host or in us costs this one round trip, never the worker.
            let _caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| flight.run()));
            self.finish(&flight, self.clock.now().saturating_duration_since(begun));
            // The place that is free now may be the one that another lane waits for.
            self.staff();
            next = self.next_flight();
        }
        let mut floor = self.floor.lock();
        floor.workers -= 1;
        self.gone.notify_all();
    }

    /// Waits for an errand; `None` sends the worker home.
    fn next_flight(&self) -> Option<Flight> {
        let mut floor = self.floor.lock();
        loop {
            if floor.stopping {
                return None;
            }
            if let Some(flight) = floor.take(self.clock.now()) {
                return Some(flight);
            }
            floor.idle += 1;
            let timed_out = self.work.wait_for(&mut floor, IDLE).timed_out();
            if floor.told > 0 {
                // Whoever told a worker to wake has taken it out of the idle ones; which one wakes is all the same.
                floor.told -= 1;
                continue;
            }
            floor.idle -= 1;
            if timed_out {
                // Looks once more: an errand may have come in the moment of the timeout.
                return if floor.stopping { None } else { floor.take(self.clock.now()) };
            }
        }
    }
}

impl Floor {
    fn take(&mut self, now: Instant) -> Option<Flight> {
        let (lane, errand) = self.queue.take()?;
        let (number, token) = (self.next_flight, Arc::new(CancelToken::new()));
        self.next_flight += 1;
        self.last_take = Some(now);
        self.flying.insert(number, (lane.group, token.clone()));
        Some(Flight { number, lane, errand: Some(errand), token })
    }

    fn is_quiet(&self) -> bool {
        self.flying.is_empty() && self.queue.waiting() == 0
    }

    /// Workers that are at it, or about to be.
    fn busy(&self) -> usize {
        self.workers - self.idle
    }

    /// So many that what waits has begun within [`HASTE`], if round trips take as long as those of late.
    fn needed(&self) -> usize {
        let waiting = u32::try_from(self.queue.waiting()).unwrap_or(u32::MAX);
        let work = self.trip.saturating_mul(waiting).as_micros().div_ceil(HASTE.as_micros());
        // At least one for what waits, beside those that may be held up by other servers.
        usize::try_from(work).unwrap_or(usize::MAX).max(usize::from(waiting > 0))
    }
}

/// Chosen: short beside the shortest interval between polls (100 ms).
const HASTE: Duration = Duration::from_millis(5);
/// Nothing was taken for so long while errands wait: the workers are held up.
const STUCK: Duration = Duration::from_millis(5);
/// Every place that what waits could have is taken, by a server that hangs, say. Chosen: no more than a few looks a second
/// for as long as it does.
pub(crate) const FULL: Duration = Duration::from_millis(250);
/// Chosen: longer than the usual interval between polls, so that a handful of tasks keeps its worker.
const IDLE: Duration = Duration::from_secs(10);
