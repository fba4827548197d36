//! What the host is told: immutable events.

use std::sync::Arc;

use crate::client::call::Call;
use crate::client::follow::TaskHandle;
use crate::client::input::Input;
use crate::client::life::State;
use crate::error::Error;
use crate::protocol::json::Json;
use crate::session::SubscriptionState;
use crate::tasks::EndReason;
use crate::tasks::snapshot::Snapshot;

/// The kinds of events. The numbers are part of the C ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub(crate) enum EventKind {
    /// The client's state changed.
    State = 1,
    /// A call is over.
    CallDone = 2,
    /// A call makes progress.
    Progress = 3,
    /// The server logs.
    LogMessage = 4,
    /// Another notification of the server's.
    Notification = 5,
    /// A task exists, and the ledger knows it.
    TaskCreated = 6,
    /// A task's status, message or open questions changed.
    TaskStatus = 7,
    /// A task ended.
    TaskDone = 8,
    /// A task's time to live has passed.
    TaskOverdue = 9,
    /// A task's polls fail.
    TaskDegraded = 10,
    /// A task's polls answer again.
    TaskRecovered = 11,
    /// A question: a form or URL for the user.
    Elicitation = 12,
    /// A question: a completion by the host's model.
    Sampling = 13,
    /// A question: the host's roots.
    Roots = 14,
    /// A question needs no answer any more.
    InputWithdrawn = 15,
    /// Something failed that no call or task can report.
    Error = 16,
    /// A task of an earlier process, or one named by its id, is followed from now on.
    TaskResumed = 17,
    /// A subscription is active, lost, active again or over.
    Subscription = 18,
}

impl EventKind {
    /// All kinds, in the order of their numbers.
    pub(crate) const ALL: [Self; 18] = [
        Self::State,
        Self::CallDone,
        Self::Progress,
        Self::LogMessage,
        Self::Notification,
        Self::TaskCreated,
        Self::TaskStatus,
        Self::TaskDone,
        Self::TaskOverdue,
        Self::TaskDegraded,
        Self::TaskRecovered,
        Self::Elicitation,
        Self::Sampling,
        Self::Roots,
        Self::InputWithdrawn,
        Self::Error,
        Self::TaskResumed,
        Self::Subscription,
    ];

    /// The kind of a number.
    #[must_use]
    pub(crate) fn of_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as i32 == number)
    }
}

/// Where an event comes from, for coalescing: the latest of a source stands for those before it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    Call(i64),
    Task(String),
    Method(String),
}

/// One event, immutable.
#[derive(Debug)]
pub(crate) struct Event {
    /// Its kind.
    pub kind: EventKind,
    /// The call that it is about.
    pub call: Option<Arc<Call>>,
    /// The id of that call, also where the call itself is not at hand.
    pub call_id: Option<i64>,
    /// The task that it is about.
    pub task: Option<Arc<TaskHandle>>,
    /// The task as it was then.
    pub snapshot: Option<Arc<Snapshot>>,
    /// The question.
    pub input: Option<Arc<Input>>,
    /// What went wrong.
    pub error: Option<Error>,
    /// The client's new state.
    pub state: Option<State>,
    /// A subscription's new state.
    pub subscription: Option<SubscriptionState>,
    /// The `params` of a notification.
    pub json: Option<Json>,
    /// The method of a notification.
    pub method: Option<String>,
}

impl Event {
    /// An event of this kind about nothing yet.
    #[must_use]
    pub(crate) fn new(kind: EventKind) -> Self {
        Self {
            kind,
            call: None,
            call_id: None,
            task: None,
            snapshot: None,
            input: None,
            error: None,
            state: None,
            subscription: None,
            json: None,
            method: None,
        }
    }

    /// The event as it may be told now. An end or a question of a task that another process has taken over since (this
    /// one slept) is not told: the end is that of the handle, the question is none.
    pub(crate) fn current(self: Arc<Self>) -> Option<Arc<Self>> {
        let asks = matches!(self.kind, EventKind::Elicitation | EventKind::Sampling | EventKind::Roots);
        let ends = self.kind == EventKind::TaskDone;
        let closed = self.snapshot.as_ref().is_some_and(|seen| seen.end_reason() == Some(EndReason::Closed));
        let Some(task) = self.task.clone().filter(|task| (asks || (ends && !closed)) && !task.is_ours()) else {
            return Some(self);
        };
        if let Some(input) = &self.input {
            input.withdraw();
            return None;
        }
        let mut event = Self::new(EventKind::TaskDone);
        event.snapshot = Some(task.snapshot());
        event.task = Some(task);
        Some(Arc::new(event))
    }

    /// The size of its text.
    pub(crate) fn bytes(&self) -> usize {
        self.json.as_ref().map_or(0, |json| json.text().len())
    }

    /// The source whose latest event may stand for this one when the queue is full; `None` for what is never dropped.
    pub(crate) fn source(&self) -> Option<Source> {
        match self.kind {
            EventKind::Progress => self.call_id.map(Source::Call),
            EventKind::TaskStatus => self.snapshot.as_ref().map(|snapshot| Source::Task(snapshot.task_id().to_owned())),
            EventKind::LogMessage => Some(Source::Method("notifications/message".into())),
            EventKind::Notification => self.method.clone().map(Source::Method),
            EventKind::State
            | EventKind::CallDone
            | EventKind::TaskCreated
            | EventKind::TaskDone
            | EventKind::TaskOverdue
            | EventKind::TaskDegraded
            | EventKind::TaskRecovered
            | EventKind::Elicitation
            | EventKind::Sampling
            | EventKind::Roots
            | EventKind::InputWithdrawn
            | EventKind::Error
            | EventKind::TaskResumed
            | EventKind::Subscription => None,
        }
    }
}

/// The host's handler of one kind of events. Dropping it is the proof that it will not be called again.
pub(crate) trait Handler: Send + Sync {
    /// Takes an event. Runs on the thread that serves the queue, with no lock of the library's held.
    fn handle(&self, event: &Arc<Event>);
}
