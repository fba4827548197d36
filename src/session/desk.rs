//! The server's own requests (legacy revisions): `ping` is answered here, questions go to the client as [`Question`]s,
//! everything else is refused. Answers leave on workers, so that no stream waits for them.

use std::fmt;
use std::sync::{Arc, Weak};

use crate::cancel::CancelToken;
use crate::clock::Budget;
use crate::error::one_line;
use crate::protocol::input::{InputKind, InputRequest};
use crate::protocol::json::Json;
use crate::protocol::jsonrpc::{write_fault, write_result};
use crate::protocol::legacy_task::{LegacyTask, related_task};
use crate::protocol::limits::Limits;
use crate::protocol::method;
use crate::session::legacy::Legacy;
use crate::session::progress::Tokens;
use crate::session::request::{Note, Notes};
use crate::session::settings::{Means, Outside, Patience, SessionSettings};
use crate::session::standing::Standing;
use crate::session::subscribers::Subscribers;
use crate::session::verdict::judge;
use crate::transport::{Fault, Outgoing, Scope, Transport};

/// JSON-RPC 2.0, section 5.1.
const METHOD_NOT_FOUND: i64 = -32601;
/// "User rejected sampling request" (2025-11-25 `client/sampling`, "Error Handling").
const REJECTED: i64 = -1;
/// JSON-RPC 2.0, section 5.1; for roots (2025-11-25 `client/roots`, "Error Handling").
const INTERNAL: i64 = -32603;
/// JSON-RPC 2.0, section 5.1.
const INVALID_PARAMS: i64 = -32602;

/// The desk of one legacy session.
pub(super) struct Desk {
    /// Whose desk it is; it knows what belongs to a task.
    legacy: Weak<Legacy>,
    transport: Arc<dyn Transport>,
    patience: Patience,
    means: Means,
    limits: Limits,
    life: Arc<CancelToken>,
    subscribers: Subscribers,
    tokens: Arc<Tokens>,
}

