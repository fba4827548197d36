//! One followed task: joins the machine with the ledger, the host and the wire.
//!
//! The machine steps under a short lock, at once, wherever the event comes from. What a step wants done is queued, and
//! whoever finds no runner becomes the runner: so the actions of one task are done one by one and in order, by one
//! thread at a time, with no lock held during a ledger write, a callback or a round trip. A callback that acts on its
//! own task only adds to the queue.

mod asking;
mod shared;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::ThreadId;
use std::time::SystemTime;

use parking_lot::{Condvar, Mutex};

use crate::cancel::{CancelToken, Wake};
use crate::clock::{Clock, Deadline};
use crate::error::{Kind, Result};
use crate::protocol::input::InputAnswer;
use crate::protocol::task::Task;
use crate::tasks::driver::Engine;
use crate::tasks::errand::{Chore, Errand, guarded};
use crate::tasks::keys::{Sender, Verdict};
use crate::tasks::ledger::{Ledger, Record, TaskAbout, TaskKey};
use crate::tasks::pace::Moment;
use crate::tasks::push::Pushes;
use crate::tasks::queue::Lane;
use crate::tasks::schedule::Slot;
use crate::tasks::snapshot::Snapshot;
use crate::tasks::state::{Actions, Machine, TaskAction, TaskEvent};
use crate::tasks::{Announcement, EndReason, FollowOptions, TaskHost, TaskWire};

/// What a task is connected to.
#[derive(Clone)]
pub(crate) struct Links {
    /// The server's side.
    pub wire: Arc<dyn TaskWire>,
    /// The program's side.
    pub host: Arc<dyn TaskHost>,
    /// Where it is stored.
    pub ledger: Arc<dyn Ledger>,
    /// How it is followed.
    pub options: FollowOptions,
}

/// Which task, and whose.
pub(crate) struct Identity {
    pub(crate) slot: Slot,
    pub(crate) lane: Lane,
    pub(crate) key: TaskKey,
    pub(crate) about: Arc<TaskAbout>,
    /// When the task was received, wall time.
    pub(crate) received: SystemTime,
    /// Who hears of it without asking.
    pub(crate) pushes: Arc<Pushes>,
}

/// A task that is followed, or was.
pub(crate) struct TaskEntry {
    who: Identity,
    links: Links,
    engine: Weak<Engine>,
    clock: Arc<dyn Clock>,
    core: Mutex<Core>,
    /// What callers see: behind the machine by as much as is not yet in the ledger.
    seen: Mutex<Arc<Snapshot>>,
    changed: Condvar,
    /// Those who wait for this task and others at once.
    watchers: Mutex<Vec<Weak<dyn Wake>>>,
    /// A step is done.
    stepped: Condvar,
    /// Another process follows the task.
    lost: AtomicBool,
}

struct Core {
    machine: Machine,
    steps: VecDeque<Step>,
    running: bool,
    /// The thread that does the steps now; none while they are held back.
    runner: Option<ThreadId>,
    /// How many steps were queued, and how many are done.
    queued: u64,
    done: u64,
}

/// What one event wants done, with the task as it was then.
struct Step {
    actions: Actions,
    snapshot: Arc<Snapshot>,
    record: Option<Record>,
    /// An answer that changes nothing of what is stored.
    same: Option<Arc<Task>>,
}

/// A new task whose events are held back, all but "created", until this is dropped: the caller first tells of its own
/// call's completion.
#[must_use = "nothing is polled until this is dropped"]
pub(crate) struct Held(Arc<TaskEntry>, bool);

impl Held {
    /// The task.
    pub(crate) fn entry(&self) -> &Arc<TaskEntry> {
        &self.0
    }

    /// Lets the events go and returns the task.
    pub(crate) fn start(self) -> Arc<TaskEntry> {
        self.0.clone()
    }

