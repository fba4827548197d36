//! Waiting for one of several tasks, or for all of them.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::cancel::Wake;
use crate::client::follow::TaskHandle;
use crate::client::queue::Queue;
use crate::clock::Deadline;

/// When such a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// One of the tasks has ended.
    Any,
    /// All have.
    All,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitedMany {
    /// As wanted; with the place of the first in the list that has ended.
    Ended(usize),
    /// The task at this place asks something that the host answers by hand.
    InputRequired(usize),
    /// The time ran out.
    TimedOut,
}

/// Rings when one of the tasks has changed.
struct Bell {
    rung: Mutex<bool>,
    news: Condvar,
    /// The queue that is served meanwhile; the tasks may belong to clients of others.
    queue: Option<Arc<Queue>>,
}

impl Wake for Bell {
    fn wake(&self) {
        *self.rung.lock() = true;
        self.news.notify_all();
        if let Some(queue) = &self.queue {
            queue.kick();
        }
    }
}

/// Waits until the tasks are as wanted. A question to the host's hand ends the wait too: nobody else would answer it.
/// The list is not empty.
pub(crate) fn wait_many(tasks: &[Arc<TaskHandle>], until: Until, deadline: Deadline) -> WaitedMany {
    // The thread that serves a manual queue serves it while it waits.
    let queue = tasks.iter().find_map(|task| task.client().serving_queue());
    let bell = Arc::new(Bell { rung: Mutex::new(false), news: Condvar::new(), queue: queue.clone() });
    let watcher: Arc<dyn Wake> = bell.clone();
    for task in tasks {
        task.entry().watch(Arc::downgrade(&watcher));
    }
    let mut found = None;
    let mut look = || {
        found = look_at(tasks, until);
        found.is_some()
    };
    match queue {
        Some(queue) => {
            queue.serve_until(deadline, &mut look);
        }
        None => while !look() && bell.wait(deadline) {},
    }
    // What came together with the end of the time counts.
    found.or_else(|| look_at(tasks, until)).unwrap_or(WaitedMany::TimedOut)
}

impl Bell {
    /// False where the time ran out before it rang.
    fn wait(&self, deadline: Deadline) -> bool {
        let mut rung = self.rung.lock();
        while !std::mem::take(&mut *rung) {
            if !deadline.wait(&self.news, &mut rung) && !*rung {
                return false;
            }
        }
        true
    }
}

fn look_at(tasks: &[Arc<TaskHandle>], until: Until) -> Option<WaitedMany> {
    let (mut first, mut ended) = (None, 0);
    for (place, task) in tasks.iter().enumerate() {
        let snapshot = task.snapshot();
        if snapshot.has_ended() {
            first = first.or(Some(place));
            ended += 1;
        } else if task.asks(&snapshot) {
            return Some(WaitedMany::InputRequired(place));
        }
    }
    let done = match until {
        Until::Any => ended > 0,
        Until::All => ended == tasks.len(),
    };
    first.filter(|_| done).map(WaitedMany::Ended)
}
