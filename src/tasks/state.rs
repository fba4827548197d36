//! The life of one task as a pure machine: an event and the time go in, actions come out.
//!
//! ```text
//! New --Seeded/Adopted--> Following --terminal answer, unknown, expired, let go, closed--> Ended (silent for ever)
//! ```
//!
//! Total: every event has an answer in every phase, if only "nothing". No lock, clock, channel or I/O inside. A
//! `Record` always stands before the announcements of what it records, and the driver runs actions in order, so
//! "the ledger before the caller" is a property of the list. An early or repeated `Due` is harmless.

use std::sync::Arc;
use std::time::Instant;

use crate::error::{Error, Kind};
use crate::protocol::input::{InputAnswer, InputRequest};
use crate::protocol::task::{Task, TaskStatus, Ttl};
use crate::tasks::following::Following;
use crate::tasks::history::History;
use crate::tasks::keys::{OpenInput, Sender, StoredAnswer, Verdict};
use crate::tasks::origins::Withheld;
use crate::tasks::pace::{Jitter, Moment};
use crate::tasks::{Announcement, EndReason, FollowOptions};

/// Who made a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// The schedule, by way of a worker.
    Schedule,
    /// The host, on a thread of its own.
    Host,
}

/// A `tasks/get` that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trip {
    /// Who made it.
    pub by: Asker,
    /// When it began: of two that overlap, the one that began later tells the newer state.
    pub started: Instant,
}

/// What an earlier process, or the host, knows of a task that is taken up by its id.
#[derive(Clone, Debug, Default)]
pub(crate) struct Past {
    /// The last answer of the server's.
    pub last: Option<Arc<Task>>,
    /// Keys that were answered.
    pub answers: Vec<StoredAnswer>,
    /// A cancel was asked for and not acknowledged.
    pub cancel_pending: bool,
    /// How long ago the task was received.
    pub age: std::time::Duration,
    /// It had ended: an end that comes now may have been told before.
    pub ended: bool,
}

/// What happened.
#[derive(Clone, Debug)]
pub(crate) enum TaskEvent {
    /// A `tools/call` was answered with this task.
    Seeded(Arc<Task>),
    /// Taken up by id alone.
    Adopted(Past),
    /// `tasks/get` was answered.
    Polled(Arc<Task>, Trip),
    /// `tasks/get` failed.
    PollFailed(Error, Trip),
    /// A poll was not made: its origin is known not to answer.
    Withheld(Withheld),
    /// The server told by itself.
    Pushed(Arc<Task>),
    /// The server tells of it by itself from now on, or no longer does.
    Watched(bool),
    /// A moment that was asked for with `WakeAt` has come.
    Due,
    /// The network came back or the machine woke: what is due or degraded is polled now.
    Poked,
    /// The host answered questions.
    Answered(Vec<InputAnswer>, Sender),
    /// `tasks/update` for these keys was answered or failed.
    UpdateDone(Vec<String>, Sender, Result<(), Error>),
    /// The host wants the task cancelled.
    CancelAsked,
    /// `tasks/cancel` was answered or failed.
    CancelDone(Result<(), Error>),
    /// The ledger has it.
    Recorded,
    /// The ledger refused.
    RecordFailed(Error),
    /// The host does not want to hear of it any more.
    LetGo,
    /// The client goes away.
    Closed,
    /// Another process has taken the task over.
    Lost,
}

/// What to do, in order.
#[derive(Clone, Debug)]
pub(crate) enum TaskAction {
    /// Store the task as it stands.
    Record,
    /// Take it out of the ledger.
    Forget,
    /// Make one `tasks/get`.
    Poll,
    /// Make one `tasks/update`.
    SendUpdate(Vec<InputAnswer>),
    /// Make one `tasks/cancel`.
    SendCancel,
    /// Tell the host.
    Announce(Announcement),
    /// Put a question to the host.
    Ask(InputRequest),
    /// Take a question back.
    Withdraw(String),
    /// Come back with `Due` then, instead of any earlier wish.
    WakeAt(Instant),
    /// Nothing follows: forget timers, wake waiters.
    #[allow(dead_code, reason = "the reason is for the tests")]
    Finish(EndReason),
}