    pub(crate) fn loose(entry: Arc<TaskEntry>) -> Self {
        Self(entry, false)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.1 {
            self.0.run();
            if self.0.links.options.push && self.0.links.options.auto_poll {
                self.0.who.pushes.join(&self.0);
            }
        }
    }
}

impl TaskEntry {
    /// A task in its first step, not run yet.
    pub(crate) fn new(who: Identity, links: Links, engine: &Arc<Engine>, first: TaskEvent) -> Arc<Self> {
        let machine = Machine::new(links.options.clone());
        let entry = Self::over(who, links, engine, machine);
        entry.advance(&mut entry.core.lock(), first);
        entry
    }

    /// A task around this machine, which may have ended.
    pub(crate) fn over(who: Identity, links: Links, engine: &Arc<Engine>, machine: Machine) -> Arc<Self> {
        let clock = engine.clock().clone();
        let snapshot = Arc::new(Snapshot::of(&who.key.id, &who.about, &machine, Moment::of(&*clock)));
        // Running from the start: the first step belongs to `begin`, the later ones to the drop of `Held`.
        let running = machine.end().is_none();
        judge(&links, &snapshot);
        let core = Core { machine, steps: VecDeque::new(), running, runner: None, queued: 0, done: 0 };
        Arc::new(Self {
            who,
            links,
            engine: Arc::downgrade(engine),
            clock,
            core: Mutex::new(core),
            seen: Mutex::new(snapshot),
            changed: Condvar::new(),
            watchers: Mutex::default(),
            stepped: Condvar::new(),
            lost: AtomicBool::new(false),
        })
    }

    /// Does the first step: the ledger has the task and the host knows of it when this returns.
    pub(crate) fn begin(self: &Arc<Self>) -> Held {
        let step = self.core.lock().steps.pop_front();
        if let Some(step) = step {
            self.execute(step);
            self.core.lock().done += 1;
        }
        Held(self.clone(), true)
    }

    pub(crate) fn engine(&self) -> Weak<Engine> {
        self.engine.clone()
    }

    pub(crate) fn wire(&self) -> &dyn TaskWire {
        &*self.links.wire
    }

    pub(crate) fn shared_wire(&self) -> Arc<dyn TaskWire> {
        self.links.wire.clone()
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Which task.
    pub(crate) fn key(&self) -> &TaskKey {
        &self.who.key
    }

    pub(crate) fn slot(&self) -> Slot {
        self.who.slot
    }

    /// The server's origin, and the client.
    pub(crate) fn lane(&self) -> &Lane {
        &self.who.lane
    }

    pub(crate) fn group(&self) -> u64 {
        self.who.lane.group
    }

    /// The task as it stands.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.seen.lock().clone()
    }

    /// True where its actions are being executed.
    pub(crate) fn is_running(&self) -> bool {
        self.core.lock().running
    }

    /// True where this question waits for the host. The snapshot may lag behind: an answer that was just given is
    /// known here at once.
    pub(crate) fn is_open(&self, key: &str) -> bool {
        self.core.lock().machine.open_inputs().iter().any(|input| input.request.key == key)
    }

    /// Answers questions; a worker carries the answers, and repeats what does not arrive.
    pub(crate) fn answer(self: &Arc<Self>, answers: Vec<InputAnswer>) -> Verdict {
        let asked = answers.clone();
        let verdict = self.transition(TaskEvent::Answered(answers, Sender::Worker), |machine| machine.weigh(&asked)).0;
        // What was refused with the task is no answer that counts.
        if self.settle() { verdict } else { Verdict::Ended }
    }

    /// Waits until what was queued is done: an answer that was given is in the ledger then. On the thread that does the
    /// steps itself, and while they are held back, there is nothing to wait for.
    /// False where the task was lost.
    fn settle(&self) -> bool {
        let mut core = self.core.lock();
        let mine = core.queued;
        let me = std::thread::current().id();
        while core.done < mine && core.runner.is_some_and(|runner| runner != me) {
            self.stepped.wait(&mut core);
        }
        !self.lost.load(Ordering::Acquire)
    }

