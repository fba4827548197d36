//! The client's life: new, opening, ready or failed, closing, closed.

use std::sync::{Arc, Weak};

use crate::cancel::{CancelToken, Wake, Why};
use crate::client::call::Call;
use crate::client::event::{Event, EventKind};
use crate::client::handle::{Client, guarded};
use crate::client::logging::{LogLevel, log};
use crate::clock::{Budget, Deadline};
use crate::error::{Error, Kind, Result};
use crate::protocol::capability::ServerFacts;
use crate::session::Note;

/// Where a client stands. The numbers are part of the C ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum State {
    New = 0,
    Opening = 1,
    Ready = 2,
    Closing = 3,
    Closed = 4,
    Failed = 5,
}

/// What changes over a client's life, under one lock.
pub(super) struct Life {
    pub(super) state: State,
    pub(super) facts: Option<Arc<ServerFacts>>,
    pub(super) error: Option<Error>,
    /// What is under way: calls, round trips of the host's, the opening.
    pub(super) active: usize,
    pub(super) opening: Arc<CancelToken>,
}

impl Life {
    fn open_result(&self) -> Option<Result<()>> {
        match self.state {
            State::New => Some(Err(Error::new(Kind::State, "the client is not open"))),
            State::Opening => None,
            State::Ready => Some(Ok(())),
            State::Closing | State::Closed => Some(Err(closed())),
            State::Failed => Some(Err(self.error.clone().unwrap_or_else(closed))),
        }
    }
}

impl Client {
    /// Starts opening; does not block. After a failure it may be tried again.
    pub(crate) fn open(self: &Arc<Self>) -> Result<()> {
        {
            let mut life = self.life.lock();
            match life.state {
                State::New | State::Failed => {}
                State::Opening | State::Ready => {
                    return Err(Error::new(Kind::State, "the client is open already"));
                }
                State::Closing | State::Closed => return Err(closed()),
            }
            life.state = State::Opening;
            life.error = None;
            life.opening = Arc::default();
            life.active += 1;
        }
        self.mailbox.freeze();
        let linked = self.link.get_or_try_init(|| self.make_link()).map(drop);
        self.runtime.keep(self);
        self.tell_state(State::Opening, None);
        let client = self.clone();
        let submitted = linked.and_then(|()| self.runtime.calls.submit(Box::new(move || client.run_opening())));
        if let Err(refused) = submitted {
            self.opened(Err(refused));
        }
        Ok(())
    }

    fn run_opening(self: &Arc<Self>) {
        let found = guarded(|| self.discover());
        self.opened(found);
    }

    fn discover(self: &Arc<Self>) -> Result<ServerFacts> {
        self.open_ledger()?;
        let cancel = self.life.lock().opening.clone();
        let facts = self.session()?.open(&cancel, &mut |note: Note| self.note(None, note))?;
        // Before the client is ready: whoever waited for that finds them all.
        self.resume_tasks()?;
        Ok(facts)
    }

    fn opened(self: &Arc<Self>, found: Result<ServerFacts>) {
        let told = {
            let mut life = self.life.lock();
            if life.state == State::Opening {
                match found {
                    Ok(facts) => {
                        life.facts = Some(Arc::new(facts));
                        life.state = State::Ready;
                    }
                    Err(error) => {
                        life.error = Some(error);
                        life.state = State::Failed;
                    }
                }
                Some((life.state, life.error.clone()))
            } else {
                None
            }
        };
        if let Some((state, error)) = told {
            self.tell_state(state, error);
        }
        self.leave();
    }