/// The list that a step adds to.
pub(crate) type Actions = Vec<TaskAction>;

/// An end, as decided by the phase that is left.
#[derive(Clone, Debug)]
pub(crate) struct End {
    /// Why.
    pub reason: EndReason,
    /// The error that goes with it; none for a completed task.
    pub error: Option<Error>,
    /// The host has let go: the ledger forgets it too.
    pub forget: bool,
}

impl End {
    /// An end with an error of our own words.
    pub(crate) fn of(reason: EndReason, kind: Kind, message: impl Into<std::borrow::Cow<'static, str>>) -> Self {
        Self { reason, error: Some(Error::new(kind, message)), forget: false }
    }

    /// The end that a terminal answer tells of; `None` where it is not terminal.
    pub(crate) fn told_by(task: &Task) -> Option<Self> {
        let said = |what: &str| match &task.message {
            Some(message) => format!("{what}: {}", crate::error::one_line(message)),
            None => what.to_owned(),
        };
        Some(match task.status {
            TaskStatus::Working | TaskStatus::InputRequired => return None,
            TaskStatus::Completed => Self { reason: EndReason::Completed, error: None, forget: false },
            TaskStatus::Cancelled => {
                Self::of(EndReason::Cancelled, Kind::TaskCancelled, said("the task was cancelled"))
            }
            TaskStatus::Failed => {
                let error = match &task.fault {
                    Some(fault) => Error::from_rpc(fault.clone()).with_kind(Kind::TaskFailed),
                    None => Error::new(Kind::TaskFailed, said("the task failed, and the server sent no error")),
                };
                Self { reason: EndReason::Failed, error: Some(error), forget: false }
            }
        })
    }

    /// The host let go.
    pub(crate) fn let_go() -> Self {
        Self { forget: true, ..Self::of(EndReason::Closed, Kind::Closed, "the host let the task go") }
    }

    /// The client goes away.
    pub(crate) fn closed() -> Self {
        Self::of(EndReason::Closed, Kind::Closed, "the client was closed; the task may go on at the server")
    }

    /// Somebody else follows it.
    pub(crate) fn lost() -> Self {
        Self::of(EndReason::Closed, Kind::Closed, "another process follows the task now")
    }
}

/// One task.
#[derive(Debug)]
pub(crate) struct Machine {
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    New(FollowOptions),
    Following(Box<Following>),
    Ended(Box<Ended>),
}

/// What is left of a task that ended.
#[derive(Debug)]
struct Ended {
    end: End,
    task: Option<Arc<Task>>,
    history: History,
    ttl: Ttl,
    poll_interval: Option<std::time::Duration>,
    overdue: bool,
    /// An earlier process, or an earlier look, may have told it already.
    repeated: bool,
    /// The host knows that the ledger refuses to store.
    unstored: bool,
}

impl Machine {
    /// A machine that waits for `Seeded` or `Adopted`.
    pub(crate) fn new(options: FollowOptions) -> Self {
        Self { phase: Phase::New(options) }
    }

    /// A task whose end is known from the ledger: silent from the start.
    pub(crate) fn ended(end: End, task: Option<Arc<Task>>) -> Self {
        Self::over(end, task, true)
    }

    /// A task that somebody else follows, whatever was found out of it here.
    pub(crate) fn lost(task: Option<Arc<Task>>) -> Self {
        Self::over(End::lost(), task, false)
    }

    fn over(end: End, task: Option<Arc<Task>>, repeated: bool) -> Self {
        let ttl = task.as_ref().map_or(Ttl::Absent, |task| task.ttl);
        let poll_interval = task.as_ref().and_then(|task| task.poll_interval);
        let mut history = History::default();
        if let Some(task) = &task {
            history.tell(task);
        }
        Self {
            phase: Phase::Ended(Box::new(Ended {
                end,
                task,
                history,
                ttl,
                poll_interval,
                overdue: false,
                repeated,
                unstored: false,
            })),
        }
    }

