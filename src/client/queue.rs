//! A manual queue: the host delivers the events of its clients on a thread of its own.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Condvar, Mutex};

use crate::client::mailbox::{Mailbox, Turn};
use crate::clock::Deadline;
use crate::error::{Error, Kind, Result};
use crate::os::WakeHandle;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

/// A number for this thread, never used again. Unlike the one of std it can still be asked for in an exit handler.
fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

/// True inside a handler or its destructor: blocking functions are refused there.
#[must_use]
pub(crate) fn in_callback() -> bool {
    DEPTH.with(|depth| depth.get() > 0)
}

/// Runs code of the host's.
pub(crate) fn as_callback<T>(run: impl FnOnce() -> T) -> T {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            DEPTH.with(|depth| depth.set(depth.get() - 1));
        }
    }
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    let _leave = Leave;
    crate::os::as_host(run)
}

struct State {
    ready: VecDeque<Arc<Mailbox>>,
    /// All that were given to this queue, ready or not.
    attached: Vec<Weak<Mailbox>>,
    /// Lines wait for the host's log hook of this number.
    log_ready: Option<u64>,
    /// The thread that serves: the last one that dispatched, at first the one that made the queue.
    server: u64,
    /// Counts what a waiting server has to look at again.
    kicks: u64,
    /// The host asked a waiting dispatch to return.
    woken: bool,
    closed: bool,
}

impl State {
    fn has_work(&self) -> bool {
        self.log_ready.is_some() || !self.ready.is_empty()
    }
}

/// A queue that the host serves.
pub(crate) struct Queue {
    state: Mutex<State>,
    news: Condvar,
    descriptor: WakeHandle,
}

impl Queue {
    /// A queue that is served by the calling thread until another one dispatches.
    ///
    /// # Errors
    /// [`Kind::Memory`] where the system refuses the descriptor.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let descriptor = WakeHandle::new().map_err(|refused| {
            Error::new(Kind::Memory, format!("the system refuses a wake-up descriptor: {refused}"))
        })?;
        let server = this_thread();
        let state = State {
            ready: VecDeque::new(),
            attached: Vec::new(),
            log_ready: None,
            server,
            kicks: 0,
            woken: false,
            closed: false,
        };
        Ok(Arc::new(Self { state: Mutex::new(state), news: Condvar::new(), descriptor }))
    }

    /// The descriptor that is readable (or signalled) while events wait.
    #[must_use]
    pub(crate) fn descriptor(&self) -> i64 {
        self.descriptor.number()
    }

    /// Delivers what waits, on this thread; waits for the first event until `deadline`. Returns the number of events,
    /// 0 where none came, [`Queue::wake`] ended the wait, or a client's end was all there was: its destructors ran, and
    /// the host may be waiting for just that.
    ///
    /// # Errors
    /// [`Kind::Reentrant`] inside a callback; [`Kind::Closed`] where the queue was freed meanwhile.
    pub(crate) fn dispatch(&self, deadline: Deadline) -> Result<usize> {
        if in_callback() {
            return Err(Error::new(Kind::Reentrant, "a queue cannot be served inside a callback"));
        }
        self.state.lock().server = this_thread();
        loop {
            let (delivered, ended) = self.deliver_round();
            if delivered > 0 || ended {
                return Ok(delivered);
            }
            let mut state = self.state.lock();
            if state.closed {
                return Err(Error::new(Kind::Closed, "the queue was freed"));
            }
            if std::mem::take(&mut state.woken) {
                self.descriptor_follows(&state);
                return Ok(0);
            }
            if !state.has_work() && !self.wait(&mut state, deadline) {
                return Ok(0);
            }
        }
    }

    /// Makes a waiting dispatch, or the next one, return.
    pub(crate) fn wake(&self) {
        let mut state = self.state.lock();
        state.woken = true;
        self.descriptor_follows(&state);
        drop(state);
        self.news.notify_all();
    }

    /// Takes note of a mailbox that is to be delivered here.
    pub(crate) fn attach(&self, mailbox: &Arc<Mailbox>) {
        let mut state = self.state.lock();
        state.attached.retain(|one| one.strong_count() > 0);
        state.attached.push(Arc::downgrade(mailbox));
    }

    /// Nobody serves any more: what waits is dropped, and so are the handlers of its clients, here and now: later it
    /// would be on a thread of the library.
    pub(crate) fn close(&self) {
        let (ready, attached) = {
            let mut state = self.state.lock();
            state.closed = true;
            (std::mem::take(&mut state.ready), std::mem::take(&mut state.attached))
        };
        for mailbox in ready.into_iter().chain(attached.iter().filter_map(Weak::upgrade)) {
            mailbox.discard();
        }
        self.news.notify_all();
    }

    /// True where this thread is the one that serves.
    pub(crate) fn is_served_here(&self) -> bool {
        let state = self.state.lock();
        !state.closed && state.server == this_thread()
    }

    /// Serves until `done` says so or the deadline comes; true for the first.
    pub(crate) fn serve_until(&self, deadline: Deadline, mut done: impl FnMut() -> bool) -> bool {
        loop {
            let seen = self.state.lock().kicks;
            if done() {
                return true;
            }
            if self.deliver_round().0 > 0 {
                continue;
            }
            let mut state = self.state.lock();
            if state.kicks == seen && !state.has_work() && !self.wait(&mut state, deadline) {
                drop(state);
                return done();
            }
        }
    }

    /// Something that a waiting server may be waiting for has happened.
    pub(crate) fn kick(&self) {
        self.state.lock().kicks += 1;
        self.news.notify_all();
    }

    /// Puts a mailbox in line; false where nobody serves any more.
    pub(crate) fn make_ready(&self, mailbox: Arc<Mailbox>) -> bool {
        let mut state = self.state.lock();
        if state.closed {
            return false;
        }
        state.ready.push_back(mailbox);
        self.descriptor_follows(&state);
        drop(state);
        self.news.notify_all();
        true
    }

    /// Lines wait for the host's log hook; false where nobody serves any more.
    pub(crate) fn make_log_ready(&self, hook: u64) -> bool {
        let mut state = self.state.lock();
        if state.closed {
            return false;
        }
        state.log_ready = Some(hook);
        self.descriptor_follows(&state);
        drop(state);
        self.news.notify_all();
        true
    }

    /// One turn of each mailbox in line, log lines first: the number of events, and whether a mailbox ended.
    fn deliver_round(&self) -> (usize, bool) {
        let (line, log) = {
            let mut state = self.state.lock();
            (std::mem::take(&mut state.ready), std::mem::take(&mut state.log_ready))
        };
        let mut delivered = usize::from(log.is_some());
        if let Some(hook) = log {
            crate::client::logging::deliver(hook);
        }
        let mut ended = false;
        for mailbox in line {
            let (count, turn) = mailbox.deliver_batch();
            delivered += count;
            ended |= turn == Turn::Ended;
            if turn == Turn::More && !self.make_ready(mailbox.clone()) {
                mailbox.discard();
                ended = true;
            }
        }
        let state = self.state.lock();
        self.descriptor_follows(&state);
        (delivered, ended)
    }

    /// Waits for news; false where the deadline came first.
    fn wait(&self, state: &mut parking_lot::MutexGuard<'_, State>, deadline: Deadline) -> bool {
        deadline.wait(&self.news, state)
    }

    /// Keeps the descriptor in step with the state; called under its lock, so that the two cannot part.
    fn descriptor_follows(&self, state: &State) {
        if !state.has_work() && !state.woken {
            self.descriptor.clear();
        } else {
            self.descriptor.set();
        }
    }
}
