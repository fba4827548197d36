//! The engine: one per process. Owns the schedule and its one thread, the workers, and the list of followed tasks.
//!
//! Everything may also be driven by hand, without a thread: [`Engine::step`] does what is due, [`Engine::work`] makes
//! one round trip. Tests, and a clock in the host's hands, use that.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::clock::{Clock, Deadline};
use crate::error::{Error, Kind, Result};
use crate::protocol::task::Task;
use crate::spawn::Spawn;
use crate::tasks::EndReason;
use crate::tasks::entry::{Held, Identity, Links, TaskEntry};
use crate::tasks::errand::{Errand, guarded};
use crate::tasks::ledger::{Record, Taken, TaskAbout, TaskKey, taken_over};
use crate::tasks::letters::Letters;
use crate::tasks::origins::{Origins, Withheld};
use crate::tasks::pace::{Chance, Jitter};
use crate::tasks::pool::Pool;
use crate::tasks::push::Pushes;
use crate::tasks::queue::Lane;
use crate::tasks::schedule::{Schedule, Slot};
use crate::tasks::state::{End, Machine, Past, TaskEvent};

/// Follows the tasks of all clients of the process.
pub(crate) struct Engine {
    clock: Arc<dyn Clock>,
    spawn: Option<Arc<dyn Spawn>>,
    chance: Chance,
    pool: Arc<Pool>,
    letters: Letters,
    desk: Mutex<Desk>,
    origins: Mutex<Origins>,
    /// Held while what is due is handed out, so that whoever gets it knows that all of that has happened.
    turn: Mutex<()>,
    /// The schedule has a new earliest time, or the end has come.
    bell: Condvar,
    /// The scheduler thread has ended.
    gone: Condvar,
}

/// Something that is due again and again. Called on the scheduler's thread: it only sees to it that somebody else does
/// the work. False ends it.
pub(crate) trait Tend: Send + Sync {
    /// The time has come.
    fn due(&self) -> bool;
}

struct Tending {
    what: Weak<dyn Tend>,
    every: Duration,
}

#[derive(Default)]
struct Desk {
    schedule: Schedule,
    entries: HashMap<Slot, Arc<TaskEntry>>,
    /// By client: two clients of one server may be two users, and each ends its own handles.
    slots: HashMap<(u64, TaskKey), Slot>,
    tended: HashMap<Slot, Tending>,
    last_slot: Slot,
    last_group: u64,
    scheduler: bool,
    stopping: bool,
}

