//! The client and its life: new, opening, ready or failed, closing, closed.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};

use once_cell::sync::OnceCell;
use parking_lot::{Condvar, Mutex};

use crate::cancel::{CancelToken, Wake, Why};
use crate::client::call::Call;
use crate::client::event::{Event, EventKind, Handler};
use crate::client::follow::{Host, TaskHandle, Wire};
use crate::client::input::{Input, event_kind};
use crate::client::logging::{LogLevel, log};
use crate::client::mailbox::{Counters, Mailbox, Outlet};
use crate::client::queue::{Queue, in_callback};
use crate::client::runtime::Runtime;
use crate::client::settings::{InputPolicy, Settings};
use crate::client::target::reach;
use crate::clock::{Budget, Clock, Deadline};
use crate::error::{Error, Kind, Result};
use crate::protocol::capability::{ClientCapabilities, ServerFacts};
use crate::protocol::input::InputKind;
use crate::protocol::json::{Json, quote};
use crate::protocol::task::Task;
use crate::session::{Asides, Means, Note, Outside, Patience, Session, SessionSettings};
use crate::tasks::FollowOptions;
use crate::tasks::driver::Group;
use crate::tasks::entry::{Held, Links, TaskEntry};
use crate::tasks::ledger::{Ledger, MemoryLedger, Record, TaskAbout};
use crate::transport::stream::{HostStream, StreamSlot};
use crate::transport::{Scope, Transport};

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
struct Life {
    state: State,
    facts: Option<Arc<ServerFacts>>,
    error: Option<Error>,
    /// What is under way: calls, round trips of the host's, the opening.
    active: usize,
    opening: Arc<CancelToken>,
}

/// The async calls: how many run, and which wait for their turn (`max_in_flight`).
#[derive(Default)]
struct Flights {
    running: usize,
    waiting: VecDeque<Arc<Call>>,
}

/// What exists from opening on: the handlers decide what is declared.
struct Link {
    session: Arc<Session>,
    wire: Arc<Wire>,
    group: Arc<Group>,
    policies: [InputPolicy; 3],
}

/// A client of one server.
pub(crate) struct Client {
    me: Weak<Client>,
    settings: Settings,
    runtime: Arc<Runtime>,
    transport: Arc<dyn Transport>,
    stream: Option<Arc<StreamSlot>>,
    mailbox: Arc<Mailbox>,
    ledger: Arc<dyn Ledger>,
    link: OnceCell<Link>,
    life: Mutex<Life>,
    changed: Condvar,
    calls: Mutex<HashMap<i64, Arc<Call>>>,
    trips: Mutex<Vec<Weak<CancelToken>>>,
    /// The open questions of a legacy server's that belong to no call.
    pub(super) questions: Mutex<Vec<Arc<Input>>>,
    flights: Mutex<Flights>,
    next_call: AtomicI64,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client of {}", self.transport.origin())
    }
}

impl Client {
    /// Checks everything and touches nothing.
    pub(crate) fn new(settings: Settings) -> Result<Arc<Self>> {
        let runtime = Runtime::current();
        let reach = reach(&settings, &runtime.clock, &runtime.spawn)?;
        let mailbox = Mailbox::new(Outlet::Library(runtime.dispatchers.clone()), settings.queue_limit);
        let life = Life { state: State::New, facts: None, error: None, active: 0, opening: Arc::default() };
        for warning in &settings.warnings {
            log(LogLevel::Warn, || warning.clone());
        }
        let client = Arc::new_cyclic(|me| Self {
            me: me.clone(),
            settings,
            runtime,
            transport: reach.transport,
            stream: reach.stream,
            mailbox,
            ledger: Arc::new(MemoryLedger::default()),
            link: OnceCell::new(),
            life: Mutex::new(life),
            changed: Condvar::new(),
            calls: Mutex::default(),
            trips: Mutex::default(),
            questions: Mutex::default(),
            flights: Mutex::default(),
            next_call: AtomicI64::new(1),
        });
        client.runtime.know(&client);
        if let Some(channel) = reach.channel {
            channel.set_asides(Arc::new(Ear(client.me.clone())));
        }
        Ok(client)
    }

