//! The workers: at most 32, started when work waits, gone after some idle seconds. One for the whole process.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

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
    floor: Mutex<Floor>,
    work: Condvar,
    gone: Condvar,
}

struct Floor {
    queue: FairQueue<Errand>,
    /// What runs now, so that a closing client can cut its own.
    flying: HashMap<u64, (u64, Arc<CancelToken>)>,
    next_flight: u64,
    workers: usize,
    idle: usize,
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
    pub(crate) fn new(spawn: Option<Arc<dyn Spawn>>) -> Arc<Self> {
        let floor = Floor {
            queue: FairQueue::new(),
            flying: HashMap::new(),
            next_flight: 0,
            workers: 0,
            idle: 0,
            stopping: false,
        };
        Arc::new(Self { spawn, floor: Mutex::new(floor), work: Condvar::new(), gone: Condvar::new() })
    }

    /// Adds an errand. Never blocks.
    pub(crate) fn submit(self: &Arc<Self>, lane: &Lane, errand: Errand) {
        {
            let mut floor = self.floor.lock();
            if floor.stopping {
                return;
            }
            floor.queue.push(lane, errand);
        }
        self.staff();
    }

    /// The next errand that may run.
    #[cfg(test)]
    pub(crate) fn take(&self) -> Option<Flight> {
        self.floor.lock().take()
    }

    /// Gives the place back.
    pub(crate) fn finish(&self, flight: &Flight) {
        let mut floor = self.floor.lock();
        floor.queue.done(&flight.lane);
        floor.flying.remove(&flight.number);
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
    pub(crate) fn stop(&self, deadline: Deadline, clock: &dyn Clock) -> bool {
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
            match deadline.left(clock.now()) {
                Err(_) => return false,
                Ok(None) => self.gone.wait(&mut floor),
                Ok(Some(left)) => {
                    self.gone.wait_for(&mut floor, left);
                }
            }
        }
        true
    }

    /// Sees to it that what may run is run: wakes an idle worker, or starts one.
    fn staff(self: &Arc<Self>) {
        let Some(spawn) = &self.spawn else { return };
        loop {
            let flight = {
                let mut floor = self.floor.lock();
                if floor.idle > 0 {
                    self.work.notify_one();
                }
                // An idle worker that was told already counts as idle until it wakes: so compare with all that wait.
                if floor.stopping || floor.queue.waiting() <= floor.idle || floor.workers >= MAX_RUNNING {
                    return;
                }
                let Some(flight) = floor.take() else { return };
                floor.workers += 1;
                flight
            };
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
                return;
            }
        }
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
            self.finish(&flight);
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
            // A panic in a wire, a host or in us costs this one round trip, never the worker.
            let _caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| flight.run()));
            self.finish(&flight);
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
            if let Some(flight) = floor.take() {
                return Some(flight);
            }
            floor.idle += 1;
            let timed_out = self.work.wait_for(&mut floor, IDLE).timed_out();
            floor.idle -= 1;
            if timed_out {
                // Looks once more: an errand may have come in the moment of the timeout.
                return if floor.stopping { None } else { floor.take() };
            }
        }
    }
}

impl Floor {
    fn take(&mut self) -> Option<Flight> {
        let (lane, errand) = self.queue.take()?;
        let (number, token) = (self.next_flight, Arc::new(CancelToken::new()));
        self.next_flight += 1;
        self.flying.insert(number, (lane.group, token.clone()));
        Some(Flight { number, lane, errand: Some(errand), token })
    }
}

/// Chosen: longer than the usual interval between polls, so that a handful of tasks keeps its worker.
const IDLE: Duration = Duration::from_secs(10);