impl Engine {
    /// An engine that starts its threads through `spawn`, the first with the first client. Tasks live by `clock`, round
    /// trips are measured by `passing`.
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        passing: Arc<dyn Clock>,
        spawn: Arc<dyn Spawn>,
        jitter_seed: u64,
    ) -> Arc<Self> {
        Self::with(clock, passing, Some(spawn), jitter_seed)
    }

    /// An engine without threads: somebody calls [`Self::step`] and takes from its pool.
    #[cfg(test)]
    pub(crate) fn by_hand(clock: Arc<dyn Clock>, jitter_seed: u64) -> Arc<Self> {
        Self::with(clock.clone(), clock, None, jitter_seed)
    }

    fn with(
        clock: Arc<dyn Clock>,
        passing: Arc<dyn Clock>,
        spawn: Option<Arc<dyn Spawn>>,
        jitter_seed: u64,
    ) -> Arc<Self> {
        Arc::new(Self {
            pool: Pool::new(spawn.clone(), passing.clone()),
            letters: Letters::new(passing),
            clock,
            spawn,
            chance: Chance::new(jitter_seed),
            desk: Mutex::default(),
            origins: Mutex::default(),
            turn: Mutex::default(),
            bell: Condvar::new(),
            gone: Condvar::new(),
        })
    }

    /// The tasks of one client.
    ///
    /// # Errors
    /// [`Kind::Closed`] after the shutdown; whatever the system says where it refuses the scheduler's thread.
    pub(crate) fn group(self: &Arc<Self>) -> Result<Arc<Group>> {
        self.start()?;
        let mut desk = self.desk.lock();
        desk.last_group += 1;
        let pushes = Pushes::new(self.spawn.clone(), self.clock.clone());
        Ok(Arc::new(Group { id: desk.last_group, engine: self.clone(), closed: AtomicBool::new(false), pushes }))
    }

    /// Hands every task that is due its turn. Returns when to come back.
    pub(crate) fn step(&self, now: Instant) -> Option<Instant> {
        let _turn = self.turn.lock();
        loop {
            let (slot, entry) = {
                let mut desk = self.desk.lock();
                let Some(slot) = desk.schedule.pop_due(now) else {
                    return desk.schedule.next();
                };
                (slot, desk.entries.get(&slot).cloned())
            };
            if entry.is_none() {
                self.tend_now(slot, now);
            }
            if let Some(entry) = entry {
                // A panic costs one turn of one task, never the scheduler.
                let _caught = catch_unwind(AssertUnwindSafe(|| entry.post(TaskEvent::Due)));
            }
        }
    }

    /// A round trip for a worker.
    pub(crate) fn submit(&self, lane: &Lane, errand: Errand) {
        if self.pool.submit(lane, errand) {
            self.nudge();
        }
    }

    /// Calls this again and again, for as long as it lives and wants it.
    pub(crate) fn tend(&self, every: Duration, what: Weak<dyn Tend>) {
        let slot = self.new_slot();
        {
            let mut desk = self.desk.lock();
            desk.tended.insert(slot, Tending { what, every });
            let at = self.clock.now().checked_add(every);
            at.map(|at| desk.schedule.set(slot, at));
        }
        self.bell.notify_all();
    }

    fn tend_now(&self, slot: Slot, now: Instant) {
        let found = self.desk.lock().tended.get(&slot).map(|tending| (tending.what.upgrade(), tending.every));
        let Some((what, every)) = found else { return };
        // A panic costs one turn, never the scheduler.
        let goes_on = what.is_some_and(|what| catch_unwind(AssertUnwindSafe(|| what.due())).unwrap_or(true));
        let mut desk = self.desk.lock();
        match now.checked_add(every).filter(|_| goes_on) {
            Some(at) => drop(desk.schedule.set(slot, at)),
            None => drop(desk.tended.remove(&slot)),
        }
    }

    /// Whether this client may poll at this origin now.
    pub(crate) fn pass(&self, lane: &Lane) -> std::result::Result<(), Withheld> {
        self.origins.lock().pass(lane, self.clock.now())
    }

    /// What came of a poll that began at `started`. Where the origin answers again, its tasks are polled soon, spread
    /// over a few seconds.
    pub(crate) fn heard(&self, lane: &Lane, started: Instant, error: Option<&Error>) {
        if self.origins.lock().heard(lane, started, self.clock.now(), error) {
            let there = |entry: &&Arc<TaskEntry>| entry.lane() == lane;
            let entries: Vec<_> = self.desk.lock().entries.values().filter(there).cloned().collect();
            entries.iter().for_each(TaskEntry::poke);
        }
    }

    /// The scheduler looks again: at the workers, or at a clock that was moved by hand.
    pub(crate) fn nudge(&self) {
        // The lock closes the gap between the scheduler's look at the clock and its sleep.
        drop(self.desk.lock());
        self.bell.notify_all();
    }

    /// Ends every handle as closed, then the threads. False where some are still at it at the deadline.
    pub(crate) fn shutdown(&self, deadline: Deadline) -> bool {
        let entries: Vec<_> = {
            let mut desk = self.desk.lock();
            desk.stopping = true;
            desk.entries.values().cloned().collect()
        };
        for entry in entries {
            entry.post(TaskEvent::Closed);
        }
        self.bell.notify_all();
        self.letters.stop();
        let workers_gone = self.pool.stop(deadline);
        let mut desk = self.desk.lock();
        while desk.scheduler {
            if !deadline.wait(&self.gone, &mut desk) && desk.scheduler {
                return false;
            }
        }
        workers_gone
    }

    /// How many tasks are followed.
    #[cfg(test)]
    pub(crate) fn followed(&self) -> usize {
        self.desk.lock().entries.len()
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The earliest time at which a task wants its turn.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.desk.lock().schedule.next()
    }

    /// True where no task's actions are being executed; else looks away for a while.
    pub(crate) fn at_rest(&self, pause: Duration) -> bool {
        let entries: Vec<_> = self.desk.lock().entries.values().cloned().collect();
        let rest = !entries.iter().any(|entry| entry.is_running());
        if !rest {
            self.bell.wait_for(&mut self.desk.lock(), pause);
        }
        rest
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    pub(crate) fn letters(&self) -> &Letters {
        &self.letters
    }

    pub(crate) fn jitter(&self) -> Jitter {
        self.chance.jitter()
    }

    pub(crate) fn wake_at(&self, slot: Slot, at: Instant) {
        let earliest = {
            let mut desk = self.desk.lock();
            // A task that has ended in the meantime sets no alarm.
            desk.entries.contains_key(&slot) && desk.schedule.set(slot, at)
        };
        if earliest {
            self.bell.notify_all();
        }
    }

    pub(crate) fn finished(&self, entry: &TaskEntry) {
        let _dropped_unlocked = {
            let mut desk = self.desk.lock();
            desk.schedule.clear(entry.slot());
            let key = (entry.group(), entry.key().clone());
            if desk.slots.get(&key) == Some(&entry.slot()) {
                desk.slots.remove(&key);
            }
            desk.entries.remove(&entry.slot())
        };
    }

    fn start(self: &Arc<Self>) -> Result<()> {
        let Some(spawn) = &self.spawn else {
            return self.open();
        };
        {
            let mut desk = self.desk.lock();
            if desk.stopping {
                return Err(shut_down());
            }
            if std::mem::replace(&mut desk.scheduler, true) {
                return Ok(());
            }
        }
        let engine = self.clone();
        spawn.spawn("mcp-tasks", Box::new(move || engine.run())).inspect_err(|_| self.desk.lock().scheduler = false)
    }

    fn open(&self) -> Result<()> {
        if self.desk.lock().stopping { Err(shut_down()) } else { Ok(()) }
    }

    /// The scheduler's thread.
    fn run(&self) {
        loop {
            let looked = self.clock.now();
            self.step(looked);
            let patience = self.watch_letters().into_iter().chain(self.pool.relieve()).min();
            let mut desk = self.desk.lock();
            if desk.stopping {
                desk.scheduler = false;
                self.gone.notify_all();
                return;
            }
            // Asked again under the lock, so that no earlier time slips in between. A look each tick at most: what
            // falls due in between goes out together, a little later than it might, which costs far less than a wake-up
            // for each.
            let next = desk.schedule.next().map(|at| at.max(looked + TICK));
            let until = next.into_iter().chain(patience.map(|patience| looked + patience)).min();
            match until {
                None => self.bell.wait(&mut desk),
                Some(at) => {
                    if let Some(left) = at.checked_duration_since(self.clock.now()).filter(|left| !left.is_zero()) {
                        self.bell.wait_for(&mut desk, left);
                    }
                }
            }
        }
    }

    /// Lists a task, unless its client has gone; returns the one that was there, if any.
    fn list(&self, group: &Group, entry: &Arc<TaskEntry>) -> Result<Option<Arc<TaskEntry>>> {
        let mut desk = self.desk.lock();
        if desk.stopping {
            return Err(shut_down());
        }
        if group.closed.load(Ordering::Acquire) {
            return Err(Error::new(Kind::Closed, "the client is closed"));
        }
        let key = (group.id, entry.key().clone());
        if let Some(there) = desk.slots.get(&key).and_then(|slot| desk.entries.get(slot)) {
            return Ok(Some(there.clone()));
        }
        desk.slots.insert(key, entry.slot());
        desk.entries.insert(entry.slot(), entry.clone());
        Ok(None)
    }

    fn find(&self, group: &Group, key: TaskKey) -> Option<Arc<TaskEntry>> {
        let desk = self.desk.lock();
        desk.slots.get(&(group.id, key)).and_then(|slot| desk.entries.get(slot)).cloned()
    }

    fn new_slot(&self) -> Slot {
        let mut desk = self.desk.lock();
        desk.last_slot += 1;
        desk.last_slot
    }
}