    /// Begins the end; does not block. False where that was done before.
    pub(crate) fn close(self: &Arc<Self>) -> bool {
        let opening = {
            let mut life = self.life.lock();
            match life.state {
                State::Closing | State::Closed => return false,
                State::New | State::Opening | State::Ready | State::Failed => {}
            }
            life.state = State::Closing;
            life.active += 1;
            life.opening.clone()
        };
        self.mailbox.freeze();
        self.tell_state(State::Closing, None);
        opening.cancel(Why::Closing);
        let trips: Vec<_> = self.trips.lock().iter().filter_map(Weak::upgrade).collect();
        for trip in &trips {
            trip.cancel(Why::Closing);
        }
        let calls: Vec<Arc<Call>> = self.calls.lock().values().cloned().collect();
        for call in &calls {
            call.cancel(Why::Closing);
        }
        self.withdraw_questions();
        self.end_after_farewells();
        true
    }

    /// Ends the tasks' handles and the session; first, on a worker, gives a cancel that is still on its way to the
    /// server its grace, and tells the server that its session is over.
    fn end_after_farewells(self: &Arc<Self>) {
        let mut unsent = self.entries();
        unsent.retain(|entry| entry.snapshot().cancel_pending());
        let session = self.link.get().map(|link| link.session.clone());
        let farewell = session.as_ref().is_some_and(|session| session.has_farewell());
        let deadline = Deadline::after(self.clock().now(), self.settings.timeouts.close, Budget::Grace);
        let client = self.clone();
        let end = move || {
            if let Some(link) = client.link.get() {
                link.group.close();
            }
            if let Some(session) = session {
                session.end(deadline);
            }
            // After the handles' ends: from here on other clients may have the tasks.
            if let Some(ledger) = client.ledger.get() {
                ledger.release();
            }
            // Cuts what began meanwhile, too.
            client.transport.close();
            client.leave_after_transport();
        };
        // A file is not written on the thread of the host.
        let in_file = self.settings.tasks.ledger.file.is_some();
        if unsent.is_empty() && !farewell && !in_file {
            return end();
        }
        let ended = end.clone();
        let submitted = self.runtime.calls.submit(Box::new(move || {
            let never = CancelToken::new();
            for entry in unsent {
                // `None` is a grace that ran out: the close goes on either way.
                drop(entry.wait_until(deadline, &never, |task| task.has_ended() || !task.cancel_pending()));
            }
            end();
        }));
        if submitted.is_err() {
            ended();
        }
    }

    /// A transport whose end takes time (a child process) is waited for on a worker: the client is closed only when
    /// nothing of it is left.
    fn leave_after_transport(self: &Arc<Self>) {
        if !self.transport.lingers() {
            return self.leave();
        }
        let client = self.clone();
        let finish = move || {
            client.transport.finish(client.settings.timeouts.close);
            client.leave();
        };
        if self.runtime.calls.submit(Box::new(finish)).is_err() {
            // No worker any more: the library is being shut down, and this is the last chance.
            self.transport.finish(self.settings.timeouts.close);
            self.leave();
        }
    }

    /// Waits for the end: the last callback and the last destructor have run. False where the deadline came first.
    pub(crate) fn wait_closed(&self, deadline: Deadline) -> bool {
        match self.serving_queue() {
            Some(queue) => queue.serve_until(deadline, || self.mailbox.has_ended()),
            None => self.mailbox.wait_ended(deadline),
        }
    }

    /// Waits until the client is ready.
    ///
    /// # Errors
    /// What the opening ended with; [`Kind::State`] where it was never opened; `None` where the deadline came first.
    pub(crate) fn wait_open(&self, deadline: Deadline, cancel: Option<&CancelToken>) -> Option<Result<()>> {
        if let Some(queue) = self.serving_queue().filter(|_| cancel.is_none()) {
            queue.serve_until(deadline, || self.open_result().is_some());
            return self.open_result();
        }
        // The way of nearly every call: nothing to wait for, and so nothing that a cancel could wake.
        if cancel.is_none_or(|cancel| cancel.cancelled().is_none())
            && let Some(result) = self.open_result()
        {
            return Some(result);
        }
        let gate: Arc<dyn Wake> = Arc::new(Gate(self.me.clone()));
        if let Some(cancel) = cancel
            && cancel.on_cancel(Arc::downgrade(&gate)).is_err()
        {
            return None;
        }
        let mut life = self.life.lock();
        loop {
            if let Some(result) = life.open_result() {
                return Some(result);
            }
            if cancel.is_some_and(|cancel| cancel.cancelled().is_some()) {
                return None;
            }
            if !deadline.wait(&self.changed, &mut life) {
                return life.open_result();
            }
        }
    }