    /// Gives the client the host's own stream, before opening.
    pub(crate) fn set_stream(&self, stream: Arc<HostStream>) -> Result<()> {
        let state = self.state();
        if state != State::New {
            return Err(Error::new(Kind::State, "the client was opened before"));
        }
        let Some(slot) = &self.stream else {
            return Err(Error::new(Kind::State, "the settings name no stream (url stream:name)"));
        };
        slot.put(stream)
    }

    /// Registers a handler (`kind` `None`: for all kinds without one), before opening.
    pub(crate) fn on(&self, kind: Option<EventKind>, handler: Option<Arc<dyn Handler>>) -> Result<()> {
        self.mailbox.set_handler(kind, handler)
    }

    /// Gives the events to a manual queue, before opening.
    pub(crate) fn set_queue(&self, queue: Arc<Queue>) -> Result<()> {
        self.mailbox.set_outlet(Outlet::Manual(queue))
    }

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

    fn make_link(&self) -> Result<Link> {
        let settings = &self.settings;
        let policies = [InputKind::Elicitation, InputKind::Sampling, InputKind::Roots].map(|kind| {
            settings.input[kind as usize].unwrap_or_else(|| {
                let handled = self.mailbox.has_own(event_kind(kind));
                if handled { InputPolicy::Handler } else { InputPolicy::Refuse }
            })
        });
        let can = |kind: InputKind| policies[kind as usize] != InputPolicy::Refuse;
        let session = SessionSettings {
            client_info: settings.client_info.clone(),
            capabilities: ClientCapabilities {
                elicitation: can(InputKind::Elicitation),
                sampling: can(InputKind::Sampling),
                roots: can(InputKind::Roots),
                tasks: settings.tasks.enabled,
                extensions: settings.extensions.clone(),
            },
            log_level: settings.log_level.clone(),
            limits: settings.limits.clone(),
            era: settings.era,
            patience: self.patience(),
            key: settings.key(),
            secrets: settings.secrets(),
        };
        let runtime = &self.runtime;
        let means = Means {
            clock: runtime.clock.clone(),
            threads: runtime.spawn.clone(),
            errands: runtime.calls.spawner(),
            outside: Arc::new(Ear(self.me.clone())),
            verdicts: runtime.verdicts.clone(),
        };
        let session = Arc::new(Session::new(self.transport.clone(), session, means));
        let wire = Arc::new(Wire::new(session.clone(), self.runtime.clock.clone(), settings));
        let group = self.runtime.engine.group()?;
        Ok(Link { session, wire, group, policies })
    }

    fn run_opening(self: &Arc<Self>) {
        let found = guarded(|| self.discover());
        self.opened(found);
    }

    fn discover(self: &Arc<Self>) -> Result<ServerFacts> {
        let cancel = self.life.lock().opening.clone();
        self.session()?.open(&cancel, &mut |note: Note| self.note(None, note))
    }

