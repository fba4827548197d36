//! One question to the server about a task (`tasks/get`): by the schedule or by the host, and what it says of the server.

use std::sync::Arc;
use std::time::Instant;

use crate::cancel::CancelToken;
use crate::error::{Error, Kind, Result};
use crate::protocol::task::Task;
use crate::tasks::entry::TaskEntry;
use crate::tasks::errand::guarded;
use crate::tasks::snapshot::Snapshot;
use crate::tasks::state::{Asker, TaskEvent, Trip};

impl TaskEntry {
    /// Asks the server once, on this thread. On a task that has ended: no round trip.
    ///
    /// # Errors
    /// What the round trip failed with; the task is followed on. A cancelled refresh leaves no trace.
    pub(crate) fn refresh(self: &Arc<Self>, cancel: &CancelToken) -> Result<Arc<Snapshot>> {
        let known = self.snapshot();
        if known.has_ended() {
            return Ok(known);
        }
        let trip = Trip { by: Asker::Host, started: self.clock.now() };
        let outcome = self.ask(cancel).and_then(|task| self.own(task));
        self.hear(trip.started, outcome.as_ref().err());
        let (event, error) = match outcome {
            Ok(task) => {
                let hollow = task.check_payload().err();
                (TaskEvent::Polled(task, trip), hollow)
            }
            // The host gave up, the server did nothing wrong.
            Err(error) if error.kind() == Kind::Cancelled || cancel.cancelled().is_some() => {
                return Err(error);
            }
            Err(error) => (TaskEvent::PollFailed(error.clone(), trip), Some(error)),
        };
        let (_, mut snapshot) = self.transition(event, |_| ());
        // Another thread may have found the end just before, and is still writing it down.
        self.settle();
        let seen = self.snapshot();
        if seen.has_ended() {
            snapshot = seen;
        }
        match error {
            None => Ok(snapshot),
            // Where the task ended by it, its end says more (expired, not only unknown).
            Some(error) => Err(snapshot.error().cloned().unwrap_or(error)),
        }
    }

    /// The scheduled poll: made, or withheld where the server is known not to answer.
    pub(crate) fn poll(&self, cancel: &CancelToken) -> TaskEvent {
        // Read before the pass: a poll that was let pass just before the origin was shut began before.
        let trip = Trip { by: Asker::Schedule, started: self.clock.now() };
        if let Some(Err(withheld)) = self.engine.upgrade().map(|engine| engine.pass(self.lane())) {
            return TaskEvent::Withheld(withheld);
        }
        self.taken(trip, self.ask(cancel))
    }

    /// What a scheduled `tasks/get` came to.
    pub(crate) fn taken(&self, trip: Trip, outcome: Result<Arc<Task>>) -> TaskEvent {
        let outcome = outcome.and_then(|task| self.own(task));
        self.hear(trip.started, outcome.as_ref().err());
        match outcome {
            Ok(task) => TaskEvent::Polled(task, trip),
            Err(error) => TaskEvent::PollFailed(error, trip),
        }
    }

    /// What a `tasks/get` says of the server, the other tasks there hear, too.
    fn hear(&self, started: Instant, error: Option<&Error>) {
        if let Some(engine) = self.engine.upgrade() {
            engine.heard(self.lane(), started, error);
        }
    }

    fn own(&self, task: Arc<Task>) -> Result<Arc<Task>> {
        if task.id != *self.who.key.id {
            return Err(Error::new(Kind::Malformed, "the server answered tasks/get with another task's id"));
        }
        Ok(task)
    }

    /// True where this answer would tell nothing that has to be stored or told.
    pub(crate) fn expects(&self, task: &Task) -> bool {
        task.id == *self.who.key.id && self.core.lock().machine.expects(task)
    }

    /// One `tasks/get`, on this thread.
    pub(crate) fn ask(&self, cancel: &CancelToken) -> Result<Arc<Task>> {
        let known = self.core.lock().machine.task().cloned();
        guarded(|| self.links.wire.get(&self.who.key.id, known.as_ref(), cancel))
    }
}