    fn open_result(&self) -> Option<Result<()>> {
        self.life.lock().open_result()
    }

    pub(crate) fn state(&self) -> State {
        self.life.lock().state
    }

    /// What the server said of itself.
    pub(crate) fn facts(&self) -> Result<Arc<ServerFacts>> {
        let facts = self.life.lock().facts.clone();
        facts.ok_or_else(|| Error::new(Kind::State, "the client is not ready yet"))
    }

    /// A legacy server lost the session and began a new one: it may be another version of it by now.
    pub(crate) fn renewed(&self, facts: ServerFacts) {
        let mut life = self.life.lock();
        if life.facts.is_some() {
            life.facts = Some(Arc::new(facts));
        }
    }

    /// Counts something as under way; the client ends only when it is over.
    ///
    /// # Errors
    /// [`Kind::State`] before opening, [`Kind::Closed`] after closing.
    pub(crate) fn enter(self: &Arc<Self>) -> Result<Activity> {
        let mut life = self.life.lock();
        match life.state {
            State::New => return Err(Error::new(Kind::State, "the client is not open")),
            State::Closing | State::Closed => return Err(closed()),
            State::Failed => return Err(life.error.clone().unwrap_or_else(closed)),
            State::Opening | State::Ready => {}
        }
        life.active += 1;
        Ok(Activity { client: self.clone() })
    }

    /// The same for something that grows out of what is under way already, so that it never comes too late.
    pub(crate) fn stay(self: &Arc<Self>) -> Activity {
        self.life.lock().active += 1;
        Activity { client: self.clone() }
    }

    pub(super) fn leave(self: &Arc<Self>) {
        let over = {
            let mut life = self.life.lock();
            life.active -= 1;
            let over = life.active == 0 && life.state == State::Closing;
            if over {
                life.state = State::Closed;
            }
            over
        };
        self.changed.notify_all();
        if over {
            self.tell_state(State::Closed, None);
            self.mailbox.finish();
            self.runtime.let_go(self);
        }
    }

    fn tell_state(&self, state: State, error: Option<Error>) {
        let mut event = Event::new(EventKind::State);
        event.state = Some(state);
        event.error = error;
        self.mailbox.post(event);
        self.changed.notify_all();
        self.kick();
        log(LogLevel::Info, || format!("{self:?} is {state:?}"));
    }
}

fn closed() -> Error {
    Error::new(Kind::Closed, "the client is closed")
}

/// Wakes those who wait for the opening when their call is cancelled.
struct Gate(Weak<Client>);

impl Wake for Gate {
    fn wake(&self) {
        if let Some(client) = self.0.upgrade() {
            // Under the lock, so that nobody is between looking and waiting.
            drop(client.life.lock());
            client.changed.notify_all();
        }
    }
}

/// Something under way; see [`Client::enter`].
pub(crate) struct Activity {
    client: Arc<Client>,
}

impl Activity {
    /// A round trip of the host's on this thread: once the client is ready, until the deadline, ended by a close.
    pub(crate) fn run<T>(&self, deadline: Deadline, trip: impl FnOnce(&CancelToken) -> Result<T>) -> Result<T> {
        let cancel = Arc::new(CancelToken::new());
        {
            let mut trips = self.client.trips.lock();
            trips.retain(|trip| trip.strong_count() > 0);
            trips.push(Arc::downgrade(&cancel));
        }
        match self.client.wait_open(deadline, Some(&cancel)) {
            Some(Ok(())) => trip(&cancel),
            Some(Err(error)) => Err(error),
            None => Err(Error::new(Kind::Timeout, "the client was not ready in time")),
        }
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        self.client.leave();
    }
}
