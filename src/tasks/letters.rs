//! Polls that hold no thread: where the wire can, `tasks/get` is sent like a letter, and whoever brings the answer (the
//! thread that reads a channel) takes it to its task.
//!
//! ```text
//! due ──> queue (fair turns, 16 for one origin) ──> sent ── answer: nothing new ──> the task, there and then
//!                                                     │ └── anything else ──> a worker, which may take its time
//!                                                     ├── cannot be sent now ──> a worker asks
//!                                                     └── time is up ──> a worker tells the server, and the task
//! ```
//!
//! A letter has its place from the moment it is taken from the queue until its task knows what came of it, so answers
//! do not pile up. Nothing here blocks: it runs on the scheduler's thread and on those that read.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::clock::Clock;
use crate::protocol::task::Task;
use crate::tasks::driver::Engine;
use crate::tasks::entry::TaskEntry;
use crate::tasks::errand::{Chore, Errand};
use crate::tasks::queue::{FairQueue, Lane};
use crate::tasks::state::{Asker, TaskEvent, Trip};
use crate::tasks::{Finish, OnItsWay, Reply};

/// Letters that are out at once, in all. Chosen: sixteen servers that do not answer leave places for more.
const MOST_OUT: usize = 512;

/// Who sends stops after so many, however many come meanwhile: it may be a thread that has a channel to read.
const MOST_AT_ONCE: usize = 64;

/// The letters of all clients of the process.
pub(crate) struct Letters {
    /// What the limits of a round trip go by.
    clock: Arc<dyn Clock>,
    desk: Mutex<Desk>,
    quiet: Condvar,
}

struct Desk {
    queue: FairQueue<Arc<TaskEntry>>,
    out: HashMap<u64, Out>,
    last: u64,
    /// Somebody sends what may be sent; whoever comes meanwhile need not.
    sending: bool,
    /// When the scheduler comes to look at the limits; `None`: not by itself.
    watched: Option<Instant>,
    stopping: bool,
}

/// A letter that has its place.
struct Out {
    lane: Lane,
    entry: Arc<TaskEntry>,
    /// On its way; none before it was sent, once its answer is here, and where its time is up.
    way: Option<Arc<dyn OnItsWay>>,
    answered: bool,
}

/// What a worker still has to do about a letter.
pub(crate) struct Letter {
    pub(crate) trip: Trip,
    pub(crate) rest: Rest,
    /// Given back when the task knows.
    pub(crate) place: Place,
}

pub(crate) enum Rest {
    /// It could not be sent.
    Ask,
    /// There is more to do.
    Finish(Finish),
    /// The answer tells something new, which may have to be stored and checked.
    Take(Box<Task>),
}

/// The place of a letter. Dropping it makes room for the next one.
pub(crate) struct Place {
    engine: Weak<Engine>,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.upgrade() {
            engine.letters().close(self.number);
            engine.send_letters();
        }
    }
}

impl Engine {
    /// Makes a poll of this task's, when it is its turn.
    pub(crate) fn send_letter(&self, entry: &Arc<TaskEntry>) {
        self.letters().push(entry);
        self.send_letters();
    }

    /// Sends what may be sent.
    pub(crate) fn send_letters(&self) {
        if !self.letters().begin() {
            return;
        }
        let (mut nudge, mut left) = (false, MOST_AT_ONCE);
        while let Some((number, entry)) = self.letters().next(left) {
            left -= 1;
            // A panic costs one poll, never the other letters.
            match catch_unwind(AssertUnwindSafe(|| self.send_one(number, &entry))) {
                Ok(early) => nudge |= early,
                Err(_) => self.letters().close(number),
            }
        }
        if nudge || left == 0 {
            self.nudge();
        }
    }

    /// True where the scheduler has to learn of the letter's limit.
    fn send_one(&self, number: u64, entry: &Arc<TaskEntry>) -> bool {
        if entry.has_ended() {
            self.letters().close(number);
            return false;
        }
        // Read before the pass: a poll that was let pass just before the origin was shut began before.
        let trip = Trip { by: Asker::Schedule, started: self.clock().now() };
        if let Err(withheld) = self.pass(entry.lane()) {
            self.letters().close(number);
            entry.post(TaskEvent::Withheld(withheld));
            return false;
        }
        let there = entry.clone();
        let done = Box::new(move |reply| take_reply(number, &there, trip, reply));
        let way = catch_unwind(AssertUnwindSafe(|| entry.wire().begin(&entry.key().id, done))).unwrap_or_default();
        match way {
            Some(way) => self.letters().sent(number, way),
            None => {
                // Where it has come back all the same, that counts.
                if self.letters().claim(number) {
                    let place = Place { engine: entry.engine(), number };
                    self.hand_over(entry, Letter { trip, rest: Rest::Ask, place });
                }
                false
            }
        }
    }

    fn hand_over(&self, entry: &Arc<TaskEntry>, letter: Letter) {
        self.submit(entry.lane(), Errand::new(entry.clone(), Chore::Letter(letter)));
    }

    /// The scheduler's look: at what is left to send, and at the limits of what is out. While there is something: how long until somebody has to look again.
    pub(crate) fn watch_letters(&self) -> Option<Duration> {
        self.send_letters();
        let now = self.letters().clock.now();
        for (entry, way) in self.letters().expired(now) {
            self.submit(entry.lane(), Errand::new(entry.clone(), Chore::Expire(way)));
        }
        self.letters().watch(now)
    }
}