/// The tasks of one client.
pub(crate) struct Group {
    id: u64,
    engine: Arc<Engine>,
    /// Set and tested under the engine's lock, so that no task slips in behind a close.
    closed: AtomicBool,
    pushes: Arc<Pushes>,
}

impl Group {
    /// Follows a task that a call was just answered with. When this returns, the ledger has it and the host was told
    /// of its creation; its further events wait until the returned guard is dropped. A task that is followed already
    /// is returned as it is.
    ///
    /// # Errors
    /// [`Kind::Closed`] after a close. A ledger that fails is no error here: the host is told, and the task is
    /// followed.
    pub(crate) fn follow(&self, seed: Task, about: TaskAbout, links: Links) -> Result<Held> {
        let key = TaskKey { server: about.server.clone(), id: seed.id.as_str().into() };
        let who = self.identity(key, Arc::new(about), &links);
        self.enlist(TaskEntry::new(who, links, &self.engine, TaskEvent::Seeded(Arc::new(seed))))
    }

    /// Follows a task by its id alone, with what the ledger knows of it (which then counts more than `about`). The
    /// first poll is made at once. A task whose end the ledger holds is returned as ended, without an event.
    ///
    /// # Errors
    /// [`Kind::Closed`] after a close; [`Kind::State`] where another process follows it; what the ledger fails with:
    /// without it, a question might be answered twice.
    pub(crate) fn adopt(&self, id: &str, about: TaskAbout, links: Links) -> Result<Held> {
        let key = TaskKey { server: about.server.clone(), id: id.into() };
        if let Some(there) = self.engine.find(self, key.clone()) {
            return Ok(Held::loose(there));
        }
        match guarded(|| links.ledger.take(&key))? {
            Taken::Unknown => {
                let who = self.identity(key, Arc::new(about), &links);
                self.enlist(TaskEntry::new(who, links, &self.engine, TaskEvent::Adopted(Past::default())))
            }
            Taken::Ours(record) => self.resume(record, links),
            Taken::Elsewhere => Err(taken_over()),
        }
    }

