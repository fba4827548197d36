//! Push: threads that hear what the server tells of tasks by itself. Polls go on beside them, seldom.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::cancel::{CancelToken, Why};
use crate::clock::{Budget, Clock, Deadline};
use crate::error::{Kind, Result};
use crate::spawn::Spawn;
use crate::tasks::entry::TaskEntry;
use crate::tasks::errand::guarded;
use crate::tasks::state::TaskEvent;
use crate::tasks::watch::{Change, Id, Over, Plan, Watch};
use crate::tasks::{Heard, TaskWire};

/// What comes within this time shares a stream, and a task that ends sooner needs none. Chosen: as long as most tasks
/// wait for their first poll anyway.
const GATHER: Duration = Duration::from_secs(1);

/// JSON-RPC 2.0, section 5.1.
const INVALID_PARAMS: i64 = -32602;

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
        let gather = {
            let mut state = self.state.lock();
            if state.closed {
                return;
            }
            state.entries.insert(id.clone(), Arc::downgrade(entry));
            state.watch.joined(id.clone())
        };
        if gather {
            self.start(entry.shared_wire());
        }
        // It may have ended meanwhile, and left before it came.
        if entry.has_ended() {
            self.leave(&id);
        }
    }

    /// A task has ended.
    pub(crate) fn leave(&self, id: &str) {
        let tokens = {
            let mut state = self.state.lock();
            if state.entries.remove(id).is_none() {
                return;
            }
            let change = state.watch.left(id);
            state.take_tokens(&change)
        };
        cut(tokens);
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

    fn start(self: &Arc<Self>, wire: Arc<dyn TaskWire>) {
        let me = self.clone();
        let spawned = self.spawn.as_ref().map(|spawn| spawn.spawn("mcp-push", Box::new(move || me.run(&wire))));
        // Without a thread the tasks are polled; the next one that comes tries again.
        if !matches!(spawned, Some(Ok(()))) {
            self.state.lock().watch.gave_up();
        }
    }

    /// One stream from its gathering to its end.
    fn run(self: &Arc<Self>, wire: &Arc<dyn TaskWire>) {
        let until = Deadline::after(self.clock.now(), Some(GATHER), Budget::Wait);
        if self.stop.sleep_until(until).is_err() {
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
        if plan.more {
            self.start(wire.clone());
        }
        let ids = || self.state.lock().watch.ids(plan.number);
        let outcome = guarded(|| wire.listen(&ids, &token, &mut |heard| self.heard(&plan, heard)));
        self.over(&plan, &outcome, wire);
    }

    fn heard(&self, plan: &Plan, heard: Heard) {
        match heard {
            Heard::Task(task) => {
                // The server tells what it was asked for; anything else is none of ours.
                if let Some(entry) = self.entry(&task.id) {
                    post(&entry, TaskEvent::Pushed(Arc::new(*task)));
                }
            }
            Heard::Granted(ids) => self.change(|watch| watch.granted(plan.number, ids.as_deref())),
            Heard::Lost => self.change(|watch| watch.lost(plan.number)),
        }
    }

    fn over(self: &Arc<Self>, plan: &Plan, outcome: &Result<()>, wire: &Arc<dyn TaskWire>) {
        let how = match outcome {
            Ok(()) => Over::Closed,
            Err(error) if matches!(error.kind(), Kind::Cancelled | Kind::Closed) => Over::Closed,
            // About one of the tasks, perhaps: others may fare better.
            Err(error) if error.rpc().is_some_and(|fault| fault.code == INVALID_PARAMS) => Over::Closed,
            Err(_) => Over::Refused,
        };
        let mut gather = false;
        self.change(|watch| {
            let change = watch.over(plan.number, how);
            gather = change.gather;
            change
        });
        self.state.lock().tokens.remove(&plan.number);
        if gather {
            self.start(wire.clone());
        }
    }

    fn entry(&self, id: &str) -> Option<Arc<TaskEntry>> {
        self.state.lock().entries.get(id).and_then(Weak::upgrade)
    }

    /// Lets the rules decide, and tells the tasks what follows. Nothing is told under the lock.
    fn change(&self, decide: impl FnOnce(&mut Watch) -> Change) {
        let (tokens, told) = {
            let mut state = self.state.lock();
            let change = decide(&mut state.watch);
            let tokens = state.take_tokens(&change);
            let of = |ids: &[Id], on| {
                let entries = ids.iter().filter_map(|id| state.entries.get(id).and_then(Weak::upgrade));
                entries.map(|entry| (entry, on)).collect::<Vec<_>>()
            };
            let mut told = of(&change.off, false);
            told.extend(of(&change.on, true));
            (tokens, told)
        };
        for (entry, on) in told {
            post(&entry, TaskEvent::Watched(on));
        }
        cut(tokens);
    }
}

impl State {
    fn take_tokens(&mut self, change: &Change) -> Vec<Arc<CancelToken>> {
        change.end.iter().filter_map(|number| self.tokens.remove(number)).collect()
    }
}

fn cut(tokens: Vec<Arc<CancelToken>>) {
    for token in tokens {
        token.cancel(Why::Host);
    }
}

/// A panic costs one piece of news of one task, never the stream of all of them.
fn post(entry: &Arc<TaskEntry>, event: TaskEvent) {
    let _caught = catch_unwind(AssertUnwindSafe(|| entry.post(event)));
}
