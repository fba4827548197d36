//! What the host sees of a task at one moment. Immutable, shared, cheap: the large texts are shared with the machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use once_cell::sync::OnceCell;

use crate::error::{Error, RpcFault};
use crate::protocol::json::Json;
use crate::protocol::task::{Task, TaskStatus, Ttl};
use crate::tasks::EndReason;
use crate::tasks::history::History;
use crate::tasks::keys::OpenInput;
use crate::tasks::ledger::TaskAbout;
use crate::tasks::pace::Moment;
use crate::tasks::state::Machine;

/// A task at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    id: Arc<str>,
    about: Arc<TaskAbout>,
    task: Option<Arc<Task>>,
    history: History,
    status: TaskStatus,
    end: Option<(EndReason, Option<Error>)>,
    inputs: Vec<OpenInput>,
    ttl: Ttl,
    poll_interval: Option<Duration>,
    overdue: bool,
    degraded: Option<Error>,
    next_poll_due: Option<Instant>,
    cancel_pending: bool,
    /// What is wrong with the result; looked at once.
    flaw: OnceCell<Option<Error>>,
    repeated: bool,
}

impl Snapshot {
    /// The machine's state at this moment.
    pub(crate) fn of(id: &Arc<str>, about: &Arc<TaskAbout>, machine: &Machine, at: Moment) -> Self {
        Self {
            id: id.clone(),
            about: about.clone(),
            task: machine.task().cloned(),
            history: machine.history(),
            status: machine.status(),
            end: machine.end().map(|end| (end.reason, end.error.clone())),
            inputs: machine.open_inputs(),
            ttl: machine.ttl(),
            poll_interval: machine.poll_interval(),
            overdue: machine.overdue(at),
            degraded: machine.degraded().cloned(),
            next_poll_due: machine.next_poll_due(),
            cancel_pending: machine.cancel_pending(),
            flaw: OnceCell::new(),
            repeated: machine.repeated(),
        }
    }

    /// Lets somebody look at the result, where there is one and nobody has.
    pub(crate) fn judge(&self, look: impl FnOnce(&TaskAbout, &Json) -> Option<Error>) {
        if let Some(result) = self.result() {
            self.flaw.get_or_init(|| look(&self.about, result));
        }
    }

    /// What is wrong with the result: the task is completed all the same.
    pub(crate) fn flaw(&self) -> Option<&Error> {
        self.flaw.get()?.as_ref()
    }

    /// The server's id of the task.
    pub(crate) fn task_id(&self) -> &str {
        &self.id
    }

    /// The client's part: server, tool, the caller's ids and JSON.
    pub(crate) fn about(&self) -> &TaskAbout {
        &self.about
    }

    /// The status. Unknown and expired read as failed; a task that is closed reads as it last stood.
    pub(crate) fn status(&self) -> TaskStatus {
        self.status
    }

    /// Why the task ended, once it has.
    pub(crate) fn end_reason(&self) -> Option<EndReason> {
        self.end.as_ref().map(|(reason, _)| *reason)
    }

    /// True where nothing follows.
    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// The error of an end that is no completion.
    pub(crate) fn error(&self) -> Option<&Error> {
        self.end.as_ref().and_then(|(_, error)| error.as_ref())
    }

    /// The server's words about the status.
    pub(crate) fn message(&self) -> Option<&str> {
        self.task.as_ref()?.message.as_deref()
    }

    /// What the server has said so far, as a JSON array.
    pub(crate) fn history(&self) -> String {
        self.history.write()
    }

    /// `createdAt` as sent.
    pub(crate) fn created_at(&self) -> Option<&str> {
        self.task.as_ref()?.created_at.as_deref()
    }

    /// `lastUpdatedAt` as sent.
    pub(crate) fn updated_at(&self) -> Option<&str> {
        self.task.as_ref()?.updated_at.as_deref()
    }

    /// The last time to live that was told.
    pub(crate) fn ttl(&self) -> Ttl {
        self.ttl
    }

    /// The last interval that was told.
    pub(crate) fn poll_interval(&self) -> Option<Duration> {
        self.poll_interval
    }

    /// The questions that wait for the host, in the server's order.
    pub(crate) fn inputs(&self) -> &[OpenInput] {
        &self.inputs
    }

    /// The result of a completed task.
    pub(crate) fn result(&self) -> Option<&Json> {
        let completed = self.end_reason() == Some(EndReason::Completed);
        self.task.as_ref().filter(|_| completed)?.result.as_ref()
    }

    /// The server's JSON-RPC error of a failed task.
    pub(crate) fn fault(&self) -> Option<&RpcFault> {
        let failed = self.end_reason() == Some(EndReason::Failed);
        self.task.as_ref().filter(|_| failed)?.fault.as_ref()
    }

    /// The last answer of the server's as sent.
    pub(crate) fn raw(&self) -> Option<&Json> {
        self.task.as_ref().map(|task| &task.raw)
    }

    /// What the model may be told until the task has ended.
    pub(crate) fn immediate(&self) -> Option<&str> {
        self.task.as_ref()?.immediate.as_deref()
    }

    /// True where the time to live has passed.
    pub(crate) fn overdue(&self) -> bool {
        self.overdue
    }

    /// The error of the last poll, while polls fail.
    pub(crate) fn degraded(&self) -> Option<&Error> {
        self.degraded.as_ref()
    }

    /// When a poll is next due, automatic or not.
    pub(crate) fn next_poll_due(&self) -> Option<Instant> {
        self.next_poll_due
    }

    /// The end comes from the ledger: an earlier process, or an earlier look, may have told it already.
    pub(crate) fn repeated(&self) -> bool {
        self.repeated
    }

    /// A cancel was asked for and has not reached the server yet.
    pub(crate) fn cancel_pending(&self) -> bool {
        self.cancel_pending
    }
}