    fn patience(&self) -> Patience {
        let timeouts = self.settings.timeouts;
        Patience {
            probe: timeouts.probe,
            total: timeouts.total,
            idle: timeouts.idle,
            connect: timeouts.connect,
            grace: timeouts.close,
        }
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
            // Cuts what began meanwhile, too.
            client.transport.close();
            client.leave_after_transport();
        };
        if unsent.is_empty() && !farewell {
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
            let timed_out = match deadline.at() {
                Some(at) => self.changed.wait_until(&mut life, at).timed_out(),
                None => {
                    self.changed.wait(&mut life);
                    false
                }
            };
            if timed_out {
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

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.runtime.clock
    }

    /// The tasks that are followed, oldest first.
    pub(crate) fn entries(&self) -> Vec<Arc<TaskEntry>> {
        self.link.get().map(|link| link.group.tasks()).unwrap_or_default()
    }

    /// The tasks whose end was not handed out by a check yet.
    pub(crate) fn unclaimed(&self) -> Result<Vec<Record>> {
        let mut records = self.ledger.outstanding(self.server())?;
        records.retain(|record| record.end.is_some());
        Ok(records)
    }

    /// Follows a task that a call was answered with. Its events after "created" wait for the returned guard.
    pub(crate) fn follow(
        self: &Arc<Self>,
        seed: Task,
        about: TaskAbout,
        call: i64,
        options: FollowOptions,
    ) -> Result<Held> {
        let link = self.link()?;
        link.group.follow(seed, about, self.links(link, Some(call), options))
    }

    fn links(self: &Arc<Self>, link: &Link, call: Option<i64>, options: FollowOptions) -> Links {
        Links { wire: link.wire.clone(), host: Host::new(self, call), ledger: self.ledger.clone(), options }
    }

    /// The name of the server in the ledger.
    fn server(&self) -> &str {
        self.settings.target.url().unwrap_or_else(|| self.transport.origin())
    }

    /// What the ledger keeps of a task, beside what the call adds.
    pub(crate) fn about(&self) -> TaskAbout {
        TaskAbout {
            server: self.server().into(),
            tool: String::new(),
            tool_call_id: None,
            host: None,
            arguments_digest: None,
            keep_result: true,
        }
    }

    /// The session and what hangs on it; there from opening on.
    pub(crate) fn session(&self) -> Result<&Arc<Session>> {
        Ok(&self.link()?.session)
    }

    fn link(&self) -> Result<&Link> {
        self.link.get().ok_or_else(|| Error::new(Kind::State, "the client is not open"))
    }

    /// Who answers questions of this kind.
    pub(crate) fn policy(&self, kind: InputKind) -> InputPolicy {
        self.link.get().map_or(InputPolicy::Refuse, |link| link.policies[kind as usize])
    }

    /// Takes up a task by its id: the one that is followed, or a new one.
    pub(crate) fn task(self: &Arc<Self>, task_id: &str) -> Result<Arc<TaskHandle>> {
        if task_id.is_empty() {
            return Err(Error::new(Kind::Argument, "the task id is empty"));
        }
        let link = self.link()?;
        if let Some(entry) = link.group.find(self.server(), task_id) {
            return Ok(TaskHandle::new(entry, self));
        }
        let _activity = self.enter()?;
        let links = self.links(link, None, self.follow_options());
        let held = link.group.adopt(task_id, self.about(), links)?;
        Ok(TaskHandle::new(held.start(), self))
    }

    pub(crate) fn follow_options(&self) -> FollowOptions {
        let tasks = &self.settings.tasks;
        FollowOptions {
            auto_poll: tasks.auto_poll,
            min_poll: tasks.min_poll,
            stop_at_ttl: tasks.stop_at_ttl,
            follow_cancel: tasks.follow_cancel,
        }
    }

    /// Sends a notification, on this thread.
    pub(crate) fn notify(self: &Arc<Self>, of_method: &str, params: &str) -> Result<()> {
        let activity = self.enter()?;
        let session = self.session()?;
        let deadline = Deadline::after(self.clock().now(), self.settings.timeouts.total, Budget::Total);
        activity.run(deadline, |cancel| {
            let scope = self.scope(cancel, deadline);
            session.notify(of_method, params, &scope)
        })
    }

    /// The limits of a round trip of this client's.
    pub(crate) fn scope<'a>(&self, cancel: &'a CancelToken, deadline: Deadline) -> Scope<'a> {
        let timeouts = self.settings.timeouts;
        let total = Deadline::after(self.clock().now(), timeouts.total, Budget::Total);
        Scope { cancel, total: total.tighter(deadline), idle: timeouts.idle, connect: timeouts.connect }
    }

    /// Looks at everything that is due or degraded now (the network came back, the machine woke).
    pub(crate) fn poke(&self) {
        if let Some(link) = self.link.get() {
            link.group.poke();
        }
    }

    /// The counters, as a JSON object.
    pub(crate) fn stats(&self) -> String {
        let Counters { queued, delivered, coalesced, dropped } = self.mailbox.counters();
        let (calls, tasks) = (self.calls.lock().len(), self.entries().len());
        format!(
            "{{\"calls_in_flight\":{calls},\"tasks\":{tasks},\"events_queued\":{queued},\"events_delivered\":{delivered},\
             \"events_coalesced\":{coalesced},\"events_dropped\":{dropped}}}"
        )
    }

    /// The manual queue, where this thread is the one that serves it and is not inside a callback.
    pub(crate) fn serving_queue(&self) -> Option<Arc<Queue>> {
        self.mailbox.queue().filter(|queue| !in_callback() && queue.is_served_here())
    }

    /// Something happened that a wait may be waiting for.
    pub(crate) fn kick(&self) {
        if let Some(queue) = self.mailbox.queue() {
            queue.kick();
        }
    }

    pub(crate) fn next_call_id(&self) -> i64 {
        self.next_call.fetch_add(1, Ordering::Relaxed)
    }

    /// Turns a note of the server's into an event or a log line.
    pub(crate) fn note(&self, call: Option<&Arc<Call>>, note: Note) {
        let mut event = Event::new(EventKind::Notification);
        event.call_id = call.map(|call| call.id());
        match note {
            Note::Asked(question) => return self.asked(call, question),
            Note::Withdrawn(key) => return self.taken_back(call, &key),
            Note::Progress(params) => {
                event.kind = EventKind::Progress;
                event.json = Some(params);
            }
            Note::Log(params) => {
                event.kind = EventKind::LogMessage;
                event.json = Some(params);
            }
            Note::Other { method, params } => {
                event.method = Some(method);
                event.json = Some(params);
            }
            Note::Stderr(line) => {
                log(LogLevel::Debug, || format!("the server's standard error: {line}"));
                event.kind = EventKind::LogMessage;
                let data = quote(&line);
                event.json = Some(Json::trusted(format!(r#"{{"level":"info","logger":"stderr","data":{data}}}"#)));
            }
            Note::Oddity(line) => return log(LogLevel::Warn, || line),
        }
        event.call = call.cloned();
        self.mailbox.post(event);
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

    fn leave(self: &Arc<Self>) {
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

    /// Registers a call that has begun.
    pub(crate) fn add_call(&self, call: &Arc<Call>) {
        self.calls.lock().insert(call.id(), call.clone());
        // A close that came in between has not seen this call.
        if matches!(self.state(), State::Closing | State::Closed) {
            call.cancel(Why::Closing);
        }
    }

    /// Forgets a call that is over.
    pub(crate) fn remove_call(&self, id: i64) {
        let gone = self.calls.lock().remove(&id);
        drop(gone);
    }

    /// Runs a step of an async call on a worker, now or when its turn comes.
    pub(crate) fn fly(&self, call: Arc<Call>) {
        {
            let mut flights = self.flights.lock();
            if flights.running >= self.settings.max_in_flight {
                flights.waiting.push_back(call);
                return;
            }
            flights.running += 1;
        }
        self.take_off(call);
    }

    fn take_off(&self, call: Arc<Call>) {
        let Some(client) = self.me.upgrade() else {
            return;
        };
        let flying = call.clone();
        let submitted = self.runtime.calls.submit(Box::new(move || {
            flying.step_guarded();
            drop(flying);
            client.land();
        }));
        if let Err(refused) = submitted {
            call.fail(refused);
            self.flights.lock().running -= 1;
        }
    }

    /// A worker is free: the next one in line flies.
    fn land(&self) {
        let next = {
            let mut flights = self.flights.lock();
            let next = flights.waiting.pop_front();
            if next.is_none() {
                flights.running -= 1;
            }
            next
        };
        if let Some(call) = next {
            self.take_off(call);
        }
    }
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

/// Runs a step whose panic must not leave anybody waiting.
pub(crate) fn guarded<T>(step: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(step)).unwrap_or_else(|_| {
        let message = "a panic inside the library was caught; please report it";
        super::logging::error(message);
        Err(Error::new(Kind::Panic, message))
    })
}

fn closed() -> Error {
    Error::new(Kind::Closed, "the client is closed")
}

/// Hears what the server says outside any call, and what comes on a channel and belongs to no request.
struct Ear(Weak<Client>);

impl Ear {
    fn hear(&self, note: Note) {
        if let Some(client) = self.0.upgrade() {
            client.note(None, note);
        }
    }
}

impl Outside for Ear {
    fn note(&self, note: Note) {
        self.hear(note);
    }
}

impl Asides for Ear {
    fn note(&self, note: Note) {
        self.hear(note);
    }
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
