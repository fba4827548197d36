//! The server's own requests (legacy revisions): `ping` is answered here, questions go to the client as [`Question`]s,
//! everything else is refused. Answers leave on workers, so that no stream waits for them.

use std::fmt;
use std::sync::Arc;

use crate::cancel::CancelToken;
use crate::clock::Budget;
use crate::error::one_line;
use crate::protocol::input::{InputKind, InputRequest};
use crate::protocol::json::Json;
use crate::protocol::jsonrpc::{write_fault, write_result};
use crate::protocol::limits::Limits;
use crate::protocol::method;
use crate::session::progress::Tokens;
use crate::session::request::{Note, Notes};
use crate::session::settings::{Means, Outside, Patience};
use crate::session::standing::Standing;
use crate::session::subscribers::Subscribers;
use crate::session::verdict::judge;
use crate::transport::{Outgoing, Transport};

/// JSON-RPC 2.0, section 5.1.
const METHOD_NOT_FOUND: i64 = -32601;
/// "User rejected sampling request" (2025-11-25 `client/sampling`, "Error Handling").
const REJECTED: i64 = -1;
/// JSON-RPC 2.0, section 5.1; for roots (2025-11-25 `client/roots`, "Error Handling").
const INTERNAL: i64 = -32603;

/// The desk of one legacy session.
pub(super) struct Desk {
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
        transport: Arc<dyn Transport>,
        patience: Patience,
        limits: Limits,
        means: Means,
        life: Arc<CancelToken>,
    ) -> Arc<Self> {
        let (subscribers, tokens) = (Subscribers::default(), Arc::default());
        Arc::new(Self { transport, patience, means, limits, life, subscribers, tokens })
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
            let method = one_line(&method);
            notes.note(Note::Oddity(format!("the server asked for {method}, which clients do not offer")));
            return self.post(standing, write_fault(&id, METHOD_NOT_FOUND, "Method not found"), "a refusal");
        };
        let request = InputRequest { key: key_of(&id), kind, params };
        let question = Question { request, id, desk: self.clone(), standing: standing.clone() };
        notes.note(Note::Asked(question));
    }

    /// Takes a notification that withdraws a question of the server's; false for any other.
    pub(super) fn withdrawn(&self, of_method: &str, params: &Json, notes: &mut dyn Notes) -> bool {
        if of_method != method::CANCELLED {
            return false;
        }
        if let Some(id) = params.members().ok().and_then(|members| members.some("requestId").map(key_of)) {
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

    fn deliver(&self, standing: &Standing, message: &str, what: &str) {
        let scope = self.patience.scope(&self.life, &*self.means.clock, self.patience.idle, Budget::Idle);
        let headers = standing.headers();
        let sent = self
            .transport
            .notify(Outgoing { life: standing.life, body: message, headers: &headers, id: None, token: None }, &scope);
        if let Err(fault) = sent {
            let error = judge(what, fault, &self.limits).error;
            self.means.outside.note(Note::Oddity(format!("{what} did not reach the server: {error}")));
        }
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
