//! A poll that holds no thread while it is on its way: what becomes of it.

use std::sync::Arc;

use crate::error::Result;
use crate::protocol::task::Task;
use crate::session::request::{Note, Notes};
use crate::transport::Scope;

/// What a poll came to.
pub(crate) enum Landing {
    /// The task as it stands.
    Task(Box<Task>),
    /// It takes a thread that may be held up to find out: another round trip, a failure to be mended, much to read.
    Finish(Finish),
}

/// The rest of a poll.
pub(crate) type Finish = Box<dyn FnOnce(&Scope<'_>) -> Result<Task> + Send + Sync>;

/// Where a poll lands, once. Must not block.
pub(crate) type Land = Box<dyn FnOnce(Landing) + Send>;

/// Where its notes go, on whichever thread. Must not block.
pub(crate) type Hear = Arc<dyn Fn(Note) + Send + Sync>;

/// An answer over this is read by whoever may take his time (chosen: what is read in a fraction of a millisecond).
pub(super) const MOST_READ: usize = 64 << 10;

impl Landing {
    /// The outcome is known; an error is told on a thread that may be held up.
    pub(super) fn of(outcome: Result<Task>) -> Self {
        match outcome {
            Ok(task) => Self::Task(Box::new(task)),
            Err(error) => Self::Finish(Box::new(move |_| Err(error))),
        }
    }
}

/// The notes of a poll, for what takes notes by reference.
pub(super) struct Ear<'a>(pub &'a Hear);

impl Notes for Ear<'_> {
    fn note(&mut self, note: Note) {
        (self.0)(note);
    }
}