    /// Follows a task that the ledger has handed over. The first poll is made at once. A task whose end the ledger
    /// holds is returned as ended, without an event.
    ///
    /// # Errors
    /// [`Kind::Closed`] after a close.
    pub(crate) fn resume(&self, record: Record, links: Links) -> Result<Held> {
        let mut who = self.identity(record.key.clone(), record.about.clone(), &links);
        let again = record.wants_result();
        let age = who.received.duration_since(record.received).unwrap_or_default();
        who.received = record.received;
        if let Some(reason) = record.end.filter(|_| !again) {
            let machine = Machine::ended(stored_end(reason, &record), record.last);
            return Ok(Held::loose(TaskEntry::over(who, links, &self.engine, machine)));
        }
        // What a private task ended with was not stored: the server is asked for it once more.
        let last = record.last.filter(|_| !again);
        let past = Past { last, answers: record.answers, cancel_pending: record.cancel_pending, age, ended: again };
        self.enlist(TaskEntry::new(who, links, &self.engine, TaskEvent::Adopted(past)))
    }

    /// The tasks that are followed for this client, oldest first.
    pub(crate) fn tasks(&self) -> Vec<Arc<TaskEntry>> {
        let mut tasks: Vec<_> = {
            let desk = self.engine.desk.lock();
            desk.entries.values().filter(|entry| entry.group() == self.id).cloned().collect()
        };
        tasks.sort_by_key(|entry| entry.slot());
        tasks
    }