    /// Answers questions with one round trip on this thread, under the same rules.
    ///
    /// # Errors
    /// What the round trip failed with; the questions are then open again, and sending the same answers once more is
    /// safe: the server ignores keys that it has an answer to.
    pub(crate) fn update(self: &Arc<Self>, answers: Vec<InputAnswer>, cancel: &CancelToken) -> Result<Verdict> {
        let asked = answers.clone();
        let ask = |machine: &Machine| (machine.weigh(&asked), machine.fresh(&asked));
        let ((verdict, fresh), _) = self.transition(TaskEvent::Answered(answers, Sender::Caller), ask);
        if verdict != Verdict::Accepted {
            return Ok(verdict);
        }
        if !self.settle() {
            return Ok(Verdict::Ended);
        }
        let keys = fresh.iter().map(|answer| answer.key.clone()).collect();
        let outcome = guarded(|| self.links.wire.update(&self.who.key.id, &fresh, cancel));
        self.post(TaskEvent::UpdateDone(keys, Sender::Caller, outcome.clone()));
        outcome.map(|()| Verdict::Accepted)
    }

    /// Asks the server to cancel; the task is followed to its real end, or let go, by option. False where it has
    /// ended or was asked before.
    pub(crate) fn cancel(self: &Arc<Self>) -> bool {
        self.transition(TaskEvent::CancelAsked, |machine| machine.end().is_none() && !machine.cancel_asked()).0
    }

    /// Ends the handle as closed, and the ledger forgets the task. The task may go on at the server. False where it
    /// has ended.
    pub(crate) fn let_go(self: &Arc<Self>) -> bool {
        self.transition(TaskEvent::LetGo, |machine| machine.end().is_none()).0
    }

    /// The network came back or the machine woke: polls what is degraded or was slept over.
    pub(crate) fn poke(self: &Arc<Self>) {
        self.post(TaskEvent::Poked);
    }

    /// The host has the end; the ledger drops the result.
    ///
    /// # Errors
    /// Where the ledger fails.
    pub(crate) fn acknowledge(&self) -> Result<bool> {
        guarded(|| self.links.ledger.acknowledge(&self.who.key))
    }

    /// Has `watcher` woken at each change of the snapshot, for as long as it lives.
    pub(crate) fn watch(&self, watcher: Weak<dyn Wake>) {
        let mut watchers = self.watchers.lock();
        // A list may name a task many times: its watcher stands here once.
        watchers.retain(|one| one.strong_count() > 0 && !one.ptr_eq(&watcher));
        watchers.push(watcher);
    }

    /// Waits for the end; `None` where the deadline or the cancel came first.
    #[cfg(test)]
    pub(crate) fn wait(self: &Arc<Self>, deadline: Deadline, cancel: &CancelToken) -> Option<Arc<Snapshot>> {
        self.wait_until(deadline, cancel, Snapshot::has_ended)
    }

    /// Waits until the snapshot is as wanted. `done` runs under a lock: it only looks.
    pub(crate) fn wait_until(
        self: &Arc<Self>,
        deadline: Deadline,
        cancel: &CancelToken,
        done: impl Fn(&Snapshot) -> bool,
    ) -> Option<Arc<Snapshot>> {
        let bell = Arc::new(WaitBell(self.clone()));
        let hook: Weak<dyn Wake> = Arc::downgrade(&bell) as Weak<dyn Wake>;
        let registered = cancel.on_cancel(hook);
        let mut seen = self.seen.lock();
        loop {
            if done(&seen) {
                return Some(seen.clone());
            }
            if registered.is_err() || cancel.cancelled().is_some() {
                return None;
            }
            if !deadline.wait(&self.changed, &mut seen) {
                return done(&seen).then(|| seen.clone());
            }
        }
    }