    /// One step.
    pub(crate) fn on(&mut self, event: TaskEvent, at: Moment, jitter: Jitter, out: &mut Actions) {
        let end = match &mut self.phase {
            Phase::New(options) => {
                let Some(following) = begin(options, event, at, jitter, out) else {
                    return;
                };
                self.phase = Phase::Following(Box::new(following));
                return;
            }
            Phase::Following(following) => following.on(event, at, jitter, out),
            Phase::Ended(ended) => {
                // Nothing follows, but that the end itself could not be stored.
                if let TaskEvent::RecordFailed(error) = event
                    && !std::mem::replace(&mut ended.unstored, true)
                {
                    out.push(TaskAction::Announce(Announcement::Unstored(error)));
                }
                return;
            }
        };
        if let Some(end) = end {
            self.finish(end, at, out);
        }
    }

    fn finish(&mut self, end: End, at: Moment, out: &mut Actions) {
        let Phase::Following(following) = &mut self.phase else {
            return;
        };
        let reason = end.reason;
        if end.forget {
            out.push(TaskAction::Forget);
        } else if reason != EndReason::Closed {
            // Closed ends the handle, not the task: the ledger keeps it as it was, for the next client.
            out.push(TaskAction::Record);
        }
        out.extend(following.inputs.keys.withdraw_all().into_iter().map(TaskAction::Withdraw));
        out.push(TaskAction::Announce(Announcement::Ended(reason)));
        out.push(TaskAction::Finish(reason));
        self.phase = Phase::Ended(Box::new(Ended {
            end,
            task: following.task.take(),
            history: std::mem::take(&mut following.history),
            ttl: following.life.told(),
            poll_interval: following.pace.told(),
            overdue: following.life.passed(at),
            repeated: following.repeated,
            unstored: following.unstored,
        }));
    }

    /// True where this answer would change nothing but the time of the next poll.
    pub(crate) fn expects(&self, task: &Task) -> bool {
        match &self.phase {
            Phase::New(_) | Phase::Ended(_) => false,
            Phase::Following(following) => following.expects(task),
        }
    }

    /// The end, once there is one.
    pub(crate) fn end(&self) -> Option<&End> {
        match &self.phase {
            Phase::New(_) | Phase::Following(_) => None,
            Phase::Ended(ended) => Some(&ended.end),
        }
    }

    /// The last answer of the server's, as far as it counts.
    pub(crate) fn task(&self) -> Option<&Arc<Task>> {
        match &self.phase {
            Phase::New(_) => None,
            Phase::Following(following) => following.task.as_ref(),
            Phase::Ended(ended) => ended.task.as_ref(),
        }
    }

    /// What the server has said so far.
    pub(crate) fn history(&self) -> History {
        match &self.phase {
            Phase::New(_) => History::default(),
            Phase::Following(following) => following.history.clone(),
            Phase::Ended(ended) => ended.history.clone(),
        }
    }

    /// The status that counts: a terminal one only once the task has ended.
    pub(crate) fn status(&self) -> TaskStatus {
        match &self.phase {
            Phase::New(_) => TaskStatus::Working,
            Phase::Following(following) => following.status(),
            Phase::Ended(ended) => match ended.end.reason {
                EndReason::Completed => TaskStatus::Completed,
                EndReason::Cancelled => TaskStatus::Cancelled,
                // A host that looks only at the status reads all of these as failed.
                EndReason::Failed | EndReason::Expired | EndReason::Unknown => TaskStatus::Failed,
                EndReason::Closed => open_status(ended.task.as_deref()),
            },
        }
    }

    /// The questions that wait for the host.
    pub(crate) fn open_inputs(&self) -> Vec<OpenInput> {
        match &self.phase {
            Phase::Following(following) => following.open_inputs(),
            Phase::New(_) | Phase::Ended(_) => Vec::new(),
        }
    }

    /// The last time to live that was told.
    pub(crate) fn ttl(&self) -> Ttl {
        match &self.phase {
            Phase::New(_) => Ttl::Absent,
            Phase::Following(following) => following.life.told(),
            Phase::Ended(ended) => ended.ttl,
        }
    }

