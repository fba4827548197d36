//! Push: threads that hear what the server tells of tasks by itself. Polls go on beside them, seldom.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::cancel::{CancelToken, Cancelled, Why};
use crate::clock::{Budget, Clock, Deadline};
use crate::error::{Kind, Result};
use crate::spawn::Spawn;
use crate::tasks::entry::TaskEntry;
use crate::tasks::errand::guarded;
use crate::tasks::state::TaskEvent;
use crate::tasks::watch::{Change, Id, Joined, Over, Plan, Watch};
use crate::tasks::{Heard, TaskWire};

/// So long a stream is still read after another one came in its place: what the server said there before may be on its
/// way. Chosen.
const GRACE: Duration = Duration::from_secs(1);

/// JSON-RPC 2.0, section 5.1.
const INVALID_PARAMS: i64 = -32602;
/// RFC 9110, section 15.5.14.
const CONTENT_TOO_LARGE: u16 = 413;

/// The streams of one client.
pub(crate) struct Pushes {
    spawn: Option<Arc<dyn Spawn>>,
    clock: Arc<dyn Clock>,
    /// Cancelled at the end: nobody gathers any more.
    stop: CancelToken,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    watch: Watch,
    entries: HashMap<Id, Weak<TaskEntry>>,
    tokens: HashMap<u64, Arc<CancelToken>>,
    closed: bool,
}

