//! A task's life: the pure state machine (`state.rs`), the schedule (`schedule.rs`), the ledger (`ledger.rs`), and the
//! driver (`driver.rs`) that joins them with a wire handed in by `client`.
//!
//! Promises (design rules, numbered as in docs/architecture.md): never a poll early; exactly one terminal event per
//! task and process life; the ledger hears of a task before the caller; each input key is asked once and answered
//! once. This room knows no session, no transport, no JSON names and no era: it is handed a [`TaskWire`] for the
//! server's side and a [`TaskHost`] for the program's side.

use std::time::Duration;

use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::protocol::input::{InputAnswer, InputRequest};
use crate::protocol::task::Task;

/// The server's side of a task: one round trip each, blocking, on a worker thread.
pub(crate) trait TaskWire: Send + Sync {
    /// `tasks/get`. [`crate::error::Kind::TaskUnknown`] where the server no longer knows the task (-32602).
    fn get(&self, task_id: &str, cancel: &CancelToken) -> Result<Task>;
    /// `tasks/update`.
    fn update(&self, task_id: &str, answers: &[InputAnswer], cancel: &CancelToken) -> Result<()>;
    /// `tasks/cancel`.
    fn cancel(&self, task_id: &str, cancel: &CancelToken) -> Result<()>;
    /// Which server this is, for fairness: polls are capped per origin.
    fn origin(&self) -> &str;
}

/// Why a task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Status, message or open inputs changed.
    Status,
    /// The time to live has passed; the task is still followed.
    Overdue,
    /// Polls fail; the task is still followed.
    Degraded(Error),
    /// Polls answer again.
    Recovered,
    /// A question for the host.
    Ask(InputRequest),
    /// The question with this key needs no answer any more.
    Withdrawn(String),
    /// The terminal event; nothing follows.
    Ended(EndReason),
}

/// The program's side: turns announcements into events. Called without a lock held.
pub(crate) trait TaskHost: Send + Sync {
    /// Takes an announcement with the task's snapshot of that moment.
    fn announce(&self, snapshot: &std::sync::Arc<driver::Snapshot>, what: Announcement);
}

/// How a client wants its tasks followed.
#[derive(Clone, Debug)]
pub(crate) struct FollowOptions {
    /// Poll by itself.
    pub auto_poll: bool,
    /// The host's own minimum between two polls.
    pub min_poll: Duration,
    /// End a task when its time to live has passed, instead of following it on.
    pub stop_at_ttl: bool,
    /// After a cancel was sent, follow the task to its real end (true), or let it go (false).
    pub follow_cancel: bool,
}