    /// Feeds the machine.
    pub(crate) fn post(self: &Arc<Self>, event: TaskEvent) {
        self.transition(event, |_| ());
    }

    /// Feeds the machine; `ask` looks at it just before, under the same lock.
    fn transition<R>(self: &Arc<Self>, event: TaskEvent, ask: impl FnOnce(&Machine) -> R) -> (R, Arc<Snapshot>) {
        let (asked, snapshot, run) = {
            let mut core = self.core.lock();
            let asked = ask(&core.machine);
            let snapshot = self.advance(&mut core, event);
            let run = !core.running && !core.steps.is_empty();
            core.running |= run;
            if run {
                core.runner = Some(std::thread::current().id());
            }
            (asked, snapshot, run)
        };
        if run {
            self.run();
        }
        // Where another thread is the runner, it may not have come so far.
        snapshot.iter().for_each(|snapshot| judge(&self.links, snapshot));
        (asked, snapshot.unwrap_or_else(|| self.snapshot()))
    }

    /// One step of the machine. `None` where it had ended before.
    fn advance(&self, core: &mut Core, event: TaskEvent) -> Option<Arc<Snapshot>> {
        if core.machine.end().is_some() {
            return None;
        }
        let engine = self.engine.upgrade()?;
        let (at, mut actions) = (Moment::of(&*self.clock), Actions::new());
        let before = core.machine.task().map(Arc::as_ptr);
        core.machine.on(event, at, engine.jitter(), &mut actions);
        let snapshot = Arc::new(Snapshot::of(&self.who.key.id, &self.who.about, &core.machine, at));
        // Made now, not when it is written: by then the machine may have moved on.
        let wanted = actions.iter().any(|action| matches!(action, TaskAction::Record));
        let record = wanted.then(|| self.record_of(&core.machine));
        let same = core.machine.task().filter(|task| !wanted && before != Some(Arc::as_ptr(task))).cloned();
        core.steps.push_back(Step { actions, snapshot: snapshot.clone(), record, same });
        core.queued += 1;
        Some(snapshot)
    }

    /// The task as the ledger would store it now.
    pub(crate) fn record(&self) -> Record {
        self.record_of(&self.core.lock().machine)
    }

    fn record_of(&self, machine: &Machine) -> Record {
        let mut record = Record {
            key: self.who.key.clone(),
            about: self.who.about.clone(),
            received: self.who.received,
            stored: self.clock.wall(),
            last: machine.task().cloned(),
            answers: machine.stored_answers(),
            cancel_pending: machine.cancel_pending(),
            end: machine.end().map(|end| end.reason).filter(|reason| *reason != EndReason::Closed),
            acknowledged: false,
        };
        if !self.who.about.keep_result {
            record.drop_result();
        }
        record
    }

    /// Does what is queued, as the one runner.
    fn run(self: &Arc<Self>) {
        loop {
            let step = {
                let mut core = self.core.lock();
                let step = core.steps.pop_front();
                core.running = step.is_some();
                core.runner = step.is_some().then(|| std::thread::current().id());
                if step.is_none() {
                    // The room for four steps is a tenth of what a task takes while it waits.
                    core.steps = VecDeque::new();
                }
                step
            };
            self.stepped.notify_all();
            let Some(step) = step else { return };
            self.execute(step);
            self.core.lock().done += 1;
        }
    }

    fn execute(self: &Arc<Self>, step: Step) {
        let Step { actions, snapshot, mut record, same } = step;
        if let Some(task) = same {
            self.links.ledger.share(&self.who.key, &task);
        }
        // Before anybody sees it, and outside every lock: a look at a large result takes time.
        judge(&self.links, &snapshot);
        let mut published = false;
        let mut actions = actions.into_iter();
        while let Some(action) = actions.next() {
            if let TaskAction::Record = action {
                if let Some(record) = record.take()
                    && !self.store(record, &snapshot)
                {
                    return self.lose(actions);
                }
                continue;
            }
            if !std::mem::replace(&mut published, true) {
                self.publish(&snapshot);
            }
            self.act(action, &snapshot);
        }
        if !published {
            self.publish(&snapshot);
        }
    }

