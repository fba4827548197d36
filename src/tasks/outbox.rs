//! Answers on their way to the server: stored, sent, sent again until the server has them or refuses them. Pure.

use std::time::Instant;

use crate::error::Error;
use crate::protocol::input::InputAnswer;
use crate::protocol::task::Task;
use crate::tasks::Announcement;
use crate::tasks::keys::{KeyBook, Sender, StoredAnswer, is_refusal};
use crate::tasks::pace::{Jitter, backoff, later};
use crate::tasks::state::{Actions, TaskAction};

/// The key book of a task, and the sending of what is answered in it.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) keys: KeyBook,
    /// Failures in a row.
    tries: u32,
    /// When to send again.
    at: Option<Instant>,
}

impl Outbox {
    /// What an earlier process left; [`Self::resend`] sends what the server may not have.
    pub(crate) fn restored(answers: Vec<StoredAnswer>, last: Option<&Task>) -> Self {
        Self { keys: KeyBook::restored(answers, last), tries: 0, at: None }
    }

    /// When to send again.
    pub(crate) fn wake(&self) -> Option<Instant> {
        self.at.filter(|_| self.keys.has_unsent())
    }

    /// The host answered.
    pub(crate) fn on_answered(&mut self, answers: &[InputAnswer], sender: Sender, out: &mut Actions) {
        let fresh = self.keys.answer(answers);
        if fresh.is_empty() {
            return;
        }
        // Stored before it is sent: a process that dies in between neither asks again nor loses the answer.
        out.push(TaskAction::Record);
        match sender {
            Sender::Worker => out.push(TaskAction::SendUpdate(fresh)),
            Sender::Caller => {}
        }
    }

    /// An attempt ended.
    pub(crate) fn on_done(
        &mut self,
        (keys, sender): (&[String], Sender),
        outcome: Result<(), Error>,
        (now, jitter): (Instant, Jitter),
        out: &mut Actions,
    ) {
        match (outcome, sender) {
            (Ok(()), Sender::Worker | Sender::Caller) => {
                self.keys.delivered(keys);
                self.tries = 0;
                out.push(TaskAction::Record);
            }
            (Err(_), Sender::Caller) => {
                self.keys.reopen(keys);
                out.push(TaskAction::Record);
            }
            (Err(error), Sender::Worker) if is_refusal(&error, self.tries + 1) => {
                // The server has not taken them, so the questions stand; not asked again, but the host may answer anew.
                self.keys.reopen(keys);
                self.tries = 0;
                out.push(TaskAction::Record);
                out.push(TaskAction::Announce(Announcement::AnswerRefused(keys.to_vec(), error)));
            }
            (Err(error), Sender::Worker) => {
                // Sent again, even where the first may have arrived: an update is idempotent by key, the server
                // ignores answers to keys that are not outstanding ("Task Update Requests").
                self.keys.failed(keys);
                self.tries = self.tries.saturating_add(1);
                let wait = backoff(self.tries).max(error.retry_after().unwrap_or_default());
                self.at = later(now, wait, jitter);
            }
        }
    }

    /// Time passed.
    pub(crate) fn on_due(&mut self, now: Instant, out: &mut Actions) {
        if self.at.is_some_and(|due| due <= now) {
            self.at = None;
            self.resend(out);
        }
    }

    /// Sends what failed, or what an earlier process left.
    pub(crate) fn resend(&mut self, out: &mut Actions) {
        let answers = self.keys.resend();
        if !answers.is_empty() {
            out.push(TaskAction::SendUpdate(answers));
        }
    }
}
