//! Workers for short jobs: threads grow with the work, up to a bound, and end when idle.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, Kind, Result};
use crate::spawn::{Job, Spawn};

/// How long a worker waits for more. Chosen so that a burst each second keeps its workers, and a quiet program has
/// none.
const IDLE: Duration = Duration::from_secs(5);
/// So many wait that long; those beyond, which only a large burst needs, leave soon (chosen).
const KEPT: usize = 16;
/// How long those wait.
const SOON: Duration = Duration::from_millis(200);

struct State {
    jobs: VecDeque<Job>,
    idle: usize,
    workers: usize,
    closed: bool,
}

/// A pool of workers.
pub(crate) struct Pool {
    name: &'static str,
    most: usize,
    threads: Arc<dyn Spawn>,
    state: Mutex<State>,
    work: Condvar,
}

struct Errands(Arc<Pool>);

impl Spawn for Errands {
    fn spawn(&self, _: &'static str, job: Job) -> Result<()> {
        self.0.submit(job)
    }
}

impl Pool {
    pub(crate) fn new(name: &'static str, most: usize, threads: Arc<dyn Spawn>) -> Arc<Self> {
        let state = State { jobs: VecDeque::new(), idle: 0, workers: 0, closed: false };
        Arc::new(Self { name, most, threads, state: Mutex::new(state), work: Condvar::new() })
    }

    /// Runs a job on a worker, in the order of submission; where all workers are busy and no more are allowed, later.
    ///
    /// # Errors
    /// [`Kind::Closed`] after [`Pool::close`]; [`Kind::Memory`] where the system refuses the first thread.
    pub(crate) fn submit(self: &Arc<Self>, job: Job) -> Result<()> {
        let grow = {
            let mut state = self.state.lock();
            if state.closed {
                return Err(Error::new(Kind::Closed, "the library is shut down"));
            }
            state.jobs.push_back(job);
            let grow = state.jobs.len() > state.idle && state.workers < self.most;
            if grow {
                state.workers += 1;
            }
            grow
        };
        if !grow {
            self.work.notify_one();
            return Ok(());
        }
        let pool = self.clone();
        let Err(refused) = self.threads.spawn(self.name, Box::new(move || pool.work())) else {
            return Ok(());
        };
        // Other workers will take the job; without any, it must not wait for ever.
        let mut state = self.state.lock();
        state.workers -= 1;
        if state.workers > 0 {
            return Ok(());
        }
        let lost = state.jobs.pop_back();
        drop(state);
        drop(lost);
        Err(refused)
    }

    /// The pool as a spawner of short jobs, for rooms that are handed one.
    pub(crate) fn spawner(self: &Arc<Self>) -> Arc<dyn Spawn> {
        Arc::new(Errands(self.clone()))
    }

    /// No more jobs; workers end once the queue is empty.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.work.notify_all();
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            // A panic must not take the worker's place in the count away; the job's own guard reports it.
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                crate::client::logging::error("a job of the library panicked");
            }
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.closed {
                state.workers -= 1;
                return None;
            }
            state.idle += 1;
            let patience = if state.workers > KEPT { SOON } else { IDLE };
            let timed_out = self.work.wait_for(&mut state, patience).timed_out();
            state.idle -= 1;
            if timed_out && state.jobs.is_empty() {
                state.workers -= 1;
                return None;
            }
        }
    }
}
