//! The host's log hook: one for the process. Lines go through a queue of their own, so that no library code waits for
//! the host, and no line is delivered on the stack of an API call.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

use crate::client::queue::{Queue, as_callback};
use crate::client::runtime::Runtime;
use crate::clock::Deadline;
use crate::error::one_line;

/// How loud a line is. The numbers are part of the C ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
pub(crate) enum LogLevel {
    /// A fault of the library, or of its use.
    Error = 1,
    /// Something that a server did wrong and the library passed over.
    Warn = 2,
    /// The large steps.
    Info = 3,
    /// The small steps.
    Debug = 4,
}

/// Takes the host's lines. Dropping it is the proof that it will not be called again.
pub(crate) trait LogSink: Send + Sync {
    /// One line: no line feed, no secret.
    fn line(&self, level: LogLevel, text: &str);
}

/// Lines that wait for delivery; beyond this the oldest are dropped, and a line tells how many.
const MOST_LINES: usize = 1024;

struct Hook {
    sink: Arc<dyn LogSink>,
    queue: Option<Arc<Queue>>,
}

#[derive(Default)]
struct State {
    hook: Option<Arc<Hook>>,
    /// Counts the hooks: a delivery that was ordered for an earlier one is void.
    number: u64,
    lines: VecDeque<(LogLevel, String)>,
    scheduled: bool,
}

static LEVEL: AtomicI32 = AtomicI32::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);
static STATE: Mutex<State> = Mutex::new(State { hook: None, number: 0, lines: VecDeque::new(), scheduled: false });
static IDLE: Condvar = Condvar::new();

/// Sets the hook (`None` removes it). Lines above `level` are not made. With a queue, lines are delivered there.
pub(crate) fn set_log(level: LogLevel, sink: Option<Arc<dyn LogSink>>, queue: Option<Arc<Queue>>) {
    LEVEL.store(if sink.is_some() { level as i32 } else { 0 }, Ordering::Relaxed);
    let before = {
        let mut state = STATE.lock();
        state.lines.clear();
        state.number += 1;
        state.scheduled = false;
        std::mem::replace(&mut state.hook, sink.map(|sink| Arc::new(Hook { sink, queue })))
    };
    IDLE.notify_all();
    // The old sink's destructor is the host's code: outside the lock.
    drop(before);
}

/// A fault.
pub(crate) fn error(text: &str) {
    log(LogLevel::Error, || text.to_owned());
}

/// A line, made only where somebody wants it.
pub(crate) fn log(level: LogLevel, text: impl FnOnce() -> String) {
    if LEVEL.load(Ordering::Relaxed) < level as i32 {
        return;
    }
    let line = one_line(&text());
    let schedule = {
        let mut state = STATE.lock();
        if state.hook.is_none() {
            return;
        }
        if state.lines.len() >= MOST_LINES {
            state.lines.pop_front();
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
        state.lines.push_back((level, line));
        // Not the hook itself: its end is told to the host by whoever drops it last, which must not be this thread.
        let order = state.hook.as_ref().map(|hook| (hook.queue.clone(), state.number));
        (!std::mem::replace(&mut state.scheduled, true)).then_some(order).flatten()
    };
    let Some((queue, number)) = schedule else { return };
    let delivered_elsewhere = match &queue {
        Some(queue) => queue.make_log_ready(number),
        // A line starts no runtime: one that is told while the last one ends would leave a thread behind.
        None => Runtime::running()
            .is_some_and(|runtime| runtime.dispatchers.submit(Box::new(move || deliver(number))).is_ok()),
    };
    if !delivered_elsewhere {
        let mut state = STATE.lock();
        if state.number == number {
            state.scheduled = false;
        }
    }
}

/// Delivers, on this thread, what waits for the hook of this number. Another one's lines are not ours: it has its own
/// queue, or its own thread at work.
pub(crate) fn deliver(number: u64) {
    loop {
        let (hook, level, line) = {
            let mut state = STATE.lock();
            if state.number != number {
                return;
            }
            match (state.hook.clone(), state.lines.pop_front()) {
                (Some(hook), Some((level, line))) => (hook, level, line),
                _ => {
                    state.scheduled = false;
                    drop(state);
                    IDLE.notify_all();
                    return;
                }
            }
        };
        as_callback(|| {
            let dropped = DROPPED.swap(0, Ordering::Relaxed);
            if dropped > 0 {
                hook.sink.line(LogLevel::Warn, &format!("{dropped} log lines were dropped"));
            }
            hook.sink.line(level, &line);
            drop(hook);
        });
    }
}

/// Waits until the lines that wait are delivered by the library's own threads, or the deadline comes.
pub(crate) fn flush(deadline: Deadline) {
    let mut state = STATE.lock();
    while state.scheduled && state.hook.as_ref().is_some_and(|hook| hook.queue.is_none()) {
        if !deadline.wait(&IDLE, &mut state) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Deadline;

    /// The tests of this file take turns: there is one hook.
    static TURN: Mutex<()> = Mutex::new(());

    /// Keeps the lines of one hook; other tests of this process may log, too.
    struct Lines(Arc<Mutex<Vec<String>>>);

    impl LogSink for Lines {
        fn line(&self, _level: LogLevel, text: &str) {
            self.0.lock().push(text.to_owned());
        }
    }

    #[test]
    fn a_hook_gets_its_lines_in_its_own_queue_whatever_became_of_the_one_before() {
        let _turn = TURN.lock();
        let (first, second) = (Queue::new().unwrap(), Queue::new().unwrap());
        let (early, late) = (Arc::new(Mutex::default()), Arc::new(Mutex::default()));
        set_log(LogLevel::Error, Some(Arc::new(Lines(early.clone()))), Some(first.clone()));
        error("for the first hook");
        set_log(LogLevel::Error, Some(Arc::new(Lines(late.clone()))), Some(second.clone()));
        error("for the second hook");
        // A delivery that was ordered for the first hook is void, also where the first queue is never served again.
        first.dispatch(Deadline::Never).unwrap();
        assert!(early.lock().is_empty() && late.lock().is_empty());
        second.dispatch(Deadline::Never).unwrap();
        assert!(late.lock().iter().any(|line| line == "for the second hook"));
        set_log(LogLevel::Error, None, None);
    }

    /// Tells on which thread it ended.
    struct Ends(Arc<Mutex<Vec<std::thread::ThreadId>>>);

    impl LogSink for Ends {
        fn line(&self, _level: LogLevel, _text: &str) {}
    }

    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.lock().push(std::thread::current().id());
        }
    }

    #[test]
    fn a_thread_that_only_logs_never_ends_a_hook() {
        let _turn = TURN.lock();
        let queue = Queue::new().unwrap();
        let ends = Arc::new(Mutex::default());
        let here = std::thread::current().id();
        std::thread::scope(|scope| {
            let lines = Arc::new(AtomicU64::new(0));
            let (counted, busy) = (lines.clone(), Arc::new(()));
            let still = Arc::downgrade(&busy);
            scope.spawn(move || {
                while still.strong_count() > 0 {
                    error("a line");
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            });
            for _ in 0..500 {
                let before = lines.load(Ordering::Relaxed);
                set_log(LogLevel::Error, Some(Arc::new(Ends(ends.clone()))), Some(queue.clone()));
                while lines.load(Ordering::Relaxed) == before {
                    std::thread::yield_now();
                }
                set_log(LogLevel::Error, None, None);
            }
            drop(busy);
        });
        assert_eq!(ends.lock().len(), 500);
        assert!(ends.lock().iter().all(|thread| *thread == here));
    }
}