impl Pushes {
    /// No stream yet; without a spawner there never is one.
    pub(crate) fn new(spawn: Option<Arc<dyn Spawn>>, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { spawn, clock, stop: CancelToken::new(), state: Mutex::default() })
    }

    /// A task is followed: the server is asked to tell of it.
    pub(crate) fn join(self: &Arc<Self>, entry: &Arc<TaskEntry>) {
        if self.spawn.is_none() {
            return;
        }
        let id = entry.key().id.clone();
        let Joined { pushed, gather } = {
            let mut state = self.state.lock();
            if state.closed {
                return;
            }
            state.entries.insert(id.clone(), Arc::downgrade(entry));
            state.watch.joined(id)
        };
        if pushed {
            post(entry, TaskEvent::Watched(true));
        }
        self.start(gather, &entry.shared_wire());
        // It may have ended meanwhile, and left before it came.
        if entry.has_ended() {
            self.leave(entry);
        }
    }

    /// A task has ended.
    pub(crate) fn leave(self: &Arc<Self>, entry: &Arc<TaskEntry>) {
        let id = &entry.key().id;
        let change = {
            let mut state = self.state.lock();
            // The place may be another one's by now: of a task that was lost, and is followed again under its id.
            if !state.entries.get(id).is_some_and(|place| std::ptr::eq(place.as_ptr(), Arc::as_ptr(entry))) {
                return;
            }
            state.entries.remove(id);
            state.watch.left(id)
        };
        self.follow(change, &entry.shared_wire());
    }

    /// The client goes away. Does not wait.
    pub(crate) fn close(&self) {
        let tokens: Vec<_> = {
            let mut state = self.state.lock();
            state.closed = true;
            state.tokens.drain().map(|(_, token)| token).collect()
        };
        self.stop.cancel(Why::Closing);
        for token in tokens {
            token.cancel(Why::Closing);
        }
    }

    /// Gathers after this pause, where somebody has to.
    fn start(self: &Arc<Self>, pause: Option<Duration>, wire: &Arc<dyn TaskWire>) {
        let Some(pause) = pause else { return };
        let (me, wire) = (self.clone(), wire.clone());
        let spawned = self.spawn.as_ref().map(|spawn| spawn.spawn("mcp-push", Box::new(move || me.run(pause, &wire))));
        // Without a thread the tasks are polled; the next one that comes tries again.
        if !matches!(spawned, Some(Ok(()))) {
            self.state.lock().watch.gave_up();
        }
    }

    /// One stream from its gathering to its end.
    fn run(self: &Arc<Self>, pause: Duration, wire: &Arc<dyn TaskWire>) {
        if self.sleep(pause).is_err() {
            return;
        }
        let (plan, token) = {
            let mut state = self.state.lock();
            let plan = if state.closed { None } else { state.watch.gathered() };
            let Some(plan) = plan else {
                return;
            };
            let token = Arc::<CancelToken>::default();
            state.tokens.insert(plan.number, token.clone());
            (plan, token)
        };
        self.start(plan.more, wire);
        let ids = || self.state.lock().watch.ids(plan.number);
        let outcome = guarded(|| wire.listen(&ids, &token, &mut |heard| self.heard(&plan, heard, wire)));
        self.over(&plan, &outcome, wire);
    }

    fn sleep(&self, pause: Duration) -> std::result::Result<(), Cancelled> {
        self.stop.sleep_until(Deadline::after(self.clock.now(), Some(pause), Budget::Wait))
    }

    fn heard(self: &Arc<Self>, plan: &Plan, heard: Heard, wire: &Arc<dyn TaskWire>) {
        match heard {
            Heard::Task(task) => {
                // The server tells what it was asked for; anything else is none of ours.
                if let Some(entry) = self.entry(&task.id) {
                    post(&entry, TaskEvent::Pushed(Arc::new(*task)));
                }
            }
            Heard::Granted(ids) => self.change(wire, |watch| watch.granted(plan.number, ids.as_deref())),
            Heard::Lost => self.change(wire, |watch| watch.lost(plan.number)),
        }
    }

    fn over(self: &Arc<Self>, plan: &Plan, outcome: &Result<()>, wire: &Arc<dyn TaskWire>) {
        let how = match outcome {
            Ok(()) => Over::Closed,
            Err(error) if matches!(error.kind(), Kind::Cancelled | Kind::Closed) => Over::Closed,
            // About one of the tasks, perhaps: others may fare better.
            Err(error) if error.rpc().is_some_and(|fault| fault.code == INVALID_PARAMS) => Over::Closed,
            Err(error) if error.http_status() == Some(CONTENT_TOO_LARGE) => Over::TooMuch,
            Err(_) => Over::Refused,
        };
        self.state.lock().tokens.remove(&plan.number);
        self.change(wire, |watch| watch.over(plan.number, how));
    }

    /// Whose place it is.
    pub(super) fn entry(&self, id: &str) -> Option<Arc<TaskEntry>> {
        self.state.lock().entries.get(id).and_then(Weak::upgrade)
    }

    /// Lets the rules decide, and does what follows.
    fn change(self: &Arc<Self>, wire: &Arc<dyn TaskWire>, decide: impl FnOnce(&mut Watch) -> Change) {
        let change = decide(&mut self.state.lock().watch);
        self.follow(change, wire);
    }

    /// Does what follows from a piece of news. Nothing is told under the lock.
    fn follow(self: &Arc<Self>, change: Change, wire: &Arc<dyn TaskWire>) {
        let told = {
            let state = self.state.lock();
            let of = |ids: &[Id], on| {
                let entries = ids.iter().filter_map(|id| state.entries.get(id).and_then(Weak::upgrade));
                entries.map(|entry| (entry, on)).collect::<Vec<_>>()
            };
            let mut told = of(&change.off, false);
            told.extend(of(&change.on, true));
            told
        };
        for (entry, on) in told {
            post(&entry, TaskEvent::Watched(on));
        }
        self.cut(&change.end);
        self.retire(change.retire);
        self.start(change.gather, wire);
    }

    /// Ends streams that another one has replaced, a little later.
    fn retire(self: &Arc<Self>, numbers: Vec<u64>) {
        if numbers.is_empty() {
            return;
        }
        let (me, later) = (self.clone(), numbers.clone());
        let spawned = self.spawn.as_ref().map(|spawn| {
            let work = move || {
                // At the client's end all of them end.
                let _closed = me.sleep(GRACE);
                me.cut(&later);
            };
            spawn.spawn("mcp-push", Box::new(work))
        });
        if !matches!(spawned, Some(Ok(()))) {
            self.cut(&numbers);
        }
    }

    fn cut(&self, numbers: &[u64]) {
        let tokens: Vec<_> = {
            let mut state = self.state.lock();
            numbers.iter().filter_map(|number| state.tokens.remove(number)).collect()
        };
        for token in tokens {
            token.cancel(Why::Host);
        }
    }
}

/// A panic costs one piece of news of one task, never the stream of all of them.
fn post(entry: &Arc<TaskEntry>, event: TaskEvent) {
    let _caught = catch_unwind(AssertUnwindSafe(|| entry.post(event)));
}
