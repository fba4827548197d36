//! The client: what it is made of, and what it answers. Its life is in `life.rs`, its calls' turns in `flights.rs`, its
//! tasks in `ties.rs`.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Weak};

use once_cell::sync::OnceCell;
use parking_lot::{Condvar, Mutex};

use crate::cancel::CancelToken;
use crate::client::call::Call;
use crate::client::event::{Event, EventKind, Handler};
use crate::client::flights::Flights;
use crate::client::follow::Wire;
use crate::client::input::{Input, event_kind};
use crate::client::life::{Life, State};
use crate::client::logging::{LogLevel, log};
use crate::client::mailbox::{Counters, Mailbox, Outlet};
use crate::client::queue::{Queue, in_callback};
use crate::client::runtime::Runtime;
use crate::client::settings::{InputPolicy, Settings, Validation};
use crate::client::target::reach;
use crate::clock::{Budget, Clock, Deadline};
use crate::error::{Error, Kind, Result};
use crate::protocol::capability::{ClientCapabilities, ServerFacts};
use crate::protocol::input::InputKind;
use crate::protocol::json::{Json, quote};
use crate::protocol::method::ListKind;
use crate::session::{Asides, Kept, Means, Note, Outside, Patience, Session, SessionSettings};
use crate::tasks::driver::Group;
use crate::tasks::ledger::{Ledger, MemoryLedger};
use crate::transport::stream::{HostStream, StreamSlot};
use crate::transport::{Scope, Transport};

/// What exists from opening on: the handlers decide what is declared.
pub(super) struct Link {
    pub(super) session: Arc<Session>,
    pub(super) wire: Arc<Wire>,
    pub(super) group: Arc<Group>,
    pub(super) policies: [InputPolicy; 3],
}

/// A client of one server.
pub(crate) struct Client {
    pub(super) me: Weak<Client>,
    pub(super) settings: Settings,
    pub(super) runtime: Arc<Runtime>,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) stream: Option<Arc<StreamSlot>>,
    pub(super) mailbox: Arc<Mailbox>,
    /// The name of the server in the ledger.
    pub(super) identity: Arc<str>,
    pub(super) ledger: OnceCell<Arc<dyn Ledger>>,
    /// The ledger is being tended.
    pub(super) tending: AtomicBool,
    pub(super) link: OnceCell<Link>,
    pub(super) life: Mutex<Life>,
    pub(super) changed: Condvar,
    pub(super) calls: Mutex<HashMap<i64, Arc<Call>>>,
    pub(super) trips: Mutex<Vec<Weak<CancelToken>>>,
    /// The open questions of a legacy server's that belong to no call.
    pub(super) questions: Mutex<Vec<Arc<Input>>>,
    pub(super) flights: Mutex<Flights>,
    pub(super) next_call: AtomicI64,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client of {}", self.transport.origin())
    }
}