impl Desk {
    pub(super) fn new(
        legacy: Weak<Legacy>,
        transport: Arc<dyn Transport>,
        settings: &SessionSettings,
        means: Means,
        life: Arc<CancelToken>,
    ) -> Arc<Self> {
        let (patience, limits) = (settings.patience, settings.limits.clone());
        let (subscribers, tokens) = (Subscribers::default(), Arc::default());
        Arc::new(Self { legacy, transport, patience, means, limits, life, subscribers, tokens })
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(super) fn outside(&self) -> Arc<dyn Outside> {
        self.means.outside.clone()
    }

    /// Who hears what the server tells everybody.
    pub(super) fn subscribers(&self) -> &Subscribers {
        &self.subscribers
    }

    /// The open requests that want progress.
    pub(super) fn tokens(&self) -> &Arc<Tokens> {
        &self.tokens
    }

    /// Takes a notification that a subscription wants; false for any other.
    pub(super) fn subscribed(&self, of_method: &str, params: &Json, notes: &mut dyn Notes) -> bool {
        let line = "more notifications came for a subscription than it could take; the oldest was dropped";
        self.subscribers.offer(of_method, params, || notes.note(Note::Oddity(line.into())))
    }

    /// Takes progress that came beside the stream of its request; [`None`] for a token that is not open.
    pub(super) fn progressed(&self, params: &Json) -> Option<Note> {
        let token = params.members().ok().and_then(|members| members.some("progressToken").map(str::to_owned))?;
        let call = self.tokens.beat(&token, self.means.clock.now())?;
        // A request of the library's own has nobody to tell.
        let nobody = || Note::Oddity("the server told progress that nobody asked for".into());
        Some(call.map_or_else(nobody, |call| Note::ProgressOf { call, params: params.clone() }))
    }

    /// Takes a request of the server's; `id` is its id as JSON text.
    pub(super) fn asked(self: &Arc<Self>, standing: &Arc<Standing>, asked: Asked, notes: &mut dyn Notes) {
        let Asked { id, method, params } = asked;
        if method == method::PING {
            return self.post(standing, write_result(&id, "{}"), "the answer to a ping");
        }
        let Some(kind) = InputKind::of_method(&method) else {
            if let Some(answer) = about_our_tasks(&method, &id) {
                return self.post(standing, answer, "an answer about tasks");
            }
            let method = one_line(&method);
            notes.note(Note::Oddity(format!("the server asked for {method}, which clients do not offer")));
            return self.post(standing, write_fault(&id, METHOD_NOT_FOUND, "Method not found"), "a refusal");
        };
        let request = InputRequest { key: key_of(&id), kind, params };
        let task = related_task(&request.params);
        let question = Question { request, id, desk: self.clone(), standing: standing.clone() };
        match (task, self.legacy.upgrade()) {
            (Some(task), Some(legacy)) => legacy.task_asked(task, question, notes),
            (None, _) | (_, None) => notes.note(Note::Asked(question)),
        }
    }

    /// Takes a notification that is about a task that is followed; false for any other.
    pub(super) fn told(&self, of_method: &str, params: &Json, notes: &mut dyn Notes) -> bool {
        if of_method != method::TASK_STATUS {
            return false;
        }
        match LegacyTask::read(params) {
            Ok(status) => self.legacy.upgrade().is_some_and(|legacy| legacy.task_told(status)),
            Err(error) => {
                notes.note(Note::Oddity(format!("a notification about a task was passed over: {error}")));
                false
            }
        }
    }

    /// Takes a notification that withdraws a question of the server's; false for any other.
    pub(super) fn withdrawn(
        &self,
        standing: &Standing,
        (of_method, params): (&str, &Json),
        notes: &mut dyn Notes,
    ) -> bool {
        if of_method != method::CANCELLED {
            return false;
        }
        let Some(id) = params.members().ok().and_then(|members| members.some("requestId").map(key_of)) else {
            return true;
        };
        let of_a_task = self.legacy.upgrade().is_some_and(|legacy| legacy.task_withdrawn(standing.number, &id));
        if !of_a_task {
            notes.note(Note::Withdrawn(id));
        }
        true
    }

    /// Sends a message that has no answer, on a worker.
    pub(super) fn post(self: &Arc<Self>, standing: &Arc<Standing>, message: String, what: &'static str) {
        let (desk, standing) = (self.clone(), standing.clone());
        let submitted =
            self.means.errands.spawn("mcp-answer", Box::new(move || desk.deliver(&standing, &message, what)));
        if let Err(refused) = submitted {
            self.means.outside.note(Note::Oddity(format!("{what} was not sent: {refused}")));
        }
    }

    fn send(&self, standing: &Standing, message: &str, scope: &Scope<'_>) -> Result<(), Fault> {
        let headers = standing.headers();
        let outgoing = Outgoing { life: standing.life, body: message, headers: &headers, id: None, token: None };
        self.transport.notify(outgoing, scope)
    }

    fn deliver(&self, standing: &Standing, message: &str, what: &str) {
        let scope = self.patience.scope(&self.life, &*self.means.clock, self.patience.idle, Budget::Idle);
        if let Err(fault) = self.send(standing, message, &scope) {
            let error = judge(what, fault, &self.limits).error;
            self.means.outside.note(Note::Oddity(format!("{what} did not reach the server: {error}")));
        }
    }
}

/// The server asks for tasks of ours (2025-11-25 `basic/utilities/tasks`): there are none.
fn about_our_tasks(of_method: &str, id: &str) -> Option<String> {
    match of_method {
        method::TASKS_LIST => Some(write_result(id, "{\"tasks\":[]}")),
        method::TASKS_GET | method::TASKS_RESULT | method::TASKS_CANCEL => {
            Some(write_fault(id, INVALID_PARAMS, "Task not found"))
        }
        _ => None,
    }
}

/// A request of the server's.
pub(super) struct Asked {
    /// Its id, as JSON text.
    pub id: String,
    /// Its method.
    pub method: String,
    /// Its params.
    pub params: Json,
}

/// The key of a question: the server's id, a string without its quotes.
fn key_of(id: &str) -> String {
    serde_json::from_str(id).unwrap_or_else(|_| id.to_owned())
}

/// A question of a legacy server, open until it is answered or withdrawn.
#[derive(Clone)]
pub(crate) struct Question {
    /// What is asked.
    pub request: InputRequest,
    id: String,
    desk: Arc<Desk>,
    standing: Arc<Standing>,
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "question {} of the server's: {}", self.id, self.request.kind.method())
    }
}

impl Question {
    /// The server's id of it, as JSON text.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The number of the session that it was asked in.
    pub(super) fn session(&self) -> u64 {
        self.standing.number
    }

    /// Sends the whole answer now.
    pub(super) fn send(&self, message: &str, scope: &Scope<'_>) -> Result<(), Fault> {
        self.desk.send(&self.standing, message, scope)
    }

    /// No task came that it belongs to: it is asked as what belongs to nothing.
    pub(super) fn ask_outside(mut self) {
        self.request.key = key_of(&self.id);
        self.desk.outside().note(Note::Asked(self));
    }

    /// Answers; the answer leaves on a worker.
    pub(crate) fn answer(&self, response: &Json) {
        self.desk.post(&self.standing, write_result(&self.id, response.text()), "an answer to the server");
    }

    /// Refuses: nobody here can, or will, answer.
    pub(crate) fn refuse(&self, why: &str) {
        let code = match self.request.kind {
            InputKind::Sampling => REJECTED,
            InputKind::Elicitation | InputKind::Roots => INTERNAL,
        };
        self.desk.post(&self.standing, write_fault(&self.id, code, why), "a refusal");
    }

    /// Says that this client does not offer that at all.
    pub(crate) fn not_offered(&self) {
        let message = format!("{} is not offered by this client", self.request.kind.method());
        self.desk.post(&self.standing, write_fault(&self.id, METHOD_NOT_FOUND, &message), "a refusal");
    }
}