    /// The followed task with this id.
    pub(crate) fn find(&self, server: &str, id: &str) -> Option<Arc<TaskEntry>> {
        let key = TaskKey { server: server.into(), id: id.into() };
        self.engine.find(self, key)
    }

    /// The server told of a task by itself. False where it is none of ours.
    pub(crate) fn pushed(&self, server: &str, task: Task) -> bool {
        let Some(entry) = self.find(server, &task.id) else {
            return false;
        };
        entry.post(TaskEvent::Pushed(Arc::new(task)));
        true
    }

    /// Another process has taken this task over: its handle ends as closed.
    pub(crate) fn lost(&self, key: &TaskKey) {
        if let Some(entry) = self.engine.find(self, key.clone()) {
            entry.post(TaskEvent::Lost);
        }
    }

    /// The network came back or the machine woke.
    pub(crate) fn poke(&self) {
        let (tasks, now) = (self.tasks(), self.engine.clock.now());
        for entry in &tasks {
            self.engine.origins.lock().hasten(entry.lane(), now);
        }
        tasks.iter().for_each(TaskEntry::poke);
    }

    /// The client goes away: every handle ends as closed, and round trips on their way are cut. Does not wait.
    pub(crate) fn close(&self) {
        {
            let _desk = self.engine.desk.lock();
            self.closed.store(true, Ordering::Release);
        }
        self.pushes.close();
        for entry in self.tasks() {
            entry.post(TaskEvent::Closed);
        }
        // After the ends, so that what the cut trips report comes to machines that no longer listen.
        self.engine.pool.cut(self.id);
        self.engine.letters.cut(self.id);
        // Other clients of the same server may have waited for the places.
        self.engine.send_letters();
    }

    fn identity(&self, key: TaskKey, about: Arc<TaskAbout>, links: &Links) -> Identity {
        let lane = Lane { origin: links.wire.origin().into(), group: self.id };
        Identity {
            slot: self.engine.new_slot(),
            lane,
            key,
            about,
            received: self.engine.clock.wall(),
            pushes: self.pushes.clone(),
        }
    }

    fn enlist(&self, entry: Arc<TaskEntry>) -> Result<Held> {
        match self.engine.list(self, &entry)? {
            Some(there) => Ok(Held::loose(there)),
            None => Ok(entry.begin()),
        }
    }
}

fn stored_end(reason: EndReason, record: &Record) -> End {
    let told = record.last.as_deref().and_then(End::told_by);
    match (reason, told) {
        (EndReason::Completed | EndReason::Failed | EndReason::Cancelled, Some(end)) => end,
        (EndReason::Completed, None) => End { reason, error: None, forget: false },
        (EndReason::Failed, None) => End::of(reason, Kind::TaskFailed, "the task failed"),
        (EndReason::Cancelled, None) => End::of(reason, Kind::TaskCancelled, "the task was cancelled"),
        (EndReason::Expired, _) => End::of(reason, Kind::TaskExpired, "the task outlived its time to live"),
        (EndReason::Unknown, _) => {
            End::of(reason, Kind::TaskUnknown, "the server does not know the task, or no longer")
        }
        (EndReason::Closed, _) => End::closed(),
    }
}

/// Chosen: short beside the shortest interval between polls (100 ms).
const TICK: Duration = Duration::from_millis(10);

fn shut_down() -> Error {
    Error::new(Kind::Closed, "the library is shut down")
}

#[cfg(test)]
mod tests;