impl Client {
    /// Checks everything: reads the files that the settings name, and the environment; touches nothing else.
    pub(crate) fn new(settings: Settings) -> Result<Arc<Self>> {
        let runtime = Runtime::current();
        let reach = reach(&settings, &runtime.clock, &runtime.spawn)?;
        let mailbox = Mailbox::new(Outlet::Library(runtime.dispatchers.clone()), settings.queue_limit);
        let life = Life { state: State::New, facts: None, error: None, active: 0, opening: Arc::default() };
        for warning in &settings.warnings {
            log(LogLevel::Warn, || warning.clone());
        }
        let identity = settings.identity.clone().unwrap_or_else(|| settings.target.identity()).into();
        let kept = &settings.tasks.ledger;
        let in_memory = kept.file.is_none().then(|| MemoryLedger::keeping(kept.options.keep_ended));
        let in_memory = in_memory.map(|ledger| Arc::new(ledger) as Arc<dyn Ledger>);
        let client = Arc::new_cyclic(|me| Self {
            me: me.clone(),
            settings,
            runtime,
            transport: reach.transport,
            stream: reach.stream,
            mailbox,
            identity,
            // A file is touched at opening.
            ledger: in_memory.map_or_else(OnceCell::new, OnceCell::with_value),
            tending: AtomicBool::new(false),
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
        if let Some(tape) = reach.tape {
            let me = client.me.clone();
            tape.on_trouble(Box::new(move |error| {
                if let Some(client) = me.upgrade() {
                    client.mailbox.post(Event { error: Some(error), ..Event::new(EventKind::Error) });
                }
            }));
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

    pub(super) fn make_link(&self) -> Result<Link> {
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
            life: runtime.life.clone(),
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

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.runtime.clock
    }

    /// The session and what hangs on it; there from opening on.
    pub(crate) fn session(&self) -> Result<&Arc<Session>> {
        Ok(&self.link()?.session)
    }

    pub(super) fn link(&self) -> Result<&Link> {
        self.link.get().ok_or_else(|| Error::new(Kind::State, "the client is not open"))
    }

    /// Who answers questions of this kind.
    pub(crate) fn policy(&self, kind: InputKind) -> InputPolicy {
        self.link.get().map_or(InputPolicy::Refuse, |link| link.policies[kind as usize])
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

    /// What is wrong with a tool's result by its output schema, where anybody asks.
    pub(crate) fn flaw(&self, tool: &str, result: &Json, validation: Validation) -> Option<Error> {
        if validation == Validation::Off {
            return None;
        }
        let mut notes = |note: Note| self.note(None, note);
        let flaw = self.session().ok()?.check_result(tool, result, &mut notes).err()?;
        if validation == Validation::Warn {
            log(LogLevel::Warn, || flaw.message().to_owned());
            return None;
        }
        Some(flaw)
    }

    /// The limits of a round trip of this client's.
    pub(crate) fn scope<'a>(&self, cancel: &'a CancelToken, deadline: Deadline) -> Scope<'a> {
        let timeouts = self.settings.timeouts;
        let total = Deadline::after(self.clock().now(), timeouts.total, Budget::Total);
        Scope { cancel, total: total.tighter(deadline), idle: timeouts.idle, connect: timeouts.connect }
    }

    /// The counters, as a JSON object.
    pub(crate) fn stats(&self) -> String {
        let Counters { queued, delivered, coalesced, dropped } = self.mailbox.counters();
        let (calls, tasks) = (self.calls.lock().len(), self.entries().len());
        let Kept { entries, bytes, hits } = self.link.get().map(|link| link.session.kept()).unwrap_or_default();
        format!(
            "{{\"calls_in_flight\":{calls},\"tasks\":{tasks},\"events_queued\":{queued},\"events_delivered\":{delivered},\
             \"events_coalesced\":{coalesced},\"events_dropped\":{dropped},\"cache_entries\":{entries},\"cache_bytes\":{bytes},\
             \"cache_hits\":{hits}}}"
        )
    }

    /// How often a list of the server's is known to have changed, from 1.
    pub(crate) fn generation(&self, kind: ListKind) -> u64 {
        self.link.get().map_or(1, |link| link.session.generation(kind))
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
            Note::Task(task) => return self.task_told(*task),
            Note::Progress(params) => {
                event.kind = EventKind::Progress;
                event.json = Some(params);
            }
            Note::ProgressOf { call, params } => {
                event.kind = EventKind::Progress;
                event.json = Some(params);
                event.call_id = Some(call);
                event.call = self.calls.lock().get(&call).cloned();
                return self.mailbox.post(event);
            }
            Note::Subscription(news) => {
                event.kind = EventKind::Subscription;
                event.subscription = Some(news.state);
                event.json = news.json;
                event.error = news.error;
            }
            Note::Log(params) => {
                event.kind = EventKind::LogMessage;
                event.json = Some(params);
            }
            Note::Other { method, params } => {
                // On whatever way it came: all of them end here, but for those on the stream of a task's poll
                // (`follow.rs`). The host hears of it when old answers are forgotten.
                if let Some(link) = self.link.get() {
                    link.session.hear(&method, &params);
                }
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
}

/// Runs a step whose panic must not leave anybody waiting.
pub(crate) fn guarded<T>(step: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(step)).unwrap_or_else(|_| {
        let message = "a panic inside the library was caught; please report it";
        super::logging::error(message);
        Err(Error::new(Kind::Panic, message))
    })
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

    fn renewed(&self, facts: ServerFacts) {
        if let Some(client) = self.0.upgrade() {
            client.renewed(facts);
        }
    }
}

impl Asides for Ear {
    fn note(&self, note: Note) {
        self.hear(note);
    }
}
