//! What a session of either era does.

use std::sync::Arc;

use crate::clock::Deadline;
use crate::error::Result;
use crate::protocol::answer::Answer;
use crate::protocol::input::InputAnswer;
use crate::protocol::json::Json;
use crate::protocol::task::Task;
use crate::session::landing::{Hear, Land};
use crate::session::request::{Notes, Request};
use crate::session::rounds::Retry;
use crate::transport::{Scope, Unawaited};

/// One era's way to speak.
pub(super) trait Speaker: Send + Sync {
    /// Sends a request and returns its answer.
    fn ask(&self, request: &Request, retry: &Retry, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<Answer>;

    /// Opens one stream of a subscription and hears it until it ends: notifications and, as
    /// [`Note::Subscription`](crate::session::request::Note), the acknowledgment go to `notes`. The closing response.
    fn listen(&self, request: &Request, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<Json>;

    /// A task as it stands, with its open questions, its result or its error.
    fn task_get(&self, id: &str, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<Task>;

    /// Whether [`Speaker::task_begin`] is worth a try.
    fn may_begin(&self) -> bool {
        false
    }

    /// The same as [`Speaker::task_get`] without a thread that waits, where it can be sent at once: what comes of it
    /// lands once. `None`: it was not sent (though it may have landed, where the channel ended just then).
    fn task_begin(self: Arc<Self>, id: &str, hear: Hear, land: Land) -> Option<Arc<dyn Unawaited>>;

    /// Sends answers to a task's questions.
    fn task_update(&self, id: &str, answers: &[InputAnswer], scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<()>;

    /// Asks the server to stop a task.
    fn task_cancel(&self, id: &str, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<()>;

    /// The task that a call was answered with is followed from now on.
    fn task_followed(&self, _id: &str) {}

    /// Nobody follows the task any more.
    fn task_over(&self, _id: &str) {}

    /// Sends a notification.
    fn notify(&self, of_method: &str, params: &str, scope: &Scope<'_>) -> Result<()>;

    /// The most pages of a list.
    fn page_limit(&self) -> usize;

    /// Which session, or life of a channel, answers now; [`NO_LIFE`](super::known::NO_LIFE) while there is none.
    fn life(&self) -> u64;

    /// Whether the server is told of the end.
    fn has_farewell(&self) -> bool;

    /// Ends the session: what listens stops, and the server is told until the deadline.
    fn end(&self, deadline: Deadline);
}
