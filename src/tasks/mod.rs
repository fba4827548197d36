//! A task's life, from the seed that a call was answered with to its one end.
//!
//! ```text
//!            events                         actions, in order
//! wire ----------------.              .---> ledger    (record stands before what announces it)
//! host --answer,cancel--> entry{machine} -> host      (announce, ask, withdraw)
//! clock -> schedule -due-'            |---> pool -> wire (get, update, cancel on bounded workers)
//!              ^---------- wake at ---'
//! ```
//!
//! In reading order. Pure: `pace` (how long to wait), `lifetime` (the TTL), `keys` (asked once, answered once),
//! `outbox` (answers on their way), `cancelling`, `history` (progress in words), `following` and `state` (the machine:
//! event + time in, actions out), `schedule`, `queue` (fair turns), `watch` (which stream tells of which task),
//! `origins` (which servers do not answer). Doing:
//! `ledger` (what must survive, in memory or in a file), `snapshot` (what the host sees), `entry` (one task: machine,
//! ledger, wire and host together), `errand` (one round trip), `pool` (workers), `letters` (polls without one), `push`
//! (the streams), `driver` (the engine), `advance` (a clock in the host's hands).
//!
//! Promises: never a poll early; exactly one terminal event per
//! task and process life; the ledger hears of a task before the caller; each input key is asked once and answered
//! once. This room knows no session, no transport, no JSON names and no era: it is handed a [`TaskWire`] for the
//! server's side and a [`TaskHost`] for the program's side.

mod advance;
mod cancelling;
pub(crate) mod driver;
pub(crate) mod entry;
mod errand;
mod following;
mod history;
pub(crate) mod keys;
pub(crate) mod ledger;
mod letters;
mod lifetime;
mod origins;
mod outbox;
mod pace;
mod pool;
mod push;
mod queue;
mod schedule;
pub(crate) mod snapshot;
mod state;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use crate::cancel::CancelToken;
use crate::clock::Deadline;
use crate::error::{Error, Kind, Result};
use crate::protocol::input::{InputAnswer, InputRequest};
use crate::protocol::json::Json;
use crate::protocol::task::Task;
use crate::tasks::entry::TaskEntry;
use crate::tasks::ledger::TaskAbout;
use crate::tasks::snapshot::Snapshot;

/// The server's side of a task: one round trip each, blocking, on a worker thread.
pub(crate) trait TaskWire: Send + Sync {
    /// `tasks/get`. [`crate::error::Kind::TaskUnknown`] where the server no longer knows the task (-32602).
    fn get(&self, task_id: &str, cancel: &CancelToken) -> Result<Task>;
    /// Whether [`TaskWire::begin`] is worth a try.
    fn may_begin(&self) -> bool {
        false
    }
    /// The same as [`TaskWire::get`] without a thread that waits: sends `tasks/get` and returns. What comes of it goes to
    /// `done`, once. `None`: it was not sent, and a worker has to ask; `done` may have been called all the same.
    fn begin(&self, _task_id: &str, _done: Done) -> Option<Arc<dyn OnItsWay>> {
        None
    }
    /// `tasks/update`.
    fn update(&self, task_id: &str, answers: &[InputAnswer], cancel: &CancelToken) -> Result<()>;
    /// `tasks/cancel`.
    fn cancel(&self, task_id: &str, cancel: &CancelToken) -> Result<()>;
    /// Hears what the server tells of these tasks by itself, over streams that are opened again after a cut, until the
    /// token is cancelled. Which tasks is asked for each stream anew. The end, where the server closes it.
    ///
    /// # Errors
    /// The server's refusal: asking again would bring the same.
    fn listen(
        &self,
        _ids: &dyn Fn() -> Vec<Arc<str>>,
        _cancel: &CancelToken,
        _heard: &mut dyn FnMut(Heard),
    ) -> Result<()> {
        Err(Error::new(Kind::Unsupported, "this wire cannot listen"))
    }
    /// Which server this is, for fairness: polls are capped per origin.
    fn origin(&self) -> &str;
}

