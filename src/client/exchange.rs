//! One exchange of a call with the server, and what its answer means: the end, questions, or a task.

use std::sync::Arc;
use std::time::Duration;

use crate::cancel::Why;
use crate::client::call::Call;
use crate::client::end::CallEnd;
use crate::client::follow::{Host, TaskHandle, check_questions};
use crate::client::settings::Validation;
use crate::clock::{Budget, Deadline};
use crate::error::{Error, Kind, Result};
use crate::protocol::answer::{Answer, InputRound};
use crate::protocol::json::Json;
use crate::protocol::method;
use crate::protocol::task::Task;
use crate::session::{Note, Retry};
use crate::tasks::FollowOptions;
use crate::tasks::entry::Held;
use crate::tasks::ledger::TaskAbout;
use crate::tasks::ledger::written::digest;
use crate::transport::Scope;

/// A `Retry-After` of a refusal is waited for up to here; longer ones are for the host to decide (chosen).
const MAX_TURN: Duration = Duration::from_secs(30);

/// What a step led to.
pub(super) enum Step {
    Over(CallEnd),
    Task(Box<Task>),
    Asked(InputRound),
}

impl Call {
    /// Asks the server, within what is left of the call's time.
    pub(super) fn exchange(self: &Arc<Self>, deadline: Deadline) -> Step {
        let (retry, left) = {
            let state = self.state.lock();
            (state.retry.clone(), state.left)
        };
        let clock = self.client.clock().clone();
        let begun = clock.now();
        let total = Deadline::after(begun, left, Budget::Total).tighter(deadline);
        #[cfg(feature = "panic-test")]
        assert!(self.request.method != "mcpnative/panic", "planted by a test");
        let answered = self.ask(&retry, total);
        let spent = clock.now().saturating_duration_since(begun);
        {
            let mut state = self.state.lock();
            state.left = left.map(|left| left.saturating_sub(spent).max(Duration::from_millis(1)));
        }
        match answered {
            Ok(Answer::Complete(result)) => Step::Over(self.judged(result)),
            Ok(Answer::Task(seed)) => Step::Task(seed),
            Ok(Answer::InputRequired(round)) => Step::Asked(round),
            Err(error) => {
                // What an earlier round did is done: only a first try that never left may be repeated without a
                // thought.
                let first = self.state.lock().rounds == 0;
                let safe = error.retry_safe() && (first || method::is_idempotent(&self.request.method));
                Step::Over(CallEnd::Failed(error.with_retry_safe(safe)))
            }
        }
    }

    fn ask(self: &Arc<Self>, retry: &Retry, total: Deadline) -> Result<Answer> {
        match self.client.wait_open(total, Some(&self.token)) {
            Some(opened) => opened?,
            None => {
                return Err(match self.token.cancelled() {
                    Some(why) => self.cancel_error(why),
                    None => Error::new(Kind::Timeout, "the client was not ready in time").with_retry_safe(true),
                });
            }
        }
        let timeouts = self.client.settings().timeouts;
        let scope = Scope {
            cancel: &self.token,
            total,
            idle: self.options.idle.unwrap_or(if self.is_subscription() { None } else { timeouts.idle }),
            connect: timeouts.connect,
        };
        let session = self.client.session()?;
        let mut notes = |note: Note| self.client.note(Some(self), note);
        if self.is_subscription() {
            return session.subscribe(&|| Ok(self.request.clone()), &scope, &mut notes).map(Answer::Complete);
        }
        let mut ask = || {
            if self.options.all_pages {
                return session.list_all(&self.request, &scope, &mut notes).map(Answer::Complete);
            }
            session.ask(&self.request, retry, &scope, &mut notes)
        };
        match ask() {
            Err(error) if self.waits_for_turn(&error, total) => ask(),
            answered => answered,
        }
    }

    /// 429 is a refusal, not an unknown fate: where the server says when, and the time fits, the request is sent once
    /// more then. A 503 may come from behind work that was done, so only what reads is sent again.
    /// True once that moment has come.
    fn waits_for_turn(self: &Arc<Self>, error: &Error, total: Deadline) -> bool {
        let refused = match error.http_status() {
            Some(429) => true,
            Some(503) => method::only_reads(&self.request.method),
            Some(_) | None => false,
        };
        let Some(wait) = error.retry_after().filter(|wait| refused && *wait <= MAX_TURN) else {
            return false;
        };
        let turn = Deadline::after(self.client.clock().now(), Some(wait), Budget::Wait);
        if turn.tighter(total) != turn {
            return false;
        }
        self.pause(turn);
        true
    }

    /// The end of a call with this result: a tool's is held against its output schema.
    fn judged(&self, result: Json) -> CallEnd {
        let tool = self.request.params.name.as_deref().filter(|_| self.request.method == method::TOOLS_CALL);
        let flaw = tool.and_then(|tool| self.client.flaw(tool, &result, self.validation()));
        CallEnd::of_result(result, flaw)
    }

    fn validation(&self) -> Validation {
        self.options.validation.unwrap_or(self.client.settings().validation)
    }

    /// Follows the task that the call was answered with.
    pub(super) fn follow(self: &Arc<Self>, seed: Task) -> Result<Held> {
        let client = &self.client;
        check_questions(&seed, client.settings().limits.input_requests)?;
        let about = TaskAbout {
            tool: self.request.params.name.clone().unwrap_or_default(),
            tool_call_id: self.options.tool_call_id.clone(),
            host: self.options.context.clone().map(Json::trusted),
            arguments_digest: Some(format!("{:016x}", digest(&self.request.params.body))),
            keep_result: self.options.keep_result.unwrap_or(client.settings().tasks.ledger.keep_results),
            ..client.about()
        };
        let defaults = client.follow_options();
        let options = FollowOptions {
            auto_poll: self.options.auto_poll.unwrap_or(defaults.auto_poll),
            min_poll: self.options.min_poll.unwrap_or(defaults.min_poll),
            ..defaults
        };
        let held = client.follow(seed, about, Host::new(client, Some(self.id), self.validation()), options)?;
        if self.token.cancelled() == Some(Why::Host) {
            // The cancel came too late to stop the request; what the host meant is the work.
            held.entry().cancel();
        }
        Ok(held)
    }

    /// Gives the call its task.
    pub(super) fn own_task(&self, held: &Held) -> Arc<TaskHandle> {
        let task = TaskHandle::new(held.entry().clone(), &self.client);
        self.state.lock().task = Some(task.clone());
        task
    }
}