    /// The last interval that was told.
    pub(crate) fn poll_interval(&self) -> Option<std::time::Duration> {
        match &self.phase {
            Phase::New(_) => None,
            Phase::Following(following) => following.pace.told(),
            Phase::Ended(ended) => ended.poll_interval,
        }
    }

    /// True where the time to live has passed.
    pub(crate) fn overdue(&self, at: Moment) -> bool {
        match &self.phase {
            Phase::New(_) => false,
            Phase::Following(following) => following.life.passed(at),
            Phase::Ended(ended) => ended.overdue,
        }
    }

    /// True for an end that may have been told before.
    pub(crate) fn repeated(&self) -> bool {
        match &self.phase {
            Phase::New(_) | Phase::Following(_) => false,
            Phase::Ended(ended) => ended.repeated,
        }
    }

    /// The error of the last poll, while polls fail.
    pub(crate) fn degraded(&self) -> Option<&Error> {
        match &self.phase {
            Phase::Following(following) => following.degraded(),
            Phase::New(_) | Phase::Ended(_) => None,
        }
    }

    /// When a poll is next due, automatic or not.
    pub(crate) fn next_poll_due(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Following(following) => following.due,
            Phase::New(_) | Phase::Ended(_) => None,
        }
    }

    /// True where the host asked for a cancel and it was neither refused nor given up.
    pub(crate) fn cancel_asked(&self) -> bool {
        match &self.phase {
            Phase::Following(following) => following.cancel.asked(),
            Phase::New(_) | Phase::Ended(_) => false,
        }
    }

    /// True where a cancel still has to reach the server.
    pub(crate) fn cancel_pending(&self) -> bool {
        match &self.phase {
            Phase::Following(following) => following.cancel.pending(),
            Phase::New(_) | Phase::Ended(_) => false,
        }
    }

    /// The answers that the ledger must keep.
    pub(crate) fn stored_answers(&self) -> Vec<StoredAnswer> {
        match &self.phase {
            Phase::Following(following) => following.inputs.keys.stored(),
            Phase::New(_) | Phase::Ended(_) => Vec::new(),
        }
    }

    /// What `Answered` would do with these answers.
    pub(crate) fn weigh(&self, answers: &[InputAnswer]) -> Verdict {
        match &self.phase {
            Phase::New(_) | Phase::Ended(_) => Verdict::Ended,
            Phase::Following(following) => following.inputs.keys.weigh(answers),
        }
    }

    /// Those of the answers that `Answered` would send.
    pub(crate) fn fresh(&self, answers: &[InputAnswer]) -> Vec<InputAnswer> {
        match &self.phase {
            Phase::New(_) | Phase::Ended(_) => Vec::new(),
            Phase::Following(following) => following.inputs.keys.clone().answer(answers),
        }
    }
}

/// The first step out of [`Phase::New`]; other events come too early and mean nothing.
fn begin(
    options: &FollowOptions,
    event: TaskEvent,
    at: Moment,
    jitter: Jitter,
    out: &mut Actions,
) -> Option<Following> {
    match event {
        TaskEvent::Seeded(task) => Some(Following::seeded(options.clone(), task, at, jitter, out)),
        TaskEvent::Adopted(past) => Some(Following::adopted(options.clone(), past, at, out)),
        TaskEvent::Polled(..)
        | TaskEvent::PollFailed(..)
        | TaskEvent::Withheld(_)
        | TaskEvent::Pushed(_)
        | TaskEvent::Watched(_)
        | TaskEvent::Due
        | TaskEvent::Poked
        | TaskEvent::Answered(..)
        | TaskEvent::UpdateDone(..)
        | TaskEvent::CancelAsked
        | TaskEvent::CancelDone(_)
        | TaskEvent::Recorded
        | TaskEvent::RecordFailed(_)
        | TaskEvent::LetGo
        | TaskEvent::Closed
        | TaskEvent::Lost => None,
    }
}

/// The status of a task that has not ended: a terminal word whose payload is still missing reads as working.
pub(crate) fn open_status(task: Option<&Task>) -> TaskStatus {
    task.map(|task| task.status).filter(|status| !status.is_terminal()).unwrap_or(TaskStatus::Working)
}

#[cfg(test)]
mod tests;