/// An answer, or an end. On whichever thread brings it.
fn take_reply(number: u64, entry: &Arc<TaskEntry>, trip: Trip, reply: Reply) {
    let Some(engine) = entry.engine().upgrade() else { return };
    if !engine.letters().claim(number) {
        return;
    }
    let place = Place { engine: entry.engine(), number };
    match reply {
        // Nothing to store, to tell or to check.
        Reply::Task(task) if entry.expects(&task) => {
            let event = entry.taken(trip, Ok(*task));
            entry.post(event);
        }
        Reply::Task(task) => engine.hand_over(entry, Letter { trip, rest: Rest::Take(task), place }),
        Reply::Finish(finish) => engine.hand_over(entry, Letter { trip, rest: Rest::Finish(finish), place }),
    }
}

impl Letters {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let desk = Desk {
            queue: FairQueue::of(MOST_OUT),
            out: HashMap::new(),
            last: 0,
            sending: false,
            watched: None,
            stopping: false,
        };
        Self { clock, desk: Mutex::new(desk), quiet: Condvar::new() }
    }

    /// The letters of a client are given up.
    pub(crate) fn cut(&self, group: u64) {
        let dropped_unlocked: Vec<Out> = {
            let mut desk = self.desk.lock();
            let out: Vec<Out> = desk.out.extract_if(|_, out| out.lane.group == group).map(|(_, out)| out).collect();
            out.iter().for_each(|out| desk.queue.done(&out.lane));
            out
        };
        drop(dropped_unlocked);
        self.tell_quiet();
    }

    /// All letters are given up, and none is sent any more.
    pub(crate) fn stop(&self) {
        let dropped_unlocked = {
            let mut desk = self.desk.lock();
            desk.stopping = true;
            let out: Vec<Out> = desk.out.drain().map(|(_, out)| out).collect();
            out.iter().for_each(|out| desk.queue.done(&out.lane));
            (out, desk.queue.drain())
        };
        drop(dropped_unlocked);
        self.tell_quiet();
    }

    /// Waits until no letter is wanted or out, or so long; false for the latter.
    pub(crate) fn wait_quiet(&self, limit: Duration) -> bool {
        let mut desk = self.desk.lock();
        if !desk.is_quiet() {
            self.quiet.wait_for(&mut desk, limit);
        }
        desk.is_quiet()
    }

    fn tell_quiet(&self) {
        if self.desk.lock().is_quiet() {
            self.quiet.notify_all();
        }
    }

    fn push(&self, entry: &Arc<TaskEntry>) {
        let mut desk = self.desk.lock();
        if !desk.stopping {
            desk.queue.push(entry.lane(), entry.clone());
        }
    }

    /// True for the one that sends; it goes on until [`Self::next`] has no more for it.
    fn begin(&self) -> bool {
        !std::mem::replace(&mut self.desk.lock().sending, true)
    }

    fn next(&self, left: usize) -> Option<(u64, Arc<TaskEntry>)> {
        let mut desk = self.desk.lock();
        let taken = if left > 0 { desk.queue.take() } else { None };
        let Some((lane, entry)) = taken else {
            // Under the lock that a push takes: what comes now finds nobody sending.
            desk.sending = false;
            return None;
        };
        desk.last += 1;
        let number = desk.last;
        desk.out.insert(number, Out { lane, entry: entry.clone(), way: None, answered: false });
        Some((number, entry))
    }

    /// True where nobody would look in time.
    fn sent(&self, number: u64, way: Arc<dyn OnItsWay>) -> bool {
        let limit = way.deadline().at();
        let (unused, early) = {
            let mut desk = self.desk.lock();
            let early = limit.is_some_and(|at| desk.watched.is_none_or(|watched| at < watched));
            match desk.out.get_mut(&number).filter(|out| !out.answered) {
                Some(out) => {
                    out.way = Some(way);
                    desk.watched = if early { limit } else { desk.watched };
                    (None, early)
                }
                None => (Some(way), false),
            }
        };
        // Dropped unlocked: it is the last of a request that is over.
        drop(unused);
        early
    }

    /// Whatever becomes of the letter: true for the one that has the say.
    fn claim(&self, number: u64) -> bool {
        let (first, dropped_unlocked) = {
            let mut desk = self.desk.lock();
            let Some(out) = desk.out.get_mut(&number) else { return false };
            (!std::mem::replace(&mut out.answered, true), out.way.take())
        };
        drop(dropped_unlocked);
        first
    }

    fn close(&self, number: u64) {
        let dropped_unlocked = {
            let mut desk = self.desk.lock();
            let out = desk.out.remove(&number);
            out.iter().for_each(|out| desk.queue.done(&out.lane));
            out
        };
        drop(dropped_unlocked);
        self.tell_quiet();
    }

    /// Takes those whose time is up.
    fn expired(&self, now: Instant) -> Vec<(Arc<TaskEntry>, Arc<dyn OnItsWay>)> {
        let mut desk = self.desk.lock();
        let over = |out: &mut Out| {
            let way = out.way.take_if(|way| way.deadline().left(now).is_err())?;
            Some((out.entry.clone(), way))
        };
        desk.out.values_mut().filter_map(over).collect()
    }

    fn watch(&self, now: Instant) -> Option<Duration> {
        let mut desk = self.desk.lock();
        if !desk.sending && desk.queue.may_take() {
            // Somebody has sent as many as he may, and left the others to the scheduler.
            return Some(Duration::ZERO);
        }
        desk.watched = desk.out.values().filter_map(|out| out.way.as_ref()?.deadline().at()).min();
        desk.watched.map(|at| at.saturating_duration_since(now))
    }
}

impl Desk {
    fn is_quiet(&self) -> bool {
        self.out.is_empty() && self.queue.waiting() == 0
    }
}
