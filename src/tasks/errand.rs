//! One round trip of a task, to be made by a worker.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::cancel::CancelToken;
use crate::error::{Error, Kind, Result};
use crate::protocol::input::InputAnswer;
use crate::tasks::OnItsWay;
use crate::tasks::entry::TaskEntry;
use crate::tasks::keys::Sender;
use crate::tasks::letters::{Letter, Rest};
use crate::tasks::state::{Asker, TaskEvent, Trip};

/// A round trip for a worker.
pub(crate) struct Errand {
    entry: Arc<TaskEntry>,
    chore: Chore,
}

/// What for.
pub(crate) enum Chore {
    /// `tasks/get`.
    Poll,
    /// What is left of one that was sent without a worker.
    Letter(Letter),
    /// The time of one is up.
    Expire(Arc<dyn OnItsWay>),
    /// `tasks/update`.
    Update(Vec<InputAnswer>),
    /// `tasks/cancel`.
    Cancel,
}

impl Errand {
    /// A round trip of this task's.
    pub(crate) fn new(entry: Arc<TaskEntry>, chore: Chore) -> Self {
        Self { entry, chore }
    }

    /// Makes the round trip, unless the task has ended, and tells the machine.
    pub(crate) fn run(self, token: &CancelToken) {
        let Self { entry, chore } = self;
        // The time of a poll may be up when its task has ended: it has a place.
        if entry.has_ended() && !matches!(chore, Chore::Expire(_)) {
            return;
        }
        let id = &entry.key().id;
        let event = match chore {
            Chore::Poll => entry.poll(token),
            Chore::Letter(Letter { trip, rest, place }) => {
                let outcome = match rest {
                    Rest::Ask => entry.ask(token),
                    Rest::Finish(finish) => guarded(|| finish(token)).map(Arc::new),
                    Rest::Take(task) => Ok(Arc::from(task)),
                };
                let event = entry.taken(trip, outcome);
                entry.post(event);
                return drop(place);
            }
            Chore::Expire(way) => return way.expire(),
            Chore::Update(answers) => {
                let outcome = guarded(|| entry.wire().update(id, &answers, token));
                TaskEvent::UpdateDone(keys_of(answers), Sender::Worker, outcome)
            }
            Chore::Cancel => TaskEvent::CancelDone(guarded(|| entry.wire().cancel(id, token))),
        };
        entry.post(event);
    }

    /// Tells the machine that the round trip could not even begin.
    pub(crate) fn fail(self, error: &Error) {
        let Self { entry, chore } = self;
        let error = error.clone();
        entry.post(match chore {
            Chore::Poll => TaskEvent::PollFailed(error, Trip { by: Asker::Schedule, started: entry.clock().now() }),
            Chore::Letter(letter) => TaskEvent::PollFailed(error, letter.trip),
            // Without a thread for it, here: at worst the server does not read, and it takes a moment.
            Chore::Expire(way) => return way.expire(),
            Chore::Update(answers) => TaskEvent::UpdateDone(keys_of(answers), Sender::Worker, Err(error)),
            Chore::Cancel => TaskEvent::CancelDone(Err(error)),
        });
    }
}

fn keys_of(answers: Vec<InputAnswer>) -> Vec<String> {
    answers.into_iter().map(|answer| answer.key).collect()
}

/// A panic in foreign code is a failed attempt, and never the end of a thread of ours.
pub(crate) fn guarded<T>(foreign: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(foreign))
        .unwrap_or_else(|_| Err(Error::new(Kind::Panic, "a panic was caught in a task's wire or ledger")))
}