/// What came of a `tasks/get` that was begun.
pub(crate) enum Reply {
    /// The task as it stands.
    Task(Box<Task>),
    /// A worker has to find out.
    Finish(Finish),
}

/// The rest of a round trip.
pub(crate) type Finish = Box<dyn FnOnce(&CancelToken) -> Result<Task> + Send + Sync>;

/// Takes what came of it, on a thread that must not be held up.
pub(crate) type Done = Box<dyn FnOnce(Reply) + Send>;

/// A `tasks/get` that was begun. Dropped, it is given up without a word.
pub(crate) trait OnItsWay: Send + Sync {
    /// When its time is up, by the clock of round trips.
    fn deadline(&self) -> Deadline;
    /// Its time is up: ends it, unless it has come back. May block for a moment.
    fn expire(&self);
}

/// What is heard of tasks without asking.
#[derive(Debug)]
pub(crate) enum Heard {
    /// The server tells of these from now on; `None`: it knows no such wish.
    Granted(Option<Vec<String>>),
    /// The stream is cut; it is being opened again.
    Lost,
    /// A task as it stands.
    Task(Box<Task>),
}

/// Why a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndReason {
    /// The server has a result.
    Completed,
    /// The server tells of a JSON-RPC error.
    Failed,
    /// The server cancelled the work.
    Cancelled,
    /// The time to live passed and the server no longer knows it (or is unreachable), or `ttl: "stop"`.
    Expired,
    /// The server does not know the task.
    Unknown,
    /// The client went away, or the host let the task go. Ends the handle, not the task.
    Closed,
}

/// What the host is told, in order. Nothing here blocks.
#[derive(Clone, Debug)]
pub(crate) enum Announcement {
    /// The task exists and is in the ledger.
    Created,
    /// The task of an earlier process, or one that the host named by its id, is followed from now on.
    Resumed,
    /// Status, message or open inputs changed.
    Status,
    /// The time to live has passed; the task is still followed.
    Overdue,
    /// Polls fail; the task is still followed.
    Degraded(Error),
    /// Polls answer again.
    Recovered,
    /// The ledger refuses to store; the task is followed in memory. Told once until it stores again.
    Unstored(Error),
    /// The server refused the answers to these keys; the questions are open again and not asked again.
    #[allow(dead_code, reason = "the keys are for the tests; the host reads its snapshot")]
    AnswerRefused(Vec<String>, Error),
    /// The cancel did not reach the server, or was refused; it may be asked for again.
    CancelRefused(Error),
    /// A question for the host.
    Ask(InputRequest),
    /// The question with this key needs no answer any more.
    Withdrawn(String),
    /// The terminal event; nothing follows.
    #[allow(dead_code, reason = "the reason is for the tests; the host reads its snapshot")]
    Ended(EndReason),
}

/// The program's side: turns announcements into events. Called without a lock held.
pub(crate) trait TaskHost: Send + Sync {
    /// Takes an announcement of a task with its snapshot of that moment.
    fn announce(&self, entry: &Arc<TaskEntry>, snapshot: &Arc<Snapshot>, what: Announcement);

    /// What is wrong with a result, where the program has an eye on that.
    fn flaw(&self, _about: &TaskAbout, _result: &Json) -> Option<Error> {
        None
    }
}

/// How a client wants its tasks followed.
#[derive(Clone, Debug)]
pub(crate) struct FollowOptions {
    /// Poll by itself.
    pub auto_poll: bool,
    /// Ask the server to tell of it by itself.
    pub push: bool,
    /// The host's own minimum between two polls.
    pub min_poll: Duration,
    /// End a task when its time to live has passed, instead of following it on.
    pub stop_at_ttl: bool,
    /// After a cancel was sent, follow the task to its real end (true), or let it go (false).
    pub follow_cancel: bool,
}