    fn publish(&self, snapshot: &Arc<Snapshot>) {
        // The old one is dropped after unlocking.
        let _old = std::mem::replace(&mut *self.seen.lock(), snapshot.clone());
        self.changed.notify_all();
        // Woken outside the lock: a watcher takes one of its own.
        let watchers: Vec<_> = self.watchers.lock().iter().filter_map(Weak::upgrade).collect();
        for watcher in watchers {
            watcher.wake();
        }
    }

    fn act(self: &Arc<Self>, action: TaskAction, snapshot: &Arc<Snapshot>) {
        match action {
            TaskAction::Record => {}
            TaskAction::Forget => {
                // A record that cannot be removed is found again after a restart: annoying, not wrong.
                let _removed = guarded(|| self.links.ledger.remove(&self.who.key));
            }
            TaskAction::Poll => self.submit(Chore::Poll),
            TaskAction::SendUpdate(answers) => self.submit(Chore::Update(answers)),
            TaskAction::SendCancel => self.submit(Chore::Cancel),
            TaskAction::Announce(what) => self.announce(snapshot, what),
            TaskAction::Ask(request) => self.announce(snapshot, Announcement::Ask(request)),
            TaskAction::Withdraw(key) => self.announce(snapshot, Announcement::Withdrawn(key)),
            TaskAction::WakeAt(at) => {
                if let Some(engine) = self.engine.upgrade() {
                    engine.wake_at(self.who.slot, at);
                }
            }
            TaskAction::Finish(_) => {
                if let Some(engine) = self.engine.upgrade() {
                    engine.finished(self);
                }
                self.who.pushes.leave(self);
            }
        }
    }

    /// False where another process follows the task by now: nothing of this step may be told or sent.
    fn store(self: &Arc<Self>, record: Record, snapshot: &Arc<Snapshot>) -> bool {
        let event = match guarded(|| self.links.ledger.put(record)) {
            Ok(()) => TaskEvent::Recorded,
            Err(error) if error.kind() == Kind::State => return false,
            Err(error) => TaskEvent::RecordFailed(error),
        };
        let mut actions = Actions::new();
        if let Some(engine) = self.engine.upgrade() {
            self.core.lock().machine.on(event, Moment::of(&*self.clock), engine.jitter(), &mut actions);
        }
        // Done here and now: the host hears that nothing is stored before it hears of what was not stored.
        for action in actions {
            self.act(action, snapshot);
        }
        true
    }

    fn announce(self: &Arc<Self>, snapshot: &Arc<Snapshot>, what: Announcement) {
        // A host that panics has had its event.
        let _caught = catch_unwind(AssertUnwindSafe(|| self.links.host.announce(self, snapshot, what)));
    }

    fn submit(self: &Arc<Self>, chore: Chore) {
        if let Some(engine) = self.engine.upgrade() {
            if matches!(chore, Chore::Poll) && self.links.wire.may_begin() {
                return engine.send_letter(self);
            }
            engine.submit(&self.who.lane, Errand::new(self.clone(), chore));
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.core.lock().machine.end().is_some()
    }
}

/// Lets the host look at a result.
fn judge(links: &Links, snapshot: &Snapshot) {
    snapshot.judge(|about, result| guarded(|| Ok(links.host.flaw(about, result))).unwrap_or_else(Some));
}

/// Wakes the waiters of an entry.
struct WaitBell(Arc<TaskEntry>);

impl Wake for WaitBell {
    fn wake(&self) {
        // The lock closes the gap between a waiter's look at the token and its sleep; nobody holds it for long.
        drop(self.0.seen.lock());
        self.0.changed.notify_all();
    }
}
